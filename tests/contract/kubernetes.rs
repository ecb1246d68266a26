//! The API server in memory against a real one: the same generated requests go to both, and answers and the objects'
//! whole histories are compared. The real one has Kubernetes' garbage collector and namespace controller beside it, and
//! Cluster API's webhooks.
//!
//! | file | what is in it |
//! |---|---|
//! | [`generator`], [`bodies`], [`metadata`] | the requests |
//! | [`request`] | one request, and how both sides get the same |
//! | [`memory_side`], [`real_side`] | the two servers |
//! | [`history`] | sends a history to both, and compares |
//! | [`normal`] | what is compared, and each difference by design with its reason |
//! | [`shrink`] | makes a history that fails short |
//! | [`coverage`] | counts what was asked and answered |
//! | [`watched`], [`clusters`] | what histories do not reach: watches, and Clusters, which Cluster API itself changes |
//!
//! `CONTRACT_SEED` chooses other requests, `CONTRACT_HISTORIES` how many histories.

mod bodies;
mod clusters;
mod coverage;
mod generator;
mod history;
mod memory_side;
mod metadata;
mod normal;
mod real_side;
mod request;
mod shrink;
mod watched;

use std::time::Duration;

use futures::StreamExt;
use kube::Client;
use serde_json::json;
use tokio::time::Instant;

use coverage::Coverage;
use generator::{Generator, OWNERS};
use history::{Difference, History, Step};
use real_side::call;
use request::{Request, collection, no_uid};

use crate::support::{World, unique};

/// How many histories there are, and how many run at once.
const HISTORIES: u64 = 36;
const AT_ONCE: usize = 12;
/// Requests of a history before its namespace is deleted, and after that, before and after its content is. On a busy
/// machine more of them come after.
const REQUESTS: usize = 250;
const LAST_REQUESTS: usize = 12;
/// How long the real controllers may take. The one for namespaces waits for up to 15 s before it looks again, and for up to
/// 60 s when it has failed: as it does when the CRDs of another test come or go while it lists what there is.
const LONGEST: Duration = Duration::from_secs(240);

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[tokio::test]
async fn generated_requests_get_the_same_answers_in_memory_as_from_a_real_api_server() {
    let client = World::new().await.client;
    await_garbage_collector(&client).await;
    let (seed, count) = (variable("CONTRACT_SEED").unwrap_or(1), variable("CONTRACT_HISTORIES").unwrap_or(HISTORIES));
    let begin = Instant::now();
    let mut coverage = Coverage::default();
    let mut histories = futures::stream::iter(0..count)
        .map(|number| generate(&client, seed.wrapping_mul(1_000_003).wrapping_add(number)))
        .buffer_unordered(AT_ONCE);
    while let Some((covered, failed)) = histories.next().await {
        coverage.merge(&covered);
        if let Some((steps, difference)) = failed {
            drop(histories);
            fail(&client, seed, steps, difference).await;
        }
    }
    println!("{coverage}\nin {:?}, seed {seed}", begin.elapsed());
    // Of fewer histories, half as many in proportion, since they differ.
    let share = if count < HISTORIES { 2 } else { 1 };
    let share_of = |least: u64| usize::try_from(least * count / (HISTORIES * share)).expect("a small number");
    assert!(coverage.total() >= share_of(10_000), "{coverage}");
    for code in [200, 201, 400, 403, 404, 409, 422] {
        assert!(
            coverage.by_code().get(&code).is_some_and(|count| *count >= share_of(20).max(1)),
            "{code}:\n{coverage}"
        );
    }
}

/// What a history covered, and its steps and the difference if it failed.
type Generated = (Coverage, Option<(Vec<Step>, Difference)>);

async fn generate(client: &Client, seed: u64) -> Generated {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut history = History::new(client, &unique("contract"), LONGEST).await;
    let (mut coverage, mut steps) = (Coverage::default(), Vec::new());
    loop {
        let step = next_step(&history, &mut random, &steps);
        let Some(step) = step else {
            history.end().await;
            return (coverage, None);
        };
        steps.push(step.clone());
        match history.take(&step).await {
            Ok(code) => {
                if let (Step::Send(request), Some(code)) = (&step, code) {
                    coverage.add(request.kind, request.verb, code);
                }
            }
            Err(difference) => {
                history.abandon().await;
                return (coverage, Some((steps, difference)));
            }
        }
    }
}

/// Requests, then the end of the namespace with all that is in it. None when it is gone.
fn next_step(history: &History, random: &mut fastrand::Rng, steps: &[Step]) -> Option<Step> {
    let memory = &history.memory;
    if !memory.namespace_exists() {
        return None;
    }
    let is_time_to_look = || {
        let looked = steps.iter().any(|step| matches!(step, Step::EmptyNamespace));
        !looked && (steps.len() == REQUESTS + 1 + LAST_REQUESTS || history.is_content_about_to_be_deleted())
    };
    let step = match steps.len() {
        REQUESTS => Step::DeleteNamespace,
        _ if is_time_to_look() => Step::EmptyNamespace,
        number if number <= REQUESTS + 1 + 2 * LAST_REQUESTS => Step::Send(Generator { random, memory }.next()),
        _ => Generator::unblock(memory).into_iter().next().map_or(Step::EmptyNamespace, Step::Send),
    };
    Some(step)
}

async fn fail(client: &Client, seed: u64, steps: Vec<Step>, difference: Difference) -> ! {
    let length = steps.len();
    let (steps, difference) = shrink::shrink(client, steps, difference).await;
    let trace: Vec<String> = steps.iter().map(ToString::to_string).collect();
    panic!(
        "the servers differ (CONTRACT_SEED={seed}; a history of {length} steps, here of {}):\n{}\n\nin memory: {}\nreal: {}",
        steps.len(),
        trace.join("\n"),
        difference.memory,
        difference.real
    );
}

/// Waits until the garbage collector knows all kinds: it looks for new ones every 30 s.
async fn await_garbage_collector(client: &Client) {
    let namespace = unique("contract");
    let object = json!({"metadata": {"name": namespace}}).to_string().into_bytes();
    call(client, http::Request::post(collection(crate::memory_api::Kind::Namespace, "")), object).await;
    for kind in OWNERS {
        let mut random = fastrand::Rng::with_seed(1);
        let memory = memory_side::MemorySide::new(&namespace);
        let mut body = loop {
            let body = bodies::new_object(&mut Generator { random: &mut random, memory: &memory }, kind, "probe");
            let request = Request { verb: request::Verb::Create, kind, name: "probe".into(), body: Some(body.clone()) };
            if memory_side::MemorySide::new(&namespace).send(&request).code == 201 {
                break body;
            }
        };
        let uid = no_uid(&crate::memory_api::Key::new(kind, &namespace, "nobody"));
        body["metadata"]["ownerReferences"] =
            json!([{"apiVersion": kind.api_version(), "kind": kind.names().3, "name": "nobody", "uid": uid}]);
        let path = collection(kind, &namespace);
        let created = call(client, http::Request::post(&path), body.to_string().into_bytes()).await;
        assert_eq!(created.code, 201, "{}", created.body);
        crate::support::eventually(LONGEST, async || {
            let found = call(client, http::Request::get(format!("{path}/probe")), Vec::new()).await;
            if found.code == 404 { Ok(()) } else { Err(format!("the garbage collector does not know {kind:?}")) }
        })
        .await;
    }
    call(
        client,
        http::Request::delete(format!("{}/{namespace}", collection(crate::memory_api::Kind::Namespace, ""))),
        Vec::new(),
    )
    .await;
}
