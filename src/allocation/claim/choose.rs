//! Chooses an address for a claim that has none.

use super::{ClaimCase, Decision};
use crate::allocation::supply::{NextAddress, Supply};

impl ClaimCase<'_> {
    pub(super) fn choose(&self) -> Decision {
        let supply = Supply::new(self.situation);
        let next = match self.situation.pool.reservations.get(&self.claim.object.name) {
            Some(address) => supply.reserved(*address),
            None => {
                let position = self.claim.queue_position();
                let older = self.situation.queue_for_any().take_while(|other| **other < position);
                supply.next_for_any(older.count())
            }
        };
        match next {
            Ok(NextAddress::Existing(origin, entry)) => self.mark(entry, origin),
            Ok(NextAddress::New(place)) => Decision::Create(place),
            Err(unavailable) => self.refuse(unavailable),
        }
    }
}
