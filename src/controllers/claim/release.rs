//! Gives a claim's address back: tag it for release, take the IPAddress away, let the claim go. The sweep does the rest.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::runtime::events::EventType;
use kube::{Resource, ResourceExt};

use super::{Error, Observed, publish};
use crate::allocation::ClaimKey;
use crate::allocation::ledger::Hold;
use crate::allocation::release::{ReleaseStep, decide};
use crate::api::conditions::event_reasons::FLOATING_IP_LEFT_BEHIND;
use crate::api::names::{ABANDON_ANNOTATION, CLAIM_FINALIZER};
use crate::controllers::act;
use crate::controllers::context::{Context, all};
use crate::controllers::patch;
use crate::controllers::queue::Action;
use crate::controllers::registry::ResolvedPool;
use crate::controllers::sweeper::is_stray;
use crate::metrics::OperationResult;
use crate::object_name::ObjectName;
use crate::openstack;

/// Releases what a deleted claim holds.
pub(super) async fn run(observed: &Observed, ctx: &Arc<Context>) -> Result<Action, Error> {
    let is_abandoned = |annotations: &std::collections::BTreeMap<String, String>| {
        annotations.get(ABANDON_ANNOTATION).is_some_and(|value| value == "true")
    };
    let pool_is_gone = observed.pool.is_none();
    let is_abandoned = is_abandoned(observed.claim.annotations())
        || observed.pool.as_ref().is_some_and(|pool| is_abandoned(pool.annotations()));
    match &observed.known.served {
        Some(served) if !is_abandoned => {
            give_back(ctx, served, &observed.name)
                .await
                .inspect_err(|_| ctx.metrics.released(OperationResult::Failure))
                .map_err(Error::OpenStack)?;
        }
        _ if is_abandoned || pool_is_gone => leave_behind(observed, ctx, pool_is_gone).await,
        _ => {
            let problem = observed.known.problem.as_ref().map_or("it is being looked at", |problem| &problem.message);
            return Err(Error::PoolNotReady(problem.to_owned()));
        }
    }
    if let Some(address) = &observed.address
        && address.spec.claim_ref.name == observed.name.name
        && address.spec.pool_ref == observed.claim.spec.pool_ref
    {
        publish::remove(ctx, address).await?;
    }
    if let Some(change) = patch::without_finalizer(&observed.claim.metadata, CLAIM_FINALIZER) {
        // What wakes it before the watch has seen this must not release it again. One that lives waits for another pool.
        let goes = observed.claim.metadata.deletion_timestamp.is_some();
        ctx.writes().let_go(&observed.claim, goes);
        match patch::merge(&ctx.claims(&observed.name.namespace), &observed.name.name, change).await {
            // Counted here and not before: what comes before may be done again after a conflict.
            Ok(claim) => {
                ctx.writes().claim(&observed.name, &claim);
                ctx.metrics.released(OperationResult::Success);
            }
            Err(error) if patch::is_not_found(&error) => {}
            Err(error) => {
                ctx.writes().let_go(&observed.claim, false);
                return Err(Error::Kubernetes("take the finalizer off the claim", error));
            }
        }
    }
    ctx.report_soon(&observed.pool_name);
    Ok(Action::await_change())
}

async fn give_back(ctx: &Arc<Context>, served: &ResolvedPool, claim: &ObjectName) -> Result<(), openstack::Error> {
    let key = ClaimKey::of(&claim.namespace, &claim.name);
    if served.project.ledger().listed().is_none() {
        look(ctx, served).await?;
    }
    let hold = Hold::Claim { pool: served.policy.id.clone(), claim: key.clone() };
    {
        // Offered and not wanted, and nobody deleted it yet: it goes the same way.
        let mut ledger = served.project.ledger();
        let unwanted = ledger.of_claim(&served.policy.id, &key).filter(|entry| entry.hold == Some(Hold::Unwanted));
        let unwanted: Vec<_> = unwanted.map(|entry| entry.fip.id.clone()).collect();
        unwanted.iter().for_each(|id| ledger.hold(id, None));
    }
    loop {
        let next = decide(&served.project.ledger(), &served.policy, &key, ctx.clock.now());
        tracing::debug!(claim.name = %claim, decision = ?next, "decided");
        match next {
            ReleaseStep::Done => break,
            ReleaseStep::Tag(id, tag) => {
                act::add_tag(served, &ctx.clock, &id, &tag).await?;
            }
            ReleaseStep::Describe(id, mark) => {
                let reader = Some((claim.namespace.as_str(), claim.name.as_str()));
                act::describe(served, &ctx.clock, &id, &mark.render(reader)).await?;
            }
            ReleaseStep::Withdraw(id, tag) => act::withdraw(served, &ctx.clock, &id, &tag, hold.clone()).await?,
            ReleaseStep::Settle => {
                look(ctx, served).await?;
                let is_open = {
                    let ledger = served.project.ledger();
                    ledger.creations(&served.policy.id).any(|(_, creation)| creation.claim.as_ref() == Some(&key))
                };
                if is_open {
                    return Err(openstack::Error::new(
                        openstack::ErrorKind::NoAnswer,
                        "create floating IP",
                        "OpenStack did not say whether it created an address; looking for it before the claim goes",
                    ));
                }
            }
        }
    }
    served.project.ledger().let_go(&hold);
    ctx.wake_sweeper(&served.name);
    Ok(())
}

async fn look(ctx: &Arc<Context>, served: &ResolvedPool) -> Result<(), openstack::Error> {
    let after = served.project.ledger().next_step();
    served.project.look(served.neutron.as_ref(), &ctx.clock, after).await
}

/// Nobody can be asked any more, or nobody is to be: what stays behind is written down.
async fn leave_behind(observed: &Observed, ctx: &Arc<Context>, pool_is_gone: bool) {
    let Some(address) = &observed.address else { return };
    let why = if pool_is_gone { "its pool is gone" } else { "the abandon annotation says so" };
    let address = &address.spec.address;
    tracing::warn!(claim.name = %observed.name, fip.address = %address, "floating IP left behind in OpenStack: {why}");
    let on: ObjectReference = observed.claim.object_ref(&ctx.version);
    let note = format!("floating IP {address} was left as it is in OpenStack, since {why}: release it there");
    ctx.events.record(on, EventType::Warning, FLOATING_IP_LEFT_BEHIND, "ReleaseStep", note).await;
}

/// Releases IPAddresses that are being deleted although their claim is gone: its finalizers were taken by force.
pub(in crate::controllers) async fn release_strays(ctx: &Arc<Context>, served: &ResolvedPool) -> Result<(), Error> {
    for address in all(&ctx.stores.addresses, |address| is_stray(ctx, &served.name, address)) {
        let namespace = address.namespace().unwrap_or_default();
        let claim = ObjectName::new(namespace, &address.spec.claim_ref.name);
        give_back(ctx, served, &claim).await.map_err(Error::OpenStack)?;
        publish::remove(ctx, &address).await?;
    }
    Ok(())
}
