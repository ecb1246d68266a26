//! The state of the model: Neutron, the owners by number, and the calls between them.

use std::hash::{DefaultHasher, Hash, Hasher};

use crate::neutron::{Call, Fip, ListedFip};
use crate::registry::Id;

/// How many disturbances may still happen.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Budget {
    /// Calls that are refused, lost, late or resent, and crashes.
    pub faults: u8,
    /// Ports that a user attaches.
    pub ports: u8,
    /// Claims that are deleted.
    pub deletions: u8,
    /// Deleted claims that are created again under the same name.
    pub recreations: u8,
    /// IPAddresses that a user deletes.
    pub deleted_addresses: u8,
}

/// A call whose sender waits for the reply.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PendingCall {
    pub owner: u8,
    /// The claim, or `CLAIMS` plus the index of the floating IP that the sweep writes to.
    pub slot: u8,
    pub is_applied: bool,
    /// An earlier attempt got no reply.
    pub is_resent: bool,
}

impl PendingCall {
    pub fn new(owner: usize, slot: usize) -> Self {
        Self { owner: owner as u8, slot: slot as u8, is_applied: false, is_resent: false }
    }
    pub fn is_from(&self, owner: usize) -> bool {
        usize::from(self.owner) == owner
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct State {
    pub fips: Vec<Fip>,
    pub owners: Vec<Id>,
    pub pending: Vec<PendingCall>,
    /// Calls that may still reach Neutron although the sender gave up or resent them, with the sender.
    pub late_calls: Vec<(u8, Call)>,
    /// What each owner's listing in progress has read.
    pub listings: Vec<Vec<ListedFip>>,
    pub budget: Budget,
    pub violation: Option<&'static str>,
}

/// Owners with the same pool are interchangeable to the laws, so states that differ only by a rotation of them are one.
impl Hash for State {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let least = (0..self.owners.len()).map(|by| self.rotated(by)).min();
        (least, self.budget, self.violation.is_some()).hash(hasher);
    }
}

impl State {
    /// A digest of the state with each owner moved `by` places on.
    fn rotated(&self, by: usize) -> u64 {
        let count = self.owners.len();
        let mut all = DefaultHasher::new();
        for owner in (0..count).map(|owner| (owner + count - by) % count) {
            self.owners[owner].hash(&mut all);
            self.listings[owner].len().hash(&mut all);
            self.listings[owner].iter().for_each(|fip| fip.hash(&mut all));
        }
        for fip in &self.fips {
            (fip.tags.rotated(by, count), fip.has_port, fip.tags_after_port.rotated(by, count)).hash(&mut all);
        }
        // These are sets: a rotation changes their order, so sum up the digests.
        let rotate = |owner: u8| ((usize::from(owner) + by) % count) as u8;
        let digest = |write: &dyn Fn(&mut DefaultHasher)| {
            let mut one = DefaultHasher::new();
            write(&mut one);
            one.finish()
        };
        let pending = self
            .pending
            .iter()
            .map(|sent| digest(&|to| (rotate(sent.owner), sent.slot, sent.is_applied, sent.is_resent).hash(to)));
        pending.fold(0, u64::wrapping_add).hash(&mut all);
        let late = self.late_calls.iter().map(|(owner, call)| {
            digest(&|to| (rotate(*owner), call.fip, call.tag.rotated(by, count), call.adds).hash(to))
        });
        late.fold(0, u64::wrapping_add).hash(&mut all);
        all.finish()
    }
}
