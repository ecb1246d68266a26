//! Adds the tags of `spec.tags`, after everything else that a sweep does.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::StreamExt;
use jiff::{SignedDuration, Timestamp};

use super::Sweeper;
use crate::allocation::sweep::{SweepPlan, SweepScope, needs_tag};
use crate::controllers::memory::{Problem, ResolvedPool, UpkeepPart};
use crate::controllers::neutron_writer::NeutronWriter;
use crate::floating_ip::FloatingIpId;
use crate::openstack::Error;
use crate::time::after;

/// How many tags one sweep adds: released addresses wait for its end.
const LABELS_PER_SWEEP: usize = 32;
/// How many are added in parallel. Few, since the claims share the calls to the cloud.
const PARALLEL_LABELS: usize = 2;
/// How long a floating IP gets no tag after a failure, or the whole pool if all failed. Otherwise a cloud that refuses tags
/// would be asked at each sweep.
const REST_AFTER_FAILURE: SignedDuration = SignedDuration::from_mins(5);
/// The same where Neutron said that it added a tag, and a later listing does not show it.
const REST_WHERE_HIDDEN: SignedDuration = SignedDuration::from_hours(1);

/// A tag, and the floating IP that needs it.
type Label = (FloatingIpId, String);

/// What is known of the tags that a pool's floating IPs were to get. At most one time for each floating IP.
#[derive(Clone, Default)]
pub(in crate::controllers) struct LabelMemory {
    pool_rests_until: Option<Timestamp>,
    rests_until: BTreeMap<FloatingIpId, Timestamp>,
    /// What the last sweep added.
    added: BTreeSet<Label>,
}

impl LabelMemory {
    /// Those of the plan that may be added now. One that was added and is missing again was not kept.
    fn choose(&mut self, planned: &[Label], now: Timestamp) -> Vec<Label> {
        let hidden = planned.iter().filter(|label| self.added.contains(label)).map(|(id, _)| id.clone());
        self.rests_until.extend(hidden.map(|id| (id, after(now, REST_WHERE_HIDDEN))));
        self.rests_until.retain(|_, until| now < *until);
        if self.pool_rests_until.is_some_and(|until| now < until) {
            return Vec::new();
        }
        let due = planned.iter().filter(|(id, _)| !self.rests_until.contains_key(id));
        due.take(LABELS_PER_SWEEP).cloned().collect()
    }

    /// Each result is whether the tag was added.
    fn record(&mut self, results: &[(Label, Result<bool, Error>)], now: Timestamp) {
        let until = after(now, REST_AFTER_FAILURE);
        let failed = results.iter().filter(|(_, result)| result.is_err()).map(|((id, _), _)| id.clone());
        self.rests_until.extend(failed.map(|id| (id, until)));
        let has_all_failed = !results.is_empty() && results.iter().all(|(_, result)| result.is_err());
        self.pool_rests_until = has_all_failed.then_some(until);
        self.added =
            results.iter().filter(|(_, result)| matches!(result, Ok(true))).map(|(label, _)| label.clone()).collect();
    }
}

impl Sweeper {
    /// What fails is logged, reported and tried again later: the addresses work without these tags.
    pub(super) async fn label(&self, pool: &ResolvedPool, plan: &SweepPlan) {
        let now = self.clock.now();
        let chosen =
            self.memory.pools.update(&pool.name, |state| Arc::make_mut(&mut state.labels).choose(&plan.labels, now));
        let chosen = chosen.unwrap_or_default();
        if plan.scope == SweepScope::All && plan.labels.is_empty() {
            self.note_upkeep(&pool.name, UpkeepPart::Tags, None);
        }
        if chosen.is_empty() {
            return;
        }
        let is_full = chosen.len() == LABELS_PER_SWEEP;
        let added = futures::stream::iter(chosen).map(async |label| {
            let result = self.add_label(pool, &label).await;
            (label, result)
        });
        let results: Vec<_> = added.buffer_unordered(PARALLEL_LABELS).collect().await;
        let failure = results.iter().filter_map(|(_, result)| result.as_ref().err()).min_by_key(ToString::to_string);
        if let Some(error) = failure {
            tracing::warn!(pool.name = %pool.name, "the tags of spec.tags cannot be added: {error}");
        }
        let is_any_added = results.iter().any(|(_, result)| matches!(result, Ok(true)));
        let (now, may_go_on) = (self.clock.now(), is_full && (failure.is_none() || is_any_added));
        let is_any_left_out = self.memory.pools.update(&pool.name, |state| {
            Arc::make_mut(&mut state.labels).record(&results, now);
            // Only a sweep of all addresses finds the next ones.
            if may_go_on {
                state.next_full_sweep = None;
            }
            !state.labels.rests_until.is_empty()
        });
        if failure.is_some() || is_any_left_out == Some(false) {
            self.note_upkeep(&pool.name, UpkeepPart::Tags, failure.map(problem_of));
        }
        if may_go_on {
            self.wake.sweeper(&pool.name);
        }
    }

    /// Only while the pool serves, and the floating IP is the pool's still. Returns whether it was added.
    async fn add_label(&self, pool: &ResolvedPool, (id, tag): &Label) -> Result<bool, Error> {
        let needs_it = {
            let ledger = pool.project.ledger();
            let now = self.clock.now();
            self.memory.with_situation(&ledger, pool, now, |situation| needs_tag(situation, id, tag))
        };
        let may_go_on = || self.may_go_on(pool);
        if !needs_it || !may_go_on() {
            return Ok(false);
        }
        match NeutronWriter::new(pool, &self.clock).only_while(&may_go_on).label(id, tag).await {
            Err(error) if error.is_unsent() || pool.session.has_ended() => Ok(false),
            labelled => labelled.map(|()| true),
        }
    }
}

fn problem_of(error: &Error) -> Problem {
    let Problem { reason, message } = Problem::of_call(error);
    Problem { reason, message: format!("the tags of spec.tags cannot be added: {message}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allocation::testing::{id, seconds, start};
    use crate::openstack::ErrorKind;

    fn label(last: u8, tag: &str) -> Label {
        (id(last), tag.to_owned())
    }

    fn result(label: &Label, is_added: bool) -> (Label, Result<bool, Error>) {
        (label.clone(), if is_added { Ok(true) } else { Err(Error::new(ErrorKind::Rejected, "add tag", "no")) })
    }

    #[test]
    fn one_that_is_refused_keeps_no_other_from_its_tag() {
        let (planned, mut memory) = ([label(1, "a"), label(2, "a"), label(2, "b")], LabelMemory::default());
        assert_eq!(memory.choose(&planned, start()), planned);
        memory.record(&[result(&planned[0], true), result(&planned[1], false)], start());
        let later = [label(2, "a"), label(2, "b"), label(3, "a")];
        assert_eq!(memory.choose(&later, start() + seconds(60)), [label(3, "a")]);
        assert_eq!(memory.choose(&later, start() + seconds(301)), later);
    }

    #[test]
    fn a_cloud_that_refuses_all_is_asked_again_in_five_minutes() {
        let (planned, mut memory) = ([label(1, "a"), label(2, "a")], LabelMemory::default());
        memory.record(&[result(&planned[0], false)], start());
        assert!(memory.choose(&planned, start() + seconds(299)).is_empty());
        assert_eq!(memory.choose(&planned, start() + seconds(301)), planned);
    }

    #[test]
    fn a_tag_that_was_not_needed_for_a_while_is_added_once_it_is() {
        let (planned, mut memory) = ([label(1, "a")], LabelMemory::default());
        memory.record(&[(planned[0].clone(), Ok(false))], start());
        assert_eq!(memory.choose(&planned, start()), planned);
    }

    #[test]
    fn a_tag_that_was_added_and_is_not_shown_is_added_again_after_an_hour() {
        let (planned, mut memory) = ([label(1, "a"), label(2, "a")], LabelMemory::default());
        memory.record(&[result(&planned[0], true)], start());
        assert_eq!(memory.choose(&planned, start() + seconds(60)), [label(2, "a")]);
        memory.record(&[result(&planned[1], true)], start() + seconds(60));
        assert!(memory.choose(&planned[..1], start() + seconds(3600)).is_empty());
        assert_eq!(memory.choose(&planned[..1], start() + seconds(3661)), planned[..1]);
    }
}
