//! README.md says which versions the tests run with: those that `hack/env` pins.

use super::root;

/// A file that pins a version, the text before the version, and the row of README.md that names it.
const PINNED: [(&str, &str, &str); 6] = [
    ("hack/env/programs/go.mod", "\tk8s.io/kubernetes v", "| Kubernetes |"),
    ("hack/env/programs/go.mod", "\tsigs.k8s.io/cluster-api v", "| Cluster API |"),
    ("hack/env/cluster-api-v1beta1/go.mod", "\tsigs.k8s.io/cluster-api v", "| Cluster API |"),
    ("hack/env/capo.sh", "cluster-api-provider-openstack@", "| CAPO |"),
    ("hack/env/constraints.txt", "\nkeystone==", "| OpenStack |"),
    ("hack/env/constraints.txt", "\nneutron==", "| OpenStack |"),
];

#[test]
fn readme_names_the_versions_that_the_tests_run_with() {
    let read =
        |path: &str| std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
    let readme = read("README.md");
    for (path, before, row) in PINNED {
        let text = read(path);
        let (_, rest) = text.split_once(before).unwrap_or_else(|| panic!("{path} has no {before:?}"));
        let version = rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '.').next().unwrap_or_default();
        let row = readme.lines().find(|line| line.starts_with(row)).unwrap_or_else(|| panic!("no row {row:?}"));
        let mut words = row.split(|c: char| !c.is_ascii_alphanumeric() && c != '.');
        assert!(words.any(|word| word == version), "{path} pins {version}, but README.md says: {row}");
    }
}
