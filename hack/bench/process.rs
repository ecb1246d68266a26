//! Our program as a process: started, measured, ended.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

/// Linux counts CPU time for programs in hundredths of a second, whatever the machine (`USER_HZ`).
pub const TICKS_PER_SECOND: f64 = 100.0;

/// The controller. Ends when it is dropped.
pub struct Process {
    child: Child,
    log: PathBuf,
}

/// Memory of a process, in MiB.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    pub now: f64,
    pub peak: f64,
}

impl Process {
    /// Starts the program for the pools of this watch filter, with its log in a file.
    pub fn start(program: &Path, watch_filter: &str, log: PathBuf) -> Result<Self> {
        if let Some(folder) = log.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let output = File::create(&log).with_context(|| format!("write {}", log.display()))?;
        let child = Command::new(program)
            .args(["--leader-elect=false", "--health-addr=0", "--diagnostics-address=0"])
            .arg(format!("--watch-filter={watch_filter}"))
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .with_context(|| format!("start {}: build it with `cargo build --release`", program.display()))?;
        Ok(Self { child, log })
    }

    /// Fails with the end of its log when it has ended by itself.
    pub fn assert_running(&mut self) -> Result<()> {
        if let Some(status) = self.child.try_wait()? {
            let log = std::fs::read_to_string(&self.log).unwrap_or_default();
            let tail: Vec<&str> = log.lines().rev().take(10).collect();
            bail!("the controller has ended ({status}):\n{}", tail.into_iter().rev().collect::<Vec<_>>().join("\n"));
        }
        Ok(())
    }

    /// Ends it at once, as a crash would.
    pub fn kill(&mut self) {
        // Errors mean that it has ended already.
        let _ended_already = self.child.kill();
        let _status = self.child.wait();
    }

    /// The CPU time that it has used.
    pub fn cpu(&self) -> Result<Duration> {
        let used = cpu_ticks(&self.proc_file("stat")?).context("understand /proc/PID/stat")?;
        Ok(Duration::from_secs_f64(used / TICKS_PER_SECOND))
    }

    /// The memory that it has, and the most that it had.
    pub fn memory(&self) -> Result<Memory> {
        let text = self.proc_file("status")?;
        let kib = |name: &str| {
            let line = text.lines().find(|line| line.starts_with(name))?;
            line.split_whitespace().nth(1)?.parse::<f64>().ok()
        };
        let (now, peak) = kib("VmRSS:").zip(kib("VmHWM:")).context("understand /proc/PID/status")?;
        Ok(Memory { now: now / 1024.0, peak: peak / 1024.0 })
    }

    fn proc_file(&self, name: &str) -> Result<String> {
        let path = format!("/proc/{}/{name}", self.child.id());
        std::fs::read_to_string(&path).with_context(|| format!("read {path}"))
    }
}

/// The time in `/proc/PID/stat`, of the process and in the kernel for it.
pub fn cpu_ticks(stat: &str) -> Option<f64> {
    // The name, in brackets, may have spaces; the fields after it are counted from the state, field 3.
    let fields: Vec<&str> = stat.rsplit(')').next()?.split_whitespace().collect();
    let ticks = |field: usize| fields.get(field - 3)?.parse::<f64>().ok();
    Some(ticks(14)? + ticks(15)?)
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
