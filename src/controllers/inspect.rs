//! What the controllers see and would do, for tools that explain: the same code reads, resolves and decides, on objects
//! that were listed once, and nothing is done about it. The one exception is [`View::release`], which a person asks for.
//!
//! What the controllers alone know is missing here: calls that are under way, and what Neutron refused a moment ago.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use tokio::sync::Mutex;

use super::context::{Context, all, name_of, wakers};
use super::pool::{adopt, resolve, rivals};
use super::registry::ResolvedPool;
use super::{Options, Setup, act, claim, events, sweeper, watch};
use crate::allocation::claim::{ClaimRequest, Decision, decide};
use crate::allocation::count::{PoolUsage, count};
use crate::allocation::ledger::{CreationBlock, LedgerEntry, QueuePosition};
use crate::allocation::sweep::{SweepAction, SweepPlan, plan};
use crate::allocation::{PoolPolicy, Refusal};
use crate::api::{IpAddress, IpAddressClaim, IpamVersion, OpenStackFloatingIPPool};
use crate::clock::Clock;
use crate::floating_ip::FloatingIpId;
use crate::metrics::Metrics;
use crate::object_name::ObjectName;
use crate::openstack::{self, Clouds, Credentials, Network, Quota, Scope};
use crate::runtime::health::Readiness;

pub use super::claim::{NextStep, SkipReason};

/// One management cluster, as it was last listed.
pub struct Inspection {
    ctx: Arc<Context>,
    // tokio's mutex: held for a listing, which it is for.
    watches: Mutex<watch::Watches>,
}

/// Which part of a pool's way to OpenStack fails.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Stage {
    /// Another pool stands in the way.
    Name,
    /// The Secret, what is in it, or what Keystone says to it.
    Credentials,
    /// The network or a subnet.
    Network,
    /// A call to Neutron.
    Neutron,
}

/// Why a pool cannot be worked with.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{message}")]
pub struct Trouble {
    /// Where it fails.
    pub stage: Stage,
    /// The reason of the pool's `Ready` condition.
    pub reason: String,
    /// What, why, what to do.
    pub message: String,
}

/// What would be done about a claim now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Nothing can be decided in OpenStack: Kubernetes alone says what is due.
    Due(NextStep),
    /// Its IPAddress was made by somebody else.
    Foreign(String),
    /// The next thing to do.
    Next(Decision),
}

impl Inspection {
    /// Lists what the controllers watch, in one namespace or in all of them. `version` is what
    /// [`IpamVersion::discover`] found.
    pub async fn open(
        client: kube::Client,
        clouds: Arc<dyn Clouds>,
        namespace: Option<String>,
        version: IpamVersion,
    ) -> Result<Self, kube::Error> {
        let options =
            Options { namespace, watch_filter: None, claim_concurrency: 0, pool_concurrency: 0, fence: false };
        // Nobody is woken and nothing is announced: the other ends are dropped.
        let (wake, _) = wakers();
        let (events, _) = events::events(client.clone());
        let (stores, watches) = watch::stores(version);
        let clock = Clock::system();
        let setup = Setup { client, clouds, options, metrics: Metrics::new(), readiness: Readiness::new(), clock };
        let ctx = Arc::new(Context::new(setup, version, stores, wake, events));
        let it = Self { ctx, watches: Mutex::new(watches) };
        it.refresh().await?;
        Ok(it)
    }

    /// Lists everything again. Whoever compares Kubernetes with what a [`View`] saw in Neutron calls it after
    /// [`Inspection::look`]: what was marked by then had its claim by then.
    pub async fn refresh(&self) -> Result<(), kube::Error> {
        self.watches.lock().await.list(&self.ctx).await
    }

    /// The pools, by name.
    pub fn pools(&self) -> Vec<Arc<OpenStackFloatingIPPool>> {
        all(&self.ctx.stores.pools, |_| true)
    }

    /// The claims on the pools of every provider, by name.
    pub fn claims(&self) -> Vec<Arc<IpAddressClaim>> {
        all(&self.ctx.stores.claims, |_| true)
    }

    /// The IPAddresses of every provider, by name.
    pub fn addresses(&self) -> Vec<Arc<IpAddress>> {
        all(&self.ctx.stores.addresses, |_| true)
    }

    /// Whether a pool can be worked with, and then what its project has: by its Secret, or by the user's own credentials.
    pub async fn look(&self, pool: &OpenStackFloatingIPPool, own: Option<&Credentials>) -> Result<View, Trouble> {
        let result = self.resolve(pool, own).await;
        if let Err(trouble) = &result {
            let reason = trouble.reason;
            self.ctx
                .registry
                .fail(&name_of(pool), super::registry::Problem { reason, message: trouble.message.clone() });
        }
        let served = result.map_err(|found| Trouble {
            stage: found.stage,
            reason: found.reason.into(),
            message: found.message,
        })?;
        self.ctx.registry.serve(served.clone(), pool);
        Ok(View { ctx: self.ctx.clone(), served })
    }

    async fn resolve(
        &self,
        pool: &OpenStackFloatingIPPool,
        own: Option<&Credentials>,
    ) -> Result<Arc<ResolvedPool>, Found> {
        let ctx = &self.ctx;
        let id = adopt::intended(pool, ctx);
        match rivals::find(pool, &id, ctx).await {
            Ok(None) => {}
            Ok(Some(problem)) => return Err(Found::of(&resolve::PoolFailure::Rival(problem))),
            // Who may not list CAPO's pools is told so by `check`.
            Err(error) => tracing::debug!("rivals are not known: {error}"),
        }
        let resolved = match own {
            Some(credentials) => resolve::with(pool, &id, credentials, ctx).await,
            None => resolve::run(pool, &id, ctx).await,
        };
        let served = resolved.map_err(|failure| Found::of(&failure))?;
        let after = served.project.ledger().next_step();
        let looked = served.project.look(served.neutron.as_ref(), &ctx.clock, after).await;
        looked.map_err(|error| Found::of(&resolve::PoolFailure::Look(error)))?;
        Ok(served)
    }

    /// What is due for a claim; the decision in OpenStack where its pool was [looked at](Self::look).
    pub fn verdict(&self, claim: &Arc<IpAddressClaim>) -> Verdict {
        let observed = claim::read(claim.clone(), &self.ctx);
        match (claim::course(&observed, &self.ctx), &observed.known.served) {
            (NextStep::Serve, Some(served)) => match claim::request(&observed, served) {
                Err(message) => Verdict::Foreign(message),
                Ok(request) => {
                    let view = View { ctx: self.ctx.clone(), served: served.clone() };
                    Verdict::Next(view.decide(&request, |_| {}, self.ctx.clock.now()))
                }
            },
            (course, _) => Verdict::Due(course),
        }
    }

    /// What would be decided for a claim if its pool were another, or if it were later.
    pub fn suppose(
        &self,
        claim: &Arc<IpAddressClaim>,
        change: impl FnOnce(&mut PoolPolicy),
        now: Timestamp,
    ) -> Option<Decision> {
        let observed = claim::read(claim.clone(), &self.ctx);
        let served = observed.known.served.clone()?;
        let request = claim::request(&observed, &served).ok()?;
        Some(View { ctx: self.ctx.clone(), served }.decide(&request, change, now))
    }

    /// The claims of a pool that wait for any address, oldest first.
    pub fn waiting(&self, pool: &ObjectName) -> Vec<QueuePosition> {
        waiting(&self.ctx, pool)
    }
}

/// A failure, with the reason as the conditions have it.
struct Found {
    stage: Stage,
    reason: &'static str,
    message: String,
}

impl Found {
    fn of(failure: &resolve::PoolFailure) -> Self {
        let problem = failure.problem();
        let stage = match failure {
            resolve::PoolFailure::Rival(_) => Stage::Name,
            resolve::PoolFailure::Credentials(_) | resolve::PoolFailure::Session(_) => Stage::Credentials,
            resolve::PoolFailure::Network(_) => Stage::Network,
            resolve::PoolFailure::Look(_) => Stage::Neutron,
        };
        Self { stage, reason: problem.reason, message: problem.message }
    }
}

/// A pool that can be worked with, and its project as Neutron listed it.
pub struct View {
    ctx: Arc<Context>,
    served: Arc<ResolvedPool>,
}

impl View {
    /// The pool, parsed and resolved.
    pub fn policy(&self) -> &PoolPolicy {
        &self.served.policy
    }

    /// The network; none for a closed list.
    pub fn network(&self) -> Option<&Network> {
        self.served.network.as_ref()
    }

    /// Which project of which cloud.
    pub fn scope(&self) -> &Scope {
        self.served.neutron.scope()
    }

    /// The project's quota, where it may be read.
    pub async fn quota(&self) -> Result<Option<Quota>, openstack::Error> {
        let quota = self.served.neutron.quota().await?;
        if let Some(Quota { limit: Some(limit), used }) = quota
            && used >= limit
        {
            // Neutron would say so to a POST; nobody sends one here.
            let until = self.ctx.clock.now() + SignedDuration::from_hours(1);
            let block = CreationBlock { refusal: Refusal::QuotaReached, until };
            self.served.project.ledger().block(self.served.policy.id.clone(), block);
        }
        Ok(quota)
    }

    /// What the pool has.
    pub fn count(&self) -> PoolUsage {
        let ledger = self.served.project.ledger();
        self.ctx.published(|published| count(&ledger, published, &self.served.policy, self.ctx.clock.now()))
    }

    /// Every floating IP of the project, with its marks.
    pub fn entries(&self) -> Vec<LedgerEntry> {
        self.served.project.ledger().entries().cloned().collect()
    }

    /// What a sweep finds. With `orphaned_since`, what a sweep would do now about those that were seen as orphans then.
    pub fn sweep(&self, orphaned_since: Option<(Timestamp, &[FloatingIpId])>) -> SweepPlan {
        let around = sweeper::surroundings(&self.ctx, &self.served.name);
        let mut ledger = self.served.project.ledger();
        let mut policy = self.served.policy.clone();
        if let Some((since, ids)) = orphaned_since {
            ledger.note_orphans(&policy.id, ids, since);
            // A person asks for it now, whatever the pool does by itself, and the first sight was the report.
            (policy.releases_orphans, policy.orphan_grace) = (true, SignedDuration::ZERO);
        }
        self.ctx.published(|published| plan(&ledger, published, &policy, &around, self.ctx.clock.now()))
    }

    /// Whether a Cluster of the pool's namespace is paused: a move or a restore may be under way.
    pub fn has_paused_cluster(&self) -> bool {
        sweeper::surroundings(&self.ctx, &self.served.name).is_paused
    }

    /// One floating IP as it is now; none when it is gone.
    pub async fn get(&self, id: &FloatingIpId) -> Result<Option<crate::floating_ip::FloatingIp>, openstack::Error> {
        match self.served.neutron.get_floating_ip(id).await {
            Ok(fip) => Ok(Some(fip)),
            Err(error) if error.kind == openstack::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes that an orphan is released. The controllers do the rest: they look for a port once more, and then delete it,
    /// keep it or take the marks off, as the pool says. Safe to repeat.
    ///
    /// Only [`SweepAction::Release`] and [`SweepAction::Describe`] are releases; anything else is left alone.
    pub async fn release(&self, chore: &SweepAction) -> Result<(), openstack::Error> {
        match chore {
            SweepAction::Release(..) | SweepAction::Describe(..) => {
                act::chore(&self.served, &self.ctx.clock, chore).await
            }
            SweepAction::Delete(_) | SweepAction::Rewrite { .. } => Ok(()),
        }
    }

    fn decide(&self, claim: &ClaimRequest, change: impl FnOnce(&mut PoolPolicy), now: Timestamp) -> Decision {
        let mut policy = self.served.policy.clone();
        change(&mut policy);
        let mut ledger = self.served.project.ledger().clone();
        for place in waiting(&self.ctx, &self.served.name) {
            ledger.wait(&policy.id, place, true);
        }
        self.ctx.published(|published| decide(&ledger, published, &policy, claim, now))
    }
}

fn waiting(ctx: &Context, pool: &ObjectName) -> Vec<QueuePosition> {
    let is_meant = |claim: &IpAddressClaim| claim.is_of(&pool.namespace, &pool.name);
    let claims = all(&ctx.stores.claims, is_meant).into_iter();
    let observed = claims.map(|claim| claim::read(claim, ctx));
    let waits = observed.filter(|it| it.waits(ctx));
    let mut places: Vec<QueuePosition> = waits.map(|it| it.place()).collect();
    places.sort();
    places
}
