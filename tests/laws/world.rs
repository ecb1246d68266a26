//! Everything at once: one project in Neutron, two management clusters that share it, users, and what can go wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use caip_openstack::allocation::ledger::SETTLING;
use caip_openstack::allocation::mark::{Marks, claim_tag};
use caip_openstack::allocation::policy::ReusePolicy;
use caip_openstack::allocation::published::PublishedAddress;
use caip_openstack::allocation::{ClaimKey, PoolId, PoolPolicy};
use caip_openstack::floating_ip::{FloatingIp, FloatingIpId};
use caip_openstack::object_name::ObjectName;
use jiff::{SignedDuration, Timestamp};

use crate::checker::{Bound, Broken, Observed, check};
use crate::neutron::{Answer, Call, Neutron, address, network};
use crate::shell::{Claim, Job, Pool, PoolState, Reply, Site, Work};

/// Pools 0 and 1 are of one management cluster, pool 2 is of another.
pub const POOLS: usize = 3;
/// Claims of each pool. Pool 0 and pool 2 have claims of the same names.
pub const CLAIMS: usize = 3;
/// How long a call waits for its answer; Neutron may go on for as long again.
const TIMEOUT: SignedDuration = SignedDuration::from_secs(30);

/// What becomes of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    Done,
    /// Certainly not done, and we are told.
    Failed,
    /// Done, and we are not told.
    ReplyLost,
    /// Not done, and we are not told.
    RequestLost,
    /// Done after we stopped waiting.
    Late,
}

/// What a user does to a floating IP.
#[derive(Clone, Copy, Debug)]
pub enum Tampering {
    Attach,
    Detach,
    Delete,
    /// A tag of their own, or off again.
    Tag,
    Describe,
    /// All that we wrote is wiped.
    Wipe,
    /// A tag of another owner, not one of ours, or off again.
    Mark,
    /// The description of another floating IP.
    Copy(u8),
}

/// What is changed in a pool's spec.
#[derive(Clone, Copy, Debug)]
pub enum Edit {
    Limit(Option<u8>),
    List(u8),
    Exclude(u8),
    Reserve(u8, u8),
    Preallocate(u8),
    Reclaim,
    Reuse,
    Grace(u8),
    Network,
}

/// One thing that happens. Numbers choose among what there is.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    Reconcile(u8),
    Sweep(u8),
    Look(u8),
    /// The next thing happens to a call: it reaches Neutron, or its reply is read.
    Progress(u8, Fate),
    /// A late call lands now.
    Land(u8),
    Pass(u16),
    CreateClaim(u8),
    DeleteClaim(u8),
    /// Somebody else's finalizer comes or goes.
    Keep(u8),
    DeleteAddress(u8),
    /// The machine of a bound claim is started.
    Boot(u8),
    /// The controller dies; bits say which calls under way still land.
    Crash(u8, u8),
    Tamper(u8, Tampering),
    UserCreates,
    Edit(u8, Edit),
    /// Another provider's IPAddress names an address, or no longer does.
    Foreign(u8),
    DeletePool(u8),
    Quota(Option<u8>),
}

/// What a claim was given.
#[derive(Clone, Debug)]
struct Given {
    since: Timestamp,
    fip: FloatingIpId,
    address: IpAddr,
    /// Another owner's mark was on it too: where no IPAddress says then whose it is, both look elsewhere.
    was_contested: bool,
}

#[derive(Debug)]
pub struct World {
    pub now: Timestamp,
    pub neutron: Neutron,
    pub sites: Vec<Site>,
    late: Vec<(Timestamp, Call)>,
    given: BTreeMap<(usize, ObjectName), Given>,
    /// When each site last lost its memory.
    crashed: Vec<Timestamp>,
    limits: BTreeMap<PoolId, usize>,
    /// Where the description was copied to or from: with the other gone, nobody can tell.
    copied: BTreeSet<FloatingIpId>,
    users: BTreeSet<FloatingIpId>,
    writes: usize,
    pub broken: Vec<Broken>,
    pub story: Option<Vec<String>>,
}

pub fn pool_id(index: usize) -> PoolId {
    PoolId::parse(&format!("pool-{index}")).expect("of the form of an id")
}

fn site_of(pool: usize) -> (usize, usize) {
    if pool < 2 { (0, pool) } else { (1, 0) }
}

/// The pool (of all) and the name of a claim.
fn claim_name(index: u8) -> (usize, ObjectName) {
    let index = usize::from(index) % (POOLS * CLAIMS);
    let pool = index % POOLS;
    let (_, local) = site_of(pool);
    (pool, ObjectName::new(format!("team-{local}"), format!("claim-{}", index / POOLS)))
}

pub fn policy(index: usize) -> PoolPolicy {
    PoolPolicy {
        id: pool_id(index),
        listed: vec![],
        network: Some(network()),
        subnets: vec![],
        max_ips: None,
        deletes: true,
        reuse: ReusePolicy::Unmarked { idle: SignedDuration::from_secs(300) },
        excluded: vec![],
        reservations: BTreeMap::new(),
        preallocate: 0,
        grace: SignedDuration::from_secs(0),
        releases_orphans: true,
        orphan_grace: SignedDuration::from_secs(600),
        has_tags: true,
        fenced_until: None,
    }
}

impl World {
    pub fn new(policies: [PoolPolicy; POOLS], users: u8) -> Self {
        let mut sites = vec![Site::default(), Site { index: 1, ..Site::default() }];
        let mut limits = BTreeMap::new();
        for (index, policy) in policies.into_iter().enumerate() {
            let (site, pool) = site_of(index);
            limits.extend(policy.max_ips.map(|limit| (policy.id.clone(), limit)));
            sites[site].pools.push(Pool { policy, state: PoolState::Lives });
            sites[site].set_listed(pool);
        }
        let now = Timestamp::from_second(1_800_000_000).expect("in range");
        let mut world = Self {
            now,
            neutron: Neutron::default(),
            sites,
            late: vec![],
            given: BTreeMap::new(),
            crashed: vec![Timestamp::MIN; 2],
            limits,
            copied: BTreeSet::new(),
            users: BTreeSet::new(),
            writes: 0,
            broken: vec![],
            story: None,
        };
        for _ in 0..users {
            world.happen(Event::UserCreates);
        }
        world.now += SignedDuration::from_secs(1000);
        world
    }

    pub fn fips(&self) -> Vec<FloatingIp> {
        self.neutron.fips.values().map(|real| real.fip.clone()).collect()
    }

    /// Writes down what goes on, for whoever reads a history that was found.
    fn tell(&mut self, what: impl FnOnce() -> String) {
        if let Some(story) = &mut self.story {
            let seconds = self.now.as_second() - 1_800_000_000;
            story.push(format!("{seconds:>6} {}", what()));
        }
    }

    /// One thing happens, and the laws are looked at.
    pub fn happen(&mut self, event: Event) {
        self.tell(|| format!("{event:?}"));
        match event {
            Event::Reconcile(claim) => _ = self.reconcile(claim),
            Event::Sweep(pool) => {
                let (site, pool) = site_of(usize::from(pool) % POOLS);
                self.sites[site].sweep(pool, self.now);
            }
            Event::Look(site) => {
                let fips = self.fips();
                self.sites[usize::from(site) % 2].look(&fips, self.now);
            }
            Event::Progress(call, fate) => {
                let calls =
                    self.sites.iter().enumerate().flat_map(|(site, of)| (0..of.jobs.len()).map(move |job| (site, job)));
                let calls: Vec<_> = calls.collect();
                if !calls.is_empty() {
                    let (site, job) = calls[usize::from(call) % calls.len()];
                    self.progress(site, job, fate);
                }
            }
            Event::Land(call) => {
                if !self.late.is_empty() {
                    let (_, call) = self.late.remove(usize::from(call) % self.late.len());
                    self.perform(&call);
                }
            }
            Event::Pass(seconds) => self.pass(seconds.into()),
            Event::CreateClaim(claim) => {
                let (pool, name) = claim_name(claim);
                let (site, pool) = site_of(pool);
                let is_served = self.sites[site].pools[pool].state == PoolState::Lives;
                if is_served && !self.sites[site].claims.contains_key(&name) {
                    let claim = Claim { pool, since: self.now, is_deleted: false, is_kept: false };
                    self.sites[site].claims.insert(name, claim);
                }
            }
            Event::DeleteClaim(claim) => self.with_claim(claim, |claim| claim.is_deleted = true),
            Event::Keep(claim) => self.with_claim(claim, |claim| claim.is_kept = !claim.is_kept && !claim.is_deleted),
            Event::DeleteAddress(claim) => {
                let (pool, name) = claim_name(claim);
                let site = &mut self.sites[site_of(pool).0];
                if site.claims.contains_key(&name) {
                    site.published.forget(&name);
                    site.addresses.remove(&name);
                }
            }
            Event::Boot(claim) => {
                let (pool, name) = claim_name(claim);
                if let Some(address) = self.sites[site_of(pool).0].addresses.get(&name) {
                    let (id, port) = (address.fip.clone(), format!("port-of-{}", name.name));
                    self.neutron.attach(&id, &port, self.now);
                }
            }
            Event::Crash(site, landing) => self.crash(usize::from(site) % 2, landing),
            Event::Tamper(fip, how) => self.tamper(fip, how),
            Event::UserCreates => {
                if let Answer::Fip(fip) = self.neutron.create("", false, self.now) {
                    self.users.insert(fip.id);
                }
            }
            Event::Edit(pool, edit) => self.edit(usize::from(pool) % POOLS, edit),
            Event::Foreign(index) => self.foreign(index),
            Event::DeletePool(pool) => {
                let (site, pool) = site_of(usize::from(pool) % POOLS);
                if self.sites[site].pools[pool].state == PoolState::Lives {
                    self.sites[site].pools[pool].state = PoolState::Goes;
                }
            }
            Event::Quota(quota) => self.neutron.quota = quota.map(usize::from),
        }
        self.look_at_laws(false);
    }

    fn with_claim(&mut self, claim: u8, change: impl FnOnce(&mut Claim)) {
        let (pool, name) = claim_name(claim);
        if let Some(claim) = self.sites[site_of(pool).0].claims.get_mut(&name) {
            change(claim);
        }
    }

    fn reconcile(&mut self, claim: u8) -> bool {
        let (pool, name) = claim_name(claim);
        let site = site_of(pool).0;
        let before = self.sites[site].addresses.get(&name).cloned();
        let has_more = self.sites[site].reconcile(&name, self.now);
        let after = self.sites[site].addresses.get(&name).cloned();
        let decided = std::mem::take(&mut self.sites[site].decided);
        if !decided.is_empty() {
            self.tell(|| format!("    {}/{} of site {site}: {decided}", name.namespace, name.name));
        }
        if let Some(address) = after.filter(|after| before.is_none_or(|before| before.fip != after.fip)) {
            self.published(site, &name, &address.fip);
        }
        has_more
    }

    /// Laws 2 and 5, at the moment in which an address is handed out.
    fn published(&mut self, site: usize, name: &ObjectName, fip: &FloatingIpId) {
        let since = self.sites[site].claims[name].since;
        let what = format!("{}/{} of site {site}", name.namespace, name.name);
        let address = self.sites[site].addresses[name].address;
        let old =
            self.given.insert((site, name.clone()), Given { since, fip: fip.clone(), address, was_contested: false });
        // The same address under another id: somebody deleted it, and it was created anew.
        if let Some(old) = old.filter(|old| old.since == since && old.address != address && !old.was_contested) {
            let how = format!("had {}, was given {fip}", old.fip);
            self.broken.push(Broken::new(5, &what, how));
        }
        let claim = ClaimKey::of(&name.namespace, &name.name);
        let pool = self.sites[site].pools[self.sites[site].claims[name].pool].policy.id.clone();
        let Some(real) = self.neutron.fips.get(fip) else {
            self.given.remove(&(site, name.clone()));
            return;
        };
        let Some(marked) = real.marked.get(&(pool.clone(), claim.clone())).copied() else {
            if !real.is_forged {
                self.broken.push(Broken::new(2, &what, format!("{fip} was published without its mark")));
            }
            return;
        };
        // A predecessor's mark beside a port: whose the port is, nobody can tell any more.
        let is_known = self.crashed[site] < since && !real.is_forged;
        if is_known && real.fip.is_attached() && real.attached < marked {
            self.broken.push(Broken::new(2, &what, format!("{fip} had a port before it was marked")));
        }
        let releases = Marks::read(&real.fip).releases;
        let mut others = real.marked.iter().filter(|((other, claim), at)| {
            *other != pool && **at < marked && !releases.contains_key(&(other.clone(), claim.clone()))
        });
        if let Some(((other, _), _)) = others.next().filter(|_| !real.is_forged) {
            self.broken.push(Broken::new(2, &what, format!("{fip} was {other}'s before")));
        }
    }

    /// The next thing happens to a call.
    fn progress(&mut self, site: usize, job: usize, fate: Fate) {
        if self.sites[site].jobs[job].reply.is_some() {
            let job = self.sites[site].jobs.remove(job);
            return self.sites[site].learn(job, self.now);
        }
        let call = self.sites[site].jobs[job].calls[0].clone();
        let sent = self.sites[site].jobs[job].sent;
        // What is asked of Neutron now and then, for a claim that waits or for a spare, is no restlessness.
        let is_asking = matches!(self.sites[site].jobs[job].work, Work::Create(_) | Work::Preallocate | Work::Discard);
        self.writes += usize::from(!is_asking);
        let reply = match fate {
            Fate::Done => Reply::Answer(self.perform(&call)),
            Fate::Failed => Reply::Failed,
            Fate::ReplyLost => {
                self.perform(&call);
                Reply::Unknown
            }
            Fate::RequestLost => Reply::Unknown,
            Fate::Late => {
                self.late.push((sent + TIMEOUT + TIMEOUT - SignedDuration::from_secs(1), call));
                Reply::Unknown
            }
        };
        self.sites[site].jobs[job].reply = Some(reply);
    }

    /// A write of ours reaches Neutron.
    fn perform(&mut self, call: &Call) -> Answer {
        if let Call::Delete(id) = call
            && let Some(real) = self.neutron.fips.get(id)
        {
            let is_excused = real.is_forged || self.copied.contains(id);
            if !real.is_ours && !is_excused {
                self.broken.push(Broken::new(3, id, "we delete it, and did not create it"));
            }
            if real.fip.is_attached() && real.attached < real.written && !is_excused {
                self.broken.push(Broken::new(2, id, "deleted, and had a port when we last wrote to it"));
            }
            let holders = self.bound().into_iter().filter(|bound| bound.fip == *id && bound.has_claim);
            for bound in holders.filter(|_| !is_excused) {
                self.broken.push(Broken::new(5, id, format!("deleted, and {:?} has it", bound.object)));
            }
            self.users.remove(id);
        }
        let answer = self.neutron.perform(call, self.now);
        let told = match &answer {
            Answer::Fip(fip) => {
                format!("{} {} {:?} {:?} {:?}", fip.id, fip.address, fip.port, fip.description, fip.tags)
            }
            other => format!("{other:?}"),
        };
        self.tell(|| format!("    {call:?} -> {told}"));
        answer
    }

    /// Time passes: calls that nobody answered are given up, and late ones land.
    fn pass(&mut self, seconds: i64) {
        let until = self.now + SignedDuration::from_secs(seconds);
        for site in 0..self.sites.len() {
            for job in 0..self.sites[site].jobs.len() {
                let it = &self.sites[site].jobs[job];
                if it.reply.is_none() && it.sent + TIMEOUT <= until {
                    self.progress(site, job, Fate::Late);
                }
            }
        }
        let (due, rest) = std::mem::take(&mut self.late).into_iter().partition(|(at, _)| *at <= until);
        self.late = rest;
        let due: Vec<(Timestamp, Call)> = due;
        for (at, call) in due {
            self.now = at.max(self.now);
            self.perform(&call);
        }
        self.now = until;
    }

    fn crash(&mut self, site: usize, landing: u8) {
        self.crashed[site] = self.now;
        let jobs: Vec<Job> = self.sites[site].crash(self.now, SETTLING);
        for (index, mut job) in jobs.into_iter().enumerate() {
            if job.reply.is_none() && landing & (1 << (index % 8)) != 0 {
                let until = job.sent + TIMEOUT + TIMEOUT - SignedDuration::from_secs(1);
                self.late.extend(job.calls.pop_front().map(|call| (until, call)));
            }
        }
    }

    fn tamper(&mut self, fip: u8, how: Tampering) {
        let ids: Vec<FloatingIpId> = self.neutron.fips.keys().cloned().collect();
        if ids.is_empty() {
            return;
        }
        let id = ids[usize::from(fip) % ids.len()].clone();
        let now = self.now;
        let mine = "for the office".to_owned();
        match how {
            Tampering::Attach => self.neutron.attach(&id, "somebodys", now),
            Tampering::Detach => self.neutron.tamper(&id, now, |real| real.fip.port = None),
            Tampering::Delete => {
                self.neutron.fips.remove(&id);
                self.users.remove(&id);
                self.excuse(&id);
            }
            Tampering::Tag => self.neutron.tamper(&id, now, |real| toggle(&mut real.fip.tags, "prod".into())),
            Tampering::Describe => {
                self.neutron.tamper(&id, now, |real| {
                    real.fip.description = if real.fip.description == mine { String::new() } else { mine }
                });
                self.excuse(&id);
            }
            Tampering::Wipe => {
                self.neutron.tamper(&id, now, |real| {
                    real.fip.tags.clear();
                    real.fip.description.clear();
                });
                self.excuse(&id);
            }
            Tampering::Mark => {
                let theirs = PoolId::parse("theirs").expect("of the form of an id");
                let tag = claim_tag(&theirs, &ClaimKey::of("a", "b"));
                self.neutron.tamper(&id, now, |real| toggle(&mut real.fip.tags, tag));
                self.excuse(&id);
            }
            Tampering::Copy(from) => {
                let from = &ids[usize::from(from) % ids.len()];
                let text = self.neutron.fips[from].fip.description.clone();
                self.neutron.tamper(&id, now, |real| real.fip.description = text);
                for id in [from, &id] {
                    self.copied.insert(id.clone());
                    self.excuse(id);
                    self.neutron.fips.get_mut(id).expect("it is there").is_forged = true;
                }
            }
        }
    }

    /// Nobody can give a claim the same address again whose floating IP somebody took away or wrote upon.
    fn excuse(&mut self, id: &FloatingIpId) {
        self.given.retain(|_, given| given.fip != *id);
    }

    fn edit(&mut self, index: usize, edit: Edit) {
        let (site, pool) = site_of(index);
        let under_way = self.sites[site].jobs.len() + self.late.len();
        let marked = self.fips().iter().filter(|fip| Marks::read(fip).pools().contains(&pool_id(index))).count();
        let held = self.sites[site].ledger.counted(&pool_id(index));
        // What the spec no longer allows may be changed for another, where nobody uses it.
        self.given.retain(|(of, _), _| *of != site);
        let policy = &mut self.sites[site].pools[pool].policy;
        match edit {
            Edit::Limit(limit) => {
                policy.max_ips = limit.map(usize::from);
                match policy.max_ips {
                    Some(limit) => {
                        self.limits.insert(policy.id.clone(), limit.max(marked + under_way).max(held));
                    }
                    None => drop(self.limits.remove(&policy.id)),
                }
            }
            Edit::List(index) => {
                let address = address(index);
                match policy.listed.iter().position(|listed| *listed == address) {
                    Some(at) => drop(policy.listed.remove(at)),
                    None => policy.listed.push(address),
                }
            }
            Edit::Exclude(index) => {
                let range = address(index).into();
                match policy.excluded.iter().position(|excluded| *excluded == range) {
                    Some(at) => drop(policy.excluded.remove(at)),
                    None => policy.excluded.push(range),
                }
            }
            Edit::Reserve(claim, index) => {
                let name = format!("claim-{}", usize::from(claim) % CLAIMS);
                let is_taken = policy.reservations.values().any(|reserved| *reserved == address(index));
                if policy.reservations.remove(&name).is_none() && !is_taken {
                    policy.reservations.insert(name, address(index));
                }
            }
            Edit::Preallocate(count) => policy.preallocate = usize::from(count % 3),
            Edit::Reclaim => policy.deletes = !policy.deletes,
            Edit::Reuse => {
                policy.reuse = match &policy.reuse {
                    ReusePolicy::Never => ReusePolicy::Unmarked { idle: SignedDuration::from_secs(300) },
                    ReusePolicy::Unmarked { idle } => {
                        ReusePolicy::Tagged { tags: ["prod".to_owned()].into(), idle: *idle }
                    }
                    ReusePolicy::Tagged { .. } => ReusePolicy::Never,
                };
            }
            Edit::Grace(seconds) => policy.grace = SignedDuration::from_secs(seconds.into()),
            Edit::Network => policy.network = policy.network.take().xor(Some(network())),
        }
        self.sites[site].set_listed(pool);
    }

    fn foreign(&mut self, index: u8) {
        let address = address(index);
        let object = ObjectName::new("others", address.to_string());
        for site in &mut self.sites {
            if site.foreign.remove(&object).is_some() {
                site.published.forget(&object);
            } else {
                site.foreign.insert(object.clone(), address);
                site.published.observe(object.clone(), PublishedAddress { address, ours: None });
            }
        }
        let named: Vec<FloatingIpId> =
            self.fips().into_iter().filter(|fip| fip.address == address).map(|fip| fip.id).collect();
        named.iter().for_each(|id| self.excuse(id));
    }

    fn bound(&self) -> Vec<Bound> {
        let of_site = |site: &Site| {
            let bound = site.addresses.iter().map(|(object, address)| Bound {
                site: site.index,
                object: object.clone(),
                pool: address.pool.clone(),
                claim: address.claim.clone(),
                address: address.address,
                fip: address.fip.clone(),
                has_claim: site.claims.get(object).is_some_and(|claim| !claim.is_deleted),
            });
            bound.collect::<Vec<_>>()
        };
        self.sites.iter().flat_map(of_site).collect()
    }

    /// What can be seen from outside.
    pub fn observed(&self, is_quiet: bool) -> Observed {
        let pools = self.sites.iter().flat_map(|site| &site.pools);
        let going = pools.clone().filter(|pool| pool.state == PoolState::Goes).map(|pool| pool.policy.id.clone());
        let claims = self.sites.iter().flat_map(|site| {
            let key = |name: &ObjectName| ClaimKey::of(&name.namespace, &name.name);
            site.claims.iter().map(move |(name, claim)| (site.pools[claim.pool].policy.id.clone(), key(name)))
        });
        let forged = self.neutron.fips.values().filter(|real| real.is_forged).map(|real| real.fip.id.clone());
        Observed {
            fips: self.fips(),
            bound: self.bound(),
            named_by_others: self.sites[0].foreign.values().copied().collect(),
            pools: pools.filter(|pool| pool.state != PoolState::Gone).map(|pool| pool.policy.clone()).collect(),
            going: going.collect(),
            limits: self.limits.clone(),
            claims: claims.collect(),
            others: self.users.clone(),
            forged: forged.collect(),
            is_quiet,
            now: self.now,
        }
    }

    fn look_at_laws(&mut self, is_quiet: bool) {
        for given in self.given.values_mut() {
            let real = self.neutron.fips.get(&given.fip);
            given.was_contested |= real.is_some_and(|real| Marks::read(&real.fip).pools().len() > 1);
        }
        let broken = check(&self.observed(is_quiet));
        self.broken.extend(broken);
        for site in &mut self.sites {
            self.broken.append(&mut site.broken);
        }
    }

    /// Nothing more goes wrong and nobody touches anything: everything must come to rest, and the laws hold then too.
    pub fn settle(&mut self) {
        for site in 0..self.sites.len() {
            self.sites[site].listing = None;
        }
        self.finish_calls();
        let mut still = 0;
        for _ in 0..60 {
            let before = self.fingerprint();
            // Longer than a settling time, or than any grace: first the one, so that nothing is skipped, then the other.
            self.pass(if still == 0 { 61 } else { 4000 });
            for site in 0..self.sites.len() {
                self.rest(site);
            }
            if !self.broken.is_empty() {
                return;
            }
            still = if before == self.fingerprint() { still + 1 } else { 0 };
            if still == 4 {
                self.look_at_ends();
                return self.look_at_laws(true);
            }
        }
        let broken = format!("still at work: {:?}", self.sites.iter().map(|site| &site.jobs).collect::<Vec<_>>());
        self.broken.push(Broken::new(8, "everything", broken));
    }

    /// Law 9: what is being deleted, and nothing but us holds, is gone.
    fn look_at_ends(&mut self) {
        for site in &self.sites {
            let stuck = site.claims.iter().filter(|(_, claim)| claim.is_deleted && !claim.is_kept);
            let stuck = stuck.map(|(name, _)| Broken::new(9, format!("claim {name}"), "still there"));
            self.broken.extend(stuck);
            // Somebody else's finalizer on a claim keeps what the claim has, and with it the pool.
            let is_needed = |pool: usize| site.claims.values().any(|claim| claim.pool == pool && claim.is_kept);
            for (index, Pool { policy, state }) in site.pools.iter().enumerate() {
                let is_bound = site.addresses.values().any(|address| address.pool == policy.id);
                if *state == PoolState::Goes && !is_bound && !is_needed(index) {
                    self.broken.push(Broken::new(9, format!("pool {}", policy.id), "still there"));
                }
            }
        }
    }

    fn fingerprint(&self) -> (usize, usize, Vec<Bound>, usize) {
        let claims = self.sites.iter().map(|site| site.claims.len()).sum();
        (self.writes, self.neutron.fips.len(), self.bound(), claims)
    }

    /// One site does all that it can.
    fn rest(&mut self, site: usize) {
        self.look_whole(site);
        for _ in 0..12 {
            let before = self.fingerprint();
            for pool in 0..self.sites[site].pools.len() {
                self.sites[site].sweep(pool, self.now);
                self.finish_calls();
            }
            // The oldest first: so they are woken.
            let mut claims: Vec<u8> = (0..(POOLS * CLAIMS) as u8).collect();
            claims.retain(|claim| site_of(claim_name(*claim).0).0 == site);
            claims.sort_by_key(|claim| self.sites[site].claims.get(&claim_name(*claim).1).map(|it| it.since));
            for claim in claims {
                for _ in 0..30 {
                    let has_more = self.reconcile(claim);
                    self.finish_calls();
                    if self.sites[site].must_look {
                        self.look_whole(site);
                    }
                    if !has_more {
                        break;
                    }
                }
            }
            if before == self.fingerprint() {
                return;
            }
        }
        self.broken.push(Broken::new(8, format!("site {site}"), "never comes to rest"));
    }

    fn look_whole(&mut self, site: usize) {
        for _ in 0..3 {
            let fips = self.fips();
            self.sites[site].look(&fips, self.now);
        }
    }

    fn finish_calls(&mut self) {
        for site in 0..self.sites.len() {
            while !self.sites[site].jobs.is_empty() {
                self.progress(site, 0, Fate::Done);
            }
        }
    }
}

fn toggle(tags: &mut BTreeSet<String>, tag: String) {
    if !tags.remove(&tag) {
        tags.insert(tag);
    }
}
