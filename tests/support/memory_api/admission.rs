//! What is refused before an object is stored: namespaces that end, schemas, Cluster API's webhooks.

use std::net::IpAddr;

use serde_json::Value;

use super::metadata::is_deleting;
use super::objects::text;
use super::refusal::Refusal;
use super::{Key, Kind, State, metadata, schema};

/// Whether a namespace takes new objects. This is asked before anything else about them.
pub fn check_namespace(state: &State, key: &Key) -> Result<(), Refusal> {
    if !key.kind.is_namespaced() {
        return Ok(());
    }
    let namespace = Key::new(Kind::Namespace, "", &key.namespace);
    let Some(namespace) = state.objects.get(&namespace) else { return Err(Refusal::missing(&namespace)) };
    if is_deleting(namespace) {
        let why = format!("unable to create new content in namespace {} because it is being terminated", key.namespace);
        return Err(Refusal::new(403, "Forbidden", why));
    }
    Ok(())
}

/// Whether an object is well formed: its metadata, and the parts of it that are written.
pub fn check_form(key: &Key, object: &Value, part: Option<&str>) -> Result<(), Refusal> {
    metadata::check(key, object)?;
    let Some(schema) = schema::of(key.kind) else { return Ok(()) };
    let problem = match part {
        None => schema::problem(schema, object),
        Some(part) => object.get(part).and_then(|value| schema::problem(&schema["properties"][part], value)),
    };
    problem.map_or(Ok(()), |why| Err(Refusal::invalid(key, &why)))
}

/// Cluster API's webhooks, for a new object.
pub fn review_new(state: &State, key: &Key, object: &Value) -> Result<(), Refusal> {
    match key.kind {
        Kind::Address => review_address(state, key, object),
        Kind::Cluster => review_cluster(key, None, object),
        _ => Ok(()),
    }
}

/// Cluster API's webhooks and the pool's rule for what cannot be changed, for a changed object.
pub fn review_change(key: &Key, old: &Value, new: &Value) -> Result<(), Refusal> {
    match key.kind {
        Kind::Claim | Kind::Address if old.get("spec") != new.get("spec") => {
            Err(Refusal::denied(key, "spec is immutable"))
        }
        Kind::Cluster => review_cluster(key, Some(old), new),
        Kind::Pool if old["spec"].get("poolID") != new["spec"].get("poolID") => {
            Err(Refusal::invalid(key, "spec.poolID cannot be changed"))
        }
        _ => Ok(()),
    }
}

/// Well formed, and from the pool that its claim names, if there is one.
fn review_address(state: &State, key: &Key, object: &Value) -> Result<(), Refusal> {
    let spec = &object["spec"];
    let address: IpAddr =
        text(&spec["address"]).parse().map_err(|_| Refusal::denied(key, "spec.address: not a valid address"))?;
    if spec["prefix"].as_i64().is_some_and(|prefix| prefix > if address.is_ipv4() { 32 } else { 128 }) {
        return Err(Refusal::denied(key, "spec.prefix: too large"));
    }
    if spec.get("gateway").is_some_and(|gateway| text(gateway).parse::<IpAddr>().is_err()) {
        return Err(Refusal::denied(key, "spec.gateway: not a valid address"));
    }
    let claim = Key::new(Kind::Claim, &key.namespace, text(&spec["claimRef"]["name"]));
    match state.objects.get(&claim) {
        Some(claim) if claim["spec"]["poolRef"] != spec["poolRef"] => {
            Err(Refusal::denied(key, "spec.poolRef: not that of the claim"))
        }
        _ => Ok(()),
    }
}

/// A Cluster names what it consists of, and keeps doing so.
fn review_cluster(key: &Key, old: Option<&Value>, new: &Value) -> Result<(), Refusal> {
    let has = |object: &Value, field: &str| object["spec"].get(field).is_some();
    let is_lost = |field: &str| old.is_some_and(|old| has(old, field)) && !has(new, field);
    if !["controlPlaneRef", "infrastructureRef", "topology"].iter().any(|field| has(new, field)) {
        return Err(Refusal::invalid(key, "spec: controlPlaneRef, infrastructureRef or topology must be set"));
    }
    if ["controlPlaneRef", "infrastructureRef", "topology"].iter().any(|field| is_lost(field)) {
        return Err(Refusal::invalid(key, "spec: a reference cannot be removed"));
    }
    Ok(())
}
