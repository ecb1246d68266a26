//! Thousands of claims, in many pools and in one, against a [stand-in](crate::stand_in) for OpenStack and a real API server:
//! what a claim costs does not grow with their number, and what is settled costs next to nothing.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::time::{Duration, Instant};

use futures::{StreamExt, stream};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::core::DynamicObject;
use kube::runtime::watcher::Event;
use kube::{Api, ResourceExt};
use serde_json::json;
use tokio::time::{sleep, timeout};

use crate::access_log::{Calls, count_writes};
use crate::claim_events::{ClaimEvents, bound_claim, deleted_claim, watch_claims_in};
use crate::objects::{api, create, delete};
use crate::plain::PlainClients;
use crate::provider::MAX_FLOATING_IPS;
use crate::requirement::print_requirements;
use crate::round::median;
use crate::scale_figures::{Few, Figures};
use crate::settled::{await_stillness, changes};
use crate::stand_in::{FAILING, StandIn};
use crate::support::{Controller, Kind, Manifest, World, claim, pool, unique};
use crate::usage;

/// How many requests of the benchmark the API server gets at once.
const REQUESTS: usize = 16;
/// When something has gone wrong: no step takes this long.
const PATIENCE: Duration = Duration::from_secs(3600);
/// The last status and the last event may be written a little after the last claim was bound or gone.
const STILL: Duration = Duration::from_secs(10);
/// Longer than a new process waits for late calls of the one before.
const FENCE: Duration = Duration::from_secs(45);
/// How long waiting claims are watched at most.
const WAITED: Duration = Duration::from_secs(60);
/// Claims of another pool whose times are measured beside one that fails, and how often.
const OTHERS: usize = 20;
const ROUNDS: usize = 5;
/// What a claim costs among thousands is compared with what it costs among so many.
const FEW: usize = 100;
/// How the names of claims that wait begin.
const WAITING: &str = "waiting-";
/// How many floating IPs the controller asks for at once.
const PAGE: usize = 1000;
/// Resources that the controller reads.
const READ: [&str; 8] = [
    "openstackfloatingippools",
    "openstackclusters",
    "clusters",
    "ipaddressclaims",
    "ipaddresses",
    "secrets",
    "configmaps",
    "namespaces",
];

/// What to measure.
#[derive(Clone, clap::Args)]
#[group(skip)]
pub struct Setting {
    /// Measure thousands of claims against a stand-in for OpenStack.
    #[arg(long)]
    pub scale: bool,
    /// Bound claims.
    #[arg(long, default_value_t = 10_000, requires = "scale")]
    total: usize,
    /// In how many pools they are; one setting after another.
    #[arg(long, value_delimiter = ',', default_values_t = [100, 1], requires = "scale")]
    pools: Vec<usize>,
    /// In how many projects, each with a namespace of its own, the pools are at most.
    #[arg(long, default_value_t = 20, requires = "scale")]
    projects: usize,
    /// Claims that wait at a pool that is used up.
    #[arg(long, default_value_t = 1000, requires = "scale")]
    waiting: usize,
    /// How many seconds bound claims are watched in which nothing changes.
    #[arg(long, default_value_t = 600, requires = "scale")]
    settled_seconds: u64,
    /// Let the stand-in take as long as the real Neutron was measured to.
    #[arg(long)]
    pub latency: bool,
    /// Only count calls and writes and measure memory, which are the same on each machine, and no times.
    #[arg(long, requires = "scale")]
    costs: bool,
}

impl Setting {
    /// Measures, prints and writes the figures. Returns whether they are as asked.
    pub async fn run(&self, path: &Path) -> bool {
        let (mut all, mut is_kept) = (Vec::new(), true);
        let plainly_bound_s = if self.costs { 0.0 } else { self.bind_plainly().await };
        let write = |all: &[Figures]| {
            let report = json!({"latency": self.latency, "settings": all});
            std::fs::write(path, format!("{report:#}\n"))
                .unwrap_or_else(|error| panic!("write {}: {error}", path.display()));
        };
        for &pools in &self.pools {
            let few = if self.costs { Few::default() } else { self.measure_few(pools).await };
            all.push(Figures { plainly_bound_s, few, ..Bench::start(self, pools).await.measure().await });
            write(&all);
        }
        for figures in &all {
            println!("\n{} claims in {} pools", figures.claims, figures.pools);
            let times = if self.costs { Vec::new() } else { figures.times() };
            let rates = if self.costs || self.latency { Vec::new() } else { figures.rates() };
            if self.latency {
                println!("{:.1} claims bound in a second", figures.claims as f64 / figures.bound_s);
            }
            is_kept &= print_requirements(&[figures.costs(), times, rates].concat());
        }
        println!("\nwritten to {}", path.display());
        is_kept
    }

    /// Binds and releases few claims in as many pools, several times: the processor time of one round is a few ticks of the
    /// clock by which Linux counts it.
    async fn measure_few(&self, pools: usize) -> Few {
        let few = Self { total: FEW, ..self.clone() };
        let mut bench = Bench::start(&few, pools).await;
        let mut mean = Few::default();
        for _ in 0..ROUNDS {
            let mut figures = Figures::default();
            bench.bind_all(&mut figures).await;
            bench.release(0..FEW, &mut figures).await;
            mean.cpu_ms_to_bind += figures.cpu_ms_to_bind / ROUNDS as f64;
            mean.cpu_ms_to_release += figures.cpu_ms_to_release / ROUNDS as f64;
        }
        mean
    }

    /// How many seconds plain clients take to create and bind as many claims, without a controller. They release them, since
    /// a controller would keep what is left in its memory.
    async fn bind_plainly(&self) -> f64 {
        eprintln!("{} claims by plain clients", self.total);
        let world = World::new().await;
        let namespace = create_namespace(&world, "plain").await;
        let (plain, begun) = (PlainClients { world: &world, namespace: &namespace }, Instant::now());
        let bind = (0..self.total).map(async |number| {
            let address = std::net::Ipv4Addr::from(0x0a00_0000 + number as u32).to_string();
            plain.bind(number, async || address).await;
        });
        stream::iter(bind).buffer_unordered(REQUESTS).count().await;
        let bound_s = begun.elapsed().as_secs_f64();
        let release = (0..self.total).map(async |number| plain.release(number, async || ()).await);
        stream::iter(release).buffer_unordered(REQUESTS).count().await;
        bound_s
    }
}

struct Bench<'a> {
    setting: &'a Setting,
    world: World,
    stand_in: StandIn,
    /// The label of the pools here: those of an earlier setting, whose stand-in has ended, are not served.
    filter: String,
    controller: Option<Controller>,
    /// One for each project.
    namespaces: Vec<String>,
    pools: usize,
    events: ClaimEvents,
}

impl<'a> Bench<'a> {
    async fn start(setting: &'a Setting, pools: usize) -> Self {
        let (world, stand_in) = (World::new().await, StandIn::start(setting.latency));
        let filter = unique("scale");
        let controller = Some(start_controller(&filter));
        let claims = Api::all_with(world.client.clone(), &Kind::Claim.resource(world.version));
        let events = watch_claims_in(claims).await;
        let mut bench = Self { setting, world, stand_in, filter, controller, namespaces: Vec::new(), pools, events };
        for project in 0..setting.projects.min(pools) {
            let namespace = bench.create_namespace(&format!("project-{project}")).await;
            bench.namespaces.push(namespace);
        }
        for number in 0..pools {
            bench.create(&bench.namespace_of(number), bench.pool(&pool_name(number))).await;
        }
        for number in 0..pools {
            bench.await_ready(&bench.namespace_of(number), &pool_name(number)).await;
        }
        bench
    }

    async fn measure(&mut self) -> Figures {
        let mut figures = Figures { claims: self.setting.total, pools: self.pools, ..Figures::default() };
        self.bind_all(&mut figures).await;
        self.watch_settled(&mut figures).await;
        figures.peak_mib = self.memory().peak;
        if !self.setting.costs {
            (figures.others_alone_s, figures.others_beside_s) = self.measure_others().await;
        }
        self.restart(&mut figures).await;
        self.wait_at_used_up_pool(&mut figures).await;
        // The first one was released before, and there is one more.
        self.release(1..self.setting.total + 1, &mut figures).await;
        figures
    }

    /// The claim of this number: the pools have equally many. No two claims have one name, in whatever namespaces.
    fn claim(&self, number: usize) -> (String, Manifest) {
        let pool = number % self.pools;
        let claim = claim(&format!("server-{number:05}")).without_capo_finalizer().from(&pool_name(pool));
        (self.namespace_of(pool), claim.into())
    }

    fn pool(&self, name: &str) -> Manifest {
        pool(name).network("public").served_in(&self.filter).into()
    }

    fn namespace_of(&self, pool: usize) -> String {
        self.namespaces[pool % self.namespaces.len()].clone()
    }

    async fn bind_all(&mut self, figures: &mut Figures) {
        eprintln!("binding {} claims in {} pools", self.setting.total, self.pools);
        let (calls, cpu) = (self.stand_in.calls().await, self.cpu());
        let claims: Vec<_> = (0..self.setting.total).map(|number| self.claim(number)).collect();
        figures.bound_s = self.bind(claims).await.1;
        // Events follow later than what they tell of. If nothing is ever still, the writes that are counted next say so.
        let _last = await_stillness(async || self.versions().await, STILL, 30).await;
        figures.cpu_ms_to_bind = (self.cpu() - cpu).as_secs_f64() * 1000.0 / self.setting.total as f64;
        figures.calls_to_bind = since(&calls, &self.stand_in.calls().await);
        figures.rss_bound_mib = self.memory().now;
    }

    async fn watch_settled(&mut self, figures: &mut Figures) {
        let watched = Duration::from_secs(self.setting.settled_seconds);
        eprintln!("watching {} s", watched.as_secs());
        let (calls, cpu, versions) = (self.stand_in.calls().await, self.cpu(), self.versions().await);
        let lists = self.lists().await;
        sleep(watched).await;
        figures.settled_cpu_percent = (self.cpu() - cpu).as_secs_f64() * 100.0 / watched.as_secs_f64();
        figures.settled_lists_per_minute = (self.lists().await - lists) * 60.0 / watched.as_secs_f64();
        figures.settled_calls = since(&calls, &self.stand_in.calls().await);
        (figures.settled_s, figures.settled_listings) = (watched.as_secs_f64(), self.listings(&figures.settled_calls));
        figures.settled_writes =
            changes(&versions, &self.versions().await).len() + count_writes(&figures.settled_calls);
    }

    /// How often each project was listed. A listing of many floating IPs has several pages.
    fn listings(&self, calls: &Calls) -> f64 {
        let pages = calls.get("GET floatingips").copied().unwrap_or_default();
        let of_project = self.setting.total.div_ceil(self.namespaces.len());
        pages as f64 / (self.namespaces.len() * of_project.div_ceil(PAGE).max(1)) as f64
    }

    async fn restart(&mut self, figures: &mut Figures) {
        eprintln!("kill -9");
        let (calls, versions) = (self.stand_in.calls().await, self.versions().await);
        self.controller = None;
        self.controller = Some(start_controller(&self.filter));
        let new = self.claim(self.setting.total);
        let name = new.1.name();
        figures.served_after_restart_s = self.bind(vec![new]).await.1;
        sleep(FENCE).await;
        figures.restart_calls = since(&calls, &self.stand_in.calls().await);
        let mut writes = changes(&versions, &self.versions().await);
        // The claim has its own objects and events, and the status of its pool has one more address.
        let pool = self.setting.total % self.pools;
        let own_pool = format!("Pool {}/{} ", self.namespace_of(pool), pool_name(pool));
        writes.retain(|version| !version.contains(&name) && !version.starts_with(&own_pool));
        figures.restart_writes = writes.len();
        figures.rss_after_restart_mib = self.memory().now;
    }

    /// Lowers the limit of the first pool to what it has, and lets claims wait there.
    async fn wait_at_used_up_pool(&mut self, figures: &mut Figures) {
        eprintln!("{} claims wait", self.setting.waiting);
        let namespace = self.namespace_of(0);
        let of_pool = self.setting.total.div_ceil(self.pools) + 1;
        let change = json!({"spec": {"maxIPs": of_pool}});
        let pools = self.api(Kind::Pool, &namespace);
        pools
            .patch(&pool_name(0), &PatchParams::default(), &Patch::Merge(&change))
            .await
            .expect("the pool can be changed");
        // Until then, claims are served with the limit of before.
        let is_observed = async || {
            let pool = pools.get(&pool_name(0)).await.expect("it is there");
            pool.data["status"]["observedGeneration"].as_i64() == pool.metadata.generation
        };
        while !is_observed().await {
            sleep(Duration::from_millis(100)).await;
        }
        let waiting =
            |number: usize| claim(&format!("{WAITING}{number:05}")).without_capo_finalizer().from(&pool_name(0));
        let claims: Vec<_> =
            (0..self.setting.waiting).map(|number| (namespace.clone(), waiting(number).into())).collect();
        self.create_all(claims).await;
        sleep(STILL).await;
        let (cpu, begun) = (self.cpu(), Instant::now());
        sleep(WAITED.min(Duration::from_secs(self.setting.settled_seconds))).await;
        figures.waiting_cpu_percent = (self.cpu() - cpu).as_secs_f64() * 100.0 / begun.elapsed().as_secs_f64();

        // Each time, the claim that was bound last gives its address to the next one.
        let mut bound = vec![self.claim(0).1.name()];
        for _ in 0..ROUNDS {
            let oldest = self.oldest_waiting(&namespace).await;
            let begun = Instant::now();
            self.delete(&namespace, &bound[bound.len() - 1]).await;
            let is_waiting = |name: &String| name.starts_with(WAITING) && !bound.contains(name);
            let served = await_count(&mut self.events, 1, |event| bound_claim(event).filter(is_waiting)).await;
            figures.served_after_release_s = begun.elapsed().as_secs_f64().max(figures.served_after_release_s);
            assert_eq!(served.keys().next(), Some(&oldest), "the oldest waiting claim is served first");
            bound.push(oldest);
            sleep(Duration::from_secs(2)).await;
        }
        let names = (0..self.setting.waiting).map(|number| waiting(number).name());
        let left = names.filter(|name| !bound[..bound.len() - 1].contains(name));
        self.delete_all(left.map(|name| (namespace.clone(), name)).collect()).await;
        let change = json!({"spec": {"maxIPs": null}});
        pools
            .patch(&pool_name(0), &PatchParams::default(), &Patch::Merge(&change))
            .await
            .expect("the pool can be changed");
        sleep(STILL).await;
    }

    /// The claim that was created first, of those that wait.
    async fn oldest_waiting(&self, namespace: &str) -> String {
        let claims = self.api(Kind::Claim, namespace).list(&ListParams::default()).await.expect("claims are listed");
        let is_bound = |claim: &DynamicObject| claim.data["status"]["addressRef"]["name"].is_string();
        let claims = claims.items.iter().filter(|claim| claim.name_any().starts_with(WAITING) && !is_bound(claim));
        let oldest = claims.min_by_key(|claim| (claim.creation_timestamp(), claim.name_any()));
        oldest.expect("there are claims").name_any()
    }

    /// All that are left.
    async fn release(&mut self, claims: Range<usize>, figures: &mut Figures) {
        eprintln!("releasing all claims");
        let (calls, cpu, begun) = (self.stand_in.calls().await, self.cpu(), Instant::now());
        let claims = claims.map(|number| self.claim(number));
        let claims: Vec<_> = claims.map(|(namespace, claim)| (namespace, claim.name())).collect();
        self.delete_all(claims).await;
        figures.gone_s = begun.elapsed().as_secs_f64();
        self.await_no_floating_ips().await;
        figures.given_back_s = begun.elapsed().as_secs_f64();
        figures.calls_to_release = since(&calls, &self.stand_in.calls().await);
        // The last status and the last events are written later.
        let _last = await_stillness(async || self.versions().await, STILL, 30).await;
        figures.cpu_ms_to_release = (self.cpu() - cpu).as_secs_f64() * 1000.0 / self.setting.total as f64;
        figures.peak_mib = figures.peak_mib.max(self.memory().peak);
    }

    /// Created and deleted floating IPs are as many as each other.
    async fn await_no_floating_ips(&self) {
        let count = |calls: &Calls, name: &str| calls.get(name).copied().unwrap_or_default();
        let all = async {
            loop {
                let calls = self.stand_in.calls().await;
                if count(&calls, "POST floatingips") == count(&calls, "DELETE floatingips/ID") {
                    return;
                }
                sleep(Duration::from_millis(100)).await;
            }
        };
        timeout(PATIENCE, all).await.expect("all floating IPs are deleted");
    }

    /// The median time of claims of a pool, alone and beside a pool whose Neutron fails and that has many claims. Alone
    /// before and after, so that what changes meanwhile counts on both sides.
    async fn measure_others(&mut self) -> (f64, f64) {
        eprintln!("{OTHERS} claims of a pool, alone and beside one that fails");
        let namespace = self.create_namespace("others").await;
        self.create(&namespace, self.pool("others")).await;
        self.await_ready(&namespace, "others").await;
        let mut alone = self.times_of_others(&namespace, "before").await;
        // A project of the same cloud.
        let failing = self.create_namespace(FAILING).await;
        self.create(&failing, self.pool("failing")).await;
        let claims = (0..self.setting.waiting).map(|number| {
            let claim = claim(&format!("failing-{number:05}")).without_capo_finalizer().from("failing");
            (failing.clone(), claim.into())
        });
        self.create_all(claims.collect()).await;
        sleep(STILL).await;
        let beside = self.times_of_others(&namespace, "beside").await;
        let names =
            (0..self.setting.waiting).map(|number| (failing.clone(), claim(&format!("failing-{number:05}")).name()));
        self.delete_all(names.collect()).await;
        delete(&self.world, Kind::Pool, &failing, "failing").await;
        sleep(STILL).await;
        alone.extend(self.times_of_others(&namespace, "after").await);
        (median(alone), median(beside))
    }

    async fn times_of_others(&mut self, namespace: &str, name: &str) -> Vec<f64> {
        let mut times = Vec::new();
        for round in 0..ROUNDS {
            let claims: Vec<(String, Manifest)> = (0..OTHERS)
                .map(|number| {
                    let claim = claim(&format!("{name}-{round}-{number:02}")).without_capo_finalizer().from("others");
                    (namespace.to_owned(), claim.into())
                })
                .collect();
            let names: Vec<_> = claims.iter().map(|(namespace, claim)| (namespace.clone(), claim.name())).collect();
            times.extend(self.bind(claims).await.0);
            self.delete_all(names).await;
            sleep(Duration::from_secs(3)).await;
        }
        times
    }

    /// Creates the claims. Returns how many seconds each took until it was bound, and how many all took.
    async fn bind(&mut self, claims: Vec<(String, Manifest)>) -> (Vec<f64>, f64) {
        let (begun, count) = (Instant::now(), claims.len());
        let (world, mut created) = (self.world.clone(), BTreeMap::new());
        let creations = stream::iter(claims).map(|(namespace, claim)| {
            let world = &world;
            async move {
                let (name, begun) = (claim.name(), Instant::now());
                create(world, &namespace, claim).await;
                (name, begun)
            }
        });
        let creations = creations.buffer_unordered(REQUESTS).for_each(|(name, begun)| {
            created.insert(name, begun);
            std::future::ready(())
        });
        let ((), bound) = tokio::join!(creations, await_count(&mut self.events, count, bound_claim));
        let times = bound.iter().filter_map(|(name, at)| Some((*at - *created.get(name)?).as_secs_f64())).collect();
        (times, begun.elapsed().as_secs_f64())
    }

    async fn create_all(&self, claims: Vec<(String, Manifest)>) {
        let creations =
            claims.into_iter().map(|(namespace, claim)| async move { self.create(&namespace, claim).await });
        stream::iter(creations).buffer_unordered(REQUESTS).count().await;
    }

    /// Deletes claims, and waits until they are gone.
    async fn delete_all(&mut self, claims: Vec<(String, String)>) {
        let (world, count) = (self.world.clone(), claims.len());
        let deletions = claims.into_iter().map(|(namespace, name)| {
            let world = &world;
            async move { delete(world, Kind::Claim, &namespace, &name).await }
        });
        let deletions = stream::iter(deletions).buffer_unordered(REQUESTS).count();
        tokio::join!(deletions, await_count(&mut self.events, count, deleted_claim));
    }

    /// With credentials of a project.
    async fn create_namespace(&self, project: &str) -> String {
        let name = create_namespace(&self.world, project).await;
        let clouds = self.stand_in.clouds_yaml(project);
        let secret = json!({"metadata": {"name": "cloud"}, "stringData": {"clouds.yaml": clouds}});
        self.create(&name, Manifest::new(Kind::Secret, secret)).await;
        name
    }

    async fn await_ready(&self, namespace: &str, name: &str) {
        let pools = self.api(Kind::Pool, namespace);
        let is_ready = |pool: &DynamicObject| {
            let conditions = pool.data["status"]["conditions"].as_array().into_iter().flatten();
            conditions.into_iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
        };
        let ready = async {
            while !is_ready(&pools.get(name).await.expect("the pool is there")) {
                sleep(Duration::from_millis(200)).await;
            }
        };
        timeout(Duration::from_secs(120), ready)
            .await
            .unwrap_or_else(|_| panic!("pool {namespace}/{name} is not Ready"));
    }

    fn api(&self, kind: Kind, namespace: &str) -> Api<DynamicObject> {
        api(&self.world, kind, namespace)
    }

    async fn create(&self, namespace: &str, manifest: impl Into<Manifest>) -> DynamicObject {
        create(&self.world, namespace, manifest.into()).await
    }

    async fn delete(&self, namespace: &str, claim: &str) {
        delete(&self.world, Kind::Claim, namespace, claim).await;
    }

    /// Kind, name and version of every object that the controller writes.
    async fn versions(&self) -> Vec<String> {
        let mut versions = Vec::new();
        for namespace in &self.namespaces {
            for kind in [Kind::Pool, Kind::Claim, Kind::Address, Kind::Event] {
                let objects = self
                    .api(kind, namespace)
                    .list_metadata(&ListParams::default())
                    .await
                    .expect("objects can be listed");
                versions.extend(objects.items.iter().map(|object| {
                    format!(
                        "{kind:?} {namespace}/{} {}",
                        object.name_any(),
                        object.resource_version().unwrap_or_default()
                    )
                }));
            }
        }
        versions.sort();
        versions
    }

    /// How many LIST requests the API server has answered for the kinds that the controller reads; by its own metrics.
    async fn lists(&self) -> f64 {
        let request = http::Request::get("/metrics").body(Vec::new()).expect("that is a request");
        let metrics = self.world.client.request_text(request).await.expect("an administrator may read the metrics");
        let is_counted = |line: &&str| {
            let has_resource = |resource: &&str| line.contains(&format!("resource=\"{resource}\""));
            line.starts_with("apiserver_request_total{")
                && line.contains("verb=\"LIST\"")
                && READ.iter().any(has_resource)
        };
        let counts = metrics.lines().filter(is_counted).filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok());
        counts.sum()
    }

    fn pid(&self) -> u32 {
        let controller = self.controller.as_ref().expect("the controller runs");
        controller.assert_running();
        controller.pid()
    }

    fn cpu(&self) -> Duration {
        usage::cpu_time(self.pid())
    }

    fn memory(&self) -> usage::Memory {
        usage::memory(self.pid())
    }
}

/// Creates a namespace whose name begins so.
async fn create_namespace(world: &World, prefix: &str) -> String {
    let name = unique(prefix);
    let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(world.client.clone());
    let body = serde_json::from_value(json!({"metadata": {"name": name}})).expect("that is a namespace");
    namespaces.create(&PostParams::default(), &body).await.expect("a namespace of a new name can be created");
    name
}

fn start_controller(filter: &str) -> Controller {
    Controller::start(&[MAX_FLOATING_IPS, &format!("--watch-filter={filter}")])
}

fn pool_name(number: usize) -> String {
    format!("pool-{number:03}")
}

/// The calls that were made in between.
fn since(before: &Calls, after: &Calls) -> Calls {
    let count = |name: &String| before.get(name).copied().unwrap_or_default();
    let calls = after.iter().map(|(name, calls)| (name.clone(), calls - count(name)));
    calls.filter(|(_, calls)| *calls > 0).collect()
}

/// Waits until `name_in` has recognized this many claims. Returns when it first did so for each.
async fn await_count(
    events: &mut ClaimEvents,
    count: usize,
    name_in: impl Fn(Event<DynamicObject>) -> Option<String>,
) -> BTreeMap<String, Instant> {
    let mut seen = BTreeMap::new();
    let all = async {
        while seen.len() < count {
            let event = events.next().await.expect("a watch has no end").expect("the claims can be watched");
            if let Some(name) = name_in(event) {
                seen.entry(name).or_insert_with(Instant::now);
            }
        }
    };
    if timeout(PATIENCE, all).await.is_err() {
        panic!("{} of {count} claims are bound or gone", seen.len());
    }
    seen
}
