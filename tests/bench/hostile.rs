//! An honest tenant beside hostile ones: how much longer its claims take, and how much memory the controller takes.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use futures::{StreamExt, stream};
use serde::Serialize;
use serde_json::json;
use tokio::time::{sleep, timeout};

use crate::claim_events::{ClaimEvents, bound_claim, deleted_claim, watch_claims};
use crate::round::median;
use crate::support::hostile::{Attack, CLAIMS, HostileTenants, SECRETS, Victim, with_hostile_tenants};
use crate::support::{
    Controller, Kind, LeaseHistory, LeaseObserver, Namespace, RENEW_DEADLINE, claim, leader_election_flags, pool,
    with_namespace,
};
use crate::usage;

/// Claims whose times are measured: this many one after another, and as many at once.
const MEASURED: usize = 20;
const TENANTS: usize = 10;
/// How many requests of the benchmark the API server gets at once.
const KUBERNETES_REQUESTS: usize = 16;
/// When something has gone wrong: no measurement takes this long.
const PATIENCE: Duration = Duration::from_secs(900);
/// After the last claim is gone, until Neutron has nothing left to do for it.
const REST: Duration = Duration::from_secs(10);

/// The most that is asked for.
const SLOWDOWN: f64 = 1.5;
const PEAK_MIB: f64 = 128.0;

/// What to measure.
#[derive(clap::Args)]
#[group(skip)]
pub struct Setting {
    /// Measure an honest tenant alone, and beside ten hostile ones.
    #[arg(long)]
    pub hostile: bool,
    /// Bound claims of the honest tenant.
    #[arg(long, default_value_t = 1000, requires = "hostile")]
    bound: usize,
    /// What the hostile tenants' servers do; with fewer than ten, they take turns.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Attack::ALL, requires = "hostile")]
    attacks: Vec<Attack>,
    /// For how many seconds the attack lasts before claims are measured.
    #[arg(long, default_value_t = 60, requires = "hostile")]
    attack_seconds: u64,
}

#[derive(Serialize, Default)]
struct Phase {
    /// From the creation of a claim until it is bound: the median where one follows the other, and of all at once.
    one_by_one_s: f64,
    at_once_s: f64,
    slowest_s: f64,
    rss_mib: f64,
    peak_mib: f64,
    /// Of one core, while no claim was created.
    cpu_percent: f64,
}

struct Measured<'a> {
    setting: &'a Setting,
    alone: Phase,
    beside: Phase,
    lease: LeaseHistory,
    calls: Vec<(Attack, BTreeMap<String, usize>)>,
}

impl Setting {
    /// Measures, prints and writes the figures. Returns whether they are as asked.
    pub async fn run(&self, network: &str, path: &Path) -> bool {
        let mut is_kept = false;
        with_namespace(async |ns| {
            let measured = self.measure(ns, network).await;
            print!("{}", measured.table());
            measured.write(path);
            is_kept = measured.requirements().iter().all(|(_, _, _, is_kept)| *is_kept);
        })
        .await;
        is_kept
    }

    async fn measure(&self, ns: &Namespace, network: &str) -> Measured<'_> {
        ns.create_secret_for("demo").await;
        let leading = leader_election_flags(&ns.name);
        let flags = [&["--namespace="][..], &leading.each_ref().map(String::as_str)].concat();
        let controller = ns.start_controller(&ns.world.account, &flags);
        ns.create(pool("public").network(network).served_in(&ns.name)).await;
        ns.await_condition(Kind::Pool, "public", "Ready", "True", "Ready", PATIENCE).await;
        let lease = LeaseObserver::start(&ns.world, &ns.name);
        let mut claims = watch_claims(ns).await;
        eprintln!("binding {} claims", self.bound);
        bind_at_once(ns, &mut claims, &names("bound", self.bound)).await;
        let victim = Victim::copy(ns.cloud().await, network, &pool_id(ns).await).await;

        eprintln!("measuring {MEASURED} claims alone");
        let alone = self.phase(ns, &mut claims, &controller, "alone", REST).await;
        let attacks: Vec<Attack> = self.attacks.iter().copied().cycle().take(TENANTS).collect();
        let (mut beside, mut calls) = (Phase::default(), Vec::new());
        with_hostile_tenants(&ns.world, victim, &ns.name, &attacks, async |tenants: &HostileTenants| {
            eprintln!("beside {TENANTS} hostile tenants, after {} s", self.attack_seconds);
            let attack = Duration::from_secs(self.attack_seconds);
            beside = self.phase(ns, &mut claims, &controller, "beside", attack).await;
            calls = attacks.iter().copied().zip(tenants.calls()).collect();
        })
        .await;
        controller.assert_running();
        let measured = Measured { setting: self, alone, beside, lease: lease.history(), calls };
        release(ns, &mut claims, &names("bound", self.bound)).await;
        measured
    }

    async fn phase(
        &self,
        ns: &Namespace,
        claims: &mut ClaimEvents,
        controller: &Controller,
        name: &str,
        before: Duration,
    ) -> Phase {
        let (cpu, begun) = (usage::cpu_time(controller.pid()), Instant::now());
        sleep(before).await;
        let cpu = (usage::cpu_time(controller.pid()) - cpu).as_secs_f64() / begun.elapsed().as_secs_f64();
        let mut one_by_one = Vec::new();
        let single = names(&format!("{name}-single"), MEASURED);
        for name in &single {
            one_by_one.extend(bind_at_once(ns, claims, std::slice::from_ref(name)).await);
        }
        let burst = names(&format!("{name}-burst"), MEASURED);
        let at_once = bind_at_once(ns, claims, &burst).await;
        release(ns, claims, &[single, burst].concat()).await;
        sleep(REST).await;
        let memory = usage::memory(controller.pid());
        let slowest_s = one_by_one.iter().chain(&at_once).copied().fold(0.0, f64::max);
        Phase {
            one_by_one_s: median(one_by_one),
            at_once_s: median(at_once),
            slowest_s,
            rss_mib: memory.now,
            peak_mib: memory.peak,
            cpu_percent: cpu * 100.0,
        }
    }
}

fn names(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{prefix}-{number:04}")).collect()
}

async fn pool_id(ns: &Namespace) -> String {
    let pool = ns.get(Kind::Pool, "public").await.expect("the pool is there");
    pool.data["status"]["poolID"].as_str().expect("a pool that serves has an id").to_owned()
}

/// Creates the claims of these servers. Returns how many seconds each took until it was bound.
async fn bind_at_once(ns: &Namespace, claims: &mut ClaimEvents, servers: &[String]) -> Vec<f64> {
    let creations = servers.iter().map(async |server| {
        let (claim, begun) = (claim(server).without_capo_finalizer(), Instant::now());
        let name = claim.name();
        ns.create(claim).await;
        (name, begun)
    });
    let creations = stream::iter(creations).buffer_unordered(KUBERNETES_REQUESTS).collect::<Vec<_>>();
    let (created, bound) = tokio::join!(creations, times(claims, servers, bound_claim));
    created.iter().map(|(name, begun)| (bound[name] - *begun).as_secs_f64()).collect()
}

async fn release(ns: &Namespace, claims: &mut ClaimEvents, servers: &[String]) {
    let deletions = servers.iter().map(async |server| ns.delete(Kind::Claim, &claim(server).name()).await);
    let deletions = stream::iter(deletions).buffer_unordered(KUBERNETES_REQUESTS).count();
    tokio::join!(deletions, times(claims, servers, deleted_claim));
}

/// When each of the servers' claims first had an event that `name_in` recognizes.
async fn times(
    claims: &mut ClaimEvents,
    servers: &[String],
    name_in: impl Fn(kube::runtime::watcher::Event<kube::core::DynamicObject>) -> Option<String>,
) -> BTreeMap<String, Instant> {
    let mut left: std::collections::BTreeSet<String> = servers.iter().map(|server| claim(server).name()).collect();
    let mut seen = BTreeMap::new();
    let all = async {
        while !left.is_empty() {
            let event = claims.next().await.expect("a watch has no end").expect("the claims can be watched");
            if let Some(name) = name_in(event).filter(|name| left.remove(name)) {
                seen.insert(name, Instant::now());
            }
        }
    };
    if timeout(PATIENCE, all).await.is_err() {
        panic!("{} of {} claims are not bound or gone", left.len(), servers.len());
    }
    seen
}

impl Measured<'_> {
    /// Of each: what it is, the most that is asked for, what was measured, whether it is kept.
    fn requirements(&self) -> Vec<(&'static str, f64, f64, bool)> {
        let at_most = |what, most: f64, measured: f64| (what, most, measured, measured <= most);
        let gap = self.lease.longest_gap.as_secs_f64();
        let changes = self.lease.holders.len().max(self.lease.transitions.len()).saturating_sub(1);
        vec![
            at_most("median time of a claim, one by one: times that alone", SLOWDOWN, self.slowdown_one_by_one()),
            at_most("median time of a claim, at once: times that alone", SLOWDOWN, self.slowdown_at_once()),
            at_most("peak memory of the controller, MiB", PEAK_MIB, self.beside.peak_mib),
            at_most("changes of the Lease's holder", 0.0, changes as f64),
            at_most("longest time between two renewals of the Lease, s", RENEW_DEADLINE.as_secs_f64(), gap),
        ]
    }

    fn slowdown_one_by_one(&self) -> f64 {
        self.beside.one_by_one_s / self.alone.one_by_one_s
    }

    fn slowdown_at_once(&self) -> f64 {
        self.beside.at_once_s / self.alone.at_once_s
    }

    fn table(&self) -> String {
        let mut text = String::new();
        self.write_table(&mut text).expect("a string takes any text");
        text
    }

    fn write_table(&self, text: &mut String) -> std::fmt::Result {
        writeln!(
            text,
            "\nAn honest tenant with {} bound claims, alone and beside {TENANTS} hostile tenants with {SECRETS} pools and \
             {CLAIMS} claims each\n",
            self.setting.bound
        )?;
        writeln!(text, "{:<56} {:>10} {:>10}", "", "alone", "beside")?;
        let mut row = |what: &str, alone: f64, beside: f64| writeln!(text, "{what:<56} {alone:>10.2} {beside:>10.2}");
        let (alone, beside) = (&self.alone, &self.beside);
        row("median time of 20 claims, one by one, s", alone.one_by_one_s, beside.one_by_one_s)?;
        row("median time of 20 claims, at once, s", alone.at_once_s, beside.at_once_s)?;
        row("slowest of the 40 claims, s", alone.slowest_s, beside.slowest_s)?;
        row("memory of the controller, MiB", alone.rss_mib, beside.rss_mib)?;
        row("peak memory of the controller, MiB", alone.peak_mib, beside.peak_mib)?;
        row("processor time of the controller, % of a core", alone.cpu_percent, beside.cpu_percent)?;
        writeln!(text, "\n{:<56} {:>10} {:>10}", "Asked", "at most", "measured")?;
        for (what, most, measured, is_kept) in self.requirements() {
            let verdict = if is_kept { "PASS" } else { "MISS" };
            writeln!(text, "{what:<56} {most:>10} {measured:>10.2}  {verdict}")?;
        }
        writeln!(text, "\nCalls to the hostile servers")?;
        for (attack, calls) in &self.calls {
            let calls: Vec<String> = calls.iter().map(|(call, count)| format!("{count} {call}")).collect();
            writeln!(text, "  {attack:?}: {}", calls.join(", "))?;
        }
        Ok(())
    }

    fn write(&self, path: &Path) {
        let cores = std::thread::available_parallelism().map_or(0, usize::from);
        let calls: Vec<_> =
            self.calls.iter().map(|(attack, calls)| json!({"attack": format!("{attack:?}"), "calls": calls})).collect();
        let all = json!({
            "cores": cores, "bound": self.setting.bound, "attack_s": self.setting.attack_seconds,
            "alone": self.alone, "beside": self.beside, "calls": calls,
            "lease": {
                "holders": self.lease.holders.len(), "renewals": self.lease.renewals,
                "longest_gap_s": self.lease.longest_gap.as_secs_f64(),
            },
        });
        std::fs::write(path, format!("{all:#}\n")).unwrap_or_else(|error| panic!("write {}: {error}", path.display()));
        println!("\nwritten to {}", path.display());
    }
}
