//! Condition types and reasons, and the place of a claim's conditions in each version.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use serde_json::{Value, json};

use super::claim::IpAddressClaimStatus;
use super::json_text::JsonText;
use super::version::IpamVersion;
use crate::text::one_line;

/// A pool can allocate addresses; a claim has an address.
pub const READY: &str = "Ready";
/// OpenStack accepts a pool's credentials.
pub const CREDENTIALS_VALID: &str = "CredentialsValid";
/// A pool's network and subnets have been found.
pub const NETWORK_RESOLVED: &str = "NetworkResolved";
/// A new claim of the pool would wait for an address.
pub const EXHAUSTED: &str = "Exhausted";
/// Reconciliation of a pool is paused.
pub const PAUSED: &str = "Paused";
/// Floating IPs are marked for a claim that does not exist or has another address.
pub const ORPHANS_DETECTED: &str = "OrphansDetected";
/// What a pool does beside serving claims works: releasing and creating addresses, `spec.tags`, `spec.reuse`.
pub const ADDRESSES_MAINTAINED: &str = "AddressesMaintained";
/// The ConfigMap of `spec.addressConfigMap` has the pool's addresses. Only pools that ask for one have the condition.
pub const ADDRESS_CONFIG_MAP_CURRENT: &str = "AddressConfigMapCurrent";

/// Reasons of a claim's `Ready`; Cluster API's own where it defines one.
pub mod claim_reasons {
    pub const ADDRESS_ALLOCATED: &str = "AddressAllocated";
    pub const POOL_EXHAUSTED: &str = "PoolExhausted";
    /// The pool does not exist, is not ready or is being deleted.
    pub const POOL_NOT_READY: &str = "PoolNotReady";
    /// The allocation failed, or needs manual action.
    pub const ALLOCATION_FAILED: &str = "AllocationFailed";
    /// The claim is being deleted, and its address could not be released yet.
    pub const RELEASE_FAILED: &str = "ReleaseFailed";
}

/// Reasons that only events have: about floating IPs that were left in OpenStack.
pub mod event_reasons {
    /// The pool was deleted with the abandon annotation.
    pub const ABANDONED: &str = "Abandoned";
    /// Nothing is done for the claim, since it, its pool or its Cluster is paused.
    pub const PAUSED: &str = "Paused";
    /// The claim's `poolRef` misspells the kind, or names CAPO's kind where the pool is ours.
    pub const WRONG_POOL_REF: &str = "WrongPoolRef";
    /// The pool was deleted while a floating IP was still attached.
    pub const ATTACHED_FLOATING_IP_LEFT: &str = "AttachedFloatingIPLeft";
    /// The claim was deleted without its pool, or with the abandon annotation, or a newer version has marked its floating IP.
    /// On a pool that was deleted: a newer version has marked floating IPs of it.
    pub const FLOATING_IP_LEFT_BEHIND: &str = "FloatingIPLeftBehind";
}

/// Reasons of a pool's conditions.
pub mod pool_reasons {
    pub const READY: &str = "Ready";
    /// Another pool uses the same pool ID.
    pub const DUPLICATE_POOL_ID: &str = "DuplicatePoolID";
    /// CAPO's pool of the same name would serve the same claims.
    pub const NAME_CONFLICT: &str = "NameConflict";
    pub const DELETING: &str = "Deleting";
    /// A bug in the controller.
    pub const INTERNAL_ERROR: &str = "InternalError";
    pub const SECRET_NOT_FOUND: &str = "SecretNotFound";
    /// The controller uses no cluster identities, or none with a Secret of that namespace.
    pub const CLUSTER_IDENTITY_DISABLED: &str = "ClusterIdentityDisabled";
    /// CAPO, which has the kind, is not installed, or is too old.
    pub const CLUSTER_IDENTITY_NOT_INSTALLED: &str = "ClusterIdentityNotInstalled";
    pub const CLUSTER_IDENTITY_NOT_FOUND: &str = "ClusterIdentityNotFound";
    /// Its selector or its reference to the Secret is not valid.
    pub const CLUSTER_IDENTITY_INVALID: &str = "ClusterIdentityInvalid";
    /// The cluster identity's selector does not match the pool's namespace.
    pub const NAMESPACE_NOT_ALLOWED: &str = "NamespaceNotAllowed";
    /// The Secret's content is not valid.
    pub const CREDENTIALS_INVALID: &str = "CredentialsInvalid";
    pub const AUTHENTICATION_FAILED: &str = "AuthenticationFailed";
    /// The credentials belong to another project than the pool's floating IPs.
    pub const PROJECT_CHANGED: &str = "ProjectChanged";
    pub const AUTHENTICATED: &str = "Authenticated";
    /// OpenStack does not answer, or its answer is not valid.
    pub const OPENSTACK_UNREACHABLE: &str = "OpenStackUnreachable";
    pub const OPENSTACK_REFUSED: &str = "OpenStackRefused";
    pub const NETWORK_NOT_FOUND: &str = "NetworkNotFound";
    pub const NETWORK_AMBIGUOUS: &str = "NetworkAmbiguous";
    pub const NETWORK_NOT_EXTERNAL: &str = "NetworkNotExternal";
    /// No subnet matches, or several do.
    pub const SUBNET_NOT_FOUND: &str = "SubnetNotFound";
    pub const NETWORK_FOUND: &str = "NetworkFound";
    /// The pool has only its list, which needs no network.
    pub const LIST_ONLY: &str = "ListOnly";
    /// Neutron does not support tags on floating IPs.
    pub const TAGS_UNSUPPORTED: &str = "TagsUnsupported";
    pub const EXHAUSTED: &str = "Exhausted";
    pub const ADDRESSES_AVAILABLE: &str = "AddressesAvailable";
    pub const PAUSED: &str = "Paused";
    pub const NOT_PAUSED: &str = "NotPaused";
    /// Kubernetes refuses what the controller has to write or read: a role, a policy, a quota or a webhook.
    pub const KUBERNETES_REFUSED: &str = "KubernetesRefused";
    pub const MAINTAINED: &str = "Maintained";
    /// All reasons of `Ready=False`.
    pub const PROBLEMS: [&str; 21] = [
        AUTHENTICATION_FAILED,
        CLUSTER_IDENTITY_DISABLED,
        CLUSTER_IDENTITY_INVALID,
        CLUSTER_IDENTITY_NOT_FOUND,
        CLUSTER_IDENTITY_NOT_INSTALLED,
        CREDENTIALS_INVALID,
        DELETING,
        DUPLICATE_POOL_ID,
        INTERNAL_ERROR,
        KUBERNETES_REFUSED,
        NAMESPACE_NOT_ALLOWED,
        NAME_CONFLICT,
        NETWORK_AMBIGUOUS,
        NETWORK_NOT_EXTERNAL,
        NETWORK_NOT_FOUND,
        OPENSTACK_REFUSED,
        OPENSTACK_UNREACHABLE,
        PROJECT_CHANGED,
        SECRET_NOT_FOUND,
        SUBNET_NOT_FOUND,
        TAGS_UNSUPPORTED,
    ];
    pub const ORPHANS_FOUND: &str = "OrphansFound";
    pub const NO_ORPHANS: &str = "NoOrphans";
    pub const CONFIG_MAP_UP_TO_DATE: &str = "ConfigMapUpToDate";
    /// The controller writes no ConfigMaps.
    pub const CONFIG_MAPS_DISABLED: &str = "ConfigMapsDisabled";
    /// The ConfigMap of that name is not the pool's.
    pub const CONFIG_MAP_NAME_TAKEN: &str = "ConfigMapNameTaken";
    pub const CONFIG_MAP_TOO_LARGE: &str = "ConfigMapTooLarge";
    pub const CONFIG_MAP_WRITE_FAILED: &str = "ConfigMapWriteFailed";
    /// The pool is not ready: the ConfigMap has what was known last.
    pub const ADDRESSES_UNKNOWN: &str = "AddressesUnknown";
    /// Not determined yet, or no longer known.
    pub const UNKNOWN: &str = "Unknown";
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DesiredCondition {
    pub type_: &'static str,
    /// `True`, `False` or `Unknown`.
    pub status: &'static str,
    pub reason: &'static str,
    /// Must change only if the state changes: it must not contain times, for example.
    pub message: String,
}

/// In characters. Kubernetes allows 32,768.
const MAX_MESSAGE: usize = 4096;

impl DesiredCondition {
    /// The message may quote the cloud or a user.
    pub fn new(type_: &'static str, status: &'static str, reason: &'static str, message: impl AsRef<str>) -> Self {
        Self { type_, status, reason, message: one_line(message.as_ref(), MAX_MESSAGE) }
    }
}

/// Inserts or replaces a condition; `lastTransitionTime` changes only with the status.
pub fn set(conditions: &mut Vec<Condition>, desired: &DesiredCondition, generation: Option<i64>, now: Timestamp) {
    let old = conditions.iter_mut().find(|condition| condition.type_ == desired.type_);
    let since = old.as_ref().filter(|old| old.status == desired.status);
    let condition = Condition {
        type_: desired.type_.into(),
        status: desired.status.into(),
        reason: desired.reason.into(),
        message: desired.message.clone(),
        observed_generation: generation,
        last_transition_time: since.map_or_else(|| truncate_to_seconds(now), |old| old.last_transition_time.clone()),
    };
    match old {
        Some(old) => *old = condition,
        None => conditions.push(condition),
    }
}

/// Kubernetes stores whole seconds, so a more precise time would differ from what is read back.
fn truncate_to_seconds(now: Timestamp) -> Time {
    Time(Timestamp::from_second(now.as_second()).unwrap_or(now))
}

/// When a claim's `Ready` became `False`.
pub fn claim_unready_since(status: Option<&IpAddressClaimStatus>) -> Option<Timestamp> {
    let conditions = conditions_of(status);
    let ready = conditions.iter().find(|condition| condition["type"] == READY && condition["status"] == "False")?;
    ready["lastTransitionTime"].as_str()?.parse().ok()
}

/// Whether a claim was told that its pool has no address for it.
pub fn is_claim_refused(status: Option<&IpAddressClaimStatus>) -> bool {
    let is_refused = |condition: &Value| condition["reason"] == claim_reasons::POOL_EXHAUSTED;
    conditions_of(status).iter().any(|condition| condition["type"] == READY && is_refused(condition))
}

/// Status, reason and message of a claim's `Ready`.
pub fn claim_ready(status: Option<&IpAddressClaimStatus>, version: IpamVersion) -> Option<(String, String, String)> {
    let ready = conditions_of(status).into_iter().find(|condition| condition["type"] == READY)?;
    let text = |key: &str| ready.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    // v1beta1 has no reason if the status is True.
    let reason = match (version, ready.get("status").and_then(Value::as_str)) {
        (IpamVersion::V1Beta1, Some("True")) => claim_reasons::ADDRESS_ALLOCATED.to_owned(),
        _ => text("reason"),
    };
    Some((text("status"), reason, text("message")))
}

/// The part of a claim's `Ready` condition that decides whether it must be written. If it is True, v1beta1 keeps no message.
#[derive(PartialEq, Eq, Hash)]
pub struct ClaimReport {
    status: String,
    reason: String,
    message: Option<String>,
}

impl ClaimReport {
    pub fn read(status: Option<&IpAddressClaimStatus>, version: IpamVersion) -> Option<Self> {
        claim_ready(status, version).map(|(status, reason, message)| Self::new(status, reason, message))
    }

    pub fn of(desired: &DesiredCondition) -> Self {
        Self::new(desired.status.into(), desired.reason.into(), desired.message.clone())
    }

    fn new(status: String, reason: String, message: String) -> Self {
        let message = Some(message).filter(|_| status != "True");
        Self { status, reason, message }
    }
}

/// The conditions of a claim's status patch: in the place of the claim's version, and in the place where the other
/// version's conditions are kept, because Cluster API's conversion does not derive one from the other.
pub fn claim_patch(
    status: Option<&IpAddressClaimStatus>,
    version: IpamVersion,
    desired: &DesiredCondition,
    now: Timestamp,
) -> Value {
    let current = conditions_of(status);
    let (v1beta1, v1beta2) = (v1beta1_condition(desired, now), v1beta2_condition(desired, now));
    match version {
        IpamVersion::V1Beta2 => {
            let deprecated = status.and_then(|status| status.deprecated.as_ref()).map(JsonText::value);
            let deprecated = deprecated.as_ref().and_then(|deprecated| deprecated.pointer("/v1beta1/conditions"));
            let deprecated = merged(elements(deprecated.cloned()), v1beta1);
            json!({"conditions": merged(current, v1beta2), "deprecated": {"v1beta1": {"conditions": deprecated}}})
        }
        IpamVersion::V1Beta1 => {
            let new = status.and_then(|status| status.v1beta2.as_ref()).map(JsonText::value);
            let new = elements(new.as_ref().and_then(|new| new.get("conditions")).cloned());
            json!({"conditions": merged(current, v1beta1), "v1beta2": {"conditions": merged(new, v1beta2)}})
        }
    }
}

fn v1beta2_condition(desired: &DesiredCondition, now: Timestamp) -> Value {
    let DesiredCondition { type_, status, reason, message } = desired;
    let now = truncate_to_seconds(now);
    json!({"type": type_, "status": status, "reason": reason, "message": message, "lastTransitionTime": now})
}

fn v1beta1_condition(desired: &DesiredCondition, now: Timestamp) -> Value {
    let DesiredCondition { type_, status, reason, message } = desired;
    let now = truncate_to_seconds(now);
    if *status == "True" {
        return json!({"type": type_, "status": status, "lastTransitionTime": now});
    }
    // A claim that waits for an address of its pool, or for the pool, is no error.
    let severity = if *reason == claim_reasons::ALLOCATION_FAILED { "Error" } else { "Info" };
    json!({
        "type": type_, "status": status, "severity": severity, "reason": reason, "message": message,
        "lastTransitionTime": now,
    })
}

/// The conditions of the object's version.
fn conditions_of(status: Option<&IpAddressClaimStatus>) -> Vec<Value> {
    elements(status.and_then(|status| status.conditions.as_ref()).map(JsonText::value))
}

fn elements(list: Option<Value>) -> Vec<Value> {
    if let Some(Value::Array(elements)) = list { elements } else { Vec::new() }
}

/// All conditions with `condition` inserted or replaced; `lastTransitionTime` changes only with the status.
fn merged(mut all: Vec<Value>, mut condition: Value) -> Vec<Value> {
    match all.iter_mut().find(|other| other.get("type") == condition.get("type")) {
        Some(old) => {
            let since = old.get("lastTransitionTime").filter(|_| old.get("status") == condition.get("status"));
            if let (Some(since), Some(now)) = (since, condition.get_mut("lastTransitionTime")) {
                *now = since.clone();
            }
            *old = condition;
        }
        None => all.push(condition),
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_waits_since_its_ready_condition_became_false() {
        let since = |ready: Value| {
            let status = json!({"conditions": [{"type": "Other", "status": "False"}, ready]});
            claim_unready_since(Some(&serde_json::from_value(status).expect("a valid status")))
        };
        let noon = "2026-03-01T12:00:00Z";
        let waiting = since(json!({"type": "Ready", "status": "False", "lastTransitionTime": noon}));
        assert_eq!(waiting, noon.parse().ok());
        assert_eq!(since(json!({"type": "Ready", "status": "True", "lastTransitionTime": noon})), None);
        assert_eq!(since(json!({"type": "Ready", "status": "False"})), None);
        assert_eq!(claim_unready_since(None), None);
    }
}
