//! Whether an object that a watch delivers has to be reconciled: not if only this process's own report has changed.

use std::hash::{DefaultHasher, Hash, Hasher};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, ResourceExt};

/// What this process wrote to an object last, and what the watch has delivered.
///
/// Versions are growing numbers: Kubernetes guarantees it since 1.35, and etcd's always were. Only a restored backup makes
/// them smaller; then the watch lists, and that is believed.
#[derive(Clone, Default, Debug)]
pub(super) struct WatchedObject {
    /// The version of the last write, until it has been seen.
    written: Option<u64>,
    /// It is to be reconciled when the watch delivers the last write or something newer, whatever that changes.
    pub(super) is_reconcile_due: bool,
    /// A hash of what this process reported last.
    reported: Option<u64>,
    /// A hash of what was delivered last, without what was reported.
    input: Option<u64>,
}

impl WatchedObject {
    pub(super) fn note_written(&mut self, object: &impl Resource) {
        self.written = object.resource_version().and_then(|version| version.parse().ok()).or(self.written);
    }

    /// Whether the object is older than what was written. Then its reconcile is due when the watch has delivered the write:
    /// earlier, everything would be done and reported twice.
    pub(super) fn put_off_if_outdated(&mut self, object: &impl Resource) -> bool {
        let is_outdated = self.is_awaited_after(object);
        if is_outdated {
            self.is_reconcile_due = true;
        } else {
            self.written = None;
        }
        is_outdated
    }

    /// Whether this process has written to the object since this version, while that still matters.
    pub(super) fn is_awaited_after(&self, object: &impl Resource) -> bool {
        self.written_after(object).is_some()
    }

    /// The version that this process has written since this one.
    pub(super) fn written_after(&self, object: &impl Resource) -> Option<u64> {
        let seen: u64 = object.resource_version()?.parse().ok()?;
        self.written.filter(|written| seen < *written)
    }

    /// This is reported, or is about to be.
    pub(super) fn note_report(&mut self, report: u64) {
        self.reported = Some(report);
    }

    /// The watch delivered the object, with this report in its status. Whether it has to be reconciled: what this process
    /// reported is no reason. An object that fails would otherwise be tried again at once, each time that it fails in another
    /// way.
    pub(super) fn needs_reconcile(&mut self, object: &impl Resource, input: u64, report: Option<u64>) -> bool {
        // A report of others counts, and so does its removal.
        let input = Some(hash((input, (report != self.reported).then_some(report))));
        let is_due = !self.is_awaited_after(object) && std::mem::take(&mut self.is_reconcile_due);
        std::mem::replace(&mut self.input, input) != input || is_due
    }
}

/// What of an object's metadata a reconcile depends on.
pub(super) fn metadata_input(metadata: &ObjectMeta) -> u64 {
    let ObjectMeta { generation, labels, annotations, finalizers, .. } = metadata;
    let owners: Vec<_> =
        metadata.owner_references.iter().flatten().map(|owner| (&owner.uid, owner.controller)).collect();
    hash((generation, metadata.deletion_timestamp.is_some(), labels, annotations, finalizers, owners))
}

pub(super) fn hash(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::{ClaimRecords, PoolRecords};
    use crate::api::conditions::{DesiredCondition, READY};
    use crate::api::names::GROUP;
    use crate::api::{IpAddressClaim, IpamVersion, OpenStackFloatingIPPool};
    use crate::controllers::stores::name_of;

    const VERSION: IpamVersion = IpamVersion::V1Beta2;

    /// A claim that the watch delivers.
    fn claim(version: u64, metadata: &Value, status: &Value) -> IpAddressClaim {
        let pool_ref = json!({"apiGroup": GROUP, "kind": "OpenStackFloatingIPPool", "name": "public"});
        let mut claim = json!({"spec": {"poolRef": pool_ref}, "status": status});
        claim["metadata"] =
            json!({"namespace": "team", "name": "web", "uid": "1", "resourceVersion": version.to_string()});
        claim["metadata"].as_object_mut().unwrap().extend(metadata.as_object().unwrap().clone());
        serde_json::from_value(claim).unwrap()
    }

    fn ready(message: &str) -> Value {
        let transition = "2026-01-01T00:00:00Z";
        json!({"conditions": [{"type": READY, "status": "False", "reason": "R", "message": message, "lastTransitionTime": transition}]})
    }

    fn report(message: &str) -> DesiredCondition {
        DesiredCondition::new(READY, "False", "R", message)
    }

    #[test]
    fn what_was_reported_is_no_reason_to_reconcile_a_claim() {
        let (claims, none) = (ClaimRecords::default(), json!({}));
        let seen = |claim: IpAddressClaim| {
            claims.observe(&claim);
            claims.needs_reconcile(&claim, VERSION)
        };
        assert!(seen(claim(1, &none, &none)), "a new one");
        claims.note_report(&claim(1, &none, &none), &report("a"));
        assert!(!seen(claim(2, &none, &ready("a"))), "also before the reply");
        claims.note_written(&claim(2, &none, &ready("a")));
        claims.note_report(&claim(2, &none, &ready("a")), &report("b"));
        assert!(!seen(claim(3, &none, &ready("b"))), "another report");
        assert!(seen(claim(4, &none, &ready("c"))), "another writer's report");
        assert!(seen(claim(4, &none, &ready("b"))), "ours again");
        assert!(seen(claim(4, &none, &none)), "removed");
        claims.note_report(&claim(4, &none, &ready("c")), &report("d"));
        assert!(seen(claim(4, &none, &ready("c"))), "what was reported earlier");
        claims.forget_versions();
        assert!(seen(claim(4, &none, &ready("c"))), "a listing");
        for (version, metadata, status) in [
            (5, json!({"labels": {"a": "b"}}), ready("c")),
            (6, json!({"annotations": {"a": "b"}}), ready("c")),
            (7, json!({"finalizers": ["a"]}), ready("c")),
            (8, json!({"deletionTimestamp": "2026-01-01T00:00:00Z"}), ready("c")),
            (9, json!({"ownerReferences": [{"apiVersion": "v1", "kind": "K", "name": "n", "uid": "u"}]}), ready("c")),
            (10, json!({}), json!({"addressRef": {"name": "web"}})),
        ] {
            assert!(seen(claim(version, &metadata, &status)), "{metadata} {status}");
            assert!(!seen(claim(version, &metadata, &status)), "the same");
        }
    }

    #[test]
    fn a_reconcile_that_was_put_off_is_made_when_the_write_is_seen() {
        let (claims, none) = (ClaimRecords::default(), json!({}));
        let [old, newer, written] = [1, 2, 3].map(|version| claim(version, &none, &none));
        claims.observe(&old);
        assert!(claims.needs_reconcile(&old, VERSION));
        claims.note_written(&written);
        assert!(!claims.needs_reconcile(&newer, VERSION), "nothing was put off");
        assert!(claims.put_off_if_outdated(&newer));
        assert!(!claims.needs_reconcile(&newer, VERSION), "not seen yet");
        assert!(claims.needs_reconcile(&written, VERSION));
        assert!(!claims.needs_reconcile(&written, VERSION), "once");
    }

    #[test]
    fn what_was_reported_is_no_reason_to_reconcile_a_pool() {
        let pools = PoolRecords::default();
        let pool = |generation: i64, status: Value| -> OpenStackFloatingIPPool {
            let metadata = json!({"namespace": "team", "name": "public", "uid": "1", "generation": generation});
            let spec = json!({"identityRef": {"name": "cloud", "cloudName": "openstack"}});
            serde_json::from_value(json!({"metadata": metadata, "spec": spec, "status": status})).unwrap()
        };
        let [first, second] = [1, 2].map(|count| json!({"observedGeneration": count}));
        let seen = |generation, status: &Value| {
            let pool = pool(generation, status.clone());
            pools.observe(&pool);
            pools.needs_reconcile(&pool)
        };
        let report = |status: &Value| {
            let pool = pool(1, status.clone());
            pools.update(&name_of(&pool), |state| state.note_report(pool.status.as_ref().unwrap()));
        };
        assert!(seen(1, &json!({})));
        report(&first);
        assert!(seen(1, &first), "another writer's was there before");
        report(&second);
        assert!(!seen(1, &second));
        assert!(seen(1, &first), "of a write that landed late");
        assert!(seen(2, &second), "an edit");
        assert!(!seen(2, &second), "the same");
    }
}
