//! Laws 5 and 7 for a claim's condition: the reason that it gives for a missing address must be true.

use std::sync::Arc;

use caip_openstack::allocation::Refusal;
use serde_json::Value;

use crate::api::{ApiServer, Key, Kind};
use crate::claims::Uid;
use crate::laws::{self, FORGED_LABEL, Violation};
use crate::witness::Witness;
use crate::world::{addresses_of_subnets, free_addresses};

/// So many free addresses are there for long.
const SEVERAL: usize = 4;

/// Checks a claim's condition, and records for which address the claim waits.
pub fn check(server: &ApiServer, witness: &Witness, claim: &Value) -> Option<Violation> {
    if witness.claims().is_status_restored(server, claim) {
        return None;
    }
    let conditions = claim["status"]["conditions"].as_array().into_iter().flatten();
    let messages: Vec<&str> = conditions.map(|condition| laws::text(condition, "/message")).collect();
    let says = |text: &str| messages.iter().any(|message| message.contains(text));
    let reserved = messages.iter().find_map(|message| {
        let address = message.split_once(',')?.0.parse().ok()?;
        (*message == Refusal::ReservationTaken(address).to_string()).then_some(address)
    });
    let uid = Uid::of(server, claim);
    witness.claims().wait_for(&uid, reserved);
    let name = laws::text(claim, "/metadata/name");
    // An address that it got since is another one, until the controller writes the condition.
    let is_about_its_address = address_of(server, claim).is_none_or(|it| says(laws::text(&it, "/spec/address")));
    if says("no longer exists in the project") && is_about_its_address && is_there(server, witness, claim) {
        return Some(Violation::new(5, name, "told that its floating IP no longer exists, although it is there"));
    }
    if says("no call of a previous controller") && may_have_a_new_address(server, witness, claim) {
        return Some(Violation::new(7, name, "waits for calls of a predecessor, although Neutron has addresses"));
    }
    None
}

/// Whether the claim's floating IP is there and has its mark, and no user changed the IPAddress.
fn is_there(server: &ApiServer, witness: &Witness, claim: &Value) -> bool {
    let address = address_of(server, claim);
    let is_forged = address.as_ref().is_some_and(|address| address["metadata"]["labels"].get(FORGED_LABEL).is_some());
    // A pool that was made again knows only the project that the Secret names now.
    let is_older = |pool: Arc<Value>| address.is_none_or(|address| created(&address) < created(&pool));
    let may_be_elsewhere = witness.was_misdirected() && pool_of(server, claim).is_some_and(is_older);
    let binding = witness.claims().binding(&Uid::of(server, claim));
    !is_forged
        && !may_be_elsewhere
        && !witness.was_altered()
        && binding.is_some_and(|it| witness.is_held(&it.fip, &it.pool, &it.claim))
}

fn created(object: &Value) -> &str {
    laws::text(object, "/metadata/creationTimestamp")
}

/// The pool that a claim or an IPAddress points at.
pub fn pool_of(server: &ApiServer, object: &Value) -> Option<Arc<Value>> {
    let (namespace, name) = (laws::text(object, "/metadata/namespace"), laws::text(object, "/spec/poolRef/name"));
    server.get(&Key::new(Kind::Pool, namespace, name))
}

/// The IPAddress of the claim's name.
fn address_of(server: &ApiServer, claim: &Value) -> Option<Arc<Value>> {
    let (namespace, name) = (laws::text(claim, "/metadata/namespace"), laws::text(claim, "/metadata/name"));
    server.get(&Key::new(Kind::Address, namespace, name))
}

/// Whether nothing keeps the pool from creating an address for the claim: no limit, no reservation, and no earlier address,
/// to which a late call of a predecessor could still give the claim's mark again. Neutron has several that the claim may
/// get, whatever the pool has beside them that may not be touched yet.
fn may_have_a_new_address(server: &ApiServer, witness: &Witness, claim: &Value) -> bool {
    let Some(pool) = pool_of(server, claim) else { return false };
    let spec = &pool["spec"];
    let mut reservations = spec["reservations"].as_array().into_iter().flatten();
    let is_reserved_for = reservations.any(|it| it["claim"] == claim["metadata"]["name"]);
    let (free, subnets) = (free_addresses(&witness.cloud()), addresses_of_subnets(&witness.cloud()));
    let is_known = pool["status"]["observedGeneration"] == pool["metadata"]["generation"];
    let is_marked = laws::pool_id(&pool).is_none_or(|id| witness.count_marked_for(&id, &laws::claim_key(claim)) > 0);
    spec.get("floatingIPNetwork").is_some()
        && address_of(server, claim).is_none()
        && laws::text(claim, "/status/addressRef/name").is_empty()
        && spec.get("maxIPs").is_none()
        && !is_reserved_for
        && is_known
        && !is_marked
        && !witness.is_anything_deleted_unseen()
        && !witness.was_altered()
        // A quota that was raised is noticed only when Neutron is asked again.
        && !witness.cloud().has_been_limited()
        && laws::creatable_for(&pool, claim, &subnets, &free).len() >= SEVERAL
}
