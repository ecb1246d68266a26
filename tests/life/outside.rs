//! What somebody does in Neutron to an address that a claim holds.

use super::*;
use crate::support::{pool, with_namespace};

#[tokio::test]
async fn claim_whose_floating_ip_was_deleted_is_told_and_gets_no_other() {
    with_namespace(async |ns| {
        let (_, wire) = served_by_wire(ns, pool("public").network("public")).await;
        let address = ns.bind(claim("web-0")).await;
        let cloud = ns.cloud().await;
        cloud.delete(&seen(cloud, &address).await.id).await;
        wire.forget();
        let told =
            ns.await_condition(Kind::Claim, &named("web-0"), "Ready", "False", "AllocationFailed", AUDITED).await;
        assert!(told.contains(&address) && told.contains("no longer exists"), "{told}");
        let kept: Vec<_> = addresses(ns).await.into_iter().map(|(_, address)| address).collect();
        assert_eq!((kept, wire.writes()), (vec![address], vec![]), "no other is given in its place");
        release(ns, "web-0").await;
    })
    .await;
}

#[tokio::test]
async fn claim_whose_listed_address_another_owner_marked_is_told_until_the_mark_is_gone() {
    with_namespace(async |ns| {
        let cloud = ns.cloud().await;
        let listed = ns.floating_ip("public").await;
        served(ns, pool("public").list([&listed.address])).await;
        ns.bind(claim("web-0")).await;
        let ours = cloud.get(&listed.id).await.expect("it is there").tags;
        let theirs = "caip.somebodyelse.aaaaaaaaaaaaaaaa";
        for tag in &ours {
            cloud.untag(&listed.id, tag).await;
        }
        cloud.tag(&listed.id, theirs).await;
        let told =
            ns.await_condition(Kind::Claim, &named("web-0"), "Ready", "False", "AllocationFailed", AUDITED).await;
        assert!(told.contains(&listed.address) && told.contains("another owner's mark"), "{told}");
        let kept = cloud.get(&listed.id).await.expect("it is there").tags;
        assert!(kept.len() == 1 && kept.contains(theirs), "what is theirs is not touched: {kept:?}");
        cloud.untag(&listed.id, theirs).await;
        ns.await_condition(Kind::Claim, &named("web-0"), "Ready", "True", "AddressAllocated", AUDITED).await;
    })
    .await;
}
