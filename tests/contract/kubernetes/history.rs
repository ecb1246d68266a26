//! One history: the same requests to both sides, one after the other, and a comparison after each. Kubernetes' own
//! controllers work beside the requests, in an order that is not determined: any order of those in memory may explain what
//! the real ones did, but one must. The real garbage collector repeats what failed (a race with its own cache) after a
//! while that grows each time, so in any order it may look at some objects once more.

use std::collections::BTreeMap;
use std::time::Duration;

use kube::Client;
use serde_json::json;
use tokio::time::Instant;

use super::generator::IDENTITIES;
use super::memory_side::{MemorySide, Saved};
use super::normal::{Answer, normal_answer, normal_event};
use super::real_side::RealSide;
use super::request::{Request, Verb};
use crate::memory_api::{Key, Kind};

/// How many orders of the controllers in memory are tried: at first, and before the servers are said to differ. On a busy
/// machine the real ones do more between two requests, in orders that are found more rarely.
const ORDERS: u64 = 150;
const MOST_ORDERS: u64 = 5000;
/// How long the real controllers are waited for before other orders are tried; then twice as long, and so on.
const PATIENCE: Duration = Duration::from_millis(500);
/// For how long the content of a deleted namespace stays: the real namespace controller looks after 5 s.
const CONTENT_STAYS: Duration = Duration::from_secs(3);
/// The answer to a token of a list whose version the server has forgotten.
const GONE: u16 = 410;

/// What happens next.
#[derive(Clone, Debug)]
pub enum Step {
    Send(Request),
    DeleteNamespace,
    /// The namespace controller looks at the namespace.
    EmptyNamespace,
}

/// How the two sides differ after a step.
#[derive(Clone, Debug)]
pub struct Difference {
    pub memory: String,
    pub real: String,
}

pub struct History {
    namespace: String,
    pub memory: MemorySide,
    real: RealSide,
    /// How long the real controllers may take.
    longest: Duration,
    /// How many events of each object both sides agreed on.
    settled: BTreeMap<Key, usize>,
    namespace_deleted_at: Option<Instant>,
}

/// How what happened in memory compares with what really happened.
enum Match {
    Same,
    /// More is to come from the real server.
    Behind(String),
    Different(String, String),
}

impl History {
    pub async fn new(client: &Client, namespace: &str, longest: Duration) -> Self {
        let real = RealSide::new(client, namespace).await;
        let memory = MemorySide::new(namespace);
        Self {
            namespace: namespace.to_owned(),
            memory,
            real,
            longest,
            settled: BTreeMap::new(),
            namespace_deleted_at: None,
        }
    }

    /// Whether the real namespace controller is about to look at the namespace, or has looked.
    pub fn is_content_about_to_be_deleted(&self) -> bool {
        self.namespace_deleted_at.is_some_and(|deleted| deleted.elapsed() >= CONTENT_STAYS)
    }

    /// Does a step on both sides. Returns the code of the answer to a request.
    pub async fn take(&mut self, step: &Step) -> Result<Option<u16>, Difference> {
        let mut before = self.memory.save();
        let mut ours = self.play(step, None);
        let mut theirs = self.play_for_real(step).await;
        if let Step::Send(request) = step
            && theirs.as_ref().is_some_and(|answer| answer.code == GONE)
        {
            // The server forgets old versions every minute, and on a busy machine a history takes longer: on both sides the list
            // begins again.
            self.memory.restore(&before);
            self.memory.forget_page(request.kind);
            self.real.forget_page(request.kind);
            before = self.memory.save();
            ours = self.play(step, None);
            theirs = self.play_for_real(step).await;
        }
        let differs = |memory, real| Difference { memory, real };
        let (ends, mut patience) = (Instant::now() + self.longest, PATIENCE);
        let mut verdict = self.judge(step, ours.as_ref(), theirs.as_ref());
        loop {
            let is_behind = match verdict {
                Match::Same => break,
                Match::Behind(missing) if Instant::now() > ends => {
                    return Err(differs(missing, "nothing in time".into()));
                }
                Match::Behind(_) => self.real.wait_for_news(patience).await,
                Match::Different(..) => false,
            };
            verdict = self.judge(step, ours.as_ref(), theirs.as_ref());
            if !is_behind && !matches!(verdict, Match::Same) {
                patience *= 2;
                verdict = self.explain(step, &before, theirs.as_ref(), verdict);
                if let Match::Different(memory, real) = verdict {
                    return Err(differs(memory, real));
                }
            }
        }
        self.settle();
        self.follow_end_of_namespace(step).await?;
        Ok(theirs.map(|answer| answer.code))
    }

    async fn play_for_real(&mut self, step: &Step) -> Option<Answer> {
        match step {
            Step::Send(request) => Some(self.real.send(request).await),
            Step::DeleteNamespace => {
                self.namespace_deleted_at = Some(Instant::now());
                Some(self.real.delete_namespace().await)
            }
            Step::EmptyNamespace => None,
        }
    }

    /// Does a step in memory, with the controllers in an order of the random numbers.
    fn play(&mut self, step: &Step, mut random: Option<&mut fastrand::Rng>) -> Option<Answer> {
        let terminates = self.memory.server.has_terminating_namespace();
        let looks = |random: &mut Option<&mut fastrand::Rng>| {
            random.as_deref_mut().is_some_and(|random| terminates && random.u32(..3) == 0)
        };
        match step {
            Step::Send(request) => {
                if looks(&mut random) {
                    self.memory.empty_namespace(random.as_deref_mut());
                }
                // The real collector may come back to an object just before the request reaches the server, and the request
                // may have been written before that: with older versions.
                let mut written = self.memory.write(request);
                if let Some(random) = random.as_deref_mut()
                    && random.bool()
                {
                    self.memory.look_again(Some(&mut *random));
                    self.memory.collect(Some(&mut *random));
                    if random.bool() {
                        written = self.memory.write(request);
                    }
                }
                let answer = self.memory.send_written(request, &written);
                if looks(&mut random) {
                    self.memory.empty_namespace(random.as_deref_mut());
                }
                self.memory.look_again(random.as_deref_mut());
                self.memory.collect(random);
                Some(answer)
            }
            Step::DeleteNamespace => Some(self.memory.delete_namespace()),
            Step::EmptyNamespace => {
                self.memory.empty_namespace(random);
                None
            }
        }
    }

    /// Looks for an order of the controllers in memory that leads to what really happened.
    fn explain(&mut self, step: &Step, before: &Saved, theirs: Option<&Answer>, first: Match) -> Match {
        let mut verdict = first;
        for order in 0..MOST_ORDERS {
            if order >= ORDERS && matches!(verdict, Match::Behind(_)) {
                break;
            }
            self.memory.restore(before);
            let mut random = fastrand::Rng::with_seed(order);
            // On a busy machine the namespace controller looks before the requests that should come first have been made.
            let looks = if self.memory.server.has_terminating_namespace() { order % 3 } else { 0 };
            if looks == 1 {
                self.memory.empty_namespace(Some(&mut random));
            }
            let ours = self.play(step, Some(&mut random));
            if looks == 2 {
                self.memory.empty_namespace(Some(&mut random));
            }
            match self.judge(step, ours.as_ref(), theirs) {
                Match::Same => return Match::Same,
                Match::Behind(missing) => verdict = Match::Behind(missing),
                Match::Different(..) => {}
            }
        }
        self.memory.restore(before);
        self.play(step, None);
        verdict
    }

    fn judge(&self, step: &Step, ours: Option<&Answer>, theirs: Option<&Answer>) -> Match {
        let show = |answer: Option<&Answer>| format!("{answer:?}");
        if ours.map(|answer| answer.code) != theirs.map(|answer| answer.code) {
            return Match::Different(show(ours), show(theirs));
        }
        let (our_log, their_log) = (self.memory.log(), self.real.log());
        let count = |log: &super::memory_side::Log| log.values().map(Vec::len).sum::<usize>();
        if count(&their_log) == self.settled.values().sum::<usize>() && count(&our_log) > count(&their_log) {
            return Match::Behind("all events of this step".into());
        }
        let (we_know, they_know) = (self.memory.known(), self.real.known());
        let mut missing = None;
        for key in our_log.keys().chain(their_log.keys()) {
            let settled = self.settled.get(key).copied().unwrap_or_default();
            let after =
                |log: &super::memory_side::Log| log.get(key).map_or_else(Vec::new, |all| all[settled..].to_vec());
            let (our_events, their_events) = (after(&our_log), after(&their_log));
            for (index, theirs) in their_events.iter().enumerate() {
                let theirs = normal_event(theirs, key.kind, &self.namespace, &they_know);
                let ours = our_events.get(index).map(|event| normal_event(event, key.kind, &self.namespace, &we_know));
                if ours.as_ref() != Some(&theirs) {
                    let ours = ours.map_or_else(|| format!("nothing more of {key:?}"), |event| event.to_string());
                    return Match::Different(ours, theirs.to_string());
                }
            }
            if let Some(event) = our_events.get(their_events.len()) {
                missing = Some(normal_event(event, key.kind, &self.namespace, &we_know).to_string());
            }
        }
        if let Some(missing) = missing {
            return Match::Behind(missing);
        }
        let kind = match step {
            Step::Send(request) => request.kind,
            Step::DeleteNamespace | Step::EmptyNamespace => Kind::Namespace,
        };
        if ours.is_some_and(|answer| answer.has_version_in(&we_know))
            != theirs.is_some_and(|answer| answer.has_version_in(&they_know))
        {
            // An answer may come before the event.
            return Match::Behind(format!("the version of {theirs:?}"));
        }
        let ours = ours.map(|answer| normal_answer(answer, kind, &self.namespace, &we_know));
        let theirs = theirs.map(|answer| normal_answer(answer, kind, &self.namespace, &they_know));
        if ours == theirs { Match::Same } else { Match::Different(format!("{ours:?}"), format!("{theirs:?}")) }
    }

    fn settle(&mut self) {
        self.settled = self.memory.log().into_iter().map(|(key, events)| (key, events.len())).collect();
    }

    /// When the namespace is gone in memory, it must really be gone soon.
    async fn follow_end_of_namespace(&mut self, step: &Step) -> Result<(), Difference> {
        let ends = Instant::now() + self.longest;
        while matches!(step, Step::EmptyNamespace)
            && !self.memory.namespace_exists()
            && self.real.namespace_exists().await
        {
            if Instant::now() > ends {
                let (memory, real) = ("the namespace is gone".into(), "it is there".into());
                return Err(Difference { memory, real });
            }
            tokio::time::sleep(PATIENCE).await;
        }
        Ok(())
    }

    /// Removes what is in no namespace.
    pub async fn end(mut self) {
        for name in IDENTITIES {
            let name = name.to_owned();
            self.real.send(&Request { verb: Verb::Delete, kind: Kind::ClusterIdentity, name, body: None }).await;
        }
    }

    /// Removes what a history that failed has left behind.
    pub async fn abandon(mut self) {
        self.real.delete_namespace().await;
        for key in self.real.log().into_keys() {
            let Key { kind, name, .. } = key;
            let body = Some(json!({"metadata": {"finalizers": null}}));
            self.real.send(&Request { verb: Verb::Patch, kind, name, body }).await;
        }
        self.end().await;
    }
}

impl std::fmt::Display for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Send(Request { verb, kind, name, body }) => {
                let body = body.as_ref().map(ToString::to_string).unwrap_or_default();
                write!(f, "{verb:?} {kind:?} {name} {body}")
            }
            Self::DeleteNamespace => write!(f, "Delete {:?}", Kind::Namespace),
            Self::EmptyNamespace => write!(f, "the namespace controller looks"),
        }
    }
}
