//! What the controllers see and would do, for tools that explain it: the same code reads, resolves and decides, but the
//! objects are listed once. Nothing is written, except by [`View::release`], on a user's request.
//!
//! Only the controllers know which calls are under way, and what Neutron refused recently; that is missing here.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use tokio::sync::Mutex;

use super::claim::{build_request, observe_claim, triage};
use super::kubernetes::Kubernetes;
use super::memory::{Memory, Problem, ResolvedPool};
use super::neutron_writer::NeutronWriter;
use super::patch;
use super::pool::{CapoObjects, IdentityError, PoolFailure, Resolver};
use super::project::Projects;
use super::stores::{Stores, name_of, sorted};
use super::sweeper::cluster_view;
use super::watch;
use crate::allocation::claim::{ClaimRequest, Decision, decide};
use crate::allocation::ledger::{CreationBlock, LedgerEntry};
use crate::allocation::situation::QueuePosition;
use crate::allocation::sweep::{SweepAction, SweepPlan, SweepScope, plan_sweep};
use crate::allocation::usage::{self, PoolUsage};
use crate::allocation::{CapoAddresses, InTreePools, PoolPolicy, Refusal, Situation};
use crate::api::conditions::pool_reasons::DUPLICATE_POOL_ID;
use crate::api::{IpAddress, IpAddressClaim, IpamVersion, OpenStackFloatingIPPool};
use crate::clock::Clock;
use crate::floating_ip::{FloatingIp, FloatingIpId};
use crate::object_name::ObjectName;
use crate::openstack::{self, Clouds, Credentials, Network, ProjectScope, Quota};
use crate::runtime::flags::Namespaces;
use crate::time::after;

pub use super::claim::{NextStep, SkipReason};

/// One management cluster, as it was last listed.
pub struct Inspection {
    kube: Kubernetes,
    namespace: Option<String>,
    stores: Stores,
    memory: Arc<Memory>,
    resolver: Resolver,
    // tokio's mutex: held for a listing, which is its purpose.
    writers: Mutex<watch::Writers>,
}

/// Which step of connecting a pool to OpenStack fails.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Stage {
    /// Another pool has the same name or id.
    Name,
    /// The Secret, its content, or the session with Keystone.
    Credentials,
    /// The network or a subnet.
    Network,
    Neutron,
}

/// Why a pool cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{message}")]
pub struct ConnectionProblem {
    pub stage: Stage,
    /// The reason of the pool's `Ready` condition.
    pub reason: &'static str,
    pub message: String,
}

impl ConnectionProblem {
    fn of(failure: &PoolFailure) -> Self {
        let Problem { reason, message } = failure.problem();
        let stage = match failure {
            PoolFailure::Conflict(_) => Stage::Name,
            PoolFailure::Credentials(_) | PoolFailure::Access(_) | PoolFailure::Session(_) => Stage::Credentials,
            PoolFailure::Network(_) => Stage::Network,
            PoolFailure::Neutron(_) => Stage::Neutron,
        };
        Self { stage, reason, message }
    }
}

/// What the controllers would do for a claim now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// What is known already decides this, without another call to OpenStack.
    Due(NextStep),
    /// Its IPAddress was created by another writer; the message says so.
    Foreign(String),
    /// The next thing to do in OpenStack.
    Next(Decision),
}

impl Inspection {
    /// Lists what the controllers watch, in one namespace or in all of them. `version` is what [`IpamVersion::discover`]
    /// found.
    pub async fn open(
        client: kube::Client,
        clouds: Arc<dyn Clouds>,
        namespace: Option<String>,
        version: IpamVersion,
    ) -> Result<Self, kube::Error> {
        let kube = Kubernetes { client, version };
        let (stores, writers) = watch::stores(version);
        let memory = Arc::new(Memory::default());
        let resolver = Resolver {
            kube: kube.clone(),
            stores: stores.clone(),
            memory: memory.clone(),
            clouds,
            projects: Arc::new(Projects::new(usize::MAX)),
            clock: Clock::system(),
            capo: Arc::new(CapoObjects::new(kube.clone(), namespace.clone(), memory.clone(), Clock::system())),
            // The controller's conditions say which it uses.
            identity_namespaces: Namespaces::all(),
            fence_from: None,
            awaits_calls_elsewhere: false,
        };
        let inspection = Self { kube, namespace, stores, memory, resolver, writers: Mutex::new(writers) };
        inspection.refresh().await?;
        Ok(inspection)
    }

    /// Lists everything again. To compare Kubernetes with what a [`View`] saw in Neutron, call it after
    /// [`Inspection::inspect_pool`]: what was marked by then had its claim by then.
    pub async fn refresh(&self) -> Result<(), kube::Error> {
        let mut writers = self.writers.lock().await;
        watch::list_all(&self.kube, self.namespace.as_deref(), &self.memory, &mut writers).await
    }

    pub fn pools(&self) -> Vec<Arc<OpenStackFloatingIPPool>> {
        sorted(&self.stores.pools, |_| true)
    }

    /// The claims on the pools of every provider, by name.
    pub fn claims(&self) -> Vec<Arc<IpAddressClaim>> {
        sorted(&self.stores.claims, |_| true)
    }

    /// The IPAddresses of every provider, by name.
    pub fn addresses(&self) -> Vec<Arc<IpAddress>> {
        sorted(&self.stores.addresses, |_| true)
    }

    /// What of the pool's credentials this user may not read, and why: the Secret, or the cluster identity that names it.
    pub async fn find_forbidden(&self, pool: &OpenStackFloatingIPPool) -> Option<String> {
        let is_forbidden = |error: &kube::Error| {
            matches!(error, kube::Error::Api(status) if matches!(status.code, 401 | 403)).then(|| patch::reply(error))
        };
        match self.resolver.find_secret(pool).await {
            Ok(secret) => {
                let read = self.kube.secrets(&secret.namespace).get_metadata(&secret.name).await;
                read.err().and_then(|error| is_forbidden(&error))
            }
            Err(IdentityError::Unread(_, error)) => is_forbidden(&error),
            Err(IdentityError::Refused(_)) => None,
        }
    }

    /// Why pools of CAPO with the names of ours would not be seen, if that is so.
    pub async fn find_unseen(&self) -> Option<String> {
        self.resolver.capo.pool_names(false).await.err().map(|error| patch::reply(&error))
    }

    /// Resolves a pool and lists its project, with the credentials of its Secret or with the user's own.
    pub async fn inspect_pool(
        &self,
        pool: &OpenStackFloatingIPPool,
        own: Option<&Credentials>,
    ) -> Result<View, ConnectionProblem> {
        let name = name_of(pool);
        match self.resolve(pool, own).await {
            Ok(resolved) => {
                self.memory.pools.update(&name, |state| state.serve(resolved.clone(), pool));
                Ok(self.view(resolved))
            }
            Err(failure) => {
                self.memory.pools.update(&name, |state| state.problem = Some(failure.problem()));
                Err(ConnectionProblem::of(&failure))
            }
        }
    }

    async fn resolve(
        &self,
        pool: &OpenStackFloatingIPPool,
        own: Option<&Credentials>,
    ) -> Result<Arc<ResolvedPool>, PoolFailure> {
        let id = self.resolver.intended_id(pool);
        match self.resolver.find_conflict(pool, &id).await {
            Ok(None) => {}
            Ok(Some(problem)) => return Err(PoolFailure::Conflict(problem)),
            Err(error) => {
                // `find_unseen` tells it. Not as the controller, which would reuse nothing: it may list them.
                tracing::debug!("conflicts with other pools are not known: {error}");
                self.memory.published.write().note_in_tree_pools(InTreePools::NotServed);
            }
        }
        let resolved = match own {
            Some(credentials) => self.resolver.resolve_with(pool, &id, credentials).await?,
            None => {
                let credentials = self.resolver.read_credentials(pool).await?;
                self.resolver.resolve_with(pool, &id, &credentials).await?
            }
        };
        resolved.list_now(&self.resolver.clock).await.map_err(PoolFailure::Neutron)?;
        if resolved.reuses()
            && let Err(error) = self.resolver.capo.refresh_clusters(false).await
        {
            // Not as the controller, which would reuse nothing: it may list them even if this user may not.
            tracing::debug!("what CAPO's clusters name is not known: {error}");
            self.memory.published.write().set_named_by_clusters(Some(CapoAddresses::default()));
        }
        // Of which project the pools of other namespaces are, the controller knows.
        match reported_duplicate(pool) {
            Some(message) => Err(PoolFailure::Conflict(Problem { reason: DUPLICATE_POOL_ID, message })),
            None => Ok(resolved),
        }
    }

    /// What to do for a claim; with the decision in OpenStack if its pool was [inspected](Self::inspect_pool).
    pub fn verdict(&self, claim: &Arc<IpAddressClaim>) -> Verdict {
        let observed = observe_claim(claim.clone(), &self.stores, &self.memory, None);
        match (triage(&observed), &observed.pool_state.resolved) {
            (NextStep::Serve, Some(pool)) => match build_request(&observed, pool) {
                Err(message) => Verdict::Foreign(message),
                Ok(request) => {
                    let now = self.resolver.clock.now();
                    Verdict::Next(self.view(pool.clone()).decide(&request, |_| {}, now))
                }
            },
            (next_step, _) => Verdict::Due(next_step),
        }
    }

    /// What would be decided for a claim if its pool were another, or if it were later.
    pub fn decide_hypothetically(
        &self,
        claim: &Arc<IpAddressClaim>,
        change: impl FnOnce(&mut PoolPolicy),
        now: Timestamp,
    ) -> Option<Decision> {
        let observed = observe_claim(claim.clone(), &self.stores, &self.memory, None);
        let pool = observed.pool_state.resolved.clone()?;
        let request = build_request(&observed, &pool).ok()?;
        Some(self.view(pool).decide(&request, change, now))
    }

    /// The claims of a pool that wait for an address, oldest first.
    pub fn waiting(&self, pool: &ObjectName) -> BTreeSet<QueuePosition> {
        queue(&self.stores, &self.memory, pool)
    }

    fn view(&self, pool: Arc<ResolvedPool>) -> View {
        let clock = self.resolver.clock.clone();
        View { stores: self.stores.clone(), memory: self.memory.clone(), clock, pool }
    }
}

/// What the controller says of a pool whose id another pool has.
fn reported_duplicate(pool: &OpenStackFloatingIPPool) -> Option<String> {
    let mut conditions = pool.status.iter().flat_map(|status| &status.conditions);
    conditions.find(|condition| condition.reason == DUPLICATE_POOL_ID).map(|condition| condition.message.clone())
}

/// A usable pool, and its project as Neutron listed it.
pub struct View {
    stores: Stores,
    memory: Arc<Memory>,
    clock: Clock,
    pool: Arc<ResolvedPool>,
}

impl View {
    pub fn policy(&self) -> &PoolPolicy {
        &self.pool.policy
    }

    /// None for a closed list.
    pub fn network(&self) -> Option<&Network> {
        self.pool.network.as_ref()
    }

    pub fn scope(&self) -> &ProjectScope {
        self.pool.neutron.scope()
    }

    /// The project's quota, where it may be read.
    pub async fn quota(&self) -> Result<Option<Quota>, openstack::Error> {
        let quota = self.pool.neutron.quota().await?;
        if let Some(Quota { limit: Some(limit), used }) = quota
            && used >= limit
        {
            // Neutron would answer a POST with this refusal; none is sent here.
            let until = after(self.clock.now(), SignedDuration::from_hours(1));
            let block = CreationBlock { refusal: Refusal::QuotaReached, until };
            self.pool.project.ledger().block_creation(self.pool.policy.id.clone(), block);
        }
        Ok(quota)
    }

    pub fn usage(&self) -> PoolUsage {
        self.memory.with_situation(&self.pool.project.ledger(), &self.pool, self.clock.now(), usage::count)
    }

    /// Every floating IP of the project, with its marks.
    pub fn entries(&self) -> Vec<LedgerEntry> {
        self.pool.project.ledger().entries().cloned().collect()
    }

    /// What a sweep would do. With `orphaned_since`, as if these had been seen as orphans at that time.
    pub fn sweep(&self, orphaned_since: Option<(Timestamp, &[FloatingIpId])>) -> SweepPlan {
        let cluster = cluster_view(&self.stores, &self.memory, &self.pool);
        let mut pool = ResolvedPool::clone(&self.pool);
        let mut ledger = self.pool.project.ledger();
        if let Some((since, ids)) = orphaned_since {
            ledger.note_orphans(&pool.policy.id, ids, since);
            // The user requests it, whatever the pool's policy is, and has seen the orphans in the report.
            (pool.policy.releases_orphans, pool.policy.orphan_grace) = (true, SignedDuration::ZERO);
        }
        self.memory.with_situation(&ledger, &pool, self.clock.now(), |situation| {
            plan_sweep(situation, &cluster, SweepScope::All)
        })
    }

    /// Whether a Cluster of the pool's namespace is paused: a move or a restore may be under way.
    pub fn has_paused_cluster(&self) -> bool {
        self.stores.has_paused_cluster(&self.pool.name.namespace)
    }

    /// One floating IP as it is now; none when it is gone.
    pub async fn get(&self, id: &FloatingIpId) -> Result<Option<FloatingIp>, openstack::Error> {
        match self.pool.neutron.get_floating_ip(id).await {
            Ok(fip) => Ok(Some(fip)),
            Err(error) if error.kind == openstack::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Marks an orphan as released. The controllers do the rest: they check for a port again, and then delete it, keep it
    /// or remove the marks, as the pool's spec demands. Safe to repeat.
    ///
    /// Only [`SweepAction::Release`] and [`SweepAction::Describe`] are releases; anything else is left alone.
    pub async fn release(&self, action: &SweepAction) -> Result<(), openstack::Error> {
        match action {
            SweepAction::Release(..) | SweepAction::Describe(..) => {
                NeutronWriter::new(&self.pool, &self.clock).perform(action).await.map(drop)
            }
            SweepAction::Delete(_) | SweepAction::Rewrite { .. } => Ok(()),
        }
    }

    fn decide(&self, claim: &ClaimRequest, change: impl FnOnce(&mut PoolPolicy), now: Timestamp) -> Decision {
        let mut policy = self.pool.policy.clone();
        change(&mut policy);
        let queue = queue(&self.stores, &self.memory, &self.pool.name);
        let project = &self.pool.project;
        let (ledger, published, namespaces) = (project.ledger(), self.memory.published.read(), project.namespaces());
        self.memory.claims.read(&self.pool.name, |claims, _| {
            let (ledger, published, namespaces, pool, queue) = (&ledger, &published, &namespaces, &policy, &queue);
            let unresolved = &BTreeSet::new();
            decide(&Situation { ledger, published, namespaces, unresolved, pool, claims, queue, now }, claim)
        })
    }
}

/// The claims that are to be served and have no address yet.
fn queue(stores: &Stores, memory: &Memory, pool: &ObjectName) -> BTreeSet<QueuePosition> {
    let claims = stores.claims_of(pool).into_iter();
    let observed = claims.map(|claim| observe_claim(claim, stores, memory, None));
    observed.filter(|it| it.has_no_address() && triage(it) == NextStep::Serve).map(|it| it.queue_position()).collect()
}
