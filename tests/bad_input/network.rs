//! The network and the subnets.

use futures::FutureExt;
use serde_json::{Value, json};

use super::altered_cloud::{no_tags, only_networks};
use super::case::{Case, assert_not_written, run_all};
use crate::support::{Cloud, Kind, OpenStackProxy, RECOVERY, SOON, claim, controller, pool, with_namespace};

const NOT_RESOLVED: (&str, &str) = ("NetworkResolved", "False");
const UNKNOWN_ID: &str = "00000000-0000-4000-8000-000000000000";

fn by_name(name: &str) -> Value {
    json!({"filter": {"name": name}})
}

fn wrong_networks() -> Vec<Case> {
    vec![
        Case::new("unknown-id")
            .pool(|pool| pool.with("floatingIPNetwork", json!({"id": UNKNOWN_ID})))
            .reports("NetworkNotFound", NOT_RESOLVED, ["spec.floatingIPNetwork", "check its id or filter"])
            .fixed_by_spec(json!({"floatingIPNetwork": {"id": null, "filter": {"name": "public-large"}}})),
        Case::new("unknown-name")
            .pool(|pool| pool.network("pubilc"))
            .reports("NetworkNotFound", NOT_RESOLVED, ["spec.floatingIPNetwork", "check its id or filter"])
            .fixed_by_spec(json!({"floatingIPNetwork": by_name("public-large")})),
        Case::new("not-external")
            .pool(|pool| pool.network("private"))
            .reports(
                "NetworkNotExternal",
                NOT_RESOLVED,
                ["spec.floatingIPNetwork", "private (", "name an external network"],
            )
            .fixed_by_spec(json!({"floatingIPNetwork": by_name("public-large")})),
    ]
}

async fn ambiguous_networks() -> Vec<Case> {
    let several = OpenStackProxy::to_cloud("demo").await;
    several.set_faults(only_networks(&["public-large", "tiny"]));
    let none = OpenStackProxy::to_cloud("demo").await;
    none.set_faults(only_networks(&["private"]));
    let none_yaml = none.clouds_yaml();
    let show_external_network = move || {
        none.set_faults(only_networks(&["public-large", "private"]));
        std::future::ready(()).boxed()
    };
    vec![
        Case::new("several-match")
            .clouds_yaml(several.clouds_yaml())
            .pool(|pool| pool.with("floatingIPNetwork", json!({"filter": {"notTags": ["unknown"]}})))
            .reports(
                "NetworkAmbiguous",
                NOT_RESOLVED,
                ["spec.floatingIPNetwork", "by its id", "public-large (", "tiny ("],
            )
            .fixed_by_spec(json!({"floatingIPNetwork": {"filter": {"name": "public-large"}}})),
        Case::new("several-and-none-named")
            .clouds_yaml(several.clouds_yaml())
            .pool(|pool| pool.without("floatingIPNetwork"))
            .reports("NetworkAmbiguous", NOT_RESOLVED, ["spec.floatingIPNetwork", "public-large (", "tiny ("])
            .fixed_by_spec(json!({"floatingIPNetwork": by_name("public-large")})),
        Case::new("none-external")
            .clouds_yaml(none_yaml)
            .pool(|pool| pool.without("floatingIPNetwork"))
            .reports("NetworkNotFound", NOT_RESOLVED, ["no external network", "spec.floatingIPNetwork"])
            .fixed_by(show_external_network),
    ]
}

fn wrong_subnets(of_two_subnets: &str) -> Vec<Case> {
    vec![
        Case::new("no-such-subnet")
            .pool(|pool| pool.with("subnets", json!([by_name("public-large-v4"), by_name("public-large-v5")])))
            .reports("SubnetNotFound", NOT_RESOLVED, ["spec.subnets[1].filter", "public-large", "give the subnet's id"])
            .fixed_by_spec(json!({"subnets": [by_name("public-large-v4")]})),
        Case::new("several-subnets")
            .pool(|pool| pool.network(of_two_subnets).with("subnets", json!([{"filter": {"ipVersion": 4}}])))
            .reports("SubnetNotFound", NOT_RESOLVED, ["spec.subnets[0].filter", of_two_subnets, "give the subnet's id"])
            .fixed_by_spec(json!({"subnets": [by_name("second")]})),
    ]
}

async fn predefined_addresses_without_tags(listed: &str) -> Case {
    let untagged = OpenStackProxy::to_cloud("demo").await;
    untagged.set_faults(no_tags());
    let untagged_yaml = untagged.clouds_yaml();
    let add_tags = move || {
        untagged.remove_faults();
        std::future::ready(()).boxed()
    };
    Case::new("list-without-tags")
        .clouds_yaml(untagged_yaml)
        .pool(|pool| pool.without("floatingIPNetwork").list([listed]))
        .reports(
            "TagsUnsupported",
            NOT_RESOLVED,
            ["standard-attr-tag", "spec.preAllocatedFloatingIPs", "name a floatingIPNetwork"],
        )
        .fixed_by(add_tags)
}

#[tokio::test]
async fn wrong_network_or_subnet_is_reported_until_it_is_fixed() {
    let admin = Cloud::named("admin").await;
    let of_two_subnets = admin.external_network(8).await.name;
    let second = json!({"subnet": {"network_id": admin.network(&of_two_subnets).await, "name": "second",
        "ip_version": 4, "cidr": "198.51.100.0/24", "enable_dhcp": false}});
    let (status, answer) = admin.call(reqwest::Method::POST, "subnets", Some(second)).await;
    assert!(status.is_success(), "{answer}");
    let demo = Cloud::named("demo").await;
    let listed = demo.create("public-large", "").await.address;
    let mut cases = wrong_networks();
    cases.extend(ambiguous_networks().await);
    cases.extend(wrong_subnets(&of_two_subnets));
    cases.push(predefined_addresses_without_tags(&listed).await);
    run_all(cases).await;
    demo.clean_up().await;
    admin.clean_up().await;
}

/// A project may not see external subnets, so an id is not checked before Neutron refuses it.
#[tokio::test]
async fn subnet_id_that_neutron_refuses_is_reported_on_the_claim_until_it_is_fixed() {
    controller();
    with_namespace(async |ns| {
        ns.create_secret_for("demo").await;
        ns.create(pool("public").network("public-large").with("subnets", json!([{"id": UNKNOWN_ID}]))).await;
        ns.create(claim("web").from("public")).await;
        let name = claim("web").name();
        let message = ns.await_condition(Kind::Claim, &name, "Ready", "False", "AllocationFailed", SOON).await;
        for part in [UNKNOWN_ID, "spec.subnets"] {
            assert!(message.contains(part), "{part:?} is not in {message:?}");
        }
        assert_not_written(ns, Kind::Claim, &name).await;
        let change = json!({"spec": {"subnets": [by_name("public-large-v4")]}});
        ns.patch(Kind::Pool, "public", change).await;
        ns.await_bound(&name, RECOVERY).await;
    })
    .await;
}
