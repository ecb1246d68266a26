//! Records every change in Neutron at the moment at which it is made, by us or by users: afterwards nothing shows which
//! came first, a port or a mark.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use caip_openstack::allocation::mark::{Marks, Ownership};
use caip_openstack::allocation::{ClaimKey, PoolId};
use caip_openstack::floating_ip::{FloatingIp, FloatingIpId};
use caip_openstack::openstack::KeystoneId;
use caip_openstack::openstack::session::REQUEST_TIMEOUT;
use tokio::time::Instant;

use crate::api::Kind;
use crate::claims::ClaimRecord;
use crate::laws::{Binding, Violation};
use crate::memory::{Alteration, MemoryCloud};
use crate::rates::Rates;
use crate::wire::Wire;

/// A project is listed at least so often.
const RELISTED_WITHIN: Duration = Duration::from_secs(90);

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
    /// When an object of CAPO began to name an address: by site, address and kind.
    named: BTreeMap<(usize, IpAddr, Kind), u64>,
    forged: BTreeSet<FloatingIpId>,
    /// What a call changed that took effect later than any caller waits, and whose sender had ended.
    late: BTreeSet<FloatingIpId>,
    /// When a floating IP was last deleted by a user, or by a DELETE that its sender had given up.
    deleted_unseen: Option<Instant>,
    /// What the cloud said that it had deleted, and had not.
    kept: BTreeSet<FloatingIpId>,
    writes: usize,
    was_altered: bool,
    has_hidden: bool,
    has_hidden_attachments: bool,
    was_misdirected: bool,
    violations: Vec<Violation>,
    rates: Rates,
    claims: ClaimRecord,
}

#[derive(Clone)]
struct Known {
    fip: FloatingIp,
    is_ours: bool,
    /// Whether nothing has changed it since its creation.
    is_new: bool,
    /// When its port or its port forwardings last changed.
    attached: u64,
    attached_at: Instant,
    /// When a user last changed its description, tags or name.
    described: u64,
    /// When each mark of a claim was written, and by whom.
    marked: BTreeMap<(PoolId, ClaimKey), Marked>,
}

#[derive(Clone)]
struct Marked {
    moment: u64,
    /// None for a user.
    by: Option<Writer>,
    /// Nothing was marked before, so that the claim's IPAddress decided.
    was_alone: bool,
}

/// Who writes to OpenStack.
#[derive(Clone)]
pub struct Writer {
    process: Wire,
    /// How often the process had panicked.
    panics: usize,
    /// Of the session.
    keystone: KeystoneId,
    /// The cloud does not show the marks that it writes.
    is_blind: bool,
}

impl Writer {
    pub fn new(process: Wire, keystone: KeystoneId, cloud: &MemoryCloud) -> Self {
        Self { panics: process.panics(), process, keystone, is_blind: cloud.alteration().hides_marks() }
    }

    /// Whether it knows no longer what it saw: it died, it panicked, it could not see the mark, or the pool's session is one
    /// with another Keystone now.
    fn has_forgotten(&self, present: Option<KeystoneId>) -> bool {
        let has_moved = present.is_some_and(|present| present != self.keystone);
        self.process.is_dead() || self.process.panics() != self.panics || self.is_blind || has_moved
    }
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
            named: BTreeMap::new(),
            forged,
            late: BTreeSet::new(),
            deleted_unseen: None,
            kept: BTreeSet::new(),
            writes: 0,
            was_altered: false,
            has_hidden: false,
            has_hidden_attachments: false,
            was_misdirected: false,
            violations: Vec::new(),
            rates: Rates::default(),
            claims: ClaimRecord::default(),
        })))
    }

    pub fn rates(&self) -> Rates {
        self.inner().rates.clone()
    }

    pub fn claims(&self) -> ClaimRecord {
        self.inner().claims.clone()
    }

    /// A floating IP as it was last seen.
    pub fn floating_ip(&self, id: &FloatingIpId) -> Option<FloatingIp> {
        self.inner().known.get(id).map(|known| known.fip.clone())
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().expect("no code panics while it holds the record")
    }

    /// How many writes OpenStack accepted.
    pub fn writes(&self) -> usize {
        self.inner().writes
    }

    pub fn count_write(&self) {
        self.inner().writes += 1;
    }

    /// Records what a write of ours changed, which was sent then.
    pub fn record_write(&self, operation: &str, by: &Writer, sent: Instant) {
        let mut inner = self.inner();
        let before = inner.known.clone();
        for (id, known) in inner.refresh(Some(by)) {
            if operation != "delete floating IP" {
                continue;
            }
            // A user copied the mark of one that we created, and removed that.
            let is_passed_off = inner.forged.contains(&id) && inner.has_only_mark(&known.fip);
            if is_passed_off {
                inner.others.remove(&id);
            } else if !known.is_ours {
                inner.violations.push(Violation::new(3, &id, "deleted, and we did not create it"));
            }
            // Where the cloud hides what is attached, the controllers cannot know.
            let is_seen = known.fip.is_attached() && !inner.has_hidden_attachments;
            if is_seen && known.attached_at + FRESH_VIEW < sent {
                let how = "deleted, although something had been attached to it before the DELETE was sent";
                inner.violations.push(Violation::new(2, &id, how));
            }
        }
        if operation == "delete floating IP" && sent + REQUEST_TIMEOUT < Instant::now() {
            inner.deleted_unseen = Some(Instant::now());
        }
        if by.process.is_dead() && sent + REQUEST_TIMEOUT < Instant::now() {
            let is_new = |(id, known): &(&FloatingIpId, &Known)| before.get(id).is_none_or(|old| old.fip != known.fip);
            let changed: Vec<_> = inner.known.iter().filter(is_new).map(|(id, _)| id.clone()).collect();
            inner.late.extend(changed);
        }
    }

    /// Records what a user changed.
    pub fn record_user_change(&self) {
        let mut inner = self.inner();
        let gone: Vec<FloatingIpId> = inner.refresh(None).into_iter().map(|(id, _)| id).collect();
        for id in gone {
            inner.others.remove(&id);
            inner.deleted_unseen = Some(Instant::now());
        }
    }

    /// What users created and did not delete.
    pub fn others(&self) -> BTreeSet<FloatingIpId> {
        self.inner().others.clone()
    }

    /// What users wrote a mark on, or wiped one from, by hand.
    pub fn forged(&self) -> BTreeSet<FloatingIpId> {
        let inner = self.inner();
        // What landed later than the product expects of a call whose sender has ended (docs/guarantees.md, Limits).
        &inner.forged | &inner.late
    }

    /// Whether something is gone that the last listing showed.
    pub fn is_anything_deleted_unseen(&self) -> bool {
        self.inner().deleted_unseen.is_some_and(|at| at.elapsed() < RELISTED_WITHIN)
    }

    /// How many floating IPs a call changed later than any caller waits, after its sender had ended.
    pub fn late_changes(&self) -> usize {
        self.inner().late.len()
    }

    /// The cloud says that it has deleted the floating IP.
    pub fn note_deleted(&self, id: &FloatingIpId) {
        let mut inner = self.inner();
        if inner.cloud.floating_ips().iter().any(|fip| fip.id == *id) {
            inner.kept.insert(id.clone());
        }
    }

    /// What we created, what no user has changed, and what has no mark all the same. Not what the cloud keeps although it
    /// says that it has deleted it (docs/guarantees.md, Limits).
    pub fn unmarked(&self) -> BTreeSet<FloatingIpId> {
        let inner = self.inner();
        // One that was created a moment ago is about to be deleted.
        let is_left = |known: &Known| known.is_ours && known.is_new && known.attached_at + FRESH_VIEW < Instant::now();
        let is_unmarked = |known: &Known| is_left(known) && Marks::read(&known.fip).is_empty();
        let unmarked = inner.known.iter().filter(|(_, known)| is_unmarked(known)).map(|(id, _)| id.clone());
        unmarked.filter(|id| !inner.kept.contains(id)).collect()
    }

    /// Whether the mark says that the claim holds the floating IP, and no user had a hand in it.
    pub fn is_held(&self, id: &FloatingIpId, pool: &PoolId, claim: &ClaimKey) -> bool {
        let inner = self.inner();
        let ownership = inner.known.get(id).map(|known| Marks::read(&known.fip).ownership(pool));
        ownership == Some(Ownership::Claimed(claim.clone())) && !inner.forged.contains(id)
    }

    /// How many floating IPs have marks that name the claim, those of a release included.
    pub fn count_marked_for(&self, pool: &PoolId, claim: &ClaimKey) -> usize {
        let inner = self.inner();
        inner.known.values().filter(|known| Marks::read(&known.fip).claims_of(pool).contains(claim)).count()
    }

    pub fn note_alteration(&self, alteration: Alteration) {
        let mut inner = self.inner();
        inner.was_altered |= !alteration.spares_marks();
        // One that it says it has deleted is not counted either.
        inner.has_hidden |= alteration.hides_marks() || alteration == Alteration::IgnoresDeletions;
        inner.has_hidden_attachments |= matches!(alteration, Alteration::HidesPorts | Alteration::HidesForwardings);
    }

    /// Whether the cloud has ever hidden marks.
    pub fn has_hidden(&self) -> bool {
        self.inner().has_hidden
    }

    /// Whether the cloud has ever altered or hidden the text that is written.
    pub fn was_altered(&self) -> bool {
        self.inner().was_altered
    }

    pub fn note_misdirection(&self) {
        self.inner().was_misdirected = true;
    }

    /// Whether the Secret has ever named another project or region.
    pub fn was_misdirected(&self) -> bool {
        self.inner().was_misdirected
    }

    pub fn cloud(&self) -> MemoryCloud {
        self.inner().cloud.clone()
    }

    pub fn report(&self, violation: Violation) {
        self.inner().violations.push(violation);
    }

    /// The violations since the last call.
    pub fn take_violations(&self) -> Vec<Violation> {
        let mut inner = self.inner();
        let rates = inner.rates.violations();
        std::mem::take(&mut inner.violations).into_iter().chain(rates).collect()
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
    /// has forgotten it since: only that process could have seen the port (docs/guarantees.md, Limits). `keystone` is what the
    /// pool's Secret names. A user may have made an IPAddress that names it, and wiped the marks of its owner: then the claim's
    /// mark looks like a lost one.
    pub fn was_attached_before(&self, binding: &Binding, keystone: Option<KeystoneId>, is_copied: bool) -> bool {
        let inner = self.inner();
        let Some(known) = inner.known.get(&binding.fip) else { return false };
        let marked = known.marked.get(&(binding.pool.clone(), binding.claim.clone()));
        let is_late = |marked: &Marked| {
            known.attached < marked.moment
                && !marked.by.as_ref().is_some_and(|by| by.has_forgotten(keystone))
                && !(is_copied && marked.was_alone)
        };
        // Where the cloud hides that the claim has released it, the mark seems to be there.
        let is_unmarked_or_late = marked.map_or(!inner.has_hidden, is_late);
        known.fip.is_attached() && !inner.has_hidden_attachments && is_unmarked_or_late
    }

    /// Law 2: whether a user wrote something on a floating IP of the project before the claim's mark came.
    pub fn was_described_before(&self, id: &FloatingIpId, pool: &PoolId, claim: &ClaimKey) -> bool {
        let inner = self.inner();
        let Some(known) = inner.known.get(id).filter(|known| !known.is_ours) else { return false };
        let is_described = !known.fip.description.is_empty() || !known.fip.dns_name.is_empty();
        let marked = known.marked.get(&(pool.clone(), claim.clone()));
        is_described && marked.is_some_and(|marked| known.described < marked.moment)
    }

    /// An object of CAPO of a site names the address from now on, or no longer.
    pub fn note_named(&self, site: usize, kind: Kind, address: IpAddr, is_named: bool) {
        let mut inner = self.inner();
        inner.moment += 1;
        let moment = inner.moment;
        match is_named {
            true => inner.named.insert((site, address, kind), moment),
            false => inner.named.remove(&(site, address, kind)),
        };
    }

    /// Law 2: whether an object of CAPO of the site named a floating IP of the project before the claim's mark came.
    pub fn was_named_before(&self, site: usize, id: &FloatingIpId, pool: &PoolId, claim: &ClaimKey) -> bool {
        let inner = self.inner();
        let Some(known) = inner.known.get(id).filter(|known| !known.is_ours) else { return false };
        let marked = known.marked.get(&(pool.clone(), claim.clone()));
        let kinds = [Kind::OpenStackCluster, Kind::InTreePool];
        let mut named = kinds.iter().filter_map(|kind| inner.named.get(&(site, known.fip.address, *kind)));
        marked.is_some_and(|marked| named.any(|named| *named < marked.moment))
    }
}

/// How old the view may be on which a DELETE is sent.
const FRESH_VIEW: Duration = Duration::from_secs(6);

impl Inner {
    /// Whether it has a creation mark that no other floating IP has.
    fn has_only_mark(&self, fip: &FloatingIp) -> bool {
        let nonce = |fip: &FloatingIp| Marks::read(fip).created.map(|mark| mark.nonce);
        let own = nonce(fip);
        own.is_some() && self.known.values().all(|known| nonce(&known.fip) != own)
    }

    /// Reads Neutron again, and returns what is gone.
    fn refresh(&mut self, by: Option<&Writer>) -> Vec<(FloatingIpId, Known)> {
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
        let has_hidden = self.has_hidden;
        for (id, fip) in now {
            let marks = Marks::read(&fip);
            let Some(known) = self.known.get_mut(&id) else {
                self.changes += 1;
                if !is_ours {
                    self.others.insert(id.clone());
                }
                let first = Marked { moment, by: by.cloned(), was_alone: true };
                let marked = marked(&marks, &BTreeMap::new(), &first, has_hidden);
                let attached_at = Instant::now();
                let new =
                    Known { fip, is_ours, is_new: true, attached: moment, attached_at, described: moment, marked };
                self.known.insert(id, new);
                continue;
            };
            if known.fip == fip {
                continue;
            }
            self.changes += 1;
            let is_altered = !self.cloud.alteration().spares_marks();
            if known.change(fip, &marks, moment, by, has_hidden) && (!is_ours || is_altered) {
                self.forged.insert(id);
            }
        }
        gone
    }
}

impl Known {
    /// Records a change, and returns whether marks changed.
    fn change(&mut self, fip: FloatingIp, marks: &Marks, moment: u64, by: Option<&Writer>, has_hidden: bool) -> bool {
        self.is_new = false;
        if (&self.fip.port, self.fip.is_forwarded) != (&fip.port, fip.is_forwarded) {
            (self.attached, self.attached_at) = (moment, Instant::now());
        }
        if by.is_none() && (&self.fip.description, &self.fip.tags) != (&fip.description, &fip.tags) {
            self.described = moment;
        }
        let old_marks = Marks::read(&self.fip);
        let has_changed = old_marks != *marks;
        let before = std::mem::take(&mut self.marked);
        let new = Marked { moment, by: by.cloned(), was_alone: old_marks.is_empty() };
        self.marked = marked(marks, &before, &new, has_hidden);
        if by.is_none() {
            // What a user wiped had been there all the same.
            self.marked.extend(before);
        }
        self.fip = fip;
        has_changed
    }
}

fn marked(
    marks: &Marks,
    before: &BTreeMap<(PoolId, ClaimKey), Marked>,
    new: &Marked,
    has_hidden: bool,
) -> BTreeMap<(PoolId, ClaimKey), Marked> {
    let mut now = BTreeMap::new();
    for pool in marks.pools() {
        for claim in marks.claims_of(pool) {
            let mark = (pool.clone(), claim.clone());
            // A claim that takes it back marks it again. Where the cloud hides the release, it does not know of it.
            let is_released = marks.is_released_by(&mark);
            match before.get(&mark) {
                Some(since) if !is_released || has_hidden => now.insert(mark, since.clone()),
                None if !is_released => now.insert(mark, new.clone()),
                _ => None,
            };
        }
    }
    now
}
