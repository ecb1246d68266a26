//! Installs, upgrades, rolls back and uninstalls a release with the real helm. No older version is published, so the test
//! makes one: the same chart with a lower version, without one template and its values.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::programs::{CHART, program, said};
use super::scratch::Scratch;
use crate::support::unique;

const CRD: &str = "crd/openstackfloatingippools.ipam.cluster.x-k8s.io";
const OLDER: &str = "0.0.9";

/// The older chart, packed.
fn older() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(unique("older"));
    let text = folder.to_str().expect("it is UTF-8");
    fs::create_dir(&folder).expect("a folder can be made");
    said(&mut program("cp", &["-r", CHART, text]), "");
    let chart = folder.join("chart");
    fs::remove_file(chart.join("templates/poddisruptionbudget.yaml")).expect("the template is there");
    let values = fs::read_to_string(chart.join("values.yaml")).expect("it can be read");
    let (before, rest) = values.split_once("podDisruptionBudget:\n").expect("the value is there");
    let (_, after) = rest.split_once("\n# ").expect("others follow");
    fs::write(chart.join("values.yaml"), format!("{before}# {after}")).expect("it can be written");
    let packed = ["package", chart.to_str().expect("it is UTF-8"), "--version", OLDER, "--app-version", OLDER];
    said(program("helm", &packed).args(["--destination", text]), "");
    folder.join(format!("caip-openstack-{OLDER}.tgz"))
}

/// A pool that no controller serves, without the Secret that it references.
fn pool(scratch: &Scratch) -> String {
    scratch.create(&json!({
        "apiVersion": "ipam.cluster.x-k8s.io/v1alpha1", "kind": "OpenStackFloatingIPPool",
        "metadata": {"name": "public", "labels": {"cluster.x-k8s.io/watch-filter": "nobody"}},
        "spec": {"identityRef": {"name": "cloud", "cloudName": "openstack"}}
    }));
    uid(scratch, "fippool/public")
}

fn uid(scratch: &Scratch, what: &str) -> String {
    let object = scratch.get(what).unwrap_or_else(|| panic!("{what} is not there"));
    object["metadata"]["uid"].as_str().expect("an object has a uid").to_owned()
}

fn deployment(scratch: &Scratch) -> Option<Value> {
    scratch.get(&format!("deployment/{}-caip-openstack-controller-manager", scratch.name))
}

/// The chart's version that an object was made by.
fn made_by(object: Option<Value>) -> Value {
    object.expect("it is there")["metadata"]["labels"]["helm.sh/chart"].clone()
}

#[tokio::test]
async fn release_is_installed_upgraded_rolled_back_and_uninstalled_and_pools_stay() {
    let scratch = Scratch::new().await;
    let older = older();
    let older = older.to_str().expect("it is UTF-8");
    let (old, new) = (format!("caip-openstack-{OLDER}"), format!("caip-openstack-{}", env!("CARGO_PKG_VERSION")));
    let budget = format!("poddisruptionbudget/{}-caip-openstack-controller-manager", scratch.name);
    let helm =
        |verb, args: &[&str], values| scratch.helm(verb, args, &values).unwrap_or_else(|error| panic!("{error}"));

    // The CRD is there, applied by kubectl, as where one moves from manifests to the chart.
    let notes = helm("install", &[older, "--take-ownership"], json!({"logging": {"verbosity": 2}}));
    assert!(notes.contains("has no registry: the nodes must have it already"), "{notes}");
    assert_eq!(made_by(scratch.get(CRD)), old);
    assert!(scratch.get(&budget).is_none());
    let (crd, pool) = (uid(&scratch, CRD), pool(&scratch));

    // What was set stays set, and values that are new have their defaults.
    helm("upgrade", &[CHART, "--reset-then-reuse-values"], json!({"replicaCount": 3}));
    assert_eq!([made_by(deployment(&scratch)), made_by(scratch.get(CRD))], [new.as_str(), new.as_str()]);
    let upgraded = deployment(&scratch).expect("it is there");
    assert_eq!(upgraded["spec"]["replicas"], 3);
    let args = &upgraded["spec"]["template"]["spec"]["containers"][0]["args"];
    assert!(args.as_array().is_some_and(|args| args.contains(&json!("--v=2"))), "{args}");
    assert!(scratch.get(&budget).is_some());

    helm("rollback", &["1"], json!({}));
    assert_eq!(made_by(deployment(&scratch)), old);
    assert_eq!(deployment(&scratch).expect("it is there")["spec"]["replicas"], 2);
    assert!(scratch.get(&budget).is_none());

    let kept = helm("uninstall", &[], json!({}));
    assert!(kept.contains("kept due to the resource policy"), "{kept}");
    assert!(deployment(&scratch).is_none());
    let role = format!("clusterrole/{}-caip-openstack", scratch.name);
    assert!(scratch.get(&role).is_none());
    assert_eq!([uid(&scratch, CRD), uid(&scratch, "fippool/public")], [crd.clone(), pool.clone()]);

    // The same release takes up what it kept.
    helm("install", &[CHART], json!({}));
    helm("uninstall", &[], json!({}));
    assert_eq!([uid(&scratch, CRD), uid(&scratch, "fippool/public")], [crd, pool]);
}
