//! Removes finalizers that pools left behind when they were moved to another management cluster or removed by force.
//! Otherwise the Secret or the IPAddress that has one, and its namespace, could never be deleted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use kube::Resource;
use tokio_util::sync::CancellationToken;

use super::claim::{self, is_claimed, remove_address};
use super::kubernetes::{Kubernetes, find};
use super::memory::Memory;
use super::pool::secret_finalizer;
use super::stores::{Stores, name_of};
use super::wake::Wake;
use super::{pages, patch};
use crate::api::IpAddress;
use crate::api::hands_off::HandsOff;
use crate::clock::Clock;
use crate::object_name::ObjectName;

/// How often to look, whatever wakes it: a pool that cannot be read is gone, or a Cluster is no longer paused.
const AGAIN: Duration = Duration::from_secs(300);
/// How soon something that could not be released is tried again.
const RETRY: Duration = Duration::from_secs(10);
/// How long an IPAddress that is being deleted stays although its claim and its pool do not exist. Where a backup is being
/// restored, they come back within this time, and find in it which floating IP they had.
pub(super) const KEPT_FOR: SignedDuration = SignedDuration::from_mins(5);

pub(super) struct LeftoverReleaser {
    pub(super) stores: Stores,
    pub(super) memory: Arc<Memory>,
    pub(super) kube: Kubernetes,
    pub(super) wake: Wake,
    pub(super) clock: Clock,
}

impl LeftoverReleaser {
    /// Works whenever a pool is gone, or a Secret or an IPAddress with a finalizer of ours changes, until `stop`.
    pub(super) async fn release_until(&self, stop: CancellationToken) {
        loop {
            let next = self.release_secrets(&stop).await.min(self.release_addresses(&stop).await);
            tokio::select! {
                // In this order always, so that a simulation repeats.
                biased;
                () = stop.cancelled() => return,
                () = self.wake.leftovers_woken() => {}
                () = tokio::time::sleep(next) => {}
            }
        }
    }

    /// Returns when to come back.
    async fn release_secrets(&self, stop: &CancellationToken) -> Duration {
        let pools = self.stores.pools.state();
        let needed: BTreeMap<String, String> =
            pools.iter().map(|pool| (secret_finalizer(pool.as_ref()), name_of(pool.as_ref()).namespace)).collect();
        let unneeded = self.memory.secrets.lock().unneeded(&needed);
        let mut next = AGAIN;
        for (secret, finalizers) in unneeded {
            if stop.is_cancelled() {
                break;
            }
            let Err(error) = self.release_secret(&secret, finalizers).await else { continue };
            if !patch::is_conflict(&error) {
                tracing::warn!(secret.name = %secret, "failed to remove the finalizer of a pool that is gone: {error}");
            }
            next = RETRY;
        }
        next
    }

    async fn release_secret(&self, name: &ObjectName, finalizers: BTreeSet<String>) -> Result<(), kube::Error> {
        let api = self.kube.secrets(&name.namespace);
        // The store may be late, and leaves out a pool that this version cannot read.
        let mut needed = BTreeSet::new();
        let pools = self.kube.pool_metadata_api(&name.namespace);
        pages::for_each(&pools, |pool| needed.extend([secret_finalizer(&pool)])).await?;
        let Some(secret) = find(&api, &name.name).await? else { return Ok(()) };
        let is_moving = HandsOff::of(secret.meta()) == Some(HandsOff::Moving);
        let is_unneeded = |finalizer: &str| finalizers.contains(finalizer) && !needed.contains(finalizer);
        let change = patch::without_finalizers(secret.meta(), is_unneeded).filter(|_| !is_moving);
        let Some(change) = change else { return Ok(()) };
        match patch::merge(&api, &name.name, change).await {
            Ok(_) => tracing::info!(secret.name = %name, "finalizer removed from the Secret: its pool is gone"),
            Err(error) if patch::is_gone(&error) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Returns when to come back.
    async fn release_addresses(&self, stop: &CancellationToken) -> Duration {
        let mut next = AGAIN;
        for address in self.stores.addresses_without_pool(&self.memory.claims) {
            if stop.is_cancelled() {
                break;
            }
            let Some(deleted) = &address.metadata.deletion_timestamp else { continue };
            let left = KEPT_FOR.saturating_sub(self.clock.now().duration_since(deleted.0));
            let left = Duration::try_from(left).unwrap_or_default();
            if !left.is_zero() {
                next = next.min(left);
            } else if let Err(error) = self.release_address(&address).await {
                let name = name_of(address.as_ref());
                tracing::warn!(address.name = %name, "failed to release the IPAddress of a pool that is gone: {error}");
                next = next.min(RETRY);
            }
        }
        next
    }

    async fn release_address(&self, address: &IpAddress) -> Result<(), claim::Error> {
        let name = name_of(address);
        // The store may be late, and leaves out a pool that this version cannot read.
        let pool = ObjectName::new(&name.namespace, &address.spec.pool_ref.name);
        let pool = self.kube.pool_metadata(&pool).await;
        let pool = pool.map_err(|error| claim::Error::Kubernetes("read the pool", error))?;
        if pool.is_some() || is_claimed(&self.kube, address).await? {
            return Ok(());
        }
        remove_address(&self.kube, address).await?;
        let fip = &address.spec.address;
        tracing::warn!(address.name = %name, fip.address = %fip, "floating IP left behind in OpenStack: its pool is gone");
        Ok(())
    }
}
