//! The credentials Secret: read, and protected while a pool may need it for cleaning up.

use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;

use super::failure::PoolFailure;
use super::resolve::Resolver;
use super::{Error, PoolController};
use crate::allocation::ClaimKey;
use crate::api::OpenStackFloatingIPPool;
use crate::api::conditions::pool_reasons as reasons;
use crate::api::names::{POOL_FINALIZER, SECRET_FINALIZER_PREFIX};
use crate::controllers::kubernetes::Kubernetes;
use crate::controllers::memory::Problem;
use crate::controllers::patch;
use crate::object_name::is_name;
use crate::openstack::Credentials;

/// How often a Secret is read again after a conflict. Each pool that shares it and starts at the same moment causes one.
const TRIES: usize = 32;

impl Resolver {
    pub(in crate::controllers) async fn read_credentials(
        &self,
        pool: &OpenStackFloatingIPPool,
    ) -> Result<Credentials, PoolFailure> {
        let identity = &pool.spec.identity_ref;
        let data = read_secret(&self.kube, pool).await?.data.unwrap_or_default();
        Credentials::from_secret(&data, &identity.cloud_name, identity.region.as_deref()).map_err(|error| {
            let message = format!("Secret {}: {error}", identity.name);
            PoolFailure::Credentials(Problem { reason: reasons::CREDENTIALS_INVALID, message })
        })
    }
}

impl PoolController {
    /// Keeps the pool's Secret until the pool releases it.
    pub(super) async fn protect_secret(&self, pool: &OpenStackFloatingIPPool) -> Result<(), PoolFailure> {
        let name = &pool.spec.identity_ref.name;
        let namespace = pool.namespace().unwrap_or_default();
        if self.memory.secrets.lock().with_finalizer(&namespace, &finalizer(pool)).contains(name) {
            return Ok(());
        }
        let api = self.kube.secrets(&namespace);
        for _ in 0..TRIES {
            let secret = read_secret(&self.kube, pool).await?;
            // An object that is being deleted takes no new finalizer. A pool that began before uses it as long as it exists.
            let change = match secret.metadata.deletion_timestamp {
                None => patch::with_finalizer(&secret.metadata, &finalizer(pool)),
                Some(_) if patch::has_finalizer(&pool.metadata, POOL_FINALIZER) => None,
                Some(_) => return Err(unprotected(name, "it is being deleted")),
            };
            let Some(change) = change else { return Ok(()) };
            match patch::merge(&api, name, change).await {
                Ok(_) => return Ok(()),
                // It was changed or deleted meanwhile, perhaps by another pool: it is read again.
                Err(error) if patch::is_conflict(&error) || patch::is_not_found(&error) => {}
                Err(error) => return Err(unprotected(name, &reply(&error))),
            }
        }
        Err(unprotected(name, "other writers keep changing it"))
    }

    /// Releases every Secret that the pool no longer names. Only once the present one works: until then a former one may
    /// be needed for cleanup.
    pub(super) async fn release_former_secrets(&self, pool: &OpenStackFloatingIPPool) -> Result<(), Error> {
        let namespace = pool.namespace().unwrap_or_default();
        let mut protected = self.memory.secrets.lock().with_finalizer(&namespace, &finalizer(pool));
        protected.remove(&pool.spec.identity_ref.name);
        for name in protected {
            self.release_secret(pool, &name).await?;
        }
        Ok(())
    }

    /// Releases every Secret of a pool that is about to be removed.
    pub(super) async fn release_secrets(&self, pool: &OpenStackFloatingIPPool) -> Result<(), Error> {
        self.release_former_secrets(pool).await?;
        self.release_secret(pool, &pool.spec.identity_ref.name).await
    }

    async fn release_secret(&self, pool: &OpenStackFloatingIPPool, name: &str) -> Result<(), Error> {
        let failed = |error| Error::Kubernetes("remove the finalizer from the Secret", error);
        if !is_name(name) {
            return Ok(());
        }
        let api = self.kube.secrets(&pool.namespace().unwrap_or_default());
        let Some(secret) = api.get_opt(name).await.map_err(failed)? else { return Ok(()) };
        let Some(change) = patch::without_finalizer(&secret.metadata, &finalizer(pool)) else { return Ok(()) };
        match patch::merge(&api, name, change).await {
            Err(error) if !patch::is_not_found(&error) => Err(failed(error)),
            _ => Ok(()),
        }
    }
}

async fn read_secret(kube: &Kubernetes, pool: &OpenStackFloatingIPPool) -> Result<Secret, PoolFailure> {
    let name = &pool.spec.identity_ref.name;
    if !is_name(name) {
        let message = "spec.identityRef.name cannot be the name of a Secret: use lowercase letters, digits, - and .";
        return Err(PoolFailure::Credentials(Problem { reason: reasons::SECRET_NOT_FOUND, message: message.into() }));
    }
    let secret = kube.secrets(&pool.namespace().unwrap_or_default()).get(name).await;
    secret.map_err(|error| {
        let message = if patch::is_not_found(&error) {
            format!(
                "Secret {name} (spec.identityRef.name) does not exist in this namespace: create it with the key clouds.yaml"
            )
        } else {
            format!("Secret {name} (spec.identityRef.name) cannot be read: {}", reply(&error))
        };
        PoolFailure::Credentials(Problem { reason: reasons::SECRET_NOT_FOUND, message })
    })
}

fn unprotected(name: &str, why: &str) -> PoolFailure {
    let message = format!("Secret {name} (spec.identityRef.name) cannot be protected by a finalizer: {why}");
    PoolFailure::Credentials(Problem { reason: reasons::CREDENTIALS_INVALID, message })
}

/// The API server's own message, without the client's additions.
fn reply(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}

/// One pool's finalizer on its Secret. A hash, since a pool's name may be longer than a finalizer's may.
pub(in crate::controllers) fn finalizer(pool: &impl ResourceExt) -> String {
    format!("{SECRET_FINALIZER_PREFIX}{}", ClaimKey::of(&pool.namespace().unwrap_or_default(), &pool.name_any()))
}
