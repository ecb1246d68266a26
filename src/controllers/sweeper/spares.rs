//! Floating IPs that a pool has ready, so that a claim need not wait for Neutron.

use std::sync::Arc;

use crate::allocation::Nonce;
use crate::allocation::claim::{UNWANTED_LIMIT, creation_mark};
use crate::allocation::ledger::Creation;
use crate::controllers::act;
use crate::controllers::context::Context;
use crate::controllers::registry::ResolvedPool;
use crate::floating_ip::FloatingIp;
use crate::openstack::{self, NewFloatingIp};

/// Creates one. What Neutron offers and the pool may not give is held while another is asked for, and then deleted.
pub(super) async fn create(ctx: &Arc<Context>, served: &Arc<ResolvedPool>) -> Result<(), openstack::Error> {
    let pool = &served.policy.id;
    let mut unwanted = Vec::new();
    let result = loop {
        match offer(ctx, served).await {
            Ok(Some(fip)) if is_of_use(ctx, served, &fip) => {
                served.project.ledger().unblock(pool);
                break Ok(());
            }
            Ok(Some(fip)) => {
                act::decline(served, &fip.id);
                unwanted.push(fip.id);
                continue;
            }
            Ok(None) => {}
            Err(error) => break Err(error),
        }
        if !unwanted.is_empty() {
            served.project.ledger().found_barren(pool, ctx.clock.now());
        }
        break Ok(());
    };
    let discarded = act::discard(served, &ctx.clock, unwanted).await;
    result.and(discarded)
}

fn is_of_use(ctx: &Context, served: &ResolvedPool, fip: &FloatingIp) -> bool {
    served.policy.reserved_for(fip.address).is_none()
        && !served.policy.is_excluded(fip.address)
        && ctx.published(|published| !published.is_published(fip))
}

/// What Neutron gives; none where it gives nothing now, or nothing may be asked.
async fn offer(ctx: &Context, served: &Arc<ResolvedPool>) -> Result<Option<FloatingIp>, openstack::Error> {
    let policy = &served.policy;
    let nonce = Nonce::parse(&ctx.clock.random_name(Nonce::LENGTH)).expect("of the nonce's alphabet");
    let (network, subnet) = {
        let mut ledger = served.project.ledger();
        // The pool's end may have begun since this was planned, and does not wait for what is not begun.
        let Some(network) = policy.network.clone().filter(|_| ctx.is_at_work(&served.name)) else { return Ok(None) };
        let now = ctx.clock.now();
        let subnet = policy.subnets.iter().find(|subnet| ledger.may_ask(subnet, now)).cloned();
        if (subnet.is_none() && !policy.subnets.is_empty()) || !ledger.may_create(&policy.id, now) {
            return Ok(None);
        }
        // Counted again under the lock: the plan may be older than what claims have created since.
        if policy.max_ips.is_some_and(|limit| ledger.counted(&policy.id) >= limit)
            || ledger.unwanted(&policy.id) >= UNWANTED_LIMIT
        {
            return Ok(None);
        }
        let creation = Creation { pool: policy.id.clone(), claim: None, unknown_since: None };
        ledger.begin_creation(nonce.clone(), creation);
        (network, subnet)
    };
    let new = NewFloatingIp { network, subnet: subnet.clone(), description: String::new() };
    let mark = creation_mark(policy, None, nonce);
    match act::create(served, &ctx.clock, new, &mark, None).await {
        Ok(fip) => Ok(Some(fip)),
        Err(error) => act::refused(served, &ctx.clock, subnet, error).map(|()| None),
    }
}
