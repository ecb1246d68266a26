//! Which of several pools tries again, when all of them have marked one address and back off from it.
//!
//! A claim removes its mark when it sees another pool's: nobody can tell which was first. If all tried again at the same
//! moment, they could all back off again, and again. So a pool that has seen a mark with an id before its own leaves the
//! address alone for [`YIELDS_FOR`]. Whenever nobody got the address, the pool with the last id has seen an earlier one, so
//! each round has one competitor less.
//!
//! This only delays choices: as before, an address is given only if its tags, read back, show no other mark.
//!
//! A claim whose own address another pool has marked waits for that pool to back off, since that chose it from an outdated
//! view. It counts what it reads, not time: while Neutron does not answer, the other pool cannot back off either.

use jiff::{SignedDuration, Timestamp};

use super::{Ledger, LedgerEntry, OwnerAwaited};
use crate::allocation::identity::PoolId;
use crate::floating_ip::FloatingIpId;
use crate::time::after;

/// Longer than the pool with the first id needs, if nothing fails: its claim tries again within 15 s, with three calls. If
/// it takes longer, all compete again.
pub const YIELDS_FOR: SignedDuration = SignedDuration::from_secs(60);

/// How often an address is seen with another owner's mark before that owner counts as gone for good: for as long as
/// [`YIELDS_FOR`], with reads that are [`OWNER_AWAITED_EVERY`] apart.
const OWNER_AWAITED: u8 = 13;
/// Reads that follow each other faster count once.
pub const OWNER_AWAITED_EVERY: SignedDuration = SignedDuration::from_secs(5);

/// How long a floating IP comes after all others once Neutron refused to mark it.
const REFUSED_FOR: SignedDuration = SignedDuration::from_mins(5);

impl Ledger {
    /// A claim of the pool backs off from an address that others have marked too.
    pub fn yield_to_earlier_pool(&mut self, id: &FloatingIpId, pool: &PoolId, now: Timestamp) {
        let Some(entry) = self.entries.get_mut(id) else { return };
        if entry.marks.claims.iter().any(|(other, _)| other < pool) {
            entry.yielded_until = Some(after(now, YIELDS_FOR));
        }
    }

    /// Neutron refused the mark of a claim of the pool. Another pool may have credentials that may do more.
    pub fn note_refused_mark(&mut self, id: &FloatingIpId, pool: &PoolId, now: Timestamp) {
        if let Some(entry) = self.entries.get_mut(id) {
            entry.refused_until.insert(pool.clone(), after(now, REFUSED_FOR));
        }
    }

    /// A listing that ended now still shows the mark of another owner on the address of a claim that waits for that owner.
    pub fn note_owner_awaited(&mut self, id: &FloatingIpId, now: Timestamp) {
        let Some(entry) = self.entries.get_mut(id).filter(|entry| entry.marks.are_shared()) else { return };
        let times = match entry.owner_awaited {
            Some(awaited) if now.duration_since(awaited.last) < OWNER_AWAITED_EVERY => return,
            Some(awaited) => awaited.times.saturating_add(1),
            None => 1,
        };
        entry.owner_awaited = Some(OwnerAwaited { times, last: now });
    }
}

impl LedgerEntry {
    /// Whether it is left to a pool with an earlier id.
    pub(in crate::allocation) fn is_yielded(&self, now: Timestamp) -> bool {
        self.yielded_until.is_some_and(|until| now < until)
    }

    /// Whether the pool chooses others before it, since Neutron refused to mark it a while ago.
    pub(in crate::allocation) fn was_refused(&self, pool: &PoolId, now: Timestamp) -> bool {
        self.refused_until.get(pool).is_some_and(|until| now < *until)
    }

    /// Whether the other owner of a claim's address has had the time to back off from it.
    pub(in crate::allocation) fn has_awaited_owner(&self) -> bool {
        self.owner_awaited.is_some_and(|awaited| awaited.times >= OWNER_AWAITED)
    }
}

#[cfg(test)]
mod tests {
    use crate::allocation::mark::claim_tag;
    use crate::allocation::testing::*;

    /// The claim `web` of the pool `p` backs off from an address that a claim of another pool has marked too, and then
    /// that pool does so as well.
    fn backed_off_from(other: &str, fixture: Fixture) -> Fixture {
        let theirs = claim_tag(&pool_id(other), &key("theirs"));
        let mut fixture = fixture.fips([fip(10).tagged_for("web").tag(theirs)]);
        fixture.ledger.yield_to_earlier_pool(&id(10), &pool_id("p"), fixture.now);
        fixture.relist([fip(10)]);
        fixture
    }

    fn is_given(fixture: &Fixture) -> bool {
        marked(&fixture.decide("web")) == Some(&id(10))
    }

    #[test]
    fn of_two_pools_that_back_off_only_the_one_with_the_first_id_tries_again_at_once() {
        for fixture in [|| fixture().closed_list([10]), || fixture().reserving("web", 10), fixture] {
            assert!(is_given(&backed_off_from("q", fixture())));
            assert!(!is_given(&backed_off_from("o", fixture())));
        }
    }

    #[test]
    fn the_other_pool_tries_again_after_a_minute() {
        let mut fixture = backed_off_from("o", fixture().closed_list([10]));
        fixture.now = start() + seconds(59);
        assert!(!is_given(&fixture));
        fixture.now = start() + seconds(60);
        assert!(is_given(&fixture));
    }

    #[test]
    fn claims_of_one_pool_do_not_yield_to_each_other() {
        let mut fixture = backed_off_from("p", fixture().closed_list([10]));
        assert!(is_given(&fixture));
        fixture.ledger.yield_to_earlier_pool(&id(10), &pool_id("p"), fixture.now);
        assert!(is_given(&fixture), "no other mark is there any more");
    }

    #[test]
    fn a_yielded_address_is_neither_free_nor_failed() {
        let fixture = backed_off_from("o", fixture().closed_list([10]));
        let usage = crate::allocation::usage::count(&fixture.situation());
        assert_eq!([usage.total, usage.free, usage.failed], [1, 0, 0]);
    }
}
