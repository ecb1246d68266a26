//! What is the claim's already: by its IPAddress, by its mark, or by a choice that was begun. Nothing is chosen here.

use jiff::Timestamp;

use super::{BoundAddress, ClaimRequest, Decision, LostAddress, MarkWrite, Origin, fenced, is_free};
use crate::allocation::ledger::{Ledger, LedgerEntry};
use crate::allocation::mark::{Ownership, claim_tag};
use crate::allocation::policy::PoolPolicy;
use crate::allocation::published::{Binding, PublishedAddresses};
use crate::floating_ip::FloatingIp;

/// The address that an IPAddress of this claim names is the claim's, whatever the marks say.
pub(super) fn keep_published(
    ledger: &Ledger,
    pool: &PoolPolicy,
    claim: &ClaimRequest,
    published: &BoundAddress,
    now: Timestamp,
) -> Decision {
    if let Some(entry) = ledger.get(&published.fip) {
        return match entry.marks.ownership(&pool.id) {
            Ownership::Held(key) if key == claim.key => Decision::Keep(entry.fip.id.clone()),
            Ownership::Foreign | Ownership::Contested => Decision::Lost(LostAddress::Taken(published.address)),
            _ => keep(ledger, pool, claim, entry, now),
        };
    }
    // Somebody deleted it and created the same address again: it is taken as any free one would be.
    let is_to_be_had = |entry: &&LedgerEntry| match entry.marks.ownership(&pool.id) {
        Ownership::Unmarked => is_free(entry) && pool.has_tags,
        Ownership::Held(key) => key == claim.key,
        _ => false,
    };
    match ledger.at(published.address).find(is_to_be_had) {
        Some(entry) => keep(ledger, pool, claim, entry, now),
        None => Decision::Lost(LostAddress::Deleted(published.address)),
    }
}

/// The claim's address by its mark: the held one first, then one that was released under the claim's name.
pub(super) fn recover<'a>(
    ledger: &'a Ledger,
    published: &PublishedAddresses,
    pool: &PoolPolicy,
    claim: &ClaimRequest,
) -> Option<&'a LedgerEntry> {
    let by_mark = |entry: &&LedgerEntry| {
        let is_the_claims = match entry.marks.ownership(&pool.id) {
            Ownership::Held(key) => key == claim.key,
            Ownership::Released { claim: key, .. } => key == claim.key && !entry.fip.is_attached(),
            _ => false,
        };
        // Whoever else is at work on it gives it to another claim, or gives it back.
        let mine = claim.hold(&pool.id);
        let mut others = entry.hold.iter().chain(entry.doubts.iter().filter_map(|doubt| doubt.by.as_ref()));
        let is_at_hand = others.all(|hold| *hold == mine);
        // In use it stays the claim's even where the spec was changed since; unused it is given back.
        let may_have = entry.fip.is_attached() || may_keep(published, pool, claim, &entry.fip);
        // A port that came while the choice was not yet certain is somebody else's.
        let is_unsure = entry.fip.is_attached() && (entry.hold.is_some() || is_disowned(pool, claim, entry));
        let is_elsewhere = published.owner(&entry.fip).is_some_and(|owner| !is_claim(owner, pool, claim));
        // Chosen by this very claim, it is the one that was chosen, whoever copied its mark since.
        let is_clear = entry.hold.is_some() || !ledger.is_copied(entry);
        is_the_claims && is_at_hand && may_have && !is_unsure && !is_elsewhere && is_clear
    };
    let rank = |entry: &&LedgerEntry| match entry.marks.ownership(&pool.id) {
        Ownership::Held(_) => (0, entry.fip.id.clone()),
        _ => (1, entry.fip.id.clone()),
    };
    ledger.of_claim(&pool.id, &claim.key).filter(by_mark).min_by_key(rank)
}

/// Whether a floating IP that carries the claim's mark may become the claim's. Asked also of what a POST brought: what
/// the claim may not keep is held as [unwanted](Hold::Unwanted), and given back when the claim has found another.
pub fn may_keep(published: &PublishedAddresses, pool: &PoolPolicy, claim: &ClaimRequest, fip: &FloatingIp) -> bool {
    pool.allows(fip.address, &claim.object.name) && !published.is_published_for_another(fip, &pool.id, &claim.key)
}

fn is_claim(owner: &Binding, pool: &PoolPolicy, claim: &ClaimRequest) -> bool {
    owner.pool == pool.id && owner.claim == claim.key
}

/// Makes the marks say what is so: the address is the claim's.
pub(super) fn keep(
    ledger: &Ledger,
    pool: &PoolPolicy,
    claim: &ClaimRequest,
    entry: &LedgerEntry,
    now: Timestamp,
) -> Decision {
    let id = entry.fip.id.clone();
    let mine = (pool.id.clone(), claim.key.clone());
    let described = entry.marks.created.as_ref().filter(|mark| mark.pool == pool.id);
    if let Some((_, tags)) = entry.marks.releases.get(&mine) {
        let has_claim = described
            .is_some_and(|mark| mark.claim.as_ref() == Some(&claim.key) && mark.released.is_none())
            || entry.marks.claims.contains(&mine);
        // First the claim's own mark, then the release comes off: in between it is still on its way out, and ours.
        if has_claim {
            return Decision::TakeBack(id, tags.iter().cloned().collect());
        }
    } else if entry.marks.ownership(&pool.id) == Ownership::Held(claim.key.clone()) {
        // A tag of ours that is not yet confirmed is a choice in progress, not a possession.
        return if entry.hold.is_some() && !entry.marks.claims.is_empty() && !entry.is_confirmed() {
            Decision::Confirm(id)
        } else {
            Decision::Keep(id)
        };
    }
    match described {
        Some(_) if ledger.fence(pool).is_some() => fenced(ledger, pool, now),
        Some(mark) => Decision::Mark(id, Origin::Recovered, MarkWrite::Describe(mark.given_to(&claim.key))),
        None => Decision::Mark(id, Origin::Recovered, MarkWrite::Tag(claim_tag(&pool.id, &claim.key))),
    }
}

/// The address that this claim holds for itself, whose mark is not (yet, or no longer) the claim's alone.
pub(super) fn chosen<'a>(ledger: &'a Ledger, pool: &PoolPolicy, claim: &ClaimRequest) -> Option<&'a LedgerEntry> {
    let hold = claim.hold(&pool.id);
    ledger.held().find(|entry| entry.hold.as_ref() == Some(&hold))
}

/// An address that carries this claim's tag beside another owner's, or beside a port that is not the claim's, and nobody
/// is at work on it: the process that wrote the tag died before it could withdraw, or the tag landed after that. Nobody
/// else would take it off while the claim waits, and the other owner would be told that its address is not its own.
pub(super) fn stranded<'a>(ledger: &'a Ledger, pool: &PoolPolicy, claim: &ClaimRequest) -> Option<&'a LedgerEntry> {
    let mine = (pool.id.clone(), claim.key.clone());
    let is_shared =
        |entry: &LedgerEntry| entry.marks.is_unreadable || entry.marks.pools().iter().any(|other| **other != pool.id);
    let is_ours = |entry: &LedgerEntry| entry.marks.created.as_ref().is_some_and(|mark| mark.pool == pool.id);
    let is_lost = |entry: &LedgerEntry| is_shared(entry) || entry.fip.is_attached() && is_disowned(pool, claim, entry);
    let is_left = |entry: &LedgerEntry| entry.hold.is_none() && ledger.fence(pool).is_none();
    ledger
        .of_claim(&pool.id, &claim.key)
        .find(|entry| entry.marks.claims.contains(&mine) && is_lost(entry) && !is_ours(entry) && is_left(entry))
}

fn is_disowned(pool: &PoolPolicy, claim: &ClaimRequest, entry: &LedgerEntry) -> bool {
    entry.disowned.contains(&(pool.id.clone(), claim.key.clone()))
}

/// What becomes of a choice that was not completed.
pub(super) fn finish(
    published: &PublishedAddresses,
    pool: &PoolPolicy,
    claim: &ClaimRequest,
    entry: &LedgerEntry,
) -> Decision {
    let id = entry.fip.id.clone();
    let tag = claim_tag(&pool.id, &claim.key);
    let is_lost = entry.fip.is_attached()
        || !may_keep(published, pool, claim, &entry.fip)
        || matches!(entry.marks.ownership(&pool.id), Ownership::Foreign | Ownership::Contested);
    match &entry.marks.created {
        _ if is_lost => Decision::Withdraw(id, tag),
        // The write is repeated as it was: the same text for the same claim cannot do harm, however late it lands.
        Some(mark) if mark.pool == pool.id => {
            Decision::Mark(id, Origin::Owned, MarkWrite::Describe(mark.given_to(&claim.key)))
        }
        _ => Decision::Mark(id, Origin::List, MarkWrite::Tag(tag)),
    }
}
