//! The cloud's policy forbids tags: claims that need one say so and wait until it is allowed.

use reqwest::StatusCode;

use super::*;
use crate::support::{Fault, SOON, pool, with_namespace};

const TAG: &str = "PUT floatingips/ID/tags/TAG";

fn forbidden_tag() -> Fault {
    Fault::refusal(TAG, StatusCode::FORBIDDEN.as_u16(), "HTTPForbidden")
}

#[tokio::test]
async fn forbidden_tag_is_reported_and_no_unmarked_address_is_given_until_it_is_allowed() {
    with_namespace(async |ns| {
        let (first, second) = (ns.create_floating_ip("public").await, ns.create_floating_ip("public").await);
        let (id, proxy) =
            create_served_pool_behind_proxy(ns, pool("public").list([&first.address, &second.address])).await;
        let given = ns.bind(claim("web-0")).await;
        let free = if given == first.address { &second } else { &first };

        proxy.set_faults([forbidden_tag()]);
        let message = create_waiting_claim(ns, "web-1", "AllocationFailed").await;
        assert!(message.contains("policy") && message.contains("give the user the required role"), "{message}");
        ns.release(&claim_name("web-0")).await;
        let message = await_waiting(ns, "web-0", "ReleaseFailed").await;
        assert!(message.contains("policy") && message.contains("give the user the required role"), "{message}");
        // No address is given or released without its mark.
        let cloud = ns.cloud().await;
        assert_eq!(bound_addresses(ns).await, [(claim_name("web-0"), given.clone())]);
        assert_eq!(
            marked_floating_ips(cloud, &id).await.into_iter().map(|fip| fip.address).collect::<Vec<_>>(),
            [given.as_str()]
        );
        assert!(!is_marked(&floating_ip_of(cloud, &free.address).await), "the free address is not marked");
        let tries = proxy.count(TAG);
        assert!(tries < 20, "{tries} tries of a forbidden call");

        proxy.remove_faults();
        assert_eq!(await_bound(ns, "web-1").await, free.address);
        ns.await_gone(Kind::Claim, &claim_name("web-0"), RECOVERY).await;
        await_unmarked(cloud, &given).await;
    })
    .await;
}

#[tokio::test]
async fn pool_says_which_part_of_its_upkeep_the_cloud_forbids() {
    with_namespace(async |ns| {
        let (_, proxy) = create_served_pool_behind_proxy(ns, pool("public").network("public-large")).await;
        let given = ns.bind(claim("web-0")).await;
        proxy.set_faults([Fault::refusal("DELETE floatingips/ID", StatusCode::FORBIDDEN.as_u16(), "HTTPForbidden")]);
        ns.release(&claim_name("web-0")).await;
        ns.await_gone(Kind::Claim, &claim_name("web-0"), RECOVERY).await;
        let maintained = "AddressesMaintained";
        let said = ns.await_condition(Kind::Pool, "public", maintained, "False", "OpenStackRefused", RECOVERY).await;
        assert!(said.contains("delete floating IP") && said.contains("give the user the required role"), "{said}");
        let ready = ns.await_condition(Kind::Pool, "public", "Ready", "True", "Ready", SOON).await;
        assert_eq!(ready, "claims can be served");
        ns.await_event(Kind::Pool, "public", "OpenStackRefused", &said).await;

        proxy.remove_faults();
        ns.await_condition(Kind::Pool, "public", maintained, "True", "Maintained", RECOVERY).await;
        await_floating_ip_deleted(ns.cloud().await, &given, RECOVERY).await;
    })
    .await;
}

#[tokio::test]
async fn release_with_a_forbidden_tag_keeps_the_address_until_it_is_allowed() {
    with_namespace(async |ns| {
        let (_, proxy) = create_served_pool_behind_proxy(ns, pool("public").network("public-large").max_ips(1)).await;
        let given = ns.bind(claim("web-0")).await;
        proxy.set_faults([forbidden_tag()]);
        ns.release(&claim_name("web-0")).await;
        await_waiting(ns, "web-0", "ReleaseFailed").await;
        create_waiting_claim(ns, "web-1", "PoolExhausted").await;
        assert!(!is_released(&floating_ip_of(ns.cloud().await, &given).await), "it still belongs to its claim");
        proxy.remove_faults();
        ns.await_gone(Kind::Claim, &claim_name("web-0"), RECOVERY).await;
        await_bound(ns, "web-1").await;
    })
    .await;
}
