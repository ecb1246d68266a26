//! Releases Secrets from the finalizers of pools that are gone without having done it: moved to another management
//! cluster, or removed by force. Otherwise the Secret, and its namespace, could never be deleted.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::kubernetes::Kubernetes;
use super::memory::Memory;
use super::patch;
use super::pool::secret_finalizer;
use super::queue::FAR;
use super::stores::Stores;
use super::wake::Wake;
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
                () = self.wake.secrets_changed() => {}
                () = tokio::time::sleep(next) => {}
            }
        }
    }

    /// False if something could not be released.
    async fn release_all(&self) -> bool {
        let needed: BTreeSet<String> = self.stores.pools.state().iter().map(|pool| secret_finalizer(pool)).collect();
        let stale = self.memory.secrets.lock().without_pools(&needed);
        let mut is_complete = true;
        for (secret, finalizers) in stale {
            if let Err(error) = self.release(&secret, &finalizers).await {
                tracing::warn!(secret.name = %secret, "failed to remove the finalizer of a pool that is gone: {error}");
                is_complete = false;
            }
        }
        is_complete
    }

    async fn release(&self, name: &ObjectName, finalizers: &BTreeSet<String>) -> Result<(), kube::Error> {
        let api = self.kube.secrets(&name.namespace);
        for finalizer in finalizers {
            let Some(secret) = api.get_opt(&name.name).await? else { return Ok(()) };
            let Some(change) = patch::without_finalizer(&secret.metadata, finalizer) else { continue };
            match patch::merge(&api, &name.name, change).await {
                Err(error) if !patch::is_not_found(&error) => return Err(error),
                _ => tracing::info!(secret.name = %name, "released, since its pool is gone"),
            }
        }
        Ok(())
    }
}
