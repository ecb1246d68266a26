//! `config/rbac/admission_policy.yaml` on a real API server: what the controller's ServiceAccount may patch by its role is
//! refused where the controller never writes it.

use serde_json::{Value, json};

use super::programs::program;
use crate::support::{Kind, Manifest, Namespace, RECOVERY, claim, eventually, pool, with_namespace};

/// Runs kubectl as the controller. `Err` is what it printed.
fn as_the_controller(ns: &Namespace, args: &[&str]) -> Result<(), String> {
    let mut command = program("kubectl", args);
    let output = command.args(["--namespace", &ns.name]).env("KUBECONFIG", &ns.world.account).output();
    let output = output.expect("kubectl runs");
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

fn patch(ns: &Namespace, object: &str, change: &Value) -> Result<(), String> {
    as_the_controller(ns, &["patch", object, "--type=merge", "--patch", &change.to_string()])
}

#[tokio::test]
async fn the_controllers_account_changes_only_what_the_controller_changes() {
    with_namespace(async |ns| {
        ns.create_secret_for("demo").await;
        ns.restart_controller();
        ns.create(pool("public").served_in(&ns.name).network("public")).await;
        ns.bind(claim("web-0")).await;
        let bound = claim("web-0").name();
        let foreign = json!({
            "metadata": {"name": "foreign"},
            "spec": {"address": "192.0.2.1", "prefix": 32, "claimRef": {"name": "foreign"},
                "poolRef": {"apiGroup": "ipam.cluster.x-k8s.io", "kind": "InClusterIPPool", "name": "public"}},
        });
        ns.create(Manifest::new(Kind::Address, foreign)).await;
        let (claim, address) = (format!("ipaddressclaim/{bound}"), format!("ipaddress.ipam.cluster.x-k8s.io/{bound}"));
        let (labels, annotations) =
            (json!({"metadata": {"labels": {"a": "b"}}}), json!({"metadata": {"annotations": {"a": "b"}}}));
        let finalizers = |name: &str| json!({"metadata": {"finalizers": [name]}});
        let refused = [
            ("secret/cloud", json!({"stringData": {"clouds.yaml": "clouds: {}"}}), "does not change Secrets"),
            ("secret/cloud", json!({"immutable": true}), "does not change Secrets"),
            ("secret/cloud", labels.clone(), "no label and no owner"),
            ("secret/cloud", annotations.clone(), "only its own annotations"),
            ("secret/cloud", finalizers("example.com/mine"), "only its own finalizers"),
            (&claim, labels.clone(), "no label and no owner"),
            (&claim, annotations.clone(), "only its own annotations"),
            (&claim, finalizers("example.com/mine"), "only its own finalizers"),
            ("fippool/public", json!({"spec": {"maxIPs": 7}}), "does not change the spec"),
            ("fippool/public", annotations.clone(), "only its own annotations"),
            ("ipaddress.ipam.cluster.x-k8s.io/foreign", labels.clone(), "only IPAddresses of its pools"),
        ];
        for (object, change, why) in &refused {
            let told = eventually(RECOVERY, async || {
                patch(ns, object, change).err().ok_or_else(|| format!("{object} is changed by {change}"))
            });
            let told = told.await;
            assert!(told.contains(why), "{object}: {change}: {told}");
        }
        let told = as_the_controller(ns, &["delete", "ipaddress.ipam.cluster.x-k8s.io/foreign"])
            .expect_err("it is of another provider");
        assert!(told.contains("only IPAddresses of its pools"), "{told}");

        // What the controller does is not refused: it is that account in all scenarios.
        patch(ns, "secret/cloud", &json!({"metadata": {"labels": null}})).expect("nothing changes");
        patch(ns, &address, &labels).expect("it is of a pool");
        ns.delete(Kind::Address, "foreign").await;
    })
    .await;
}
