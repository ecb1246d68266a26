//! The credentials Secret: found, read and, in the pool's namespace, protected while a pool may need it for cleaning up.
//!
//! The Secret of a cluster identity is the platform's: it is read, and gets no finalizer. Otherwise each pool of a tenant
//! could keep it, and the controller would need to write in the platform's namespace.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Secret;
use kube::{Resource, ResourceExt};

use super::cluster_identity::{IdentityError, find_secret};
use super::failure::PoolFailure;
use super::resolve::Resolver;
use super::{Error, PoolController};
use crate::allocation::ClaimKey;
use crate::api::OpenStackFloatingIPPool;
use crate::api::cluster_identity::CLUSTER_IDENTITY_KIND;
use crate::api::conditions::pool_reasons as reasons;
use crate::api::names::{POOL_FINALIZER, SECRET_FINALIZER_PREFIX};
use crate::controllers::kubernetes::{Kubernetes, find};
use crate::controllers::memory::Problem;
use crate::controllers::patch::{self, reply};
use crate::controllers::stores::name_of;
use crate::object_name::{ObjectName, is_name};
use crate::openstack::Credentials;

/// How often a Secret is read again after a conflict. Each pool that shares it and starts at the same moment causes one.
const TRIES: usize = 32;

impl Resolver {
    pub(in crate::controllers) async fn read_credentials(
        &self,
        pool: &OpenStackFloatingIPPool,
    ) -> Result<Credentials, PoolFailure> {
        let identity = &pool.spec.identity_ref;
        let secret = self.find_secret(pool).await?;
        let data = read_secret(&self.kube, &secret, pool).await?.data.unwrap_or_default();
        Credentials::from_secret(&data, &identity.cloud_name, identity.region.as_deref()).map_err(|error| {
            let message = format!("{}: {error}", title(&secret, pool));
            PoolFailure::Credentials(Problem { reason: reasons::CREDENTIALS_INVALID, message })
        })
    }

    /// The Secret with the pool's credentials. An error if they are of a cluster identity that the pool may not use.
    pub(in crate::controllers) async fn find_secret(
        &self,
        pool: &OpenStackFloatingIPPool,
    ) -> Result<ObjectName, IdentityError> {
        let name = name_of(pool);
        let found = match pool.spec.identity_ref.cluster_identity() {
            None => Ok(ObjectName::new(&name.namespace, &pool.spec.identity_ref.name)),
            Some(identity) => find_secret(&self.kube, &self.identity_namespaces, identity, &name.namespace).await,
        };
        let secret = found.as_ref().ok().filter(|_| pool.spec.identity_ref.cluster_identity().is_some());
        self.memory.pools.update(&name, |state| state.identity_secret = secret.cloned());
        found
    }
}

impl PoolController {
    /// Keeps the Secret that the pool names until the pool releases it.
    pub(super) async fn protect_secret(&self, pool: &OpenStackFloatingIPPool) -> Result<(), PoolFailure> {
        let Some(name) = pool.spec.identity_ref.own_secret() else { return Ok(()) };
        let namespace = pool.namespace().unwrap_or_default();
        if self.protects_present_secret(pool) {
            return Ok(());
        }
        let api = self.kube.secrets(&namespace);
        for _ in 0..TRIES {
            let secret = read_secret(&self.kube, &ObjectName::new(&namespace, name), pool).await?;
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
                Err(error) if patch::is_conflict(&error) || patch::is_gone(&error) => {}
                Err(error) => return Err(unprotected(name, &reply(&error))),
            }
        }
        Err(unprotected(name, "other writers keep changing it"))
    }

    /// Releases every Secret that the pool no longer names, once it has a session with the credentials of the present one,
    /// which it protects. Until then a former one may be needed for cleanup. Returns whether it still has to be released.
    pub(super) async fn leave_former_secrets(&self, pool: &OpenStackFloatingIPPool) -> Result<bool, Error> {
        let named: BTreeSet<String> = pool.spec.identity_ref.own_secret().map(str::to_owned).into_iter().collect();
        // Without its finalizer, a pool has nothing to clean up; or a user removed that, until the pool serves again.
        if self.protected_secrets(pool) == named || !patch::has_finalizer(&pool.metadata, POOL_FINALIZER) {
            return Ok(false);
        }
        let Some(resolved) = self.memory.pools.resolved_of(pool) else { return Ok(true) };
        let present = self.resolver.read_credentials(pool).await;
        let is_used = present.is_ok_and(|present| present.fingerprint() == resolved.inputs.fingerprint);
        if is_used
            && self.protect_secret(pool).await.is_ok()
            // Not before the watch shows it: one that is being deleted takes no finalizer.
            && self.protects_present_secret(pool)
            && resolved.list_now(&self.clock).await.is_ok()
        {
            self.release_former_secrets(pool).await?;
            return Ok(false);
        }
        Ok(true)
    }

    /// True for a cluster identity, whose Secret is the platform's.
    fn protects_present_secret(&self, pool: &OpenStackFloatingIPPool) -> bool {
        pool.spec.identity_ref.own_secret().is_none_or(|name| self.protected_secrets(pool).contains(name))
    }

    fn protected_secrets(&self, pool: &OpenStackFloatingIPPool) -> BTreeSet<String> {
        self.memory.secrets.lock().with_finalizer(&pool.namespace().unwrap_or_default(), &finalizer(pool))
    }

    fn former_secrets(&self, pool: &OpenStackFloatingIPPool) -> BTreeSet<String> {
        let mut protected = self.protected_secrets(pool);
        if let Some(name) = pool.spec.identity_ref.own_secret() {
            protected.remove(name);
        }
        protected
    }

    async fn release_former_secrets(&self, pool: &OpenStackFloatingIPPool) -> Result<(), Error> {
        for name in self.former_secrets(pool) {
            self.release_secret(pool, &name).await?;
        }
        Ok(())
    }

    /// Releases every Secret of a pool that is about to be removed.
    pub(super) async fn release_secrets(&self, pool: &OpenStackFloatingIPPool) -> Result<(), Error> {
        self.release_former_secrets(pool).await?;
        match pool.spec.identity_ref.own_secret() {
            Some(name) => self.release_secret(pool, name).await,
            None => Ok(()),
        }
    }

    async fn release_secret(&self, pool: &OpenStackFloatingIPPool, name: &str) -> Result<(), Error> {
        let failed = |error| Error::Kubernetes("remove the finalizer from the Secret", error);
        if !is_name(name) {
            return Ok(());
        }
        let api = self.kube.secrets(&pool.namespace().unwrap_or_default());
        let Some(secret) = find(&api, name).await.map_err(failed)? else { return Ok(()) };
        let Some(change) = patch::without_finalizer(secret.meta(), &finalizer(pool)) else { return Ok(()) };
        match patch::merge(&api, name, change).await {
            Err(error) if !patch::is_gone(&error) => Err(failed(error)),
            _ => Ok(()),
        }
    }
}

async fn read_secret(
    kube: &Kubernetes,
    secret: &ObjectName,
    pool: &OpenStackFloatingIPPool,
) -> Result<Secret, PoolFailure> {
    let failed = |message| PoolFailure::Credentials(Problem { reason: reasons::SECRET_NOT_FOUND, message });
    if !is_name(&secret.name) {
        let message = "spec.identityRef.name cannot be the name of a Secret: use lowercase letters, digits, - and .";
        return Err(failed(message.into()));
    }
    let title = title(secret, pool);
    let read = kube.secrets(&secret.namespace).get(&secret.name).await.map_err(|error| {
        failed(match (patch::is_gone(&error), pool.spec.identity_ref.own_secret()) {
            (true, Some(_)) => format!(
                "{title} (spec.identityRef.name) does not exist in this namespace: create it with the key clouds.yaml"
            ),
            (true, None) => format!("{title} does not exist: create it with the key clouds.yaml"),
            (false, Some(_)) => format!("{title} (spec.identityRef.name) cannot be read: {}", reply(&error)),
            (false, None) => format!("{title} cannot be read: {}", reply(&error)),
        })
    })?;
    // Without the error, which may quote the credentials.
    read.0.map_err(|_| failed(format!("{title} cannot be read: it has not the form of a Secret")))
}

/// The Secret, for messages.
fn title(secret: &ObjectName, pool: &OpenStackFloatingIPPool) -> String {
    match pool.spec.identity_ref.cluster_identity() {
        None => format!("Secret {}", secret.name),
        Some(identity) => format!("Secret {secret} of {CLUSTER_IDENTITY_KIND} {identity}"),
    }
}

fn unprotected(name: &str, why: &str) -> PoolFailure {
    let message = format!("Secret {name} (spec.identityRef.name) cannot be protected by a finalizer: {why}");
    PoolFailure::Credentials(Problem { reason: reasons::CREDENTIALS_INVALID, message })
}

/// One pool's finalizer on its Secret. A hash, since a pool's name may be longer than a finalizer's may.
pub(in crate::controllers) fn finalizer(pool: &impl ResourceExt) -> String {
    format!("{SECRET_FINALIZER_PREFIX}{}", ClaimKey::of(&pool.namespace().unwrap_or_default(), &pool.name_any()))
}
