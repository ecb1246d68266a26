//! What the laws read of Kubernetes' objects.

use std::net::IpAddr;
use std::sync::Arc;

use caip_openstack::allocation::{ClaimKey, PoolId};
use caip_openstack::api::names::{
    CLUSTER_NAME_LABEL, DELETE_FOR_MOVE_ANNOTATION, FLOATING_IP_ID_ANNOTATION, GROUP, PAUSED_ANNOTATION,
    POOL_ID_ANNOTATION, POOL_KIND,
};
use caip_openstack::floating_ip::FloatingIpId;
use caip_openstack::object_name::ObjectName;
use jiff::Timestamp;
use serde_json::Value;

/// A test's label on an IPAddress that it wrote or changed as a user would, by hand.
pub const FORGED_LABEL: &str = "tests.caip-openstack/forged";

/// An IPAddress of one of our pools.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Binding {
    /// Which management cluster.
    pub site: usize,
    /// The claim's namespace and name, which are the IPAddress' too.
    pub object: ObjectName,
    pub pool: PoolId,
    pub claim: ClaimKey,
    pub address: IpAddr,
    pub fip: FloatingIpId,
    /// When the IPAddress was created.
    pub since: Option<Timestamp>,
    /// Whether its claim exists and is not being deleted.
    pub has_claim: bool,
    /// Whether its claim exists, has had no address, and was told that it may not have this one without marks.
    pub is_refused: bool,
    /// The same where it was told that another claim has it.
    pub is_told_of_another: bool,
    /// Whether the pool that it references exists. Another pool may have the id of one that is gone.
    pub has_pool: bool,
    /// Whether a user wrote it by hand, and its claim was not told that it has the address.
    pub is_forged: bool,
    /// Whether a user wrote something of it by hand, perhaps just now.
    pub is_edited: bool,
    /// Whether a user gave it another pool's id, and its own pool is being deleted: the controller does not correct it.
    pub is_misnamed: bool,
}

/// The binding that an IPAddress stands for; none when another provider published it.
pub fn binding(objects: &[Arc<Value>], address: &Value, site: usize) -> Option<Binding> {
    let pool = PoolId::parse(annotation(address, POOL_ID_ANNOTATION)?)?;
    let fip = FloatingIpId::new(annotation(address, FLOATING_IP_ID_ANNOTATION)?);
    let (namespace, claim) = (text(address, "/metadata/namespace"), text(address, "/spec/claimRef/name"));
    let is_ready = |claim: &Value| condition(claim, "Ready").is_some_and(|ready| ready["status"] == "True");
    let is_edited = address["metadata"]["labels"].get(FORGED_LABEL).is_some();
    let is_told = |why: &str| claim_of(objects, address).is_some_and(|claim| is_told_without_address(claim, why));
    let own_pool = pool_of(objects, address);
    let has_pool = own_pool.and_then(pool_id).is_some_and(|id| id == pool);
    Some(Binding {
        site,
        object: ObjectName::new(namespace, claim),
        pool,
        claim: ClaimKey::of(namespace, claim),
        address: text(address, "/spec/address").parse().ok()?,
        fip,
        since: text(address, "/metadata/creationTimestamp").parse().ok(),
        has_claim: claim_of(objects, address).is_some_and(|claim| !is_deleting(claim)),
        is_refused: is_told("is not marked for the claim any more"),
        is_told_of_another: is_told("is marked for another claim"),
        has_pool,
        is_forged: is_edited && !claim_of(objects, address).is_some_and(is_ready),
        is_edited,
        is_misnamed: is_edited && !has_pool && own_pool.is_some_and(is_deleting),
    })
}

/// Whether the claim's condition says this, and it has had no address.
fn is_told_without_address(claim: &Value, why: &str) -> bool {
    let is_told = |ready: &Value| text(ready, "/message").contains(why);
    condition(claim, "Ready").is_some_and(is_told) && claim.pointer("/status/addressRef/name").is_none()
}

/// The pool's id: from its spec, or generated.
pub fn pool_id(pool: &Value) -> Option<PoolId> {
    let given = pool.pointer("/spec/poolID").and_then(Value::as_str);
    given.or(annotation(pool, POOL_ID_ANNOTATION)).and_then(PoolId::parse)
}

/// The objects of a kind. `OpenStackFloatingIPPool` is CAPO's kind too, in another group: only ours count.
pub fn of_kind<'a>(objects: &'a [Arc<Value>], kind: &'a str) -> impl Iterator<Item = &'a Value> {
    let is_ours = |object: &Value| text(object, "/apiVersion").starts_with(&format!("{GROUP}/"));
    let objects = objects.iter().map(Arc::as_ref);
    objects.filter(move |object| text(object, "/kind") == kind && (kind != POOL_KIND || is_ours(object)))
}

/// The pool that a claim or an IPAddress points at.
pub fn pool_of<'a>(objects: &'a [Arc<Value>], object: &Value) -> Option<&'a Value> {
    named(objects, POOL_KIND, object, text(object, "/spec/poolRef/name"))
}

pub fn claim_of<'a>(objects: &'a [Arc<Value>], address: &Value) -> Option<&'a Value> {
    named(objects, "IPAddressClaim", address, text(address, "/spec/claimRef/name"))
}

/// The IPAddress of a claim: it has the claim's name.
pub fn address_of<'a>(objects: &'a [Arc<Value>], claim: &Value) -> Option<&'a Value> {
    named(objects, "IPAddress", claim, text(claim, "/metadata/name"))
}

pub fn cluster_name(object: &Value) -> Option<&str> {
    let by_spec = object.pointer("/spec/clusterName").and_then(Value::as_str);
    by_spec.or_else(|| object["metadata"]["labels"][CLUSTER_NAME_LABEL].as_str()).filter(|name| !name.is_empty())
}

pub fn cluster_of<'a>(objects: &'a [Arc<Value>], object: &Value) -> Option<&'a Value> {
    named(objects, "Cluster", object, cluster_name(object)?)
}

/// The object of this name in the namespace of another.
fn named<'a>(objects: &'a [Arc<Value>], kind: &'static str, beside: &Value, name: &str) -> Option<&'a Value> {
    of_kind(objects, kind).find(|object| {
        text(object, "/metadata/name") == name
            && text(object, "/metadata/namespace") == text(beside, "/metadata/namespace")
    })
}

/// Whether the controllers must not touch it: it, its pool or its Cluster is paused or being moved.
pub fn is_left_alone(objects: &[Arc<Value>], object: &Value) -> bool {
    let cluster = cluster_of(objects, object);
    has_pause(object)
        || pool_of(objects, object).is_some_and(has_pause)
        || cluster
            .is_some_and(|cluster| cluster.pointer("/spec/paused") == Some(&Value::Bool(true)) || has_pause(cluster))
}

fn has_pause(object: &Value) -> bool {
    annotation(object, PAUSED_ANNOTATION).is_some() || annotation(object, DELETE_FOR_MOVE_ANNOTATION).is_some()
}

pub fn is_deleting(object: &Value) -> bool {
    object["metadata"].get("deletionTimestamp").is_some()
}

pub fn finalizers(object: &Value) -> Vec<&str> {
    object["metadata"]["finalizers"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

pub fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object["metadata"]["annotations"][key].as_str()
}

pub fn condition<'a>(object: &'a Value, type_: &str) -> Option<&'a Value> {
    object["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == type_)
}

pub fn claim_key(claim: &Value) -> ClaimKey {
    ClaimKey::of(text(claim, "/metadata/namespace"), text(claim, "/metadata/name"))
}

pub fn describe(object: &Value) -> String {
    format!("{} {}/{}", text(object, "/kind"), text(object, "/metadata/namespace"), text(object, "/metadata/name"))
}

/// The text at a path; empty when there is none.
pub fn text<'a>(value: &'a Value, path: &str) -> &'a str {
    value.pointer(path).and_then(Value::as_str).unwrap_or_default()
}
