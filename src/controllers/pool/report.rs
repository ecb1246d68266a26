//! The pool's conditions, figures, failed addresses, metrics and events; written only when they change.

use kube::Resource;
use kube::api::{Patch, PatchParams};
use kube::runtime::events::EventType;
use serde_json::{Value, json};

use super::failure::PoolFailure;
use super::{Error, PoolController};
use crate::allocation::usage::PoolUsage;
use crate::api::conditions::{
    ADDRESS_CONFIG_MAP_CURRENT, ADDRESSES_MAINTAINED, CREDENTIALS_VALID, DesiredCondition, EXHAUSTED, NETWORK_RESOLVED,
    ORPHANS_DETECTED, PAUSED, READY, pool_reasons as reasons, set,
};
use crate::api::pool::{AddressCounts, ClaimCounts, FailedAddress, OrphanPolicy, ResolvedNetwork};
use crate::api::{OpenStackFloatingIPPool, OpenStackFloatingIPPoolStatus};
use crate::controllers::memory::{Problem, ResolvedPool};
use crate::controllers::patch;
use crate::controllers::stores::name_of;
use crate::openstack::{ErrorKind, Network};

/// How many orphans a condition names.
const NAMED_ORPHANS: usize = 8;

const SERVES: &str = "claims can be served";
const SERVES_WITHOUT_TAGS: &str = "claims can be served, but only with new floating IPs: this Neutron has no tags on floating IPs (extension standard-attr-tag), so spec.preAllocatedFloatingIPs, spec.reuse and spec.tags have no effect";

impl PoolController {
    /// Claims are served. True when the pool need not be reconciled early.
    pub(super) async fn report_serving(
        &self,
        pool: &OpenStackFloatingIPPool,
        resolved: &ResolvedPool,
        config_map: Option<DesiredCondition>,
    ) -> Result<bool, Error> {
        let usage = self.count(&resolved.project.ledger(), resolved);
        let network = resolved.network.as_ref();
        let is_config_map_current = config_map.as_ref().is_none_or(|condition| condition.status == "True");
        let mut conditions = vec![
            DesiredCondition::new(
                READY,
                "True",
                reasons::READY,
                if resolved.policy.has_tags { SERVES } else { SERVES_WITHOUT_TAGS },
            ),
            DesiredCondition::new(
                CREDENTIALS_VALID,
                "True",
                reasons::AUTHENTICATED,
                "OpenStack accepts the credentials",
            ),
            network_condition(network),
            match &usage.exhausted {
                Some(refusal) => DesiredCondition::new(EXHAUSTED, "True", reasons::EXHAUSTED, refusal.to_string()),
                None => {
                    DesiredCondition::new(EXHAUSTED, "False", reasons::ADDRESSES_AVAILABLE, "addresses are available")
                }
            },
            not_paused(),
            self.orphans_condition(pool),
            self.maintained_condition(pool),
        ];
        conditions.extend(config_map);
        let mut status = with_counts(pool, &usage);
        status.network =
            network.map(|network| ResolvedNetwork { id: network.id.to_string(), name: network.name.clone() });
        status.pool_id = Some(resolved.policy.id.to_string());
        let status = self.with_conditions(pool, status, &conditions);
        self.measure(pool, &status, None, Some((resolved, &usage)));
        self.write_status(pool, status).await?;
        Ok(self.memory.claims.waiting(&resolved.name).is_empty() && usage.failed == 0 && is_config_map_current)
    }

    /// With `counted`, the figures are new: its project was listed all the same.
    pub(super) async fn report_failing(
        &self,
        pool: &OpenStackFloatingIPPool,
        failure: &PoolFailure,
        counted: Option<&ResolvedPool>,
        config_map: Option<DesiredCondition>,
    ) -> Result<(), Error> {
        let problem = failure.problem();
        let mut conditions = vec![DesiredCondition::new(READY, "False", problem.reason, problem.message)];
        conditions.extend(causes(failure));
        conditions.extend([not_paused(), self.maintained_condition(pool)]);
        conditions.extend(config_map);
        self.report_conditions(pool, &conditions, Some(problem.reason), counted).await
    }

    /// The pool is being deleted; `failure` is what blocks that. With `counted`, the figures are new.
    pub(super) async fn report_deleting(
        &self,
        pool: &OpenStackFloatingIPPool,
        problem: Problem,
        failure: Option<&PoolFailure>,
        counted: Option<&ResolvedPool>,
    ) -> Result<(), Error> {
        self.memory.pools.update(&name_of(pool), |state| state.problem = Some(problem.clone()));
        let mut conditions = vec![DesiredCondition::new(READY, "False", problem.reason, problem.message)];
        conditions.extend(failure.into_iter().flat_map(causes));
        conditions.push(self.maintained_condition(pool));
        let blocker = failure.map_or(problem.reason, |failure| failure.problem().reason);
        self.report_conditions(pool, &conditions, Some(blocker), counted).await
    }

    /// Kubernetes refuses something that the pool needs. A pool that serves already goes on.
    pub(super) async fn report_refused(&self, pool: &OpenStackFloatingIPPool, message: String) -> Result<(), Error> {
        let reason = reasons::KUBERNETES_REFUSED;
        let is_serving = self.memory.pools.get(&name_of(pool)).is_ready() && pool.metadata.deletion_timestamp.is_none();
        let (type_, problem) = if is_serving { (ADDRESSES_MAINTAINED, None) } else { (READY, Some(reason)) };
        self.report_conditions(pool, &[DesiredCondition::new(type_, "False", reason, message)], problem, None).await
    }

    /// A reconcile in the pool's namespace panicked a moment ago.
    pub(super) async fn report_held_back(&self, pool: &OpenStackFloatingIPPool, message: String) -> Result<(), Error> {
        let problem = Problem { reason: reasons::INTERNAL_ERROR, message };
        self.memory.pools.update(&name_of(pool), |state| state.problem = Some(problem.clone()));
        let condition = DesiredCondition::new(READY, "False", problem.reason, problem.message);
        self.report_conditions(pool, &[condition], Some(problem.reason), None).await
    }

    pub(super) async fn report_paused(&self, pool: &OpenStackFloatingIPPool) -> Result<(), Error> {
        let message = "nothing is done while the annotation cluster.x-k8s.io/paused is on the pool: remove it";
        self.report_conditions(pool, &[DesiredCondition::new(PAUSED, "True", reasons::PAUSED, message)], None, None)
            .await
    }

    /// Writes these conditions, and figures where there are new ones.
    async fn report_conditions(
        &self,
        pool: &OpenStackFloatingIPPool,
        conditions: &[DesiredCondition],
        problem: Option<&'static str>,
        counted: Option<&ResolvedPool>,
    ) -> Result<(), Error> {
        // A pool that is not ready gives no address.
        let count = |resolved: &ResolvedPool| PoolUsage { free: 0, ..self.count(&resolved.project.ledger(), resolved) };
        let counted = counted.map(|resolved| (resolved, count(resolved)));
        let mut status = match &counted {
            Some((_, usage)) => with_counts(pool, usage),
            None => pool.status.clone().unwrap_or_default(),
        };
        if status.pool_id.is_none() {
            // It says which of several pools with one id has served with it.
            let known = self.memory.pools.get(&name_of(pool));
            let is_its_own = known.problem.is_none_or(|problem| problem.reason != reasons::DUPLICATE_POOL_ID);
            let served = known.resolved.filter(|_| known.served_generation.is_some() && is_its_own);
            status.pool_id = served.map(|resolved| resolved.policy.id.to_string());
        }
        let status = self.with_conditions(pool, status, conditions);
        self.measure(pool, &status, problem, counted.as_ref().map(|(resolved, usage)| (*resolved, usage)));
        self.write_status(pool, status).await
    }

    fn orphans_condition(&self, pool: &OpenStackFloatingIPPool) -> DesiredCondition {
        let orphans = self.memory.pools.get(&name_of(pool)).orphans;
        if orphans.is_empty() {
            let message = "every address with the pool's mark belongs to a claim or is free";
            return DesiredCondition::new(ORPHANS_DETECTED, "False", reasons::NO_ORPHANS, message);
        }
        let some: Vec<String> = orphans.iter().take(NAMED_ORPHANS).map(ToString::to_string).collect();
        let more = if orphans.len() > some.len() { " and others" } else { "" };
        let fate = match pool.spec.orphans.as_ref().map(|orphans| orphans.policy).unwrap_or_default() {
            OrphanPolicy::Release => {
                "they are released after spec.orphans.graceSeconds, but none that has a port, and none while a Cluster of the namespace is paused"
            }
            OrphanPolicy::Report => "they stay, since spec.orphans.policy is Report",
        };
        let message = format!(
            "addresses marked for a claim that does not exist or has another address: {}{more}; {fate}",
            some.join(", ")
        );
        DesiredCondition::new(ORPHANS_DETECTED, "True", reasons::ORPHANS_FOUND, message)
    }

    fn maintained_condition(&self, pool: &OpenStackFloatingIPPool) -> DesiredCondition {
        match self.memory.pools.get(&name_of(pool)).upkeep.problem() {
            Some(problem) => {
                DesiredCondition::new(ADDRESSES_MAINTAINED, "False", problem.reason, problem.message.clone())
            }
            None => {
                let message = "released addresses, spares and tags are as the spec says, or will be";
                DesiredCondition::new(ADDRESSES_MAINTAINED, "True", reasons::MAINTAINED, message)
            }
        }
    }

    fn with_conditions(
        &self,
        pool: &OpenStackFloatingIPPool,
        mut status: OpenStackFloatingIPPoolStatus,
        conditions: &[DesiredCondition],
    ) -> OpenStackFloatingIPPoolStatus {
        let generation = pool.metadata.generation;
        status.observed_generation = generation;
        status.claims = Some(ClaimCounts { waiting: figure(self.memory.claims.count_waiting(&name_of(pool))) });
        let asks_for_config_map = pool.spec.address_config_map.is_some();
        status.conditions.retain(|condition| asks_for_config_map || condition.type_ != ADDRESS_CONFIG_MAP_CURRENT);
        for condition in conditions {
            set(&mut status.conditions, condition, generation, self.clock.now());
        }
        status
    }

    async fn write_status(
        &self,
        pool: &OpenStackFloatingIPPool,
        status: OpenStackFloatingIPPoolStatus,
    ) -> Result<(), Error> {
        let name = name_of(pool);
        let before = pool.status.clone().unwrap_or_default();
        self.memory.pools.update(&name, |state| state.note_report(&status));
        if status == before {
            return Ok(());
        }
        let change = Patch::Merge(json!({"status": as_merge_patch(&status)}));
        let api = self.kube.pools(&name.namespace);
        match api.patch_status(&name.name, &PatchParams::default(), &change).await {
            Ok(written) => self.memory.pools.update(&name, |state| state.note_written(&written)),
            Err(error) if patch::is_gone(&error) => return Ok(()),
            Err(error) => return Err(Error::Kubernetes("write the pool's status", error)),
        };
        for type_ in [READY, ADDRESSES_MAINTAINED, ADDRESS_CONFIG_MAP_CURRENT] {
            let (was, is) = (condition(&before, type_), condition(&status, type_));
            // That all is well from the beginning is no news.
            let is_expected =
                type_ == ADDRESSES_MAINTAINED && was.is_none() && is.as_ref().is_some_and(|is| is.0 == "True");
            if was != is
                && !is_expected
                && let Some((status, reason, message)) = is
            {
                let type_ = if status == "True" { EventType::Normal } else { EventType::Warning };
                self.events.announce(pool.object_ref(&()), type_, &reason, "Reconcile", message);
            }
        }
        Ok(())
    }
}

/// The pool's status with these figures.
fn with_counts(pool: &OpenStackFloatingIPPool, usage: &PoolUsage) -> OpenStackFloatingIPPoolStatus {
    let status = pool.status.clone().unwrap_or_default();
    OpenStackFloatingIPPoolStatus {
        addresses: Some(AddressCounts::from(usage)),
        failed: failed_addresses(usage),
        ..status
    }
}

/// Status, reason and message of a condition.
fn condition(status: &OpenStackFloatingIPPoolStatus, type_: &str) -> Option<(String, String, String)> {
    let found = status.conditions.iter().find(|condition| condition.type_ == type_)?;
    Some((found.status.clone(), found.reason.clone(), found.message.clone()))
}

fn network_condition(network: Option<&Network>) -> DesiredCondition {
    match network {
        Some(network) => {
            let message = format!("{} ({})", network.name, network.id);
            DesiredCondition::new(NETWORK_RESOLVED, "True", reasons::NETWORK_FOUND, message)
        }
        None => {
            let message = "the pool allocates only the addresses of its list";
            DesiredCondition::new(NETWORK_RESOLVED, "True", reasons::LIST_ONLY, message)
        }
    }
}

fn not_paused() -> DesiredCondition {
    DesiredCondition::new(PAUSED, "False", reasons::NOT_PAUSED, "the pool is not paused")
}

/// The conditions that explain why the pool is not ready.
fn causes(failure: &PoolFailure) -> Vec<DesiredCondition> {
    let problem = failure.problem();
    match failure {
        PoolFailure::Conflict(_) => Vec::new(),
        PoolFailure::Credentials(_) | PoolFailure::Access(_) => vec![
            DesiredCondition::new(CREDENTIALS_VALID, "False", problem.reason, problem.message),
            DesiredCondition::new(NETWORK_RESOLVED, "Unknown", reasons::UNKNOWN, "not known without credentials"),
        ],
        PoolFailure::Network(_) => vec![
            DesiredCondition::new(
                CREDENTIALS_VALID,
                "True",
                reasons::AUTHENTICATED,
                "OpenStack accepts the credentials",
            ),
            DesiredCondition::new(NETWORK_RESOLVED, "False", problem.reason, problem.message),
        ],
        PoolFailure::Session(error) | PoolFailure::Neutron(error) => {
            let is_refused = !error.is_concealed
                && matches!(error.kind, ErrorKind::Unauthorized | ErrorKind::Credentials | ErrorKind::NoNetworkService);
            let status = if is_refused { "False" } else { "Unknown" };
            vec![DesiredCondition::new(CREDENTIALS_VALID, status, problem.reason, problem.message)]
        }
    }
}

impl From<&PoolUsage> for AddressCounts {
    fn from(usage: &PoolUsage) -> Self {
        Self {
            total: figure(usage.total),
            allocated: figure(usage.allocated),
            free: figure(usage.free),
            cooling: figure(usage.cooling),
            failed: figure(usage.failed),
            out_of_range: Some(figure(usage.outside_spec)),
        }
    }
}

/// The CRD's counts are of the format `int32`.
fn figure(count: usize) -> u32 {
    i32::try_from(count).unwrap_or(i32::MAX).unsigned_abs()
}

fn failed_addresses(usage: &PoolUsage) -> Vec<FailedAddress> {
    let failed = usage.failures.iter();
    failed
        .map(|(address, why)| FailedAddress {
            address: address.to_string(),
            reason: why.reason().to_owned(),
            message: why.to_string(),
        })
        .collect()
}

/// A merge patch removes only what it names as null.
fn as_merge_patch(status: &OpenStackFloatingIPPoolStatus) -> Value {
    #[expect(clippy::expect_used, reason = "JSON has a value for each of its fields")]
    let mut value = serde_json::to_value(status).expect("a status is plain data");
    if let Some(fields) = value.as_object_mut() {
        for field in ["addresses", "network", "poolID", "failed"] {
            fields.entry(field).or_insert(Value::Null);
        }
    }
    value
}
