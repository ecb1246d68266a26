//! What is refused: by the API server's own rules, by Cluster API's webhooks, by the end of a namespace.

use std::net::IpAddr;

use serde_json::{Value, json};

use super::objects::{finalizers, text};
use super::{Key, Kind, State};

/// A refusal as the API server words it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    pub code: u16,
    pub reason: &'static str,
    pub message: String,
}

impl Refusal {
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into() }
    }

    pub fn missing(key: &Key) -> Self {
        Self::new(404, "NotFound", format!("{} \"{}\" not found", key.kind.names().2, key.name))
    }

    pub fn exists(key: &Key) -> Self {
        Self::new(409, "AlreadyExists", format!("{} \"{}\" already exists", key.kind.names().2, key.name))
    }

    pub fn conflict(key: &Key) -> Self {
        let message = format!("Operation cannot be fulfilled on {} \"{}\": changed", key.kind.names().2, key.name);
        Self::new(409, "Conflict", message)
    }

    fn invalid(key: &Key, why: &str) -> Self {
        Self::new(422, "Invalid", format!("{} \"{}\" is invalid: {why}", key.kind.names().3, key.name))
    }

    /// The body of the answer.
    pub fn body(&self) -> Value {
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": self.message,
            "reason": self.reason, "code": self.code,
        })
    }
}

/// A new object.
pub fn new_object(state: &State, key: &Key, object: &Value) -> Result<(), Refusal> {
    if key.name.is_empty() {
        return Err(Refusal::invalid(key, "metadata.name: Required value"));
    }
    if key.kind == Kind::Namespace {
        return Ok(());
    }
    let namespace = Key::new(Kind::Namespace, "", &key.namespace);
    let Some(namespace) = state.objects.get(&namespace) else { return Err(Refusal::missing(&namespace)) };
    if namespace["metadata"].get("deletionTimestamp").is_some() {
        let why = format!("unable to create new content in namespace {} because it is being terminated", key.namespace);
        return Err(Refusal::new(403, "Forbidden", why));
    }
    if key.kind == Kind::Address {
        address(state, key, object)?;
    }
    Ok(())
}

/// Cluster API's webhook for addresses: well formed, and from the pool that its claim names, if there is one.
fn address(state: &State, key: &Key, object: &Value) -> Result<(), Refusal> {
    let spec = &object["spec"];
    let address: IpAddr =
        text(&spec["address"]).parse().map_err(|_| Refusal::invalid(key, "spec.address: not a valid address"))?;
    let prefix = spec["prefix"].as_i64().unwrap_or(-1);
    if !(0..=if address.is_ipv4() { 32 } else { 128 }).contains(&prefix) {
        return Err(Refusal::invalid(key, "spec.prefix: not a valid prefix"));
    }
    if spec.get("gateway").is_some_and(|gateway| text(gateway).parse::<IpAddr>().is_err()) {
        return Err(Refusal::invalid(key, "spec.gateway: not a valid address"));
    }
    let claim = Key::new(Kind::Claim, &key.namespace, text(&spec["claimRef"]["name"]));
    match state.objects.get(&claim) {
        Some(claim) if claim["spec"]["poolRef"] != spec["poolRef"] => {
            Err(Refusal::invalid(key, "spec.poolRef: not that of the claim"))
        }
        _ => Ok(()),
    }
}

/// A changed object.
pub fn changed_object(key: &Key, old: &Value, new: &Value) -> Result<(), Refusal> {
    if matches!(key.kind, Kind::Claim | Kind::Address) && old.get("spec") != new.get("spec") {
        return Err(Refusal::invalid(key, "spec: the spec is immutable"));
    }
    if old["metadata"].get("deletionTimestamp").is_some() {
        let before = finalizers(old);
        if finalizers(new).iter().any(|finalizer| !before.contains(finalizer)) {
            return Err(Refusal::invalid(
                key,
                "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted",
            ));
        }
    }
    Ok(())
}
