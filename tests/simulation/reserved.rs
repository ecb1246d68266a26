//! Law 7 at the moment of a DELETE: an address is not deleted while the claim that it is reserved for waits for it.

use std::time::Duration;

use caip_openstack::allocation::mark::Marks;
use caip_openstack::api::names::PAUSED_ANNOTATION;
use caip_openstack::floating_ip::FloatingIp;
use serde_json::Value;
use tokio::time::Instant;

use crate::api::{ApiServer, Kind};
use crate::claims::Uid;
use crate::laws::{self, Violation};
use crate::witness::Witness;

/// How long before the DELETE the claim was told: the sweep may have begun before.
const KNOWN_FOR: Duration = Duration::from_secs(15);

/// Reports a floating IP that was deleted although a claim waits for it, where the DELETE was sent then.
pub fn check_deletion(server: &ApiServer, witness: &Witness, fip: &FloatingIp, sent: Instant) {
    let is_free = |object: &Value| {
        let meta = &object["metadata"];
        meta.get("deletionTimestamp").is_none() && meta["annotations"].get(PAUSED_ANNOTATION).is_none()
    };
    if !server.all(Kind::Cluster).iter().all(|cluster| is_free(cluster)) {
        return;
    }
    for pool in server.all(Kind::Pool).iter().filter(|pool| is_free(pool)) {
        let is_known = pool["status"]["observedGeneration"] == pool["metadata"]["generation"];
        let is_the_pools = laws::pool_id(pool).is_some_and(|id| Marks::read(fip).pools().contains(&id));
        let reserved = pool["spec"]["reservations"].as_array().into_iter().flatten();
        let reserved = reserved.filter(|it| laws::text(it, "/address") == fip.address.to_string());
        for reservation in reserved.filter(|_| is_known && is_the_pools) {
            let name = laws::text(reservation, "/claim");
            let waits = server.all(Kind::Claim).into_iter().any(|claim| {
                let since = witness.claims().waits_since(&Uid::of(server, &claim), fip.address);
                laws::text(&claim, "/metadata/name") == name
                    && is_free(&claim)
                    && laws::text(&claim, "/spec/poolRef/name") == laws::text(pool, "/metadata/name")
                    && since.is_some_and(|since| since + KNOWN_FOR < sent)
            });
            if waits {
                let how = format!("deleted, although {name} waits for it by a reservation");
                witness.report(Violation::new(7, fip.address, how));
            }
        }
    }
}
