//! Process metrics with the standard names of Prometheus client libraries.

use std::fmt;
use std::fs;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

/// Linux reports CPU time to user space in hundredths of a second, whatever the kernel's tick rate.
const TICKS_PER_SECOND: f64 = 100.0;

/// Reads `/proc` on each scrape; has no series if there is none.
#[derive(Debug)]
pub(super) struct Process;

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        if let Some(bytes) = fs::read_to_string("/proc/self/status").ok().as_deref().and_then(resident_bytes) {
            let gauge = ConstGauge::new(bytes);
            let help = "Resident memory size in bytes.";
            let out =
                encoder.encode_descriptor("process_resident_memory", help, Some(&Unit::Bytes), gauge.metric_type())?;
            gauge.encode(out)?;
        }
        if let Some(seconds) = fs::read_to_string("/proc/self/stat").ok().as_deref().and_then(cpu_seconds) {
            let counter = ConstCounter::new(seconds);
            let help = "Total user and system CPU time spent in seconds.";
            let out = encoder.encode_descriptor("process_cpu", help, Some(&Unit::Seconds), counter.metric_type())?;
            counter.encode(out)?;
        }
        Ok(())
    }
}

fn resident_bytes(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
}

fn cpu_seconds(stat: &str) -> Option<f64> {
    // The second field is the program's name in parentheses, which may contain spaces and parentheses.
    let fields: Vec<_> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |field: usize| fields.get(field.checked_sub(3)?)?.parse::<f64>().ok();
    Some((ticks(14)? + ticks(15)?) / TICKS_PER_SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_format_is_parsed() {
        assert_eq!(resident_bytes("Name:\tx\nVmRSS:\t    2048 kB\nThreads:\t2\n"), Some(2 * 1024 * 1024));
        let stat = "7 (a) b) S 1 7 7 0 -1 4194304 100 0 0 0 150 50 0 0 20 0 3 0 100";
        assert_eq!(cpu_seconds(stat), Some(2.0));
    }
}
