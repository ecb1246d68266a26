//! The ConfigMap with the pool's addresses, where the spec asks for one: created, kept up to date, and deleted when the spec
//! names another or none.
//!
//! **Guaranteed:** no decision reads it, and its trouble delays no claim and no other condition. It is read on each
//! reconcile of the pool, so that a change by others lasts no longer than [`POLLED_RESYNC`](super::POLLED_RESYNC), and
//! written only if it differs: at most once for the burst of changes that [`Wake::report_soon`] gathers. One that is not
//! the pool's is never changed. **Assumed:** the garbage collector deletes it after the pool.
//!
//! [`Wake::report_soon`]: crate::controllers::wake::Wake::report_soon

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, PostParams, Preconditions};
use serde_json::{Value, json};

use super::PoolController;
use crate::allocation::address_list;
use crate::api::OpenStackFloatingIPPool;
use crate::api::conditions::{ADDRESS_CONFIG_MAP_CURRENT, DesiredCondition, pool_reasons as reasons};
use crate::api::guarded::Guarded;
use crate::api::names::ADDRESS_CONFIG_MAP_ANNOTATION;
use crate::controllers::kubernetes::find;
use crate::controllers::memory::ResolvedPool;
use crate::controllers::patch::{self, reply};
use crate::controllers::stores::name_of;
use crate::object_name::is_name;

mod plan;

use plan::{Step, is_of, plan};

/// How long keeping the ConfigMap up to date may take: the API server may wait for a webhook that does not answer. A write
/// that takes effect later fails if another one came before it.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The finalizer of an object whose dependents are deleted first, as `kubectl delete --cascade=foreground` asks for.
const FOREGROUND_DELETION: &str = "foregroundDeletion";
/// How often a ConfigMap is read again after a conflict. The next reconcile tries again.
const TRIES: usize = 3;

/// Why the ConfigMap is not current.
enum Failure {
    NameTaken,
    TooLarge,
    /// The ConfigMap that the pool named before is still there.
    Former(String, kube::Error),
    Kubernetes(kube::Error),
    NoAnswer,
}

impl PoolController {
    /// Keeps the ConfigMap that the spec asks for up to date with what is known of the pool. The condition says whether it
    /// is; none where the spec asks for none. `is_current`: the project was listed lately. The addresses with the id of
    /// another pool are that pool's.
    pub(super) async fn keep_address_config_map(
        &self,
        pool: &OpenStackFloatingIPPool,
        known: Option<&ResolvedPool>,
        is_current: bool,
    ) -> Option<DesiredCondition> {
        let wanted = pool.spec.address_config_map.as_ref().map(|wanted| wanted.name.as_str());
        if !self.writes_address_config_maps {
            return wanted.map(|_| condition("False", reasons::CONFIG_MAPS_DISABLED, DISABLED.into()));
        }
        let kept = tokio::time::timeout(TIMEOUT, self.keep(pool, wanted, known, is_current)).await;
        kept.unwrap_or_else(|_| wanted.map(|name| failed(name, &Failure::NoAnswer)))
    }

    async fn keep(
        &self,
        pool: &OpenStackFloatingIPPool,
        wanted: Option<&str>,
        known: Option<&ResolvedPool>,
        is_current: bool,
    ) -> Option<DesiredCondition> {
        if let Some(former) = former(pool).filter(|former| Some(*former) != wanted)
            && let Err(error) = self.delete_former(pool, former).await
        {
            // Nothing else is done: the pool remembers one name.
            let condition = failed(wanted.unwrap_or_default(), &Failure::Former(former.to_owned(), error));
            tracing::warn!(pool.name = %name_of(pool), "{}", condition.message);
            return wanted.map(|_| condition);
        }
        let name = wanted?;
        let known = known.filter(|known| !self.resolver.duplicates().has_original(pool, known));
        let addresses = known.and_then(|resolved| self.addresses(resolved));
        let kept = match &addresses {
            Some(addresses) => self.write_addresses(pool, name, addresses).await,
            None => self.check_name(pool, name).await,
        };
        Some(match kept {
            Ok(()) if is_current && addresses.is_some() => {
                let message = format!("ConfigMap {name} has the pool's addresses");
                condition("True", reasons::CONFIG_MAP_UP_TO_DATE, message)
            }
            Ok(()) => unknown(name),
            Err(failure) => failed(name, &failure),
        })
    }

    fn addresses(&self, resolved: &ResolvedPool) -> Option<BTreeSet<IpAddr>> {
        let ledger = resolved.project.ledger();
        self.memory.with_situation(&ledger, resolved, self.clock.now(), address_list::addresses)
    }

    /// That a name is taken is said before the pool's addresses are known, too.
    async fn check_name(&self, pool: &OpenStackFloatingIPPool, name: &str) -> Result<(), Failure> {
        let api = self.kube.config_maps(&name_of(pool).namespace);
        match read(&api, name).await.map_err(Failure::Kubernetes)? {
            Some(found) if !is_of(pool, &found) => Err(Failure::NameTaken),
            _ => Ok(()),
        }
    }

    async fn write_addresses(
        &self,
        pool: &OpenStackFloatingIPPool,
        name: &str,
        addresses: &BTreeSet<IpAddr>,
    ) -> Result<(), Failure> {
        for _ in 1..TRIES {
            match self.try_write(pool, name, addresses).await {
                // It was created, changed or deleted meanwhile.
                Err(Failure::Kubernetes(error)) if patch::is_conflict(&error) || patch::is_gone(&error) => {}
                result => return result,
            }
        }
        self.try_write(pool, name, addresses).await
    }

    async fn try_write(
        &self,
        pool: &OpenStackFloatingIPPool,
        name: &str,
        addresses: &BTreeSet<IpAddr>,
    ) -> Result<(), Failure> {
        let api = self.kube.config_maps(&name_of(pool).namespace);
        let found = read(&api, name).await.map_err(Failure::Kubernetes)?;
        let step = plan(pool, name, found.as_ref(), addresses);
        match &step {
            Step::LeaveForeign => return Err(Failure::NameTaken),
            Step::LeaveOld => return Err(Failure::TooLarge),
            // Kubernetes would delete it at once.
            Step::Create(_) if patch::has_finalizer(&pool.metadata, FOREGROUND_DELETION) => return Ok(()),
            Step::Create(_) | Step::Patch(_) | Step::Nothing => {}
        }
        // Before it is created: otherwise a process that ends in between would leave it behind.
        if former(pool) != Some(name) {
            self.note_name(pool, json!(name)).await.map_err(Failure::Kubernetes)?;
        }
        let written = match step {
            Step::Create(config_map) => api.create(&PostParams::default(), &Guarded(Ok(*config_map))).await.map(drop),
            Step::Patch(change) => patch::merge(&api, name, change).await.map(drop),
            Step::Nothing | Step::LeaveForeign | Step::LeaveOld => return Ok(()),
        };
        written.map_err(Failure::Kubernetes)?;
        let count = addresses.len();
        tracing::info!(pool.name = %name_of(pool), config_map.name = name, addresses = count, "addresses written");
        Ok(())
    }

    /// Deletes the ConfigMap that the pool named before, if it is the pool's.
    async fn delete_former(&self, pool: &OpenStackFloatingIPPool, former: &str) -> Result<(), kube::Error> {
        let api = self.kube.config_maps(&name_of(pool).namespace);
        if let Some(found) = read(&api, former).await?.filter(|found| is_of(pool, found)) {
            let preconditions = Some(Preconditions { uid: found.uid(), resource_version: found.resource_version() });
            let params = DeleteParams { preconditions, ..DeleteParams::default() };
            match api.delete(former, &params).await {
                Err(error) if !patch::is_gone(&error) => return Err(error),
                _ => tracing::info!(pool.name = %name_of(pool), config_map.name = former, "former ConfigMap deleted"),
            }
        }
        self.note_name(pool, Value::Null).await
    }

    async fn note_name(&self, pool: &OpenStackFloatingIPPool, name: Value) -> Result<(), kube::Error> {
        let of_pool = name_of(pool);
        let change = json!({"metadata": {"annotations": {ADDRESS_CONFIG_MAP_ANNOTATION: name}}});
        let written = patch::merge(&self.kube.pools(&of_pool.namespace), &of_pool.name, change).await?;
        self.memory.pools.update(&of_pool, |state| state.note_written(&written));
        Ok(())
    }
}

/// None for a name that no object can have.
async fn read(api: &Api<Guarded<ConfigMap>>, name: &str) -> Result<Option<ConfigMap>, kube::Error> {
    if is_name(name) { find(api, name).await?.map(Guarded::into_object).transpose() } else { Ok(None) }
}

/// Whether the pool has, or is to have, such a ConfigMap; or a former one is left.
pub(super) fn may_exist(pool: &OpenStackFloatingIPPool) -> bool {
    pool.spec.address_config_map.is_some() || former(pool).is_some()
}

/// The ConfigMap that was written last, or is about to be.
fn former(pool: &OpenStackFloatingIPPool) -> Option<&str> {
    pool.annotations().get(ADDRESS_CONFIG_MAP_ANNOTATION).map(String::as_str)
}

const DISABLED: &str =
    "this controller writes no ConfigMaps: start it with --address-config-maps, or remove spec.addressConfigMap";

fn unknown(name: &str) -> DesiredCondition {
    let message = format!("the pool is not ready: ConfigMap {name} may lack changes in OpenStack until it is");
    condition("Unknown", reasons::ADDRESSES_UNKNOWN, message)
}

fn failed(name: &str, failure: &Failure) -> DesiredCondition {
    let (reason, message) = match failure {
        Failure::NameTaken => (
            reasons::CONFIG_MAP_NAME_TAKEN,
            format!(
                "ConfigMap {name} (spec.addressConfigMap.name) exists and is not the pool's: delete it, or name another one"
            ),
        ),
        Failure::TooLarge => (
            reasons::CONFIG_MAP_TOO_LARGE,
            format!(
                "the pool's addresses do not fit into a ConfigMap, which holds 1 MiB: ConfigMap {name} is no longer updated; divide the pool"
            ),
        ),
        Failure::Former(former, error) => (
            reasons::CONFIG_MAP_WRITE_FAILED,
            format!("ConfigMap {former}, which the pool named before, cannot be deleted: {}", why(error)),
        ),
        Failure::NoAnswer => (
            reasons::CONFIG_MAP_WRITE_FAILED,
            format!(
                "ConfigMap {name} (spec.addressConfigMap.name) cannot be written: the API server does not answer in time"
            ),
        ),
        Failure::Kubernetes(error) => (
            reasons::CONFIG_MAP_WRITE_FAILED,
            format!("ConfigMap {name} (spec.addressConfigMap.name) cannot be written: {}", why(error)),
        ),
    };
    condition("False", reason, message)
}

/// Without the versions that the API server's message about a conflict has: a condition must not change with them.
fn why(error: &kube::Error) -> String {
    if patch::is_conflict(error) { "other writers keep changing it".to_owned() } else { reply(error) }
}

fn condition(status: &'static str, reason: &'static str, message: String) -> DesiredCondition {
    DesiredCondition::new(ADDRESS_CONFIG_MAP_CURRENT, status, reason, message)
}
