//! Laws 5 and 7 when a claim is told why it has no address: the reason must be true.

use serde_json::Value;

use crate::api::{ApiServer, Key, Kind};
use crate::claims::Uid;
use crate::laws::{self, FORGED_LABEL, Violation};
use crate::witness::Witness;
use crate::world::ADDRESSES;

/// So many free addresses are there for long.
const SEVERAL: usize = 4;

/// Checks a claim's condition, and records for which address the claim waits.
pub fn check(server: &ApiServer, witness: &Witness, claim: &Value) -> Option<Violation> {
    let conditions = claim["status"]["conditions"].as_array().into_iter().flatten();
    let messages: Vec<&str> = conditions.map(|condition| laws::text(condition, "/message")).collect();
    let says = |text: &str| messages.iter().any(|message| message.contains(text));
    let reserved = messages.iter().find_map(|message| {
        message.split_once(", reserved for this claim in spec.reservations, is in use").map(|(address, _)| address)
    });
    let uid = Uid::of(server, claim);
    witness.claims().wait_for(&uid, reserved.and_then(|address| address.parse().ok()));
    let name = laws::text(claim, "/metadata/name");
    if says("no longer exists in the project") && is_there(server, witness, claim) {
        return Some(Violation::new(5, name, "told that its floating IP no longer exists, although it is there"));
    }
    if says("no call of a previous controller") && may_have_a_new_address(server, witness, claim) {
        return Some(Violation::new(7, name, "waits for calls of a predecessor, although Neutron has addresses"));
    }
    None
}

/// Whether the claim's floating IP is there and has its mark, and no user changed the IPAddress.
fn is_there(server: &ApiServer, witness: &Witness, claim: &Value) -> bool {
    let name = laws::text(claim, "/metadata/name");
    let address = server.get(&Key::new(Kind::Address, laws::text(claim, "/metadata/namespace"), name));
    let is_forged = address.is_some_and(|address| address["metadata"]["labels"].get(FORGED_LABEL).is_some());
    let binding = witness.claims().binding(&Uid::of(server, claim));
    !is_forged && !witness.was_altered() && binding.is_some_and(|it| witness.is_held(&it.fip, &it.pool, &it.claim))
}

/// Whether nothing keeps the pool from creating an address for the claim: no limit, no choice, and no earlier address.
fn may_have_a_new_address(server: &ApiServer, witness: &Witness, claim: &Value) -> bool {
    let pool = Key::new(Kind::Pool, laws::text(claim, "/metadata/namespace"), laws::text(claim, "/spec/poolRef/name"));
    let Some(pool) = server.get(&pool) else { return false };
    let spec = &pool["spec"];
    let has_choice =
        ["maxIPs", "excludedAddresses", "reservations", "subnets"].iter().any(|field| spec.get(*field).is_some());
    let is_known = pool["status"]["observedGeneration"] == pool["metadata"]["generation"];
    let is_marked = laws::pool_id(&pool).is_none_or(|id| witness.count_marked_for(&id, &laws::claim_key(claim)) > 0);
    spec.get("floatingIPNetwork").is_some()
        && !has_choice
        && is_known
        && !is_marked
        && !witness.was_altered()
        && witness.count() + SEVERAL <= usize::from(ADDRESSES)
}
