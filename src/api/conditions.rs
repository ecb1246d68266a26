//! Condition types, reasons, and where each version of a claim keeps its conditions.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use serde_json::{Value, json};

use super::claim::IpAddressClaimStatus;
use super::version::IpamVersion;

/// Pools and claims: it serves, or has an address.
pub const READY: &str = "Ready";
/// Pools: OpenStack takes the credentials.
pub const CREDENTIALS_VALID: &str = "CredentialsValid";
/// Pools: the network and subnets are known.
pub const NETWORK_RESOLVED: &str = "NetworkResolved";
/// Pools: a claim that came now would wait.
pub const EXHAUSTED: &str = "Exhausted";
/// Pools: nothing is done.
pub const PAUSED: &str = "Paused";
/// Pools: floating IPs with the pool's mark belong to no claim.
pub const ORPHANS_DETECTED: &str = "OrphansDetected";

/// Reasons of a claim's `Ready`: Cluster API's own where it has one.
pub mod claim_reasons {
    /// It has an address.
    pub const ADDRESS_ALLOCATED: &str = "AddressAllocated";
    /// There is none to give.
    pub const POOL_EXHAUSTED: &str = "PoolExhausted";
    /// The pool is not there, not ready or going.
    pub const POOL_NOT_READY: &str = "PoolNotReady";
    /// Something failed, or must be mended by a person.
    pub const ALLOCATION_FAILED: &str = "AllocationFailed";
    /// It is being deleted, and its address could not be given back yet.
    pub const RELEASE_FAILED: &str = "ReleaseFailed";
}

/// Reasons of events that no condition has: what was left in OpenStack.
pub mod event_reasons {
    /// The pool went by the abandon annotation.
    pub const ABANDONED: &str = "Abandoned";
    /// The pool went, and something was still attached.
    pub const ATTACHED_FLOATING_IP_LEFT: &str = "AttachedFloatingIPLeft";
    /// The claim went without its pool, or by the abandon annotation.
    pub const FLOATING_IP_LEFT_BEHIND: &str = "FloatingIPLeftBehind";
}

/// Reasons of a pool's conditions.
pub mod pool_reasons {
    /// Everything is in order.
    pub const READY: &str = "Ready";
    /// Another pool has the same id in OpenStack's marks.
    pub const DUPLICATE_POOL_ID: &str = "DuplicatePoolID";
    /// CAPO's pool of the same name would serve the same claims.
    pub const NAME_CONFLICT: &str = "NameConflict";
    /// The pool is being deleted.
    pub const DELETING: &str = "Deleting";
    /// The Secret is not there.
    pub const SECRET_NOT_FOUND: &str = "SecretNotFound";
    /// The Secret cannot be used as it is.
    pub const CREDENTIALS_INVALID: &str = "CredentialsInvalid";
    /// Keystone refused the credentials.
    pub const AUTHENTICATION_FAILED: &str = "AuthenticationFailed";
    /// The credentials are those of another project than the pool's floating IPs.
    pub const PROJECT_CHANGED: &str = "ProjectChanged";
    /// OpenStack took the credentials.
    pub const AUTHENTICATED: &str = "Authenticated";
    /// OpenStack does not answer, or not as it should.
    pub const OPENSTACK_UNREACHABLE: &str = "OpenStackUnreachable";
    /// OpenStack refused a call.
    pub const OPENSTACK_REFUSED: &str = "OpenStackRefused";
    /// No network matches.
    pub const NETWORK_NOT_FOUND: &str = "NetworkNotFound";
    /// Several networks match.
    pub const NETWORK_AMBIGUOUS: &str = "NetworkAmbiguous";
    /// Floating IPs cannot come from the network.
    pub const NETWORK_NOT_EXTERNAL: &str = "NetworkNotExternal";
    /// No, or more than one, subnet matches.
    pub const SUBNET_NOT_FOUND: &str = "SubnetNotFound";
    /// The network and subnets are known.
    pub const NETWORK_FOUND: &str = "NetworkFound";
    /// A closed list needs no network.
    pub const LIST_ONLY: &str = "ListOnly";
    /// This Neutron cannot tag floating IPs.
    pub const TAGS_UNSUPPORTED: &str = "TagsUnsupported";
    /// There is nothing to give.
    pub const EXHAUSTED: &str = "Exhausted";
    /// There is something to give.
    pub const ADDRESSES_AVAILABLE: &str = "AddressesAvailable";
    /// Cluster API: paused.
    pub const PAUSED: &str = "Paused";
    /// Cluster API: not paused.
    pub const NOT_PAUSED: &str = "NotPaused";
    /// Why a pool is not ready: each of the reasons that `Ready=False` can have.
    pub const PROBLEMS: [&str; 14] = [
        AUTHENTICATION_FAILED,
        CREDENTIALS_INVALID,
        DELETING,
        DUPLICATE_POOL_ID,
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
    /// Some were found.
    pub const ORPHANS_FOUND: &str = "OrphansFound";
    /// None were found.
    pub const NO_ORPHANS: &str = "NoOrphans";
    /// Not known yet, or not any more.
    pub const UNKNOWN: &str = "Unknown";
}

/// One condition as it should be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DesiredCondition {
    /// Its type.
    pub type_: &'static str,
    /// `True`, `False` or `Unknown`.
    pub status: &'static str,
    /// One word.
    pub reason: &'static str,
    /// For people; nothing that changes by itself.
    pub message: String,
}

/// Sets a condition in a list; its time changes only with its status.
pub fn set(conditions: &mut Vec<Condition>, wish: &DesiredCondition, generation: Option<i64>, now: Timestamp) {
    let old = conditions.iter().position(|condition| condition.type_ == wish.type_);
    let since = old.map(|at| &conditions[at]).filter(|old| old.status == wish.status);
    let condition = Condition {
        type_: wish.type_.into(),
        status: wish.status.into(),
        reason: wish.reason.into(),
        message: wish.message.clone(),
        observed_generation: generation,
        last_transition_time: since.map_or_else(|| seconds(now), |old| old.last_transition_time.clone()),
    };
    match old {
        Some(at) => conditions[at] = condition,
        None => conditions.push(condition),
    }
}

/// Kubernetes keeps whole seconds: anything finer would differ from what is read back.
fn seconds(now: Timestamp) -> Time {
    Time(Timestamp::from_second(now.as_second()).unwrap_or(now))
}

/// Since when a claim's `Ready` is `False`, if it is.
pub fn claim_unready_since(status: Option<&IpAddressClaimStatus>) -> Option<Timestamp> {
    let mut conditions = status?.conditions.iter();
    let ready = conditions.find(|condition| condition["type"] == READY && condition["status"] == "False")?;
    ready["lastTransitionTime"].as_str()?.parse().ok()
}

/// A claim's `Ready`, if it has one: status, reason, message.
pub fn claim_ready(status: Option<&IpAddressClaimStatus>, version: IpamVersion) -> Option<(String, String, String)> {
    let conditions = status?.conditions.iter();
    let ready = conditions.into_iter().find(|condition| condition["type"] == READY)?;
    let text = |key: &str| ready[key].as_str().unwrap_or_default().to_owned();
    // v1beta1 leaves out the reason of a good condition.
    let reason = match (version, ready["status"].as_str()) {
        (IpamVersion::V1Beta1, Some("True")) => claim_reasons::ADDRESS_ALLOCATED.to_owned(),
        _ => text("reason"),
    };
    Some((text("status"), reason, text("message")))
}

/// The conditions part of a claim's status patch: in the version's own place, and in the other style where that is
/// kept too, since Cluster API's conversion maps neither to the other (contract, part A.1).
pub fn claim_patch(
    status: Option<&IpAddressClaimStatus>,
    version: IpamVersion,
    wish: &DesiredCondition,
    now: Timestamp,
) -> Value {
    let now = seconds(now);
    let current = status.map(|status| status.conditions.as_slice()).unwrap_or_default();
    let new_style = |conditions: &[Value]| {
        merged(
            conditions,
            wish,
            json!({
                "type": wish.type_, "status": wish.status, "reason": wish.reason, "message": wish.message, "lastTransitionTime": now,
            }),
        )
    };
    let old_style = |conditions: &[Value]| {
        let mut condition = json!({"type": wish.type_, "status": wish.status, "lastTransitionTime": now});
        if wish.status != "True" {
            // Waiting is not failing: only what a person must mend is an error.
            let severity = if wish.reason == claim_reasons::ALLOCATION_FAILED { "Error" } else { "Info" };
            condition["severity"] = severity.into();
            condition["reason"] = wish.reason.into();
            condition["message"] = wish.message.as_str().into();
        }
        merged(conditions, wish, condition)
    };
    let inner = |value: Option<&Value>, path: &str| {
        value.and_then(|value| value.pointer(path)).and_then(Value::as_array).cloned().unwrap_or_default()
    };
    match version {
        IpamVersion::V1Beta2 => {
            let old = inner(status.and_then(|status| status.deprecated.as_ref()), "/v1beta1/conditions");
            json!({"conditions": new_style(current), "deprecated": {"v1beta1": {"conditions": old_style(&old)}}})
        }
        IpamVersion::V1Beta1 => {
            let new = inner(status.and_then(|status| status.v1beta2.as_ref()), "/conditions");
            json!({"conditions": old_style(current), "v1beta2": {"conditions": new_style(&new)}})
        }
    }
}

fn merged(conditions: &[Value], wish: &DesiredCondition, mut condition: Value) -> Vec<Value> {
    let mut all = conditions.to_vec();
    match all.iter_mut().find(|other| other["type"] == wish.type_) {
        Some(old) => {
            if old["status"] == wish.status {
                condition["lastTransitionTime"] = old["lastTransitionTime"].clone();
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
    fn a_claim_waits_since_its_condition_says_that_it_has_no_address() {
        let since = |ready: Value| {
            let status = json!({"conditions": [{"type": "Other", "status": "False"}, ready]});
            claim_unready_since(Some(&serde_json::from_value(status).expect("it is a status")))
        };
        let noon = "2026-03-01T12:00:00Z";
        let waiting = since(json!({"type": "Ready", "status": "False", "lastTransitionTime": noon}));
        assert_eq!(waiting, noon.parse().ok());
        assert_eq!(since(json!({"type": "Ready", "status": "True", "lastTransitionTime": noon})), None);
        assert_eq!(since(json!({"type": "Ready", "status": "False"})), None);
        assert_eq!(claim_unready_since(None), None);
    }
}
