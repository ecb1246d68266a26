//! Who holds a Lease, and how often it is renewed, over some time.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::service_account::SYSTEM_NAMESPACE;
use super::world::World;

/// The default of `--leader-elect-renew-deadline`: without a renewal for longer, the holder ends.
pub const RENEW_DEADLINE: Duration = Duration::from_secs(10);

/// The flags of a controller with a Lease of this name, in the namespace of the controllers' Leases.
pub fn leader_election_flags(name: &str) -> [String; 3] {
    [
        "--leader-elect=true".to_owned(),
        format!("--leader-election-namespace={SYSTEM_NAMESPACE}"),
        format!("--leader-election-id={name}"),
    ]
}

/// Shorter than the interval between renewals, so that each of them is seen.
const INTERVAL: Duration = Duration::from_millis(500);

/// Reads a Lease until it is dropped.
pub struct LeaseObserver {
    task: JoinHandle<()>,
    history: Arc<Mutex<LeaseHistory>>,
}

#[derive(Clone, Default, Debug)]
pub struct LeaseHistory {
    pub holders: BTreeSet<String>,
    pub transitions: BTreeSet<i32>,
    /// The longest time from one renewal to the next, by the holder's clock.
    pub longest_gap: Duration,
    /// How many renewals were seen.
    pub renewals: usize,
    last: Option<jiff::Timestamp>,
}

impl LeaseObserver {
    /// Begins with the Lease of this name in the namespace of the controllers' Leases.
    pub fn start(world: &World, name: &str) -> Self {
        let leases: Api<Lease> = Api::namespaced(world.client.clone(), SYSTEM_NAMESPACE);
        let (name, history) = (name.to_owned(), Arc::new(Mutex::new(LeaseHistory::default())));
        let seen = history.clone();
        let task = tokio::spawn(async move {
            loop {
                // A busy API server may refuse to answer; the Lease itself tells of a gap.
                if let Ok(lease) = leases.get(&name).await {
                    seen.lock().expect("no code panics while it holds the history").add(&lease);
                }
                sleep(INTERVAL).await;
            }
        });
        Self { task, history }
    }

    /// What was seen until now; the time since the last renewal counts as a gap.
    pub fn history(&self) -> LeaseHistory {
        let mut history = self.history.lock().expect("no code panics while it holds the history").clone();
        if let Some(last) = history.last {
            history.longest_gap = history.longest_gap.max(jiff::Timestamp::now().duration_since(last).unsigned_abs());
        }
        history
    }
}

impl Drop for LeaseObserver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl LeaseHistory {
    fn add(&mut self, lease: &Lease) {
        let Some(spec) = &lease.spec else { return };
        self.holders.insert(spec.holder_identity.clone().unwrap_or_default());
        self.transitions.insert(spec.lease_transitions.unwrap_or_default());
        let Some(renewed) = spec.renew_time.as_ref().map(|time| time.0) else { return };
        match self.last {
            Some(last) if last == renewed => return,
            Some(last) => self.longest_gap = self.longest_gap.max(renewed.duration_since(last).unsigned_abs()),
            None => {}
        }
        self.renewals += 1;
        self.last = Some(renewed);
    }
}
