//! Chooses an address for a claim that has none.

use std::collections::BTreeSet;

use super::{ClaimCase, Decision};
use crate::allocation::identity::ClaimKey;
use crate::allocation::situation::Situation;
use crate::allocation::supply::{NextAddress, Supply};

impl ClaimCase<'_> {
    pub(super) fn choose(&self) -> Decision {
        let supply = Supply::new(self.situation);
        let next = match self.situation.pool.reservations.get(&self.claim.object.name) {
            Some(address) => supply.reserved(*address),
            None => {
                let position = self.claim.queue_position();
                let older = self.situation.queue_for_any().take_while(|other| **other < position);
                // What these get is no longer in the supply.
                let Situation { ledger, pool, .. } = self.situation;
                let served: BTreeSet<&ClaimKey> = ledger.served_claims(&pool.id).collect();
                supply.next_for_any(older.filter(|other| !served.contains(&other.key)).count())
            }
        };
        match next {
            Ok(NextAddress::Existing(origin, entry)) => self.mark(entry, origin),
            Ok(NextAddress::New(place)) => Decision::Create(place),
            Err(unavailable) => self.refuse(unavailable),
        }
    }
}
