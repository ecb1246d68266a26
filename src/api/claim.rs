//! Cluster API's `IPAddressClaim`: the fields that we use, in both versions. We only patch claims, so other fields are
//! preserved.

use std::borrow::Cow;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::{Deserialize, Serialize};

use super::json_text::JsonText;
use super::metadata::Metadata;
use super::names::{CAPO_GROUP, CLAIM_KIND, GROUP, POOL_KIND};
use super::version::IpamVersion;

#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IpAddressClaim {
    #[serde(default, deserialize_with = "Metadata::deserialize")]
    pub metadata: ObjectMeta,
    /// Immutable.
    #[serde(default)]
    pub spec: IpAddressClaimSpec,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<IpAddressClaimStatus>,
}

impl IpAddressClaim {
    /// Whether it references this `OpenStackFloatingIPPool`.
    pub fn is_of(&self, namespace: &str, pool: &str) -> bool {
        self.metadata.namespace.as_deref() == Some(namespace) && self.spec.pool_ref.is_ours_named(pool)
    }

    /// The IPAddress that its status references. Where an API server with v1beta2 serves v1beta1, a claim without one has
    /// a reference with an empty name.
    pub fn address_name(&self) -> Option<&str> {
        let reference = self.status.as_ref()?.address_ref.as_ref()?;
        Some(reference.name.as_str()).filter(|name| !name.is_empty())
    }

    /// By the API server's clock, in seconds.
    pub fn created_at(&self) -> Timestamp {
        self.metadata.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0)
    }

    /// Whether it has no address yet. One that is being deleted gets none.
    pub fn is_waiting(&self) -> bool {
        self.address_name().is_none() && self.metadata.deletion_timestamp.is_none()
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IpAddressClaimSpec {
    /// CAPO does not set it, but the label `cluster.x-k8s.io/cluster-name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_name: Option<String>,
    /// In the claim's namespace.
    #[serde(default)]
    pub pool_ref: PoolRef,
}

/// A pool of any provider.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolRef {
    /// Optional in v1beta1's schema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_group: Option<Cow<'static, str>>,
    #[serde(default)]
    pub kind: Cow<'static, str>,
    #[serde(default)]
    pub name: String,
}

impl PoolRef {
    /// References an `OpenStackFloatingIPPool`.
    pub fn ours(name: &str) -> Self {
        Self { api_group: Some(GROUP.into()), kind: POOL_KIND.into(), name: name.into() }
    }

    /// Shares the texts that all of ours have, to be kept in memory.
    pub fn compact(&mut self) {
        if self.is_ours() {
            *self = Self { name: std::mem::take(&mut self.name), ..Self::ours("") };
        }
    }

    pub fn is_ours_named(&self, name: &str) -> bool {
        self.is_ours() && self.name == name
    }

    /// Whether it misspells our kind: no controller serves such a claim.
    pub fn is_misspelt(&self) -> bool {
        let singular = self.kind.strip_suffix('s').unwrap_or(&self.kind);
        self.api_group.as_deref() == Some(GROUP) && self.kind != POOL_KIND && singular.eq_ignore_ascii_case(POOL_KIND)
    }

    /// Whether it names CAPO's in-tree pool, which has the same kind.
    pub fn is_capos(&self) -> bool {
        self.api_group.as_deref() == Some(CAPO_GROUP) && self.kind == POOL_KIND
    }

    /// Compares group and kind: CAPO's pool has the same kind.
    pub fn is_ours(&self) -> bool {
        self.api_group.as_deref() == Some(GROUP) && self.kind == POOL_KIND
    }
}

#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IpAddressClaimStatus {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address_ref: Option<AddressRef>,
    /// In the form of the object's version: see [`super::conditions`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conditions: Option<JsonText>,
    /// v1beta1 only: contains v1beta2 conditions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub v1beta2: Option<JsonText>,
    /// v1beta2 only: contains v1beta1 conditions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deprecated: Option<JsonText>,
}

/// References an object in the same namespace.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct AddressRef {
    #[serde(default)]
    pub name: String,
}

impl Resource for IpAddressClaim {
    type DynamicType = IpamVersion;
    type Scope = kube::core::DynamicResourceScope;

    fn kind(_: &IpamVersion) -> Cow<'_, str> {
        CLAIM_KIND.into()
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_reference_with_an_empty_name_references_nothing() {
        let claim = |status| serde_json::from_value::<IpAddressClaim>(json!({"status": status})).unwrap();
        for status in [json!({}), json!({"addressRef": {}}), json!({"addressRef": {"name": ""}})] {
            let claim = claim(status);
            assert_eq!((claim.address_name(), claim.is_waiting()), (None, true));
        }
        let bound = claim(json!({"addressRef": {"name": "web-0"}}));
        assert_eq!((bound.address_name(), bound.is_waiting()), (Some("web-0"), false));
    }

    #[test]
    fn compact_references_to_our_pools_share_their_texts() {
        let is_shared = |reference: &PoolRef| {
            matches!(reference.api_group, Some(Cow::Borrowed(_))) && matches!(reference.kind, Cow::Borrowed(_))
        };
        for (group, is_ours) in [(GROUP, true), (CAPO_GROUP, false)] {
            let read = || -> PoolRef {
                serde_json::from_value(json!({"apiGroup": group, "kind": POOL_KIND, "name": "public"})).unwrap()
            };
            let mut compact = read();
            assert!(!is_shared(&compact));
            compact.compact();
            assert_eq!((&compact, is_shared(&compact)), (&read(), is_ours), "{group}");
        }
    }
}
