//! Where the machine's CPU time goes: Neutron, Kubernetes and we share it, and whoever reads the figures should know.

use std::collections::BTreeMap;

use super::process::{TICKS_PER_SECOND, cpu_ticks};

/// CPU seconds by program, of all processes that there are.
#[derive(Clone, Debug, Default)]
pub struct Machine(BTreeMap<u32, (String, f64)>);

impl Machine {
    /// As it is now. What cannot be read has ended meanwhile.
    pub fn now() -> Self {
        let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let read = |id: u32| {
            let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
            let name = stat.split_once('(')?.1.rsplit_once(')')?.0.to_owned();
            Some((id, (name, cpu_ticks(&stat)? / TICKS_PER_SECOND)))
        };
        Self(ids.filter_map(read).collect())
    }

    /// What each program has used since then, in seconds; those with less than a hundredth of all are left out.
    pub fn since(&self, then: &Self) -> BTreeMap<String, f64> {
        let mut used: BTreeMap<String, f64> = BTreeMap::new();
        for (id, (name, now)) in &self.0 {
            let before = then.0.get(id).map_or(0.0, |(_, before)| *before);
            *used.entry(name.clone()).or_default() += now - before;
        }
        let all: f64 = used.values().sum();
        used.retain(|_, seconds| *seconds > all / 100.0);
        used
    }
}
