//! The examples are taken by the real API server as they are.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use caip_openstack::api::claim::PoolRef;
use serde_json::Value;

use crate::docs::{documents, taken};
use crate::support::with_namespace;

#[tokio::test]
async fn examples_are_taken_as_they_are() {
    with_namespace(async |ns| {
        let mut pools = BTreeSet::new();
        // A Cluster is refused where its ClusterClass is not there, so that each is applied after what it needs.
        for (path, manifest) in manifests() {
            taken(ns, &manifest).await.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            if manifest["kind"] == "OpenStackFloatingIPPool" {
                pools.insert(case(&path));
                let identity = &manifest["spec"]["identityRef"];
                let name = if identity["type"] == "ClusterIdentity" { "shared" } else { "cloud" };
                assert_eq!(identity["name"], name, "{}: the Secret's or the identity's name", path.display());
            }
        }
        assert_eq!(pools.len(), 15, "{pools:?}");
    })
    .await;
}

#[test]
fn secret_of_the_examples_has_the_cloud_that_the_pools_name() {
    let (_, secret) = manifests().into_iter().find(|(_, one)| one["kind"] == "Secret").expect("a Secret is there");
    let clouds = secret["stringData"]["clouds.yaml"].as_str().expect("the key is clouds.yaml");
    let clouds: Value = serde_saphyr::from_str(clouds).expect("clouds.yaml is YAML");
    for (path, pool) in manifests().into_iter().filter(|(_, one)| one["kind"] == "OpenStackFloatingIPPool") {
        let cloud = pool["spec"]["identityRef"]["cloudName"].as_str().expect("a pool names its cloud");
        assert!(clouds["clouds"][cloud].is_object(), "{}: {cloud}", path.display());
    }
}

#[test]
fn machine_templates_point_at_the_pools_of_the_examples() {
    let mut count = 0;
    for (path, one) in manifests() {
        let spec = match one["kind"].as_str() {
            Some("OpenStackMachineTemplate") => &one["spec"]["template"]["spec"],
            Some("OpenStackCluster") => &one["spec"]["bastion"]["spec"],
            _ => continue,
        };
        let Some(reference) = spec.get("floatingIPPoolRef") else { continue };
        let reference: PoolRef =
            serde_json::from_value(reference.clone()).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(reference.is_ours(), "{}: {reference:?}", path.display());
        // In the same case, or `public`, which is what every case of one pool calls it.
        let is_there = |(other, pool): &(PathBuf, Value)| {
            pool["kind"] == "OpenStackFloatingIPPool"
                && pool["metadata"]["name"] == reference.name.as_str()
                && (case(other) == case(&path) || reference.name == "public")
        };
        assert!(manifests().iter().any(is_there), "{}: there is no pool {}", path.display(), reference.name);
        count += 1;
    }
    assert!(count >= 6, "{count}");
}

#[test]
fn every_example_is_in_the_list_and_says_what_it_is() {
    let list = fs::read_to_string(examples().join("README.md")).expect("the list is there");
    for (path, _) in manifests() {
        let case = case(&path);
        assert!(list.contains(&format!("]({case})")), "examples/README.md does not list {case}");
        let words = fs::read_to_string(examples().join(&case).join("README.md")).unwrap_or_default();
        assert!(words.lines().count() > 2, "{case} does not say what it is");
    }
}

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples")
}

fn case(manifest: &Path) -> String {
    let folder = manifest.parent().and_then(Path::file_name).expect("a manifest is in a folder");
    folder.to_string_lossy().into_owned()
}

/// All manifests, with where they are.
fn manifests() -> Vec<(PathBuf, Value)> {
    let mut all = Vec::new();
    for folder in entries(&examples()).into_iter().filter(|path| path.is_dir()) {
        for path in entries(&folder).into_iter().filter(|path| path.extension().is_some_and(|end| end == "yaml")) {
            let text = fs::read_to_string(&path).expect("a file that is listed can be read");
            let documents = documents(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            all.extend(documents.into_iter().map(|manifest| (path.clone(), manifest)));
        }
    }
    all
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let listed = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = listed.map(|entry| entry.expect("a folder can be read").path()).collect();
    paths.sort();
    paths
}
