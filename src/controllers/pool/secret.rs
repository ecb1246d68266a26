//! The credentials Secret: read, and kept while a pool may need it for cleaning up.

use k8s_openapi::api::core::v1::Secret;
use kube::{Api, ResourceExt};

use super::Error;
use super::resolve::PoolFailure;
use crate::allocation::ClaimKey;
use crate::api::OpenStackFloatingIPPool;
use crate::api::conditions::pool_reasons as reasons;
use crate::api::names::SECRET_FINALIZER_PREFIX;
use crate::controllers::context::Context;
use crate::controllers::patch;
use crate::controllers::registry::Problem;
use crate::openstack::Credentials;

/// How often a Secret is read again because somebody changed it in between: as many pools as may name one and start at
/// the same moment.
const TRIES: usize = 32;

/// The pool's credentials.
pub(super) async fn read(pool: &OpenStackFloatingIPPool, ctx: &Context) -> Result<Credentials, PoolFailure> {
    credentials(pool, get(pool, ctx).await?)
}

/// Keeps the pool's Secret until the pool lets it go.
pub(super) async fn protect(pool: &OpenStackFloatingIPPool, ctx: &Context) -> Result<(), PoolFailure> {
    let name = &pool.spec.identity_ref.name;
    for _ in 0..TRIES {
        let secret = get(pool, ctx).await?;
        // A finalizer cannot be put on what is being deleted already; it is used as long as it is there.
        let change = match secret.metadata.deletion_timestamp {
            None => patch::with_finalizer(&secret.metadata, &finalizer(pool)),
            Some(_) => None,
        };
        let Some(change) = change else { return Ok(()) };
        match patch::merge(&secrets(pool, ctx), name, change).await {
            Ok(_) => return Ok(()),
            // Another pool was quicker, or the Secret went or was changed: it is read again.
            Err(error) if patch::is_conflict(&error) || patch::is_not_found(&error) => {}
            Err(error) => return Err(unprotected(name, &said(&error))),
        }
    }
    Err(unprotected(name, "it changes all the time"))
}

fn unprotected(name: &str, why: &str) -> PoolFailure {
    let message = format!("Secret {name} (spec.identityRef.name) cannot be protected by a finalizer: {why}");
    PoolFailure::Credentials(Problem { reason: reasons::CREDENTIALS_INVALID, message })
}

/// The API server's own words, without all that a client knows about an answer.
fn said(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}

/// Lets every Secret go that the pool named once and names no longer. For a pool that works with the one it names now:
/// until then its old one may be needed for cleaning up.
pub(super) async fn let_go_others(pool: &OpenStackFloatingIPPool, ctx: &Context) -> Result<(), Error> {
    let mut kept = ctx.kept_secrets().of(&pool.namespace().unwrap_or_default(), &finalizer(pool));
    kept.remove(&pool.spec.identity_ref.name);
    for name in kept {
        let_go(pool, &name, ctx).await?;
    }
    Ok(())
}

/// Lets every Secret go: the pool ends.
pub(super) async fn let_go_all(pool: &OpenStackFloatingIPPool, ctx: &Context) -> Result<(), Error> {
    let_go_others(pool, ctx).await?;
    let_go(pool, &pool.spec.identity_ref.name, ctx).await
}

async fn let_go(pool: &OpenStackFloatingIPPool, name: &str, ctx: &Context) -> Result<(), Error> {
    let failed = |error| Error::Kubernetes("take the finalizer off the Secret", error);
    let secret = match secrets(pool, ctx).get(name).await {
        Ok(secret) => secret,
        Err(error) if patch::is_not_found(&error) => return Ok(()),
        Err(error) => return Err(failed(error)),
    };
    let Some(change) = patch::without_finalizer(&secret.metadata, &finalizer(pool)) else { return Ok(()) };
    match patch::merge(&secrets(pool, ctx), name, change).await {
        Ok(_) => Ok(()),
        Err(error) if patch::is_not_found(&error) => Ok(()),
        Err(error) => Err(failed(error)),
    }
}

fn secrets(pool: &OpenStackFloatingIPPool, ctx: &Context) -> Api<Secret> {
    Api::namespaced(ctx.client.clone(), &pool.namespace().unwrap_or_default())
}

/// One pool's finalizer on its Secret. A hash, since a pool's name may be longer than a finalizer's may.
pub(in crate::controllers) fn finalizer(pool: &OpenStackFloatingIPPool) -> String {
    format!("{SECRET_FINALIZER_PREFIX}{}", ClaimKey::of(&pool.namespace().unwrap_or_default(), &pool.name_any()))
}

async fn get(pool: &OpenStackFloatingIPPool, ctx: &Context) -> Result<Secret, PoolFailure> {
    let name = &pool.spec.identity_ref.name;
    secrets(pool, ctx).get(name).await.map_err(|error| {
        let message = if patch::is_not_found(&error) {
            format!(
                "Secret {name} (spec.identityRef.name) does not exist in this namespace: create it with the key clouds.yaml"
            )
        } else {
            format!("Secret {name} (spec.identityRef.name) cannot be read: {}", said(&error))
        };
        PoolFailure::Credentials(Problem { reason: reasons::SECRET_NOT_FOUND, message })
    })
}

fn credentials(pool: &OpenStackFloatingIPPool, secret: Secret) -> Result<Credentials, PoolFailure> {
    let identity = &pool.spec.identity_ref;
    let data = secret.data.unwrap_or_default();
    Credentials::from_secret(&data, &identity.cloud_name, identity.region.as_deref()).map_err(|error| {
        let message = format!("Secret {}: {error}", identity.name);
        PoolFailure::Credentials(Problem { reason: reasons::CREDENTIALS_INVALID, message })
    })
}
