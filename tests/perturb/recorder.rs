//! What the proxies of a run share: the trace, and the moment and the effect of the run's perturbation.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use caip_openstack::openstack::session::LANDS_WITHIN;
use serde_json::Value;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::plan::{Age, How, Perturbation};
use super::trace::{Entry, Point, Version, changes};
use crate::support::Controller;

/// A process does not touch floating IPs that existed before it while calls of the one before may still take effect.
const FENCE: Duration = LANDS_WITHIN.saturating_add(Duration::from_secs(1));
/// How long an event is held back that nothing supersedes.
const HELD: Duration = Duration::from_secs(8);
/// How long the watch after an older list delivers nothing: until after the fence of a new process, and shorter than its
/// patience with a silent watch (45 s).
const STALE_AFTER_RESTART: Duration = Duration::from_secs(36);
const STALE_AFTER_RELIST: Duration = Duration::from_secs(6);

/// Whether the caller gets the answer to a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reply {
    Delivered,
    /// The caller has been killed.
    Lost,
}

/// What happens to an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Delivery {
    Now,
    /// When a later event of its object comes it is dropped, otherwise it is delivered then.
    HeldUntil(Instant),
}

#[derive(Clone)]
pub struct Recorder(Arc<Shared>);

struct Shared {
    // A plain mutex: held for one entry or to kill a process, never across an await.
    state: Mutex<State>,
    crashed: Notify,
    /// The kind whose watch breaks.
    broken: watch::Sender<Option<String>>,
}

#[derive(Default)]
struct State {
    trace: Vec<Entry>,
    /// From the beginning of the workload to its end.
    is_armed: bool,
    counts: BTreeMap<String, usize>,
    perturbation: Option<Perturbation>,
    has_triggered: bool,
    /// What the perturbation did, once it has happened.
    effect: Option<&'static str>,
    /// When it no longer has an effect.
    over_at: Option<Instant>,
    stale: Option<StaleView>,
    /// By management cluster.
    controllers: BTreeMap<usize, Arc<Controller>>,
    killed: Vec<usize>,
    begun_at: Vec<u64>,
    watches: BTreeSet<String>,
    floating_ips: BTreeMap<String, String>,
    pool_ids: BTreeSet<String>,
}

/// A kind whose next list shows an older state.
struct StaleView {
    resource: String,
    revision: u64,
    is_listed: bool,
    silence: Duration,
}

impl Recorder {
    pub fn new(perturbation: Option<Perturbation>) -> Self {
        let state = Mutex::new(State { perturbation, ..State::default() });
        Self(Arc::new(Shared { state, crashed: Notify::new(), broken: watch::Sender::new(None) }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().expect("no code panics while it holds the state")
    }

    /// The workload begins, at these revisions of its management clusters. Nothing is perturbed before.
    pub fn begin(&self, revisions: Vec<u64>) {
        let mut state = self.state();
        state.counts.clear();
        state.trace.push(Entry::Begin);
        (state.is_armed, state.begun_at) = (true, revisions);
    }

    /// The workload has ended. Nothing is perturbed when everything is deleted.
    pub fn end(&self) {
        self.state().is_armed = false;
    }

    /// The controller of a management cluster; replaces a former one.
    pub fn set_controller(&self, side: usize, controller: Arc<Controller>) {
        let mut state = self.state();
        if state.controllers.insert(side, controller).is_some() {
            state.extend_effect(FENCE);
        }
    }

    /// Waits until a controller was killed; returns the management clusters that have none now.
    pub async fn crash(&self) -> Vec<usize> {
        self.0.crashed.notified().await;
        std::mem::take(&mut self.state().killed)
    }

    pub fn trace(&self) -> Vec<Entry> {
        self.state().trace.clone()
    }

    /// Whether the moment of the perturbation has come.
    pub fn has_triggered(&self) -> bool {
        self.state().has_triggered
    }

    /// What the perturbation did, once it has happened.
    pub fn effect(&self) -> Option<&'static str> {
        self.state().effect
    }

    /// When the perturbation no longer has an effect.
    pub fn over_at(&self) -> Option<Instant> {
        self.state().over_at
    }

    pub fn pool_ids(&self) -> BTreeSet<String> {
        self.state().pool_ids.clone()
    }

    /// A pool has this id in marks.
    pub fn note_pool_id(&self, id: &str) {
        self.state().pool_ids.insert(id.to_owned());
    }

    /// The name of a floating IP in the trace.
    pub fn floating_ip(&self, id: &str) -> String {
        self.state().floating_ips.get(id).cloned().unwrap_or_else(|| "unknown".to_owned())
    }

    /// Names a floating IP, with a number where the name is taken.
    pub fn name_floating_ip(&self, id: &str, name: &str) {
        let mut state = self.state();
        let taken = state.floating_ips.values().filter(|other| other.split('~').next() == Some(name)).count();
        let name = if taken == 0 { name.to_owned() } else { format!("{name}~{}", taken + 1) };
        state.floating_ips.entry(id.to_owned()).or_insert(name);
    }

    /// The latest revision of an object that is known.
    pub fn latest(&self, resource: &str, object: &str) -> Option<u64> {
        let state = self.state();
        let versions = state.trace.iter().filter_map(Entry::version);
        versions.filter(|known| known.resource == resource && known.object == object).map(|known| known.revision).max()
    }

    /// A server has done a write, sent by the controller of a management cluster, or of any.
    pub fn write(&self, side: Option<usize>, call: String, is_effective: bool, version: Option<Version>) -> Reply {
        let mut state = self.state();
        let point = state.count(call);
        state.trace.push(Entry::Write { point: point.clone(), is_effective, version });
        if !state.is_armed {
            return Reply::Delivered;
        }
        match state.perturbation.clone() {
            Some(Perturbation::Crash { at }) if at == point => {
                state.effect = Some("crashed");
                self.kill(&mut state, side)
            }
            Some(Perturbation::Stale { at, resource, age, how }) if at == point => {
                self.turn_back(&mut state, side, resource, age, how)
            }
            _ => Reply::Delivered,
        }
    }

    fn kill(&self, state: &mut State, side: Option<usize>) -> Reply {
        state.trigger();
        let sides = side.map_or(state.controllers.keys().copied().collect(), |side| vec![side]);
        sides.iter().filter_map(|side| state.controllers.get(side)).for_each(|controller| controller.kill());
        state.killed = sides;
        self.0.crashed.notify_one();
        Reply::Lost
    }

    fn turn_back(&self, state: &mut State, side: Option<usize>, resource: String, age: Age, how: How) -> Reply {
        let of_target = usize::from(resource.starts_with("to:"));
        let revision = match age {
            Age::OneChange => changes(&state.trace, &resource).last().map(|latest| latest - 1),
            Age::Beginning => state.begun_at.get(of_target).copied(),
        };
        // Another order of events: the plan is not reached.
        let Some(revision) = revision else { return Reply::Delivered };
        let silence = if how == How::Restart { STALE_AFTER_RESTART } else { STALE_AFTER_RELIST };
        state.trigger();
        state.stale = Some(StaleView { resource: resource.clone(), revision, is_listed: false, silence });
        match how {
            How::Restart => {
                let reply = self.kill(state, Some(of_target));
                if side.is_none_or(|side| side == of_target) { reply } else { Reply::Delivered }
            }
            How::Relist => {
                self.0.broken.send_replace(Some(resource));
                Reply::Delivered
            }
        }
    }

    /// A list or a watch is about to deliver an object.
    pub fn delivery(&self, kind: &str, resource: &str, name: &str, object: &Value) -> Delivery {
        let mut state = self.state();
        let point = state.count(format!("{kind} {resource}/{name}"));
        let version = Version::of(resource, name, object, kind == "DELETED");
        state.trace.push(Entry::Delivered { point: point.clone(), version });
        let is_it = state.perturbation == Some(Perturbation::Unobserved { event: point });
        if !is_it || !state.is_armed {
            return Delivery::Now;
        }
        state.trigger();
        Delivery::HeldUntil(Instant::now() + HELD)
    }

    /// An event that was held back was dropped, or is delivered now.
    pub fn held_event_ended(&self, effect: &'static str) {
        let mut state = self.state();
        state.effect = Some(effect);
        state.extend_effect(Duration::ZERO);
    }

    /// The revision that the next list of a kind must show, if it is not the present one.
    pub fn stale_revision(&self, resource: &str) -> Option<u64> {
        let state = self.state();
        let view = state.stale.as_ref().filter(|view| view.resource == resource && !view.is_listed)?;
        Some(view.revision)
    }

    /// The API server has answered with that revision, or it no longer has it: then the plan is not reached.
    pub fn stale_list_was_answered(&self, is_success: bool) {
        let mut state = self.state();
        match &mut state.stale {
            Some(view) if is_success => view.is_listed = true,
            _ => (state.stale, state.has_triggered) = (None, false),
        }
    }

    /// How long the next watch of a kind delivers nothing.
    pub fn watch_begins(&self, resource: &str) -> Duration {
        let mut state = self.state();
        state.watches.insert(resource.to_owned());
        let Some(view) = state.stale.take_if(|view| view.resource == resource && view.is_listed) else {
            return Duration::ZERO;
        };
        state.effect = Some("turned back");
        state.extend_effect(view.silence);
        view.silence
    }

    /// How many kinds are watched.
    pub fn watched(&self) -> usize {
        self.state().watches.len()
    }

    /// Changes when the watch of a kind must break.
    pub fn broken_watches(&self) -> watch::Receiver<Option<String>> {
        self.0.broken.subscribe()
    }
}

impl State {
    fn count(&mut self, what: String) -> Point {
        let count = self.counts.entry(what.clone()).or_default();
        *count += 1;
        Point { occurrence: *count, what }
    }

    /// It happens once.
    fn trigger(&mut self) {
        (self.has_triggered, self.is_armed) = (true, false);
    }

    fn extend_effect(&mut self, lasts: Duration) {
        self.over_at = self.over_at.max(Some(Instant::now() + lasts));
    }
}
