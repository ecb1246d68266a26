//! One run of a workload: undisturbed, to record it, or as a plan says.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time::{Instant, sleep, sleep_until};

use super::plan::Plan;
use super::recorder::Recorder;
use super::scene::Scene;
use super::summary::summarize;
use super::trace::Entry;
use super::workloads::Workload;
use crate::support::{
    Namespace, RECOVERY, await_laws_hold, eventually, text_of_panic, with_namespace, with_two_clusters,
};

/// For what a perturbation left unfinished: a pool lists Neutron, and repairs what it finds, within this time.
const SETTLING: Duration = Duration::from_secs(100);
/// So long the end of an undisturbed run must stay the same.
const STABLE: Duration = Duration::from_secs(5);

/// An undisturbed run.
#[derive(Clone, Serialize, Deserialize)]
pub struct Reference {
    pub trace: Vec<Entry>,
    pub summary: Value,
}

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It ended as the undisturbed run did, and the laws held. The text says what the perturbation did.
    Passed(String),
    /// The moment of the perturbation never came.
    NotReached,
    Failed(String),
}

pub async fn record(workload: Workload) -> Result<Reference, String> {
    let recorder = Recorder::new(None);
    let mut reference = Reference { trace: Vec::new(), summary: Value::Null };
    with_scene(workload, &recorder, async |scene| {
        perform(workload, scene).await;
        let summary = await_stable(scene, &recorder).await;
        // Without what follows, when everything is deleted.
        reference = Reference { trace: recorder.trace(), summary };
    })
    .await?;
    Ok(reference)
}

pub async fn run(plan: &Plan, reference: &Reference) -> Outcome {
    let recorder = Recorder::new(Some(plan.perturbation.clone()));
    let ended = with_scene(plan.workload, &recorder, async |scene| {
        perform(plan.workload, scene).await;
        await_end(scene, &recorder, &reference.summary).await;
        if recorder.has_triggered() {
            await_effect(&recorder).await;
        }
        if let Some(over) = recorder.over_at() {
            sleep_until(over).await;
            await_end(scene, &recorder, &reference.summary).await;
        }
        recorder.end();
    })
    .await;
    match (ended, recorder.effect()) {
        (Err(reason), _) => Outcome::Failed(reason),
        (Ok(()), Some(effect)) => Outcome::Passed(effect.to_owned()),
        (Ok(()), None) => Outcome::NotReached,
    }
}

async fn perform(workload: Workload, scene: &Scene<'_>) {
    workload.prepare(scene).await;
    scene.begin().await;
    workload.perform(scene).await;
}

/// Runs a scenario; `Err` says why it failed, a law or a leak included.
async fn with_scene(
    workload: Workload,
    recorder: &Recorder,
    scenario: impl AsyncFnOnce(&Scene<'_>),
) -> Result<(), String> {
    // The controllers need them until everything is deleted.
    let mut proxies = Vec::new();
    let within = async |sides: &[&Namespace]| {
        let scene = Scene::start(sides, recorder).await;
        tokio::select! {
            () = scene.restart_after_crashes() => {}
            () = async { scenario(&scene).await; await_laws_hold(sides).await } => {}
        }
        proxies = scene.into_proxies();
    };
    let whole = async {
        match workload.is_between_clusters() {
            true => with_two_clusters(async |from, to| within(&[from, to]).await).await,
            false => with_namespace(async |ns| within(&[ns]).await).await,
        }
    };
    AssertUnwindSafe(whole).catch_unwind().await.map_err(|panic| text_of_panic(&*panic))
}

/// A watch that breaks begins again after a pause, and an event is held back for a while.
async fn await_effect(recorder: &Recorder) {
    eventually(RECOVERY, async || recorder.effect().ok_or("the perturbation was triggered and has no effect")).await;
}

async fn await_stable(scene: &Scene<'_>, recorder: &Recorder) -> Value {
    let mut last = (Value::Null, Instant::now());
    loop {
        let summary = summarize(scene.sides, &recorder.pool_ids()).await;
        match summary == last.0 {
            true if last.1.elapsed() >= STABLE => return summary,
            true => {}
            false => last = (summary, Instant::now()),
        }
        sleep(Duration::from_millis(500)).await;
    }
}

/// Waits until everything is as it was after the undisturbed run.
async fn await_end(scene: &Scene<'_>, recorder: &Recorder, expected: &Value) {
    eventually(SETTLING, async || {
        let found = summarize(scene.sides, &recorder.pool_ids()).await;
        if found == *expected { Ok(()) } else { Err(format!("it ends as {found}, undisturbed as {expected}")) }
    })
    .await;
}
