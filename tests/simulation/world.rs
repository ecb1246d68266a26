//! Everything at once: one project in OpenStack, management clusters that share it, the controllers, and everybody else.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use caip_openstack::allocation::PoolId;
use caip_openstack::allocation::claim::UNWANTED_LIMIT;
use caip_openstack::allocation::mark::Marks;
use caip_openstack::clock::Clock;
use caip_openstack::floating_ip::{FloatingIp, FloatingIpId, NetworkId, ProjectId};
use caip_openstack::openstack::memory::MemoryCloud;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::api::{ApiServer, Key, Kind};
use crate::laws::{self, Broken, Seen};
use crate::process::Process;
use crate::trace::Trace;
use crate::witness::Witness;

/// The namespace of everything, in every management cluster.
pub const NAMESPACE: &str = "team";
/// How many addresses the network has: few, so that they run out and come back.
pub const ADDRESSES: u8 = 9;

/// What a history starts from.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    pub seed: u64,
    /// How many management clusters share the project.
    pub sites: usize,
    /// How many replicas each has; with more than one they compete for a lease.
    pub replicas: usize,
    /// The most milliseconds that a call takes each way.
    pub slowest: u64,
    /// Whether the story is written down.
    pub is_told: bool,
}

/// One management cluster.
pub struct Site {
    pub server: ApiServer,
    pub replicas: Vec<Rc<Process>>,
}

/// Everything.
pub struct World {
    pub clock: Clock,
    pub cloud: MemoryCloud,
    pub project: ProjectId,
    pub network: NetworkId,
    pub sites: Vec<Site>,
    pub witness: Witness,
    pub trace: Trace,
    /// What a pool may have although its limit is lower: what it had when that was lowered.
    pub floors: RefCell<BTreeMap<(usize, String), usize>>,
    /// The ids that somebody wiped from a pool that no IPAddress could tell it again.
    pub lost_ids: RefCell<BTreeSet<PoolId>>,
    /// Whether a history ends here, without coming to rest.
    pub is_over: Cell<bool>,
    /// Whether anybody did anything that may change which address a claim has.
    pub interfered: Rc<Cell<bool>>,
    /// What was broken so far: the first one ends a history.
    pub broken: Rc<RefCell<Vec<Broken>>>,
}

/// One of the network's addresses.
pub fn address(index: u8) -> IpAddr {
    IpAddr::from([203, 0, 113, 10 + index % ADDRESSES])
}

impl World {
    /// A world in which nothing has happened yet: namespaces, Secrets and Clusters are there, and the controllers run.
    pub fn new(start: &Start) -> Self {
        // What in libraries is left to chance follows the seed too.
        fastrand::seed(start.seed);
        let mut chance = fastrand::Rng::with_seed(start.seed);
        let began: Timestamp = "2027-01-15T08:00:00Z".parse().expect("a time");
        let clock = Clock::simulated(began, chance.u64(..));
        let cloud = MemoryCloud::new(clock.clone());
        let project = cloud.add_project("ours", None);
        let network = cloud.add_network(&project, "public", true);
        cloud.add_subnet(&network, "v4", address(0)..=address(ADDRESSES - 1));
        let trace = Trace::new(start.is_told);
        let mut world = Self {
            witness: Witness::new(cloud.clone()),
            clock,
            cloud,
            project,
            network,
            sites: Vec::new(),
            trace,
            floors: RefCell::default(),
            lost_ids: RefCell::default(),
            is_over: Cell::new(false),
            interfered: Rc::default(),
            broken: Rc::default(),
        };
        for site in 0..start.sites {
            let server = ApiServer::new(site, world.clock.clone());
            world.furnish(&server);
            let replica = |replica: usize| {
                Rc::new(Process {
                    name: format!("{site}.{replica}"),
                    server: server.clone(),
                    cloud: world.cloud.clone(),
                    witness: world.witness.clone(),
                    trace: world.trace.clone(),
                    clock: world.clock.clone(),
                    is_elected: start.replicas > 1,
                    chance: RefCell::new(chance.fork()),
                    slowest: Cell::new(start.slowest),
                    skew: Arc::default(),
                    plans: RefCell::new(VecDeque::new()),
                    wire: RefCell::new(None),
                    past_calls: RefCell::default(),
                })
            };
            let replicas: Vec<_> = (0..start.replicas).map(replica).collect();
            world.sites.push(Site { server, replicas });
        }
        world
    }

    fn furnish(&self, server: &ApiServer) {
        for namespace in [NAMESPACE, "caip-system"] {
            let _ = server.create(Kind::Namespace, json!({"metadata": {"name": namespace}}));
        }
        self.create_secret(server);
        let cluster = json!({"metadata": {"name": "c", "namespace": NAMESPACE}, "spec": {}});
        let _ = server.create(Kind::Cluster, cluster);
    }

    /// The credentials, as a user writes them.
    pub fn create_secret(&self, server: &ApiServer) {
        let data = serde_json::to_value(self.cloud.secret("ours")).expect("a Secret has a form");
        let _ =
            server.create(Kind::Secret, json!({"metadata": {"name": "cloud", "namespace": NAMESPACE}, "data": data}));
    }

    /// Starts everything that runs by itself.
    pub fn begin(&self) {
        for (index, site) in self.sites.iter().enumerate() {
            for replica in &site.replicas {
                tokio::task::spawn_local(replica.clone().run());
            }
            tokio::task::spawn_local(collect(site.server.clone()));
            let eyes = Eyes {
                witness: self.witness.clone(),
                interfered: self.interfered.clone(),
                broken: self.broken.clone(),
            };
            tokio::task::spawn_local(eyes.watch(index, site.server.clone()));
        }
    }

    /// Time passes.
    pub async fn pass(&self, time: Duration) {
        sleep(time).await;
    }

    /// Time passes until something is so, or for this long: whether it is.
    pub async fn until(&self, longest: Duration, is_so: impl Fn() -> bool) -> bool {
        let begin = Instant::now();
        while !is_so() && begin.elapsed() < longest {
            sleep(Duration::from_millis(500)).await;
        }
        is_so()
    }

    /// What can be seen now.
    pub fn seen(&self, is_quiet: bool) -> Seen {
        let objects = |site: &Site| site.server.state().objects.values().cloned().collect::<Vec<Arc<Value>>>();
        let fips = self.cloud.floating_ips();
        let taken: BTreeSet<IpAddr> = fips.iter().map(|fip| fip.address).collect();
        Seen {
            clusters: self.sites.iter().map(objects).collect(),
            creatable: (0..ADDRESSES).map(address).filter(|address| !taken.contains(address)).collect(),
            fips,
            network: Some(self.network.clone()),
            limits: self.limits(),
            others: self.witness.others(),
            forged: &self.witness.forged() | &self.abandoned(),
            is_quiet,
            now: self.clock.now(),
        }
    }

    /// What carries the mark of an id that was lost for good: nobody can tell whose it is.
    fn abandoned(&self) -> BTreeSet<FloatingIpId> {
        let mut lost = self.lost_ids.borrow().clone();
        for site in &self.sites {
            lost = &lost - &site.server.all(Kind::Pool).iter().filter_map(|pool| laws::pool_id(pool)).collect();
        }
        let is_lost = |fip: &FloatingIp| Marks::read(fip).pools().iter().any(|pool| lost.contains(*pool));
        self.cloud.floating_ips().into_iter().filter(is_lost).map(|fip| fip.id).collect()
    }

    /// The most that each pool may have.
    fn limits(&self) -> BTreeMap<PoolId, usize> {
        let mut limits = BTreeMap::new();
        for site in &self.sites {
            for pool in site.server.all(Kind::Pool) {
                let limit = pool["spec"]["maxIPs"].as_u64().and_then(|limit| usize::try_from(limit).ok());
                let name = (site.server.id(), laws::text(&pool, "/metadata/name").to_owned());
                let floor = self.floors.borrow().get(&name).copied().unwrap_or_default();
                limits.extend(laws::pool_id(&pool).zip(limit.map(|limit| limit.max(floor))));
            }
        }
        limits
    }

    /// The laws, judged now.
    pub fn judge(&self, is_quiet: bool) {
        let mut broken = self.broken.borrow_mut();
        broken.extend(self.witness.broken());
        broken.extend(laws::judge(&self.seen(is_quiet)));
    }

    /// What a law says of this moment.
    pub fn expect(&self, law: u8, object: &str, what: &str, is_so: bool) {
        if !is_so {
            self.broken.borrow_mut().push(Broken::new(law, object, format!("not {what}")));
        }
    }

    /// Whether a law was broken.
    pub fn is_broken(&self) -> bool {
        !self.broken.borrow().is_empty()
    }

    /// Numbers that change with every write that changes anything.
    fn fingerprint(&self) -> (Vec<u64>, usize) {
        let versions = self.sites.iter().map(|site| site.server.writes()).collect();
        (versions, self.witness.changes())
    }

    /// Nothing more goes wrong and nobody touches anything: everything comes to rest, stays so, and the laws hold.
    pub async fn settle(&self) {
        self.trace.tell(|| "--- rest".to_owned());
        self.unpause();
        for replica in self.sites.iter().flat_map(|site| &site.replicas) {
            replica.plans.borrow_mut().clear();
            replica.skew.store(0, Relaxed);
            if let Some(wire) = replica.now() {
                wire.calm();
            }
        }
        let (mut still, minute, begin) = (0, Duration::from_secs(60), Instant::now());
        while still < RESTS {
            let before = self.fingerprint();
            self.pass(minute).await;
            still = if self.fingerprint() == before { still + 1 } else { 0 };
            if self.is_broken() {
                return;
            }
            if begin.elapsed() > LONGEST {
                self.broken.borrow_mut().push(Broken::new(8, "everything", "still at work"));
                return;
            }
        }
        self.judge(true);
        let (before, offers) = (self.fingerprint(), self.witness.offers());
        self.pass(QUIET).await;
        if self.fingerprint() != before {
            // An offer may be on its way out.
            self.pass(SHORT).await;
        }
        if self.fingerprint() != before {
            self.broken.borrow_mut().push(Broken::new(8, "everything", "at work again although nothing changed"));
        }
        let pools: usize = self.sites.iter().map(|site| site.server.all(Kind::Pool).len()).sum();
        if self.witness.offers() - offers > pools * 2 * UNWANTED_LIMIT {
            self.broken.borrow_mut().push(Broken::new(
                8,
                "a network",
                "asked again and again for what may not be given",
            ));
        }
    }
}

/// Minutes without a write after which everything has come to rest: longer than any grace of a pool here.
const RESTS: u32 = 6;
/// In which everything must have come to rest.
const LONGEST: Duration = Duration::from_secs(60 * 60);
/// For how long nothing is written then.
const QUIET: Duration = Duration::from_secs(10 * 60);
/// Longer than a POST and the DELETE after it.
const SHORT: Duration = Duration::from_secs(20);

/// The garbage collector and the namespace controller.
async fn collect(server: ApiServer) {
    let mut news = server.news();
    loop {
        while server.collect() {
            sleep(Duration::from_millis(40)).await;
        }
        if news.changed().await.is_err() {
            return;
        }
        sleep(Duration::from_millis(60)).await;
    }
}

/// Looks at each address that is published, at the moment at which it is.
struct Eyes {
    witness: Witness,
    interfered: Rc<Cell<bool>>,
    broken: Rc<RefCell<Vec<Broken>>>,
}

impl Eyes {
    async fn watch(self, site: usize, server: ApiServer) {
        let mut news = server.news();
        let mut given: BTreeMap<String, String> = BTreeMap::new();
        let mut seen = server.version();
        while news.changed().await.is_ok() {
            let state = server.state();
            let begin = state.changes.partition_point(|change| change.version <= seen);
            let news: Vec<_> = state.changes[begin..].to_vec();
            seen = state.version;
            let claims = |key: &Key| state.objects.get(&Key { kind: Kind::Claim, ..key.clone() }).cloned();
            for change in news.iter().filter(|change| change.key.kind == Kind::Address && change.how == "ADDED") {
                let claim = claims(&change.key);
                let uid = claim.map(|claim| laws::text(&claim, "/metadata/uid").to_owned()).unwrap_or_default();
                self.look(site, &uid, &change.object, &mut given);
            }
        }
    }

    /// Laws 2 and 5: nothing is attached to what is handed out; the same claim gets the same address.
    fn look(&self, site: usize, claim: &str, object: &Value, given: &mut BTreeMap<String, String>) {
        let Some(bound) = laws::bound(&[], object, site) else { return };
        let address = bound.address.to_string();
        // One whose claim was taken away by force is nobody's to compare with.
        let before = given.insert(claim.to_owned(), address.clone()).filter(|_| !claim.is_empty());
        let mut broken = self.broken.borrow_mut();
        match before {
            Some(before) if before == address => return,
            Some(before) if !self.interfered.get() => {
                broken.push(Broken::new(5, &bound.object, format!("had {before}, and now has {address}")));
            }
            _ => {}
        }
        if self.witness.was_attached_before(&bound.fip, &bound.pool, &bound.claim) {
            let how = format!("handed out to {}, although something is attached to it", bound.object);
            broken.push(Broken::new(2, bound.address, how));
        }
    }
}
