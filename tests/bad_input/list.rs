//! Predefined addresses.

use serde_json::json;

use crate::support::{Cloud, Kind, Namespace, RECOVERY, SOON, claim, condition_of, controller, pool, with_namespace};

/// An address of the network `public` outside its allocation pools, which no floating IP has.
async fn unused_address(admin: &Cloud) -> String {
    let outside = (2..10).chain(251..255).map(|last| format!("203.0.113.{last}"));
    for address in outside {
        if admin.find(&address).await.is_none() {
            return address;
        }
    }
    panic!("every address outside the allocation pool of `public` is in use");
}

async fn failed_addresses(ns: &Namespace) -> Vec<[String; 3]> {
    let pool = ns.get(Kind::Pool, "listed").await.expect("it is there");
    let failed = pool.data["status"]["failed"].as_array().cloned().unwrap_or_default();
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    failed.iter().map(|one| ["address", "reason", "message"].map(|field| text(&one[field]))).collect()
}

#[tokio::test]
async fn missing_predefined_address_is_reported_and_skipped_until_it_exists() {
    controller();
    let admin = Cloud::named("admin").await;
    let missing = unused_address(&admin).await;
    with_namespace(async |ns| {
        ns.create_secret_for("demo").await;
        let there = ns.create_floating_ip("public").await.address;
        ns.create(pool("listed").list([missing.as_str(), there.as_str()])).await;
        ns.await_condition(Kind::Pool, "listed", "Ready", "True", "Ready", SOON).await;
        let [[address, reason, message]] = failed_addresses(ns).await.try_into().expect("one of the two failed");
        assert_eq!((address, reason.as_str()), (missing.clone(), "NotFound"));
        assert!(message.contains("create it, or remove it from spec.preAllocatedFloatingIPs"), "{message}");
        assert_eq!(ns.bind(claim("first").from("listed")).await, there);

        ns.create(claim("second").from("listed")).await;
        let second = claim("second").name();
        let message = ns.await_condition(Kind::Claim, &second, "Ready", "False", "PoolExhausted", SOON).await;
        assert!(message.contains("spec.preAllocatedFloatingIPs"), "{message}");
        let message = ns.await_condition(Kind::Pool, "listed", "Exhausted", "True", "Exhausted", SOON).await;
        assert!(message.contains("spec.preAllocatedFloatingIPs"), "{message}");
        let pool = ns.get(Kind::Pool, "listed").await.expect("it is there");
        assert_eq!(condition_of(&pool, "Ready").expect("it is set")["status"], "True");

        let project = ns.cloud().await.project().to_owned();
        let made = admin.create_at("public", &missing, &project).await;
        assert_eq!(ns.await_bound(&second, RECOVERY).await, made.address);
        ns.await_object(Kind::Pool, "listed", SOON, "without failed addresses", |pool| {
            pool.is_some_and(|pool| pool.data["status"]["failed"].as_array().is_none_or(Vec::is_empty))
        })
        .await;
    })
    .await;
    admin.clean_up().await;
}

/// The controller never sees these; `tests/crd` has the rules one by one.
#[tokio::test]
async fn invalid_pools_are_refused_by_the_api_server() {
    with_namespace(async |ns| {
        for (bad, says) in [
            (pool("twice").list(["203.0.113.10", "203.0.113.10"]), "Duplicate value: \"203.0.113.10\""),
            (
                pool("both").network("public").excluded(["203.0.113.0/28"]).reserve("web", "203.0.113.10"),
                "reservations and excludedAddresses name the same address: remove it from one of them",
            ),
            (pool("no-address").list(["203.0.113.256"]), "must be an IPv4 or IPv6 address"),
            (pool("two-ways").with("floatingIPNetwork", json!({"filter": {}})), "filter must have at least one field"),
        ] {
            let refusal = ns.dry_run(bad).await.expect_err("it is invalid").to_string();
            assert!(refusal.contains(says), "{says:?} is not in {refusal:?}");
        }
    })
    .await;
}
