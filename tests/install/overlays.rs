//! The kustomize overlays and what `make manifests` writes, beside the chart: whichever way one takes, the same is
//! installed.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::content::{assert_same, content};
use super::programs::{NAME, SYSTEM, documents, kustomize, manifests, one, program, render, said, try_render_chart};
use super::scratch::Scratch;
use crate::support::unique;

/// A folder that is removed when it is dropped.
pub struct Folder(pub PathBuf);

impl Folder {
    /// A new one, with what `make manifests` writes.
    pub fn with_manifests() -> Self {
        Self::of_image(None)
    }

    /// The same with an image that is published somewhere.
    fn of_image(image: Option<&str>) -> Self {
        let folder = Self(Path::new(env!("CARGO_TARGET_TMPDIR")).join(unique("manifests")));
        manifests(&folder.0, image);
        folder
    }

    fn chart(&self) -> PathBuf {
        self.0.join(format!("caip-openstack-{}.tgz", env!("CARGO_PKG_VERSION")))
    }

    /// A file in it.
    pub fn read(&self, path: &str) -> String {
        fs::read_to_string(self.0.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left is in the folder of the build.
        let _left = fs::remove_dir_all(&self.0);
    }
}

/// Objects of an overlay, with the image that the chart has.
fn overlay(name: &str) -> Vec<Value> {
    let mut objects = kustomize(name);
    for object in objects.iter_mut().filter(|object| object["kind"] == "Deployment") {
        let image = &mut object["spec"]["template"]["spec"]["containers"][0]["image"];
        assert_eq!(*image, "caip-openstack:dev", "the image that the documents tell users to set");
        *image = json!(format!("caip-openstack:v{}", env!("CARGO_PKG_VERSION")));
    }
    objects
}

/// The components with the defaults of their variables, as clusterctl and cluster-api-operator fill them in.
fn without_variables(components: &str) -> String {
    let mut parts = components.split("${");
    let mut filled = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (variable, rest) = part.split_once('}').expect("a variable ends");
        let (_, default) = variable.split_once(":=").unwrap_or_else(|| panic!("{variable} has no default"));
        filled += default;
        filled += rest;
    }
    filled
}

#[test]
fn chart_installs_what_the_default_overlay_does() {
    assert_same(&content(overlay("default")), &content(render(&json!({}))));
}

#[test]
fn published_manifests_install_what_the_chart_does() {
    let folder = Folder::with_manifests();
    let chart = content(render(&json!({})));
    assert_same(&content(documents(&folder.read("caip-openstack.yaml"))), &chart);
    let version = format!("ipam-openstack/v{}", env!("CARGO_PKG_VERSION"));
    let components = folder.read(&format!("{version}/ipam-components.yaml"));
    assert_same(&content(documents(&without_variables(&components))), &chart);
    assert_eq!(documents(&components).iter().filter(|object| object["kind"] == "Namespace").count(), 1);

    let metadata: Value =
        serde_saphyr::from_str(&folder.read(&format!("{version}/metadata.yaml"))).expect("it is YAML");
    let numbers: Vec<u64> = env!("CARGO_PKG_VERSION").split('.').map(|part| part.parse().expect("a number")).collect();
    let series = json!({"major": numbers[0], "minor": numbers[1], "contract": "v1beta1"});
    let all = metadata["releaseSeries"].as_array().expect("there are series");
    assert!(all.contains(&series), "clusterctl refuses a version whose series is not in {metadata}: docs/releases.md");
}

#[test]
fn image_of_the_published_manifests_is_the_one_that_is_asked_for() {
    let folder = Folder::with_manifests();
    let path = folder.0.to_str().expect("it is UTF-8");
    said(&mut program("hack/manifests.sh", &[path, "registry.example.com/caip-openstack:v9"]), "");
    let written = folder.read("caip-openstack.yaml");
    assert!(written.contains("image: registry.example.com/caip-openstack:v9\n"), "{written}");
}

#[test]
fn every_variable_is_documented_with_its_default() {
    let folder = Folder::with_manifests();
    let components = folder.read(&format!("ipam-openstack/v{}/ipam-components.yaml", env!("CARGO_PKG_VERSION")));
    let variables: BTreeSet<&str> =
        components.split("${").skip(1).map(|part| part.split('}').next().unwrap_or_default()).collect();
    assert!(variables.len() >= 5, "{variables:?}");
    for variable in variables {
        let (name, default) = variable.split_once(":=").expect("it has a default");
        let row = format!("| `{name}` | {} |", if default.is_empty() { "".into() } else { format!("`{default}`") });
        let row = row.replace("|  |", "| |");
        assert!(include_str!("../../docs/install.md").contains(&row), "docs/install.md has no row {row}");
    }
}

#[test]
fn overlay_for_one_namespace_is_the_chart_for_its_own() {
    let mut objects = overlay("namespaced");
    // An overlay of the user's puts a Namespace here in place of hers: with our label, by which the rest is removed.
    assert!(objects.iter().all(|object| object["kind"] != "Namespace"), "the namespace is the user's");
    for arg in objects
        .iter_mut()
        .filter_map(|object| object.pointer_mut("/spec/template/spec/containers/0/args").and_then(Value::as_array_mut))
    {
        // Kubernetes puts the variable's value there.
        arg.iter_mut().for_each(|arg| *arg = json!(arg.as_str().map(|arg| arg.replace("$(POD_NAMESPACE)", SYSTEM))));
    }
    let chart = json!({"watchNamespace": SYSTEM, "metrics": {"secure": false}, "crds": {"enabled": false}});
    assert_same(&content(objects), &content(render(&chart)));
}

#[test]
fn overlays_with_monitors_are_the_chart_with_them() {
    let monitor = |secure: bool| {
        json!({"metrics": {"secure": secure, "serviceMonitor": {"enabled": true},
            "readers": [{"name": "prometheus", "namespace": "monitoring"}]}})
    };
    let mut secure = content(render(&monitor(true)));
    // Whose it is the overlay cannot know.
    secure.remove("ClusterRoleBinding caip-openstack-metrics-reader").expect("the chart binds it");
    assert_same(&content(overlay("prometheus")), &secure);

    let mut plain = content(render(&monitor(false)));
    plain.retain(|name, _| !name.ends_with("-metrics-reader"));
    assert_same(&content(overlay("plain-metrics")), &plain);
}

#[test]
fn overlay_with_cluster_identities_is_the_chart_with_them() {
    let chart = json!({"clusterIdentities": {"secretNamespaces": ["capo-system"]}});
    assert_same(&content(overlay("cluster-identities")), &content(render(&chart)));
}

#[test]
fn overlay_with_address_config_maps_is_the_chart_with_them() {
    let chart = json!({"addressConfigMaps": {"enabled": true}});
    assert_same(&content(overlay("address-config-maps")), &content(render(&chart)));
}

#[test]
fn nothing_is_granted_for_config_maps_unless_they_are_switched_on() {
    let is_role = |object: &Value| object["kind"].as_str().is_some_and(|kind| kind.ends_with("Role"));
    for name in ["default", "namespaced", "prometheus", "plain-metrics", "cluster-identities", "clusterctl"] {
        let mut roles = kustomize(name);
        roles.retain(is_role);
        assert!(!roles.is_empty() && !json!(roles).to_string().contains("configmaps"), "{name}");
    }
}

#[test]
fn nothing_is_granted_for_cluster_identities_unless_they_are_switched_on() {
    for name in ["default", "namespaced", "prometheus", "plain-metrics", "address-config-maps", "clusterctl"] {
        let objects = serde_json::to_string(&kustomize(name)).expect("it is JSON");
        assert!(!objects.contains("openstackclusteridentities"), "{name}");
        assert!(!objects.contains(r#""namespaces""#), "{name}");
    }
}

#[tokio::test]
async fn overlays_are_taken_by_the_api_server() {
    let scratch = Scratch::new().await;
    let mut objects = Vec::new();
    let all = ["default", "namespaced", "prometheus", "plain-metrics", "cluster-identities", "address-config-maps"];
    for name in all {
        let text = serde_json::to_string(&overlay(name)).expect("it is JSON");
        let moved = text.replace(&format!(r#""{SYSTEM}""#), &format!(r#""{}""#, scratch.name));
        objects.extend(serde_json::from_str::<Vec<Value>>(&moved).expect("it is JSON"));
    }
    scratch.dry_run(&objects).unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn example_for_cluster_api_operator_is_of_this_version() {
    let manifest = include_str!("../../config/operator/ipam-provider.yaml");
    let provider: Value = serde_saphyr::from_str(manifest).expect("it is YAML");
    let version = concat!("v", env!("CARGO_PKG_VERSION"));
    assert_eq!([&provider["kind"], &provider["metadata"]["name"]], ["IPAMProvider", "openstack"]);
    assert_eq!([&provider["metadata"]["namespace"], &provider["spec"]["version"]], [SYSTEM, version]);
    let container = &provider["spec"]["deployment"]["containers"][0];
    assert_eq!(
        container["name"],
        one(&kustomize("default"), "Deployment", None)["spec"]["template"]["spec"]["containers"][0]["name"]
    );
    assert_eq!(container["imageUrl"], format!("registry.example.com/caip-openstack:{version}"));
    // The commands in docs/install.md label the ConfigMap so.
    let (label, value) = provider["spec"]["fetchConfig"]["selector"]["matchLabels"]
        .as_object()
        .and_then(|labels| labels.iter().next())
        .expect("it selects by a label");
    let command = format!("label configmap {version} {label}={}", value.as_str().expect("it is text"));
    assert!(include_str!("../../docs/install.md").contains(&command), "{command}");
}

#[test]
fn chart_that_is_packed_gives_the_image_of_the_manifests() {
    let digest = format!("sha256:{}", "0123456789abcdef".repeat(4));
    let (registry, repository) = ("registry.example.com:5000", "team/caip-openstack");
    let name = format!("{registry}/{repository}");
    let version = format!("v{}", env!("CARGO_PKG_VERSION"));
    for (image, values) in [
        (format!("{name}:{version}"), json!({"registry": registry, "repository": repository})),
        (format!("{name}:other"), json!({"registry": registry, "repository": repository, "tag": "other"})),
        (format!("{name}@{digest}"), json!({"registry": registry, "repository": repository, "digest": digest})),
        ("team/caip-openstack:other".to_owned(), json!({"repository": repository, "tag": "other"})),
    ] {
        let folder = Folder::of_image(Some(&image));
        let chart = folder.chart();
        let chart = chart.to_str().expect("a folder of the tests has a name in UTF-8");
        let packed = try_render_chart(chart, NAME, SYSTEM, &json!({})).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(
            one(&packed, "Deployment", None)["spec"]["template"]["spec"]["containers"][0]["image"],
            one(&documents(&folder.read("caip-openstack.yaml")), "Deployment", None)["spec"]["template"]["spec"]["containers"]
                [0]["image"],
            "of {image}"
        );
        assert_same(&content(packed), &content(render(&json!({"image": values}))));
        let mirror = json!({"global": {"imageRegistry": "mirror.example.com"}});
        let mirrored = try_render_chart(chart, NAME, SYSTEM, &mirror).unwrap_or_else(|error| panic!("{error}"));
        let image = &one(&mirrored, "Deployment", None)["spec"]["template"]["spec"]["containers"][0]["image"];
        let image = image.as_str().expect("an image is text");
        assert!(image.starts_with("mirror.example.com/team/caip-openstack"), "{image}");
    }
}

#[test]
fn chart_is_packed_to_the_same_bytes_each_time() {
    let read = |folder: Folder| fs::read(folder.chart()).expect("the chart is written");
    assert_eq!(read(Folder::with_manifests()), read(Folder::with_manifests()));
}

#[test]
fn chart_that_is_packed_describes_itself() {
    let (folder, url) = (Folder::with_manifests(), "https://example.com/caip-openstack");
    let path = folder.0.to_str().expect("it is UTF-8");
    let mut pack = program("hack/manifests.sh", &[path, "registry.example.com/caip-openstack:v9"]);
    said(pack.env("IMAGE_SOURCE", url), "");
    let chart = folder.chart();
    let show = |what| said(&mut program("helm", &["show", what, chart.to_str().expect("it is UTF-8")]), "");
    let readme = show("readme");
    assert!(readme.contains(r#"| `image.registry` | `"registry.example.com"` |"#), "{readme}");
    let described: Value = serde_saphyr::from_str(&show("chart")).expect("it is YAML");
    assert_eq!([&described["home"], &described["sources"]], [&json!(url), &json!([url])]);
}

#[tokio::test]
async fn notes_of_the_chart_that_is_packed_say_how_to_print_the_crd() {
    let (scratch, folder) = (Scratch::new().await, Folder::with_manifests());
    let chart = folder.chart();
    let chart = chart.to_str().expect("it is UTF-8");
    let values = json!({"crds": {"enabled": false}});
    let notes = scratch.helm("install", &[chart], &values).unwrap_or_else(|error| panic!("{error}"));
    let command = notes.lines().find_map(|line| line.trim().strip_prefix("helm template CHART "));
    let flags = command.and_then(|command| command.strip_suffix(" | kubectl apply --server-side -f -"));
    let flags = flags.unwrap_or_else(|| panic!("there is no command: {notes}"));
    let printed = said(program("helm", &["template", chart]).args(flags.split(' ')), "");
    one(&documents(&printed), "CustomResourceDefinition", Some("openstackfloatingippools.ipam.cluster.x-k8s.io"));
}
