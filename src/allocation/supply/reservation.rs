//! The one address that a claim may have, by `spec.reservations`.

use std::net::IpAddr;

use super::{NextAddress, Supply, Unavailable};
use crate::allocation::ledger::LedgerEntry;
use crate::allocation::mark::Ownership;
use crate::allocation::origin::Origin;
use crate::allocation::refusal::Refusal;

impl<'a> Supply<'a> {
    pub(in crate::allocation) fn reserved(&self, address: IpAddr) -> Result<NextAddress<'a>, Unavailable> {
        match self.find_reserved(address) {
            Ok(_) if self.situation.fence().is_some() => Err(Unavailable::Fenced),
            found => found.map_err(Unavailable::Refused),
        }
    }

    fn find_reserved(&self, address: IpAddr) -> Result<NextAddress<'a>, Refusal> {
        let pool = self.situation.pool;
        if pool.is_excluded(address) {
            return Err(Refusal::ReservationExcluded(address));
        }
        // A paginated listing may show an address twice: for a floating IP that was deleted meanwhile, and for its
        // successor.
        let mut entries = self.situation.kept_at(address).peekable();
        if entries.peek().is_none() {
            return Err(Refusal::ReservationMissing(address));
        }
        let mut entries = entries.filter(|entry| self.is_in_reach(entry)).peekable();
        if entries.peek().is_none() {
            return Err(Refusal::ReservationOnOtherNetwork(address));
        }
        let entry = entries.find(|entry| self.is_takeable(entry)).ok_or(Refusal::ReservationTaken(address))?;
        let is_counted = self.situation.ownership(entry) == Ownership::Unclaimed;
        if !is_counted && !pool.has_tags {
            return Err(Refusal::NoTags);
        }
        if !is_counted && !entry.has_room_for_tag() {
            return Err(Refusal::ReservationFullOfTags(address));
        }
        // One that the pool owns is given even where no claim could have it, unless the limit was lowered below it.
        let is_within_limit = if is_counted { self.owned_within_limit(1) > 0 } else { self.room() > 0 };
        match pool.max_ips {
            Some(limit) if !is_within_limit => Err(Refusal::LimitReached(limit)),
            _ => Ok(NextAddress::Existing(Origin::Reserved, entry)),
        }
    }

    fn is_in_reach(&self, entry: &LedgerEntry) -> bool {
        self.situation.pool.network.as_ref().is_none_or(|network| *network == entry.fip.network)
    }

    fn is_takeable(&self, entry: &LedgerEntry) -> bool {
        entry.is_free()
            && !entry.is_yielded(self.situation.now)
            && !self.situation.relevant_addresses().is_published(&entry.fip)
            && (entry.marks.is_empty() || self.situation.ownership(entry) == Ownership::Unclaimed)
            && !self.situation.ledger.has_copied_mark(entry)
    }
}
