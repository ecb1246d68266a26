//! An object as it is read from the API server. Whatever a user wrote into it, it never keeps another one from being read.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

/// An object, or why it cannot be read. kube's own guard reads all metadata of what it cannot read, and that may be what
/// cannot be read: `managedFields` has times that any user may write, also those that no other time may be.
#[derive(Clone, Debug)]
pub(crate) struct Guarded<K>(pub(crate) Result<K, Unreadable>);

#[derive(Clone, Debug)]
pub(crate) struct Unreadable {
    pub(crate) error: String,
    /// Only the names and versions.
    pub(crate) metadata: ObjectMeta,
}

impl<K> Guarded<K> {
    /// The object, for a caller that needs more than its names and versions.
    pub(crate) fn into_object(self) -> Result<K, kube::Error> {
        self.0.map_err(|unreadable| kube::Error::SerdeError(serde_json::Error::custom(unreadable.error)))
    }
}

impl<'de, K: DeserializeOwned> Deserialize<'de> for Guarded<K> {
    /// From JSON alone, since its text is read several times.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        let error = match read(text.get()) {
            Ok(object) => return Ok(Self(Ok(object))),
            Err(error) => error.to_string(),
        };
        let Named { metadata } = serde_json::from_str(text.get()).map_err(D::Error::custom)?;
        let NamedMeta { name, namespace, uid, resource_version } = metadata;
        let metadata = ObjectMeta { name, namespace, uid, resource_version, ..ObjectMeta::default() };
        Ok(Self(Err(Unreadable { error, metadata })))
    }
}

impl<K: Serialize> Serialize for Guarded<K> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Ok(object) => object.serialize(serializer),
            Err(unreadable) => Err(serde::ser::Error::custom(&unreadable.error)),
        }
    }
}

fn read<K: DeserializeOwned>(text: &str) -> serde_json::Result<K> {
    serde_json::from_str(text).or_else(|_| {
        let mut object: Value = serde_json::from_str(text)?;
        if let Some(meta) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            meta.remove("managedFields");
        }
        K::deserialize(object)
    })
}

#[derive(Deserialize)]
struct Named {
    metadata: NamedMeta,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NamedMeta {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
}

impl<K: Resource> Resource for Guarded<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn metadata_api() -> bool {
        K::metadata_api()
    }

    fn kind(kind: &Self::DynamicType) -> Cow<'_, str> {
        K::kind(kind)
    }

    fn group(kind: &Self::DynamicType) -> Cow<'_, str> {
        K::group(kind)
    }

    fn version(kind: &Self::DynamicType) -> Cow<'_, str> {
        K::version(kind)
    }

    fn plural(kind: &Self::DynamicType) -> Cow<'_, str> {
        K::plural(kind)
    }

    fn meta(&self) -> &ObjectMeta {
        self.0.as_ref().map_or_else(|unreadable| &unreadable.metadata, K::meta)
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.0.as_mut().map_or_else(|unreadable| &mut unreadable.metadata, K::meta_mut)
    }
}

#[cfg(test)]
mod tests {
    use kube::ResourceExt;
    use kube::core::{ObjectList, PartialObjectMeta, WatchEvent};
    use serde_json::json;

    use super::*;
    use crate::api::OpenStackFloatingIPPool;
    use k8s_openapi::api::core::v1::Secret;

    fn pool(spec: &Value, managed: &Value) -> Value {
        let meta = json!({"name": "p", "namespace": "n", "resourceVersion": "7", "managedFields": managed});
        json!({"apiVersion": "ipam.cluster.x-k8s.io/v1alpha1", "kind": "OpenStackFloatingIPPool", "metadata": meta, "spec": spec})
    }

    fn read_pool(object: &Value) -> Guarded<OpenStackFloatingIPPool> {
        serde_json::from_str(&object.to_string()).expect("an object")
    }

    #[test]
    fn a_time_that_cannot_be_is_left_out() {
        let managed = json!([{"manager": "x", "operation": "Update", "time": "9999-12-31T00:00:00Z"}]);
        let object = pool(&json!({"identityRef": {"name": "cloud", "cloudName": "openstack"}}), &managed);
        assert!(
            serde_json::from_str::<kube::core::DeserializeGuard<OpenStackFloatingIPPool>>(&object.to_string()).is_err()
        );
        assert!(read_pool(&object).0.is_ok_and(|pool| pool.metadata.managed_fields.is_none()));
        let secret: Guarded<PartialObjectMeta<Secret>> = serde_json::from_str(&object.to_string()).expect("an object");
        assert!(secret.into_object().is_ok());
    }

    #[test]
    fn what_cannot_be_read_has_a_name_and_a_version() {
        let bad = read_pool(&pool(&json!({"identityRef": 7}), &json!("times")));
        assert!(bad.clone().into_object().is_err_and(|error| error.to_string().contains("invalid type")));
        assert_eq!(
            (bad.name_any(), bad.namespace(), bad.resource_version()),
            ("p".into(), Some("n".into()), Some("7".into()))
        );
    }

    #[test]
    fn only_the_metadata_is_requested_of_what_has_nothing_else() {
        assert!(Guarded::<PartialObjectMeta<Secret>>::metadata_api());
        assert!(!Guarded::<Secret>::metadata_api());
    }

    #[test]
    fn one_object_does_not_keep_a_list_or_a_watch_from_being_read() {
        let nested = (0..200).fold(json!(1), |inner, _| json!([inner]));
        let objects = [
            pool(&nested, &json!([])),
            pool(&json!({"identityRef": {"name": "cloud", "cloudName": "openstack"}}), &json!([])),
        ];
        let list = json!({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": objects}).to_string();
        let list: ObjectList<Guarded<OpenStackFloatingIPPool>> = serde_json::from_str(&list).expect("a list");
        assert_eq!(list.items.iter().map(|pool| pool.0.is_ok()).collect::<Vec<_>>(), [false, true]);
        // As the API server writes it: first the type.
        let event = format!(r#"{{"type":"MODIFIED","object":{}}}"#, objects[0]);
        let event: WatchEvent<Guarded<OpenStackFloatingIPPool>> = serde_json::from_str(&event).expect("an event");
        assert!(matches!(event, WatchEvent::Modified(pool) if pool.0.is_err() && pool.name_any() == "p"));
    }
}
