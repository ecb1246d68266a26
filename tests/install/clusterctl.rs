//! `clusterctl init` from a local repository, as in docs/install.md.

use std::fs;

use caip_openstack::api::IpamVersion;
use serde_json::{Value, json};

use super::content::{assert_same, content, flags};
use super::overlays::Folder;
use super::programs::{SYSTEM, documents, program, render, run, said};
use super::scratch::Scratch;
use crate::support::World;

const VERSION: &str = concat!("v", env!("CARGO_PKG_VERSION"));
/// A patch release after it.
const NEXT: &str = concat!("v", env!("CARGO_PKG_VERSION_MAJOR"), ".", env!("CARGO_PKG_VERSION_MINOR"), ".99");

/// Asks the inventory for Cluster API's version.
const CORE: [&str; 6] =
    ["get", "providers/cluster-api", "--namespace", "capi-system", "--output", "jsonpath={.version}"];

/// Writes the user's configuration file, and metadata for Cluster API itself, from which clusterctl reads its contract.
fn configuration(folder: &Folder, core: &str, more: &str) -> String {
    let root = folder.0.to_str().expect("it is UTF-8");
    let cluster_api = folder.0.join("cluster-api").join(core);
    fs::create_dir_all(&cluster_api).expect("a folder can be made");
    let numbers: Vec<u64> =
        core.trim_start_matches('v').split('.').map(|text| text.parse().expect("a version has numbers")).collect();
    let (major, minor) = (numbers[0], numbers[1]);
    let contract = if minor > 10 { "v1beta2" } else { "v1beta1" };
    let metadata = json!({
        "apiVersion": "clusterctl.cluster.x-k8s.io/v1alpha3", "kind": "Metadata",
        "releaseSeries": [{"major": major, "minor": minor, "contract": contract}]
    });
    fs::write(cluster_api.join("metadata.yaml"), metadata.to_string()).expect("it can be written");
    fs::write(cluster_api.join("core-components.yaml"), "").expect("it can be written");
    let file = folder.0.join("clusterctl.yaml");
    let text = format!(
        "providers:
  - {{name: openstack, type: IPAMProvider, url: {root}/ipam-openstack/{VERSION}/ipam-components.yaml}}
  - {{name: cluster-api, type: CoreProvider, url: {root}/cluster-api/{core}/core-components.yaml}}
{more}"
    );
    fs::write(&file, text).expect("it can be written");
    file.to_str().expect("it is UTF-8").to_owned()
}

/// The same components as the next version, with an image of its own.
fn publish_next(folder: &Folder) {
    let series = folder.0.join("ipam-openstack");
    let (this, next) = (series.join(VERSION), series.join(NEXT));
    fs::create_dir_all(&next).expect("a folder can be made");
    for name in ["metadata.yaml", "ipam-components.yaml"] {
        let text = fs::read_to_string(this.join(name)).expect("it is there");
        fs::write(
            next.join(name),
            text.replace(&format!("caip-openstack:{VERSION}"), &format!("caip-openstack:{NEXT}")),
        )
        .expect("it can be written");
    }
}

/// clusterctl requires cert-manager, and considers it installed if its kinds are served.
fn cert_manager() -> Value {
    let crd = |kind: &str, plural: &str| {
        let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}});
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.cert-manager.io")},
            "spec": {"group": "cert-manager.io", "scope": "Namespaced", "versions": [version],
                "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase()}}
        })
    };
    let items = [crd("Issuer", "issuers"), crd("Certificate", "certificates")];
    json!({"apiVersion": "v1", "kind": "List", "items": items})
}

/// The older one belongs to Cluster API 1.10 and refuses providers with any contract but v1beta1.
#[test]
fn clusterctl_old_and_new_makes_of_the_components_what_the_chart_installs() {
    let folder = Folder::with_manifests();
    let provider = format!("openstack:{VERSION}");
    for (clusterctl, core) in [("clusterctl", "v1.14.2"), ("clusterctl-v1beta1", "v1.10.10")] {
        let config = configuration(&folder, core, "");
        let generate = ["generate", "provider", "--ipam", &provider, "--target-namespace", SYSTEM, "--config", &config];
        let made = content(documents(&said(&mut program(clusterctl, &generate), "")));
        assert_same(&made, &content(render(&json!({}))));
    }
}

/// A cluster to install in, and the clusterctl that belongs to its Cluster API. The newer one is the second management
/// cluster: other scenarios run `clusterctl move` meanwhile, which requires in the second inventory every provider of the
/// first.
async fn cluster_and_clusterctl() -> (Scratch, &'static str) {
    match World::new().await.version {
        IpamVersion::V1Beta1 => (Scratch::new().await, "clusterctl-v1beta1"),
        IpamVersion::V1Beta2 => (Scratch::in_second().await, "clusterctl"),
    }
}

#[tokio::test]
async fn clusterctl_init_installs_the_provider_upgrade_replaces_it_and_delete_leaves_the_pools_their_crd() {
    let (scratch, program) = cluster_and_clusterctl().await;
    let folder = Folder::with_manifests();
    let core = said(&mut scratch.program("kubectl", &CORE), "");
    let images = "images: {ipam-openstack: {repository: registry.example.com/fip}}\nCAIP_LOG_LEVEL: 4\n";
    let config = configuration(&folder, &core, images);
    said(&mut scratch.run("kubectl", &["apply", "--server-side", "-f", "-"]), &cert_manager().to_string());
    said(&mut scratch.run("kubectl", &["wait", "--for=condition=Established", "crd/issuers.cert-manager.io"]), "");
    said(&mut scratch.run("kubectl", &["wait", "--for=condition=Established", "crd/certificates.cert-manager.io"]), "");
    let clusterctl = |args: &[&str]| {
        let mut command = scratch.program(program, args);
        run(command.args(["--config", &config]), "")
    };
    let removed = || clusterctl(&["delete", "--ipam", "openstack"]);
    // Left by an interrupted run.
    let _none = removed();

    let done =
        clusterctl(&["init", "--ipam", "openstack", "--target-namespace", &scratch.name, "--wait-providers=false"]);
    let outcome = done.and_then(|_| {
        installed(&scratch, VERSION);
        publish_next(&folder);
        clusterctl(&["upgrade", "apply", "--ipam", &format!("{}/openstack:{NEXT}", scratch.name)])
    });
    let outcome = outcome.map(|_| installed(&scratch, NEXT));
    let removed = removed();
    said(&mut scratch.run("kubectl", &["delete", "--filename", "-"]), &cert_manager().to_string());
    outcome.unwrap_or_else(|error| panic!("clusterctl failed: {error}"));
    removed.unwrap_or_else(|error| panic!("clusterctl delete failed: {error}"));
    assert!(scratch.get("deployment/caip-openstack-controller-manager").is_none());
    assert!(scratch.get("crd/openstackfloatingippools.ipam.cluster.x-k8s.io").is_some());
}

/// Checks that clusterctl installed what the user asked for.
fn installed(scratch: &Scratch, version: &str) {
    let provider = scratch.get("providers.clusterctl.cluster.x-k8s.io/ipam-openstack").expect("it is in the inventory");
    assert_eq!([&provider["version"], &provider["type"]], [version, "IPAMProvider"]);
    let deployment = scratch.get("deployment/caip-openstack-controller-manager").expect("it is there");
    let manager = &deployment["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(manager["name"], "manager");
    assert_eq!(manager["image"], format!("registry.example.com/fip/caip-openstack:{version}"));
    assert_eq!(flags(&manager["args"]).verbosity, 4);
    let binding = scratch.get("clusterrolebinding/caip-openstack").expect("it is there");
    assert_eq!(binding["subjects"][0]["namespace"], scratch.name.as_str());
}
