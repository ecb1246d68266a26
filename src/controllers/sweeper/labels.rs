//! Adds the tags of `spec.tags`, after everything else that a sweep does.

use futures::{StreamExt, TryStreamExt};
use jiff::SignedDuration;

use super::Sweeper;
use crate::allocation::sweep::SweepPlan;
use crate::controllers::memory::ResolvedPool;
use crate::controllers::neutron_writer::NeutronWriter;
use crate::time::after;

/// How many tags one sweep adds: released addresses wait for its end.
const LABELS_PER_SWEEP: usize = 32;
/// How many are added in parallel. Few, since the claims share the calls to the cloud.
const PARALLEL_LABELS: usize = 2;
/// How long none is added after a failure. Otherwise a cloud that refuses tags would be asked at each sweep.
const REST_AFTER_FAILURE: SignedDuration = SignedDuration::from_mins(5);

impl Sweeper {
    /// What fails is logged and tried again later: the addresses work without these tags.
    pub(super) async fn label(&self, pool: &ResolvedPool, plan: &SweepPlan) {
        let rest_until = self.memory.pools.get(&pool.name).labels_rest_until;
        if plan.labels.is_empty() || rest_until.is_some_and(|until| self.clock.now() < until) {
            return;
        }
        let writer = NeutronWriter { pool, clock: &self.clock };
        let labels = futures::stream::iter(plan.labels.iter().take(LABELS_PER_SWEEP));
        let added = labels.map(|(id, tag)| writer.label(id, tag)).buffer_unordered(PARALLEL_LABELS);
        match added.try_collect::<Vec<()>>().await {
            Ok(_) if plan.labels.len() > LABELS_PER_SWEEP => self.wake.sweeper(&pool.name),
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(pool.name = %pool.name, "the tags of spec.tags cannot be added: {error}");
                let until = after(self.clock.now(), REST_AFTER_FAILURE);
                self.memory.pools.update(&pool.name, |state| state.labels_rest_until = Some(until));
            }
        }
    }
}
