//! The pools that this process knows, as the pool controller last resolved them. Claims and the sweeper read it.

use std::collections::BTreeMap;
use std::sync::{Arc, RwLock};

use jiff::{SignedDuration, Timestamp};

use super::project::Project;
use crate::allocation::PoolPolicy;
use crate::api::OpenStackFloatingIPPool;
use crate::api::pool_network::{NetworkParam, SubnetParam};
use crate::object_name::ObjectName;
use crate::openstack::credentials::Fingerprint;
use crate::openstack::{Network, Neutron};

/// A pool with a session: its floating IPs can be read and written.
#[derive(Clone)]
pub(super) struct ResolvedPool {
    pub(super) name: ObjectName,
    pub(super) policy: PoolPolicy,
    pub(super) network: Option<Network>,
    pub(super) resolved: ResolutionInputs,
    pub(super) neutron: Arc<dyn Neutron>,
    pub(super) project: Arc<Project>,
}

/// What a resolution was made from: while it is the same, the resolution holds.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct ResolutionInputs {
    pub(super) fingerprint: Fingerprint,
    pub(super) network: Option<NetworkParam>,
    pub(super) subnets: Vec<SubnetParam>,
    pub(super) at: Timestamp,
}

/// How soon a pool is looked at anew because its claims' calls are refused.
const DOUBT_AGAIN: SignedDuration = SignedDuration::from_secs(10);

/// Why a pool serves no new claim.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Problem {
    /// For the pool's `Ready` condition.
    pub(super) reason: &'static str,
    /// What, why, what to do.
    pub(super) message: String,
}

/// What is known of a pool.
#[derive(Clone, Default)]
pub(super) struct PoolState {
    /// The last session and policy that worked, for those that hold addresses already.
    pub(super) served: Option<Arc<ResolvedPool>>,
    /// Why nothing new is served.
    pub(super) problem: Option<Problem>,
    /// The generation of the spec that is served.
    pub(super) spec_generation: Option<i64>,
    /// Whether something said that the resolution no longer holds: it is done anew.
    pub(super) is_stale: bool,
    /// When something last said so.
    pub(super) doubted_at: Option<Timestamp>,
    /// Whether nothing was done for a while: what came meanwhile is still to be looked at.
    pub(super) was_paused: bool,
    /// The object that is served: one of the same name may take its place.
    pub(super) uid: Option<String>,
}

/// All pools.
// A plain lock: held for a look or a change, never across an await.
#[derive(Default)]
pub(super) struct Registry(RwLock<BTreeMap<ObjectName, PoolState>>);

impl Registry {
    pub(super) fn get(&self, pool: &ObjectName) -> Option<PoolState> {
        self.0.read().expect("no code panics while it holds the registry").get(pool).cloned()
    }

    pub(super) fn serve(&self, served: Arc<ResolvedPool>, pool: &OpenStackFloatingIPPool) {
        let mut pools = self.0.write().expect("no code panics while it holds the registry");
        let known = PoolState {
            doubted_at: pools.get(&served.name).and_then(|known| known.doubted_at),
            served: Some(served.clone()),
            spec_generation: pool.metadata.generation,
            uid: pool.metadata.uid.clone(),
            ..PoolState::default()
        };
        pools.insert(served.name.clone(), known);
    }

    /// Nothing is done about the pool and its claims for now.
    pub(super) fn pause(&self, pool: &ObjectName) {
        self.0
            .write()
            .expect("no code panics while it holds the registry")
            .entry(pool.clone())
            .or_default()
            .was_paused = true;
    }

    pub(super) fn names(&self) -> Vec<ObjectName> {
        self.0.read().expect("no code panics while it holds the registry").keys().cloned().collect()
    }

    pub(super) fn fail(&self, pool: &ObjectName, problem: Problem) {
        let mut pools = self.0.write().expect("no code panics while it holds the registry");
        pools.entry(pool.clone()).or_default().problem = Some(problem);
    }

    /// Credentials or network no longer hold: they are looked at anew.
    ///
    /// True when that is news: a claim whose own call Neutron goes on refusing would otherwise wake its pool, which wakes
    /// the claim, for ever.
    pub(super) fn doubt(&self, pool: &ObjectName, now: Timestamp) -> bool {
        let mut pools = self.0.write().expect("no code panics while it holds the registry");
        let Some(known) = pools.get_mut(pool) else { return false };
        let is_news = known.doubted_at.is_none_or(|at| now.duration_since(at) >= DOUBT_AGAIN);
        if is_news {
            (known.is_stale, known.doubted_at) = (true, Some(now));
        }
        is_news
    }

    pub(super) fn forget(&self, pool: &ObjectName) {
        self.0.write().expect("no code panics while it holds the registry").remove(pool);
    }
}
