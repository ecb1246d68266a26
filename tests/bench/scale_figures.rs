//! What thousands of claims cost, beside what is asked for.

use serde::Serialize;

use crate::access_log::{Calls, count_writes};
use crate::requirement::Requirement;

/// CAPO's pools and its clusters are each listed at most every 5 s, whatever the number of pools.
const MOST_LISTS: f64 = 24.0;

/// At most 96 MiB with 10,000 claims; with few, a development build, which `make test` measures, keeps this too.
fn most_memory_mib(claims: usize) -> f64 {
    56.0 + 40.0 * claims as f64 / 10_000.0
}

/// What each of 100 claims costs in as many pools.
#[derive(Clone, Copy, Serialize, Default)]
pub struct Few {
    pub cpu_ms_to_bind: f64,
    pub cpu_ms_to_release: f64,
}

/// The figures of one setting.
#[derive(Clone, Serialize, Default)]
pub struct Figures {
    pub claims: usize,
    pub pools: usize,
    pub bound_s: f64,
    /// The same claims, created and bound by plain clients.
    pub plainly_bound_s: f64,
    pub few: Few,
    /// Processor time for each claim.
    pub cpu_ms_to_bind: f64,
    pub rss_bound_mib: f64,
    pub calls_to_bind: Calls,
    pub settled_writes: usize,
    pub settled_calls: Calls,
    /// LIST requests for Cluster API's and CAPO's kinds, Secrets and namespaces, of all clients.
    pub settled_lists_per_minute: f64,
    pub settled_cpu_percent: f64,
    /// Of the floating IPs of each project; one may have several pages.
    pub settled_listings: f64,
    pub settled_s: f64,
    pub served_after_restart_s: f64,
    pub restart_writes: usize,
    pub restart_calls: Calls,
    pub rss_after_restart_mib: f64,
    pub waiting_cpu_percent: f64,
    pub served_after_release_s: f64,
    pub gone_s: f64,
    pub given_back_s: f64,
    pub cpu_ms_to_release: f64,
    pub calls_to_release: Calls,
    /// Of the process that bound the claims, and of the one that released them.
    pub peak_mib: f64,
    pub others_alone_s: f64,
    pub others_beside_s: f64,
}

impl Figures {
    /// What depends on the program alone.
    pub fn costs(&self) -> Vec<Requirement> {
        let at_most = Requirement::at_most;
        let is_read_of_one = |name: &str| name == "GET floatingips/ID";
        let reads = self.restart_calls.iter().filter(|(name, _)| is_read_of_one(name)).map(|(_, count)| count);
        vec![
            at_most("calls to OpenStack to bind a claim", 1.2, self.of_each(&self.calls_to_bind)),
            // A tag and a DELETE.
            at_most("writes to OpenStack to release a claim", 2.05, self.writes_to_release()),
            // A few listings, too; on a busy machine most floating IPs are read before their DELETE.
            at_most("calls to OpenStack to release a claim", 3.2, self.of_each(&self.calls_to_release)),
            at_most("peak memory, MiB", most_memory_mib(self.claims), self.peak_mib),
            at_most("writes to Kubernetes for bound claims after a restart", 0.0, self.restart_writes as f64),
            at_most("writes to OpenStack for bound claims after a restart", 0.0, self.restart_calls_for_bound()),
            at_most("reads of single floating IPs after a restart", 0.0, reads.sum::<usize>() as f64),
            at_most("writes while settled", 0.0, self.settled_writes as f64),
            at_most(
                "listings of each project while settled",
                1.0 + (self.settled_s / 60.0).ceil(),
                self.settled_listings,
            ),
        ]
    }

    /// What depends on the machine too.
    pub fn times(&self) -> Vec<Requirement> {
        let few = self.few;
        let at_most = Requirement::at_most;
        vec![
            at_most("processor time to bind a claim, ms", 3.0, self.cpu_ms_to_bind),
            at_most("the same, of that with 100 claims, times", 1.3, self.cpu_ms_to_bind / few.cpu_ms_to_bind),
            at_most("calls to OpenStack to release a claim", 2.5, self.of_each(&self.calls_to_release)),
            at_most("processor time to release a claim, ms", 3.0, self.cpu_ms_to_release),
            at_most("the same, of that with 100 claims, times", 1.3, self.cpu_ms_to_release / few.cpu_ms_to_release),
            at_most("a new claim after a restart, s", 15.0, self.served_after_restart_s),
            at_most("LIST requests to Kubernetes while settled, a minute", MOST_LISTS, self.settled_lists_per_minute),
            at_most("processor time while settled, % of a core", 0.5, self.settled_cpu_percent),
            at_most("processor time while claims wait, % of a core", 2.0, self.waiting_cpu_percent),
            at_most("the oldest claim after a release, s", 1.0, self.served_after_release_s),
            at_most(
                "another pool's claims beside one that fails, times",
                1.2,
                self.others_beside_s / self.others_alone_s,
            ),
        ]
    }

    /// What OpenStack's answers would slow.
    pub fn rates(&self) -> Vec<Requirement> {
        let (rate, plain_rate) = (self.claims as f64 / self.bound_s, self.claims as f64 / self.plainly_bound_s);
        vec![
            Requirement::at_least("claims bound in a second", 43.0, rate),
            Requirement::at_least("of the rate of plain clients", 0.9, rate / plain_rate),
        ]
    }

    fn of_each(&self, calls: &Calls) -> f64 {
        calls.values().sum::<usize>() as f64 / self.claims as f64
    }

    fn writes_to_release(&self) -> f64 {
        count_writes(&self.calls_to_release) as f64 / self.claims as f64
    }

    /// Writes to floating IPs; the new claim itself costs one POST.
    fn restart_calls_for_bound(&self) -> f64 {
        let to_floating_ips = self.restart_calls.iter().filter(|(name, _)| name.contains(" floatingips"));
        let to_floating_ips = to_floating_ips.map(|(name, count)| (name.clone(), *count)).collect();
        count_writes(&to_floating_ips) as f64 - 1.0
    }
}
