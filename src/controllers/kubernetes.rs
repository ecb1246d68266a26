//! Typed access to the API server, per kind.

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::core::{ApiResource, PartialObjectMeta};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;

use super::patch;
use super::stores::name_of;
use crate::api::guarded::Guarded;
use crate::api::{IpAddress, IpAddressClaim, IpamVersion, OpenStackFloatingIPPool};
use crate::object_name::{ObjectName, is_name};

/// The management cluster's API server.
#[derive(Clone)]
pub(super) struct Kubernetes {
    pub(super) client: Client,
    /// The version of Cluster API's kinds.
    pub(super) version: IpamVersion,
}

impl Kubernetes {
    pub(super) fn claims(&self, namespace: &str) -> Api<IpAddressClaim> {
        Api::namespaced_with(self.client.clone(), namespace, &self.version)
    }

    pub(super) fn addresses(&self, namespace: &str) -> Api<IpAddress> {
        Api::namespaced_with(self.client.clone(), namespace, &self.version)
    }

    pub(super) fn pools(&self, namespace: &str) -> Api<Guarded<OpenStackFloatingIPPool>> {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// The metadata of pools, which can be read even where this version cannot read the rest.
    pub(super) fn pool_metadata_api(
        &self,
        namespace: &str,
    ) -> Api<Guarded<PartialObjectMeta<OpenStackFloatingIPPool>>> {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// The metadata of one pool. None for a name that no object can have.
    pub(super) async fn pool_metadata(
        &self,
        pool: &ObjectName,
    ) -> Result<Option<Guarded<PartialObjectMeta<OpenStackFloatingIPPool>>>, kube::Error> {
        match is_name(&pool.name) {
            true => find(&self.pool_metadata_api(&pool.namespace), &pool.name).await,
            false => Ok(None),
        }
    }

    /// Whether this pool exists, and not another one with its name, even if the watch has not delivered that.
    pub(super) async fn is_current(&self, pool: &OpenStackFloatingIPPool) -> Result<bool, kube::Error> {
        let current = self.pool_metadata(&name_of(pool)).await?;
        Ok(current.is_some_and(|current| current.meta().uid == pool.metadata.uid))
    }

    pub(super) fn config_maps(&self, namespace: &str) -> Api<Guarded<ConfigMap>> {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// One Secret serves several pools, so what a user wrote into its metadata keeps none of them from reading it.
    pub(super) fn secrets(&self, namespace: &str) -> Api<Guarded<Secret>> {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// Whether a request failed since the API server does not serve the kind. It answers with a page then, as a proxy
    /// may, so only the list of what it serves decides. Without that list it is not known, and the failure counts.
    pub(super) async fn is_unserved(&self, kind: &ApiResource, error: &kube::Error) -> bool {
        patch::is_not_found(error) && !patch::is_gone(error) && matches!(self.serves(kind).await, Ok(false))
    }

    async fn serves(&self, kind: &ApiResource) -> Result<bool, kube::Error> {
        let groups = self.client.list_api_groups().await?.groups;
        let group = groups.iter().find(|group| group.name == kind.group);
        if !group.is_some_and(|group| group.versions.iter().any(|version| version.version == kind.version)) {
            return Ok(false);
        }
        let resources = self.client.list_api_group_resources(&kind.api_version).await?.resources;
        Ok(resources.iter().any(|resource| resource.name == kind.plural))
    }
}

/// Reads an object; `None` if it does not exist. Unlike [`Api::get_opt`], it believes only an answer about the object,
/// and not the 404 of a proxy in front of the API server.
pub(super) async fn find<K>(api: &Api<K>, name: &str) -> Result<Option<K>, kube::Error>
where
    K: Clone + DeserializeOwned + std::fmt::Debug,
{
    match api.get(name).await {
        Ok(object) => Ok(Some(object)),
        Err(error) if patch::is_gone(&error) => Ok(None),
        Err(error) => Err(error),
    }
}
