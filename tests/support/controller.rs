//! The controller under test: one process for most scenarios of a run, and others for those that need their own. All run
//! as the ServiceAccount of `config/rbac`.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, OnceLock};

use super::service_account;
use super::wait::{RECOVERY, eventually};
use super::world::run_id;

/// The program under test.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_caip-openstack");

/// The program of an earlier version: `hack/e2e-capo.sh` builds it.
pub fn previous_program() -> String {
    std::env::var("CAIP_PREVIOUS_BINARY").expect("hack/e2e-capo.sh sets CAIP_PREVIOUS_BINARY")
}

/// A running controller. Ends when it is dropped, and in any case when the test binary does.
pub struct Controller {
    // A plain mutex: held for a system call, never across an await.
    child: Mutex<Child>,
    log: PathBuf,
}

/// The controller that the scenarios of this run share: it serves the pools whose watch filter is [`run_id`], in all
/// namespaces. Started at the first call.
pub fn controller() -> &'static Controller {
    static SHARED: OnceLock<Controller> = OnceLock::new();
    let shared = SHARED.get_or_init(|| Controller::start(&[]));
    shared.assert_running();
    shared
}

impl Controller {
    /// Starts a controller with more flags. Without a watch filter of its own it serves the pools of the shared one.
    pub fn start(flags: &[&str]) -> Self {
        Self::start_in(&service_account::kubeconfig("KUBECONFIG"), flags)
    }

    /// The same for the management cluster of a kubeconfig.
    pub fn start_in(kubeconfig: &str, flags: &[&str]) -> Self {
        Self::start_build(PROGRAM, kubeconfig, flags)
    }

    /// The same with another build of the program.
    pub fn start_build(program: &str, kubeconfig: &str, flags: &[&str]) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let log = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("controller-{}-{number}.log", run_id()));
        let output = File::create(&log).unwrap_or_else(|error| panic!("{} cannot be made: {error}", log.display()));
        // setpriv ends the program with the test binary, however that ends: libtest has no teardown.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "TERM", "--", program]);
        command.args(["--leader-elect=false", "--health-addr=0", "--diagnostics-address=0"]);
        if !flags.iter().any(|flag| flag.starts_with("--watch-filter")) {
            command.arg(format!("--watch-filter={}", run_id()));
        }
        if !flags.iter().any(|flag| flag.starts_with("--openstack-hosts")) {
            command.arg("--openstack-hosts=0.0.0.0/0,::/0,*.invalid,*.test,*.example.com");
        }
        command.args(flags).env("KUBECONFIG", kubeconfig).stdin(Stdio::null());
        command.stdout(output.try_clone().expect("a file can be opened twice")).stderr(output);
        let child = spawn_in_lasting_thread(command)
            .unwrap_or_else(|error| panic!("setpriv (util-linux) cannot start the controller: {error}"));
        Self { child: Mutex::new(child), log }
    }

    pub fn pid(&self) -> u32 {
        self.child.lock().expect("no code panics while it holds the child").id()
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    pub fn log_path(&self) -> &Path {
        &self.log
    }

    /// Host and port of its metrics.
    pub async fn diagnostics(&self) -> String {
        self.address_of("--diagnostics-address").await
    }

    /// Host and port where it serves what this flag configures, with port 0, once it has logged them.
    pub async fn address_of(&self, flag: &str) -> String {
        eventually(RECOVERY, async || {
            let log = self.log();
            let line = log.lines().find(|line| line.contains("listening") && line.contains(flag));
            let rest = line.and_then(|line| line.split("127.0.0.1:").nth(1)).ok_or(format!("no address of {flag}"))?;
            let port: String = rest.chars().take_while(char::is_ascii_digit).collect();
            Ok::<_, String>(format!("127.0.0.1:{port}"))
        })
        .await
    }

    /// Kills it, as a crash would.
    pub fn kill(&self) {
        let mut child = self.child.lock().expect("no code panics while it holds the child");
        // An error means that it has ended already.
        let _ended_already = child.kill();
        let _status = child.wait();
    }

    /// Asks it to end, as Kubernetes would, and waits for its status.
    pub fn terminate(&self) -> ExitStatus {
        self.signal("TERM");
        self.child.lock().expect("no code panics while it holds the child").wait().expect("the controller is our child")
    }

    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").args(["-s", name, &self.pid().to_string()]).status().expect("kill runs");
        assert!(sent.success(), "the controller had already ended");
    }

    pub fn ended(&self) -> Option<ExitStatus> {
        let mut child = self.child.lock().expect("no code panics while it holds the child");
        child.try_wait().expect("the controller is our child")
    }

    /// Panics with the end of its log if it has ended.
    pub fn assert_running(&self) {
        if let Some(status) = self.ended() {
            panic!("the controller has ended ({status}):\n{}", tail(&self.log()));
        }
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        self.kill();
    }
}

fn tail(text: &str) -> String {
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}

/// The kernel sends the death signal when the *thread* that started a process ends, and a test is a thread. So all are
/// started by one thread that lasts as long as the test binary.
pub(super) fn spawn_in_lasting_thread(command: Command) -> io::Result<Child> {
    type Order = (Command, Sender<io::Result<Child>>);
    static SPAWNER: OnceLock<Mutex<Sender<Order>>> = OnceLock::new();
    let spawner = SPAWNER.get_or_init(|| {
        let (orders, taken) = channel::<Order>();
        std::thread::spawn(move || {
            for (mut command, reply) in taken {
                // An error means that the test gave up waiting; the child then ends with the binary.
                let _gave_up = reply.send(command.spawn());
            }
        });
        Mutex::new(orders)
    });
    let (reply, started) = channel();
    spawner
        .lock()
        .expect("no code panics while it holds the channel")
        .send((command, reply))
        .map_err(|_| io::Error::other("the spawning thread has ended"))?;
    started.recv().map_err(|_| io::Error::other("the spawning thread has ended"))?
}
