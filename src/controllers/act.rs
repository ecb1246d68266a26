//! The effects in Neutron, one call each, with what the ledger learns from the answer. Each is safe to repeat.
//!
//! A call whose outcome is not known leaves the address held by whoever made it, so that nobody else builds on it.

use std::time::Duration;

use tracing::info;

use super::registry::ResolvedPool;
use crate::allocation::Refusal;
use crate::allocation::claim::MarkWrite;
use crate::allocation::ledger::{CreationBlock, Hold};
use crate::allocation::mark::CreationMark;
use crate::allocation::sweep::SweepAction;
use crate::clock::Clock;
use crate::floating_ip::{FloatingIp, FloatingIpId, SubnetId};
use crate::object_name::ObjectName;
use crate::openstack::{Error, ErrorKind, NewFloatingIp};

/// How long a pool that Neutron refused creates nothing: one look for all its waiting claims. With the time until the
/// pool's next look, what was mended serves within 30 s.
const BLOCKED_FOR: Duration = Duration::from_secs(10);

/// Writes a mark on an address that the caller holds.
pub(super) async fn mark(
    served: &ResolvedPool,
    clock: &Clock,
    id: &FloatingIpId,
    write: &MarkWrite,
    reader: Option<&ObjectName>,
) -> Result<(), Error> {
    match write {
        MarkWrite::Describe(mark) => describe(served, clock, id, &mark.render(reader.map(names))).await,
        MarkWrite::Tag(tag) => add_tag(served, clock, id, tag).await,
    }
}

/// Rewrites a description.
pub(super) async fn describe(
    served: &ResolvedPool,
    clock: &Clock,
    id: &FloatingIpId,
    description: &str,
) -> Result<(), Error> {
    let began = served.project.ledger().next_step();
    match served.neutron.describe_floating_ip(id, description).await {
        Ok(fip) => {
            info!(pool.name = %served.name, fip.id = %id, fip.address = %fip.address, fip.description = description, "described");
            served.project.ledger().wrote(fip, began);
            Ok(())
        }
        Err(error) => failed(served, clock, id, error),
    }
}

/// Adds a tag.
pub(super) async fn add_tag(served: &ResolvedPool, clock: &Clock, id: &FloatingIpId, tag: &str) -> Result<(), Error> {
    let result = {
        let _tagging = served.project.tagging();
        served.neutron.add_tag(id, tag).await
    };
    match result {
        Ok(()) => {
            info!(pool.name = %served.name, fip.id = %id, fip.tag = tag, "tagged");
            served.project.ledger().tagged(id, tag, true);
            Ok(())
        }
        Err(error) => failed(served, clock, id, error),
    }
}

/// Takes tags off, in their order.
pub(super) async fn untag(
    served: &ResolvedPool,
    clock: &Clock,
    id: &FloatingIpId,
    tags: &[String],
) -> Result<(), Error> {
    for tag in tags {
        match served.neutron.remove_tag(id, tag).await {
            Ok(()) => {
                info!(pool.name = %served.name, fip.id = %id, fip.tag = tag, "untagged");
                served.project.ledger().tagged(id, tag, false);
            }
            Err(error) => return failed(served, clock, id, error),
        }
    }
    Ok(())
}

/// Takes a claim's mark off an address that it may not have. From here on the address is being given back: what is
/// withdrawn is not taken again half way.
pub(super) async fn withdraw(
    served: &ResolvedPool,
    clock: &Clock,
    id: &FloatingIpId,
    tag: &str,
    claim: Hold,
) -> Result<(), Error> {
    served.project.ledger().begin_withdrawal(id, &claim);
    let created = served.project.ledger().get(id).and_then(|entry| entry.marks.created.clone());
    let result = match created.filter(|mark| mark.pool == served.policy.id) {
        Some(mark) => {
            let is_retained = !served.policy.deletes;
            let idle = CreationMark { claim: None, released: None, is_retained, ..mark };
            describe(served, clock, id, &idle.render(None)).await
        }
        None => untag(served, clock, id, &[tag.to_owned()]).await,
    };
    let is_undone = result.as_ref().is_err_and(|error| !error.is_unknown());
    served.project.ledger().end_withdrawal(id, claim, is_undone);
    result
}

/// Creates a floating IP whose creation the ledger already counts.
pub(super) async fn create(
    served: &ResolvedPool,
    clock: &Clock,
    new: NewFloatingIp,
    mark: &CreationMark,
    reader: Option<&ObjectName>,
) -> Result<FloatingIp, Error> {
    let began = served.project.ledger().next_step();
    let new = NewFloatingIp { description: mark.render(reader.map(names)), ..new };
    let result = served.neutron.create_floating_ip(&new).await;
    let mut ledger = served.project.ledger();
    match &result {
        Ok(fip) => {
            info!(pool.name = %served.name, fip.id = %fip.id, fip.address = %fip.address, claim.name = reader.map(tracing::field::display), "created");
            ledger.wrote(fip.clone(), began);
            ledger.end_creation(&mark.nonce);
        }
        Err(error) if error.is_unknown() => ledger.doubt_creation(&mark.nonce, clock.now()),
        Err(_) => ledger.end_creation(&mark.nonce),
    }
    result
}

/// Notes why Neutron gave a pool no address, so that nobody asks in vain for a while.
///
/// # Errors
///
/// The answer itself, where it is about something else than what there is to give.
pub(super) fn refused(
    served: &ResolvedPool,
    clock: &Clock,
    subnet: Option<SubnetId>,
    answer: Error,
) -> Result<(), Error> {
    let until = clock.now() + BLOCKED_FOR;
    let mut ledger = served.project.ledger();
    let refusal = match (answer.kind, subnet) {
        (ErrorKind::OverQuota, _) => Refusal::QuotaReached,
        (ErrorKind::NoMoreAddresses, None) => Refusal::NetworkExhausted,
        (ErrorKind::NoMoreAddresses, Some(subnet)) => {
            ledger.subnet_is_empty(subnet, until);
            return Ok(());
        }
        _ => return Err(answer),
    };
    ledger.block(served.policy.id.clone(), CreationBlock { refusal, until });
    Ok(())
}

/// Holds an address that Neutron offered and the pool may not give, so that asking again brings another.
pub(super) fn decline(served: &ResolvedPool, id: &FloatingIpId) {
    served.project.ledger().decline(id, Hold::Unwanted);
}

/// Deletes what was declined: each is tried, whatever becomes of the others.
///
/// # Errors
///
/// The first refusal. What is left is the sweep's.
pub(super) async fn discard(served: &ResolvedPool, clock: &Clock, declined: Vec<FloatingIpId>) -> Result<(), Error> {
    let mut result = Ok(());
    for id in declined {
        served.project.ledger().hold(&id, Some(Hold::GivingBack));
        result = result.and(chore(served, clock, &SweepAction::Delete(id)).await);
    }
    result
}

/// Deletes a floating IP that the caller holds; one that is gone already is success.
pub(super) async fn delete(served: &ResolvedPool, clock: &Clock, id: &FloatingIpId) -> Result<(), Error> {
    match served.neutron.delete_floating_ip(id).await {
        Ok(()) => info!(pool.name = %served.name, fip.id = %id, "deleted"),
        Err(error) if error.kind == ErrorKind::NotFound => {}
        Err(error) => return failed(served, clock, id, error),
    }
    served.project.ledger().gone(id);
    Ok(())
}

/// Does one chore of a sweep, and gives the address back. What is not known to be done is left to time, and planned anew.
pub(super) async fn chore(served: &ResolvedPool, clock: &Clock, chore: &SweepAction) -> Result<(), Error> {
    let result = match chore {
        SweepAction::Delete(id) => delete(served, clock, id).await,
        SweepAction::Rewrite { id, description, tags } => {
            rewrite(served, clock, id, description.as_deref(), tags).await
        }
        SweepAction::Release(id, tag) => add_tag(served, clock, id, tag).await,
        SweepAction::Describe(id, mark) => describe(served, clock, id, &mark.render(None)).await,
    };
    served.project.ledger().hold(chore.id(), None);
    result
}

async fn rewrite(
    served: &ResolvedPool,
    clock: &Clock,
    id: &FloatingIpId,
    description: Option<&str>,
    tags: &[String],
) -> Result<(), Error> {
    if let Some(description) = description {
        describe(served, clock, id, description).await?;
    }
    untag(served, clock, id, tags).await
}

/// What a failed write teaches: gone is gone, undone frees the address, unknown keeps it from everybody else.
fn failed(served: &ResolvedPool, clock: &Clock, id: &FloatingIpId, error: Error) -> Result<(), Error> {
    let mut ledger = served.project.ledger();
    if error.kind == ErrorKind::NotFound {
        ledger.gone(id);
        return Ok(());
    }
    if error.is_unknown() {
        ledger.doubt(id, clock.now());
    } else {
        ledger.give_up(id);
    }
    Err(error)
}

fn names(object: &ObjectName) -> (&str, &str) {
    (&object.namespace, &object.name)
}
