//! What a claim is told: its condition, its address, an event; only when they change.

use std::sync::Arc;
use std::time::Duration;

use kube::Resource;
use kube::runtime::events::EventType;
use serde_json::json;

use super::{Error, Observed};
use crate::allocation::claim::Origin;
use crate::api::conditions::claim_reasons::{ADDRESS_ALLOCATED, ALLOCATION_FAILED, POOL_EXHAUSTED, RELEASE_FAILED};
use crate::api::conditions::{DesiredCondition, READY, claim_patch, claim_ready, claim_unready_since};
use crate::api::names::ABANDON_ANNOTATION;
use crate::controllers::context::{Context, Waiting};
use crate::controllers::patch;
use crate::floating_ip::FloatingIp;

/// The claim has its address; `false` when it went meanwhile.
pub(super) async fn bound(
    observed: &Observed,
    ctx: &Arc<Context>,
    fip: &FloatingIp,
    origin: Origin,
) -> Result<bool, Error> {
    let wish = DesiredCondition {
        type_: READY,
        status: "True",
        reason: ADDRESS_ALLOCATED,
        message: format!("floating IP {} of pool {}", fip.address, observed.pool_name.name),
    };
    let written = write(observed, ctx, &wish, Some(&observed.name.name)).await?;
    let waited = ctx.waiting().get_mut(&observed.pool_name).and_then(|waiting| waiting.remove(&observed.name));
    if written == Written::Now {
        let since = waited.map_or_else(|| super::place(&observed.claim).since, |waiting| waiting.since);
        let duration = Duration::try_from(ctx.clock.now().duration_since(since)).unwrap_or_default();
        ctx.metrics.allocated(origin, duration);
        let note = format!("floating IP {} ({}) of pool {}", fip.address, origin.as_str(), observed.pool_name.name);
        ctx.events.announce(
            observed.claim.object_ref(&ctx.version),
            EventType::Normal,
            ADDRESS_ALLOCATED,
            "Allocate",
            note,
        );
        ctx.report_soon(&observed.pool_name);
    }
    Ok(written != Written::ToNobody)
}

/// There is no address to give.
pub(super) async fn exhausted(observed: &Observed, ctx: &Arc<Context>, message: String) -> Result<(), Error> {
    waiting(observed, ctx, POOL_EXHAUSTED, message).await
}

/// Something failed, or must be mended.
pub(super) async fn failed(observed: &Observed, ctx: &Arc<Context>, message: String) -> Result<(), Error> {
    waiting(observed, ctx, ALLOCATION_FAILED, message).await
}

/// The claim is being deleted and its address cannot be given back yet. It does not wait for an address.
pub(super) async fn held_up(observed: &Observed, ctx: &Arc<Context>, why: &str) -> Result<(), Error> {
    let message = format!(
        "its address cannot be given back yet: {why}; where OpenStack is gone for good, the annotation \
         {ABANDON_ANNOTATION}=true lets the claim go and leaves the address there"
    );
    let wish = DesiredCondition { type_: READY, status: "False", reason: RELEASE_FAILED, message };
    if write(observed, ctx, &wish, None).await? == Written::Now {
        let on = observed.claim.object_ref(&ctx.version);
        ctx.events.announce(on, EventType::Warning, RELEASE_FAILED, "Release", wish.message);
    }
    Ok(())
}

/// The claim has no address yet, and why.
pub(super) async fn waiting(
    observed: &Observed,
    ctx: &Arc<Context>,
    reason: &'static str,
    message: String,
) -> Result<(), Error> {
    if !observed.is_there(ctx) {
        return Ok(());
    }
    {
        let mut all = ctx.waiting();
        let of_pool = all.entry(observed.pool_name.clone()).or_default();
        // What an earlier process said of it counts: else each restart would make the claim young again.
        let known = of_pool.get(&observed.name).map(|waiting| waiting.since);
        let since = known.or_else(|| claim_unready_since(observed.claim.status.as_ref()));
        let since = since.unwrap_or_else(|| ctx.clock.now());
        of_pool.insert(observed.name.clone(), Waiting { reason, since });
    }
    let wish = DesiredCondition { type_: READY, status: "False", reason, message };
    if write(observed, ctx, &wish, None).await? == Written::Now {
        let on = observed.claim.object_ref(&ctx.version);
        ctx.events.announce(on, EventType::Warning, reason, "Allocate", wish.message);
        ctx.report_soon(&observed.pool_name);
    }
    Ok(())
}

/// What became of a status.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Written {
    Now,
    Before,
    /// The claim went meanwhile: nobody is left to be told.
    ToNobody,
}

/// Writes the status if it differs. An address that is there is never taken back here.
async fn write(
    observed: &Observed,
    ctx: &Arc<Context>,
    wish: &DesiredCondition,
    address: Option<&str>,
) -> Result<Written, Error> {
    let status = observed.claim.status.as_ref();
    let current = status.and_then(|status| status.address_ref.as_ref()).map(|reference| reference.name.as_str());
    let is_said = claim_ready(status, ctx.version).is_some_and(|(status, reason, message)| {
        status == wish.status && reason == wish.reason && (wish.status == "True" || message == wish.message)
    });
    if is_said && (address.is_none() || address == current) {
        return Ok(Written::Before);
    }
    let mut status = claim_patch(status, ctx.version, wish, ctx.clock.now());
    if let Some(name) = address {
        status["addressRef"] = json!({"name": name});
    }
    let api = ctx.claims(&observed.name.namespace);
    let change = kube::api::Patch::Merge(json!({"status": status}));
    match api.patch_status(&observed.name.name, &kube::api::PatchParams::default(), &change).await {
        Ok(claim) => {
            ctx.writes().claim(&observed.name, &claim);
            Ok(Written::Now)
        }
        Err(error) if patch::is_not_found(&error) => Ok(Written::ToNobody),
        Err(error) => Err(Error::Kubernetes("write the claim's status", error)),
    }
}
