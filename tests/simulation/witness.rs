//! Records every change in Neutron at the moment at which it is made, by us or by users: afterwards nothing shows which
//! came first, a port or a mark.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use caip_openstack::allocation::mark::Marks;
use caip_openstack::allocation::{ClaimKey, PoolId};
use caip_openstack::floating_ip::{FloatingIp, FloatingIpId};

use crate::laws::Violation;
use crate::memory::MemoryCloud;
use crate::wire::Wire;

/// The record of one history. Clones share it.
#[derive(Clone)]
pub struct Witness(Arc<Mutex<Inner>>);

struct Inner {
    cloud: MemoryCloud,
    known: BTreeMap<FloatingIpId, Known>,
    /// Counts the changes: a logical time.
    moment: u64,
    changes: usize,
    offers: usize,
    others: BTreeSet<FloatingIpId>,
    forged: BTreeSet<FloatingIpId>,
    violations: Vec<Violation>,
}

struct Known {
    fip: FloatingIp,
    is_ours: bool,
    /// Whether nothing has changed it since its creation.
    is_new: bool,
    /// When its port last changed.
    attached: u64,
    /// When each mark of a claim was written, and by whom.
    marked: BTreeMap<(PoolId, ClaimKey), Marked>,
}

#[derive(Clone)]
struct Marked {
    moment: u64,
    /// The process that wrote it; none for a user.
    by: Option<Wire>,
}

impl Witness {
    pub fn new(cloud: MemoryCloud) -> Self {
        let known = BTreeMap::new();
        let (others, forged) = (BTreeSet::new(), BTreeSet::new());
        Self(Arc::new(Mutex::new(Inner {
            cloud,
            known,
            moment: 0,
            changes: 0,
            offers: 0,
            others,
            forged,
            violations: Vec::new(),
        })))
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().expect("no code panics while it holds the record")
    }

    /// Records what a write of ours changed.
    pub fn record_write(&self, operation: &str, by: &Wire) {
        let mut inner = self.inner();
        for (id, known) in inner.refresh(Some(by)) {
            if operation == "delete floating IP" && !known.is_ours {
                inner.violations.push(Violation::new(3, id, "deleted, and we did not create it"));
            }
        }
    }

    /// Records what a user changed.
    pub fn record_user_change(&self) {
        let mut inner = self.inner();
        let gone: Vec<FloatingIpId> = inner.refresh(None).into_iter().map(|(id, _)| id).collect();
        for id in gone {
            inner.others.remove(&id);
        }
    }

    /// What users created and did not delete.
    pub fn others(&self) -> BTreeSet<FloatingIpId> {
        self.inner().others.clone()
    }

    /// What users wrote a mark on, or wiped one from, by hand.
    pub fn forged(&self) -> BTreeSet<FloatingIpId> {
        self.inner().forged.clone()
    }

    /// The violations since the last call.
    pub fn take_violations(&self) -> Vec<Violation> {
        std::mem::take(&mut self.inner().violations)
    }

    /// How many changes there were. A refused POST is none, and neither is an [offer](Self::offers).
    pub fn changes(&self) -> usize {
        self.inner().changes
    }

    /// How often we created a floating IP and deleted it unchanged: Neutron offered what may not be given.
    pub fn offers(&self) -> usize {
        self.inner().offers
    }

    /// Law 2: whether the floating IP had a port before the claim's mark came. Not where the process that wrote the mark
    /// has died since: only that process could have seen the port (docs/guarantees.md, what is not covered).
    pub fn was_attached_before(&self, id: &FloatingIpId, pool: &PoolId, claim: &ClaimKey) -> bool {
        let inner = self.inner();
        let Some(known) = inner.known.get(id) else { return false };
        let marked = known.marked.get(&(pool.clone(), claim.clone()));
        let is_late = |marked: &Marked| {
            known.attached < marked.moment && marked.by.as_ref().is_none_or(|process| !process.is_dead())
        };
        known.fip.is_attached() && marked.is_none_or(is_late)
    }
}

impl Inner {
    /// Reads Neutron again, and returns what is gone.
    fn refresh(&mut self, by: Option<&Wire>) -> Vec<(FloatingIpId, Known)> {
        let is_ours = by.is_some();
        self.moment += 1;
        let moment = self.moment;
        let now: BTreeMap<FloatingIpId, FloatingIp> =
            self.cloud.floating_ips().into_iter().map(|fip| (fip.id.clone(), fip)).collect();
        let gone: Vec<FloatingIpId> = self.known.keys().filter(|id| !now.contains_key(id)).cloned().collect();
        let gone: Vec<_> = gone.into_iter().filter_map(|id| self.known.remove(&id).map(|known| (id, known))).collect();
        for (_, known) in &gone {
            if known.is_ours && known.is_new {
                self.offers += 1;
                self.changes -= 1;
            } else {
                self.changes += 1;
            }
        }
        for (id, fip) in now {
            let marks = Marks::read(&fip);
            let Some(known) = self.known.get_mut(&id) else {
                self.changes += 1;
                if !is_ours {
                    self.others.insert(id.clone());
                }
                let marked = marked(&marks, &BTreeMap::new(), moment, by);
                self.known.insert(id, Known { fip, is_ours, is_new: true, attached: moment, marked });
                continue;
            };
            if known.fip == fip {
                continue;
            }
            self.changes += 1;
            known.is_new = false;
            if known.fip.port != fip.port {
                known.attached = moment;
            }
            if !is_ours && Marks::read(&known.fip) != marks {
                self.forged.insert(id);
            }
            let before = std::mem::take(&mut known.marked);
            known.marked = marked(&marks, &before, moment, by);
            if !is_ours {
                // What a user wiped had been there all the same.
                known.marked.extend(before);
            }
            known.fip = fip;
        }
        gone
    }
}

fn marked(
    marks: &Marks,
    before: &BTreeMap<(PoolId, ClaimKey), Marked>,
    moment: u64,
    by: Option<&Wire>,
) -> BTreeMap<(PoolId, ClaimKey), Marked> {
    let mut now = BTreeMap::new();
    for pool in marks.pools() {
        for claim in marks.claims_of(pool) {
            let mark = (pool.clone(), claim.clone());
            let since = before.get(&mark).cloned().unwrap_or_else(|| Marked { moment, by: by.cloned() });
            now.insert(mark, since);
        }
    }
    now
}
