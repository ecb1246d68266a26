//! The controller with the permissions of the chart for one namespace, and no others.

use serde_json::{Value, json};

use super::programs::{program, said, try_render};
use crate::support::{Kind, Namespace, RECOVERY, claim, pool, with_namespace};

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
        let events = ns.events(Kind::Claim, &claim("web-0").name()).await;
        ns.release(&claim("web-0").name()).await;
        ns.await_gone(Kind::Claim, &claim("web-0").name(), RECOVERY).await;
        assert!(!events.is_empty(), "it may write events");
        let log = controller.log();
        assert!(!log.contains("forbidden"), "{log}");
        // An error means that it is gone already.
        let _gone = std::fs::remove_file(kubeconfig);
    })
    .await;
}
