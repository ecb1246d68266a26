//! Process metrics with the standard names of Prometheus client libraries.

use std::fmt;
use std::fs;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

use super::pools::gauge;

/// Linux reports CPU time to user space in hundredths of a second, whatever the kernel's tick rate.
const TICKS_PER_SECOND: f64 = 100.0;

/// Reads `/proc` on each scrape; has no series if there is none.
#[derive(Debug)]
pub(super) struct Process {
    /// As a Unix timestamp. Read once: `/proc/stat` is long on a large machine.
    started: Option<f64>,
}

impl Default for Process {
    fn default() -> Self {
        let read = |path| fs::read_to_string(path).ok();
        let started = || start_time(&read("/proc/self/stat")?, &read("/proc/stat")?);
        Self { started: started() }
    }
}

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let file = |path: &str| fs::read_to_string(path).ok();
        if let Some(bytes) = file("/proc/self/status").as_deref().and_then(resident_bytes) {
            let help = "Resident memory size in bytes.";
            let out = gauge(&mut encoder, "process_resident_memory", help, Some(&Unit::Bytes))?;
            ConstGauge::new(bytes).encode(out)?;
        }
        if let Some(seconds) = file("/proc/self/stat").as_deref().and_then(cpu_seconds) {
            let counter = ConstCounter::new(seconds);
            let help = "Total user and system CPU time spent in seconds.";
            let out = encoder.encode_descriptor("process_cpu", help, Some(&Unit::Seconds), counter.metric_type())?;
            counter.encode(out)?;
        }
        if let Some(started) = self.started {
            let help = "Start time of the process since unix epoch in seconds.";
            let out = gauge(&mut encoder, "process_start_time", help, Some(&Unit::Seconds))?;
            ConstGauge::new(started).encode(out)?;
        }
        if let Some(count) = open_fds() {
            let out = gauge(&mut encoder, "process_open_fds", "Number of open file descriptors.", None)?;
            ConstGauge::new(count).encode(out)?;
        }
        if let Some(limit) = file("/proc/self/limits").as_deref().and_then(max_fds) {
            let out = gauge(&mut encoder, "process_max_fds", "Maximum number of open file descriptors.", None)?;
            ConstGauge::new(limit).encode(out)?;
        }
        Ok(())
    }
}

fn resident_bytes(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
}

fn cpu_seconds(stat: &str) -> Option<f64> {
    Some((ticks(stat, 14)? + ticks(stat, 15)?) / TICKS_PER_SECOND)
}

/// From the process's own `stat`, which has the time since the machine was booted, and the machine's.
fn start_time(stat: &str, machine: &str) -> Option<f64> {
    let booted: f64 = machine.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
    Some(booted + ticks(stat, 22)? / TICKS_PER_SECOND)
}

/// A field of a process's `stat`, numbered from 1.
fn ticks(stat: &str, field: usize) -> Option<f64> {
    // The second field is the program's name in parentheses, which may contain spaces and parentheses.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    fields.nth(field.checked_sub(3)?)?.parse().ok()
}

/// Without the one that lists them.
fn open_fds() -> Option<usize> {
    fs::read_dir("/proc/self/fd").ok()?.count().checked_sub(1)
}

/// The soft limit; none if there is no limit.
fn max_fds(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_format_is_parsed() {
        assert_eq!(resident_bytes("Name:\tx\nVmRSS:\t    2048 kB\nThreads:\t2\n"), Some(2 * 1024 * 1024));
        let stat = "7 (a) b) S 1 7 7 0 -1 4194304 100 0 0 0 150 50 0 0 20 0 3 0 250 1000 200";
        assert_eq!(cpu_seconds(stat), Some(2.0));
        assert_eq!(start_time(stat, "cpu 1 2 3\nbtime 1700000000\nprocesses 7\n"), Some(1_700_000_002.5));
        let limits = "Limit  Soft Limit  Hard Limit  Units\nMax open files            1024                 524288               files\n";
        assert_eq!(max_fds(limits), Some(1024));
        assert_eq!(max_fds("Max open files            unlimited            unlimited            files\n"), None);
    }

    #[test]
    fn this_process_has_files_open_and_was_started() {
        assert!(open_fds().is_some_and(|count| count > 0));
        assert!(Process::default().started.is_some_and(|at| at > 1_000_000_000.0));
    }
}
