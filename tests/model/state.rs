//! One moment of the whole: Neutron, the owners by number, and the wire between them.

use std::hash::{DefaultHasher, Hash, Hasher};

use crate::neutron::{Call, Fip, Seen};
use crate::registry::Id;

/// How much may happen that is not the protocol's own doing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Left {
    /// Calls refused, lost, late or doubled, and crashes.
    pub faults: u8,
    /// Ports that a user attaches.
    pub ports: u8,
    /// Claims that are deleted.
    pub ends: u8,
    /// Claims that come again under an old name.
    pub returns: u8,
}

/// A call under way.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Wire {
    pub owner: u8,
    /// The claim, or the floating IP of a chore.
    pub slot: u8,
    pub is_applied: bool,
    /// An earlier attempt had no answer.
    pub is_repeated: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct State {
    pub fips: Vec<Fip>,
    pub owners: Vec<Id>,
    pub wire: Vec<Wire>,
    /// Calls that nobody waits for any more, or the first of two, and that may still reach Neutron.
    pub late: Vec<(u8, Call)>,
    /// What each owner's listing has read.
    pub looks: Vec<Vec<Seen>>,
    pub left: Left,
    pub broken: Option<&'static str>,
}

/// Who is which of several owners with the same pool is the same to the laws: turned, a state is the same state.
impl Hash for State {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let least = (0..self.owners.len()).map(|by| self.turned(by)).min();
        (least, self.left, self.broken.is_some()).hash(hasher);
    }
}

impl State {
    /// A digest of the state as it is when each owner takes the place of the one `by` places on.
    fn turned(&self, by: usize) -> u64 {
        let count = self.owners.len();
        let mut all = DefaultHasher::new();
        for owner in (0..count).map(|owner| (owner + count - by) % count) {
            self.owners[owner].hash(&mut all);
            self.looks[owner].len().hash(&mut all);
            self.looks[owner].iter().for_each(|seen| seen.hash(&mut all));
        }
        for fip in &self.fips {
            (fip.tags.turned(by, count), fip.has_port, fip.late.turned(by, count)).hash(&mut all);
        }
        // Sets, whose order changes in turning.
        let turn = |owner: u8| ((usize::from(owner) + by) % count) as u8;
        let digest = |it: &dyn Fn(&mut DefaultHasher)| {
            let mut one = DefaultHasher::new();
            it(&mut one);
            one.finish()
        };
        let wire =
            self.wire.iter().map(|it| digest(&|to| (turn(it.owner), it.slot, it.is_applied, it.is_repeated).hash(to)));
        wire.fold(0, u64::wrapping_add).hash(&mut all);
        let late = self.late.iter().map(|(owner, call)| {
            digest(&|to| (turn(*owner), call.fip, call.tag.turned(by, count), call.adds).hash(to))
        });
        late.fold(0, u64::wrapping_add).hash(&mut all);
        all.finish()
    }
}
