//! Tests of `tests/support` itself.

use futures::FutureExt;
use kube::Api;
use std::panic::AssertUnwindSafe;

use crate::support::{Cloud, Kind, SOON, claim, controller, eventually, pool, with_namespace};

#[tokio::test]
async fn namespace_and_floating_ips_are_removed_after_a_panic() {
    let (mut name, mut created) = (String::new(), None);
    let scenario = with_namespace(async |ns| {
        ns.create_secret_for("demo").await;
        ns.create(pool("public").network("public")).await;
        ns.patch(Kind::Pool, "public", serde_json::json!({"metadata": {"finalizers": ["example.org/stuck"]}})).await;
        name = ns.name.clone();
        created = Some(ns.create_floating_ip("public").await);
        panic!("on purpose");
    });
    assert!(AssertUnwindSafe(scenario).catch_unwind().await.is_err(), "the panic is passed on");
    let world = crate::support::World::new().await;
    let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(world.client);
    eventually(SOON, async || match namespaces.get_opt(&name).await {
        Ok(None) => Ok(()),
        _ => Err(format!("namespace {name} is there")),
    })
    .await;
    // Another test may have the address by now.
    let created = created.expect("it was created");
    let found = Cloud::named("demo").await.find(&created.address).await;
    assert!(found.is_none_or(|found| found.id != created.id));
}

#[tokio::test]
async fn released_claim_is_deleted() {
    with_namespace(async |ns| {
        let made = ns.create(claim("web-0").from("public").of_cluster("prod")).await;
        assert_eq!(made.metadata.name.as_deref(), Some("web-0-floating-ip-address"));
        ns.release("web-0-floating-ip-address").await;
        ns.await_gone(Kind::Claim, "web-0-floating-ip-address", SOON).await;
    })
    .await;
}

#[tokio::test]
async fn shared_controller_serves_the_pools_of_its_run() {
    let controller = controller();
    with_namespace(async |ns| {
        ns.create_secret_for("demo").await;
        ns.create(pool("public").network("public").max_ips(1)).await;
        let address = ns.bind(claim("web-0").from("public")).await;
        let pool = ns.get(Kind::Pool, "public").await.expect("the pool is there");
        let id = pool.data["status"]["poolID"].as_str().expect("a pool that serves has an identity").to_owned();
        let found = ns.cloud().await.find(&address).await.expect("the address is a floating IP");
        assert!(found.description.contains(&id), "{found:?} carries the pool's mark");
    })
    .await;
    controller.assert_running();
    assert!(controller.log().contains("starting"), "{} is its log", controller.log_path().display());
}

#[tokio::test]
async fn floating_ips_can_be_created_tagged_attached_and_deleted() {
    let cloud = Cloud::named("demo-app").await;
    let made = cloud.create("public", "made by hand").await;
    assert_eq!(made.description, "made by hand");
    cloud.tag(&made.id, "one").await;
    assert!(cloud.get(&made.id).await.is_some_and(|found| found.tags.contains("one")));
    assert!(cloud.untag(&made.id, "one").await && !cloud.untag(&made.id, "one").await);
    assert_eq!(cloud.describe(&made.id, "other").await.description, "other");
    let port = cloud.port("private").await;
    assert_eq!(cloud.attach(&made.id, &port).await.port, Some(port.clone()));
    assert_eq!(cloud.detach(&made.id).await.port, None);
    assert!(cloud.floating_ips().await.iter().any(|found| found.id == made.id));
    cloud.clean_up().await;
    assert_eq!(cloud.get(&made.id).await, None);
    assert!(!cloud.delete(&made.id).await);
}

#[tokio::test]
async fn external_network_has_the_requested_number_of_addresses() {
    let admin = Cloud::named("admin").await;
    let demo = Cloud::named("demo").await;
    let network = admin.external_network(2).await;
    let first = demo.create(&network.name, "").await;
    // Neutron chooses at random.
    let other =
        [network.address(0), network.address(1)].into_iter().find(|other| *other != first.address).expect("two differ");
    assert_eq!(admin.create_at(&network.name, &other, demo.project()).await.network, first.network);
    let body = serde_json::json!({"floatingip": {"floating_network_id": first.network}});
    let (status, answer) = demo.call(reqwest::Method::POST, "floatingips", Some(body)).await;
    assert_eq!((status.as_u16(), &answer["NeutronError"]["type"]), (409, &"IpAddressGenerationFailure".into()));
    demo.clean_up().await;
    admin.clean_up().await;
}
