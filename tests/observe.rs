//! Observability: metrics, alerts, the dashboard, and their documentation.

mod alerts;
mod dashboard;
mod documents;
mod families;
mod scraped;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

fn file(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn text(path: &str) -> String {
    std::fs::read_to_string(file(path)).unwrap_or_else(|error| panic!("{path} cannot be read: {error}"))
}

/// The content of a YAML or JSON file.
fn data(path: &str) -> Value {
    serde_saphyr::from_str(&text(path)).unwrap_or_else(|error| panic!("{path} is not YAML: {error}"))
}

/// Runs a program that `make env-up` has installed, or one of the repository.
fn run(program: &str, arguments: &[&str], directory: &Path) -> Output {
    let output = Command::new(program).args(arguments).current_dir(directory).output();
    output
        .unwrap_or_else(|error| panic!("{program} cannot be run ({error}): run `make test`, or set PATH by `make env`"))
}

/// The standard output of a program that must succeed.
fn output_of(program: &str, arguments: &[&str], directory: &Path) -> String {
    let output = run(program, arguments, directory);
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        output.status.success(),
        "{program} {arguments:?} failed:\n{}{}",
        said(&output.stdout),
        said(&output.stderr)
    );
    said(&output.stdout)
}

/// The alerts as a Prometheus rule file; `flags` are helm's.
fn rules(flags: &[&str]) -> String {
    output_of("hack/alert-rules.sh", flags, &file(""))
}

fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(crate::support::unique(name));
    std::fs::create_dir_all(&folder).expect("the folder is created");
    folder
}

/// The beginnings of the names of our metrics, and of those that have the names by which operators know them.
const PREFIXES: [&str; 5] = ["caip_openstack_", "controller_runtime_", "process_", "rest_client_", "workqueue_"];

fn is_metric(word: &str) -> bool {
    PREFIXES.iter().any(|prefix| word.starts_with(prefix))
}

/// The metrics that a PromQL expression uses.
fn metrics_in(expression: &str) -> impl Iterator<Item = &str> {
    let is_name = |byte: char| byte.is_ascii_alphanumeric() || byte == '_';
    let words = expression.split(move |byte| !is_name(byte));
    words.filter(|word| is_metric(word))
}
