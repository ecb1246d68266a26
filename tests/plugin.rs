//! `kubectl fippool` on real servers: what it prints, its exit code, and what it changes.

mod check;
mod claims;
mod completion;
mod list;
mod migrate;
mod orphans;

use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::support::Namespace;

/// How a command ended.
#[derive(Debug)]
struct Ended {
    code: i32,
    out: String,
    err: String,
}

impl Ended {
    /// What `-o json` printed.
    fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("no JSON ({error}): {self:?}"))
    }
}

/// Runs the plugin in a scenario's namespace.
async fn plugin(ns: &Namespace, args: &[&str]) -> Ended {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-fippool"));
    command.args(args).args(["-n", &ns.name]).env("KUBECONFIG", &ns.world.kubeconfig).stdin(Stdio::null());
    // Beside the scenario's own waiting.
    let output = tokio::task::spawn_blocking(move || command.output()).await.expect("it does not panic");
    let output = output.expect("the plugin starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("it prints UTF-8");
    Ended { code: output.status.code().unwrap_or(-1), out: text(output.stdout), err: text(output.stderr) }
}

/// The same, with the data that it prints.
pub(crate) async fn asked(ns: &Namespace, args: &[&str]) -> (i32, Value) {
    let ended = plugin(ns, &[args, &["-o", "json"]].concat()).await;
    (ended.code, ended.json())
}

/// The Deployment of a controller that lets pools use cluster identities.
fn with_identities() -> Value {
    deployment(&["--leader-elect", "--cluster-identity-namespaces=capo-system"])
}

/// A Deployment of the controller with these arguments, and without pods.
fn deployment(args: &[&str]) -> Value {
    let labels = json!({"control-plane": "caip-openstack"});
    let containers = json!([{"name": "manager", "image": "caip-openstack:dev", "args": args}]);
    let pod = json!({"serviceAccountName": "caip-openstack", "containers": containers});
    let template = json!({"metadata": {"labels": labels}, "spec": pod});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "controller", "labels": labels},
        "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    })
}

#[test]
fn completions_and_the_version_need_no_cluster() {
    let run = |args: &[&str]| {
        let output =
            Command::new(env!("CARGO_BIN_EXE_kubectl-fippool")).args(args).env("KUBECONFIG", "/nowhere").output();
        let output = output.expect("the plugin starts");
        (output.status.code(), String::from_utf8(output.stdout).expect("it prints UTF-8"))
    };
    for shell in ["bash", "zsh", "fish"] {
        let (code, script) = run(&["completion", shell]);
        assert!(code == Some(0) && script.contains("who-has"), "{shell}: {script}");
    }
    let (code, version) = run(&["--version"]);
    assert!(code == Some(0) && version.contains(env!("CARGO_PKG_VERSION")), "{version}");
    let (code, version) = run(&["version", "--client"]);
    assert!(
        code == Some(0) && version.starts_with(concat!("Client Version: ", env!("CARGO_PKG_VERSION"))),
        "{version}"
    );
    assert_eq!(run(&["__complete", "us"]), (Some(0), "usage\tShow how full the pools are\n:4\n".into()));
    assert_eq!(run(&["no-such-command"]).0, Some(2));
    assert_eq!(run(&["usage"]).0, Some(4), "no kubeconfig");
}
