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

/// The ServiceAccount of the scenarios has the role for ConfigMaps too.
#[tokio::test]
async fn the_controllers_account_writes_only_the_config_maps_of_pools() {
    with_namespace(async |ns| {
        let owner = |kind: &str, is_controller: bool| {
            json!([{"apiVersion": "ipam.cluster.x-k8s.io/v1alpha1", "kind": kind, "name": "public",
                "uid": "6a5d1a9c-4a4b-4d21-9f39-3f0f1d2b8d11", "controller": is_controller}])
        };
        let label = json!({"openstackfloatingippool.ipam.cluster.x-k8s.io/addresses": ""});
        let of_pool = json!({"labels": label, "ownerReferences": owner("OpenStackFloatingIPPool", true)});
        let others = [
            ("without-anything", json!({})),
            ("without-owner", json!({"labels": label})),
            ("without-label", json!({"ownerReferences": owner("OpenStackFloatingIPPool", true)})),
            ("of-another-kind", json!({"labels": label, "ownerReferences": owner("InClusterIPPool", true)})),
            ("not-controlled", json!({"labels": label, "ownerReferences": owner("OpenStackFloatingIPPool", false)})),
        ];
        let create = |name: &str, metadata: &Value| {
            let mut metadata = metadata.clone();
            metadata["name"] = name.into();
            let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "b"}});
            let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{name}.json", ns.name));
            std::fs::write(&path, object.to_string()).expect("it can be written");
            let made = as_the_controller(ns, &["create", "--filename", path.to_str().expect("it is UTF-8")]);
            let _gone = std::fs::remove_file(path);
            made
        };
        let why = "writes only ConfigMaps of its pools";
        for (name, metadata) in &others {
            // The role or the policy may be a moment old.
            let told = eventually(RECOVERY, async || {
                let told = create(name, metadata).err().ok_or_else(|| format!("{name} is created"))?;
                if told.contains(why) { Ok(()) } else { Err(told) }
            });
            told.await;
            let mut theirs = metadata.clone();
            theirs["name"] = (*name).into();
            // The garbage collector would delete it.
            theirs["ownerReferences"] = Value::Null;
            ns.create(Manifest::new(Kind::ConfigMap, json!({"metadata": theirs, "data": {"a": "b"}}))).await;
            let object = format!("configmap/{name}");
            let taken_over = json!({"metadata": of_pool, "data": {"a": "c"}});
            for told in [
                patch(ns, &object, &json!({"data": {"a": "c"}})).expect_err("it is not of a pool"),
                patch(ns, &object, &taken_over).expect_err("it was not of a pool"),
                as_the_controller(ns, &["delete", &object]).expect_err("it is not of a pool"),
            ] {
                assert!(told.contains(why), "{name}: {told}");
            }
        }

        let path = "configmap/public-addresses";
        ns.create_secret_for("demo").await;
        ns.start_controller(&ns.world.account, &["--address-config-maps"]);
        let named = json!({"name": "public-addresses"});
        ns.create(pool("public").served_in(&ns.name).network("public").with("addressConfigMap", named)).await;
        ns.await_condition(Kind::Pool, "public", "AddressConfigMapCurrent", "True", "ConfigMapUpToDate", RECOVERY)
            .await;
        patch(ns, path, &json!({"data": {"addresses": ""}})).expect("it is of a pool");
        let told = patch(ns, path, &json!({"metadata": {"labels": null}})).expect_err("it would have no owner then");
        assert!(told.contains(why), "{told}");
        // To wait until it is gone, kubectl would list.
        as_the_controller(ns, &["delete", path, "--wait=false"]).expect("it is of a pool");
        as_the_controller(ns, &["auth", "can-i", "list", "configmaps"]).expect_err("it may list none");
    })
    .await;
}
