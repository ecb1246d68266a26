//! Pool, claim and sweeper: read, decide, act, report.
//!
//! | file | what it does |
//! |---|---|
//! | [`watch`] | keeps stores and memory up to date, and wakes what must be reconciled |
//! | [`stores`] | the objects of Kubernetes, as the watches last delivered them |
//! | [`memory`] | what is remembered of each pool and claim |
//! | [`project`] | one project's ledger, and the one listing at a time that keeps it true |
//! | [`queue`], [`wake`] | what is reconciled next |
//! | [`claim`] | a claim's stages: observe, triage, request, attempt, publish or release, report |
//! | [`pool`] | a pool's stages: conflicts, resolve, adopt, secret, refresh, report; teardown |
//! | [`sweeper`] | released addresses, orphans, spares |
//! | [`neutron_writer`] | the writes to Neutron, and what the ledger learns from each |
//! | [`objects`] | what labels, annotations and specs of objects say |
//! | [`kubernetes`], [`patch`], [`events`] | the writes to Kubernetes |
//! | [`explain`] | the message of a failed OpenStack call, with what to do about it |
//! | [`inspect`] | what the controllers see and would do, for `kubectl fippool` |

use std::convert::Infallible;
use std::hash::Hash;
use std::sync::Arc;

use futures::FutureExt;
use jiff::Timestamp;
use kube::Resource;
use kube::runtime::reflector::Store;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_util::sync::CancellationToken;

use crate::allocation::ledger::SETTLING;
use crate::api::IpamVersion;
use crate::clock::Clock;
use crate::metrics::Metrics;
use crate::object_name::ObjectName;
use crate::openstack::Clouds;
use crate::runtime::flags::Namespaces;
use crate::runtime::health::Readiness;
use crate::runtime::leader::Leader;

mod claim;
mod events;
mod explain;
pub mod inspect;
mod kubernetes;
mod leftovers;
mod memory;
mod neutron_writer;
pub(crate) mod objects;
mod pages;
mod panics;
mod patch;
mod pool;
mod project;
mod queue;
mod stores;
mod sweeper;
mod wake;
mod watch;

use claim::ClaimController;
use events::{Events, QueuedEvents};
use kubernetes::Kubernetes;
use leftovers::LeftoverReleaser;
use memory::Memory;
use panics::{HeldBack, Panicked};
use pool::{CapoObjects, PoolController, Resolver};
use project::Projects;
use queue::WorkQueue;
use stores::Stores;
use sweeper::Sweeper;
use wake::{Wake, WakeReceivers};
use watch::Watches;

#[derive(Clone)]
pub struct Setup {
    pub client: kube::Client,
    /// Opens sessions.
    pub clouds: Arc<dyn Clouds>,
    pub options: Options,
    pub metrics: Metrics,
    pub readiness: Readiness,
    pub clock: Clock,
    /// Counts what the controllers remember.
    pub records: RecordCount,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// The namespace to watch; all of them when there is none.
    pub namespace: Option<String>,
    /// The value of the label of the pools to serve, when it is given.
    pub watch_filter: Option<String>,
    /// How many claims are reconciled in parallel; 0 for no limit.
    pub claim_concurrency: usize,
    /// How many pools are reconciled in parallel; 0 for no limit.
    pub pool_concurrency: usize,
    /// How many floating IPs the pools of one namespace may list, in all projects together. Each may take 1 KiB of memory
    /// on average.
    pub max_floating_ips: usize,
    /// Where the Secrets of CAPO's cluster identities may be; pools may use none if it is empty.
    pub identity_namespaces: Namespaces,
    /// Whether to write ConfigMaps with the addresses of pools that ask for one.
    pub address_config_maps: bool,
    /// Whether a previous process may still have calls under way.
    pub fence: bool,
}

/// Counts the records of pools, claims and Secrets that the controllers hold, for tests that nothing grows without bound.
#[derive(Clone, Default)]
pub struct RecordCount(Arc<parking_lot::Mutex<std::sync::Weak<Memory>>>);

impl RecordCount {
    /// 0 when the controllers do not run.
    pub fn get(&self) -> usize {
        self.0.lock().upgrade().map_or(0, |memory| memory.count_records())
    }
}

/// Why the controllers ended before they were stopped.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("keep a watch going")]
    WatchEnded,
}

/// What a process that ends leaves to its successor.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ShutdownOutcome {
    /// The outcome of a write is not known: it may still take effect. The successor must expect that, so the
    /// Lease must not be given back.
    pub has_unknown_outcomes: bool,
}

impl ShutdownOutcome {
    /// Gives the Lease back, or leaves it to expire.
    pub async fn give_back(self, leader: Leader) -> Result<(), kube::Error> {
        if self.has_unknown_outcomes {
            tracing::warn!(
                "the outcome of a write is not known: the Lease is left to expire, and the next leader waits"
            );
            return Ok(());
        }
        leader.release().await
    }
}

/// Runs all controllers until `shutdown` resolves and what was begun is finished.
///
/// When Cluster API is upgraded meanwhile and serves another version of its kinds, they start again with that.
pub async fn run(
    mut setup: Setup,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> Result<ShutdownOutcome, Error> {
    let ending = CancellationToken::new();
    let working = async {
        // What a previous process left is handed on, since its calls may take effect after this process has ended.
        let mut unknown_since = setup.options.fence.then(|| setup.clock.now());
        let held_back = HeldBack::default();
        while !ending.is_cancelled() {
            setup.readiness.set("caches", false);
            tokio::select! {
                // In this order always, so that a simulation repeats.
                biased;
                version = watch::await_apis(&setup) => {
                    if serve(&setup, version, &held_back, ending.child_token()).await? {
                        unknown_since = Some(setup.clock.now());
                    }
                }
                () = ending.cancelled() => {}
            }
            // An abandoned call may still land, and nothing remembers it.
            setup.options.fence = true;
        }
        let may_land = |since: Timestamp| setup.clock.now().duration_since(since) < SETTLING;
        Ok(ShutdownOutcome { has_unknown_outcomes: unknown_since.is_some_and(may_land) })
    };
    tokio::pin!(working);
    tokio::select! {
        biased;
        result = &mut working => result,
        () = shutdown => {
            ending.cancel();
            working.await
        }
    }
}

/// Works with one version of Cluster API's kinds until `stop`, or until another is served, and then finishes what was
/// begun. The watches go on until then, since unfinished reconciles read from the stores. Returns whether the outcome of
/// any write is not known.
///
/// It also ends when a reconcile panics; then nothing that was begun is finished.
async fn serve(
    setup: &Setup,
    version: IpamVersion,
    held_back: &HeldBack,
    stop: CancellationToken,
) -> Result<bool, Error> {
    let (stores, writers) = watch::stores(version);
    let (events, queued) = events::channel(setup.client.clone());
    let memory = Arc::new(Memory::default());
    *setup.records.0.lock() = Arc::downgrade(&memory);
    let (wake, woken) = wake::channels(memory.clone(), stores.clone());
    let kube = Kubernetes { client: setup.client.clone(), version };
    let (events, started) = (Arc::new(events), setup.clock.now());
    let namespace = setup.options.namespace.clone();
    let capo = Arc::new(CapoObjects::new(kube.clone(), namespace, memory.clone(), setup.clock.clone()));
    let held_back = held_back.clone();
    let parts = Parts { setup: setup.clone(), kube, stores, memory, wake, events, capo, held_back, started };
    let watches = parts.watches();
    let working = work(&parts, woken, queued, stop.clone());
    let outdated = async {
        let other = watch::another_version(&setup.client, version).await;
        tracing::info!(ipam.version = other.as_str(), "Cluster API serves another version, restarting the controllers");
        stop.cancel();
        std::future::pending::<Infallible>().await
    };
    tokio::select! {
        biased;
        ended = working => Ok(match ended {
            Ok(()) => parts.memory.has_unknown_outcomes(parts.setup.clock.now()),
            Err(panicked) => {
                parts.note_panic(&panicked);
                true
            }
        }),
        () = watches.drive(writers) => Err(Error::WatchEnded),
        never = outdated => match never {},
        never = parts.report_readiness() => match never {},
        never = parts.forget_left_ledgers() => match never {},
    }
}

/// Reconciles from when the stores are filled until `stop`; then writes the remaining events.
async fn work(
    parts: &Parts,
    woken: WakeReceivers,
    queued: QueuedEvents,
    stop: CancellationToken,
) -> Result<(), Panicked> {
    tokio::select! {
        biased;
        () = parts.stores.wait_until_listed() => {}
        () = stop.cancelled() => return Ok(()),
    }
    tracing::info!(ipam.version = parts.kube.version.as_str(), "starting the controllers");
    let done = CancellationToken::new();
    let reconciling = async {
        let ended = reconcile_all(parts, woken, stop).await;
        done.cancel();
        ended
    };
    tokio::join!(reconciling, queued.write(done.cancelled())).0
}

/// Runs the controllers in parallel until `stop`, and then finishes what was begun.
async fn reconcile_all(parts: &Parts, woken: WakeReceivers, stop: CancellationToken) -> Result<(), Panicked> {
    let (pool_controller, sweeper, claim_controller) =
        (parts.pool_controller(), parts.sweeper(), parts.claim_controller());
    let Options { pool_concurrency, claim_concurrency, .. } = parts.setup.options;
    let Stores { pools, claims, .. } = &parts.stores;
    let pool_work = parts.queue("pool", (pools, ()), woken.pools, pool_concurrency, &stop);
    let sweeps = parts.queue("sweeper", (pools, ()), woken.sweeps, pool_concurrency, &stop);
    let claim_work = parts.queue("claim", (claims, parts.stores.version), woken.claims, claim_concurrency, &stop);
    let leftover_releaser = parts.leftover_releaser();
    let pools = pool_work.process(
        async |pool| pool_controller.reconcile(pool).await,
        |pool, error| pool_controller.on_error(&pool, error),
        |_| {},
    );
    let sweeps = sweeps.process(
        async |pool| sweeper.reconcile(pool).await,
        |pool, error| sweeper.on_error(&pool, error),
        |_| {},
    );
    let claims = claim_work.process(
        async |claim| claim_controller.reconcile(claim).await,
        |claim, error| claim_controller.on_error(&claim, error),
        |claim| claim_controller.end_holds(claim, |_| true),
    );
    let leftovers = leftover_releaser.release_until(stop).map(Ok);
    tokio::try_join!(pools, sweeps, claims, leftovers).map(drop)
}

/// The parts that the controllers are built from. Each controller gets only those that it needs.
struct Parts {
    setup: Setup,
    kube: Kubernetes,
    stores: Stores,
    memory: Arc<Memory>,
    wake: Wake,
    events: Arc<Events>,
    capo: Arc<CapoObjects>,
    held_back: HeldBack,
    started: Timestamp,
}

impl Parts {
    /// A panic was logged where it happened.
    fn note_panic(&self, Panicked { controller, object }: &Panicked) {
        self.setup.metrics.reconcile_panicked(controller);
        let pause = self.held_back.note(object, self.setup.clock.now());
        tracing::error!(
            controller,
            object = %object,
            pause_s = pause.as_secs(),
            "a reconcile panicked, restarting the controllers; the namespace is held back"
        );
    }

    fn queue<K>(
        &self,
        controller: &'static str,
        (store, kind): (&Store<K>, K::DynamicType),
        requests: UnboundedReceiver<ObjectName>,
        concurrency: usize,
        stop: &CancellationToken,
    ) -> WorkQueue<K>
    where
        K: Resource + Clone + 'static,
        K::DynamicType: Eq + Hash + Clone,
    {
        WorkQueue {
            store: store.clone(),
            kind,
            requests,
            controller,
            metrics: self.setup.metrics.controller(controller),
            concurrency,
            interruptions: self.memory.interruptions.subscribe(),
            stop: stop.clone(),
        }
    }

    /// Ready while no watch is interrupted: where one is refused, nothing is reconciled, and no condition can say it.
    async fn report_readiness(&self) -> Infallible {
        self.stores.wait_until_listed().await;
        let mut interruptions = self.memory.interruptions.subscribe();
        loop {
            self.setup.readiness.set("caches", interruptions.borrow_and_update().is_empty());
            if interruptions.changed().await.is_err() {
                std::future::pending().await
            }
        }
    }

    async fn forget_left_ledgers(&self) -> Infallible {
        loop {
            tokio::time::sleep(SETTLING.unsigned_abs()).await;
            self.memory.forget_left_ledgers(self.setup.clock.now());
        }
    }

    fn watches(&self) -> Watches {
        Watches {
            kube: self.kube.clone(),
            namespace: self.setup.options.namespace.clone(),
            stores: self.stores.clone(),
            memory: self.memory.clone(),
            wake: self.wake.clone(),
            metrics: self.setup.metrics.clone(),
            clock: self.setup.clock.clone(),
        }
    }

    fn resolver(&self) -> Resolver {
        let Setup { clouds, options, clock, .. } = &self.setup;
        Resolver {
            kube: self.kube.clone(),
            stores: self.stores.clone(),
            memory: self.memory.clone(),
            clouds: clouds.clone(),
            projects: Arc::new(Projects::new(options.max_floating_ips)),
            clock: clock.clone(),
            capo: self.capo.clone(),
            identity_namespaces: options.identity_namespaces.clone(),
            fence_from: options.fence.then_some(self.started),
            awaits_calls_elsewhere: true,
        }
    }

    fn pool_controller(&self) -> PoolController {
        let Setup { options, metrics, clock, .. } = &self.setup;
        PoolController {
            resolver: self.resolver(),
            stores: self.stores.clone(),
            memory: self.memory.clone(),
            kube: self.kube.clone(),
            wake: self.wake.clone(),
            events: self.events.clone(),
            metrics: metrics.clone(),
            clock: clock.clone(),
            held_back: self.held_back.clone(),
            watch_filter: options.watch_filter.clone(),
            writes_address_config_maps: options.address_config_maps,
        }
    }

    fn sweeper(&self) -> Sweeper {
        let Setup { options, metrics, clock, .. } = &self.setup;
        Sweeper {
            stores: self.stores.clone(),
            memory: self.memory.clone(),
            kube: self.kube.clone(),
            wake: self.wake.clone(),
            metrics: metrics.clone(),
            clock: clock.clone(),
            held_back: self.held_back.clone(),
            watch_filter: options.watch_filter.clone(),
        }
    }

    fn leftover_releaser(&self) -> LeftoverReleaser {
        LeftoverReleaser {
            stores: self.stores.clone(),
            memory: self.memory.clone(),
            kube: self.kube.clone(),
            wake: self.wake.clone(),
            clock: self.setup.clock.clone(),
        }
    }

    fn claim_controller(&self) -> ClaimController {
        let Setup { options, metrics, clock, .. } = &self.setup;
        ClaimController {
            capo: self.capo.clone(),
            stores: self.stores.clone(),
            memory: self.memory.clone(),
            kube: self.kube.clone(),
            wake: self.wake.clone(),
            events: self.events.clone(),
            metrics: metrics.clone(),
            clock: clock.clone(),
            held_back: self.held_back.clone(),
            watch_filter: options.watch_filter.clone(),
        }
    }
}
