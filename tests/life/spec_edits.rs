//! A sample of the edits of `tests/simulation/spec_edits` on real servers: within a minute an edited pool is as one that
//! was created with that spec. Its conditions and counters are the same, and so is what the next claims get.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::time::Instant;

use futures::{FutureExt, StreamExt, future, stream};

use super::*;
use crate::support::{Project, clouds_yaml, pool, with_namespace};

const NETWORK: &str = "public-large";
/// An edit takes effect within this time.
const MINUTE: Duration = Duration::from_secs(60);
/// Cases at a time, beside other tests.
const CONCURRENT_CASES: usize = 4;
const ORIGIN: &str = "openstackfloatingippool.ipam.cluster.x-k8s.io/origin";

/// The addresses of the floating IPs that a project has, by what the pool does with them.
struct Addresses {
    /// In the list of the pool, and bound.
    bound: String,
    /// In the list of the pool.
    listed: String,
    /// Free, and without marks.
    free: String,
}

type Change = fn(PoolBuilder, &Addresses) -> PoolBuilder;

/// A name, and the specs that the pool has one after the other.
type Case = (&'static str, &'static [Change]);

const CASES: [Case; 8] = [
    ("maxIPs is 3, then 2", &[|pool, _| pool.max_ips(3), |pool, _| pool.max_ips(2)]),
    ("minFree is 1", &[|pool, _| pool.min_free(1)]),
    ("the list has a missing address", &[|pool, addresses| pool.list([&addresses.bound, MISSING])]),
    ("an address is excluded", &[|pool, addresses| pool.excluded([&addresses.listed])]),
    ("an address is reserved", &[|pool, addresses| pool.reserve(&claim_name(RESERVING), &addresses.listed)]),
    ("free addresses are reused", &[|pool, _| pool.reuse_unmarked()]),
    ("the network is wrong, then right", &[|pool, _| pool.network("nowhere"), |pool, _| pool]),
    ("there is no network", &[|pool, _| pool.without("floatingIPNetwork")]),
];

/// The server whose claim has an address before the edit.
const BOUND: &str = "web-0";
/// Servers whose claims come after it, one after the other. An edit may reserve an address for the second.
const ASKING: &str = "asking";
const RESERVING: &str = "reserving";

/// A floating IP that the pool created.
const OTHER: &str = "another one";

/// What a user sees, by what is looked at.
type Facts = BTreeMap<String, String>;

struct Side<'a> {
    ns: &'a Namespace,
    addresses: Addresses,
}

impl<'a> Side<'a> {
    async fn prepare(ns: &'a Namespace, project: &Project) -> Self {
        ns.use_cloud(project.cloud().await);
        ns.apply_secret("cloud", &clouds_yaml(project.entry())).await;
        let create = async || ns.create_floating_ip(NETWORK).await.address;
        Self { ns, addresses: Addresses { bound: create().await, listed: create().await, free: create().await } }
    }

    /// Writes the pool as `kubectl apply` does, and waits until its status is of that spec.
    async fn apply(&self, change: Change) {
        let Addresses { bound, listed, .. } = &self.addresses;
        let first = pool("public").list([bound, listed]).network(NETWORK);
        self.ns.apply(change(first, &self.addresses)).await;
        await_spec_observed(self.ns).await;
    }

    async fn bind_first(&self) {
        assert_eq!(self.ns.bind(claim(BOUND)).await, self.addresses.bound);
    }

    /// Creates claims, and waits for each until it has an address or says why not.
    async fn ask(&self) {
        for server in [ASKING, RESERVING] {
            self.ns.create(claim(server)).await;
            let is_decided = |claim: Option<&DynamicObject>| {
                claim.and_then(|claim| condition_of(claim, "Ready")).is_some_and(|ready| ready["status"] != "Unknown")
            };
            self.ns.await_object(Kind::Claim, &claim_name(server), RECOVERY, "decided", is_decided).await;
        }
    }

    async fn look(&self) -> Facts {
        let pool = self.ns.get(Kind::Pool, "public").await.expect("it is there");
        let status = &pool.data["status"];
        let mut facts = Facts::new();
        for condition in status["conditions"].as_array().into_iter().flatten() {
            facts.insert(format!("pool {}", text(&condition["type"])), describe(condition));
        }
        for counters in ["addresses", "claims"] {
            facts.insert(counters.to_owned(), status[counters].to_string());
        }
        for failed in status["failed"].as_array().into_iter().flatten() {
            facts.insert(format!("failed {}", self.name_of(&failed["address"])), text(&failed["reason"]));
        }
        for claim in self.ns.list(Kind::Claim).await {
            let ready = condition_of(&claim, "Ready").map(describe).unwrap_or_default();
            facts.insert(format!("claim {}", claim.name_any()), ready);
        }
        for address in self.ns.list(Kind::Address).await {
            let origin = address.annotations().get(ORIGIN).cloned().unwrap_or_default();
            let which = match self.name_of(&address.data["spec"]["address"]) {
                // Whether it was created before its claim (`minFree`) or for it is a question of time.
                OTHER => OTHER.to_owned(),
                known => format!("{known} ({origin})"),
            };
            facts.insert(format!("address of {}", address.name_any()), which);
        }
        facts
    }

    /// Neutron chooses the others at random.
    fn name_of(&self, address: &Value) -> &'static str {
        let Addresses { bound, listed, free } = &self.addresses;
        match address.as_str().unwrap_or_default() {
            address if address == bound => "the bound one",
            address if address == listed => "the listed one",
            address if address == free => "the free one",
            MISSING => "the missing one",
            _ => OTHER,
        }
    }
}

fn describe(condition: &Value) -> String {
    format!("{} {}", text(&condition["status"]), text(&condition["reason"]))
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

async fn await_same(when: &str, edited: &Side<'_>, created: &Side<'_>) {
    eventually(MINUTE, async || {
        let (edited, created) = tokio::join!(edited.look(), created.look());
        match edited == created {
            true => Ok(()),
            false => Err(format!("{when} differ\n  edited:  {edited:?}\n  created: {created:?}")),
        }
    })
    .await;
}

async fn compare(steps: &[Change], edited: &Side<'_>, created: &Side<'_>) {
    let edit = async {
        edited.apply(|pool, _| pool).await;
        edited.bind_first().await;
        for step in steps {
            edited.apply(*step).await;
        }
    };
    let create = async {
        created.apply(*steps.last().expect("there is an edit")).await;
        created.bind_first().await;
    };
    tokio::join!(edit, create);
    await_same("the pools", edited, created).await;
    tokio::join!(edited.ask(), created.ask());
    await_same("the decisions", edited, created).await;
}

async fn run_case((name, steps): Case) {
    let begun = Instant::now();
    let projects = [Project::new().await, Project::new().await];
    with_namespace(async |one| {
        let edited = Side::prepare(one, &projects[0]).await;
        with_namespace(async |other| {
            let created = Side::prepare(other, &projects[1]).await;
            compare(steps, &edited, &created).await;
        })
        .await;
    })
    .await;
    for project in projects {
        project.end().await;
    }
    eprintln!("{name}: {} s", begun.elapsed().as_secs());
}

#[tokio::test]
async fn edited_pool_is_within_a_minute_as_one_that_was_created_with_that_spec() {
    controller();
    let outcomes = stream::iter(CASES).map(async |case| {
        let outcome = AssertUnwindSafe(run_case(case)).catch_unwind().await;
        outcome.err().map(|_| case.0)
    });
    let failed: Vec<_> = outcomes.buffer_unordered(CONCURRENT_CASES).filter_map(future::ready).collect().await;
    assert!(failed.is_empty(), "failed: {}; the reasons are above", failed.join("; "));
}
