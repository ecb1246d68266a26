//! The controller with the permissions of the chart for one namespace, and no others.

use serde_json::{Value, json};

use super::programs::{program, run, said, try_render};
use crate::support::{
    Kind, Namespace, RECOVERY, apply_identity, claim, delete_identity, label_namespace, pool, with_namespace,
};

/// Runs kubectl in the namespace.
fn kubectl(ns: &Namespace, args: &[&str], input: &str) -> String {
    let mut command = program("kubectl", args);
    said(command.args(["--namespace", &ns.name]).env("KUBECONFIG", &ns.world.kubeconfig), input)
}

/// The kubeconfig of the cluster, for a ServiceAccount in the namespace.
fn kubeconfig_of(ns: &Namespace, account: &str) -> std::path::PathBuf {
    let token = kubectl(ns, &["create", "token", account], "");
    let admin = kubectl(ns, &["config", "view", "--raw", "--output", "json"], "");
    let mut config: Value = serde_json::from_str(&admin).expect("kubectl writes JSON");
    config["users"][0]["user"] = json!({"token": token.trim()});
    // In a pod the Lease's namespace is the pod's.
    config["contexts"][0]["context"]["namespace"] = json!(ns.name);
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}.kubeconfig", ns.name));
    std::fs::write(&path, config.to_string()).expect("it can be written");
    path
}

#[tokio::test]
async fn one_namespace_is_served_with_roles_alone() {
    with_namespace(async |ns| {
        let values = json!({"watchNamespace": ns.name, "watchFilter": ns.name, "metrics": {"secure": false}});
        let objects = try_render("one", &ns.name, &values).expect("it renders");
        assert!(objects.iter().all(|object| !object["kind"].as_str().unwrap_or_default().starts_with("ClusterRole")));
        let is_permission =
            |object: &&Value| ["ServiceAccount", "Role", "RoleBinding"].iter().any(|kind| object["kind"] == *kind);
        let permissions: Vec<_> = objects.iter().filter(is_permission).collect();
        kubectl(
            ns,
            &["apply", "-f", "-"],
            &json!({"apiVersion": "v1", "kind": "List", "items": permissions}).to_string(),
        );

        let kubeconfig = kubeconfig_of(ns, "one-caip-openstack");
        let controller = ns.start_controller(kubeconfig.to_str().expect("it is UTF-8"), &["--leader-elect=true"]);
        ns.create_secret_for("demo").await;
        ns.create(pool("public").served_in(&ns.name).network("public")).await;
        let address = ns.bind(claim("web-0")).await;
        assert!(ns.cloud().await.find(&address).await.is_some());
        ns.await_event(Kind::Claim, &claim("web-0").name(), "AddressAllocated", &address).await;
        ns.release(&claim("web-0").name()).await;
        ns.await_gone(Kind::Claim, &claim("web-0").name(), RECOVERY).await;
        let log = controller.log();
        assert!(!log.contains("forbidden"), "{log}");
        // An error means that it is gone already.
        let _gone = std::fs::remove_file(kubeconfig);
    })
    .await;
}

/// Applies the permissions among what the chart makes, each in its namespace; returns the names of what is cluster-wide.
fn grant(ns: &Namespace, objects: &[Value]) -> Vec<String> {
    let kind = |object: &Value| object["kind"].as_str().unwrap_or_default().to_owned();
    let is_permission = |object: &&Value| kind(object) == "ServiceAccount" || kind(object).contains("Role");
    let permissions: Vec<_> = objects.iter().filter(is_permission).collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": permissions}).to_string();
    said(program("kubectl", &["apply", "-f", "-"]).env("KUBECONFIG", &ns.world.kubeconfig), &list);
    let is_wide = |object: &&&Value| kind(object).starts_with("Cluster");
    let name = |object: &&Value| format!("{}/{}", kind(object), object["metadata"]["name"].as_str().expect("a name"));
    permissions.iter().filter(is_wide).map(name).collect()
}

#[tokio::test]
async fn cluster_identities_are_used_in_one_namespace_with_what_the_chart_grants() {
    with_namespace(async |platform| {
        with_namespace(async |ns| {
            let values = json!({
                "watchNamespace": ns.name, "watchFilter": ns.name, "metrics": {"secure": false},
                "clusterIdentities": {"secretNamespaces": [platform.name]},
            });
            let wide = grant(ns, &try_render(&ns.name, &ns.name, &values).expect("it renders"));
            let kubeconfig = kubeconfig_of(ns, &format!("{}-caip-openstack", ns.name));
            let kubeconfig = kubeconfig.to_str().expect("it is UTF-8");
            let may = |args: &[&str]| {
                run(program("kubectl", &[&["auth", "can-i"], args].concat()).env("KUBECONFIG", kubeconfig), "").is_ok()
            };
            assert!(may(&["get", "secrets", "--namespace", &platform.name]));
            for (verb, namespace) in [("list", &platform.name), ("patch", &platform.name), ("get", &"default".into())] {
                assert!(!may(&[verb, "secrets", "--namespace", namespace]), "{verb} in {namespace}");
            }

            let flag = format!("--cluster-identity-namespaces={}", platform.name);
            let controller = ns.start_controller(kubeconfig, &[&flag]);
            platform.create_secret_for("demo").await;
            let selector = json!({"matchLabels": {"identities": "shared"}});
            apply_identity(ns, &ns.name, (&platform.name, "cloud"), selector).await;
            label_namespace(ns, Some("shared")).await;
            ns.create(pool("public").cluster_identity(&ns.name).served_in(&ns.name).network("public")).await;
            ns.bind(claim("web-0")).await;
            ns.release(&claim("web-0").name()).await;
            ns.await_gone(Kind::Claim, &claim("web-0").name(), RECOVERY).await;
            ns.delete(Kind::Pool, "public").await;
            ns.await_gone(Kind::Pool, "public", RECOVERY).await;
            let log = controller.log();
            assert!(!log.contains("forbidden"), "{log}");
            delete_identity(ns, &ns.name).await;
            wide.iter().for_each(|object| drop(kubectl(ns, &["delete", object], "")));
            // An error means that it is gone already.
            let _gone = std::fs::remove_file(kubeconfig);
        })
        .await;
    })
    .await;
}

#[tokio::test]
async fn config_maps_are_written_in_one_namespace_with_what_the_chart_grants() {
    with_namespace(async |ns| {
        let values = json!({
            "watchNamespace": ns.name, "watchFilter": ns.name, "metrics": {"secure": false},
            "addressConfigMaps": {"enabled": true},
        });
        let wide = grant(ns, &try_render(&ns.name, &ns.name, &values).expect("it renders"));
        assert_eq!(wide, [""; 0], "Roles are enough");
        let kubeconfig = kubeconfig_of(ns, &format!("{}-caip-openstack", ns.name));
        let kubeconfig = kubeconfig.to_str().expect("it is UTF-8");
        let controller = ns.start_controller(kubeconfig, &["--address-config-maps"]);
        ns.create_secret_for("demo").await;
        let named = json!({"name": "public-addresses"});
        ns.create(pool("public").served_in(&ns.name).network("public").with("addressConfigMap", named)).await;
        ns.await_condition(Kind::Pool, "public", "AddressConfigMapCurrent", "True", "ConfigMapUpToDate", RECOVERY)
            .await;
        let address = ns.bind(claim("web-0")).await;
        let is_listed = |found: &kube::core::DynamicObject| found.data["data"]["addresses"] == format!("{address}\n");
        let is_listed = |found: Option<&kube::core::DynamicObject>| found.is_some_and(is_listed);
        ns.await_object(Kind::ConfigMap, "public-addresses", RECOVERY, "with the address", is_listed).await;
        ns.patch(Kind::Pool, "public", json!({"spec": {"addressConfigMap": null}})).await;
        ns.await_gone(Kind::ConfigMap, "public-addresses", RECOVERY).await;
        let log = controller.log();
        assert!(!log.contains("forbidden"), "{log}");
        // An error means that it is gone already.
        let _gone = std::fs::remove_file(kubeconfig);
    })
    .await;
}
