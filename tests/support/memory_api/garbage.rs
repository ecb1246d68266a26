//! Kubernetes' garbage collector, step by step as `pkg/controller/garbagecollector` does it: a graph of owners and
//! dependents, built from what a watch delivers, and a queue of objects to look at. What is queued is decided by the
//! graph, what is done by the objects as they are then. So a dependent that gets back its reference to an owner in
//! foreground deletion is looked at again only when that owner is.
//!
//! | file | what it does |
//! |---|---|
//! | [`graph`] | keeps the graph, and queues what a change concerns |
//! | [`attempt`] | deletes, orphans or keeps one queued object |
//! | [`reference`] | owner references |

mod attempt;
mod graph;
mod reference;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use serde_json::Value;

use super::{ApiServer, Key, Kind};
use graph::Node;
use reference::Identity;

/// What the graph is built from.
#[derive(Clone, Debug)]
pub enum GraphChange {
    /// An object was created or changed.
    Seen {
        key: Key,
        old: Option<Arc<Value>>,
        new: Arc<Value>,
    },
    Gone {
        key: Key,
        object: Arc<Value>,
    },
    /// An owner that a reference names, or an object of the graph, does not exist.
    Missing(Identity),
}

/// What the garbage collector knows, and what it will look at.
#[derive(Clone, Default)]
pub struct Collector {
    /// By UID.
    nodes: BTreeMap<String, Node>,
    /// Owners that do not exist.
    absent: BTreeSet<Identity>,
    to_delete: VecDeque<String>,
    to_orphan: VecDeque<String>,
    /// What could not be decided: tried again after the next change.
    later: Vec<String>,
}

impl ApiServer {
    /// One round of the garbage collector: all that changed, and then all that is queued. True when there is more to do.
    pub fn collect(&self) -> bool {
        let before = self.version();
        while self.state().unseen.front().is_some() {
            self.collect_step(&mut |_| 0);
        }
        for _ in 0..self.queued() {
            // The first choice is a change, if there is one by now.
            let first = usize::from(!self.state().unseen.is_empty());
            self.collect_step(&mut |_| first);
        }
        self.version() != before || self.has_garbage_work()
    }

    /// Looks at an object once more, as the real collector does a while after an attempt that failed.
    pub fn look_again(&self, choose: &mut dyn FnMut(usize) -> usize) {
        let collector = &mut self.state().collector;
        let uids: Vec<String> = collector.nodes.keys().cloned().collect();
        if !uids.is_empty() {
            collector.queue(&uids[choose(uids.len()).min(uids.len() - 1)]);
        }
    }

    pub fn has_garbage_work(&self) -> bool {
        self.queued() > 0 || !self.state().unseen.is_empty()
    }

    fn queued(&self) -> usize {
        let collector = &self.state().collector;
        collector.to_delete.len() + collector.to_orphan.len()
    }

    /// One step: the oldest change, or any queued object. `choose` picks one of so many; false when there is none.
    pub fn collect_step(&self, choose: &mut dyn FnMut(usize) -> usize) -> bool {
        let mut state = self.state();
        let changes = usize::from(!state.unseen.is_empty());
        let (deletions, orphans) = (state.collector.to_delete.len(), state.collector.to_orphan.len());
        let all = changes + deletions + orphans;
        if all == 0 {
            return false;
        }
        let chosen = choose(all).min(all - 1);
        if chosen < changes {
            let change = state.unseen.pop_front().expect("there is one");
            state.collector.observe(change);
            return true;
        }
        let mut collector = std::mem::take(&mut state.collector);
        drop(state);
        if chosen < changes + deletions {
            let uid = collector.to_delete.remove(chosen - changes).expect("it is one of them");
            self.attempt_to_delete(&mut collector, &uid);
        } else {
            let uid = collector.to_orphan.remove(chosen - changes - deletions).expect("it is one of them");
            self.orphan_dependents(&mut collector, &uid);
        }
        self.state().collector = collector;
        true
    }
}

/// Kinds that the garbage collector leaves alone.
fn is_ignored(kind: Kind) -> bool {
    matches!(kind, Kind::Event | Kind::Namespace)
}
