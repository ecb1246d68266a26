//! Writes the pool's finalizer, its id in marks and its project, before anything is done in Neutron.

use std::sync::Arc;

use kube::ResourceExt;
use serde_json::{Value, json};

use super::identity::known_id;
use super::{Error, PoolController};
use crate::allocation::PoolId;
use crate::api::OpenStackFloatingIPPool;
use crate::api::guarded::Guarded;
use crate::api::names::{POOL_FINALIZER, POOL_ID_ANNOTATION, PROJECT_ID_ANNOTATION, REGION_ANNOTATION};
use crate::controllers::memory::ResolvedPool;
use crate::controllers::objects::is_watched;
use crate::controllers::patch;
use crate::controllers::stores::{may_serve, name_of, with_all_references};

/// How often to try to write to a pool that others keep changing, before it is reconciled again.
const TRIES: usize = 5;

const ADOPT: &str = "add finalizer, id and project to the pool";

impl PoolController {
    /// Returns the adopted pool. A pool is adopted only when it can be served: before, it has nothing in OpenStack that
    /// its deletion would have to wait for.
    pub(super) async fn adopt(
        &self,
        pool: &Arc<OpenStackFloatingIPPool>,
        resolved: &ResolvedPool,
    ) -> Result<Arc<OpenStackFloatingIPPool>, Error> {
        let name = name_of(pool.as_ref());
        let api = self.kube.pools(&name.namespace);
        let mut latest = pool.clone();
        for _ in 1..TRIES {
            match self.write_identity(&latest, resolved).await {
                // It was changed meanwhile, but perhaps not in what the resolution depends on.
                Err(error) if patch::is_conflict(&error) => {
                    let now = api.get(&name.name).await.and_then(Guarded::into_object);
                    let now = now.map_err(|error| Error::Kubernetes("read the pool again", error))?;
                    if !self.is_unchanged(&now, pool, &resolved.policy.id) {
                        return Err(Error::Kubernetes(ADOPT, error));
                    }
                    latest = Arc::new(now);
                }
                result => return result.map_err(|error| Error::Kubernetes(ADOPT, error)),
            }
        }
        self.write_identity(&latest, resolved).await.map_err(|error| Error::Kubernetes(ADOPT, error))
    }

    /// If a user removed or overwrote the id of a pool with a problem, writes it again: the marks of its floating IPs have it.
    pub(super) async fn restore_id(&self, pool: &OpenStackFloatingIPPool) -> Result<(), Error> {
        let Some(id) = known_id(pool, &self.stores, &self.memory) else { return Ok(()) };
        let is_written = pool.annotations().get(POOL_ID_ANNOTATION).is_some_and(|written| written == id.as_str());
        if is_written || !patch::has_finalizer(&pool.metadata, POOL_FINALIZER) {
            return Ok(());
        }
        let change = json!({"metadata": {"annotations": {POOL_ID_ANNOTATION: id.as_str()}}});
        let written = self.write_metadata(pool, change).await;
        written.map(drop).map_err(|error| Error::Kubernetes("write the pool's id again", error))
    }

    async fn write_identity(
        &self,
        pool: &Arc<OpenStackFloatingIPPool>,
        resolved: &ResolvedPool,
    ) -> Result<Arc<OpenStackFloatingIPPool>, kube::Error> {
        let (id, scope) = (&resolved.policy.id, resolved.neutron.scope());
        let annotations = [
            (POOL_ID_ANNOTATION, id.as_str()),
            (PROJECT_ID_ANNOTATION, scope.project.as_str()),
            (REGION_ANNOTATION, scope.region.as_str()),
        ];
        let is_written =
            annotations.iter().all(|(key, value)| pool.annotations().get(*key).is_some_and(|written| written == value));
        if is_written && patch::has_finalizer(&pool.metadata, POOL_FINALIZER) {
            return Ok(pool.clone());
        }
        let api = self.kube.pools(&name_of(pool.as_ref()).namespace);
        let whole = with_all_references(&api, pool.as_ref()).await?;
        let mut change = patch::with_finalizer(&whole.metadata, POOL_FINALIZER).unwrap_or_else(|| json!({}));
        patch::set_metadata(&mut change, "annotations", annotations.into_iter().collect());
        let adopted = self.write_metadata(pool, change).await?;
        tracing::info!(pool.name = %name_of(&adopted), pool.id = %id, "pool adopted");
        Ok(Arc::new(adopted))
    }

    /// Fails when the pool is no longer as it was read, so that two writers cannot both set an id.
    async fn write_metadata(
        &self,
        pool: &OpenStackFloatingIPPool,
        mut change: Value,
    ) -> Result<OpenStackFloatingIPPool, kube::Error> {
        let name = name_of(pool);
        patch::set_metadata(&mut change, "resourceVersion", json!(pool.metadata.resource_version));
        let written = patch::merge(&self.kube.pools(&name.namespace), &name.name, change).await?;
        self.memory.pools.update(&name, |state| state.note_written(&written));
        written.into_object()
    }

    /// Whether the resolution is still valid: the same pool with the same spec, to be served, without another id.
    fn is_unchanged(&self, now: &OpenStackFloatingIPPool, before: &OpenStackFloatingIPPool, id: &PoolId) -> bool {
        now.metadata.uid == before.metadata.uid
            && now.metadata.generation == before.metadata.generation
            && may_serve(&now.metadata)
            && is_watched(now, self.watch_filter.as_deref())
            && now.annotations().get(POOL_ID_ANNOTATION).is_none_or(|given| given == id.as_str())
    }
}
