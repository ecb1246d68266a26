//! From CAPO's in-tree pool to ours.

use kube::api::PatchParams;
use kube::core::DynamicObject;
use serde_json::{Value, json};

use super::*;
use crate::support::{Kind, Manifest, claim, owner_reference, with_namespace};

const CAPO: &str = "infrastructure.cluster.x-k8s.io";

/// CAPO's pool, a template that points to it, and a machine that has an address of it.
async fn in_tree(ns: &Namespace) {
    let spec = json!({
        "identityRef": {"name": "cloud", "cloudName": "openstack"}, "reclaimPolicy": "Delete", "maxIPs": 3,
        "floatingIPNetwork": {"filter": {"name": "public"}}
    });
    ns.create(Manifest::new(Kind::InTreePool, json!({"metadata": {"name": "public"}, "spec": spec}))).await;
    for (name, pool) in [("workers", "public"), ("others", "elsewhere")] {
        let reference = json!({"apiGroup": CAPO, "kind": "OpenStackFloatingIPPool", "name": pool});
        let spec = json!({"template": {"spec": {"flavor": "m1.large", "floatingIPPoolRef": reference}}});
        ns.create(Manifest::new(Kind::MachineTemplate, json!({"metadata": {"name": name}, "spec": spec}))).await;
    }
    let server = ns.create(Manifest::new(Kind::Server, json!({"metadata": {"name": "web-0"}}))).await;
    let claimed = ns.create(claim("web-0").pool_ref("apiGroup", CAPO).owned_by(&server).without_capo_finalizer()).await;
    bind(ns, &claimed, "203.0.113.77").await;
}

/// What CAPO does for a claim.
async fn bind(ns: &Namespace, claim: &DynamicObject, address: &str) {
    let name = claim.metadata.name.clone().expect("it has a name");
    let body = json!({
        "metadata": {"name": name, "ownerReferences": [owner_reference(claim)]},
        "spec": {
            "claimRef": {"name": name}, "address": address, "prefix": 32,
            "poolRef": {"apiGroup": CAPO, "kind": "OpenStackFloatingIPPool", "name": "public"}
        }
    });
    ns.create(Manifest::new(Kind::Address, body)).await;
    ns.patch_status(Kind::Claim, &name, json!({"status": {"addressRef": {"name": name}}})).await;
}

fn states(plan: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().expect("it is text").to_owned();
    let objects = plan["objects"].as_array().expect("there are objects");
    objects.iter().map(|object| (text(&object["manifest"]["metadata"]["name"]), text(&object["state"]))).collect()
}

fn expected(state: &str) -> Vec<(String, String)> {
    ["public-ipam", "workers-ipam"].map(|name| (name.to_owned(), state.to_owned())).into()
}

#[tokio::test]
async fn without_apply_the_plan_is_printed_and_nothing_changes() {
    with_namespace(async |ns| {
        ns.create_secret_for("demo").await;
        in_tree(ns).await;
        let (code, plan) = asked(ns, &["migrate", "public"]).await;
        assert_eq!(code, 0, "{plan:#}");
        assert_eq!(states(&plan), expected("New"));
        let machine = &plan["machines"][0];
        assert_eq!(
            (&machine["machine"], &machine["address"]),
            (&json!("OpenStackServer web-0"), &json!("203.0.113.77"))
        );
        assert!(machine["change"].to_string().contains("until it is replaced"), "{machine:#}");
        assert!(ns.get(Kind::Pool, "public-ipam").await.is_none(), "nothing was created");
        // What is printed for people is what `kubectl apply` takes.
        let ended = plugin(ns, &["migrate", "public"]).await;
        let printed: Vec<Value> = serde_saphyr::from_multiple(&ended.out).expect("it is YAML");
        let kinds: Vec<&Value> = printed.iter().filter(|document| document.is_object()).map(|it| &it["kind"]).collect();
        assert_eq!(kinds, ["OpenStackFloatingIPPool", "OpenStackMachineTemplate"]);
        assert!(ended.out.contains("Nothing was changed"), "{}", ended.out);
    })
    .await;
}

#[tokio::test]
async fn what_capos_pool_gave_is_traced_too_and_is_not_ours_to_explain() {
    with_namespace(async |ns| {
        in_tree(ns).await;
        let (code, found) = asked(ns, &["who-has", "203.0.113.77"]).await;
        assert_eq!((code, &found["holders"][0]["owners"]), (0, &json!(["OpenStackServer web-0"])), "{found:#}");
        let (code, why) = asked(ns, &["explain", "web-0"]).await;
        assert_eq!((code, &why["address"]), (0, &json!("203.0.113.77")));
        assert!(why["next"].to_string().contains("another provider"), "{why:#}");
    })
    .await;
}

#[tokio::test]
async fn apply_creates_what_was_planned_and_can_be_repeated() {
    with_namespace(async |ns| {
        ns.create_secret_for("demo").await;
        in_tree(ns).await;
        let (code, plan) = asked(ns, &["migrate", "public", "--apply"]).await;
        assert_eq!((code, states(&plan)), (0, expected("Created")));
        let pool = ns.get(Kind::Pool, "public-ipam").await.expect("it was created");
        assert_eq!((&pool.data["spec"]["maxIPs"], &pool.data["spec"]["reuse"]["policy"]), (&json!(3), &json!("Never")));
        let template = ns.get(Kind::MachineTemplate, "workers-ipam").await.expect("it was created");
        let reference =
            json!({"apiGroup": "ipam.cluster.x-k8s.io", "kind": "OpenStackFloatingIPPool", "name": "public-ipam"});
        assert_eq!(
            template.data["spec"]["template"]["spec"],
            json!({"flavor": "m1.large", "floatingIPPoolRef": reference})
        );
        let (code, plan) = asked(ns, &["migrate", "public", "--apply"]).await;
        assert_eq!((code, states(&plan)), (0, expected("Unchanged")));
        // A changed pool is not overwritten.
        ns.patch(Kind::Pool, "public-ipam", json!({"spec": {"reclaimPolicy": "Retain"}})).await;
        let (code, plan) = asked(ns, &["migrate", "public", "--apply"]).await;
        assert_eq!((code, &plan["isApplied"]), (1, &json!(false)));
        assert!(plan["obstacles"].to_string().contains("public-ipam already exists"), "{plan:#}");
        let pool = ns.get(Kind::Pool, "public-ipam").await.expect("it is there");
        assert_eq!(pool.data["spec"]["reclaimPolicy"], "Retain");
    })
    .await;
}

#[tokio::test]
async fn kept_addresses_are_listed_in_both_pools_also_those_that_are_given_while_capos_pool_closes() {
    with_namespace(async |ns| {
        ns.create_secret_for("demo").await;
        in_tree(ns).await;
        // As CAPO does, so that the pool stays while a machine has an address of it.
        let finalizer =
            json!({"metadata": {"finalizers": ["openstackfloatingippool.infrastructure.cluster.x-k8s.io"]}});
        ns.patch(Kind::InTreePool, "public", finalizer).await;
        let migrate = async || asked(ns, &["migrate", "public", "--keep-addresses", "--apply"]).await;
        let lists = async || {
            let pools = [(Kind::Pool, "public-ipam"), (Kind::InTreePool, "public")];
            let mut lists = Vec::new();
            for (kind, name) in pools {
                lists.push(
                    ns.get(kind, name).await.expect("it is there").data["spec"]["preAllocatedFloatingIPs"].clone(),
                );
            }
            lists
        };
        let (code, plan) = asked(ns, &["migrate", "public", "--keep-addresses"]).await;
        assert_eq!((code, &plan["keptAddresses"]), (0, &json!(["203.0.113.77"])), "{plan:#}");
        assert!(ns.get(Kind::Pool, "public-ipam").await.is_none(), "nothing was created");
        let ended = plugin(ns, &["migrate", "public", "--keep-addresses"]).await;
        assert!(ended.out.contains("# exists; addresses are added to its list"), "{}", ended.out);

        let (code, plan) = migrate().await;
        let names_and_states = |of_public| {
            let states = [("public-ipam", of_public), ("workers-ipam", "Unchanged"), ("public", of_public)];
            states.map(|(name, state)| (name.to_owned(), state.to_owned())).to_vec()
        };
        let written = [("public-ipam", "Created"), ("workers-ipam", "Created"), ("public", "Completed")];
        let written = written.map(|(name, state)| (name.to_owned(), state.to_owned())).to_vec();
        assert_eq!((code, states(&plan)), (0, written));
        assert_eq!(lists().await, [json!(["203.0.113.77"]), json!(["203.0.113.77"])]);
        let ours = ns.get(Kind::Pool, "public-ipam").await.expect("it is there");
        assert!(ours.data["spec"]["floatingIPNetwork"].is_null(), "the list is closed");
        assert!(plan["nextSteps"].to_string().contains("--wait=false"), "{plan:#}");

        ns.delete(Kind::InTreePool, "public").await;
        let late = ns.create(claim("web-1").pool_ref("apiGroup", CAPO).without_capo_finalizer()).await;
        bind(ns, &late, "203.0.113.78").await;
        let (code, plan) = migrate().await;
        assert_eq!((code, states(&plan)), (0, names_and_states("Completed")), "{plan:#}");
        assert_eq!(lists().await, [json!(["203.0.113.77", "203.0.113.78"]), json!(["203.0.113.77", "203.0.113.78"])]);
        assert!(!plan["nextSteps"].to_string().contains("--wait=false"), "it is closed: {plan:#}");
        assert_eq!(states(&migrate().await.1), names_and_states("Unchanged"));
        ns.patch(Kind::InTreePool, "public", json!({"metadata": {"finalizers": null}})).await;
    })
    .await;
}

#[tokio::test]
async fn no_address_is_listed_in_a_pool_that_has_claims_while_capos_pool_is_open() {
    with_namespace(async |ns| {
        ns.create_secret_for("demo").await;
        in_tree(ns).await;
        ns.create(claim("web-1").from("public-ipam").without_capo_finalizer()).await;
        let (code, plan) = asked(ns, &["migrate", "public", "--keep-addresses", "--apply"]).await;
        assert!(code == 1 && plan["obstacles"].to_string().contains("delete CAPO's pool first"), "{plan:#}");
        assert!(ns.list(Kind::Pool).await.is_empty(), "nothing was created");
        assert_eq!(asked(ns, &["migrate", "public"]).await.0, 0, "the pools have no address in common");
        ns.delete(Kind::Claim, "web-1-floating-ip-address").await;
    })
    .await;
}

#[tokio::test]
async fn the_new_pool_may_have_another_secret() {
    with_namespace(async |ns| {
        in_tree(ns).await;
        let identity = json!({"type": "ClusterIdentity", "name": "shared", "cloudName": "openstack"});
        ns.patch(Kind::InTreePool, "public", json!({"spec": {"identityRef": identity}})).await;
        let with_secret = async || asked(ns, &["migrate", "public", "--secret", "cloud", "--apply"]).await;
        assert!(with_secret().await.1["obstacles"].to_string().contains("Secret cloud does not exist"));
        ns.create_secret_for("demo").await;
        assert_eq!(with_secret().await.0, 0);
        let pool = ns.get(Kind::Pool, "public-ipam").await.expect("it was created");
        let reference = &pool.data["spec"]["identityRef"];
        assert_eq!((&reference["name"], &reference["cloudName"]), (&json!("cloud"), &json!("openstack")));
    })
    .await;
}

#[tokio::test]
async fn the_new_pool_has_the_cluster_identity_of_capos_pool_where_the_controller_uses_them() {
    with_namespace(async |ns| {
        in_tree(ns).await;
        let identity = json!({"type": "ClusterIdentity", "name": "shared", "cloudName": "openstack"});
        ns.patch(Kind::InTreePool, "public", json!({"spec": {"identityRef": identity}})).await;
        ns.apply_any(&with_identities(), &PatchParams::apply("scenario")).await.expect("it is taken");
        let (code, plan) = asked(ns, &["migrate", "public", "--apply"]).await;
        assert_eq!(code, 0, "{plan:#}");
        let pool = ns.get(Kind::Pool, "public-ipam").await.expect("it was created");
        assert_eq!(pool.data["spec"]["identityRef"], identity);
    })
    .await;
}

#[tokio::test]
async fn what_stands_in_the_way_is_named_and_apply_creates_nothing() {
    with_namespace(async |ns| {
        in_tree(ns).await;
        let obstacles = async |args: &[&str]| {
            let (code, plan) = asked(ns, &[&["migrate", "public", "--apply"], args].concat()).await;
            assert_eq!(code, 1, "{plan:#}");
            plan["obstacles"].to_string()
        };
        assert!(obstacles(&[]).await.contains("Secret cloud"), "the Secret is missing");
        ns.create_secret_for("demo").await;
        assert!(obstacles(&["--to", "public"]).await.contains("--to"), "one name for two pools");
        ns.patch(Kind::InTreePool, "public", json!({"spec": {"preAllocatedFloatingIPs": ["not an address"]}})).await;
        let said = obstacles(&[]).await;
        assert!(
            said.contains("rejects OpenStackFloatingIPPool public-ipam") && said.contains("preAllocated"),
            "{said}"
        );
        assert!(ns.list(Kind::Pool).await.is_empty(), "nothing was created");
        let ended = plugin(ns, &["migrate", "nothing"]).await;
        assert!(ended.code == 3 && ended.err.contains("nothing"), "{ended:?}");
    })
    .await;
}
