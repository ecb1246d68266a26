//! Releases Secrets from the finalizers of pools that are gone without having done it: moved to another management
//! cluster, or removed by force. Otherwise the Secret, and its namespace, could never be deleted.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use kube::api::ListParams;
use tokio_util::sync::CancellationToken;

use super::kubernetes::Kubernetes;
use super::memory::Memory;
use super::patch;
use super::pool::secret_finalizer;
use super::queue::FAR;
use super::stores::Stores;
use super::wake::Wake;
use crate::api::hands_off::HandsOff;
use crate::object_name::ObjectName;

/// How soon a Secret that could not be released is tried again.
const RETRY: Duration = Duration::from_secs(10);

pub(super) struct SecretReleaser {
    pub(super) stores: Stores,
    pub(super) memory: Arc<Memory>,
    pub(super) kube: Kubernetes,
    pub(super) wake: Wake,
}

impl SecretReleaser {
    /// Works whenever a pool is gone or a Secret with a finalizer of ours changes, until `stop`.
    pub(super) async fn release_until(&self, stop: CancellationToken) {
        loop {
            let next = if self.release_all().await { FAR } else { RETRY };
            tokio::select! {
                // In this order always, so that a simulation repeats.
                biased;
                () = stop.cancelled() => return,
                () = self.wake.secrets_woken() => {}
                () = tokio::time::sleep(next) => {}
            }
        }
    }

    /// False if something could not be released.
    async fn release_all(&self) -> bool {
        let pools = self.stores.pools.state();
        let needed: BTreeSet<String> = pools.iter().map(|pool| secret_finalizer(pool.as_ref())).collect();
        let unneeded = self.memory.secrets.lock().unneeded(&needed);
        let mut is_complete = true;
        for (secret, finalizers) in unneeded {
            match self.release(&secret, finalizers).await {
                Err(error) if !patch::is_conflict(&error) => {
                    tracing::warn!(secret.name = %secret, "failed to remove the finalizer of a pool that is gone: {error}");
                    is_complete = false;
                }
                Err(_) => is_complete = false,
                Ok(()) => {}
            }
        }
        is_complete
    }

    async fn release(&self, name: &ObjectName, finalizers: BTreeSet<String>) -> Result<(), kube::Error> {
        let api = self.kube.secrets(&name.namespace);
        // The store may be late, and leaves out a pool that this version cannot read.
        let pools = self.kube.pools(&name.namespace).list_metadata(&ListParams::default()).await?;
        let needed: BTreeSet<String> = pools.iter().map(secret_finalizer).collect();
        for finalizer in finalizers.difference(&needed) {
            let Some(secret) = api.get_opt(&name.name).await? else { return Ok(()) };
            let is_moving = HandsOff::of(&secret.metadata) == Some(HandsOff::Moving);
            let change = patch::without_finalizer(&secret.metadata, finalizer).filter(|_| !is_moving);
            let Some(change) = change else { continue };
            match patch::merge(&api, &name.name, change).await {
                Ok(_) => tracing::info!(secret.name = %name, "finalizer removed from the Secret: its pool is gone"),
                Err(error) if patch::is_not_found(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
