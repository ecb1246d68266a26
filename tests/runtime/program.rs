//! The program as a process: log lines and exit codes.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;

use super::{TIMEOUT, with_namespace};
use crate::support::{SYSTEM_NAMESPACE, World};

/// A running program and its log lines. Killed on drop.
struct Program {
    child: Child,
    lines: Receiver<String>,
}

impl Program {
    /// With the permissions of `config/rbac`.
    async fn start(flags: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_caip-openstack"));
        command.env("KUBECONFIG", World::new().await.account);
        let mut child = command.args(flags).stderr(Stdio::piped()).spawn().expect("the program starts");
        let (sender, lines) = channel();
        let stderr = BufReader::new(child.stderr.take().expect("it is piped"));
        std::thread::spawn(move || stderr.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Self { child, lines }
    }

    /// Waits for the next line that contains `part`.
    fn await_line(&self, part: &str) -> String {
        let mut other = Vec::new();
        while let Ok(line) = self.lines.recv_timeout(TIMEOUT) {
            if line.contains(part) {
                return line;
            }
            other.push(line);
        }
        panic!("no line with {part:?}, but:\n{}", other.join("\n"));
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status();
        assert!(sent.expect("kill is installed").success());
    }

    fn wait(mut self) -> ExitStatus {
        self.child.wait().expect("the process can be waited for")
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn sigterm_shuts_the_program_down_cleanly() {
    with_namespace(async |_, ns| {
        let flags = ["--leader-elect=false", "--health-addr=127.0.0.1:0", "--diagnostics-address=0"];
        let program = Program::start(&[&flags[..], &[&format!("--namespace={ns}")]].concat()).await;
        let line = program.await_line("--health-addr");
        let address = line.rsplit('"').nth(1).expect("the address is quoted").to_owned();
        program.await_line("connected");
        let response = reqwest::get(format!("http://{address}/healthz")).await.expect("it answers");
        assert_eq!(response.status(), http::StatusCode::OK);
        program.signal("TERM");
        program.await_line("ended");
        assert_eq!(program.wait().code(), Some(0));
    })
    .await;
}

#[tokio::test]
async fn losing_the_lease_ends_the_program_with_one_clear_line() {
    with_namespace(async |client, ns| {
        let program = Program::start(&[
            "--health-addr=0",
            "--diagnostics-address=0",
            &format!("--namespace={ns}"),
            &format!("--leader-election-namespace={SYSTEM_NAMESPACE}"),
            &format!("--leader-election-id={ns}"),
            "--leader-elect-retry-period=200ms",
        ])
        .await;
        program.await_line("leading was_vacant=true");
        let leases = Api::<Lease>::namespaced(client, SYSTEM_NAMESPACE);
        let theft = Patch::Merge(json!({"spec": {"holderIdentity": "thief"}}));
        leases.patch(&ns, &PatchParams::default(), &theft).await.expect("the Lease is changed");
        program.await_line("leadership lost, exiting: the Lease was taken by thief");
        assert_eq!(program.wait().code(), Some(1));
    })
    .await;
}

#[tokio::test]
async fn a_standby_replica_takes_over_when_the_leader_shuts_down() {
    with_namespace(async |_, ns| {
        let (namespace, lease) = (format!("--namespace={ns}"), format!("--leader-election-id={ns}"));
        let lease_namespace = format!("--leader-election-namespace={SYSTEM_NAMESPACE}");
        let flags = ["--health-addr=0", "--diagnostics-address=0", &namespace, &lease, &lease_namespace];
        let first = Program::start(&flags).await;
        first.await_line("leading was_vacant=true");
        let second = Program::start(&flags).await;
        second.await_line("not leading yet");
        first.signal("INT");
        assert_eq!(first.wait().code(), Some(0));
        second.await_line("leading was_vacant=true");
        second.signal("TERM");
        assert_eq!(second.wait().code(), Some(0));
    })
    .await;
}

#[tokio::test]
async fn a_failure_at_start_is_one_clear_line() {
    for (flags, part, code) in [
        (&["--no-such-flag"][..], "unknown flag --no-such-flag", 2),
        (&["--kubeconfig=/nowhere", "--health-addr=0", "--diagnostics-address=0"], "use the kubeconfig /nowhere", 1),
        (&["--health-addr=256.0.0.1:1"], "--health-addr", 1),
    ] {
        let program = Program::start(flags).await;
        program.await_line(part);
        assert_eq!(program.wait().code(), Some(code), "{flags:?}");
    }
}
