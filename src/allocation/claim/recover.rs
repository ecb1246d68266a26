//! Recovers the address that a claim already has: by its IPAddress, by its mark, or by an unfinished choice.

use jiff::{SignedDuration, Timestamp};

use super::{BoundAddress, ClaimCase, Decision, LostAddress, Origin, may_keep};
use crate::allocation::identity::ClaimKey;
use crate::allocation::ledger::{Choice, Hold, LedgerEntry};
use crate::allocation::mark::Ownership;
use crate::allocation::situation::Situation;
use crate::allocation::supply::{Supply, is_permitted};
use crate::time::{CLOCK_SKEW, after};

/// From this age on, a floating IP that is in use is the claim's as its mark says, although another claim's IPAddress names
/// its address.
const USED_SUCCESSOR_AGE: SignedDuration = SignedDuration::from_mins(10);

impl<'a> ClaimCase<'a> {
    /// Keeps the address that the claim's IPAddress names, and restores its mark, unless it is marked for another owner or
    /// claim. Then the IPAddress is a copy, or it was restored from a backup and its address has been given away since.
    ///
    /// The address decides: it is immutable in an IPAddress and in Neutron, while any user of the namespace can edit the
    /// annotation with the floating IP's id.
    pub(super) fn keep_published(&self, bound: &BoundAddress) -> Decision {
        let ledger = self.situation.ledger;
        if let Some(entry) = ledger.get(&bound.fip).filter(|entry| entry.fip.address == bound.address) {
            return match self.situation.ownership(entry) {
                Ownership::Claimed(key) if key == self.claim.key => self.keep_claimed(entry),
                // As any choice that another owner has made, too.
                Ownership::Contested if self.has_chosen_again(entry) => self.withdraw(entry),
                Ownership::Foreign | Ownership::Contested => Decision::Lost(self.taken(entry)),
                Ownership::Claimed(other) if !self.situation.is_stale_mark(&other, &entry.fip) => {
                    Decision::Lost(LostAddress::MarkedForAnother(bound.address))
                }
                // That claim sees this IPAddress when it reads its choice back, and withdraws.
                _ if self.is_being_taken(entry) => Decision::AwaitMark(entry.fip.id.clone()),
                Ownership::Released { claim, at }
                    if claim == self.claim.key && self.may_have_anothers_port(entry, at) =>
                {
                    Decision::Lost(LostAddress::MarkedForAnother(bound.address))
                }
                // A previous process, or a controller in the management cluster that it was moved from, may be deleting it.
                Ownership::Released { claim, .. } if claim == self.claim.key && self.situation.fence().is_some() => {
                    self.wait_for_fence()
                }
                Ownership::Released { claim, .. } if claim == self.claim.key => self.complete_mark(entry),
                // The port is the other claim's.
                Ownership::Released { .. } if entry.fip.is_attached() => {
                    Decision::Lost(LostAddress::MarkedForAnother(bound.address))
                }
                // That claim takes it back.
                Ownership::Released { claim, .. } if self.is_needed_by_name(&claim, entry) => {
                    Decision::Lost(LostAddress::MarkedForAnother(bound.address))
                }
                // It was free, so the port is not the claim's.
                Ownership::Unclaimed if entry.fip.is_attached() && !self.claim.was_bound => {
                    Decision::Lost(LostAddress::MarkedForAnother(bound.address))
                }
                _ if self.is_of_older_claim(entry) => Decision::Lost(LostAddress::MarkedForAnother(bound.address)),
                // Its own mark is there, and an earlier release of its own: another mark would change nothing.
                Ownership::Released { .. } if entry.marks.has_mark_of(&self.owner()) => match self.situation.fence() {
                    Some(_) => self.wait_for_fence(),
                    None => self.complete_mark(entry),
                },
                ownership if !self.claim.was_bound && self.is_restorable(&ownership, entry) => self.restore(entry),
                // Another claim had it last, so this is a choice.
                Ownership::Released { .. } if self.situation.fence().is_some() => self.wait_for_fence(),
                Ownership::Released { .. } => self.mark(entry, self.origin_found(entry)),
                _ => self.complete_mark(entry),
            };
        }
        // The id was changed, or the floating IP was deleted and another one created with its address. What is marked for
        // the claim is its own; anything else is taken like any free one.
        let may_have = |entry: &LedgerEntry| self.claim.was_bound || self.may_restore(entry);
        let is_free = |entry: &&LedgerEntry| {
            let is_usable = match self.situation.ownership(entry) {
                Ownership::Unmarked => self.situation.pool.has_tags,
                Ownership::Unclaimed => !ledger.is_being_created(entry) && !ledger.has_copied_mark(entry),
                _ => false,
            };
            // On another network, the same address is another one.
            is_usable
                && may_have(entry)
                && self.is_free_for_it(entry)
                && self.is_named_for(&self.claim.key, entry)
                && !self.is_of_older_claim(entry)
        };
        if let Some(entry) = ledger.at(bound.address).find(|entry| self.has_claimed(entry)) {
            return self.keep_claimed(entry);
        }
        let is_contested = |entry: &&LedgerEntry| {
            self.situation.ownership(entry) == Ownership::Contested && self.has_chosen_again(entry)
        };
        if let Some(entry) = ledger.at(bound.address).find(is_contested) {
            return self.withdraw(entry);
        }
        match ledger.at(bound.address).find(is_free) {
            // Unlike what is marked, it does not count under the limit yet.
            Some(entry) if entry.marks.is_empty() && entry.hold.is_none() && !self.has_room() => {
                Decision::Lost(LostAddress::AboveLimit(bound.address))
            }
            Some(_) if self.situation.fence().is_some() => self.wait_for_fence(),
            Some(entry) if entry.is_yielded(self.situation.now) => Decision::AwaitMark(entry.fip.id.clone()),
            Some(entry) => self.mark(entry, self.origin_found(entry)),
            None if ledger.at(bound.address).any(|entry| self.may_be_its_machines(entry)) => {
                Decision::Lost(LostAddress::NotFree { address: bound.address, tag: self.tag() })
            }
            None => Decision::Lost(LostAddress::Deleted(bound.address)),
        }
    }

    /// Whether its port may be another user's, attached since the claim released it: the claim was created again, and the
    /// IPAddress is still that of the former claim, which another owner's finalizer keeps. A restored IPAddress is younger
    /// than the release.
    fn may_have_anothers_port(&self, entry: &LedgerEntry, released_at: Timestamp) -> bool {
        let named = self.situation.relevant_addresses().bindings_of(&entry.fip);
        let mut own = named.filter(|binding| binding.is_of(&self.situation.pool.id, &self.claim.key));
        entry.fip.is_attached() && !self.claim.was_bound && own.all(|it| it.since <= after(released_at, CLOCK_SKEW))
    }

    /// Whether it replaces the floating IP that the claim's IPAddress names, is in use, and is marked for no claim.
    fn may_be_its_machines(&self, entry: &LedgerEntry) -> bool {
        let is_unclaimed = matches!(self.situation.ownership(entry), Ownership::Unmarked | Ownership::Unclaimed);
        self.situation.pool.has_tags
            && is_unclaimed
            && entry.fip.is_attached()
            && self.is_named_for(&self.claim.key, entry)
    }

    /// Whether a claim without status, whose IPAddress names it, has to choose it: its marks, if any, say that it is free.
    fn is_restorable(&self, ownership: &Ownership, entry: &LedgerEntry) -> bool {
        let may_be_marked = !entry.marks.is_empty() || self.situation.pool.has_tags;
        matches!(ownership, Ownership::Unmarked | Ownership::Unclaimed | Ownership::Released { .. })
            && may_be_marked
            && !self.situation.ledger.is_being_created(entry)
    }

    /// The IPAddress of a claim without status names it, and nothing shows whose it is now: its mark was removed, or the
    /// claim was released after the backup that it is restored from, and its owner may use it. So this is a choice.
    fn restore(&self, entry: &LedgerEntry) -> Decision {
        let is_own = entry.hold.is_none() || self.is_held_for_it(entry);
        // Its IPAddress was created a moment ago: it was judged before.
        let is_published = self.choice_of(entry).is_some_and(|choice| !choice.was_published);
        let is_counted = entry.writers().any(|hold| hold.is_for_pool(&self.situation.pool.id));
        let may_change = entry.is_yielded(self.situation.now) || self.situation.ledger.has_copied_mark(entry);
        match () {
            () if self.situation.fence().is_some() => self.wait_for_fence(),
            () if !is_own || may_change => Decision::AwaitMark(entry.fip.id.clone()),
            () if entry.fip.is_attached() || !is_published && !self.may_restore(entry) => {
                Decision::Lost(LostAddress::NotFree { address: entry.fip.address, tag: self.tag() })
            }
            // What the pool has marked, or is marking, counts under the limit already.
            () if entry.marks.is_empty() && !is_counted && !self.has_room() => {
                Decision::Lost(LostAddress::AboveLimit(entry.fip.address))
            }
            () => self.mark(entry, self.origin_found(entry)),
        }
    }

    /// Whether the pool may give the claim a free address, as it would any claim.
    fn may_restore(&self, entry: &LedgerEntry) -> bool {
        let (pool, published) = (self.situation.pool, self.situation.relevant_addresses());
        pool.allows(entry.fip.address, &self.claim.key)
            && !published.is_published_by_another_provider(entry.fip.address)
            && is_permitted(&self.situation, entry, &self.claim.object.name)
    }

    /// Whether the claim has chosen it in spite of its IPAddress, and no other writer is about to change it.
    fn has_chosen_again(&self, entry: &LedgerEntry) -> bool {
        self.choice_of(entry).is_some_and(|choice| choice.was_published)
            && !entry.marks.is_unreadable
            && self.has_no_other_writer(entry)
    }

    fn withdraw(&self, entry: &LedgerEntry) -> Decision {
        Decision::Withdraw(entry.fip.id.clone(), self.tag())
    }

    fn origin_found(&self, entry: &LedgerEntry) -> Origin {
        match () {
            () if self.situation.created_here(entry).is_some() => Origin::Owned,
            () if self.situation.pool.listed.contains(&entry.fip.address) => Origin::List,
            () => Origin::Reuse,
        }
    }

    /// The IPAddress names it, and it is marked for the claim. If the claim has chosen it in spite of the IPAddress, it is
    /// read back first: a port on it may be that of its previous owner.
    fn keep_claimed(&self, entry: &LedgerEntry) -> Decision {
        let is_choice = self.choice_of(entry).is_some_and(|choice| choice.was_published);
        let disowned = entry.disowned.get(&self.owner());
        // Where the status names the IPAddress, the port may be that of the claim's machine.
        let is_withdrawn =
            !self.claim.was_bound && disowned.is_some_and(|it| it.is_certain(self.situation.pool.fenced_until));
        match () {
            () if !is_choice && !is_withdrawn => Decision::Keep(entry.fip.id.clone()),
            // The withdrawal may still land.
            () if !self.has_no_other_writer(entry) => Decision::AwaitMark(entry.fip.id.clone()),
            () if entry.fip.is_attached() => self.withdraw(entry),
            // What was free when it was chosen may not be so any more.
            () if is_choice && !self.claim.was_bound && !self.may_restore(entry) => self.withdraw(entry),
            () => self.complete_mark(entry),
        }
    }

    /// Whether another claim has chosen it, and is not certain to have it yet; or whether a clean-up may still delete it or
    /// remove a tag from it.
    fn is_being_taken(&self, entry: &LedgerEntry) -> bool {
        entry.writers().any(|hold| match hold {
            Hold::Claim { .. } => !hold.is_for(&self.situation.pool.id, &self.claim.key),
            Hold::Cleanup => true,
            Hold::Unwanted => false,
        })
    }

    pub(super) fn choice_of(&self, entry: &LedgerEntry) -> Option<Choice> {
        entry.choice_of(&self.situation.pool.id, &self.claim.key)
    }

    /// Whether its choice, or the restoration of its mark, is not complete.
    fn is_under_way(&self, entry: &LedgerEntry) -> bool {
        entry.hold.is_some() || self.choice_of(entry).is_some()
    }

    fn is_held_for_it(&self, entry: &LedgerEntry) -> bool {
        entry.is_held_for(&self.situation.pool.id, &self.claim.key)
    }

    /// Whether the floating IP is marked for the claim and for nobody else, and not released.
    fn has_claimed(&self, entry: &LedgerEntry) -> bool {
        self.situation.ownership(entry) == Ownership::Claimed(self.claim.key.clone())
    }

    /// Whether nothing is attached to it, and no write to it is under way or uncertain but the claim's own.
    fn is_free_for_it(&self, entry: &LedgerEntry) -> bool {
        let is_held = self.is_held_for_it(entry) && self.has_no_other_writer(entry);
        entry.is_free() || is_held && !entry.fip.is_attached()
    }

    fn has_room(&self) -> bool {
        Supply::new(self.situation).room() > 0
    }

    /// Whether an IPAddress of the claim names it.
    fn is_named_for(&self, claim: &ClaimKey, entry: &LedgerEntry) -> bool {
        let mut published = self.situation.relevant_addresses().of_claim(&self.situation.pool.id, claim);
        published.any(|published| published.names(&entry.fip))
    }

    /// Whether the IPAddress of a claim that stays names it too.
    fn is_needed_by_name(&self, claim: &ClaimKey, entry: &LedgerEntry) -> bool {
        self.situation.is_active(claim) && self.is_named_for(claim, entry)
    }

    /// Whether an older IPAddress of another claim names it: that claim restores the mark that was removed.
    fn is_of_older_claim(&self, entry: &LedgerEntry) -> bool {
        let Situation { pool, claims, .. } = self.situation;
        self.situation
            .relevant_addresses()
            .older_claims(&entry.fip, &pool.id, &self.claim.key)
            .any(|claim| claims.contains_key(claim))
    }

    /// The address with the claim's mark: one that it holds, otherwise one that was released under its name. Of several, one
    /// whose address no other claim's IPAddress names; the attached one, if the claim had an address; one whose mark did not
    /// land late; and of those that were created for it, the one that was known first, or created first: the claim has that.
    pub(super) fn find_marked(&self) -> Option<&'a LedgerEntry> {
        let marked = self.situation.ledger.of_claim(&self.situation.pool.id, &self.claim.key);
        let is_released = |entry: &LedgerEntry| !matches!(self.situation.ownership(entry), Ownership::Claimed(_));
        let is_not_in_use = |entry: &LedgerEntry| self.claim.was_bound && !entry.fip.is_attached();
        let known_since =
            |entry: &LedgerEntry| entry.marks.created.is_some().then_some((entry.known_since, entry.fip.created_at));
        marked.filter(|entry| self.is_recoverable(entry)).min_by_key(|entry| {
            let is_doubtful = (self.has_predecessor(entry), is_released(entry));
            (is_doubtful, is_not_in_use(entry), self.is_disowned(entry), known_since(entry), entry.fip.id.clone())
        })
    }

    /// Ends what ties the claim to the address that it had, once nothing of that is left or may still come to light.
    pub(super) fn forget_address(&self) -> Decision {
        match (self.find_unusable(), self.situation.fence()) {
            (Some(entry), _) => Decision::AwaitMark(entry.fip.id.clone()),
            (None, Some(_)) => self.wait_for_fence(),
            (None, None) => Decision::ForgetAddress,
        }
    }

    /// The address that is the claim's own, and that it may have again once a clean-up of it has ended, or, if its machine
    /// uses it, once no other floating IP has a copy of its mark.
    fn find_unusable(&self) -> Option<&'a LedgerEntry> {
        let ledger = self.situation.ledger;
        ledger.of_claim(&self.situation.pool.id, &self.claim.key).find(|entry| {
            self.has_claimed(entry)
                && self.may_stay(entry)
                && !self.has_foreign_port(entry)
                && (!self.has_no_other_writer(entry) || entry.fip.is_attached() && ledger.has_copied_mark(entry))
        })
    }

    fn is_recoverable(&self, entry: &LedgerEntry) -> bool {
        let is_its_own = match self.situation.ownership(entry) {
            Ownership::Claimed(key) => key == self.claim.key,
            Ownership::Released { claim: key, .. } => key == self.claim.key && !entry.fip.is_attached(),
            _ => false,
        };
        is_its_own
            && self.has_no_other_writer(entry)
            && self.may_stay(entry)
            && !self.has_foreign_port(entry)
            && (entry.hold.is_some() || !self.situation.ledger.has_copied_mark(entry))
    }

    /// Another writer may be giving it to another claim, or releasing it.
    fn has_no_other_writer(&self, entry: &LedgerEntry) -> bool {
        entry.writers().all(|hold| hold.is_for(&self.situation.pool.id, &self.claim.key))
    }

    /// An address in use stays the claim's even if the spec has changed since; an unused one is given back. A choice that
    /// is not published yet must still be eligible when it is read back. Where the choice is complete, the mark decides,
    /// whatever another claim's IPAddress names: every user of the namespace can write one.
    fn may_stay(&self, entry: &LedgerEntry) -> bool {
        let (pool, published) = (self.situation.pool, self.situation.relevant_addresses());
        let may_have = match self.is_under_way(entry) || entry.marks.is_released_by(&self.owner()) {
            true => may_keep(&self.situation, self.claim, &entry.fip) && self.is_eligible(entry),
            false => {
                let address = entry.fip.address;
                pool.allows(address, &self.claim.key)
                    && !published.is_published_by_another_provider(address)
                    && !self.is_successor(entry)
            }
        };
        entry.fip.is_attached() || may_have
    }

    /// Whether it was created for the claim, the reply was lost, and it has the address of a deleted floating IP that the
    /// IPAddress of another claim still names. If it has been in use for long, the claim had it before everything was
    /// restored from a backup: then the mark decides.
    fn is_successor(&self, entry: &LedgerEntry) -> bool {
        let age = |at| self.situation.now.duration_since(at);
        let is_new = || entry.fip.created_at.is_some_and(|at| age(at) < USED_SUCCESSOR_AGE);
        !self.claim.was_bound && self.has_predecessor(entry) && (!entry.fip.is_attached() || is_new())
    }

    /// Whether the IPAddress of another claim names a deleted floating IP with its address.
    fn has_predecessor(&self, entry: &LedgerEntry) -> bool {
        let pool = &self.situation.pool.id;
        let mut naming = self.situation.relevant_addresses().naming_predecessor(&entry.fip, pool);
        naming.any(|binding| !binding.is_of(pool, &self.claim.key))
    }

    /// A port that was attached before the claim's mark was confirmed is not the claim's, unless the mark is restored.
    fn has_foreign_port(&self, entry: &LedgerEntry) -> bool {
        let is_choice = self.choice_of(entry).is_some() || entry.hold.is_some() && !self.claim.was_bound;
        entry.fip.is_attached() && (is_choice || self.is_disowned(entry) || self.is_successor(entry))
    }

    fn is_disowned(&self, entry: &LedgerEntry) -> bool {
        entry.disowned.contains_key(&self.owner())
    }

    fn is_eligible(&self, entry: &LedgerEntry) -> bool {
        let is_new = self.choice_of(entry).is_some_and(|choice| choice.origin != Origin::Recovered);
        !is_new || is_permitted(&self.situation, entry, &self.claim.object.name)
    }

    pub(super) fn recover(&self, entry: &LedgerEntry) -> Decision {
        match (self.complete_mark(entry), &entry.marks.created) {
            // A previous process may have been about to remove the tag, or to delete what was released.
            (Decision::TakeBack(..), _) | (Decision::Keep(_), None) if self.situation.fence().is_some() => {
                self.wait_for_fence()
            }
            (Decision::Keep(_), Some(_)) if self.situation.fence().is_some() && self.may_be_unwanted(entry) => {
                self.wait_for_fence()
            }
            (decision, _) => decision,
        }
    }

    /// Whether a previous process may have created it for the claim, found that it could not give it, and be deleting it:
    /// what it could not give may be usable by now. Nothing shows that the claim has it.
    fn may_be_unwanted(&self, entry: &LedgerEntry) -> bool {
        let is_written_here = entry.written > 0 || self.is_under_way(entry);
        let is_known_to_be_its =
            self.claim.was_bound || entry.fip.is_attached() || self.is_named_for(&self.claim.key, entry);
        !is_written_here && !is_known_to_be_its
    }

    /// Makes the marks say that the address is the claim's.
    fn complete_mark(&self, entry: &LedgerEntry) -> Decision {
        let id = entry.fip.id.clone();
        let described = self.situation.created_here(entry);
        if entry.marks.is_released_by(&self.owner()) {
            let is_described =
                described.is_some_and(|mark| mark.claim.as_ref() == Some(&self.claim.key) && mark.released.is_none());
            let tags: Vec<_> = entry.marks.release_tags(|owner| *owner == self.owner()).collect();
            // The claim's mark is written before the release is removed: in between, the address stays released by us. A
            // release in the description is removed by the claim's mark itself.
            if !tags.is_empty() && (is_described || entry.marks.claims.contains(&self.owner())) {
                return Decision::TakeBack(id, tags);
            }
        } else if self.has_claimed(entry) {
            // A tag that was written or removed, and not read back: the reply does not show whether there is a port now.
            let is_of_tags = !entry.marks.claims.is_empty()
                || self.choice_of(entry).is_some_and(|choice| choice.origin == Origin::Recovered);
            return match self.is_under_way(entry) && is_of_tags && !entry.is_confirmed() {
                true => Decision::Confirm(id),
                false => Decision::Keep(id),
            };
        }
        match described {
            Some(_) if self.situation.fence().is_some() => self.wait_for_fence(),
            // Neutron had tags and lost them: the machine uses the address, and no mark can be written.
            None if !self.situation.pool.has_tags && self.claim.was_bound => Decision::Keep(id),
            _ => self.mark(entry, Origin::Recovered),
        }
    }

    /// The address that the claim holds or has begun to choose, but whose marks are not, or no longer, the claim's alone.
    pub(super) fn find_begun(&self) -> Option<&'a LedgerEntry> {
        let Situation { ledger, pool, .. } = self.situation;
        let is_chosen = |entry: &&LedgerEntry| self.choice_of(entry).is_some() && self.has_no_other_writer(entry);
        let mut held = ledger.held().filter(|entry| self.is_held_for_it(entry));
        // What it has withdrawn may still have the tag of an earlier release of the claim.
        let has_withdrawn = |entry: &LedgerEntry| self.is_disowned(entry) && !entry.marks.has_mark_of(&self.owner());
        let mut marked = ledger.of_claim(&pool.id, &self.claim.key).filter(|entry| !has_withdrawn(entry));
        // One that it has withdrawn is not chosen again: the write that may still land is an earlier one.
        let mut uncertain = ledger.uncertain().filter(|entry| !self.is_disowned(entry));
        held.next().or_else(|| marked.find(is_chosen)).or_else(|| uncertain.find(is_chosen))
    }

    /// Continues a choice that was not completed.
    pub(super) fn complete(&self, entry: &LedgerEntry) -> Decision {
        let is_contested = matches!(self.situation.ownership(entry), Ownership::Foreign | Ownership::Contested);
        let may_keep = may_keep(&self.situation, self.claim, &entry.fip) && self.is_eligible(entry);
        match self.has_foreign_port(entry) || is_contested || !entry.fip.is_attached() && !may_keep {
            true => self.withdraw(entry),
            // It writes the same text again, so a late first write does no harm.
            false => self.mark(entry, self.choice_of(entry).map_or(Origin::Recovered, |choice| choice.origin)),
        }
    }

    /// Waits for the other owner, if another pool has marked an address of a claim that had one before. A pool that has just
    /// chosen an address reads it back, sees this claim's mark, and withdraws. If that takes too long, the other owner may be
    /// gone for good, and an address without a port is given up.
    pub(super) fn wait_for_other_owner(&self) -> Option<Decision> {
        let Situation { ledger, pool, .. } = self.situation;
        if !self.claim.was_bound {
            return None;
        }
        let is_shared = |entry: &&LedgerEntry| {
            entry.marks.are_shared() && !self.is_disowned(entry) && !entry.marks.is_released_by(&self.owner())
        };
        let shared = || ledger.of_claim(&pool.id, &self.claim.key).filter(is_shared);
        if let Some(entry) = shared().find(|entry| !entry.has_awaited_owner()) {
            return Some(Decision::AwaitOwner(entry.fip.id.clone()));
        }
        shared().find(|entry| entry.fip.is_attached()).map(|entry| Decision::Lost(self.taken(entry)))
    }

    /// Another owner has marked the address of the claim, or a newer version has.
    fn taken(&self, entry: &LedgerEntry) -> LostAddress {
        match entry.marks.is_newer {
            true => LostAddress::MarkedByNewerVersion(entry.fip.address),
            false => LostAddress::Taken(entry.fip.address),
        }
    }

    /// An address that carries this claim's mark, but also another owner's mark or a foreign port, and that the claim does
    /// not hold: the process that wrote the mark died before it withdrew, the mark landed late, or a withdrawal was lost.
    /// Nothing else removes the mark while the claim waits, and meanwhile the other owner's claim cannot have the address.
    /// Or it is a [successor](Self::is_successor) in use: without the mark, the other claim takes it once it is free.
    pub(super) fn find_stranded(&self) -> Option<&'a LedgerEntry> {
        let situation = &self.situation;
        situation.ledger.of_claim(&situation.pool.id, &self.claim.key).find(|entry| {
            let is_successor = self.is_successor(entry);
            let has_foreign_port = entry.fip.is_attached() && (self.is_disowned(entry) || is_successor);
            let is_stranded = match situation.created_here(entry) {
                // If the claim had an address, this may be that of its machine: then it is kept from others, at least.
                Some(_) => {
                    has_foreign_port
                        && !self.claim.was_bound
                        && self.has_claimed(entry)
                        && entry.uncertain_writes.is_empty()
                }
                None => entry.marks.claims.contains(&self.owner()) && (entry.marks.are_shared() || has_foreign_port),
            };
            is_stranded && entry.hold.is_none() && (situation.fence().is_none() || is_successor)
        })
    }

    /// An address with the claim's mark that the claim may not have: the process that got it from Neutron died before it
    /// deleted it, or the spec has changed since. Until the mark is removed, it fills the pool's limit and the network.
    /// While a previous process may still write, the claim chooses another one meanwhile, but not beside a
    /// [successor](Self::is_successor): it would be reported as an orphan.
    pub(super) fn find_unwanted(&self) -> Option<&'a LedgerEntry> {
        let situation = &self.situation;
        situation.ledger.of_claim(&situation.pool.id, &self.claim.key).find(|entry| {
            self.has_claimed(entry)
                && entry.is_free()
                && !self.may_stay(entry)
                && !situation.ledger.has_copied_mark(entry)
                && (situation.fence().is_none() || self.is_successor(entry))
        })
    }
}

#[cfg(test)]
mod tests;
