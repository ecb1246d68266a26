//! Resolves a pool: session, network, subnets and support for tags. Only reads from the servers.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::Error;
use super::capo::CapoObjects;
use super::failure::PoolFailure;
use super::identity::{intended_id, recorded_project, recorded_region};
use super::network::{find_network, find_subnets};
use super::policy::{NeutronFacts, policy_of};
use crate::allocation::{PoolId, PoolPolicy};
use crate::api::OpenStackFloatingIPPool;
use crate::api::conditions::pool_reasons as reasons;
use crate::clock::Clock;
use crate::controllers::kubernetes::Kubernetes;
use crate::controllers::memory::{Memory, Problem, ResolutionInputs, ResolvedPool};
use crate::controllers::project::{ProjectHandle, Projects};
use crate::controllers::stores::{Stores, name_of};
use crate::object_name::ObjectName;
use crate::openstack::session::LANDS_WITHIN;
use crate::openstack::{Clouds, Credentials, Network, Neutron, ProjectScope};
use crate::runtime::flags::Namespaces;
use crate::time::after;

/// How long a resolution is valid. A refusal by Neutron ends it at once.
const RESOLUTION_VALIDITY: SignedDuration = SignedDuration::from_hours(1);

#[derive(Clone)]
pub(in crate::controllers) struct Resolver {
    pub(in crate::controllers) kube: Kubernetes,
    pub(in crate::controllers) stores: Stores,
    pub(in crate::controllers) memory: Arc<Memory>,
    pub(in crate::controllers) clouds: Arc<dyn Clouds>,
    pub(in crate::controllers) projects: Arc<Projects>,
    pub(in crate::controllers) clock: Clock,
    pub(in crate::controllers) capo: Arc<CapoObjects>,
    /// Where the Secrets of CAPO's cluster identities may be; pools may use none if it is empty.
    pub(in crate::controllers) identity_namespaces: Namespaces,
    /// When this process started, where a previous one may still have calls under way.
    pub(in crate::controllers) fence_from: Option<Timestamp>,
    /// Whether a pool that comes with an id waits for the calls of another management cluster. An inspection does not: it sees
    /// each pool for the first time.
    pub(in crate::controllers) awaits_calls_elsewhere: bool,
}

impl Resolver {
    /// Resolves a pool without conflicts, with the credentials of its Secret.
    pub(super) async fn resolve(
        &self,
        pool: &OpenStackFloatingIPPool,
    ) -> Result<Result<Arc<ResolvedPool>, PoolFailure>, Error> {
        let id = self.intended_id(pool);
        if let Some(problem) = self.find_conflict(pool, &id).await? {
            return Ok(Err(PoolFailure::Conflict(problem)));
        }
        let credentials = match self.read_credentials(pool).await {
            Ok(credentials) => credentials,
            Err(failure) => return Ok(Err(failure)),
        };
        let resolved = match self.resolve_with(pool, &id, &credentials).await {
            Ok(resolved) => resolved,
            Err(failure) => return Ok(Err(failure)),
        };
        Ok(match self.duplicates().in_project(pool, &resolved) {
            None => Ok(resolved),
            Some(problem) => Err(PoolFailure::Conflict(problem)),
        })
    }

    pub(in crate::controllers) fn intended_id(&self, pool: &OpenStackFloatingIPPool) -> PoolId {
        intended_id(pool, &self.stores, &self.memory, &self.clock)
    }

    pub(in crate::controllers) async fn resolve_with(
        &self,
        pool: &OpenStackFloatingIPPool,
        id: &PoolId,
        credentials: &Credentials,
    ) -> Result<Arc<ResolvedPool>, PoolFailure> {
        let neutron = self.open_session(pool, credentials).await?;
        let inputs = ResolutionInputs {
            fingerprint: credentials.fingerprint(),
            identity: identity_of(pool),
            cloud: credentials.cloud(),
            network: pool.spec.floating_ip_network.clone(),
            subnets: pool.spec.subnets.clone(),
            at: self.clock.now(),
        };
        let (network, found, inputs) = match self.still_resolved(pool, &inputs) {
            Some(old) => {
                let (subnets, has_tags) = (old.policy.subnets.clone(), old.policy.has_tags);
                let found = NeutronFacts { network: old.policy.network.clone(), subnets, has_tags };
                (old.network.clone(), found, old.inputs.clone())
            }
            None => {
                let (network, found) = find(pool, neutron.as_ref()).await?;
                (network, found, inputs)
            }
        };
        if !found.has_tags && pool.spec.is_closed() {
            let message = "this Neutron has no tags on floating IPs (extension standard-attr-tag), so the addresses of spec.preAllocatedFloatingIPs cannot be marked: name a floatingIPNetwork instead";
            return Err(PoolFailure::Network(Problem { reason: reasons::TAGS_UNSUPPORTED, message: message.into() }));
        }
        Ok(Arc::new(self.assemble(pool, id, network, found, inputs, neutron)))
    }

    /// Resolves a pool whose addresses are only released: it is being deleted, or it cannot serve. That needs credentials
    /// that work, and nothing else of the spec. What is known is kept while its credentials are those of the Secret, or
    /// the Secret cannot be used; not if they are of a cluster identity that the pool may no longer use.
    pub(super) async fn resolve_for_cleanup(
        &self,
        pool: &OpenStackFloatingIPPool,
        id: &PoolId,
    ) -> Result<Arc<ResolvedPool>, PoolFailure> {
        let known = self.memory.pools.get(&name_of(pool));
        let old = known.resolved.filter(|old| !known.is_stale && old.policy.id == *id);
        let identity = identity_of(pool);
        let credentials = match (self.read_credentials(pool).await, old) {
            (Ok(credentials), Some(old))
                if credentials.fingerprint() == old.inputs.fingerprint
                    && identity == old.inputs.identity
                    && old.neutron.is_current() =>
            {
                return Ok(old);
            }
            (Ok(credentials), _) => credentials,
            (Err(failure), Some(old)) if !failure.ends_use_of(old.inputs.identity.as_deref(), pool) => return Ok(old),
            (Err(failure), _) => return Err(failure),
        };
        let neutron = self.open_session(pool, &credentials).await?;
        let (fingerprint, cloud) = (credentials.fingerprint(), credentials.cloud());
        let (network, subnets, at) = (None, Vec::new(), self.clock.now());
        let inputs = ResolutionInputs { fingerprint, identity, cloud, network, subnets, at };
        let has_tags = neutron.has_tags().await.map_err(PoolFailure::Neutron)?;
        let found = NeutronFacts { has_tags, ..NeutronFacts::default() };
        let mut resolved = self.assemble(pool, id, None, found, inputs, neutron);
        resolved.policy.only_releases = true;
        Ok(Arc::new(resolved))
    }

    /// What is known of a pool, with the rules of its present spec: a pool that cannot be resolved again only releases.
    pub(super) fn with_present_spec(&self, pool: &OpenStackFloatingIPPool, old: &ResolvedPool) -> ResolvedPool {
        let policy = PoolPolicy { only_releases: true, ..self.present_policy(pool, old) };
        ResolvedPool { policy, ..old.clone() }
    }

    /// The rules of the pool's present spec, with what was found in Neutron before.
    pub(super) fn present_policy(&self, pool: &OpenStackFloatingIPPool, old: &ResolvedPool) -> PoolPolicy {
        let PoolPolicy { id, viewer, network, subnets, has_tags, fenced_until, .. } = &old.policy;
        let found = NeutronFacts { network: network.clone(), subnets: subnets.clone(), has_tags: *has_tags };
        PoolPolicy { only_releases: old.policy.only_releases, ..policy_of(pool, id, *viewer, found, *fenced_until) }
    }

    /// A session in the project and region of the pool's floating IPs. Elsewhere they would all look deleted.
    async fn open_session(
        &self,
        pool: &OpenStackFloatingIPPool,
        credentials: &Credentials,
    ) -> Result<Arc<dyn Neutron>, PoolFailure> {
        let neutron = self.clouds.connect(&name_of(pool).namespace, credentials).await.map_err(PoolFailure::Session)?;
        let ProjectScope { project, region, .. } = neutron.scope();
        let other_project = recorded_project(pool, &self.memory).filter(|recorded| recorded != project);
        let other_region = recorded_region(pool, &self.memory).filter(|recorded| recorded != region);
        let message = match (other_project, other_region) {
            (None, None) => return Ok(neutron),
            (Some(recorded), _) => format!(
                "the credentials are for project {project}, but the pool's floating IPs are in project {recorded}: restore the credentials for {recorded}, or create another pool for {project}"
            ),
            (None, Some(recorded)) => format!(
                "the credentials are for region {region}, but the pool's floating IPs are in region {recorded}: set region {recorded} again, or create another pool for {region}"
            ),
        };
        Err(PoolFailure::Credentials(Problem { reason: reasons::PROJECT_CHANGED, message }))
    }

    /// The last resolution, if it is still valid.
    fn still_resolved(&self, pool: &OpenStackFloatingIPPool, inputs: &ResolutionInputs) -> Option<Arc<ResolvedPool>> {
        let known = self.memory.pools.get(&name_of(pool));
        if known.is_stale || known.problem.is_some() {
            return None;
        }
        known.resolved.filter(|old| {
            inputs.at.duration_since(old.inputs.at) < RESOLUTION_VALIDITY
                && ResolutionInputs { at: inputs.at, ..old.inputs.clone() } == *inputs
                && old.network.is_none() == pool.spec.is_closed()
        })
    }

    fn assemble(
        &self,
        pool: &OpenStackFloatingIPPool,
        id: &PoolId,
        network: Option<Network>,
        found: NeutronFacts,
        inputs: ResolutionInputs,
        neutron: Arc<dyn Neutron>,
    ) -> ResolvedPool {
        let name = name_of(pool);
        let is_new_id = self.memory.pools.get(&name).generated_id.as_ref() == Some(id);
        let project = Arc::new(self.projects.join(neutron.scope(), &name.namespace, inputs.fingerprint));
        let now = self.clock.now();
        let moved_here = self.memory.pools.calls_elsewhere_from(&name, now).filter(|_| self.awaits_calls_elsewhere);
        let before = self.fence_from.max(moved_here).filter(|_| !is_new_id);
        let fence_from = before.max(self.leave_other_ledger(&name, &project));
        let fenced_until = fence_from.map(|from| after(from, LANDS_WITHIN));
        let fenced_until = fenced_until.max(self.memory.fence_of_left(&name.namespace, id, project.project()));
        let policy = policy_of(pool, id, project.viewer(), found, fenced_until);
        let session = self.memory.pools.session_of(pool);
        ResolvedPool { name, policy, network, inputs, neutron, project, session }
    }

    /// Ends the session that reaches the pool's project in another way, with another ledger: what it began later would be done
    /// after the fence. Returns when a session last began after another one.
    fn leave_other_ledger(&self, pool: &ObjectName, project: &ProjectHandle) -> Option<Timestamp> {
        let now = self.clock.now();
        let (ended, changed_at) = self.memory.pools.update(pool, |state| {
            let ended = state.end_session(|old| !old.project.is_in_one_project_with(project), now);
            // Its session ended. What was under way went on for a while, and another process may have served the pool.
            if state.resolved.is_none() && state.session_changed_at.is_some() {
                state.session_changed_at = Some(now);
            }
            (ended, state.session_changed_at)
        })?;
        if let Some(ended) = ended {
            self.memory.leave_ledger(&ended, now);
        }
        changed_at
    }
}

/// The cluster identity that the pool names.
fn identity_of(pool: &OpenStackFloatingIPPool) -> Option<String> {
    pool.spec.identity_ref.cluster_identity().map(str::to_owned)
}

async fn find(
    pool: &OpenStackFloatingIPPool,
    neutron: &dyn Neutron,
) -> Result<(Option<Network>, NeutronFacts), PoolFailure> {
    let network = find_network(&pool.spec, neutron).await?;
    let subnets = find_subnets(&pool.spec, network.as_ref(), neutron).await?;
    let has_tags = neutron.has_tags().await.map_err(PoolFailure::Neutron)?;
    let found = NeutronFacts { network: network.as_ref().map(|network| network.id.clone()), subnets, has_tags };
    Ok((network, found))
}
