//! Addresses of a network: reused, created, excluded, kept free.

use reqwest::Method;

use super::*;
use crate::support::{Fault, SOON, pool, unique, with_external_network, with_namespace};

#[tokio::test]
async fn unmarked_addresses_are_reused_before_new_ones_are_created() {
    with_external_network(12, async |ns, network| {
        let cloud = ns.cloud().await;
        let free = ns.create_floating_ip(&network.name).await;
        let described = cloud.create(&network.name, "a user's").await;
        let tagged = ns.create_floating_ip(&network.name).await;
        cloud.tag(&tagged.id, "of-a-user").await;
        let listed = ns.create_floating_ip(&network.name).await;
        ns.create(pool("another").list([&listed.address])).await;
        let (id, proxy) =
            create_served_pool_behind_proxy(ns, pool("public").network(&network.name).reuse_unmarked()).await;
        assert_eq!(ns.bind(claim("web-0")).await, free.address);
        assert_eq!(proxy.writes(), ["PUT floatingips/ID/tags/TAG"]);
        let made = ns.bind(claim("web-1")).await;
        assert!(floating_ip_of(cloud, &made).await.description.contains(&id));
        for other in [described, tagged, listed] {
            assert!(!is_marked(&floating_ip_of(cloud, &other.address).await));
        }
        release_claim(ns, "web-0").await;
        assert_eq!(await_unmarked(cloud, &free.address).await, free);
    })
    .await;
}

/// It is described after the listing that showed it, and before it is marked.
#[tokio::test]
async fn an_address_that_its_owner_describes_while_it_is_marked_is_not_reused() {
    with_external_network(4, async |ns, network| {
        let cloud = ns.cloud().await;
        let free = ns.create_floating_ip(&network.name).await;
        let spec = pool("public").network(&network.name).reuse_unmarked();
        let (id, proxy) = create_served_pool_behind_proxy(ns, spec).await;
        proxy.set_faults([Fault::delay("PUT floatingips/ID/tags/TAG", Duration::from_secs(3)).once()]);
        ns.create(claim("web-0")).await;
        proxy.await_faults_used(SOON).await;
        let described = json!({"floatingip": {"description": "mine"}});
        let (status, _) = cloud.call(Method::PUT, &format!("floatingips/{}", free.id), Some(described)).await;
        assert!(status.is_success());
        let given = await_bound(ns, "web-0").await;
        assert!(floating_ip_of(cloud, &given).await.description.contains(&id), "{given} is a new one");
        assert_eq!(await_unmarked(cloud, &free.address).await.description, "mine");
    })
    .await;
}

fn infrastructure_cluster(name: &str, spec: serde_json::Value) -> Manifest {
    Manifest::new(Kind::InfrastructureCluster, json!({"metadata": {"name": name}, "spec": spec}))
}

#[tokio::test]
async fn floating_ips_that_a_cluster_names_for_its_api_server_or_bastion_are_not_reused() {
    with_external_network(8, async |ns, network| {
        let cloud = ns.cloud().await;
        let endpoint = ns.create_floating_ip(&network.name).await;
        ns.create(infrastructure_cluster("one", json!({"apiServerFloatingIP": endpoint.address}))).await;
        let id = create_served_pool(ns, pool("public").network(&network.name).reuse_unmarked()).await;
        let created = ns.bind(claim("web-0")).await;
        assert!(floating_ip_of(cloud, &created).await.description.contains(&id));
        // A pool that serves notices a cluster that was created a moment ago.
        let bastion = ns.create_floating_ip(&network.name).await;
        ns.create(infrastructure_cluster("two", json!({"bastion": {"floatingIP": bastion.address}}))).await;
        ns.bind(claim("web-1")).await;
        for named in [endpoint, bastion] {
            assert_eq!(cloud.get(&named.id).await.map(|fip| fip.tags), Some(named.tags));
        }
    })
    .await;
}

/// What the clusters of that namespace name is in use in the project.
#[tokio::test]
async fn a_floating_ip_that_a_cluster_names_in_a_namespace_with_a_pool_of_the_project_is_not_reused() {
    with_external_network(8, async |ns, network| {
        with_namespace(async |other| {
            let named = ns.create_floating_ip(&network.name).await;
            other.create(infrastructure_cluster("one", json!({"apiServerFloatingIP": named.address}))).await;
            create_served_pool(other, pool("theirs").network(&network.name)).await;
            let free = ns.create_floating_ip(&network.name).await;
            create_served_pool(ns, pool("public").network(&network.name).reuse_unmarked()).await;
            assert_eq!(ns.bind(claim("web-0")).await, free.address);
            assert_ne!(ns.bind(claim("web-1")).await, named.address);
        })
        .await;
    })
    .await;
}

#[tokio::test]
async fn recently_changed_addresses_are_not_reused() {
    with_external_network(4, async |ns, network| {
        let fresh = ns.create_floating_ip(&network.name).await;
        create_served_pool(ns, pool("public").network(&network.name).without("reuse")).await;
        assert_ne!(ns.bind(claim("web-0")).await, fresh.address);
    })
    .await;
}

#[tokio::test]
async fn no_address_is_reused_with_the_policy_never() {
    with_external_network(4, async |ns, network| {
        let fresh = ns.create_floating_ip(&network.name).await;
        let never = json!({"policy": "Never"});
        create_served_pool(ns, pool("public").network(&network.name).with("reuse", never)).await;
        assert_ne!(ns.bind(claim("web-0")).await, fresh.address);
    })
    .await;
}

#[tokio::test]
async fn detached_addresses_with_all_the_tags_are_reused() {
    with_namespace(async |ns| {
        let cloud = ns.cloud().await;
        let (one, other) = (unique("for"), unique("for"));
        let (half, attached) = (ns.create_floating_ip("public").await, ns.create_floating_ip("public").await);
        let good = cloud.create("public", "may be described").await;
        cloud.attach(&attached.id, &cloud.port("private").await).await;
        for id in [&half.id, &attached.id, &good.id] {
            cloud.tag(id, &one).await;
        }
        for id in [&attached.id, &good.id] {
            cloud.tag(id, &other).await;
        }
        create_served_pool(ns, pool("public").network("public").reuse_tagged(&[&one, &other])).await;
        assert_eq!(ns.bind(claim("web-0")).await, good.address);
        let made = ns.bind(claim("web-1")).await;
        assert!(made != half.address && made != attached.address);
        release_claim(ns, "web-0").await;
        let after = await_unmarked(cloud, &good.address).await;
        assert_eq!((after.tags.len(), after.description.as_str()), (2, "may be described"));
    })
    .await;
}

#[tokio::test]
async fn excluded_and_reserved_addresses_that_neutron_creates_are_deleted() {
    with_external_network(3, async |ns, network| {
        let spec = pool("public").network(&network.name).excluded([network.address(0)]);
        let spec = spec.reserve(&claim_name("db-0"), &network.address(1));
        let (id, proxy) = create_served_pool_behind_proxy(ns, spec).await;
        assert_eq!(ns.bind(claim("web-0")).await, network.address(2));
        assert!(proxy.count("POST floatingips") <= 3, "{:?}", proxy.writes());
        await_marks_of_bound_claims_alone(ns, &id, RECOVERY).await;
    })
    .await;
}

/// As a process leaves it that dies before it deletes what Neutron has offered, or whose DELETE is refused.
#[tokio::test]
async fn an_excluded_address_that_stayed_with_a_claim_is_deleted_though_orphans_are_kept_and_reported() {
    with_external_network(2, async |ns, network| {
        let spec = pool("public").network(&network.name).excluded([network.address(0)]);
        let spec = spec
            .with("reclaimPolicy", json!("Retain"))
            .with("orphans", json!({"policy": "Report", "graceSeconds": 3600}));
        create_served_pool(ns, spec).await;
        let address = ns.bind(claim("web-0")).await;
        assert_eq!(address, network.address(1));
        let cloud = ns.cloud().await;
        // It is deleted by now if Neutron offered it first.
        await_floating_ip_deleted(cloud, &network.address(0), RECOVERY).await;
        let mark = floating_ip_of(cloud, &address).await.description;
        let nonce = mark.split(' ').find_map(|field| field.strip_prefix("nonce=")).expect("a created one has a nonce");
        let offered = cloud.create(&network.name, &mark.replace(nonce, &unique("n").replace('-', "0"))).await;
        assert_eq!(offered.address, network.address(0));
        await_floating_ip_deleted(cloud, &offered.address, RESYNC).await;
        assert_eq!(await_bound(ns, "web-0").await, address);
    })
    .await;
}

#[tokio::test]
async fn network_with_only_excluded_addresses_is_reported_and_leaks_none() {
    with_external_network(2, async |ns, network| {
        let id = create_served_pool(ns, pool("public").network(&network.name).excluded([network.cidr()])).await;
        let message = create_waiting_claim(ns, "web-0", "PoolExhausted").await;
        assert!(message.contains("the network"), "{message}");
        await_marks_of_bound_claims_alone(ns, &id, RECOVERY).await;
        ns.patch(Kind::Pool, "public", json!({"spec": {"excludedAddresses": [network.address(0)]}})).await;
        assert_eq!(await_bound(ns, "web-0").await, network.address(1));
    })
    .await;
}

#[tokio::test]
async fn an_address_that_is_excluded_after_it_was_allocated_is_kept_and_counted_as_out_of_range() {
    with_namespace(async |ns| {
        create_served_pool(ns, pool("public").network("public")).await;
        let address = ns.bind(claim("web-0")).await;
        ns.patch(Kind::Pool, "public", json!({"spec": {"excludedAddresses": [address]}})).await;
        await_address_count(ns, "outOfRange", 1).await;
        assert_eq!(await_bound(ns, "web-0").await, address);
        release_claim(ns, "web-0").await;
        await_address_count(ns, "outOfRange", 0).await;
    })
    .await;
}

#[tokio::test]
async fn created_addresses_get_the_tags_of_the_spec_after_they_are_bound() {
    with_namespace(async |ns| {
        let spec = pool("public").network("public").with("tags", json!(["cost-a", "team:b"]));
        let (id, proxy) = create_served_pool_behind_proxy(ns, spec).await;
        proxy.forget_calls();
        let address = ns.bind(claim("web-0")).await;
        assert_eq!(proxy.writes().first().map(String::as_str), Some("POST floatingips"));
        let cloud = ns.cloud().await;
        let has_tags = |fip: &FloatingIp| ["cost-a", "team:b"].iter().all(|tag| fip.tags.contains(*tag));
        let tagged = await_floating_ip(cloud, &address, "tagged", has_tags).await;
        assert!(tagged.description.contains(&id), "the mark stays");
        release_claim(ns, "web-0").await;
        await_floating_ip_deleted(cloud, &address, RECOVERY).await;
    })
    .await;
}

#[tokio::test]
async fn spares_bind_with_one_write_and_are_replenished() {
    with_namespace(async |ns| {
        let (id, proxy) = create_served_pool_behind_proxy(ns, pool("public").network("public").min_free(2)).await;
        await_address_count(ns, "free", 2).await;
        let cloud = ns.cloud().await;
        let ready = marked_addresses(cloud, &id).await;
        assert_eq!((ready.len(), proxy.writes()), (2, vec!["POST floatingips".to_owned(); 2]));
        proxy.forget_calls();
        let address = ns.bind(claim("web-0")).await;
        assert!(ready.contains(&address));
        assert_eq!(proxy.writes().first().map(String::as_str), Some("PUT floatingips/ID"));
        await_address_count(ns, "total", 3).await;
        assert_eq!(proxy.writes(), ["PUT floatingips/ID", "POST floatingips"]);

        ns.patch(Kind::Pool, "public", json!({"spec": {"minFree": 0}})).await;
        await_address_count(ns, "total", 1).await;
        assert_eq!(marked_addresses(cloud, &id).await, [address].into(), "only the surplus is deleted");
    })
    .await;
}
