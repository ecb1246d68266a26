//! The real `clusterctl move`, as a person runs it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use super::namespace::Namespace;
use super::wait::eventually;
use super::world::run_id;

/// Until a move of a few dozen objects is over, on a machine that does other things too.
const MOVED: Duration = Duration::from_secs(120);

/// A `clusterctl move` that runs. It ends when it is dropped.
pub struct Move {
    child: Child,
    log: PathBuf,
}

impl Move {
    /// Starts a move of all that is in a namespace, to another management cluster.
    pub fn start(from: &Namespace, to: &Namespace) -> Self {
        Self::run(from, &["--namespace", &from.name, "--to-kubeconfig", &to.world.kubeconfig])
    }

    /// Starts writing all that is in a namespace into a directory.
    pub fn into_directory(from: &Namespace, directory: &Path) -> Self {
        Self::run(from, &["--namespace", &from.name, "--to-directory", text(directory)])
    }

    /// Starts reading all that was written into a directory.
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

    /// Waits until it has done all that it had to do.
    pub async fn done(mut self) {
        let status = self.ended().await;
        assert!(status.success(), "clusterctl failed ({status}):\n{}", self.said());
    }

    /// Whether it still runs.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("it is our child").is_none()
    }

    /// Ends it at once, wherever it is.
    pub fn kill(mut self) {
        self.end();
    }

    async fn ended(&mut self) -> ExitStatus {
        let said = self.log.clone();
        eventually(MOVED, async || match self.child.try_wait().expect("it is our child") {
            Some(status) => Ok(status),
            None => Err(format!("clusterctl is not done; {} is what it said", said.display())),
        })
        .await
    }

    fn said(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    fn end(&mut self) {
        // An error means that it has ended already.
        let _ended_already = self.child.kill();
        let _status = self.child.wait();
    }
}

impl Drop for Move {
    fn drop(&mut self) {
        self.end();
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a directory of the tests has a name in UTF-8")
}
