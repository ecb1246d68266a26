//! Runs helm, kubectl and clusterctl in the repository, as a user would.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

/// The chart, in the repository.
pub const CHART: &str = "config/chart";

/// The name and the namespace that the kustomize bases have.
pub const NAME: &str = "caip-openstack";
pub const SYSTEM: &str = "caip-openstack-system";

/// A program that runs in the repository, with its caches and configuration apart from the user's.
pub fn program(name: &str, args: &[&str]) -> Command {
    let store = Path::new(env!("CARGO_TARGET_TMPDIR")).join("install");
    let mut command = Command::new(name);
    command.args(args).current_dir(env!("CARGO_MANIFEST_DIR"));
    for variable in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME", "XDG_CONFIG_HOME", "KUBECACHEDIR"] {
        command.env(variable, store.join(variable));
    }
    // Otherwise clusterctl asks GitHub for newer versions.
    command.env("CLUSTERCTL_DISABLE_VERSIONCHECK", "true");
    command
}

/// What a program writes to its standard output, given this on its standard input; panics when it fails.
pub fn said(command: &mut Command, input: &str) -> String {
    match run(command, input) {
        Ok(output) => output,
        Err(error) => panic!("{command:?} failed: {error}"),
    }
}

/// What a program writes to its standard output; when it fails, what it writes to both.
pub fn run(command: &mut Command, input: &str) -> Result<String, String> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap_or_else(|error| {
        panic!("{command:?} cannot be started ({error}): run `make tools`, and set PATH as `make env` says")
    });
    // An error means that the program has exited already; its status says why.
    let _ended_already = child.stdin.take().expect("it is piped").write_all(input.as_bytes());
    let output = child.wait_with_output().expect("it is our child");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("programs write UTF-8");
    let stdout = text(output.stdout);
    if output.status.success() { Ok(stdout) } else { Err(stdout + &text(output.stderr)) }
}

/// The objects that the chart makes of these values, as the release and in the namespace of the kustomize bases.
pub fn render(values: &Value) -> Vec<Value> {
    try_render(NAME, SYSTEM, values).unwrap_or_else(|error| panic!("{values}: {error}"))
}

/// The objects that the chart makes of these values, or what helm says about them.
pub fn try_render(release: &str, namespace: &str, values: &Value) -> Result<Vec<Value>, String> {
    try_render_chart(CHART, release, namespace, values)
}

/// The same of a chart that is somewhere else.
pub fn try_render_chart(chart: &str, release: &str, namespace: &str, values: &Value) -> Result<Vec<Value>, String> {
    let mut helm = program("helm", &["template", release, chart, "--namespace", namespace, "--values", "-"]);
    run(&mut helm, &values.to_string()).map(|yaml| documents(&yaml))
}

/// The objects of an overlay in `config/`.
pub fn kustomize(overlay: &str) -> Vec<Value> {
    documents(&said(&mut program("kubectl", &["kustomize", &format!("config/{overlay}")]), ""))
}

/// What `make manifests` writes, in a folder that is made for it, for the image of that name if there is one.
pub fn manifests(folder: &Path, image: Option<&str>) {
    let folder = folder.to_str().expect("a folder of the tests has a name in UTF-8");
    let args: Vec<&str> = std::iter::once(folder).chain(image).collect();
    said(&mut program("hack/manifests.sh", &args), "");
}

/// The objects of a YAML stream.
pub fn documents(yaml: &str) -> Vec<Value> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(yaml).unwrap_or_else(|error| panic!("{error}:\n{yaml}"));
    documents.into_iter().filter(|document| !document.is_null()).collect()
}

/// The one object of a kind, or of a kind and a name.
pub fn one<'a>(documents: &'a [Value], kind: &str, name: Option<&str>) -> &'a Value {
    let mut found = documents
        .iter()
        .filter(|document| document["kind"] == kind && name.is_none_or(|name| document["metadata"]["name"] == name));
    let first = found.next().unwrap_or_else(|| panic!("there is no {kind} {}", name.unwrap_or_default()));
    assert!(found.next().is_none(), "there are several {kind} {}", name.unwrap_or_default());
    first
}

/// Whether there is an object of a kind.
pub fn has(documents: &[Value], kind: &str) -> bool {
    documents.iter().any(|document| document["kind"] == kind)
}
