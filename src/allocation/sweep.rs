//! What to do about everything that carries a pool's mark and that no claim is about to settle by itself: released
//! addresses, orphans, spares, and what is left when the pool goes (design 3, steps 7 and 8).

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::claim::{is_ownable, surplus};
use super::directory::Directory;
use super::identity::{ClaimKey, PoolId};
use super::ledger::{Entry, Ledger};
use super::mark::{CreationMark, Standing, claim_tag, release_tag};
use super::policy::PoolPolicy;
use crate::floating_ip::FloatingIpId;

/// Whether a claim exists, and whether it is going.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Living {
    /// It wants or has an address.
    Stays,
    /// It is being deleted: its own release is under way.
    Goes,
}

/// What the sweep of one pool sees of Kubernetes.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// Every claim that points at the pool.
    pub claims: BTreeMap<ClaimKey, Living>,
    /// A Cluster in the pool's namespace is paused: a move or a restore may be under way, and nobody is an orphan.
    pub is_paused: bool,
}

/// One thing to do about one floating IP.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Chore {
    /// Delete it: we created it, nothing is on it, and nobody wants it.
    Delete(FloatingIpId),
    /// Write this description, if any, then take these tags off, in this order.
    Rewrite {
        /// Which.
        id: FloatingIpId,
        /// The new description: a mark, or empty.
        description: Option<String>,
        /// The tags; those of claims come before those of releases, so that what is half done is still ours to finish.
        tags: Vec<String>,
    },
    /// Tag an orphan for release.
    Release(FloatingIpId, String),
    /// Write an orphan's release into its description: this Neutron has no tags.
    Describe(FloatingIpId, CreationMark),
}

impl Chore {
    /// The floating IP that it is about.
    pub fn id(&self) -> &FloatingIpId {
        match self {
            Self::Delete(id) | Self::Rewrite { id, .. } | Self::Release(id, _) | Self::Describe(id, _) => id,
        }
    }
}

/// What a sweep does and found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Sweep {
    /// To be done now, each once, in any order.
    pub chores: Vec<Chore>,
    /// What belongs to no claim although it says that it does.
    pub orphans: Vec<FloatingIpId>,
    /// Marks that somebody copied: neither is deleted.
    pub copied: Vec<FloatingIpId>,
    /// Released ones that are left to waiting claims.
    pub offered: usize,
    /// When something rests no longer, or is an orphan for long enough.
    pub wake_at: Option<Timestamp>,
    /// Whether something was written that must be seen again before it is acted upon.
    pub look_again: bool,
    /// Whether something released still has a port.
    pub has_ports: bool,
    /// How many floating IPs to create, so that claims need not wait.
    pub preallocate: usize,
}

/// Plans a sweep of a pool that stays. Behind the fence only orphans are noted: what a predecessor wrote may still land.
pub fn plan(ledger: &Ledger, directory: &Directory, pool: &PoolPolicy, around: &Surroundings, now: Timestamp) -> Sweep {
    let surplus = surplus(ledger, pool);
    let mut pass =
        Pass { ledger, directory, pool, around, now, spares: 0, waiting: 0, surplus, sweep: Sweep::default() };
    let spares = ledger.of_pool(&pool.id).filter(|entry| pass.is_spare(entry));
    (pass.spares, pass.waiting) = (spares.count(), pool.without_reservation(ledger.waiting(&pool.id)).count());
    for entry in ledger.of_pool(&pool.id).filter(|entry| entry.hold.is_none()) {
        pass.visit(entry);
    }
    pass.sweep.preallocate = pass.shortage();
    if let Some(until) = ledger.fence(pool) {
        pass.sweep.chores.clear();
        pass.sweep.preallocate = 0;
        pass.sweep.look_again |= now >= until;
        pass.wake(until);
    }
    pass.sweep
}

/// One pass over a pool.
struct Pass<'a> {
    ledger: &'a Ledger,
    directory: &'a Directory,
    pool: &'a PoolPolicy,
    around: &'a Surroundings,
    now: Timestamp,
    /// Free ones that are left, ready to be given to any claim.
    spares: usize,
    /// Claims that wait for any address, less those that one was left to.
    waiting: usize,
    /// How many are beyond the pool's limit, which was lowered: these are left to nobody.
    surplus: usize,
    sweep: Sweep,
}

impl Pass<'_> {
    fn visit(&mut self, entry: &Entry) {
        if self.ledger.is_copied(entry) {
            return self.sweep.copied.push(entry.fip.id.clone());
        }
        if !entry.doubts.is_empty() {
            self.sweep.look_again = true;
            return;
        }
        match entry.marks.standing(&self.pool.id) {
            Standing::Released { claim, at } => self.released(entry, &claim, at),
            Standing::Held(claim) => self.held(entry, &claim),
            Standing::Contested => self.contested(entry),
            Standing::Idle => self.idle(entry),
            Standing::Unmarked | Standing::Foreign => {}
        }
    }

    fn released(&mut self, entry: &Entry, claim: &ClaimKey, at: Timestamp) {
        if entry.fip.is_attached() {
            self.sweep.has_ports = true;
            return;
        }
        // A claim that stays takes the release off itself; one that goes is not done yet.
        if self.directory.is_named(&entry.fip) || self.is_wanted(claim, entry) {
            return;
        }
        if !entry.is_confirmed() {
            self.sweep.look_again = true;
            return;
        }
        let rested = at + self.pool.grace;
        if self.now < rested {
            return self.wake(rested);
        }
        let (id, tags) = (entry.fip.id.clone(), our_tags(self.pool, entry));
        let Some(mark) = entry.marks.created.as_ref().filter(|mark| mark.pool == self.pool.id) else {
            return self.sweep.chores.push(Chore::Rewrite { id, description: None, tags });
        };
        let is_givable = self.is_givable(entry);
        let is_over = self.surplus > 0;
        if is_givable && self.waiting > 0 && !is_over {
            self.waiting -= 1;
            self.sweep.offered += 1;
            return;
        }
        let is_short = is_givable && self.spares < self.pool.preallocate;
        if self.pool.deletes && (is_over || !is_short && !self.is_awaited(entry)) {
            self.surplus = self.surplus.saturating_sub(1);
            return self.sweep.chores.push(Chore::Delete(id));
        }
        self.spares += usize::from(is_givable);
        let idle = CreationMark { claim: None, released: None, is_retained: !self.pool.deletes, ..mark.clone() };
        self.sweep.chores.push(Chore::Rewrite { id, description: Some(idle.render(None)), tags });
    }

    fn held(&mut self, entry: &Entry, claim: &ClaimKey) {
        if self.directory.is_named(&entry.fip) || self.is_wanted(claim, entry) {
            // A takeover that was cut short leaves the release of the claim before.
            let stale: Vec<String> = entry.marks.releases.values().flat_map(|(_, tags)| tags.iter().cloned()).collect();
            if !stale.is_empty() {
                self.sweep.chores.push(Chore::Rewrite { id: entry.fip.id.clone(), description: None, tags: stale });
            }
            return;
        }
        if self.is_ripe(entry) && self.may_release(entry) {
            let id = entry.fip.id.clone();
            self.sweep.chores.push(match entry.marks.created.as_ref().filter(|_| !self.pool.has_tags) {
                Some(mark) => Chore::Describe(id, CreationMark { released: Some(self.now), ..mark.clone() }),
                None => Chore::Release(id, release_tag(&self.pool.id, claim, self.now)),
            });
        }
    }

    /// Two owners, one of them ours: the marks of our claims that do not want it come off; what we created stays ours.
    fn contested(&mut self, entry: &Entry) {
        let pool = &self.pool.id;
        let owner = self.directory.owner(&entry.fip);
        let stands = |claim: &ClaimKey| match owner {
            Some(owner) => owner.pool == *pool && owner.claim == *claim,
            None => self.is_wanted(claim, entry),
        };
        let claims = entry.marks.claims_of(pool);
        let is_held = owner.is_some() || claims.iter().any(|claim| stands(claim));
        let fallen: BTreeSet<&ClaimKey> = claims.into_iter().filter(|claim| !stands(claim)).collect();
        if fallen.is_empty() && is_held {
            return;
        }
        let of_fallen = |(owner, claim): &(PoolId, ClaimKey)| owner == pool && fallen.contains(claim);
        let releases: Vec<_> = entry.marks.releases.iter().filter(|(mark, _)| of_fallen(mark)).collect();
        let is_given_back = releases.len() == fallen.len() && !fallen.is_empty();
        // What is not readable may be a newer version's, of a claim that we do not see.
        if !is_given_back && !self.is_ripe(entry) || entry.marks.is_unreadable {
            return;
        }
        let mark = entry.marks.created.as_ref().filter(|mark| mark.pool == *pool);
        // A port on what others own too is theirs; on what we created it may still be our claim's.
        let is_ours_to_take = is_held || is_given_back || self.pool.releases_orphans;
        if !is_ours_to_take || mark.is_some() && entry.fip.is_attached() {
            return;
        }
        let fallen_mark = mark.filter(|mark| mark.claim.as_ref().is_some_and(|claim| fallen.contains(claim)));
        let description =
            fallen_mark.map(|mark| CreationMark { claim: None, released: None, ..mark.clone() }.render(None));
        let claims =
            entry.marks.claims.iter().filter(|mark| of_fallen(mark)).map(|(owner, claim)| claim_tag(owner, claim));
        let tags: Vec<String> =
            claims.chain(releases.into_iter().flat_map(|(_, (_, tags))| tags.iter().cloned())).collect();
        if description.is_some() || !tags.is_empty() {
            self.sweep.chores.push(Chore::Rewrite { id: entry.fip.id.clone(), description, tags });
        }
    }

    fn idle(&mut self, entry: &Entry) {
        let is_surplus = match self.is_givable(entry) {
            _ if self.surplus > 0 => true,
            true => self.spares > self.pool.preallocate && self.waiting == 0,
            false => !self.is_awaited(entry),
        };
        if !self.pool.deletes || !is_surplus || entry.fip.is_attached() || self.directory.is_named(&entry.fip) {
            return;
        }
        if !entry.is_confirmed() {
            self.sweep.look_again = true;
            return;
        }
        self.spares -= usize::from(self.is_spare(entry));
        self.surplus = self.surplus.saturating_sub(1);
        self.sweep.chores.push(Chore::Delete(entry.fip.id.clone()));
    }

    /// How many to create, so that claims need not wait.
    fn shortage(&self) -> usize {
        let (ledger, pool) = (self.ledger, self.pool);
        if pool.network.is_none() || !ledger.may_preallocate(&pool.id, self.now) {
            return 0;
        }
        let coming = ledger.creations(&pool.id).filter(|(_, creation)| creation.claim.is_none()).count();
        let room = pool.max_ips.map_or(usize::MAX, |limit| limit.saturating_sub(ledger.counted(&pool.id)));
        pool.preallocate.saturating_sub(self.spares + coming).min(room)
    }

    /// Whether the claim is alive and has no other address: then this one is its, or it is about to settle that.
    fn is_wanted(&self, claim: &ClaimKey, entry: &Entry) -> bool {
        let has_other = || self.directory.of_claim(&self.pool.id, claim).any(|ours| ours.fip != entry.fip.id);
        self.around.claims.get(claim).is_some_and(|living| *living == Living::Goes || !has_other())
    }

    /// Whether it may be given to any claim of the pool, once it is free.
    fn is_givable(&self, entry: &Entry) -> bool {
        self.pool.network.as_ref() == Some(&entry.fip.network)
            && !self.pool.is_excluded(entry.fip.address)
            && self.pool.reserved_for(entry.fip.address).is_none()
    }

    fn is_spare(&self, entry: &Entry) -> bool {
        entry.marks.standing(&self.pool.id) == Standing::Idle
            && self.is_givable(entry)
            && is_ownable(self.ledger, self.directory, self.pool, entry, self.now)
    }

    /// Whether the claim that the address is reserved for waits for it.
    fn is_awaited(&self, entry: &Entry) -> bool {
        let waits = |owner: &str| self.ledger.waiting(&self.pool.id).any(|place| place.object.name == owner);
        !self.pool.is_excluded(entry.fip.address) && self.pool.reserved_for(entry.fip.address).is_some_and(waits)
    }

    /// An orphan is reported at the first sight, and ripe when it is seen again as one after the grace.
    fn is_ripe(&mut self, entry: &Entry) -> bool {
        self.sweep.orphans.push(entry.fip.id.clone());
        let due = entry.orphaned_since.unwrap_or(self.now) + self.pool.orphan_grace;
        // Twice: a first sight is never the last, whatever the grace, and the second is a look of its own, since
        // somebody may have attached something meanwhile.
        let is_seen_again = self.ledger.listed_from().is_some_and(|from| from >= due);
        if self.now < due {
            self.wake(due);
        } else if !is_seen_again {
            self.sweep.look_again = true;
        }
        entry.orphaned_since.is_some() && is_seen_again && !self.around.is_paused
    }

    fn may_release(&self, entry: &Entry) -> bool {
        self.pool.releases_orphans && !entry.fip.is_attached()
    }

    fn wake(&mut self, at: Timestamp) {
        self.sweep.wake_at = Some(self.sweep.wake_at.map_or(at, |other| other.min(at)));
    }
}

/// Our tags on a floating IP: those of claims before those of releases.
fn our_tags(pool: &PoolPolicy, entry: &Entry) -> Vec<String> {
    let is_ours = |owner: &PoolId| owner == &pool.id;
    let claims = entry.marks.claims.iter().filter(|(owner, _)| is_ours(owner));
    let claims = claims.map(|(owner, claim)| claim_tag(owner, claim));
    let releases = entry.marks.releases.iter().filter(|((owner, _), _)| is_ours(owner));
    claims.chain(releases.flat_map(|(_, (_, tags))| tags.iter().cloned())).collect()
}

/// What is left to do before a pool that is being deleted may go, once no claim holds an address of it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct WindUp {
    /// To be done now.
    pub chores: Vec<Chore>,
    /// Those that lose our marks although something is still attached: named in an event.
    pub attached: Vec<FloatingIpId>,
    /// Whether something is under way or must be seen again.
    pub look_again: bool,
}

/// Plans the end of a pool: what it created goes by its policy, all others lose our marks; without any grace.
///
/// It has ended when there are neither chores nor anything to look at again: no late write, of this process or of a
/// predecessor, can then leave a mark that nobody would ever take off.
pub fn wind_up(ledger: &Ledger, directory: &Directory, pool: &PoolPolicy) -> WindUp {
    let may_come = ledger.listed().is_none() || ledger.fence(pool).is_some() || ledger.is_in_doubt(&pool.id);
    let mut end = WindUp { look_again: may_come, ..WindUp::default() };
    for entry in ledger.of_pool(&pool.id) {
        let id = entry.fip.id.clone();
        if entry.hold.is_some() || !entry.doubts.is_empty() || !entry.is_confirmed() {
            end.look_again = true;
            continue;
        }
        let mark = entry.marks.created.as_ref().filter(|mark| mark.pool == pool.id);
        let is_alone =
            matches!(entry.marks.standing(&pool.id), Standing::Idle | Standing::Held(_) | Standing::Released { .. });
        let is_unused = mark.is_some_and(|mark| mark.claim.is_none() && !mark.is_retained);
        let is_ours_to_delete =
            mark.is_some() && is_alone && !ledger.is_copied(entry) && !directory.is_named(&entry.fip);
        if is_ours_to_delete && !entry.fip.is_attached() && (pool.deletes || is_unused) {
            end.chores.push(Chore::Delete(id));
            continue;
        }
        if entry.fip.is_attached() {
            end.attached.push(id.clone());
        }
        let description = mark.map(|_| String::new());
        end.chores.push(Chore::Rewrite { id, description, tags: our_tags(pool, entry) });
    }
    end
}

#[cfg(test)]
mod tests {
    use super::super::identity::Nonce;
    use super::super::ledger::{Creation, Hold};
    use super::super::vocabulary::*;
    use super::*;

    fn deletes(last: u8) -> Vec<Chore> {
        vec![Chore::Delete(id(last))]
    }

    fn unmarks(last: u8, tags: &[String]) -> Vec<Chore> {
        vec![Chore::Rewrite { id: id(last), description: None, tags: tags.to_vec() }]
    }

    fn becomes_idle(last: u8, is_retained: bool, tags: &[String]) -> Vec<Chore> {
        let description = Some(CreationMark { is_retained, ..idle_mark(last) }.render(None));
        vec![Chore::Rewrite { id: id(last), description, tags: tags.to_vec() }]
    }

    fn out(claim: &str) -> String {
        release_tag(&pool_id("p"), &key(claim), ago(9))
    }

    fn released() -> Fip {
        fip(10).created_for("web").released_by("web", ago(9))
    }

    #[test]
    fn what_we_created_is_deleted_once_released() {
        assert_eq!(world().sees([released()]).plan().chores, deletes(10));
    }

    #[test]
    fn what_we_created_becomes_the_pools_where_it_retains() {
        let retains = world().with(|pool| pool.deletes = false).sees([released()]);
        assert_eq!(retains.plan().chores, becomes_idle(10, true, &[out("web")]));
    }

    #[test]
    fn what_we_did_not_create_loses_our_marks_claims_first() {
        let world = world().sees([fip(10).tagged_for("web").released_by("web", ago(9)).tag("prod")]);
        let tags = [claim_tag(&pool_id("p"), &key("web")), out("web")];
        assert_eq!(world.plan().chores, unmarks(10, &tags));
    }

    #[test]
    fn a_port_keeps_a_released_address() {
        for fip in [released().attached(), released().forwarded()] {
            let plan = world().sees([fip]).plan();
            assert!(plan.chores.is_empty() && plan.has_ports);
        }
    }

    #[test]
    fn a_released_address_is_seen_again_before_it_goes() {
        let mut world = world().sees([fip(10).created_for("web")]);
        world.ledger.tagged(&id(10), &out("web"), true);
        let plan = world.plan();
        assert!(plan.chores.is_empty() && plan.look_again);
        world.look([released()]);
        assert_eq!(world.plan().chores, deletes(10));
    }

    #[test]
    fn a_released_address_rests() {
        let mut world = world().with(|pool| pool.grace = seconds(30)).sees([released()]);
        assert_eq!((world.plan().chores, world.plan().wake_at), (vec![], Some(noon() + seconds(21))));
        world.now = noon() + seconds(21);
        assert_eq!(world.plan().chores, deletes(10));
    }

    #[test]
    fn a_released_address_is_left_to_a_claim_that_waits_for_any() {
        let plan = world().sees([released()]).waits("db").plan();
        assert_eq!((plan.chores, plan.offered), (vec![], 1));
        let plan = world().sees([released()]).reserves("db", 99).waits("db").plan();
        assert_eq!((plan.chores, plan.offered), (deletes(10), 0), "it waits for its own");
        let plan = world().sees([released()]).excludes("203.0.113.10/32").waits("db").plan();
        assert_eq!((plan.chores, plan.offered), (deletes(10), 0), "nobody may have it");
    }

    #[test]
    fn a_released_address_that_a_waiting_claim_reserves_becomes_the_pools() {
        let plan = world().sees([released()]).reserves("db", 10).waits("db").plan();
        assert_eq!(plan.chores, becomes_idle(10, false, &[out("web")]));
    }

    #[test]
    fn a_released_address_whose_claim_is_back_is_the_claims_to_take() {
        assert!(world().sees([released()]).living("web").plan().chores.is_empty());
        assert!(world().sees([released()]).published("web", 10).plan().chores.is_empty());
    }

    #[test]
    fn a_released_address_whose_claim_is_back_with_another_goes() {
        let world = world().sees([released(), fip(11).created_for("web")]).living("web").published("web", 11);
        assert_eq!(world.plan().chores, deletes(10));
    }

    #[test]
    fn a_released_address_fills_up_the_spares() {
        let spares = |count| world().with(|pool| pool.preallocate = count).sees([released(), fip(11).idle()]).plan();
        assert_eq!(spares(1).chores, deletes(10));
        assert_eq!(spares(2).chores, becomes_idle(10, false, &[out("web")]));
    }

    #[test]
    fn what_somebody_is_at_work_on_is_left_alone() {
        assert!(world().sees([released()]).chosen(10, "db").plan().chores.is_empty());
        let mut world = world().sees([released()]);
        world.ledger.doubt(&id(10), noon());
        let plan = world.plan();
        assert!(plan.chores.is_empty() && plan.look_again);
    }

    #[test]
    fn behind_the_fence_nothing_is_swept() {
        let plan = world().fenced().with(|pool| pool.preallocate = 1).sees([released()]).plan();
        assert_eq!((plan.chores, plan.preallocate, plan.wake_at), (vec![], 0, Some(noon() + seconds(60))));
    }

    #[test]
    fn spares_are_made_and_surplus_goes() {
        let spares = |count| world().with(|pool| pool.preallocate = count).sees([fip(10).idle(), fip(11).idle()]);
        assert_eq!(spares(3).plan().preallocate, 1);
        assert!(spares(2).plan().chores.is_empty());
        assert_eq!(spares(1).plan().chores, deletes(10));
        assert!(spares(1).waits("db").plan().chores.is_empty(), "a waiting claim takes it");
        assert_eq!(spares(4).limit(3).plan().preallocate, 1, "never more than maxIPs");
        assert!(spares(0).with(|pool| pool.deletes = false).plan().chores.is_empty(), "retained ones stay");
    }

    #[test]
    fn spares_under_way_are_not_made_twice() {
        let mut world = world().with(|pool| pool.preallocate = 2);
        let creation = Creation { pool: pool_id("p"), claim: None, unknown_since: None };
        world.ledger.begin_creation(Nonce::parse("nonce12345").expect("of the nonce's form"), creation);
        assert_eq!(world.plan().preallocate, 1);
        world.ledger.hold_off(&pool_id("p"), noon() + seconds(5));
        assert_eq!(world.plan().preallocate, 0, "Neutron offers only what nobody may have");
    }

    #[test]
    fn a_spare_that_nobody_may_have_goes() {
        let spare = || world().with(|pool| pool.preallocate = 1).sees([fip(10).idle()]);
        assert_eq!(spare().excludes("203.0.113.0/28").plan().chores, deletes(10));
        assert_eq!(spare().reserves("db", 10).plan().chores, deletes(10));
        assert!(spare().reserves("db", 10).waits("db").plan().chores.is_empty());
        assert!(spare().with(|pool| pool.network = None).plan().chores == deletes(10));
    }

    #[test]
    fn a_spare_that_is_in_use_or_named_stays() {
        assert!(world().sees([fip(10).idle().attached()]).plan().chores.is_empty());
        assert!(world().sees([fip(10).idle()]).named_by_others(10).plan().chores.is_empty());
    }

    #[test]
    fn an_orphan_is_reported_at_the_first_sight_and_released_at_the_second() {
        let mut world = world().sees([fip(10).created_for("web")]);
        let plan = world.plan();
        assert_eq!((plan.orphans, plan.chores), (vec![id(10)], vec![]));
        world.ledger.orphan(&id(10), Some(noon()));
        world.now = noon() + seconds(3599);
        assert!(world.plan().chores.is_empty());
        world.now = noon() + seconds(3600);
        let plan = world.plan();
        assert_eq!((plan.look_again, plan.chores), (true, vec![]), "the second sight is a look of its own");
        world.look([fip(10).created_for("web")]);
        let tag = release_tag(&pool_id("p"), &key("web"), world.now);
        assert_eq!(world.plan().chores, vec![Chore::Release(id(10), tag)]);
    }

    #[test]
    fn an_orphan_stays_where_that_is_said() {
        let ripe = |change: fn(&mut World)| {
            let mut world = world().sees([fip(10).tagged_for("web")]);
            world.ledger.orphan(&id(10), Some(ago(3600)));
            change(&mut world);
            world.plan()
        };
        assert_eq!(ripe(|_| ()).chores.len(), 1);
        assert!(ripe(|world| world.pool.releases_orphans = false).chores.is_empty());
        assert!(ripe(|world| world.around.is_paused = true).chores.is_empty());
        assert!(ripe(|world| world.look([fip(10).tagged_for("web").attached()])).chores.is_empty());
        assert_eq!(ripe(|world| world.around.is_paused = true).orphans, vec![id(10)]);
        assert!(ripe(|world| world.around.claims.extend([(key("web"), Living::Stays)])).orphans.is_empty());
    }

    #[test]
    fn no_grace_makes_a_first_sight_the_last() {
        let mut world = world().with(|pool| pool.orphan_grace = seconds(0)).sees([fip(10).tagged_for("web")]);
        assert!(world.plan().chores.is_empty());
        world.ledger.orphan(&id(10), Some(noon()));
        assert_eq!(world.plan().chores.len(), 1);
    }

    #[test]
    fn a_second_address_of_a_living_claim_is_an_orphan() {
        let world = world().sees([fip(10).created_for("web"), fip(11).created_for("web")]).living("web");
        assert!(world.plan().orphans.is_empty(), "which of them is its, is not said yet");
        assert_eq!(world.published("web", 11).plan().orphans, vec![id(10)]);
    }

    #[test]
    fn a_release_that_a_takeover_left_behind_comes_off() {
        let world = world().sees([fip(10).created_for("db").released_by("web", ago(9))]).living("db");
        assert_eq!(world.plan().chores, unmarks(10, &[out("web")]));
    }

    #[test]
    fn a_copied_mark_is_reported_and_neither_goes() {
        let copy = released().0.description;
        let world = world().sees([released(), fip(11).described(copy).released_by("web", ago(9))]);
        let plan = world.plan();
        assert_eq!((plan.chores, plan.copied), (vec![], vec![id(10), id(11)]));
    }

    #[test]
    fn beside_another_owner_only_our_own_tags_come_off() {
        let contested = || fip(10).tagged_for("web").tagged_by_another_pool();
        let mut world = world().sees([contested()]);
        assert!(world.plan().chores.is_empty());
        world.ledger.orphan(&id(10), Some(ago(3600)));
        let tag = claim_tag(&pool_id("p"), &key("web"));
        assert_eq!(world.plan().chores, unmarks(10, std::slice::from_ref(&tag)));
        world.look([contested().attached()]);
        assert_eq!(world.plan().chores, unmarks(10, std::slice::from_ref(&tag)), "the port is the other's");
        let world = world.living("web");
        assert!(world.plan().chores.is_empty(), "its claim settles that itself");
        assert_eq!(world.published("web", 12).plan().chores, unmarks(10, &[tag]));
    }

    #[test]
    fn what_we_gave_back_beside_another_owner_comes_off_at_once() {
        let world =
            world().sees([fip(10).tagged_for("web").released_by("web", ago(9)).tagged_by_another_pool().attached()]);
        let tags = [claim_tag(&pool_id("p"), &key("web")), out("web")];
        assert_eq!(world.plan().chores, unmarks(10, &tags));
    }

    #[test]
    fn what_cannot_be_read_is_never_written() {
        let mut world = world().sees([fip(10).tagged_for("web").tag("caip.of-a-newer-kind")]);
        world.ledger.orphan(&id(10), Some(ago(9000)));
        assert!(world.plan().chores.is_empty());
    }

    #[test]
    fn without_tags_a_release_is_in_the_description() {
        let no_tags = || world().with(|pool| pool.has_tags = false);
        let mark = CreationMark { claim: Some(key("web")), released: Some(ago(9)), ..idle_mark(10) };
        assert_eq!(no_tags().sees([fip(10).described(mark.render(None))]).plan().chores, deletes(10));
        let mut world = no_tags().sees([fip(10).created_for("web")]);
        world.ledger.orphan(&id(10), Some(ago(3600)));
        let mark = CreationMark { released: Some(noon()), ..mark };
        assert_eq!(world.plan().chores, vec![Chore::Describe(id(10), mark)]);
    }

    #[test]
    fn a_pool_that_goes_deletes_what_it_created_and_unmarks_the_rest() {
        let world = world().sees([released(), fip(11).idle(), fip(12).tagged_for("db")]);
        let end = world.wind_up();
        let tag = claim_tag(&pool_id("p"), &key("db"));
        assert_eq!(end.chores, [deletes(10), deletes(11), unmarks(12, &[tag])].concat());
        assert!(end.attached.is_empty() && !end.look_again);
    }

    #[test]
    fn a_pool_that_retains_and_goes_deletes_only_what_no_claim_ever_had() {
        let kept = fip(10).described(CreationMark { is_retained: true, ..idle_mark(10) }.render(None));
        let world = world().with(|pool| pool.deletes = false).sees([kept, fip(11).idle()]);
        let unmarked = Chore::Rewrite { id: id(10), description: Some(String::new()), tags: vec![] };
        assert_eq!(world.wind_up().chores, [vec![unmarked], deletes(11)].concat());
    }

    #[test]
    fn a_pool_that_goes_leaves_what_is_in_use_and_says_so() {
        let end = world().sees([fip(10).created_for("web").attached()]).wind_up();
        let unmarked = Chore::Rewrite { id: id(10), description: Some(String::new()), tags: vec![] };
        assert_eq!((end.chores, end.attached), (vec![unmarked], vec![id(10)]));
    }

    #[test]
    fn a_pool_stays_until_nothing_of_its_can_come_any_more() {
        let held = world().sees([fip(10).idle()]).holds(10, Hold::Sweep).wind_up();
        assert!(held.chores.is_empty() && held.look_again);
        assert!(world().fenced().wind_up().look_again, "a POST of a predecessor's");
        let mut creating = world();
        let creation = Creation { pool: pool_id("p"), claim: Some(key("web")), unknown_since: None };
        creating.ledger.begin_creation(Nonce::parse("nonce12345").expect("of the nonce's form"), creation);
        assert!(creating.wind_up().look_again);
        let mut doubted = world().sees([fip(10)]).chosen(10, "web");
        doubted.ledger.doubt(&id(10), noon());
        doubted.ledger.hold(&id(10), None);
        assert!(doubted.wind_up().look_again, "a tag that may still land");
        assert!(!world().wind_up().look_again);
    }
}
