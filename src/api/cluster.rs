//! Cluster API's `Cluster`: only whether it exists and is paused.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::{Deserialize, Serialize};

use super::metadata::Metadata;
use super::names::PAUSED_ANNOTATION;
use super::version::IpamVersion;

#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Cluster {
    #[serde(default, deserialize_with = "Metadata::deserialize")]
    pub metadata: ObjectMeta,
    #[serde(default)]
    pub spec: ClusterSpec,
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ClusterSpec {
    #[serde(default)]
    pub paused: Option<bool>,
}

impl Cluster {
    /// By its spec or by the annotation.
    pub fn is_paused(&self) -> bool {
        self.spec.paused == Some(true)
            || self.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(PAUSED_ANNOTATION))
    }
}

impl Resource for Cluster {
    // Cluster API serves its core kinds in the same versions as its IPAM kinds.
    type DynamicType = IpamVersion;
    type Scope = kube::core::DynamicResourceScope;

    fn kind(_: &IpamVersion) -> Cow<'_, str> {
        "Cluster".into()
    }

    fn group(_: &IpamVersion) -> Cow<'_, str> {
        "cluster.x-k8s.io".into()
    }

    fn version(version: &IpamVersion) -> Cow<'_, str> {
        version.as_str().into()
    }

    fn plural(_: &IpamVersion) -> Cow<'_, str> {
        "clusters".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
