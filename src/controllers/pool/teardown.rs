//! Tears down a pool that is being deleted: no new claim is served, bound ones are waited for, then all marks are removed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use kube::runtime::events::EventType;
use kube::{Resource, ResourceExt};
use tokio::time::Instant;

use super::failure::PoolFailure;
use super::identity::known_id;
use super::{AUDIT_AGE, Error, PoolController, log_concealed};
use crate::allocation::ledger::{Hold, Missing};
use crate::allocation::mark::Marks;
use crate::allocation::sweep::{PoolTeardown, SweepAction, is_still_deletable, plan_teardown};
use crate::allocation::{PoolId, Situation};
use crate::api::conditions::event_reasons::{ABANDONED, ATTACHED_FLOATING_IP_LEFT, FLOATING_IP_LEFT_BEHIND};
use crate::api::conditions::pool_reasons as reasons;
use crate::api::hands_off::HandsOff;
use crate::api::names::{ABANDON_ANNOTATION, CLAIM_FINALIZER, POOL_FINALIZER};
use crate::api::{IpAddress, IpAddressClaim, OpenStackFloatingIPPool};
use crate::clock::instant_after;
use crate::controllers::memory::{PoolState, Problem, ResolvedPool, UpkeepPart};
use crate::controllers::neutron_writer::{NeutronWriter, PARALLEL_ACTIONS};
use crate::controllers::objects::is_abandoned;
use crate::controllers::patch;
use crate::controllers::queue::Action;
use crate::controllers::stores::{is_ours, name_of};
use crate::floating_ip::FloatingIpId;
use crate::object_name::ObjectName;
use crate::openstack::{self, ErrorKind};

/// More rounds than the cleanup needs. What is left is done at the next try.
const ROUNDS: usize = 8;
/// How long a cleanup goes on before the pool is reconciled again: thousands of floating IPs take minutes, and meanwhile
/// the pool may be paused, its addresses retained, or its credentials withdrawn.
const CLEANUP_DURATION: Duration = Duration::from_secs(20);
/// How soon the cleanup is continued.
const CLEANUP_RETRY: Duration = Duration::from_secs(5);
/// How many addresses a condition names.
const NAMED_ADDRESSES: usize = 5;
/// How often a pool that is being deleted checks its ConfigMap, and whether claims still hold its addresses. The deletion of
/// the last claim wakes it too.
const HELD_RETRY: Duration = Duration::from_secs(20);

impl PoolController {
    pub(super) async fn tear_down(&self, pool: &Arc<OpenStackFloatingIPPool>) -> Result<Action, Error> {
        let name = name_of(pool.as_ref());
        if !patch::has_finalizer(&pool.metadata, POOL_FINALIZER) {
            return Ok(Action::await_change());
        }
        self.measure_deletion(pool);
        let resolved = match self.resolve_for_teardown(pool).await {
            Ok(resolved) => resolved,
            Err(failure) => return self.report_blocked(pool, &failure).await,
        };
        if !self.memory.pools.get(&name).is_of(pool) {
            // It was removed by force meanwhile: what has its marks may be another object's.
            return Ok(Action::await_change());
        }
        let pool = &match &resolved {
            // A later process must know the pool's id until the pool is gone.
            Some(resolved) => self.or_refused(pool, self.adopt(pool, resolved)).await?,
            None => pool.clone(),
        };
        if self.is_held(&name) {
            return self.wait_for_claims(pool, resolved.as_deref()).await;
        }
        if let Some(resolved) = &resolved {
            match self.clean_up(resolved, pool).await {
                Ok(CleanUp::Done) => {}
                Ok(CleanUp::Held) => return self.wait_for_claims(pool, Some(resolved)).await,
                Ok(CleanUp::Interrupted) => return Ok(Action::requeue(Duration::ZERO)),
                Ok(CleanUp::Unfinished) => return Ok(Action::requeue(self.clock.jitter(CLEANUP_RETRY, 0.5))),
                Ok(CleanUp::InVain) => return self.report_clean_up_in_vain(pool, resolved).await,
                Ok(CleanUp::Paused(claimed)) => return self.report_paused_clean_up(pool, resolved, &claimed).await,
                Err(error) => return self.report_blocked(pool, &PoolFailure::Neutron(error)).await,
            }
        }
        // Last the Secret: were it gone while the pool is not, the next process could not reach OpenStack. If this one ends
        // in between, what is left of a pool that is gone is released as a leftover.
        let finish = async {
            self.remove_pool_finalizer(pool).await?;
            self.release_secrets(pool).await
        };
        self.or_refused(pool, finish).await?;
        Ok(Action::await_change())
    }

    /// The pool's resolution, or one that suffices for the cleanup. None when nothing is to be done in OpenStack: the pool
    /// was abandoned, has no id, or has the id of another pool and no claims to release.
    async fn resolve_for_teardown(
        &self,
        pool: &OpenStackFloatingIPPool,
    ) -> Result<Option<Arc<ResolvedPool>>, PoolFailure> {
        let name = name_of(pool);
        if is_abandoned(pool) {
            self.report_abandoned(pool).await;
            self.wake.unserved_claims_of(&name);
            return Ok(None);
        }
        let id = known_id(pool, &self.stores, &self.memory);
        let is_duplicate = |id: &PoolId| self.resolver.duplicates().in_namespace(pool, id).is_some();
        let resolved = match id.filter(|id| self.is_held(&name) || !is_duplicate(id)) {
            Some(id) => self.last_resolution(pool, &id).await.map(Some),
            None => Ok(None),
        };
        self.memory.pools.update_of(pool, |state| state.has_no_marks = matches!(resolved, Ok(None)));
        resolved
    }

    async fn last_resolution(
        &self,
        pool: &OpenStackFloatingIPPool,
        id: &PoolId,
    ) -> Result<Arc<ResolvedPool>, PoolFailure> {
        let name = name_of(pool);
        // Its id was overwritten meanwhile.
        self.end_session(&name, |known| known.policy.id != *id);
        let mut resolved = self.resolver.resolve_for_cleanup(pool, id).await?;
        // Whether its addresses are kept may be decided after its deletion.
        let policy = self.resolver.present_policy(pool, &resolved);
        if policy != resolved.policy {
            resolved = Arc::new(ResolvedPool { policy, ..(*resolved).clone() });
        }
        let is_known = |known: &Arc<ResolvedPool>| Arc::ptr_eq(known, &resolved);
        if !self.memory.pools.get(&name).resolved.as_ref().is_some_and(is_known) {
            self.memory.pools.update(&name, |state| state.serve(resolved.clone(), pool));
            // Claims that are being deleted may have waited for a session.
            self.wake.unserved_claims_of(&name);
        }
        Ok(resolved)
    }

    fn has_claims(&self, pool: &ObjectName) -> bool {
        // What was written and not seen yet may be the finalizer.
        let holds = |claim: &IpAddressClaim| {
            claim.is_of(&pool.namespace, &pool.name)
                && (patch::has_finalizer(&claim.metadata, CLAIM_FINALIZER)
                    || self.memory.claims.is_write_awaited(claim))
        };
        self.stores.claims.find(holds).is_some()
    }

    /// Whether any claim or IPAddress of the pool still needs it.
    fn is_held(&self, pool: &ObjectName) -> bool {
        self.memory.claims.is_any_address_awaited(pool)
            || self.has_claims(pool)
            || self.stores.addresses.find(|address| is_of(pool, address)).is_some()
    }

    async fn wait_for_claims(
        &self,
        pool: &OpenStackFloatingIPPool,
        resolved: Option<&ResolvedPool>,
    ) -> Result<Action, Error> {
        let name = name_of(pool);
        if let Some(resolved) = resolved {
            // The claims need OpenStack for their release, so the condition says if it does not answer.
            let listed = resolved.list_to_serve(&self.clock, Some(AUDIT_AGE)).await;
            // Its condition says nothing new while the pool waits.
            self.keep_address_config_map(pool, Some(resolved), listed.is_ok()).await;
            if let Err(error) = listed {
                return self.report_blocked(pool, &PoolFailure::Neutron(error)).await;
            }
            self.wake_claims_with_wrong_marks(resolved);
        }
        let problem = Problem { reason: reasons::DELETING, message: self.explain_wait(&name) };
        // Including those that were about to be served when the deletion began: they have no condition yet.
        self.wake.unserved_claims_of(&name);
        // It releases IPAddresses whose claim was removed by force.
        self.wake.sweeper(&name);
        self.report_deleting(pool, problem, None, resolved).await?;
        self.leave_former_secrets(pool).await?;
        // An awaited IPAddress wakes only its claim when it is delivered, not the pool.
        let is_any_awaited = self.memory.claims.is_any_address_awaited(&name);
        Ok(Action::requeue(self.clock.jitter(if is_any_awaited { CLEANUP_RETRY } else { HELD_RETRY }, 0.5)))
    }

    fn explain_wait(&self, pool: &ObjectName) -> String {
        let addresses = self.stores.addresses.state_filter(|address| is_of(pool, address));
        let mut names: Vec<_> = addresses.iter().map(|address| address.name_any()).collect();
        names.sort();
        names.truncate(NAMED_ADDRESSES);
        match self.has_claims(pool) || names.is_empty() {
            true => {
                "the pool is being deleted; it waits until no claim holds an address of it: delete the machines that do"
                    .into()
            }
            false => {
                let upkeep = self.memory.pools.get(pool).upkeep;
                let why = match upkeep.problem_of(UpkeepPart::Sweep) {
                    _ if self.stores.has_paused_cluster(&pool.namespace) => {
                        "; they are kept while a Cluster of the namespace is paused".to_owned()
                    }
                    Some(problem) => format!("; that fails: {}", problem.message),
                    None => String::new(),
                };
                format!(
                    "the pool is being deleted; it waits until its IPAddresses without a claim are gone: {}{why}",
                    names.join(", ")
                )
            }
        }
    }

    /// Removes the pool's floating IPs and marks from Neutron.
    async fn clean_up(
        &self,
        resolved: &ResolvedPool,
        pool: &OpenStackFloatingIPPool,
    ) -> Result<CleanUp, openstack::Error> {
        let (mut end, mut last) = (None, None);
        resolved.project.ledger().keep_missing(&resolved.policy.id);
        for _ in 0..ROUNDS {
            resolved.list_now(&self.clock).await?;
            // An attempt that began before the deletion may have published an address meanwhile.
            if self.is_held(&resolved.name) {
                return Ok(CleanUp::Held);
            }
            if self.resolver.duplicates().has_original(pool, resolved) {
                return Ok(CleanUp::Done);
            }
            if !self.may_clean_up_for(pool, resolved) {
                return Ok(CleanUp::Interrupted);
            }
            let is_paused = self.stores.has_paused_cluster(&resolved.name.namespace);
            let teardown = self.plan(resolved, is_paused);
            if teardown.actions.is_empty() && !teardown.must_list {
                if !teardown.claimed.is_empty() {
                    let (named, others) = teardown.claimed.split_at(teardown.claimed.len().min(NAMED_ADDRESSES));
                    let more = if others.is_empty() { "" } else { " and others" };
                    return Ok(CleanUp::Paused(addresses_of(resolved, named) + more));
                }
                // The reads take a while, so everything is looked at once more.
                if self.confirm_missing(resolved).await? {
                    continue;
                }
                self.report_newer(pool, &addresses_of(resolved, &teardown.newer)).await;
                return Ok(CleanUp::Done);
            }
            if last.as_ref() == Some(&teardown.actions) {
                let mut ledger = resolved.project.ledger();
                teardown.actions.iter().for_each(|action| ledger.set_hold(action.id(), None));
                // Without actions, only time ends it.
                return Ok(if teardown.actions.is_empty() { CleanUp::Unfinished } else { CleanUp::InVain });
            }
            self.report_attached(pool, &addresses_of(resolved, &teardown.attached)).await;
            if teardown.actions.is_empty() && resolved.project.ledger().fence(&resolved.policy).is_some() {
                break; // Only time ends it.
            }
            let end = *end.get_or_insert_with(|| instant_after(Instant::now(), CLEANUP_DURATION));
            let is_stopped = AtomicBool::new(false);
            let may_go_on = || {
                let may_go_on = self.may_clean_up_for(pool, resolved)
                    && !self.is_held(&resolved.name)
                    && self.stores.has_paused_cluster(&resolved.name.namespace) == is_paused;
                is_stopped.fetch_or(!may_go_on, Ordering::Relaxed);
                may_go_on
            };
            let writer = NeutronWriter::new(resolved, &self.clock).only_while(&may_go_on);
            // True for one that is left, since the time is up.
            let perform_in_time = async |action: &SweepAction| {
                let is_in_time = Instant::now() < end;
                if is_in_time && may_go_on() {
                    let performed = writer.perform_while(is_still_deletable, action, &self.memory, || false).await;
                    return performed.map(|_| false);
                }
                resolved.project.ledger().set_hold(action.id(), None);
                Ok(!is_in_time)
            };
            let actions = futures::stream::iter(&teardown.actions).map(perform_in_time);
            let results: Vec<_> = actions.buffer_unordered(PARALLEL_ACTIONS).collect().await;
            if is_stopped.into_inner() {
                if !self.may_clean_up_for(pool, resolved) {
                    return Ok(CleanUp::Interrupted);
                }
                continue;
            }
            let skipped = results.into_iter().collect::<Result<Vec<_>, _>>()?;
            let left = skipped.into_iter().filter(|is_skipped| *is_skipped).count();
            if left > 0 {
                return Ok(self.interrupted(&resolved.name, left));
            }
            last = Some(teardown.actions);
        }
        Ok(CleanUp::Unfinished)
    }

    /// Whether the pool is still to be cleaned up as was planned. A write may wait for its turn for minutes.
    fn may_clean_up_for(&self, pool: &OpenStackFloatingIPPool, resolved: &ResolvedPool) -> bool {
        let is_as_planned = |now: &OpenStackFloatingIPPool| {
            now.metadata.deletion_timestamp.is_some()
                && HandsOff::of(&now.metadata).is_none()
                && now.spec.reclaim_policy == pool.spec.reclaim_policy
                && !is_abandoned(now)
        };
        !self.memory.interruptions.is_any() && self.stores.pool(&resolved.name).as_deref().is_some_and(is_as_planned)
    }

    /// Makes sure that the pool's floating IPs which listings no longer show are gone. False if there are none.
    ///
    /// # Errors
    ///
    /// Neutron has one of them, does not say that it is gone, or fails otherwise.
    async fn confirm_missing(&self, resolved: &ResolvedPool) -> Result<bool, openstack::Error> {
        let pool = &resolved.policy.id;
        let missing: Vec<_> = resolved.project.ledger().missing_of_pool(pool).cloned().collect();
        let reads = futures::stream::iter(&missing).map(async |Missing { id, address }| {
            match resolved.neutron.get_floating_ip(id).await {
                Err(error) if error.kind == ErrorKind::NotFound => {}
                Ok(fip) if !Marks::read(&fip).names(pool) => {}
                Ok(_) => {
                    let message = format!("{address} is not listed any more, and Neutron has it");
                    return Err(openstack::Error::new(ErrorKind::Conflict, "list floating IPs", message));
                }
                // As where the policy hides it: 404 of the type HTTPNotFound, not FloatingIPNotFound (measured).
                Err(error) if error.kind == ErrorKind::Rejected && error.status == Some(404) => {
                    let message = format!("{address} is not listed any more, and Neutron does not say that it is gone");
                    return Err(openstack::Error { kind: ErrorKind::Forbidden, message, ..error });
                }
                Err(error) => return Err(error),
            }
            resolved.project.ledger().note_gone(id, pool);
            Ok(())
        });
        reads.buffer_unordered(PARALLEL_ACTIONS).try_collect::<()>().await?;
        Ok(!missing.is_empty())
    }

    /// The time was up when so much was left. In vain if it was no more the last time.
    fn interrupted(&self, pool: &ObjectName, left: usize) -> CleanUp {
        let before = self.memory.pools.update(pool, |state| state.interrupted_cleanup.replace(left)).flatten();
        if before.is_some_and(|before| before <= left) { CleanUp::InVain } else { CleanUp::Interrupted }
    }

    /// Plans under the ledger's lock, and holds what is planned.
    fn plan(&self, resolved: &ResolvedPool, is_paused: bool) -> PoolTeardown {
        let mut ledger = resolved.project.ledger();
        let plan = |situation: &Situation<'_>| plan_teardown(situation, is_paused);
        let teardown = self.memory.with_situation(&ledger, resolved, self.clock.now(), plan);
        teardown.actions.iter().for_each(|action| ledger.set_hold(action.id(), Some(Hold::Cleanup)));
        teardown
    }

    async fn remove_pool_finalizer(&self, pool: &OpenStackFloatingIPPool) -> Result<(), Error> {
        let name = name_of(pool);
        match patch::remove_finalizer(&self.kube.pools(&name.namespace), pool, POOL_FINALIZER).await {
            Ok(Some(_)) => tracing::info!(pool.name = %name, "pool cleaned up, its finalizer is removed"),
            Ok(None) => {}
            Err(error) if patch::is_gone(&error) => {}
            Err(error) => return Err(Error::Kubernetes("remove the finalizer from the pool", error)),
        }
        Ok(())
    }

    async fn report_attached(&self, pool: &OpenStackFloatingIPPool, attached: &str) {
        let note = |state: &mut PoolState| state.note_left_behind(ATTACHED_FLOATING_IP_LEFT, attached);
        if attached.is_empty() || self.memory.pools.update_of(pool, note) == Some(false) {
            return;
        }
        tracing::warn!(pool.name = %name_of(pool), "pool deleted, floating IPs in use lose its marks: {attached}");
        let note = format!(
            "left in OpenStack, since they are in use: they only lose the pool's marks; delete them there once nothing uses them: {attached}"
        );
        self.events.record(pool.object_ref(&()), EventType::Warning, ATTACHED_FLOATING_IP_LEFT, "Delete", note).await;
    }

    async fn report_newer(&self, pool: &OpenStackFloatingIPPool, newer: &str) {
        if newer.is_empty() {
            return;
        }
        tracing::warn!(pool.name = %name_of(pool), "pool deleted, floating IPs that a newer version has marked stay as they are: {newer}");
        let note = format!(
            "left as they are in OpenStack, since a newer version of caip-openstack has marked them; delete them there if nothing uses them: {newer}"
        );
        self.events.record(pool.object_ref(&()), EventType::Warning, FLOATING_IP_LEFT_BEHIND, "Delete", note).await;
    }

    /// OpenStack cannot be cleaned up: the condition says why, and how to leave everything behind.
    async fn report_blocked(&self, pool: &OpenStackFloatingIPPool, failure: &PoolFailure) -> Result<Action, Error> {
        log_concealed(&name_of(pool), failure);
        self.end_session_after(failure, pool);
        let message = format!(
            "the pool is being deleted, but OpenStack cannot be cleaned up: {}. Fix that, or annotate the pool with {ABANDON_ANNOTATION}=true to leave its floating IPs behind",
            failure.problem().message
        );
        let problem = Problem { reason: reasons::DELETING, message };
        self.report_deleting(pool, problem, Some(failure), None).await?;
        self.leave_former_secrets(pool).await?;
        Ok(Action::requeue(self.clock.jitter(failure.retry_after(pool), 0.25)))
    }

    /// OpenStack accepted what was done, and did not carry it out.
    async fn report_clean_up_in_vain(
        &self,
        pool: &OpenStackFloatingIPPool,
        resolved: &ResolvedPool,
    ) -> Result<Action, Error> {
        let message = format!(
            "the pool is being deleted; OpenStack accepted that its floating IPs or marks are removed, and still has them: ask its operator, or annotate the pool with {ABANDON_ANNOTATION}=true to leave them behind"
        );
        self.report_unfinished(pool, resolved, message).await
    }

    /// A move or a restore may be under way: the claims of these addresses may be on their way, or in another management
    /// cluster.
    async fn report_paused_clean_up(
        &self,
        pool: &OpenStackFloatingIPPool,
        resolved: &ResolvedPool,
        claimed: &str,
    ) -> Result<Action, Error> {
        let message = format!(
            "the pool is being deleted; floating IPs that are marked for claims stay while a Cluster of the namespace is paused: {claimed}. If they are used from another management cluster, annotate the pool with {ABANDON_ANNOTATION}=true"
        );
        self.report_unfinished(pool, resolved, message).await
    }

    /// The condition says why the pool is still there, and it is cleaned up again later.
    async fn report_unfinished(
        &self,
        pool: &OpenStackFloatingIPPool,
        resolved: &ResolvedPool,
        message: String,
    ) -> Result<Action, Error> {
        let problem = Problem { reason: reasons::DELETING, message };
        self.report_deleting(pool, problem, None, Some(resolved)).await?;
        self.leave_former_secrets(pool).await?;
        Ok(Action::requeue(self.clock.jitter(HELD_RETRY, 0.5)))
    }

    /// Records what an abandoned pool leaves behind, in the log and in an event.
    async fn report_abandoned(&self, pool: &OpenStackFloatingIPPool) {
        let name = name_of(pool);
        let mut left: Vec<String> = match self.memory.pools.get(&name).resolved {
            Some(resolved) => {
                let ledger = resolved.project.ledger();
                let listed = ledger.of_pool(&resolved.policy.id).map(|entry| entry.fip.address.to_string());
                let missing = ledger.missing_of_pool(&resolved.policy.id);
                listed.chain(missing.map(|missing| format!("{} (not listed any more)", missing.address))).collect()
            }
            None => {
                let addresses = self.stores.addresses.state_filter(|address| is_of(&name, address));
                addresses.iter().map(|address| address.spec.address.clone()).collect()
            }
        };
        left.sort();
        let left = if left.is_empty() { "none known".to_owned() } else { left.join(", ") };
        if self.memory.pools.update_of(pool, |state| state.note_left_behind(ABANDONED, &left)) == Some(false) {
            return;
        }
        tracing::warn!(pool.name = %name, "abandoned, floating IPs left behind in OpenStack: {left}");
        let note = format!(
            "left behind in OpenStack, as the abandon annotation says; delete them there if nothing uses them: {left}"
        );
        self.events.record(pool.object_ref(&()), EventType::Warning, ABANDONED, "Delete", note).await;
    }
}

/// How an attempt to remove a pool's floating IPs and marks from Neutron ended.
enum CleanUp {
    /// Nothing is left, and no claim needs the pool.
    Done,
    /// A claim or an IPAddress needs the pool after all.
    Held,
    /// The time is up, or it is not to go on as planned: the pool is reconciled again at once.
    Interrupted,
    /// What is left is done at the next try.
    Unfinished,
    /// Neutron accepted every request, and shows the same as before.
    InVain,
    /// Only these addresses are left, which are marked for claims, and a Cluster of the namespace is paused.
    Paused(String),
}

fn addresses_of(resolved: &ResolvedPool, ids: &[FloatingIpId]) -> String {
    let ledger = resolved.project.ledger();
    let addresses = ids.iter().filter_map(|id| ledger.get(id)).map(|entry| entry.fip.address.to_string());
    addresses.collect::<Vec<_>>().join(", ")
}

/// One whose finalizer is removed already still counts: until its end is delivered, its floating IP looks published.
fn is_of(pool: &ObjectName, address: &IpAddress) -> bool {
    address.is_of(&pool.namespace, &pool.name) && is_ours(address)
}
