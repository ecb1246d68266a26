//! Waiting for objects of a namespace: for conditions, bound claims, deletion.

use std::time::Duration;

use kube::ResourceExt;
use kube::core::DynamicObject;
use kube::runtime::wait::await_condition;
use serde_json::{Value, json};

use super::Namespace;
use crate::support::manifest::{Kind, Manifest};
use crate::support::wait::{RECOVERY, eventually};

impl Namespace {
    /// Watches an object until `is_wanted`, for as long as `within`; then panics with what it is instead.
    pub async fn await_object(
        &self,
        kind: Kind,
        name: &str,
        within: Duration,
        what: &str,
        is_wanted: impl Fn(Option<&DynamicObject>) -> bool,
    ) -> Option<DynamicObject> {
        let watch = await_condition(self.api(kind), name, is_wanted);
        match tokio::time::timeout(within, watch).await {
            Ok(object) => object.unwrap_or_else(|error| panic!("{kind:?} {name} cannot be watched: {error}")),
            Err(_) => {
                let found = self.get(kind, name).await;
                panic!("{kind:?} {name} is not {what} within {within:?}; it is {}", describe(found.as_ref()))
            }
        }
    }

    /// Waits until the condition `condition` is `status` for `reason`, and returns its message.
    pub async fn await_condition(
        &self,
        kind: Kind,
        name: &str,
        condition: &str,
        status: &str,
        reason: &str,
        within: Duration,
    ) -> String {
        let wanted = |object: Option<&DynamicObject>| {
            object
                .and_then(|object| condition_of(object, condition))
                .is_some_and(|found| found["status"] == status && has_reason(found, reason))
        };
        let what = format!("{condition}={status} ({reason})");
        let object = self.await_object(kind, name, within, &what, wanted).await.expect("only an object has conditions");
        let message = condition_of(&object, condition).and_then(|found| found["message"].as_str().map(str::to_owned));
        message.unwrap_or_default()
    }

    pub async fn await_gone(&self, kind: Kind, name: &str, within: Duration) {
        self.await_object(kind, name, within, "gone", |object| object.is_none()).await;
    }

    /// Waits until a claim is bound, and returns its address.
    pub async fn await_bound(&self, claim: &str, within: Duration) -> String {
        let claimed = self
            .await_object(Kind::Claim, claim, within, "bound", |object| {
                object.is_some_and(|claim| claim.data["status"]["addressRef"]["name"].is_string())
            })
            .await
            .expect("only a claim that is there is bound");
        let name = claimed.data["status"]["addressRef"]["name"].as_str().expect("a bound claim names its address");
        let address = self.get(Kind::Address, name).await.expect("an IPAddress is there before a claim names it");
        address.data["spec"]["address"].as_str().expect("an IPAddress has an address").to_owned()
    }

    /// Creates a claim, waits until it is bound, and returns its address.
    pub async fn bind(&self, claim: impl Into<Manifest>) -> String {
        self.bind_within(claim, RECOVERY).await
    }

    /// The same, for as long as `within`.
    pub async fn bind_within(&self, claim: impl Into<Manifest>, within: Duration) -> String {
        let claim = claim.into();
        let name = claim.name();
        self.create(claim).await;
        self.await_bound(&name, within).await
    }

    /// Waits for an event about an object whose reason and note contain these: events are written after conditions.
    pub async fn await_event(&self, kind: Kind, name: &str, reason: &str, note: &str) {
        eventually(RECOVERY, async || {
            let events = self.events(kind, name).await;
            let is_there = events.iter().any(|(found, text)| found.contains(reason) && text.contains(note));
            if is_there { Ok(()) } else { Err(format!("events of {kind:?} {name}: {events:?}")) }
        })
        .await;
    }

    /// The reasons and notes of the events about an object that are there already, oldest first.
    pub async fn events(&self, kind: Kind, name: &str) -> Vec<(String, String)> {
        let kind = kind.resource(self.world.version).kind;
        let mut events = self.list(Kind::Event).await;
        events.retain(|event| {
            event.data["regarding"]["kind"] == kind.as_str() && event.data["regarding"]["name"] == name
        });
        events.sort_by_key(|event| event.data["eventTime"].as_str().map(str::to_owned));
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        events.iter().map(|event| (text(&event.data["reason"]), text(&event.data["note"]))).collect()
    }
}

/// A condition of an object, where its version keeps those with a reason and a message.
pub fn condition_of<'a>(object: &'a DynamicObject, condition: &str) -> Option<&'a Value> {
    let status = &object.data["status"];
    [&status["v1beta2"]["conditions"], &status["conditions"]]
        .into_iter()
        .filter_map(Value::as_array)
        .flatten()
        .find(|found| found["type"] == condition)
}

/// Cluster API 1.9 keeps only conditions of v1beta1, which have no reason while they are true.
fn has_reason(condition: &Value, reason: &str) -> bool {
    condition["reason"] == reason || condition["status"] == "True" && condition["reason"].is_null()
}

pub(super) fn describe(object: Option<&DynamicObject>) -> String {
    match object {
        None => "gone".to_owned(),
        Some(object) => json!({
            "spec": object.data["spec"],
            "status": object.data["status"],
            "finalizers": object.finalizers(),
            "annotations": object.annotations(),
            "deletionTimestamp": object.metadata.deletion_timestamp,
        })
        .to_string(),
    }
}
