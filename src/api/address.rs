//! Cluster API's `IPAddress`: the same in both versions as far as we read and write it.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::TypeMeta;
use serde::{Deserialize, Serialize};

use super::claim::{AddressRef, PoolRef};
use super::names::GROUP;
use super::version::IpamVersion;

/// An address that a claim holds.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct IpAddress {
    /// Version and kind: needed where the whole object is sent.
    #[serde(flatten, default)]
    pub types: Option<TypeMeta>,
    /// Kubernetes' own part.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// The address; immutable.
    #[serde(default)]
    pub spec: IpAddressSpec,
}

impl IpAddress {
    /// Whether it is of our pool of this name.
    pub fn is_of(&self, namespace: &str, pool: &str) -> bool {
        self.metadata.namespace.as_deref() == Some(namespace) && self.spec.pool_ref.is_ours_named(pool)
    }
}

/// The address and whose it is.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IpAddressSpec {
    /// The claim that holds it.
    #[serde(default)]
    pub claim_ref: AddressRef,
    /// The pool that it came from.
    #[serde(default)]
    pub pool_ref: PoolRef,
    /// The address itself.
    #[serde(default)]
    pub address: String,
    /// The length of its prefix in bits: 32, or 128 for IPv6, since a floating IP stands alone.
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
