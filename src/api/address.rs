//! Cluster API's `IPAddress`: the same in both versions as far as we read and write it.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::core::TypeMeta;
use kube::{Resource, ResourceExt};
use serde::{Deserialize, Serialize};

use super::claim::{AddressRef, PoolRef};
use super::metadata::Metadata;
use super::names::{
    CLAIM_KIND, FLOATING_IP_ID_ANNOTATION, GROUP, NETWORK_ID_ANNOTATION, ORIGIN_ANNOTATION, POOL_ID_ANNOTATION,
    POOL_KIND,
};
use super::version::IpamVersion;

#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct IpAddress {
    /// `apiVersion` and `kind`: required to create the object.
    #[serde(flatten, default)]
    pub types: Option<TypeMeta>,
    #[serde(default, deserialize_with = "Metadata::deserialize")]
    pub metadata: ObjectMeta,
    /// Immutable.
    #[serde(default)]
    pub spec: IpAddressSpec,
    /// The annotations that [`Self::compact`] took out of the metadata.
    #[serde(skip)]
    compacted: [Option<Box<str>>; COMPACTED.len()],
    /// The UIDs of the owners that [`Self::compact`] took out of the metadata.
    #[serde(skip)]
    compacted_owners: Box<[Box<str>]>,
}

/// The annotations that each of our IPAddresses has.
const COMPACTED: [&str; 4] = [POOL_ID_ANNOTATION, FLOATING_IP_ID_ANNOTATION, NETWORK_ID_ANNOTATION, ORIGIN_ANNOTATION];

impl IpAddress {
    /// With the `apiVersion` and `kind` that a creation requires.
    pub fn new(version: IpamVersion, spec: IpAddressSpec) -> Self {
        let (api_version, kind) = (Self::api_version(&version).into_owned(), Self::kind(&version).into_owned());
        Self { types: Some(TypeMeta { api_version, kind }), spec, ..Self::default() }
    }

    /// Takes our annotations and owners out of the metadata, to be kept in memory: the map of annotations takes a
    /// kilobyte, the claim and the pool as owners half of one.
    pub fn compact(&mut self) {
        let owners = self.metadata.owner_references.take().unwrap_or_default();
        let (own, others): (Vec<_>, Vec<_>) = owners.into_iter().partition(|owner| self.is_claim_or_pool(owner));
        self.compacted_owners = own.into_iter().map(|owner| owner.uid.into_boxed_str()).collect();
        self.metadata.owner_references = (!others.is_empty()).then_some(others);
        let Some(annotations) = &mut self.metadata.annotations else { return };
        for (compacted, name) in self.compacted.iter_mut().zip(COMPACTED) {
            *compacted = annotations.remove(name).map(String::into_boxed_str);
        }
        self.metadata.annotations.take_if(|annotations| annotations.is_empty());
    }

    /// The value of an annotation, whether or not it was taken out of the metadata.
    pub fn annotation(&self, name: &str) -> Option<&str> {
        let compacted = COMPACTED.iter().zip(&self.compacted).find(|(own, _)| **own == name);
        let in_metadata = || self.metadata.annotations.as_ref()?.get(name).map(String::as_str);
        compacted.and_then(|(_, value)| value.as_deref()).or_else(in_metadata)
    }

    /// Whether an owner has this UID, whether or not it was taken out of the metadata.
    pub fn has_owner(&self, uid: &str) -> bool {
        self.compacted_owners.iter().any(|owner| **owner == *uid)
            || self.owner_references().iter().any(|owner| owner.uid == uid)
    }

    /// Whether it is a reference to the claim or the pool that the spec names, or to an earlier one of that name.
    pub fn is_claim_or_pool(&self, owner: &OwnerReference) -> bool {
        let Self { spec: IpAddressSpec { claim_ref, pool_ref, .. }, .. } = self;
        let own = [(CLAIM_KIND, &claim_ref.name), (POOL_KIND, &pool_ref.name)];
        let is_of_group = owner.api_version.split_once('/').is_some_and(|(group, _)| group == GROUP);
        is_of_group && own.contains(&(owner.kind.as_str(), &owner.name))
    }

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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::names::CAPO_GROUP;

    #[test]
    fn a_compact_one_has_the_same_annotations() {
        let whole: IpAddress = serde_json::from_value(json!({"metadata": {"annotations": {
            POOL_ID_ANNOTATION: "p", FLOATING_IP_ID_ANNOTATION: "f", ORIGIN_ANNOTATION: "created", "other": "x",
        }}}))
        .unwrap();
        let mut compact = whole.clone();
        compact.compact();
        for address in [&whole, &compact] {
            let names = [POOL_ID_ANNOTATION, FLOATING_IP_ID_ANNOTATION, NETWORK_ID_ANNOTATION, ORIGIN_ANNOTATION];
            let found = names.map(|name| address.annotation(name));
            assert_eq!(
                (found, address.annotation("other")),
                ([Some("p"), Some("f"), None, Some("created")], Some("x"))
            );
        }
        assert_eq!(compact.metadata.annotations, Some([("other".to_owned(), "x".to_owned())].into()));
        let mut own = IpAddress {
            metadata: ObjectMeta {
                annotations: Some([(POOL_ID_ANNOTATION.into(), "p".into())].into()),
                ..Default::default()
            },
            ..Default::default()
        };
        own.compact();
        assert_eq!((own.metadata.annotations.as_ref(), own.annotation(POOL_ID_ANNOTATION)), (None, Some("p")));
    }

    #[test]
    fn a_compact_one_has_the_same_owners_and_keeps_the_references_to_others() {
        let owner = |group: &str, kind: &str, name: &str, uid: &str| {
            let version = format!("{group}/v1beta1");
            json!({"apiVersion": version, "kind": kind, "name": name, "uid": uid})
        };
        let own = [owner(GROUP, CLAIM_KIND, "web", "c"), owner(GROUP, POOL_KIND, "public", "p")];
        let others = [owner(GROUP, CLAIM_KIND, "public", "x"), owner(CAPO_GROUP, POOL_KIND, "public", "y")];
        let with = |owners: &[serde_json::Value]| -> IpAddress {
            let spec = json!({"claimRef": {"name": "web"}, "poolRef": PoolRef::ours("public")});
            serde_json::from_value(json!({"metadata": {"ownerReferences": owners}, "spec": spec})).unwrap()
        };
        let whole = with(&[own.as_slice(), &others].concat());
        let mut compact = whole.clone();
        compact.compact();
        for address in [&whole, &compact] {
            assert_eq!(["c", "p", "x", "y", "z"].map(|uid| address.has_owner(uid)), [true, true, true, true, false]);
        }
        assert_eq!(compact.metadata.owner_references, with(&others).metadata.owner_references);
        let mut compact = with(&own);
        compact.compact();
        assert_eq!(compact.metadata.owner_references, None);
        assert!(compact.has_owner("c") && compact.has_owner("p"));
    }
}
