//! Addresses of a network: reused, created, excluded, preallocated.

use super::*;
use crate::support::{ExternalNetwork, pool, unique, with_namespace};

/// Runs a scenario on an external network of its own, which has so many addresses.
async fn with_network(addresses: u8, scenario: impl AsyncFnOnce(&Namespace, &ExternalNetwork)) {
    let admin = Cloud::named("admin").await;
    let network = admin.external_network(addresses).await;
    with_namespace(async |ns| scenario(ns, &network).await).await;
    admin.clean_up().await;
}

#[tokio::test]
async fn free_addresses_that_mean_nothing_to_anybody_are_reused_before_any_is_made() {
    with_network(12, async |ns, network| {
        let cloud = ns.cloud().await;
        let free = ns.floating_ip(&network.name).await;
        let described = cloud.create(&network.name, "somebody's").await;
        let tagged = ns.floating_ip(&network.name).await;
        cloud.tag(&tagged.id, "somebodys").await;
        let listed = ns.floating_ip(&network.name).await;
        ns.create(pool("another").list([&listed.address])).await;
        let (id, wire) = served_by_wire(ns, pool("public").network(&network.name).reuse_unmarked()).await;
        assert_eq!(ns.bind(claim("web-0")).await, free.address);
        assert_eq!(wire.writes(), ["PUT floatingips/ID/tags/TAG"]);
        let made = ns.bind(claim("web-1")).await;
        assert!(seen(cloud, &made).await.description.contains(&id));
        for other in [described, tagged, listed] {
            assert!(!is_marked(&seen(cloud, &other.address).await));
        }
        release(ns, "web-0").await;
        assert_eq!(until(cloud, &free.address, "unmarked", |found| !is_marked(found)).await, free);
    })
    .await;
}

#[tokio::test]
async fn addresses_that_changed_a_moment_ago_are_not_reused() {
    with_network(4, async |ns, network| {
        let fresh = ns.floating_ip(&network.name).await;
        served(ns, pool("public").network(&network.name).without("reuse")).await;
        assert_ne!(ns.bind(claim("web-0")).await, fresh.address);
    })
    .await;
}

#[tokio::test]
async fn nothing_is_reused_where_the_policy_says_never() {
    with_network(4, async |ns, network| {
        let fresh = ns.floating_ip(&network.name).await;
        let never = serde_json::json!({"policy": "Never"});
        served(ns, pool("public").network(&network.name).with("reuse", never)).await;
        assert_ne!(ns.bind(claim("web-0")).await, fresh.address);
    })
    .await;
}

#[tokio::test]
async fn tagged_addresses_are_reused_when_they_have_all_the_tags_and_no_port() {
    with_namespace(async |ns| {
        let cloud = ns.cloud().await;
        let (one, other) = (unique("for"), unique("for"));
        let (half, attached) = (ns.floating_ip("public").await, ns.floating_ip("public").await);
        let good = cloud.create("public", "may be described").await;
        cloud.attach(&attached.id, &cloud.port("private").await).await;
        for id in [&half.id, &attached.id, &good.id] {
            cloud.tag(id, &one).await;
        }
        for id in [&attached.id, &good.id] {
            cloud.tag(id, &other).await;
        }
        served(ns, pool("public").network("public").reuse_tagged(&[&one, &other])).await;
        assert_eq!(ns.bind(claim("web-0")).await, good.address);
        let made = ns.bind(claim("web-1")).await;
        assert!(made != half.address && made != attached.address);
        release(ns, "web-0").await;
        let after = until(cloud, &good.address, "unmarked", |found| !is_marked(found)).await;
        assert_eq!((after.tags.len(), after.description.as_str()), (2, "may be described"));
    })
    .await;
}

#[tokio::test]
async fn excluded_and_reserved_addresses_that_neutron_offers_are_given_back() {
    with_network(3, async |ns, network| {
        let spec = pool("public").network(&network.name).excluded([network.address(0)]);
        let spec = spec.reserve(&named("db-0"), &network.address(1));
        let (id, wire) = served_by_wire(ns, spec).await;
        assert_eq!(ns.bind(claim("web-0")).await, network.address(2));
        assert!(wire.count("POST floatingips") <= 3, "{:?}", wire.writes());
        let cloud = ns.cloud().await;
        eventually(HEALS, async || match marked(cloud, &id).await.len() {
            1 => Ok(()),
            more => Err(format!("{more} floating IPs for one claim")),
        })
        .await;
    })
    .await;
}

#[tokio::test]
async fn network_that_offers_only_excluded_addresses_says_so_and_keeps_none() {
    with_network(2, async |ns, network| {
        let id = served(ns, pool("public").network(&network.name).excluded([network.cidr()])).await;
        ns.create(claim("web-0")).await;
        let message = waits(ns, "web-0", "PoolExhausted").await;
        assert!(message.contains("the network"), "{message}");
        let cloud = ns.cloud().await;
        eventually(HEALS, async || match marked(cloud, &id).await.len() {
            0 => Ok(()),
            more => Err(format!("{more} floating IPs are kept")),
        })
        .await;
        // The spec is mended, and the claim is served.
        ns.patch(Kind::Pool, "public", serde_json::json!({"spec": {"excludedAddresses": [network.address(0)]}})).await;
        assert_eq!(bound(ns, "web-0").await, network.address(1));
    })
    .await;
}

#[tokio::test]
async fn preallocated_addresses_bind_with_one_write_and_are_replenished() {
    with_namespace(async |ns| {
        let (id, wire) = served_by_wire(ns, pool("public").network("public").preallocate(2)).await;
        await_count(ns, "free", 2).await;
        let cloud = ns.cloud().await;
        let ready: Vec<String> = marked(cloud, &id).await.into_iter().map(|fip| fip.address).collect();
        assert_eq!((ready.len(), wire.writes()), (2, vec!["POST floatingips".to_owned(); 2]));
        wire.forget();
        let address = ns.bind(claim("web-0")).await;
        assert!(ready.contains(&address));
        assert_eq!(wire.writes().first().map(String::as_str), Some("PUT floatingips/ID"));
        await_count(ns, "total", 3).await;
        assert_eq!(wire.writes(), ["PUT floatingips/ID", "POST floatingips"]);

        ns.patch(Kind::Pool, "public", serde_json::json!({"spec": {"preallocate": 0}})).await;
        await_count(ns, "total", 1).await;
        let left: Vec<_> = marked(cloud, &id).await.into_iter().map(|fip| fip.address).collect();
        assert_eq!(left, [address], "the surplus is deleted, what is bound is not");
    })
    .await;
}
