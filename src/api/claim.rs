//! Cluster API's `IPAddressClaim`: the fields that we read, in either version. Unknown ones survive, since we only patch.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::names::{GROUP, POOL_KIND};
use super::version::IpamVersion;

/// A request for one address from a pool.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IpAddressClaim {
    /// Kubernetes' own part.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What is asked for; immutable.
    #[serde(default)]
    pub spec: IpAddressClaimSpec,
    /// What was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<IpAddressClaimStatus>,
}

impl IpAddressClaim {
    /// Whether it asks our pool of this name.
    pub fn is_of(&self, namespace: &str, pool: &str) -> bool {
        self.metadata.namespace.as_deref() == Some(namespace) && self.spec.pool_ref.is_ours_named(pool)
    }
}

/// What a claim asks for.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IpAddressClaimSpec {
    /// The Cluster it belongs to; CAPO sets the label instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_name: Option<String>,
    /// The pool to take it from, in the same namespace.
    #[serde(default)]
    pub pool_ref: PoolRef,
}

/// A pool, of any provider.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolRef {
    /// Its API group; optional in v1beta1's schema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_group: Option<String>,
    /// Its kind.
    #[serde(default)]
    pub kind: String,
    /// Its name.
    #[serde(default)]
    pub name: String,
}

impl PoolRef {
    /// One of our pools.
    pub fn ours(name: &str) -> Self {
        Self { api_group: Some(GROUP.into()), kind: POOL_KIND.into(), name: name.into() }
    }

    /// Whether it is our pool of this name.
    pub fn is_ours_named(&self, name: &str) -> bool {
        self.is_ours() && self.name == name
    }

    /// Whether it is one of our pools: group and kind, since CAPO's pool has the same kind.
    pub fn is_ours(&self) -> bool {
        self.api_group.as_deref() == Some(GROUP) && self.kind == POOL_KIND
    }
}

/// What a claim was given.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IpAddressClaimStatus {
    /// The IPAddress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address_ref: Option<AddressRef>,
    /// Conditions in the version's own form: kept as they are, see [`super::conditions`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Value>,
    /// v1beta1 only: where new-style conditions go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub v1beta2: Option<Value>,
    /// v1beta2 only: where old-style conditions go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deprecated: Option<Value>,
}

/// An IPAddress in the claim's namespace.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct AddressRef {
    /// Its name.
    #[serde(default)]
    pub name: String,
}

impl Resource for IpAddressClaim {
    type DynamicType = IpamVersion;
    type Scope = kube::core::DynamicResourceScope;

    fn kind(_: &IpamVersion) -> Cow<'_, str> {
        "IPAddressClaim".into()
    }

    fn group(_: &IpamVersion) -> Cow<'_, str> {
        GROUP.into()
    }

    fn version(version: &IpamVersion) -> Cow<'_, str> {
        version.as_str().into()
    }

    fn plural(_: &IpamVersion) -> Cow<'_, str> {
        "ipaddressclaims".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
