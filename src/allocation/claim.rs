//! What to do for a claim that wants an address: recover first, then choose (design 3, steps 2 to 4).
//!
//! Called again after every effect, with what was learnt, until the answer is [`Decision::Keep`] or [`Decision::Refuse`].
//! Whatever was lost in between (a reply, the process, a status), the answer is the same for the same claim.

use std::net::IpAddr;

use jiff::Timestamp;

use super::directory::{Directory, ObjectName, OurNaming};
use super::identity::{ClaimKey, Nonce, PoolId};
use super::ledger::{Entry, Hold, Ledger, Place};
use super::mark::{CreationMark, Standing, claim_tag};
use super::policy::PoolPolicy;
use super::refusal::Refusal;
use crate::floating_ip::{FloatingIp, FloatingIpId, NetworkId, SubnetId};

/// How often another address is asked for when Neutron offers one that the pool may not give.
pub const UNWANTED_LIMIT: usize = 8;

/// A claim that wants an address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wanting {
    /// Its identity in marks.
    pub key: ClaimKey,
    /// Its namespace and name.
    pub object: ObjectName,
    /// When it was created: its place among those that wait.
    pub since: Timestamp,
    /// What its IPAddress names, when it has one of ours.
    pub published: Option<Published>,
}

impl Wanting {
    /// Its place among those that wait.
    pub fn place(&self) -> Place {
        Place { since: self.since, object: self.object.clone() }
    }

    /// Its exclusive right to work on an address.
    pub fn hold(&self, pool: &PoolId) -> Hold {
        Hold::Claim { pool: pool.clone(), claim: self.key.clone() }
    }
}

/// What the claim's IPAddress names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Published {
    /// The address.
    pub address: IpAddr,
    /// The floating IP.
    pub fip: FloatingIpId,
}

/// Where an address came from, in the order of choice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Origin {
    /// It was the claim's already.
    Recovered,
    /// The claim's reservation.
    Reserved,
    /// The pool's list.
    List,
    /// The pool owned it: preallocated, retained, or on its way out.
    Owned,
    /// A free floating IP of the project.
    Reuse,
    /// Created.
    Created,
}

impl Origin {
    /// The one word for logs, metrics and the IPAddress' annotation.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Recovered => "recovered",
            Self::Reserved => "reserved",
            Self::List => "list",
            Self::Owned => "owned",
            Self::Reuse => "reuse",
            Self::Created => "created",
        }
    }
}

/// The one write that makes an address the claim's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Write {
    /// Rewrite the description: we created it.
    Describe(CreationMark),
    /// Add the tag: we did not.
    Tag(String),
}

/// The next thing to do for a claim.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Decision {
    /// The address is the claim's, for certain: publish it, tell the directory, and only then give up the hold.
    Keep(FloatingIpId),
    /// Write the mark; it is held for the claim meanwhile.
    Mark(FloatingIpId, Origin, Write),
    /// It is the claim's again: take these release tags off, holding it, so that no other claim takes it meanwhile.
    TakeBack(FloatingIpId, Vec<String>),
    /// The tag is written: look again before anything is published.
    Confirm(FloatingIpId),
    /// Somebody else's mark or a port is there too: take ours off (the tag, or the claim's part of the description) and
    /// choose again. Held as [given back](Hold::Sweep) from here on: what is withdrawn is not taken again half way.
    Withdraw(FloatingIpId, String),
    /// Ask Neutron for a new one.
    Create(NetworkId, Option<SubnetId>),
    /// A write's outcome is not known yet: read, and ask again.
    Settle,
    /// A predecessor's late writes may still land until then; after it, the project is listed before anything is done.
    Fenced(Timestamp),
    /// There is nothing to give.
    Refuse(Refusal),
    /// The floating IP that the IPAddress names cannot be found or taken again; only a person can mend that.
    Lost(Loss),
}

/// Why a published address is no longer the claim's.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Loss {
    /// Deleted in Neutron.
    #[error(
        "floating IP {0} no longer exists in the project: if the credentials are those of another project, put the right ones back; else delete the machine to get another address"
    )]
    Deleted(IpAddr),
    /// Marked by somebody else.
    #[error(
        "floating IP {0} now carries another owner's mark: remove that mark, or delete the machine to get another address"
    )]
    Taken(IpAddr),
}

/// Decides the next thing to do for a claim.
pub fn decide(ledger: &Ledger, directory: &Directory, pool: &PoolPolicy, claim: &Wanting, now: Timestamp) -> Decision {
    if ledger.listed().is_none() {
        return Decision::Settle;
    }
    if let Some(published) = &claim.published {
        return keep_published(ledger, pool, claim, published, now);
    }
    if let Some(entry) = recover(ledger, directory, pool, claim) {
        return match (keep(ledger, pool, claim, entry, now), &entry.marks.created) {
            // A predecessor may have been about to take the tag off, or to delete what was released.
            (Decision::TakeBack(..), _) | (Decision::Keep(_), None) if ledger.fence(pool).is_some() => {
                fenced(ledger, pool, now)
            }
            (decision, _) => decision,
        };
    }
    if let Some(entry) = chosen(ledger, pool, claim) {
        return finish(directory, pool, claim, entry);
    }
    if ledger.creations(&pool.id).any(|(_, creation)| creation.claim.as_ref() == Some(&claim.key)) {
        return Decision::Settle;
    }
    choose(ledger, directory, pool, claim, now)
}

/// The address that an IPAddress of this claim names is the claim's, whatever the marks say.
fn keep_published(
    ledger: &Ledger,
    pool: &PoolPolicy,
    claim: &Wanting,
    published: &Published,
    now: Timestamp,
) -> Decision {
    if let Some(entry) = ledger.get(&published.fip) {
        return match entry.marks.standing(&pool.id) {
            Standing::Held(key) if key == claim.key => Decision::Keep(entry.fip.id.clone()),
            Standing::Foreign | Standing::Contested => Decision::Lost(Loss::Taken(published.address)),
            _ => keep(ledger, pool, claim, entry, now),
        };
    }
    // Somebody deleted it and created the same address again: it is taken as any free one would be.
    let is_to_be_had = |entry: &&Entry| match entry.marks.standing(&pool.id) {
        Standing::Unmarked => is_free(entry) && pool.has_tags,
        Standing::Held(key) => key == claim.key,
        _ => false,
    };
    match ledger.at(published.address).find(is_to_be_had) {
        Some(entry) => keep(ledger, pool, claim, entry, now),
        None => Decision::Lost(Loss::Deleted(published.address)),
    }
}

/// The claim's address by its mark: the held one first, then one that was released under the claim's name.
fn recover<'a>(ledger: &'a Ledger, directory: &Directory, pool: &PoolPolicy, claim: &Wanting) -> Option<&'a Entry> {
    let by_mark = |entry: &&Entry| {
        let is_the_claims = match entry.marks.standing(&pool.id) {
            Standing::Held(key) => key == claim.key,
            Standing::Released { claim: key, .. } => key == claim.key && !entry.fip.is_attached(),
            _ => false,
        };
        // Whoever else is at work on it gives it to another claim, or gives it back.
        let mine = claim.hold(&pool.id);
        let mut others = entry.hold.iter().chain(entry.doubts.iter().filter_map(|doubt| doubt.by.as_ref()));
        let is_at_hand = others.all(|hold| *hold == mine);
        // In use it stays the claim's even where the spec was changed since; unused it is given back.
        let may_have = entry.fip.is_attached() || may_keep(directory, pool, claim, &entry.fip);
        // A port that came while the choice was not yet certain is somebody else's.
        let is_unsure = entry.hold.is_some() && entry.fip.is_attached();
        let is_elsewhere = directory.owner(&entry.fip).is_some_and(|owner| !is_claim(owner, pool, claim));
        // Chosen by this very claim, it is the one that was chosen, whoever copied its mark since.
        let is_clear = entry.hold.is_some() || !ledger.is_copied(entry);
        is_the_claims && is_at_hand && may_have && !is_unsure && !is_elsewhere && is_clear
    };
    let rank = |entry: &&Entry| match entry.marks.standing(&pool.id) {
        Standing::Held(_) => (0, entry.fip.id.clone()),
        _ => (1, entry.fip.id.clone()),
    };
    ledger.of_claim(&pool.id, &claim.key).filter(by_mark).min_by_key(rank)
}

/// Whether a floating IP that carries the claim's mark may become the claim's. Asked also of what a POST brought: what
/// the claim may not keep is held as [unwanted](Hold::Unwanted), and given back when the claim has found another.
pub fn may_keep(directory: &Directory, pool: &PoolPolicy, claim: &Wanting, fip: &FloatingIp) -> bool {
    pool.allows(fip.address, &claim.object.name) && !directory.is_anothers(fip, &pool.id, &claim.key)
}

fn is_claim(owner: &OurNaming, pool: &PoolPolicy, claim: &Wanting) -> bool {
    owner.pool == pool.id && owner.claim == claim.key
}

/// Makes the marks say what is so: the address is the claim's.
fn keep(ledger: &Ledger, pool: &PoolPolicy, claim: &Wanting, entry: &Entry, now: Timestamp) -> Decision {
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
    } else if entry.marks.standing(&pool.id) == Standing::Held(claim.key.clone()) {
        // A tag of ours that is not yet confirmed is a choice in progress, not a possession.
        return if entry.hold.is_some() && !entry.marks.claims.is_empty() && !entry.is_confirmed() {
            Decision::Confirm(id)
        } else {
            Decision::Keep(id)
        };
    }
    match described {
        Some(_) if ledger.fence(pool).is_some() => fenced(ledger, pool, now),
        Some(mark) => Decision::Mark(
            id,
            Origin::Recovered,
            Write::Describe(CreationMark {
                claim: Some(claim.key.clone()),
                released: None,
                is_retained: false,
                ..mark.clone()
            }),
        ),
        None => Decision::Mark(id, Origin::Recovered, Write::Tag(claim_tag(&pool.id, &claim.key))),
    }
}

/// The address that this claim holds for itself, whose mark is not (yet, or no longer) the claim's alone.
fn chosen<'a>(ledger: &'a Ledger, pool: &PoolPolicy, claim: &Wanting) -> Option<&'a Entry> {
    let hold = claim.hold(&pool.id);
    ledger.held().find(|entry| entry.hold.as_ref() == Some(&hold))
}

/// What becomes of a choice that was not completed.
fn finish(directory: &Directory, pool: &PoolPolicy, claim: &Wanting, entry: &Entry) -> Decision {
    let id = entry.fip.id.clone();
    let tag = claim_tag(&pool.id, &claim.key);
    let is_lost = entry.fip.is_attached()
        || !may_keep(directory, pool, claim, &entry.fip)
        || matches!(entry.marks.standing(&pool.id), Standing::Foreign | Standing::Contested);
    match &entry.marks.created {
        _ if is_lost => Decision::Withdraw(id, tag),
        // The write is repeated as it was: the same text for the same claim cannot do harm, however late it lands.
        Some(mark) if mark.pool == pool.id => Decision::Mark(
            id,
            Origin::Owned,
            Write::Describe(CreationMark {
                claim: Some(claim.key.clone()),
                released: None,
                is_retained: false,
                ..mark.clone()
            }),
        ),
        _ => Decision::Mark(id, Origin::List, Write::Tag(tag)),
    }
}

/// Nobody is at work on it, no late write can land on it, and nothing answers on it.
pub(super) fn is_free(entry: &Entry) -> bool {
    entry.hold.is_none() && entry.doubts.is_empty() && !entry.fip.is_attached()
}

fn fenced(ledger: &Ledger, pool: &PoolPolicy, now: Timestamp) -> Decision {
    ledger.fence(pool).filter(|until| now < *until).map_or(Decision::Settle, Decision::Fenced)
}

/// Chooses an address for a claim that has none.
fn choose(ledger: &Ledger, directory: &Directory, pool: &PoolPolicy, claim: &Wanting, now: Timestamp) -> Decision {
    if let Some(address) = pool.reservations.get(&claim.object.name) {
        return take_reserved(ledger, directory, pool, claim, *address, now);
    }
    let place = claim.place();
    let older = pool.without_reservation(ledger.waiting(&pool.id)).take_while(|other| **other < place).count();
    let room = pool.max_ips.map_or(usize::MAX, |limit| limit.saturating_sub(ledger.counted(&pool.id)));

    // Those that the pool owns count under its limit already; all others need room.
    let owned = Candidates::owned(ledger, directory, pool, claim, now);
    let givable = owned.len().min(givable(ledger, directory, pool, now));
    let others = Candidates::others(ledger, directory, pool, claim, now);
    let may_create = pool.network.is_some() && ledger.blocked(&pool.id, now).is_none();
    let creatable = match (may_create, ledger.is_probing(&pool.id, now)) {
        (false, _) => 0,
        (true, true) => 1,
        (true, false) => usize::MAX,
    };
    let unbounded = others.len().saturating_add(creatable);
    if older >= givable.saturating_add(unbounded.min(room)) {
        return refuse(ledger, pool, room);
    }
    let listed = others.first().filter(|(origin, _)| *origin == Origin::List && room > 0);
    if let Some((origin, entry)) = listed {
        return mark(ledger, pool, claim, *origin, entry, now);
    }
    if let Some(entry) = owned.first() {
        return mark(ledger, pool, claim, Origin::Owned, entry, now);
    }
    match others.first() {
        Some((origin, entry)) => mark(ledger, pool, claim, *origin, entry, now),
        None => create(ledger, pool, now),
    }
}

fn create(ledger: &Ledger, pool: &PoolPolicy, now: Timestamp) -> Decision {
    let Some(network) = pool.network.clone() else { return refuse(ledger, pool, usize::MAX) };
    // With a limit, a POST of a predecessor that lands late would be one too many.
    if pool.max_ips.is_some() && ledger.fence(pool).is_some() {
        return fenced(ledger, pool, now);
    }
    let unwanted = ledger.of_pool(&pool.id).filter(|entry| entry.hold == Some(Hold::Unwanted)).count();
    if unwanted >= UNWANTED_LIMIT {
        return Decision::Refuse(Refusal::OnlyUnwanted);
    }
    if pool.subnets.is_empty() {
        return Decision::Create(network, None);
    }
    match pool.subnets.iter().find(|subnet| ledger.may_ask(subnet, now)) {
        Some(subnet) => Decision::Create(network, Some(subnet.clone())),
        None => Decision::Refuse(Refusal::NetworkExhausted),
    }
}

fn refuse(ledger: &Ledger, pool: &PoolPolicy, room: usize) -> Decision {
    let has_unwanted = ledger.of_pool(&pool.id).any(|entry| entry.hold == Some(Hold::Unwanted));
    Decision::Refuse(match (room, pool.max_ips, ledger.refused(&pool.id)) {
        // They fill the limit while others are asked for: a higher limit is not what is missing.
        (0, Some(_), _) if has_unwanted => Refusal::OnlyUnwanted,
        (0, Some(limit), _) => Refusal::LimitReached(limit),
        (_, _, Some(refusal)) if pool.network.is_some() => refusal.clone(),
        _ if pool.network.is_none() && !pool.has_tags => Refusal::NoTags,
        (_, Some(limit), None) if pool.network.is_some() => Refusal::LimitReached(limit),
        _ => Refusal::ListUsedUp,
    })
}

fn take_reserved(
    ledger: &Ledger,
    directory: &Directory,
    pool: &PoolPolicy,
    claim: &Wanting,
    address: IpAddr,
    now: Timestamp,
) -> Decision {
    if pool.is_excluded(address) {
        return Decision::Refuse(Refusal::ReservationExcluded(address));
    }
    let in_reach = |entry: &&Entry| pool.network.as_ref().is_none_or(|network| *network == entry.fip.network);
    let is_the_pools = |entry: &Entry| entry.marks.standing(&pool.id) == Standing::Idle;
    let is_to_be_had = |entry: &&Entry| {
        is_free(entry)
            && !directory.is_named(&entry.fip)
            && (is_the_pools(entry) || entry.marks.is_empty())
            && !ledger.is_copied(entry)
    };
    // A listing by pages may show an address twice: the one that was deleted meanwhile, and the one that took its place.
    let Some(entry) = ledger.at(address).filter(in_reach).find(is_to_be_had) else {
        return Decision::Refuse(match ledger.at(address).any(|entry| in_reach(&entry)) {
            true => Refusal::ReservationInUse(address),
            false => Refusal::ReservationMissing(address),
        });
    };
    let is_the_pools = is_the_pools(entry);
    if !is_the_pools && !pool.has_tags {
        return Decision::Refuse(Refusal::NoTags);
    }
    match pool.max_ips {
        Some(limit) if !is_the_pools && ledger.counted(&pool.id) >= limit => {
            Decision::Refuse(Refusal::LimitReached(limit))
        }
        Some(limit) if is_the_pools && givable(ledger, directory, pool, now) == 0 => {
            Decision::Refuse(Refusal::LimitReached(limit))
        }
        _ => mark(ledger, pool, claim, Origin::Reserved, entry, now),
    }
}

fn mark(
    ledger: &Ledger,
    pool: &PoolPolicy,
    claim: &Wanting,
    origin: Origin,
    entry: &Entry,
    now: Timestamp,
) -> Decision {
    let id = entry.fip.id.clone();
    // A late write of a predecessor would land on top, take the tag off again, or be one more than the limit.
    if ledger.fence(pool).is_some() {
        return fenced(ledger, pool, now);
    }
    match &entry.marks.created {
        Some(mark) => {
            let mark =
                CreationMark { claim: Some(claim.key.clone()), released: None, is_retained: false, ..mark.clone() };
            Decision::Mark(id, origin, Write::Describe(mark))
        }
        None => Decision::Mark(id, origin, Write::Tag(claim_tag(&pool.id, &claim.key))),
    }
}

/// What can be given without creating anything, in the order of choice.
pub(super) struct Candidates;

impl Candidates {
    /// What the pool owns: idle, or released and rested.
    pub(super) fn owned<'a>(
        ledger: &'a Ledger,
        directory: &Directory,
        pool: &PoolPolicy,
        claim: &Wanting,
        now: Timestamp,
    ) -> Vec<&'a Entry> {
        ledger
            .of_pool(&pool.id)
            .filter(|entry| is_ownable(ledger, directory, pool, entry, now))
            .filter(|entry| pool.allows(entry.fip.address, &claim.object.name))
            .collect()
    }

    /// What nobody of our kind has marked: the list in its order, then the project's by address.
    pub(super) fn others<'a>(
        ledger: &'a Ledger,
        directory: &Directory,
        pool: &PoolPolicy,
        claim: &Wanting,
        now: Timestamp,
    ) -> Vec<(Origin, &'a Entry)> {
        let name = &claim.object.name;
        let listed = pool.listed.iter().flat_map(|address| ledger.at(*address));
        let listed = listed.filter(|entry| is_listable(directory, pool, entry) && pool.allows(entry.fip.address, name));
        let mut others: Vec<_> = listed.map(|entry| (Origin::List, entry)).collect();
        if pool.reuse != super::policy::ReusePolicy::Never && pool.network.is_some() {
            let reusable = |entry: &&Entry| is_reusable(directory, pool, entry, now);
            let mut reused: Vec<_> = ledger.entries().filter(reusable).collect();
            reused.sort_by_key(|entry| (entry.fip.address, entry.fip.id.clone()));
            others.extend(reused.into_iter().map(|entry| (Origin::Reuse, entry)));
        }
        others
    }
}

/// Whether the pool can give one that it created: idle, or released, rested and seen without a port since.
pub(super) fn is_ownable(
    ledger: &Ledger,
    directory: &Directory,
    pool: &PoolPolicy,
    entry: &Entry,
    now: Timestamp,
) -> bool {
    let is_created = entry.marks.created.as_ref().is_some_and(|mark| mark.pool == pool.id);
    let is_unclaimed = match entry.marks.standing(&pool.id) {
        Standing::Idle => true,
        Standing::Released { at, .. } => now.duration_since(at) >= pool.grace && entry.is_confirmed(),
        _ => false,
    };
    is_created
        && is_unclaimed
        && is_free(entry)
        && !pool.is_excluded(entry.fip.address)
        && pool.network.as_ref() == Some(&entry.fip.network)
        && !directory.is_named(&entry.fip)
        && !ledger.is_copied(entry)
}

/// How many addresses the pool has beyond its limit, which was lowered.
pub(super) fn surplus(ledger: &Ledger, pool: &PoolPolicy) -> usize {
    pool.max_ips.map_or(0, |limit| ledger.counted(&pool.id).saturating_sub(limit))
}

/// How many of those that the pool owns may be given: all that are free, but for the surplus. Else a pool whose limit
/// was lowered would never come down to it, as long as somebody waits.
pub(super) fn givable(ledger: &Ledger, directory: &Directory, pool: &PoolPolicy, now: Timestamp) -> usize {
    let free = ledger.of_pool(&pool.id).filter(|entry| is_ownable(ledger, directory, pool, entry, now)).count();
    free.saturating_sub(surplus(ledger, pool))
}

/// Whether a listed one can be given.
pub(super) fn is_listable(directory: &Directory, pool: &PoolPolicy, entry: &Entry) -> bool {
    pool.has_tags
        && is_free(entry)
        && entry.marks.is_empty()
        && !pool.is_excluded(entry.fip.address)
        && !directory.is_named(&entry.fip)
}

/// Whether a free one of the project can be given.
pub(super) fn is_reusable(directory: &Directory, pool: &PoolPolicy, entry: &Entry, now: Timestamp) -> bool {
    is_free(entry)
        && entry.marks.is_empty()
        && pool.may_reuse(&entry.fip, now)
        && !pool.is_excluded(entry.fip.address)
        && pool.reserved_for(entry.fip.address).is_none()
        && !directory.is_rostered(entry.fip.address)
        && !directory.is_named(&entry.fip)
}

/// The mark of a floating IP that is created for a claim, or for the pool when there is none.
pub fn creation_mark(pool: &PoolPolicy, claim: Option<&ClaimKey>, nonce: Nonce) -> CreationMark {
    CreationMark { pool: pool.id.clone(), nonce, claim: claim.cloned(), released: None, is_retained: false }
}

#[cfg(test)]
mod tests {
    use super::super::mark::release_tag;
    use super::super::vocabulary::*;
    use super::*;

    fn hold_of(claim: &str) -> Hold {
        Hold::Claim { pool: pool_id("p"), claim: key(claim) }
    }

    fn tag() -> Write {
        Write::Tag(claim_tag(&pool_id("p"), &key("web")))
    }

    fn describe(last: u8) -> Write {
        Write::Describe(CreationMark { claim: Some(key("web")), ..idle_mark(last) })
    }

    #[test]
    fn the_order_is_reservation_list_owned_reuse_creation() {
        let all = || world().lists([12]).reserves("web", 11);
        let create = Decision::Create(network(), None);
        let take = |last, origin, write| Decision::Mark(id(last), origin, write);
        let fips = [fip(10), fip(11), fip(12), fip(13).idle()];
        assert_eq!(all().sees(fips.clone()).decide("web"), take(11, Origin::Reserved, tag()));
        let unreserved = world().lists([12]);
        assert_eq!(unreserved.sees(fips).decide("web"), take(12, Origin::List, tag()));
        let unlisted = world().sees([fip(10), fip(13).idle()]);
        assert_eq!(unlisted.decide("web"), take(13, Origin::Owned, describe(13)));
        assert_eq!(world().sees([fip(10)]).decide("web"), take(10, Origin::Reuse, tag()));
        assert_eq!(world().decide("web"), create);
    }

    #[test]
    fn the_list_is_used_in_its_order_and_the_project_in_that_of_addresses() {
        let listed = world().closed_list([12, 11]).sees([fip(11), fip(12)]);
        assert_eq!(marked(&listed.decide("web")), Some(&id(12)));
        assert_eq!(marked(&world().sees([fip(12), fip(11)]).decide("web")), Some(&id(11)));
    }

    #[test]
    fn a_closed_list_gives_nothing_beyond_it() {
        let world = world().closed_list([10]).sees([fip(10).attached(), fip(11), fip(12).idle()]);
        assert_eq!(world.decide("web"), Decision::Refuse(Refusal::ListUsedUp));
    }

    #[test]
    fn what_is_not_to_be_had_is_not_given() {
        let refused = Decision::Refuse(Refusal::ListUsedUp);
        let list = || world().closed_list([10]);
        for fip in [
            fip(10).attached(),
            fip(10).forwarded(),
            fip(10).tagged_by_another_pool(),
            fip(10).tagged_for("db"),
            fip(10).tag("caip.of-a-newer-kind"),
            fip(10).tagged_for("db").released_by("db", ago(9)),
        ] {
            assert_eq!(list().sees([fip.clone()]).decide("web"), refused, "{:?}", fip.0);
        }
        assert_eq!(list().sees([fip(10)]).excludes("203.0.113.0/24").decide("web"), refused);
        assert_eq!(list().sees([fip(10)]).reserves("db", 10).decide("web"), refused);
        assert_eq!(list().sees([fip(10)]).named_by_others(10).decide("web"), refused);
        assert_eq!(list().sees([fip(10)]).published("db", 10).decide("web"), refused);
        assert_eq!(list().sees([fip(10)]).chosen(10, "db").decide("web"), refused);
        assert_eq!(list().sees([fip(10)]).holds(10, Hold::Sweep).decide("web"), refused);
    }

    #[test]
    fn what_any_pool_lists_is_not_reused_nor_what_is_reserved() {
        let create = Decision::Create(network(), None);
        let mut world = world().sees([fip(10)]);
        world.directory.set_roster("another pool".into(), [address(10)].into());
        assert_eq!(world.decide("web"), create);
        assert_eq!(super::super::vocabulary::world().sees([fip(10)]).reserves("db", 10).decide("web"), create);
    }

    #[test]
    fn an_owned_one_is_given_when_it_has_rested_and_was_seen() {
        let released = || fip(10).created_for("db").released_by("db", ago(9));
        let resting = world().with(|pool| pool.grace = seconds(10)).sees([released()]);
        assert_eq!(resting.decide("web"), Decision::Create(network(), None));
        let rested = world().with(|pool| pool.grace = seconds(9)).sees([released()]);
        assert_eq!(rested.decide("web"), Decision::Mark(id(10), Origin::Owned, describe(10)));
        let mut unseen = world().sees([fip(10).created_for("db")]);
        unseen.ledger.tagged(&id(10), &release_tag(&pool_id("p"), &key("db"), ago(9)), true);
        assert_eq!(unseen.decide("web"), Decision::Create(network(), None));
    }

    #[test]
    fn the_limit_leaves_the_pools_own_and_nothing_else() {
        let full = || world().limit(1);
        let reached = Decision::Refuse(Refusal::LimitReached(1));
        assert_eq!(full().sees([fip(10).created_for("db"), fip(11)]).decide("web"), reached);
        assert_eq!(marked(&full().lists([11]).sees([fip(10).idle(), fip(11)]).decide("web")), Some(&id(10)));
        assert_eq!(
            full().sees([fip(11)]).reserves("web", 11).chosen(11, "db").sees([fip(11)]).decide("web"),
            Decision::Refuse(Refusal::ReservationInUse(address(11)))
        );
        let reserved = full().sees([fip(10).created_for("db"), fip(11)]).reserves("web", 11);
        assert_eq!(reserved.decide("web"), reached);
    }

    #[test]
    fn a_reservation_is_waited_for() {
        let reserved = || world().reserves("web", 10);
        let missing = Decision::Refuse(Refusal::ReservationMissing(address(10)));
        let in_use = Decision::Refuse(Refusal::ReservationInUse(address(10)));
        assert_eq!(reserved().sees([fip(11)]).decide("web"), missing);
        assert_eq!(reserved().sees([fip(10).on("another")]).decide("web"), missing);
        assert_eq!(reserved().sees([fip(10).attached()]).decide("web"), in_use);
        assert_eq!(reserved().sees([fip(10).tagged_for("db")]).decide("web"), in_use);
        assert_eq!(reserved().sees([fip(10)]).published("db", 10).decide("web"), in_use);
        assert_eq!(marked(&reserved().sees([fip(10).idle()]).decide("web")), Some(&id(10)));
    }

    #[test]
    fn a_reserved_address_that_was_deleted_and_made_anew_is_found_beside_its_ghost() {
        let mut anew = fip(10);
        anew.0.id = id(99);
        let world = world().reserves("web", 10).sees([fip(10).attached(), anew]);
        assert_eq!(marked(&world.decide("web")), Some(&id(99)));
    }

    #[test]
    fn subnets_are_asked_in_their_order_until_all_are_empty() {
        let (first, second) = (SubnetId::new("first"), SubnetId::new("second"));
        let mut world = world().with(|pool| pool.subnets = vec![first.clone(), second.clone()]);
        assert_eq!(world.decide("web"), Decision::Create(network(), Some(first.clone())));
        world.ledger.subnet_is_empty(first.clone(), noon() + seconds(20));
        assert_eq!(world.decide("web"), Decision::Create(network(), Some(second.clone())));
        world.ledger.subnet_is_empty(second, noon() + seconds(20));
        assert_eq!(world.decide("web"), Decision::Refuse(Refusal::NetworkExhausted));
        world.now = noon() + seconds(20);
        assert_eq!(world.decide("web"), Decision::Create(network(), Some(first)));
    }

    #[test]
    fn unwanted_addresses_are_asked_around_a_bounded_number_of_times() {
        let mut world = world();
        let unwanted = |count: u8| (0..count).map(|last| fip(100 + last).created_for("web"));
        let look = |world: &mut World, count| {
            let began = world.ledger.next_step();
            world.ledger.list(began, noon(), unwanted(count).map(|fip| fip.0).collect(), noon());
            (0..count).for_each(|last| world.ledger.hold(&id(100 + last), Some(Hold::Unwanted)));
        };
        look(&mut world, 7);
        assert_eq!(world.decide("web"), Decision::Create(network(), None));
        look(&mut world, 8);
        assert_eq!(world.decide("web"), Decision::Refuse(Refusal::OnlyUnwanted));
        look(&mut world, 2);
        assert_eq!(world.limit(2).decide("web"), Decision::Refuse(Refusal::OnlyUnwanted), "they fill the limit");
    }

    #[test]
    fn each_refusal_names_the_limit_that_was_met() {
        let refused = |world: &World| match world.decide("web") {
            Decision::Refuse(refusal) => refusal,
            other => panic!("{other:?}"),
        };
        let mut world = world();
        for refusal in [Refusal::QuotaReached, Refusal::NetworkExhausted] {
            let block = super::super::ledger::Block { refusal: refusal.clone(), until: noon() + seconds(20) };
            world.ledger.block(pool_id("p"), block);
            assert_eq!(refused(&world), refusal);
        }
        let no_tags = super::super::vocabulary::world().closed_list([10]).with(|pool| pool.has_tags = false);
        assert_eq!(refused(&no_tags.sees([fip(10)])), Refusal::NoTags);
    }

    #[test]
    fn after_a_refusal_one_claim_asks_for_all() {
        let mut world = world().waits("old");
        let block = super::super::ledger::Block { refusal: Refusal::QuotaReached, until: noon() };
        assert_eq!(world.decide("web"), Decision::Create(network(), None));
        world.ledger.block(pool_id("p"), block);
        assert_eq!(world.decide("web"), Decision::Refuse(Refusal::QuotaReached));
    }

    #[test]
    fn a_tag_is_confirmed_by_a_listing_that_began_after_it() {
        let mut world = world().closed_list([10]).sees([fip(10)]).chosen(10, "web");
        world.ledger.tagged(&id(10), &claim_tag(&pool_id("p"), &key("web")), true);
        assert_eq!(world.decide("web"), Decision::Confirm(id(10)));
        world.look([fip(10).tagged_for("web")]);
        assert_eq!(world.decide("web"), Decision::Keep(id(10)));
    }

    #[test]
    fn a_choice_that_met_another_owner_or_a_port_is_withdrawn() {
        let withdraw = Decision::Withdraw(id(10), claim_tag(&pool_id("p"), &key("web")));
        for fip in [fip(10).tagged_for("web").tagged_by_another_pool(), fip(10).tagged_for("web").attached()] {
            assert_eq!(world().closed_list([10]).sees([fip]).chosen(10, "web").decide("web"), withdraw);
        }
        assert_eq!(world().sees([fip(10).created_for("web").attached()]).chosen(10, "web").decide("web"), withdraw);
    }

    #[test]
    fn a_choice_whose_write_is_not_known_is_written_again() {
        let list = world().closed_list([10]).sees([fip(10)]).chosen(10, "web");
        assert_eq!(list.decide("web"), Decision::Mark(id(10), Origin::List, tag()));
        let owned = world().sees([fip(10).idle()]).chosen(10, "web");
        assert_eq!(owned.decide("web"), Decision::Mark(id(10), Origin::Owned, describe(10)));
    }

    #[test]
    fn a_post_in_doubt_is_settled_before_anything_is_chosen() {
        let mut world = world().sees([fip(10)]);
        let nonce = idle_mark(1).nonce;
        let creation =
            super::super::ledger::Creation { pool: pool_id("p"), claim: Some(key("web")), unknown_since: Some(noon()) };
        world.ledger.begin_creation(nonce, creation);
        assert_eq!(world.decide("web"), Decision::Settle);
        assert_eq!(marked(&world.decide("db")), Some(&id(10)));
    }

    #[test]
    fn the_claims_own_address_comes_before_every_other() {
        let marked = [fip(10).created_for("web"), fip(10).tagged_for("web"), fip(10).created_for("web").attached()];
        for fip in marked {
            assert_eq!(
                world().lists([11]).sees([fip, super::super::vocabulary::fip(11)]).decide("web"),
                Decision::Keep(id(10))
            );
        }
    }

    #[test]
    fn a_released_address_with_a_port_is_not_taken_back() {
        let world = world().sees([fip(10).created_for("web").released_by("web", ago(9)).attached()]);
        assert_eq!(world.decide("web"), Decision::Create(network(), None));
    }

    #[test]
    fn what_the_spec_no_longer_allows_stays_the_claims_while_it_is_in_use() {
        let world = world().excludes("203.0.113.10/32");
        let world = world.sees([fip(10).created_for("web")]);
        assert_eq!(world.decide("web"), Decision::Create(network(), None));
        let world = world.sees([fip(10).created_for("web").attached()]);
        assert_eq!(world.decide("web"), Decision::Keep(id(10)));
    }

    #[test]
    fn a_published_address_is_the_claims_whatever_its_marks_say() {
        let published = |fip: Fip| world().sees([fip]).published("web", 10).decide_published("web", 10);
        assert_eq!(published(fip(10).created_for("web").attached()), Decision::Keep(id(10)));
        assert_eq!(published(fip(10)), Decision::Mark(id(10), Origin::Recovered, tag()));
        assert_eq!(published(fip(10).idle()), Decision::Mark(id(10), Origin::Recovered, describe(10)));
        assert_eq!(published(fip(10).created_for("db")), Decision::Mark(id(10), Origin::Recovered, describe(10)));
        let tags = vec![release_tag(&pool_id("p"), &key("web"), ago(9))];
        let released = fip(10).created_for("web").released_by("web", ago(9)).attached();
        assert_eq!(published(released), Decision::TakeBack(id(10), tags));
        assert_eq!(published(fip(10).tagged_by_another_pool()), Decision::Lost(Loss::Taken(address(10))));
        assert_eq!(published(fip(11)), Decision::Lost(Loss::Deleted(address(10))));
    }

    #[test]
    fn an_address_that_another_claims_ip_address_names_is_not_recovered() {
        let world = world().sees([fip(10).created_for("web").attached()]).published("db", 10);
        assert_eq!(world.decide("web"), Decision::Create(network(), None));
    }

    #[test]
    fn without_tags_only_what_is_created_is_given() {
        let world = world().with(|pool| pool.has_tags = false).lists([10]).sees([fip(10), fip(11)]);
        assert_eq!(world.decide("web"), Decision::Create(network(), None));
        let released = CreationMark { claim: Some(key("web")), released: Some(ago(9)), ..idle_mark(10) };
        let world = world.sees([fip(10).described(released.render(None))]);
        assert_eq!(world.decide("web"), Decision::Mark(id(10), Origin::Recovered, describe(10)));
    }

    #[test]
    fn an_address_that_another_claim_is_taking_is_not_recovered() {
        let world = world().sees([fip(10).created_for("web")]).chosen(10, "other");
        assert_eq!(world.decide("web"), Decision::Create(network(), None));
    }

    #[test]
    fn an_address_is_taken_back_while_its_claim_holds_it() {
        let world = world().sees([fip(10).created_for("web").released_by("web", ago(10))]);
        let take_back = Decision::TakeBack(id(10), vec![release_tag(&pool_id("p"), &key("web"), ago(10))]);
        assert_eq!(world.decide("web"), take_back);
        assert_eq!(world.chosen(10, "web").decide("web"), take_back);
    }

    #[test]
    fn an_address_that_is_being_given_back_is_not_taken_back() {
        let world = world().sees([fip(10).created_for("web").released_by("web", ago(10))]).holds(10, Hold::Sweep);
        assert_eq!(world.decide("web"), Decision::Create(network(), None));
    }

    #[test]
    fn a_choice_that_the_spec_no_longer_allows_is_withdrawn() {
        let chosen = || world().closed_list([10]).sees([fip(10).tagged_for("web")]).chosen(10, "web");
        let withdraw = Decision::Withdraw(id(10), claim_tag(&pool_id("p"), &key("web")));
        assert_eq!(chosen().excludes("203.0.113.10/32").decide("web"), withdraw);
        assert_eq!(chosen().reserves("db", 10).decide("web"), withdraw);
    }

    #[test]
    fn an_excluded_address_is_not_given_to_the_claim_that_it_is_reserved_for() {
        let world = world().closed_list([10]).sees([fip(10)]).reserves("web", 10).excludes("203.0.113.10/32");
        assert_eq!(world.decide("web"), Decision::Refuse(Refusal::ReservationExcluded(address(10))));
    }

    #[test]
    fn those_that_wait_for_their_reservation_do_not_stand_in_the_way_of_others() {
        let world = world().closed_list([10, 11]).sees([fip(10)]).reserves("db", 11).waits("db");
        assert_eq!(marked(&world.decide("web")), Some(&id(10)));
    }

    #[test]
    fn the_oldest_that_waits_is_served_first() {
        let world = world().closed_list([10]).sees([fip(10)]).waits("old");
        assert_eq!(world.decide("web"), Decision::Refuse(Refusal::ListUsedUp));
    }

    #[test]
    fn what_is_beyond_a_lowered_limit_is_given_to_nobody() {
        let bound = || [fip(10).created_for("web"), fip(11).created_for("db")];
        let [web, db] = bound();
        let full = world().limit(2).sees([web, db, fip(12).idle()]);
        assert_eq!(full.decide("app"), Decision::Refuse(Refusal::LimitReached(2)));
        let [web, db] = bound();
        let lowered = world().limit(3).sees([web, db, fip(12).idle(), fip(13).idle()]);
        assert_eq!(marked(&lowered.decide("app")), Some(&id(12)), "one of the two is within it");
        assert_eq!(lowered.waits("old").decide("app"), Decision::Refuse(Refusal::LimitReached(3)));
    }

    #[test]
    fn an_address_that_was_created_anew_is_taken_for_the_one_that_the_ip_address_names() {
        let anew = || fip(10).tag("anything");
        let mut world = world().sees([anew()]).published("web", 9);
        let published = Published { address: address(10), fip: id(9) };
        let wanting = Wanting { published: Some(published), ..wanting("web") };
        let decide = |world: &World| decide(&world.ledger, &world.directory, &world.pool, &wanting, world.now);
        assert_eq!(marked(&decide(&world)), Some(&id(10)));
        world.ledger.hold(&id(10), Some(hold_of("web")));
        world.ledger.tagged(&id(10), &claim_tag(&pool_id("p"), &key("web")), true);
        assert_eq!(decide(&world), Decision::Confirm(id(10)));
        world.look([anew().tagged_for("web")]);
        assert_eq!(decide(&world), Decision::Keep(id(10)));
    }

    #[test]
    fn a_copied_description_gives_nothing() {
        let copied = fip(10).created_for("web").0.description;
        let world = world().sees([fip(10).created_for("web"), fip(9).described(copied)]);
        assert_eq!(world.decide("web"), Decision::Create(network(), None));
        assert_eq!(world.decide_published("web", 10), Decision::Keep(id(10)));
        assert_eq!(world.chosen(10, "web").decide("web"), Decision::Keep(id(10)), "this one was chosen");
    }

    #[test]
    fn a_created_address_that_another_ip_address_names_is_not_kept() {
        let world = world().sees([fip(10).created_for("web")]).named_by_others(10);
        assert_eq!(world.decide("web"), Decision::Create(network(), None));
        let world = World { ledger: Ledger::default(), ..world }.sees([fip(10).created_for("web").attached()]);
        assert_eq!(world.decide("web"), Decision::Keep(id(10)), "in use it stays the claim's");
    }

    #[test]
    fn behind_the_fence_nothing_changes_hands() {
        let list = || world().closed_list([10]).fenced();
        let fenced = Decision::Fenced(noon() + seconds(60));
        assert_eq!(list().sees([fip(10)]).decide("web"), fenced);
        // The predecessor may have been about to take the tag off, or to delete the released one.
        assert_eq!(list().sees([fip(10).tagged_for("web")]).decide("web"), fenced);
        assert_eq!(
            world().fenced().sees([fip(10).created_for("web").released_by("web", ago(9))]).decide("web"),
            fenced
        );
        assert_eq!(world().fenced().sees([fip(10).idle()]).decide("web"), fenced);
        assert_eq!(world().fenced().limit(3).decide("web"), fenced);
    }

    #[test]
    fn the_fence_does_not_stand_before_what_cannot_be_undone_late() {
        assert_eq!(world().fenced().decide("web"), Decision::Create(network(), None));
        let world = world().fenced().sees([fip(10).created_for("web"), fip(11).tagged_for("db")]).published("db", 11);
        assert_eq!(world.decide("web"), Decision::Keep(id(10)));
        assert_eq!(world.decide_published("db", 11), Decision::Keep(id(11)));
    }

    #[test]
    fn the_fence_falls_with_the_first_listing_that_begins_after_it() {
        let mut world = world().fenced().sees([fip(10).idle()]);
        world.now = noon() + seconds(60);
        assert_eq!(world.decide("web"), Decision::Settle);
        world.look([fip(10).idle()]);
        assert_eq!(marked(&world.decide("web")), Some(&id(10)));
    }

    #[test]
    fn an_address_in_doubt_is_given_to_nobody_else() {
        let in_doubt = |hold| {
            let mut world = world().closed_list([10]).sees([fip(10).tagged_for("web")]).holds(10, hold);
            world.ledger.doubt(&id(10), noon());
            world.ledger.hold(&id(10), None);
            world
        };
        assert_eq!(in_doubt(hold_of("web")).decide("web"), Decision::Keep(id(10)));
        assert_eq!(in_doubt(hold_of("db")).decide("web"), Decision::Refuse(Refusal::ListUsedUp));
        assert_eq!(in_doubt(Hold::Sweep).decide("web"), Decision::Refuse(Refusal::ListUsedUp));
        let mut settled = in_doubt(Hold::Sweep);
        settled.now = noon() + seconds(60);
        settled.look([fip(10)]);
        assert_eq!(marked(&settled.decide("web")), Some(&id(10)));
    }

    #[test]
    fn nothing_is_decided_before_the_project_was_listed() {
        let world = World { ledger: Ledger::default(), ..world() };
        assert_eq!(world.decide("web"), Decision::Settle);
    }
}
