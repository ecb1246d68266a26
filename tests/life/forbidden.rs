//! The cloud's policy forbids tags: what needs one is told and waits, and is served when it is allowed again.

use reqwest::StatusCode;

use super::*;
use crate::support::{Fault, await_lawful, pool, with_namespace};

const TAG: &str = "PUT floatingips/ID/tags/TAG";

/// The fault as Neutron tells it when its policy says no.
fn forbidden() -> Fault {
    Fault::refusal(TAG, StatusCode::FORBIDDEN.as_u16(), "HTTPForbidden")
}

#[tokio::test]
async fn tag_that_is_forbidden_gives_nothing_unmarked_is_told_and_heals_when_it_is_allowed() {
    with_namespace(async |ns| {
        let (first, second) = (ns.floating_ip("public").await, ns.floating_ip("public").await);
        let (id, wire) = served_by_wire(ns, pool("public").list([&first.address, &second.address])).await;
        let given = ns.bind(claim("web-0")).await;
        let free = if given == first.address { &second } else { &first };

        wire.set([forbidden()]);
        let message = refused(ns, "web-1", "AllocationFailed").await;
        assert!(message.contains("policy") && message.contains("give the user the role"), "{message}");
        ns.release(&named("web-0")).await;
        let message = waits(ns, "web-0", "ReleaseFailed").await;
        assert!(message.contains("policy") && message.contains("give the user the role"), "{message}");
        // Nothing is given that is not marked, and nothing is given back that is not told.
        let cloud = ns.cloud().await;
        assert_eq!(addresses(ns).await, [(named("web-0"), given.clone())]);
        assert_eq!(marked(cloud, &id).await.into_iter().map(|fip| fip.address).collect::<Vec<_>>(), [given.as_str()]);
        assert!(!is_marked(&seen(cloud, &free.address).await), "what could not be marked is not");
        let tries = wire.count(TAG);
        assert!(tries < 20, "{tries} tries at what is forbidden");

        wire.set([]);
        assert_eq!(bound(ns, "web-1").await, free.address);
        ns.await_gone(Kind::Claim, &named("web-0"), HEALS).await;
        until(cloud, &given, "unmarked", |found| !is_marked(found)).await;
        await_lawful(&[ns]).await;
    })
    .await;
}

#[tokio::test]
async fn release_whose_tag_is_forbidden_keeps_a_created_address_until_it_is_allowed() {
    with_namespace(async |ns| {
        let (_, wire) = served_by_wire(ns, pool("public").network("public-large").max_ips(1)).await;
        let given = ns.bind(claim("web-0")).await;
        wire.set([forbidden()]);
        ns.release(&named("web-0")).await;
        waits(ns, "web-0", "ReleaseFailed").await;
        refused(ns, "web-1", "PoolExhausted").await;
        assert!(!is_released(&seen(ns.cloud().await, &given).await), "it is still its claim's");
        wire.set([]);
        ns.await_gone(Kind::Claim, &named("web-0"), HEALS).await;
        bound(ns, "web-1").await;
        await_lawful(&[ns]).await;
    })
    .await;
}
