//! A management cluster as its users see it, and a namespace of a test's own in it.

use std::process::Command;

use serde_json::{Value, json};

use super::programs::{program, run, said};
use crate::support::{World, unique};

/// A namespace that is deleted, with the release in it, when it is dropped: whatever a test left.
pub struct Scratch {
    /// Its name.
    pub name: String,
    kubeconfig: String,
}

impl Scratch {
    /// A namespace in the first management cluster; pods in it must keep to the pod security level `restricted`.
    pub async fn new() -> Self {
        Self::in_world(World::new().await)
    }

    /// The same in the second.
    pub async fn in_second() -> Self {
        Self::in_world(World::second().await)
    }

    fn in_world(world: World) -> Self {
        let scratch = Self { name: unique("install"), kubeconfig: world.kubeconfig };
        let labels = json!({"pod-security.kubernetes.io/enforce": "restricted"});
        let metadata = json!({"name": scratch.name, "labels": labels});
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata});
        said(&mut scratch.run("kubectl", &["create", "-f", "-"]), &namespace.to_string());
        scratch
    }

    /// A program for this cluster.
    pub fn program(&self, name: &str, args: &[&str]) -> Command {
        let mut command = program(name, args);
        command.env("KUBECONFIG", &self.kubeconfig);
        command
    }

    /// The same with `--namespace`.
    pub fn run(&self, name: &str, args: &[&str]) -> Command {
        let mut command = self.program(name, args);
        command.args(["--namespace", &self.name]);
        command
    }

    /// Runs helm in the namespace; the release has the namespace's name, so that nothing collides.
    pub fn helm(&self, verb: &str, args: &[&str], values: &Value) -> Result<String, String> {
        let mut command = self.run("helm", &[verb, &self.name]);
        if matches!(verb, "install" | "upgrade") {
            command.args(["--values", "-"]);
        }
        run(command.args(args), &values.to_string())
    }

    /// What the API server says to objects that are applied where they say, and not kept.
    pub fn dry_run(&self, objects: &[Value]) -> Result<String, String> {
        let how = ["apply", "--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict", "-f", "-"];
        run(
            &mut self.program("kubectl", &how),
            &json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string(),
        )
    }

    /// Creates an object.
    pub fn create(&self, object: &Value) {
        said(&mut self.run("kubectl", &["create", "-f", "-"]), &object.to_string());
    }

    /// An object, if it is there: by `kind/name`.
    pub fn get(&self, what: &str) -> Option<Value> {
        let found = said(&mut self.run("kubectl", &["get", what, "--ignore-not-found", "--output", "json"]), "");
        (!found.is_empty()).then(|| serde_json::from_str(&found).expect("kubectl writes JSON"))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Either may be gone already.
        let _none = run(&mut self.run("helm", &["uninstall", &self.name, "--ignore-not-found"]), "");
        let _gone = run(&mut self.run("kubectl", &["delete", "namespace", &self.name, "--wait=false"]), "");
    }
}
