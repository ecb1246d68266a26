//! Cluster API's `IPAddress`: the same in both versions as far as we read and write it.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::TypeMeta;
use serde::{Deserialize, Serialize};

use super::claim::{AddressRef, PoolRef};
use super::names::GROUP;
use super::version::IpamVersion;

#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct IpAddress {
    /// `apiVersion` and `kind`: required to create the object.
    #[serde(flatten, default)]
    pub types: Option<TypeMeta>,
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// Immutable.
    #[serde(default)]
    pub spec: IpAddressSpec,
}

impl IpAddress {
    /// Whether it belongs to this `OpenStackFloatingIPPool`.
    pub fn is_of(&self, namespace: &str, pool: &str) -> bool {
        self.metadata.namespace.as_deref() == Some(namespace) && self.spec.pool_ref.is_ours_named(pool)
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IpAddressSpec {
    #[serde(default)]
    pub claim_ref: AddressRef,
    #[serde(default)]
    pub pool_ref: PoolRef,
    #[serde(default)]
    pub address: String,
    /// 32, or 128 for IPv6: a floating IP is a single address.
    #[serde(default)]
    pub prefix: i32,
}

impl Resource for IpAddress {
    type DynamicType = IpamVersion;
    type Scope = kube::core::DynamicResourceScope;

    fn kind(_: &IpamVersion) -> Cow<'_, str> {
        "IPAddress".into()
    }

    fn group(_: &IpamVersion) -> Cow<'_, str> {
        GROUP.into()
    }

    fn version(version: &IpamVersion) -> Cow<'_, str> {
        version.as_str().into()
    }

    fn plural(_: &IpamVersion) -> Cow<'_, str> {
        "ipaddresses".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
