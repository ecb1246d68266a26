//! The program under test: one process for all scenarios of a run, and others for those that need their own. All work as
//! the ServiceAccount that `config/rbac` makes.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, OnceLock};

use super::account;
use super::wait::{HEALS, eventually};
use super::world::run_id;

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
    /// Starts one of the scenario's own, with more flags. Give it a watch filter or a namespace of its own, or it shares
    /// the pools of the run's controller.
    pub fn start(flags: &[&str]) -> Self {
        Self::start_in(&account::kubeconfig("KUBECONFIG"), flags)
    }

    /// The same, for the management cluster that a kubeconfig leads to.
    pub fn start_in(kubeconfig: &str, flags: &[&str]) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let log = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("controller-{}-{number}.log", run_id()));
        let output = File::create(&log).unwrap_or_else(|error| panic!("{} cannot be made: {error}", log.display()));
        // setpriv ends the program with the test binary, however that ends: libtest has no teardown.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "TERM", "--", env!("CARGO_BIN_EXE_caip-openstack")]);
        command.args(["--leader-elect=false", "--health-addr=0", "--diagnostics-address=0"]);
        if !flags.iter().any(|flag| flag.starts_with("--watch-filter")) {
            command.arg(format!("--watch-filter={}", run_id()));
        }
        command.args(flags).env("KUBECONFIG", kubeconfig).stdin(Stdio::null());
        command.stdout(output.try_clone().expect("a file can be opened twice")).stderr(output);
        let child = spawn_in_lasting_thread(command)
            .unwrap_or_else(|error| panic!("setpriv (util-linux) cannot start the controller: {error}"));
        Self { child: Mutex::new(child), log }
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.lock().expect("no code panics while it holds the child").id()
    }

    /// What it has logged so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Where it logs to.
    pub fn log_path(&self) -> &Path {
        &self.log
    }

    /// Where it serves its metrics, once it has said so: host and port.
    pub async fn diagnostics(&self) -> String {
        eventually(HEALS, async || {
            let log = self.log();
            let line = log.lines().find(|line| line.contains("--diagnostics-address"));
            let port = line.and_then(|line| line.split("127.0.0.1:").nth(1)?.split(['"', ' ']).next());
            port.map(|port| format!("127.0.0.1:{port}")).ok_or("it did not say where its metrics are")
        })
        .await
    }

    /// Ends it at once, as a crash would.
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

    /// Sends it a signal.
    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").args(["-s", name, &self.pid().to_string()]).status().expect("kill runs");
        assert!(sent.success(), "the controller had ended before it was asked to");
    }

    /// Its status, when it has ended.
    pub fn ended(&self) -> Option<ExitStatus> {
        let mut child = self.child.lock().expect("no code panics while it holds the child");
        child.try_wait().expect("the controller is our child")
    }

    /// Panics with the end of its log when it is not running any more.
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
