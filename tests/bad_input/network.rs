//! The network and the subnets.

use futures::FutureExt;
use serde_json::{Value, json};

use super::case::{Case, is_untouched, run_all};
use super::cloud::{no_tags, shows};
use crate::support::{Cloud, HEALS, Kind, SOON, Wire, claim, controller, pool, with_namespace};

const NOT_RESOLVED: (&str, &str) = ("NetworkResolved", "False");
const NOBODYS_ID: &str = "00000000-0000-4000-8000-000000000000";

fn by_name(name: &str) -> Value {
    json!({"filter": {"name": name}})
}

#[tokio::test]
async fn a_network_or_subnet_that_cannot_be_meant_is_told_and_heals() {
    let admin = Cloud::named("admin").await;
    let of_two_subnets = admin.external_network(8).await.name;
    let second = json!({"subnet": {"network_id": admin.network(&of_two_subnets).await, "name": "second",
        "ip_version": 4, "cidr": "198.51.100.0/24", "enable_dhcp": false}});
    let (status, answer) = admin.call(reqwest::Method::POST, "subnets", Some(second)).await;
    assert!(status.is_success(), "{answer}");
    let several = Wire::to("demo").await;
    several.set(shows(&["public-large", "tiny"]));
    let none = Wire::to("demo").await;
    none.set(shows(&["private"]));
    let untagged = Wire::to("demo").await;
    untagged.set(no_tags());
    let demo = Cloud::named("demo").await;
    let listed = demo.create("public-large", "").await.address;
    let gets_tags = {
        let untagged = untagged.clone();
        move || {
            untagged.set([]);
            std::future::ready(()).boxed()
        }
    };
    let shows_one = {
        let none = none.clone();
        move || {
            none.set(shows(&["public-large", "private"]));
            std::future::ready(()).boxed()
        }
    };
    run_all([
        Case::new("unknown-id")
            .pool(|pool| pool.with("floatingIPNetwork", json!({"id": NOBODYS_ID})))
            .tells("NetworkNotFound", NOT_RESOLVED, ["spec.floatingIPNetwork", "check its id or filter"])
            .mended_by_spec(json!({"floatingIPNetwork": {"id": null, "filter": {"name": "public-large"}}})),
        Case::new("unknown-name")
            .pool(|pool| pool.network("pubilc"))
            .tells("NetworkNotFound", NOT_RESOLVED, ["spec.floatingIPNetwork", "check its id or filter"])
            .mended_by_spec(json!({"floatingIPNetwork": by_name("public-large")})),
        Case::new("not-external")
            .pool(|pool| pool.network("private"))
            .tells(
                "NetworkNotExternal",
                NOT_RESOLVED,
                ["spec.floatingIPNetwork", "private (", "name an external network"],
            )
            .mended_by_spec(json!({"floatingIPNetwork": by_name("public-large")})),
        Case::new("several-match")
            .clouds_yaml(several.clouds_yaml())
            .pool(|pool| pool.with("floatingIPNetwork", json!({"filter": {"notTags": ["nobody-has-it"]}})))
            .tells(
                "NetworkAmbiguous",
                NOT_RESOLVED,
                ["spec.floatingIPNetwork", "by its id", "public-large (", "tiny ("],
            )
            .mended_by_spec(json!({"floatingIPNetwork": {"filter": {"name": "public-large"}}})),
        Case::new("several-and-none-named")
            .clouds_yaml(several.clouds_yaml())
            .pool(|pool| pool.without("floatingIPNetwork"))
            .tells("NetworkAmbiguous", NOT_RESOLVED, ["spec.floatingIPNetwork", "public-large (", "tiny ("])
            .mended_by_spec(json!({"floatingIPNetwork": by_name("public-large")})),
        Case::new("none-external")
            .clouds_yaml(none.clouds_yaml())
            .pool(|pool| pool.without("floatingIPNetwork"))
            .tells("NetworkNotFound", NOT_RESOLVED, ["no external network", "spec.floatingIPNetwork"])
            .mended_by(shows_one),
        Case::new("no-such-subnet")
            .pool(|pool| pool.with("subnets", json!([by_name("public-large-v4"), by_name("public-large-v5")])))
            .tells("SubnetNotFound", NOT_RESOLVED, ["spec.subnets[1].filter", "public-large", "give the subnet's id"])
            .mended_by_spec(json!({"subnets": [by_name("public-large-v4")]})),
        Case::new("several-subnets")
            .pool(|pool| pool.network(&of_two_subnets).with("subnets", json!([{"filter": {"ipVersion": 4}}])))
            .tells("SubnetNotFound", NOT_RESOLVED, ["spec.subnets[0].filter", &of_two_subnets, "give the subnet's id"])
            .mended_by_spec(json!({"subnets": [by_name("second")]})),
        Case::new("list-without-tags")
            .clouds_yaml(untagged.clouds_yaml())
            .pool(|pool| pool.without("floatingIPNetwork").list([listed.as_str()]))
            .tells(
                "TagsUnsupported",
                NOT_RESOLVED,
                ["standard-attr-tag", "spec.preAllocatedFloatingIPs", "name a floatingIPNetwork"],
            )
            .mended_by(gets_tags),
    ])
    .await;
    demo.clean_up().await;
    admin.clean_up().await;
}

/// A project may not be allowed to see external subnets, so an id is taken at its word until Neutron refuses it.
#[tokio::test]
async fn a_subnet_id_that_neutron_refuses_is_told_on_the_claim_and_heals() {
    controller();
    with_namespace(async |ns| {
        ns.secret_for("demo").await;
        ns.create(pool("public").network("public-large").with("subnets", json!([{"id": NOBODYS_ID}]))).await;
        ns.create(claim("web").from("public")).await;
        let name = claim("web").name();
        let message = ns.await_condition(Kind::Claim, &name, "Ready", "False", "AllocationFailed", SOON).await;
        for part in [NOBODYS_ID, "spec.subnets"] {
            assert!(message.contains(part), "{part:?} is not in {message:?}");
        }
        is_untouched(ns, Kind::Claim, &name).await;
        let change = json!({"spec": {"subnets": [by_name("public-large-v4")]}});
        ns.patch(Kind::Pool, "public", change).await;
        ns.await_bound(&name, HEALS).await;
    })
    .await;
}
