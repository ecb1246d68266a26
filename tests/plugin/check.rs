//! Is everything ready?

use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};

use super::*;
use crate::support::{
    Kind, Manifest, RECOVERY, SOON, apply_identity, delete_identity, label_namespace, pool, with_namespace,
};

const ROLES: &str = include_str!("../../config/rbac/role.yaml");
const IDENTITY_ROLES: &str = include_str!("../../config/cluster-identities/role.yaml");

/// A controller of the namespace's own, which leads by a Lease.
async fn lead(ns: &Namespace) {
    let lease = format!("--leader-election-namespace={}", ns.name);
    ns.start_controller(&ns.world.kubeconfig, &["--leader-elect=true", &lease]);
}

/// Gives a ServiceAccount of the namespace what config/rbac gives the controller's; the names of what is cluster-wide.
async fn permit(ns: &Namespace) {
    for mut role in documents(ROLES) {
        role["metadata"] = json!({"name": ns.name});
        grant(ns, role).await;
    }
}

/// The same as the chart with `watchNamespace`, `clusterIdentities` and plain metrics.
async fn permit_in_namespace(ns: &Namespace) {
    let is_review =
        |rule: &Value| ["tokenreviews", "subjectaccessreviews"].iter().any(|it| rule["resources"][0] == *it);
    for mut role in documents(ROLES) {
        let kind = role["kind"].as_str().expect("it has a kind").replace("Cluster", "");
        role["kind"] = kind.into();
        if let Some(reference) = role.get_mut("roleRef") {
            reference["kind"] = "Role".into();
        }
        if let Some(rules) = role.get_mut("rules").and_then(Value::as_array_mut) {
            rules.retain(|rule| !is_review(rule));
        }
        grant(ns, role).await;
    }
    for mut role in documents(IDENTITY_ROLES) {
        role["metadata"] = json!({"name": ns.name});
        let rules = role.get_mut("rules").and_then(Value::as_array_mut);
        for rule in rules.into_iter().flatten().filter(|rule| rule["resources"][0] == "namespaces") {
            rule["resourceNames"] = json!([ns.name]);
        }
        grant(ns, role).await;
    }
}

fn documents(roles: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(roles).expect("config is YAML")
}

/// Applies a role, or a binding, which becomes one of the namespace's ServiceAccount.
async fn grant(ns: &Namespace, mut role: Value) {
    let kind = role["kind"].as_str().expect("it has a kind").to_owned();
    let name = role["metadata"]["name"].as_str().expect("it has a name").to_owned();
    let is_wide = kind.starts_with("Cluster");
    role["metadata"] = json!({"name": name});
    if let Some(reference) = role.get_mut("roleRef") {
        reference["name"] = name.clone().into();
        role["subjects"][0]["namespace"] = ns.name.clone().into();
    }
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("rbac.authorization.k8s.io", "v1", &kind));
    let api: Api<DynamicObject> = match is_wide {
        true => Api::all_with(ns.world.client.clone(), &resource),
        false => Api::namespaced_with(ns.world.client.clone(), &ns.name, &resource),
    };
    api.patch(&name, &PatchParams::apply("scenario").force(), &Patch::Apply(&role)).await.expect("it is taken");
}

async fn forbid(ns: &Namespace) {
    let roles: Api<ClusterRole> = Api::all(ns.world.client.clone());
    roles.delete(&ns.name, &DeleteParams::default()).await.expect("it can be deleted");
}

fn field<'a>(findings: &'a Value, check: &str, field: &str) -> Option<&'a str> {
    let all = findings["findings"].as_array().expect("there are findings");
    all.iter().find(|finding| finding["check"] == check).map(|finding| finding[field].as_str().expect("it is text"))
}

fn status<'a>(findings: &'a Value, check: &str) -> &'a str {
    field(findings, check, "status").unwrap_or("absent")
}

fn message(findings: &Value, check: &str) -> String {
    field(findings, check, "message").unwrap_or_default().to_owned()
}

async fn check(ns: &Namespace, more: &[&str]) -> (i32, Value) {
    asked(ns, &[&["check", "--controller-namespace", &ns.name], more].concat()).await
}

#[tokio::test]
async fn it_is_ready_when_everything_is_and_wait_ends_then() {
    with_namespace(async |ns| {
        ns.create_secret_for("demo").await;
        ns.create(pool("public").network("public").served_in(&ns.name)).await;
        let (code, findings) = check(ns, &[]).await;
        assert_eq!((code, status(&findings, "running"), status(&findings, "permissions")), (1, "Failed", "Failed"));
        assert_eq!((status(&findings, "crd"), status(&findings, "cluster-api")), ("Ok", "Ok"));
        assert_eq!((status(&findings, "credentials"), status(&findings, "served")), ("Ok", "Failed"));
        let (code, _) = check(ns, &["--wait=1s"]).await;
        assert_eq!(code, 5, "no controller serves the pool");

        permit(ns).await;
        lead(ns).await;
        let (code, findings) = check(ns, &["--wait=90s"]).await;
        assert_eq!(code, 0, "{findings:#}");
        assert_eq!(findings["isReady"], true);
        for what in
            ["running", "version", "permissions", "name", "credentials", "network", "neutron", "quota", "served"]
        {
            assert_eq!(status(&findings, what), "Ok", "{what}: {findings:#}");
        }
        let (code, versions) = asked(ns, &["version", "--controller-namespace", &ns.name]).await;
        assert_eq!((code, &versions["clientVersion"]), (0, &versions["controllerVersion"]), "{versions:#}");
        assert_eq!(versions["source"], "Lease");
        let elsewhere = plugin(ns, &["version", "--controller-namespace", "nowhere"]).await;
        assert!(elsewhere.code == 3 && elsewhere.out.starts_with("Client Version: "), "{elsewhere:?}");
        forbid(ns).await;
        let (code, findings) = check(ns, &[]).await;
        assert_eq!((code, status(&findings, "permissions")), (1, "Failed"));
        let said = message(&findings, "permissions");
        assert!(said.contains("get secrets") && said.contains("config/rbac"), "{said}");
    })
    .await;
}

#[tokio::test]
async fn what_stands_between_a_pool_and_openstack_is_named_where_it_is() {
    with_namespace(async |ns| {
        ns.create(pool("public").network("nowhere")).await;
        let (code, findings) = check(ns, &["public"]).await;
        assert_eq!((code, status(&findings, "credentials"), status(&findings, "network")), (1, "Failed", "absent"));
        assert!(message(&findings, "credentials").contains("SecretNotFound"), "{findings:#}");
        ns.create_secret_for("demo").await;
        let (code, findings) = check(ns, &["public"]).await;
        assert_eq!((code, status(&findings, "credentials"), status(&findings, "network")), (1, "Ok", "Failed"));
        let said = message(&findings, "network");
        assert!(said.contains("NetworkNotFound") && said.contains("spec.floatingIPNetwork"), "{said}");
    })
    .await;
}

#[tokio::test]
async fn a_pool_of_capo_with_the_same_name_is_a_conflict() {
    with_namespace(async |ns| {
        ns.create_secret_for("demo").await;
        ns.create(pool("public").network("public")).await;
        ns.create(Manifest::new(Kind::InTreePool, json!({"metadata": {"name": "public"}, "spec": {}}))).await;
        let (code, findings) = check(ns, &[]).await;
        assert_eq!((code, status(&findings, "name"), status(&findings, "credentials")), (1, "Failed", "absent"));
        assert!(message(&findings, "name").contains("NameConflict"), "{findings:#}");
        ns.delete(Kind::InTreePool, "public").await;
        assert_eq!(status(&check(ns, &[]).await.1, "name"), "Ok");
    })
    .await;
}

#[tokio::test]
async fn a_paused_pool_is_not_ready() {
    with_namespace(async |ns| {
        ns.create_secret_for("demo").await;
        ns.create(pool("public").network("public").annotation("cluster.x-k8s.io/paused", "")).await;
        let (code, findings) = check(ns, &[]).await;
        assert_eq!((code, status(&findings, "served")), (1, "Failed"));
        assert!(message(&findings, "served").contains("paused"), "{findings:#}");
    })
    .await;
}

#[tokio::test]
async fn a_limit_that_is_reached_is_something_to_look_at() {
    with_namespace(async |ns| {
        ns.create_secret_for("demo").await;
        crate::support::controller();
        ns.create(pool("public").network("public").max_ips(0)).await;
        ns.await_condition(Kind::Pool, "public", "Exhausted", "True", "Exhausted", RECOVERY).await;
        let findings = check(ns, &[]).await.1;
        assert_eq!((status(&findings, "served"), status(&findings, "addresses")), ("Ok", "Warning"));
        ns.await_condition(Kind::Pool, "public", "Ready", "True", "Ready", SOON).await;
    })
    .await;
}

#[tokio::test]
async fn a_cluster_identity_is_read_as_the_controller_reads_it() {
    with_namespace(async |ns| {
        crate::support::controller();
        ns.create_secret_for("demo").await;
        let selector = json!({"matchLabels": {"identities": "shared"}});
        apply_identity(ns, &ns.name, (&ns.name, "cloud"), selector).await;
        ns.create(pool("public").cluster_identity(&ns.name).network("public")).await;
        ns.await_condition(Kind::Pool, "public", "Ready", "False", "ClusterIdentityDisabled", SOON).await;
        let findings = check(ns, &[]).await.1;
        assert_eq!((status(&findings, "credentials"), status(&findings, "network")), ("Failed", "absent"));
        assert!(message(&findings, "credentials").contains("NamespaceNotAllowed"), "{findings:#}");
        label_namespace(ns, Some("shared")).await;
        let findings = check(ns, &[]).await.1;
        assert_eq!((status(&findings, "credentials"), status(&findings, "network")), ("Ok", "Ok"), "{findings:#}");
        // That the controller uses none, only the controller says.
        let said = message(&findings, "served");
        assert!(said.contains("ClusterIdentityDisabled"), "{said}");
        delete_identity(ns, &ns.name).await;
    })
    .await;
}

#[tokio::test]
async fn a_controller_with_cluster_identities_needs_their_permissions() {
    with_namespace(async |ns| {
        permit(ns).await;
        assert_eq!(status(&check(ns, &[]).await.1, "permissions"), "Ok");
        ns.apply_any(&with_identities(), &PatchParams::apply("scenario")).await.expect("it is taken");
        let findings = check(ns, &[]).await.1;
        assert_eq!(status(&findings, "permissions"), "Failed");
        let said = message(&findings, "permissions");
        assert!(said.contains("get openstackclusteridentities") && !said.contains("get secrets"), "{said}");
        forbid(ns).await;
    })
    .await;
}

#[tokio::test]
async fn a_controller_of_one_namespace_needs_its_permissions_there_alone() {
    with_namespace(async |ns| {
        permit_in_namespace(ns).await;
        let identities = format!("--cluster-identity-namespaces={}", ns.name);
        let watched = format!("--namespace={}", ns.name);
        let plain = [watched.as_str(), &identities, "--insecure-diagnostics=true"];
        ns.apply_any(&deployment(&plain), &PatchParams::apply("scenario")).await.expect("it is taken");
        let findings = check(ns, &[]).await.1;
        assert_eq!(status(&findings, "permissions"), "Ok", "{findings:#}");
        ns.apply_any(&deployment(&plain[..2]), &PatchParams::apply("scenario")).await.expect("it is taken");
        let said = message(&check(ns, &[]).await.1, "permissions");
        assert!(said.contains("create tokenreviews") && !said.contains("get namespaces"), "{said}");
        forbid(ns).await;
    })
    .await;
}
