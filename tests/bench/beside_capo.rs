//! The same claims served by CAPO's built-in pool, by ours and by plain clients, one after another on the same servers.

use std::path::Path;
use std::time::Instant;

use futures::{StreamExt, stream};
use reqwest::Method;
use serde::Serialize;
use serde_json::json;

use crate::access_log::{AccessLog, count_writes};
use crate::plain::PlainClients;
use crate::provider::Provider;
use crate::report::Report;
use crate::requirement::{Requirement, print_requirements};
use crate::round::{Extras, Kind, Measured, Round, median};
use crate::support::{Cloud, Namespace, PROGRAM, required, with_namespace};

/// As many as the fastest plain clients: 16 are no faster (docs/benchmark.md).
const CLIENTS: usize = 8;
/// The number of claims for which the requirements are.
const COMPARED: usize = 100;
/// How often these are measured: one burst may take a quarter longer than another.
const REPEATS: usize = 3;

/// What is measured of each number of claims: who serves, and where the addresses come from.
const ROUNDS: [(Provider, Kind); 5] = [
    (Provider::InTree, Kind::New),
    (Provider::Ours, Kind::New),
    (Provider::InTree, Kind::Predefined),
    (Provider::Ours, Kind::Predefined),
    (Provider::Ours, Kind::Spare),
];

/// Plain clients.
#[derive(Serialize)]
struct Plain {
    claims: usize,
    /// With new addresses.
    bound_s: f64,
    claims_gone_s: f64,
    /// With addresses that exist, each of which gets a tag.
    predefined_bound_s: f64,
    alone: Alone,
}

/// The calls to Neutron that the controller needs for as many claims, and nothing else.
#[derive(Serialize)]
struct Alone {
    /// The creation of the floating IPs.
    created_s: f64,
    /// One tag on each of them.
    tagged_s: f64,
    /// Another description of each.
    described_s: f64,
    /// Their deletion.
    deleted_s: f64,
}

/// What was measured of one number of claims: of figures that were measured several times, the median.
struct Medians<'a> {
    rounds: &'a [Measured],
    plain: &'a [Plain],
    claims: usize,
}

/// Measures, prints and writes the figures. Returns whether they are as asked.
pub async fn run(claims: &[usize], network: &str, path: &Path) -> bool {
    let log = AccessLog::from_env();
    let (mut report, mut plain) = (Report::default(), Vec::new());
    for &claims in claims {
        let repeats = if claims == COMPARED { REPEATS } else { 1 };
        for repeat in 0..repeats {
            let mut rounds = ROUNDS;
            // So that CAPO's pool is not always first.
            if repeat % 2 == 1 {
                rounds.reverse();
            }
            for (provider, kind) in rounds {
                with_namespace(async |ns| {
                    let round = Round { provider, ns, log: &log, network, kind, claims };
                    let idles = kind == Kind::Predefined && claims == COMPARED && repeat == 0;
                    report.rounds.push(round.measure(Extras { idles, ..Extras::default() }).await);
                })
                .await;
            }
            with_namespace(async |ns| plain.push(measure_plain(ns, network, claims).await)).await;
        }
    }
    print!("{}", report.rounds_table());
    println!("\nPlain clients; seconds\n");
    for Plain { claims, bound_s, claims_gone_s, predefined_bound_s, alone } in &plain {
        let Alone { created_s, tagged_s, described_s, deleted_s } = alone;
        let new = format!("new: bound {bound_s:>6.2} gone {claims_gone_s:>6.2}");
        let writes = format!("tagged {tagged_s:>6.2} described {described_s:>6.2} deleted {deleted_s:>6.2}");
        let calls = format!("alone: created {created_s:>6.2} {writes}");
        println!("{claims:>6} | {new} | predefined: bound {predefined_bound_s:>6.2} | {calls}");
    }
    let medians = |claims| Medians { rounds: &report.rounds, plain: &plain, claims };
    println!("\nNeutron's calls alone, relative to CAPO's pool\n");
    for &claims in claims {
        let limits = medians(claims).limits().map(|(what, rate)| format!("{what} {rate:.2}")).join(", ");
        println!("{claims:>6} | {limits}");
    }
    let requirements = if claims.contains(&COMPARED) { medians(COMPARED).requirements() } else { Vec::new() };
    let all = json!({"rounds": report.rounds, "plain": plain, "requirements": requirements});
    std::fs::write(path, format!("{all:#}\n")).unwrap_or_else(|error| panic!("write {}: {error}", path.display()));
    let is_met = if requirements.is_empty() {
        println!("\nNot compared with what is asked for, which is of {COMPARED} claims");
        true
    } else {
        println!("\nOf {COMPARED} claims, the medians of {REPEATS} runs");
        print_requirements(&requirements)
    };
    println!("\nwritten to {}", path.display());
    is_met
}

impl Medians<'_> {
    fn all(&self, provider: Provider, kind: Kind) -> impl Iterator<Item = &Measured> {
        let wanted = (provider, kind.name(), self.claims);
        self.rounds.iter().filter(move |it| (it.provider, it.kind, it.claims) == wanted)
    }

    fn of(&self, provider: Provider, kind: Kind, figure: impl Fn(&Measured) -> f64) -> f64 {
        median(self.all(provider, kind).map(figure).collect())
    }

    fn of_plain(&self, figure: impl Fn(&Plain) -> f64) -> f64 {
        median(self.plain.iter().filter(|plain| plain.claims == self.claims).map(figure).collect())
    }

    fn bound(&self, provider: Provider, kind: Kind) -> f64 {
        self.of(provider, kind, |it| it.bind.bound_s)
    }

    fn given_back(&self, provider: Provider) -> f64 {
        self.of(provider, Kind::New, |it| it.release.given_back_s)
    }

    /// The rates of the calls that the controller needs, relative to CAPO's pool.
    fn limits(&self) -> [(&'static str, f64); 4] {
        let new = self.bound(Provider::InTree, Kind::New);
        let list = self.bound(Provider::InTree, Kind::Predefined);
        let released = self.given_back(Provider::InTree);
        [
            ("new: POSTs", new / self.of_plain(|it| it.alone.created_s)),
            ("spare: descriptions", new / self.of_plain(|it| it.alone.described_s)),
            ("predefined: tags", list / self.of_plain(|it| it.alone.tagged_s)),
            ("release: tags and DELETEs", released / self.of_plain(|it| it.alone.tagged_s + it.alone.deleted_s)),
        ]
    }

    fn requirements(&self) -> Vec<Requirement> {
        let (at_most, at_least) = (Requirement::at_most, Requirement::at_least);
        let (in_tree, ours) = (Provider::InTree, Provider::Ours);
        let cpu = |provider| self.of(provider, Kind::New, Measured::cpu_ms_per_claim);
        // Of the first run: CAPO is one process throughout.
        let memory = |provider| self.all(provider, Kind::New).map(|it| it.bind.rss_mib).next().unwrap_or(f64::NAN);
        let (their_new, our_new) = (self.bound(in_tree, Kind::New), self.bound(ours, Kind::New));
        let mut all = vec![
            at_least("new: rate, relative to CAPO's pool", 2.4, their_new / our_new),
            at_least("new: rate, relative to plain clients", 0.95, self.of_plain(|it| it.bound_s) / our_new),
            at_least(
                "spare: rate, relative to CAPO's pool with new addresses",
                10.0,
                their_new / self.bound(ours, Kind::Spare),
            ),
            at_least(
                "predefined: rate, relative to CAPO's pool",
                1.4,
                self.bound(in_tree, Kind::Predefined) / self.bound(ours, Kind::Predefined),
            ),
            at_least(
                "new: rate of release until Neutron has none left, relative to CAPO's pool",
                1.5,
                self.given_back(in_tree) / self.given_back(ours),
            ),
            at_most(
                "new: time until the claims are gone, relative to the tags alone",
                1.3,
                self.of(ours, Kind::New, |it| it.release.claims_gone_s) / self.of_plain(|it| it.alone.tagged_s),
            ),
            at_most("memory, relative to CAPO's controllers", 0.4, memory(ours) / memory(in_tree)),
            at_most(
                "processor time to bind and release, relative to CAPO's controllers",
                0.4,
                cpu(ours) / cpu(in_tree),
            ),
        ];
        if std::env::var_os("CAIP_PIN").is_some() {
            let created = self.of_plain(|it| it.alone.created_s);
            all.push(at_least("new: rate, relative to POST alone", 0.95, created / our_new));
        }
        let idle = |provider| self.rounds.iter().filter(|it| it.provider == provider).find_map(|it| it.idle.as_ref());
        if let (Some(their_idle), Some(our_idle)) = (idle(in_tree), idle(ours)) {
            let (writes, calls) =
                (count_writes(&our_idle.neutron_calls), our_idle.neutron_calls.values().sum::<usize>());
            all.push(at_most("free addresses: writes to the pool", 0.0, our_idle.pool_writes as f64));
            all.push(at_most("free addresses: writes to Neutron", 0.0, writes as f64));
            all.push(at_most("free addresses: listings", 1.0, (calls - writes) as f64));
            all.push(at_least("free addresses: writes of CAPO's pool to itself", 1.0, their_idle.pool_writes as f64));
        }
        let sizes = (mebibytes(PROGRAM), mebibytes(&format!("/proc/{}/exe", required("CAIP_CAPO_PID"))));
        let size = format!("size of the program, of CAPO's manager ({:.1} of {:.1} MiB)", sizes.0, sizes.1);
        all.push(Requirement::at_most(size, 0.4, sizes.0 / sizes.1));
        all
    }
}

fn mebibytes(program: &str) -> f64 {
    let found = std::fs::metadata(program).unwrap_or_else(|error| panic!("{program}: {error}"));
    found.len() as f64 / 1048576.0
}

async fn measure_plain(ns: &Namespace, network: &str, claims: usize) -> Plain {
    eprintln!("{claims} claims, new, plain clients");
    let cloud = ns.cloud().await;
    let network = cloud.network(network).await;
    let plain = PlainClients { world: &ns.world, namespace: &ns.name };

    let bindings = (0..claims).map(async |number| {
        let (sent, received) = tokio::sync::oneshot::channel();
        plain
            .bind(number, async || {
                let (id, address) = create(cloud, &network).await;
                sent.send(id).expect("the id is awaited");
                address
            })
            .await;
        (number, received.await.expect("the claim has an address"))
    });
    let (ids, bound_s) = timed(bindings).await;
    let releases = ids.iter().map(|(number, id)| plain.release(*number, async || cloud.tag(id, "released").await));
    let (_, claims_gone_s) = timed(releases).await;
    delete_all(cloud, ids.into_iter().map(|(_, id)| id)).await;

    let (created, created_s) = timed((0..claims).map(async |_| create(cloud, &network).await)).await;
    let (_, tagged_s) = timed(created.iter().map(|(id, _)| cloud.tag(id, "released"))).await;

    let bindings = (claims..).zip(&created).map(async |(number, (id, address))| {
        let take = async || {
            cloud.tag(id, "claimed").await;
            address.clone()
        };
        plain.bind(number, take).await
    });
    let (_, predefined_bound_s) = timed(bindings).await;
    timed((claims..2 * claims).map(|number| plain.release(number, async || ()))).await;
    let (_, described_s) = timed(created.iter().map(|(id, _)| cloud.describe(id, "of another claim"))).await;
    let deleted_s = delete_all(cloud, created.into_iter().map(|(id, _)| id)).await;
    let alone = Alone { created_s, tagged_s, described_s, deleted_s };
    Plain { claims, bound_s, claims_gone_s, predefined_bound_s, alone }
}

/// Makes these calls, some at a time. Returns their results, in any order, and how many seconds they took.
async fn timed<T>(calls: impl Iterator<Item = impl Future<Output = T>>) -> (Vec<T>, f64) {
    let begun = Instant::now();
    let results = stream::iter(calls).buffer_unordered(CLIENTS).collect().await;
    (results, begun.elapsed().as_secs_f64())
}

/// One POST and no other call; returns the id and the address.
async fn create(cloud: &Cloud, network: &str) -> (String, String) {
    let body = json!({"floatingip": {"floating_network_id": network, "description": "of the benchmark"}});
    let (status, answer) = cloud.call(Method::POST, "floatingips", Some(body)).await;
    let text = |field: &str| answer["floatingip"][field].as_str().map(str::to_owned);
    let made = text("id").zip(text("floating_ip_address"));
    made.unwrap_or_else(|| panic!("POST floatingips: {status} {answer}"))
}

/// Returns how many seconds it took.
async fn delete_all(cloud: &Cloud, ids: impl Iterator<Item = String>) -> f64 {
    timed(ids.map(async |id| cloud.delete(&id).await)).await.1
}
