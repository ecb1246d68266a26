//! The real `clusterctl move`, as a user runs it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use super::namespace::Namespace;
use super::wait::eventually;
use super::world::run_id;

/// For a move of a few dozen objects, on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A running `clusterctl move`, which is killed when it is dropped.
pub struct Move {
    child: Child,
    log: PathBuf,
}

impl Move {
    /// Moves a namespace to another management cluster.
    pub fn start(from: &Namespace, to: &Namespace) -> Self {
        Self::run(from, &["--namespace", &from.name, "--to-kubeconfig", &to.world.kubeconfig])
    }

    /// Writes a namespace into a directory.
    pub fn into_directory(from: &Namespace, directory: &Path) -> Self {
        Self::run(from, &["--namespace", &from.name, "--to-directory", text(directory)])
    }

    /// Restores a namespace from a directory.
    pub fn from_directory(to: &Namespace, directory: &Path) -> Self {
        Self::run(to, &["--from-directory", text(directory), "--to-kubeconfig", &to.world.kubeconfig])
    }

    fn run(from: &Namespace, flags: &[&str]) -> Self {
        let name = super::unique(&format!("clusterctl-{}", run_id()));
        let log = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.log"));
        let output = File::create(&log).unwrap_or_else(|error| panic!("{} cannot be made: {error}", log.display()));
        let mut command = Command::new("clusterctl");
        command.args(["move", "--v=5"]).args(flags);
        command.env("KUBECONFIG", &from.world.kubeconfig).env("CLUSTERCTL_DISABLE_VERSIONCHECK", "true");
        command.stdin(Stdio::null()).stdout(output.try_clone().expect("a file can be opened twice")).stderr(output);
        let child = command.spawn().unwrap_or_else(|error| {
            panic!("clusterctl cannot be started ({error}): run `make env-up`, and set PATH as `make env` says")
        });
        Self { child, log }
    }

    /// Waits until it has succeeded.
    pub async fn succeed(mut self) {
        let status = self.exit_status().await;
        assert!(status.success(), "clusterctl failed ({status}):\n{}", self.output());
    }

    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("it is our child").is_none()
    }

    pub fn kill(self) {
        drop(self);
    }

    async fn exit_status(&mut self) -> ExitStatus {
        let log = self.log.clone();
        eventually(TIMEOUT, async || match self.child.try_wait().expect("it is our child") {
            Some(status) => Ok(status),
            None => Err(format!("clusterctl has not ended; its log is {}", log.display())),
        })
        .await
    }

    fn output(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Move {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ended_already = self.child.kill();
        let _status = self.child.wait();
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a directory of the tests has a name in UTF-8")
}
