//! CPU time and memory of a process, from `/proc`.

use std::time::Duration;

/// Linux counts CPU time for programs in hundredths of a second, whatever the machine (`USER_HZ`).
const TICKS_PER_SECOND: f64 = 100.0;

/// Memory of a process, in MiB.
pub struct Memory {
    pub now: f64,
    pub peak: f64,
}

/// The CPU time that a process has used, in user mode and in the kernel.
pub fn cpu_time(pid: u32) -> Duration {
    let stat = read(pid, "stat");
    // The name, in brackets, may have spaces; the fields after it are counted from the state, field 3.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |field: usize| fields[field - 3].parse::<f64>().expect("CPU time is a number");
    Duration::from_secs_f64((ticks(14) + ticks(15)) / TICKS_PER_SECOND)
}

/// The resident memory of a process, and the most that it had.
pub fn memory(pid: u32) -> Memory {
    let status = read(pid, "status");
    let mebibytes = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).expect("Linux says so");
        line.split_whitespace().nth(1).and_then(|kib| kib.parse::<f64>().ok()).expect("memory is a number") / 1024.0
    };
    Memory { now: mebibytes("VmRSS:"), peak: mebibytes("VmHWM:") }
}

fn read(pid: u32, name: &str) -> String {
    let path = format!("/proc/{pid}/{name}");
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("the controller has ended: {path}: {error}"))
}
