//! One replica of the controllers, started as the program starts them, and restarted when it died, lost the lease or
//! ended.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::task::Poll;
use std::time::Duration;

use caip_openstack::clock::Clock;
use caip_openstack::controllers::{self, Options, RecordCount, Setup};
use caip_openstack::metrics::{MeteredClouds, Metrics};
use caip_openstack::runtime::flags::Namespaces;
use caip_openstack::runtime::health::Readiness;
use caip_openstack::runtime::leader::{Leader, LeaseSettings, may_have_predecessor, while_leading};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::api::ApiServer;
use crate::client::client;
use crate::clouds::WiredClouds;
use crate::liar::Liars;
use crate::memory::MemoryCloud;
use crate::trace::Trace;
use crate::wire::{Fault, Side, Wire};
use crate::witness::Witness;

/// How long a restart takes.
const RESTART: Duration = Duration::from_secs(2);

pub const LEASE_NAMESPACE: &str = "caip-system";
pub const LEASE_NAME: &str = "caip-openstack";

/// The faults of one life of a process, by the number of the call.
pub type Plan = Vec<(usize, Fault)>;

/// A replica through all its lives.
pub struct Process {
    pub name: String,
    pub server: ApiServer,
    pub cloud: MemoryCloud,
    pub witness: Witness,
    pub liars: Liars,
    pub trace: Trace,
    pub clock: Clock,
    /// Whether it needs the lease to work.
    pub is_elected: bool,
    /// Random numbers, from the history's seed.
    pub random: RefCell<fastrand::Rng>,
    /// The most milliseconds that a call takes each way.
    pub slowest: Cell<u64>,
    /// How far its machine's clock is off, in seconds: it jumps when this is changed.
    pub skew: Arc<AtomicI64>,
    /// The faults of the lives to come.
    pub plans: RefCell<VecDeque<Plan>>,
    /// The connection of the current life.
    pub current: RefCell<Option<Wire>>,
    /// How many calls each past life made.
    pub past_calls: RefCell<Vec<usize>>,
    /// Ends the current life as a SIGTERM does.
    pub terminate: Arc<Notify>,
    /// Counts what the controllers of the current life remember.
    pub records: RecordCount,
}

impl Process {
    pub async fn run_forever(self: Rc<Self>) {
        loop {
            let wire = self.connect();
            tokio::select! {
                biased;
                () = wire.died() => {}
                () = unless_frozen(&wire, self.run_once(&wire)) => {}
            }
            // Tasks that are left of it send nothing more.
            wire.kill();
            self.past_calls.borrow_mut().push(wire.calls());
            self.trace.record(|| format!("{} is gone after {} calls", self.name, wire.calls()));
            tokio::time::sleep(RESTART).await;
        }
    }

    fn connect(&self) -> Wire {
        let seed = self.random.borrow_mut().u64(..);
        let wire = Wire::new(self.name.clone(), seed, self.slowest.get(), self.trace.clone(), self.witness.rates());
        for (number, trouble) in self.plans.borrow_mut().pop_front().unwrap_or_default() {
            wire.plan(number, trouble);
        }
        *self.current.borrow_mut() = Some(wire.clone());
        wire
    }

    /// The name under which the current life has the Lease: each has its own, as each process of the program.
    pub fn identity(&self) -> String {
        format!("{}_{}", self.name, self.past_calls.borrow().len())
    }

    /// The connection of the current life, if the process runs.
    pub fn wire(&self) -> Option<Wire> {
        self.current.borrow().clone().filter(|wire| !wire.is_dead())
    }

    /// See [`Wire::add_outage`].
    pub fn add_outage(&self, side: Side, fault: Fault, share: u8, lasts: Duration) {
        if let Some(wire) = self.wire() {
            wire.add_outage(side, fault, share, lasts);
        }
    }

    async fn run_once(&self, wire: &Wire) {
        let seed = self.random.borrow_mut().u64(..);
        let client = client(&self.server, wire);
        let (clock, skew) = (self.clock.clone(), self.skew.clone());
        let clock = Clock::following(move || clock.now() + jiff::SignedDuration::from_secs(skew.load(Relaxed)), seed);
        let leader = match self.is_elected {
            true => Some(Leader::acquire(client.clone(), lease(self.identity()), &clock).await),
            false => None,
        };
        let metrics = Metrics::new();
        let clouds = WiredClouds {
            cloud: self.cloud.clone(),
            server: self.server.clone(),
            wire: wire.clone(),
            witness: self.witness.clone(),
            liars: self.liars.clone(),
        };
        let setup = Setup {
            records: self.records.clone(),
            client,
            clouds: Arc::new(MeteredClouds::new(Arc::new(clouds), metrics.clone())),
            options: options(leader.as_ref()),
            metrics,
            readiness: Readiness::new(),
            clock,
        };
        let terminate = self.terminate.clone();
        let work = controllers::run(setup, async move { terminate.notified().await });
        let how = while_leading(leader.as_ref(), work).await;
        self.trace.record(|| format!("{}: {how:?}", self.name));
        if let (Ok(Ok(ended)), Some(leader)) = (how, leader) {
            let _ = ended.give_back(leader).await;
        }
    }
}

fn options(leader: Option<&Leader>) -> Options {
    Options {
        namespace: None,
        watch_filter: None,
        claim_concurrency: 0,
        pool_concurrency: 0,
        max_floating_ips: 4000,
        identity_namespaces: Namespaces::all(),
        address_config_maps: true,
        fence: may_have_predecessor(leader),
    }
}

/// Runs a process' work while it is not [frozen](Wire::freeze). When it goes on, everything that it waited for is there at
/// once.
async fn unless_frozen(wire: &Wire, work: impl Future<Output = ()>) {
    let (mut work, mut thaw) = (pin!(work), Box::pin(sleep_until(Instant::now())));
    poll_fn(|context| {
        if let Some(until) = wire.frozen_until() {
            thaw.as_mut().reset(until);
            if thaw.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
        }
        work.as_mut().poll(context)
    })
    .await;
}

fn lease(identity: String) -> LeaseSettings {
    LeaseSettings {
        namespace: LEASE_NAMESPACE.into(),
        name: LEASE_NAME.into(),
        identity,
        duration: Duration::from_secs(15),
        renew_deadline: Duration::from_secs(10),
        retry_period: Duration::from_secs(2),
    }
}
