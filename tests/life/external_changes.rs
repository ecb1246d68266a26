//! Changes that others make in Neutron to a bound address.

use super::*;
use crate::support::{Fault, SOON, pool, with_namespace};

#[tokio::test]
async fn claim_of_a_deleted_floating_ip_says_so_and_gets_no_other_address() {
    with_namespace(async |ns| {
        let (_, proxy) = create_served_pool_behind_proxy(ns, pool("public").list([MISSING]).network("public")).await;
        let address = ns.bind(claim("web-0")).await;
        let cloud = ns.cloud().await;
        cloud.delete(&floating_ip_of(cloud, &address).await.id).await;
        proxy.forget_calls();
        let message =
            ns.await_condition(Kind::Claim, &claim_name("web-0"), "Ready", "False", "AllocationFailed", RESYNC).await;
        assert!(message.contains(&address) && message.contains("no longer exists"), "{message}");
        let kept: Vec<_> = bound_addresses(ns).await.into_iter().map(|(_, address)| address).collect();
        assert_eq!((kept, proxy.writes()), (vec![address], vec![]), "it gets no other address");
        release_claim(ns, "web-0").await;
    })
    .await;
}

#[tokio::test]
async fn claim_whose_floating_ip_and_ip_address_were_deleted_gets_another_address() {
    with_namespace(async |ns| {
        let (_, proxy) = create_served_pool_behind_proxy(ns, pool("public").network("public")).await;
        let address = ns.bind(claim("web-0")).await;
        let (cloud, name) = (ns.cloud().await, claim_name("web-0"));
        let first = floating_ip_of(cloud, &address).await;
        cloud.delete(&first.id).await;
        ns.await_condition(Kind::Claim, &name, "Ready", "False", "AllocationFailed", RESYNC).await;
        proxy.set_faults([Fault::delay("POST floatingips", Duration::from_secs(5))]);
        ns.delete(Kind::Address, &name).await;
        let has_no_reference =
            |claim: Option<&DynamicObject>| claim.is_some_and(|claim| claim.data["status"]["addressRef"].is_null());
        ns.await_object(Kind::Claim, &name, SOON, "without an address", has_no_reference).await;
        proxy.remove_faults();
        let address = ns.await_bound(&name, RECOVERY).await;
        assert_ne!(floating_ip_of(cloud, &address).await.id, first.id);
    })
    .await;
}

#[tokio::test]
async fn claim_of_an_address_that_another_owner_marked_says_so_until_the_mark_is_gone() {
    with_namespace(async |ns| {
        let cloud = ns.cloud().await;
        let listed = ns.create_floating_ip("public").await;
        create_served_pool(ns, pool("public").list([&listed.address, MISSING])).await;
        ns.bind(claim("web-0")).await;
        let theirs = "caip.another.aaaaaaaaaaaaaaaa";
        cloud.replace_tags(&listed.id, theirs).await;
        let message =
            ns.await_condition(Kind::Claim, &claim_name("web-0"), "Ready", "False", "AllocationFailed", RESYNC).await;
        assert!(message.contains(&listed.address) && message.contains("another owner's mark"), "{message}");
        let kept = cloud.get(&listed.id).await.expect("it is there").tags;
        assert!(kept.len() == 1 && kept.contains(theirs), "the other owner's mark is not touched: {kept:?}");
        cloud.untag(&listed.id, theirs).await;
        ns.await_condition(Kind::Claim, &claim_name("web-0"), "Ready", "True", "AddressAllocated", RESYNC).await;
    })
    .await;
}
