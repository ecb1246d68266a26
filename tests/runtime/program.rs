//! The program as whoever starts it sees it: its lines, its exit code.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;

use super::{PATIENCE, with_namespace};
use crate::support::{SYSTEM_NAMESPACE, World};

/// A running program and the lines that it logs. Killed when dropped.
struct Program {
    child: Child,
    lines: Receiver<String>,
}

impl Program {
    /// As the ServiceAccount that `config/rbac` makes.
    async fn start(flags: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_caip-openstack"));
        command.env("KUBECONFIG", World::new().await.account);
        let mut child = command.args(flags).stderr(Stdio::piped()).spawn().expect("the program starts");
        let (sender, lines) = channel();
        let stderr = BufReader::new(child.stderr.take().expect("it is piped"));
        std::thread::spawn(move || stderr.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Self { child, lines }
    }

    /// The next line with `part` in it.
    fn says(&self, part: &str) -> String {
        let mut said = Vec::new();
        while let Ok(line) = self.lines.recv_timeout(PATIENCE) {
            if line.contains(part) {
                return line;
            }
            said.push(line);
        }
        panic!("it never said {part:?}, but:\n{}", said.join("\n"));
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status();
        assert!(sent.expect("there is a kill").success());
    }

    fn end(mut self) -> ExitStatus {
        self.child.wait().expect("it can be waited for")
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn it_runs_until_sigterm_and_ends_well() {
    with_namespace(async |_, ns| {
        let flags = ["--leader-elect=false", "--health-addr=127.0.0.1:0", "--diagnostics-address=0"];
        let program = Program::start(&[&flags[..], &[&format!("--namespace={ns}")]].concat()).await;
        let line = program.says("--health-addr");
        let address = line.rsplit('"').nth(1).expect("the address is quoted").to_owned();
        program.says("connected");
        let response = reqwest::get(format!("http://{address}/healthz")).await.expect("it answers");
        assert_eq!(response.status(), http::StatusCode::OK);
        program.signal("TERM");
        program.says("ended");
        assert_eq!(program.end().code(), Some(0));
    })
    .await;
}

#[tokio::test]
async fn losing_the_lease_ends_it_with_one_clear_line() {
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
        program.says("leading was_vacant=true");
        let leases = Api::<Lease>::namespaced(client, SYSTEM_NAMESPACE);
        let theft = Patch::Merge(json!({"spec": {"holderIdentity": "thief"}}));
        leases.patch(&ns, &PatchParams::default(), &theft).await.expect("it can be taken");
        program.says("leadership lost, exiting: the Lease was taken by thief");
        assert_eq!(program.end().code(), Some(1));
    })
    .await;
}

#[tokio::test]
async fn a_replica_that_waits_takes_over_from_one_that_ends() {
    with_namespace(async |_, ns| {
        let (namespace, lease) = (format!("--namespace={ns}"), format!("--leader-election-id={ns}"));
        let place = format!("--leader-election-namespace={SYSTEM_NAMESPACE}");
        let flags = ["--health-addr=0", "--diagnostics-address=0", &namespace, &lease, &place];
        let first = Program::start(&flags).await;
        first.says("leading was_vacant=true");
        let second = Program::start(&flags).await;
        second.says("not leading yet");
        first.signal("INT");
        assert_eq!(first.end().code(), Some(0));
        second.says("leading was_vacant=true");
        second.signal("TERM");
        assert_eq!(second.end().code(), Some(0));
    })
    .await;
}

#[tokio::test]
async fn what_is_wrong_at_the_start_is_one_clear_line() {
    for (flags, part, code) in [
        (&["--no-such-flag"][..], "unknown flag --no-such-flag", 2),
        (&["--kubeconfig=/nowhere", "--health-addr=0", "--diagnostics-address=0"], "use the kubeconfig /nowhere", 1),
        (&["--health-addr=256.0.0.1:1"], "--health-addr", 1),
    ] {
        let program = Program::start(flags).await;
        program.says(part);
        assert_eq!(program.end().code(), Some(code), "{flags:?}");
    }
}
