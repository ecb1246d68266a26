//! The whole system: one project in OpenStack, the management clusters that share it, and their controllers.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use caip_openstack::allocation::PoolId;
use caip_openstack::allocation::mark::Marks;
use caip_openstack::clock::Clock;
use caip_openstack::controllers::RecordCount;
use caip_openstack::floating_ip::{FloatingIp, FloatingIpId, NetworkId, ProjectId};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::api::{ApiServer, Kind};
use crate::background::{collect_garbage, end_namespaces};
use crate::identities;
use crate::laws::{self, Snapshot, Violation};
use crate::liar::Liars;
use crate::memory::MemoryCloud;
use crate::process::Process;
use crate::publication::PublicationWatcher;
use crate::settling::Settled;
use crate::tampering::COPY;
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
    /// Whether everything that happens is logged as text.
    pub is_logged: bool,
}

/// One management cluster.
pub struct Site {
    pub server: ApiServer,
    pub replicas: Vec<Rc<Process>>,
}

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
    /// Ids that a user removed from a pool while no IPAddress showed them.
    pub lost_ids: RefCell<BTreeSet<PoolId>>,
    /// Whether a history ends here, without coming to rest.
    pub skips_rest: Cell<bool>,
    /// Whether a generated history changed the quota. Tests that do it themselves say what happens then.
    pub quota_has_changed: Cell<bool>,
    /// Whether users did anything that may change which address a claim has.
    pub users_interfered: Rc<Cell<bool>>,
    /// The first one ends a history.
    pub violations: Rc<RefCell<Vec<Violation>>>,
    /// How long everything took to settle in the end.
    pub settled: RefCell<Option<Settled>>,
    /// How often one of several claims that waited for a pool was served in the end.
    pub served_in_order: Cell<usize>,
    /// The processes. None ever ends, except by a panic.
    tasks: RefCell<Vec<JoinHandle<()>>>,
    /// The clouds of hostile tenants.
    pub liars: Liars,
}

/// One of the network's addresses.
pub fn address(index: u8) -> IpAddr {
    IpAddr::from([203, 0, 113, 10 + index % ADDRESSES])
}

/// The addresses that Neutron would create now.
pub fn free_addresses(cloud: &MemoryCloud) -> BTreeSet<IpAddr> {
    if cloud.is_a_quota_used_up() {
        return BTreeSet::new();
    }
    let taken: BTreeSet<IpAddr> = cloud.floating_ips().iter().map(|fip| fip.address).collect();
    (0..ADDRESSES).map(address).filter(|address| !taken.contains(address)).collect()
}

/// The addresses of each subnet, by its name and by its id.
pub fn addresses_of_subnets(cloud: &MemoryCloud) -> BTreeMap<String, BTreeSet<IpAddr>> {
    let mut all = BTreeMap::new();
    for (subnet, range) in cloud.subnets() {
        let addresses: BTreeSet<IpAddr> = (0..ADDRESSES).map(address).filter(|it| range.contains(it)).collect();
        all.insert(subnet.name, addresses.clone());
        all.insert(subnet.id.as_str().to_owned(), addresses);
    }
    all
}

impl World {
    /// A world in which nothing has happened yet: namespaces, Secrets and Clusters are there, and the controllers run.
    pub fn new(start: &Start) -> Self {
        // Libraries that use the global generator follow the seed too.
        fastrand::seed(start.seed);
        let mut random = fastrand::Rng::with_seed(start.seed);
        let began: Timestamp = "2027-01-15T08:00:00Z".parse().expect("a time");
        let clock = Clock::simulated(began, random.u64(..));
        let cloud = MemoryCloud::new(clock.clone());
        let project = cloud.add_project("ours", None);
        let network = cloud.add_network(&project, "public", true);
        cloud.add_subnet(&network, "v4", address(0)..=address(ADDRESSES - 1));
        let trace = Trace::new(start.is_logged);
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
            skips_rest: Cell::new(false),
            quota_has_changed: Cell::new(false),
            users_interfered: Rc::default(),
            violations: Rc::default(),
            settled: RefCell::default(),
            served_in_order: Cell::default(),
            tasks: RefCell::default(),
            liars: Liars::default(),
        };
        for site in 0..start.sites {
            let server = ApiServer::new(site, world.clock.clone());
            world.create_prerequisites(&server);
            let replica = |replica: usize| {
                Rc::new(Process {
                    name: format!("{site}.{replica}"),
                    server: server.clone(),
                    cloud: world.cloud.clone(),
                    witness: world.witness.clone(),
                    liars: world.liars.clone(),
                    trace: world.trace.clone(),
                    clock: world.clock.clone(),
                    is_elected: start.replicas > 1,
                    random: RefCell::new(random.fork()),
                    slowest: Cell::new(start.slowest),
                    skew: Arc::default(),
                    plans: RefCell::new(VecDeque::new()),
                    current: RefCell::new(None),
                    past_calls: RefCell::default(),
                    terminate: Arc::default(),
                    records: RecordCount::default(),
                })
            };
            let replicas: Vec<_> = (0..start.replicas).map(replica).collect();
            world.sites.push(Site { server, replicas });
        }
        world
    }

    fn create_prerequisites(&self, server: &ApiServer) {
        for namespace in [NAMESPACE, "caip-system"] {
            let _ = server.create(Kind::Namespace, json!({"metadata": {"name": namespace}}));
        }
        self.create_secret(server);
        server.create(Kind::ClusterIdentity, identities::identity()).expect("it is valid");
        let infrastructure = json!({
            "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "OpenStackCluster", "name": "c",
        });
        let spec = json!({"infrastructureRef": infrastructure});
        let cluster = json!({"metadata": {"name": "c", "namespace": NAMESPACE}, "spec": spec});
        let _ = server.create(Kind::Cluster, cluster);
    }

    /// The credentials, as a user writes them.
    pub fn create_secret(&self, server: &ApiServer) {
        let data = serde_json::to_value(self.cloud.secret("ours")).expect("a Secret has a form");
        let _ =
            server.create(Kind::Secret, json!({"metadata": {"name": "cloud", "namespace": NAMESPACE}, "data": data}));
    }

    /// Starts the controllers, and what of Kubernetes runs in the background.
    pub fn begin(&self) {
        for (index, site) in self.sites.iter().enumerate() {
            for replica in &site.replicas {
                self.tasks.borrow_mut().push(tokio::task::spawn_local(replica.clone().run_forever()));
            }
            tokio::task::spawn_local(collect_garbage(site.server.clone()));
            tokio::task::spawn_local(end_namespaces(site.server.clone()));
            let watcher = PublicationWatcher {
                witness: self.witness.clone(),
                users_interfered: self.users_interfered.clone(),
                violations: self.violations.clone(),
                copied: RefCell::default(),
            };
            tokio::task::spawn_local(watcher.watch(index, site.server.clone()));
        }
    }

    pub async fn advance(&self, time: Duration) {
        sleep(time).await;
    }

    /// Lets time pass until the condition holds, but at most this long; returns whether it holds.
    pub async fn wait_until(&self, longest: Duration, is_so: impl Fn() -> bool) -> bool {
        let begin = Instant::now();
        while !is_so() && begin.elapsed() < longest {
            sleep(Duration::from_millis(500)).await;
        }
        is_so()
    }

    pub fn snapshot(&self, is_quiet: bool) -> Snapshot {
        let objects = |site: &Site| site.server.state().objects.values().cloned().collect::<Vec<Arc<Value>>>();
        let fips = self.cloud.floating_ips();
        Snapshot {
            clusters: self.sites.iter().map(objects).collect(),
            creatable: free_addresses(&self.cloud),
            fips,
            network: Some(self.network.clone()),
            subnets: addresses_of_subnets(&self.cloud),
            limits: self.limits(),
            others: self.witness.others(),
            forged: &self.witness.forged() | &self.abandoned(),
            was_altered: self.witness.was_altered(),
            has_hidden: self.witness.has_hidden(),
            is_quiet,
            now: self.clock.now(),
        }
    }

    /// What carries the mark of an id that was lost for good: nothing shows whose it is.
    fn abandoned(&self) -> BTreeSet<FloatingIpId> {
        let mut lost = self.lost_ids.borrow().clone();
        for site in &self.sites {
            lost = &lost - &site.server.all(Kind::Pool).iter().filter_map(|pool| laws::pool_id(pool)).collect();
        }
        let is_lost = |fip: &FloatingIp| Marks::read(fip).pools().iter().any(|pool| lost.contains(*pool));
        self.cloud.floating_ips().into_iter().filter(is_lost).map(|fip| fip.id).collect()
    }

    /// The most that each pool may have.
    /// Of a pool and a copy with its id, either may be the one that serves.
    fn limits(&self) -> BTreeMap<PoolId, usize> {
        let mut limits: BTreeMap<PoolId, Option<usize>> = BTreeMap::new();
        for site in &self.sites {
            for pool in site.server.all(Kind::Pool) {
                let Some(id) = laws::pool_id(&pool) else { continue };
                let limit = pool["spec"]["maxIPs"].as_u64().and_then(|limit| usize::try_from(limit).ok());
                let name = laws::text(&pool, "/metadata/name").trim_end_matches(COPY).to_owned();
                let floor = self.floors.borrow().get(&(site.server.id(), name)).copied().unwrap_or_default();
                let limit = limit.map(|limit| limit.max(floor));
                let of_both = |other: &mut Option<usize>| *other = other.zip(limit).map(|(one, other)| one.max(other));
                limits.entry(id).and_modify(of_both).or_insert(limit);
            }
        }
        limits.into_iter().filter_map(|(id, limit)| Some((id, limit?))).collect()
    }

    /// Judges the laws now.
    pub fn judge(&self, is_quiet: bool) {
        let mut violations = self.violations.borrow_mut();
        violations.extend(self.witness.take_violations());
        violations.extend(laws::judge(&self.snapshot(is_quiet)));
        let has_panicked = self.tasks.borrow().iter().any(JoinHandle::is_finished);
        violations.extend(has_panicked.then(|| Violation::new(7, "a process", "panicked")));
    }

    /// Records a violation unless the condition holds.
    pub fn expect(&self, law: u8, object: &str, what: &str, is_so: bool) {
        if !is_so {
            self.violations.borrow_mut().push(Violation::new(law, object, format!("not {what}")));
        }
    }

    pub fn has_violations(&self) -> bool {
        !self.violations.borrow().is_empty()
    }
}
