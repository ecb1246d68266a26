//! What the controllers do with the core's decisions, one call at a time: the specification of their shell.
//!
//! A site is one management cluster. Everything that it remembers of Neutron is lost in a crash; what Kubernetes has is
//! not.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

use caip_openstack::allocation::claim::{self, BoundAddress, ClaimRequest, Decision, MarkWrite, Origin, creation_mark};
use caip_openstack::allocation::ledger::{Creation, CreationBlock, Hold, Ledger, Step};
use caip_openstack::allocation::mark::CreationMark;
use caip_openstack::allocation::published::{Binding, PublishedAddress};
use caip_openstack::allocation::release::{self, ReleaseStep};
use caip_openstack::allocation::sweep::{self, ClaimLiveness, ClusterView, SweepAction};
use caip_openstack::allocation::{ClaimKey, Nonce, PoolId, PoolPolicy, PublishedAddresses, Refusal};
use caip_openstack::floating_ip::{FloatingIp, FloatingIpId, NetworkId};
use caip_openstack::object_name::ObjectName;
use jiff::{SignedDuration, Timestamp};

use crate::checker::Broken;
use crate::neutron::{Answer, Call, network};
use crate::oracle::{Names, Question};

/// How long a pool creates nothing after Neutron refused.
const BLOCKED_FOR: SignedDuration = SignedDuration::from_secs(20);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PoolState {
    Lives,
    Goes,
    Gone,
}

#[derive(Debug)]
pub struct Pool {
    pub policy: PoolPolicy,
    pub state: PoolState,
}

/// An IPAddressClaim.
#[derive(Clone, Debug)]
pub struct Claim {
    pub pool: usize,
    pub since: Timestamp,
    pub is_deleted: bool,
    /// Somebody else's finalizer is on it.
    pub is_kept: bool,
}

/// An IPAddress of ours.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Address {
    pub pool: PoolId,
    pub claim: ClaimKey,
    pub address: IpAddr,
    pub fip: FloatingIpId,
}

/// What a call is a part of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Work {
    Mark(ObjectName),
    TakeBack(ObjectName),
    Withdraw(ObjectName),
    Create(ObjectName),
    Release(ObjectName),
    Sweep,
    Discard,
    Preallocate,
}

/// How a call ended, as far as we were told.
#[expect(clippy::large_enum_variant, reason = "a few at a time, in a test")]
#[derive(Clone, Debug)]
pub enum Reply {
    Answer(Answer),
    /// Certainly not done.
    Failed,
    /// Perhaps done, perhaps yet to be.
    Unknown,
}

/// Calls that are made one after the other; the first is under way.
#[derive(Clone, Debug)]
pub struct Job {
    pub work: Work,
    pub calls: VecDeque<Call>,
    pub began: Step,
    pub sent: Timestamp,
    pub pool: PoolId,
    pub nonce: Option<Nonce>,
    pub reply: Option<Reply>,
}

/// A listing under way, page by page.
#[derive(Debug)]
pub struct Listing {
    pub began: Step,
    pub at: Timestamp,
    pub pages: Vec<Vec<FloatingIp>>,
}

/// One management cluster.
#[derive(Debug, Default)]
pub struct Site {
    pub index: usize,
    pub ledger: Ledger,
    pub published: PublishedAddresses,
    pub pools: Vec<Pool>,
    pub claims: BTreeMap<ObjectName, Claim>,
    pub addresses: BTreeMap<ObjectName, Address>,
    pub foreign: BTreeMap<ObjectName, IpAddr>,
    pub jobs: Vec<Job>,
    pub listing: Option<Listing>,
    /// Somebody must look again before anything goes on.
    pub must_look: bool,
    pub nonces: u32,
    pub broken: Vec<Broken>,
    /// What was decided last, in words.
    pub decided: String,
}

impl Site {
    /// One step of the claim's controller: nothing while a call of the claim's is under way. Whether there is more to do.
    pub fn reconcile(&mut self, name: &ObjectName, now: Timestamp) -> bool {
        let steps = |site: &Self| site.jobs.iter().filter(|job| job.work != Work::Discard).count();
        let before = steps(self);
        self.step(name, now);
        self.must_look || steps(self) > before
    }

    fn step(&mut self, name: &ObjectName, now: Timestamp) {
        let is_busy = self.jobs.iter().any(|job| match &job.work {
            Work::Mark(of) | Work::TakeBack(of) | Work::Withdraw(of) | Work::Create(of) | Work::Release(of) => {
                of == name
            }
            Work::Sweep | Work::Discard | Work::Preallocate => false,
        });
        let Some(claim) = self.claims.get(name).cloned().filter(|_| !is_busy) else { return };
        if self.ledger.listed().is_none() {
            self.must_look = true;
            return;
        }
        let is_published = self.addresses.contains_key(name);
        match self.pools[claim.pool].state {
            PoolState::Gone => self.forget(name),
            _ if claim.is_deleted && claim.is_kept => {}
            _ if claim.is_deleted => self.release(name, now),
            // A pool that goes serves nobody; what was not published is given back.
            PoolState::Goes if !is_published => self.release(name, now),
            PoolState::Lives | PoolState::Goes => self.serve(name, now),
        }
    }

    pub fn request(&self, name: &ObjectName) -> ClaimRequest {
        let published = self.addresses.get(name);
        ClaimRequest {
            key: ClaimKey::of(&name.namespace, &name.name),
            object: name.clone(),
            since: self.claims[name].since,
            bound: published.map(|it| BoundAddress { address: it.address, fip: it.fip.clone() }),
        }
    }

    /// Decides for a claim, and begins what was decided: both under one lock.
    fn serve(&mut self, name: &ObjectName, now: Timestamp) {
        let request = self.request(name);
        let policy = self.policy_of(name).clone();
        let decision = claim::decide(&self.ledger, &self.published, &policy, &request, now);
        self.judge(&policy, &request, &decision, now);
        self.decided = format!("{decision:?}");
        let hold = request.hold(&policy.id);
        match decision {
            Decision::Keep(id) => {
                self.publish(name, &policy.id, &id);
                self.ledger.wait(&policy.id, request.place(), false);
                // Only now: until the published knows, the hold is what keeps others away.
                self.ledger.hold(&id, None);
                self.end_attempt(name, true, now);
            }
            Decision::Mark(id, _, write) => {
                self.ledger.hold(&id, Some(hold));
                let call = match write {
                    MarkWrite::Describe(mark) => Call::Describe(id, mark.render(Some((&name.namespace, &name.name)))),
                    MarkWrite::Tag(tag) => Call::AddTag(id, tag),
                };
                self.send(Work::Mark(name.clone()), &policy.id, [call], now);
            }
            Decision::TakeBack(id, tags) => {
                self.ledger.hold(&id, Some(hold));
                let calls = tags.into_iter().map(|tag| Call::RemoveTag(id.clone(), tag));
                self.send(Work::TakeBack(name.clone()), &policy.id, calls, now);
            }
            Decision::Withdraw(id, tag) => self.withdraw(Work::Withdraw(name.clone()), &policy, id, tag, now),
            Decision::Create(..) => {
                let nonce = self.next_nonce();
                let creation =
                    Creation { pool: policy.id.clone(), claim: Some(request.key.clone()), unknown_since: None };
                self.ledger.begin_creation(nonce.clone(), creation);
                let mark = creation_mark(&policy, Some(&request.key), nonce.clone());
                let call = Call::Post { description: mark.render(Some((&name.namespace, &name.name))) };
                self.send(Work::Create(name.clone()), &policy.id, [call], now);
                self.jobs.last_mut().expect("just sent").nonce = Some(nonce);
            }
            Decision::Confirm(_) | Decision::Settle => self.must_look = true,
            Decision::Refuse(_) => {
                self.ledger.wait(&policy.id, request.place(), true);
                self.end_attempt(name, false, now);
            }
            Decision::Fenced(_) | Decision::Lost(_) => self.end_attempt(name, false, now),
        }
    }

    /// Asks the oracle, where the decision is a choice: neither recovered, nor the end of an earlier one.
    fn judge(&mut self, pool: &PoolPolicy, request: &ClaimRequest, decision: &Decision, now: Timestamp) {
        let is_choice = match decision {
            Decision::Mark(_, Origin::Recovered, _) => false,
            Decision::Mark(id, ..) => self.ledger.get(id).is_some_and(|entry| entry.hold.is_none()),
            Decision::Create(..) | Decision::Refuse(_) => true,
            _ => false,
        };
        if !is_choice || request.bound.is_some() {
            return;
        }
        let names = self.names();
        let question = Question { ledger: &self.ledger, names: &names, pool, claim: request, now };
        if let Err(why) = question.judge(decision) {
            self.broken.push(Broken::new(7, format!("claim {:?}", request.object), why));
        }
    }

    fn names(&self) -> Names {
        let ours = self.addresses.values().map(|it| (it.address, Some(network())));
        let addresses = ours.chain(self.foreign.values().map(|address| (*address, None))).collect();
        let living = self.pools.iter().filter(|pool| pool.state != PoolState::Gone).map(|pool| &pool.policy);
        let listed = living.flat_map(|pool| pool.listed.iter().chain(pool.reservations.values())).copied().collect();
        Names { addresses, listed }
    }

    fn publish(&mut self, name: &ObjectName, pool: &PoolId, id: &FloatingIpId) {
        let fip = &self.ledger.get(id).expect("what is kept is known").fip;
        let claim = ClaimKey::of(&name.namespace, &name.name);
        let address = Address { pool: pool.clone(), claim, address: fip.address, fip: id.clone() };
        self.published.observe(name.clone(), naming(&address, &fip.network));
        self.addresses.insert(name.clone(), address);
    }

    /// What Neutron offered and the claim may not have is deleted when the claim needs no other any more.
    fn end_attempt(&mut self, name: &ObjectName, is_bound: bool, now: Timestamp) {
        let pool = self.policy_of(name).id.clone();
        let claim = ClaimKey::of(&name.namespace, &name.name);
        let entries = self.ledger.of_claim(&pool, &claim).filter(|entry| entry.hold == Some(Hold::Unwanted));
        let unwanted: Vec<_> = entries.map(|entry| entry.fip.id.clone()).collect();
        if !unwanted.is_empty() && !is_bound {
            self.ledger.found_barren(&pool, now);
        }
        for id in unwanted {
            self.discard(&pool, id, now);
        }
    }

    fn discard(&mut self, pool: &PoolId, id: FloatingIpId, now: Timestamp) {
        self.ledger.hold(&id, Some(Hold::GivingBack));
        self.send(Work::Discard, pool, [Call::Delete(id)], now);
    }

    /// Takes the claim's mark off, and nothing else; from here on the address is being given back.
    fn withdraw(&mut self, work: Work, pool: &PoolPolicy, id: FloatingIpId, tag: String, now: Timestamp) {
        if let Work::Withdraw(name) | Work::Release(name) = &work {
            let claim = ClaimKey::of(&name.namespace, &name.name);
            self.ledger.begin_withdrawal(&id, &Hold::Claim { pool: pool.id.clone(), claim });
        }
        let created = self.ledger.get(&id).and_then(|entry| entry.marks.created.clone());
        let call = match created.filter(|mark| mark.pool == pool.id) {
            Some(mark) => {
                let idle = CreationMark { claim: None, released: None, is_retained: !pool.deletes, ..mark };
                Call::Describe(id, idle.render(None))
            }
            None => Call::RemoveTag(id, tag),
        };
        self.send(work, &pool.id, [call], now);
    }

    /// One step for a claim that goes.
    fn release(&mut self, name: &ObjectName, now: Timestamp) {
        let policy = self.policy_of(name).clone();
        let request = self.request(name);
        self.ledger.wait(&policy.id, request.place(), false);
        let unwanted = self.ledger.of_claim(&policy.id, &request.key).filter(|it| it.hold == Some(Hold::Unwanted));
        for id in unwanted.map(|entry| entry.fip.id.clone()).collect::<Vec<_>>() {
            self.ledger.hold(&id, None);
        }
        let decision = release::decide(&self.ledger, &policy, &request.key, now);
        self.decided = format!("{decision:?}");
        match decision {
            ReleaseStep::Tag(id, tag) => {
                self.send(Work::Release(name.clone()), &policy.id, [Call::AddTag(id, tag)], now)
            }
            ReleaseStep::Describe(id, mark) => {
                let call = Call::Describe(id, mark.render(Some((&name.namespace, &name.name))));
                self.send(Work::Release(name.clone()), &policy.id, [call], now);
            }
            ReleaseStep::Withdraw(id, tag) => self.withdraw(Work::Release(name.clone()), &policy, id, tag, now),
            ReleaseStep::Settle => self.must_look = true,
            ReleaseStep::Done => {
                self.ledger.let_go(&request.hold(&policy.id));
                if self.claims[name].is_deleted {
                    self.forget(name);
                }
            }
        }
    }

    /// The IPAddress goes, then the claim.
    fn forget(&mut self, name: &ObjectName) {
        self.published.forget(name);
        self.addresses.remove(name);
        if self.claims[name].is_deleted {
            self.claims.remove(name);
        }
    }

    /// One sweep of a pool: all its chores begin, side by side.
    pub fn sweep(&mut self, pool: usize, now: Timestamp) {
        if self.ledger.listed().is_none() {
            self.must_look = true;
            return;
        }
        match self.pools[pool].state {
            PoolState::Lives => self.tidy(pool, now),
            PoolState::Goes => self.wind_up(pool, now),
            PoolState::Gone => {}
        }
    }

    /// A pool goes when no claim is bound to it, no call of its is under way, and nothing is left that carries its mark.
    fn wind_up(&mut self, pool: usize, now: Timestamp) {
        let policy = self.pools[pool].policy.clone();
        let is_bound = self.addresses.values().any(|address| address.pool == policy.id);
        if is_bound || self.jobs.iter().any(|job| job.pool == policy.id) {
            return;
        }
        let end = sweep::wind_up(&self.ledger, &self.published, &policy);
        self.must_look |= end.look_again;
        if end.chores.is_empty() && !end.look_again {
            self.pools[pool].state = PoolState::Gone;
            self.set_listed(pool);
        }
        self.begin(pool, end.chores, now);
    }

    fn tidy(&mut self, pool: usize, now: Timestamp) {
        let around = self.surroundings(pool);
        let policy = self.pools[pool].policy.clone();
        let plan = sweep::plan(&self.ledger, &self.published, &policy, &around, now);
        self.must_look |= plan.look_again;
        self.ledger.note_orphans(&policy.id, &plan.orphans, now);
        self.begin(pool, plan.chores, now);
        for _ in 0..plan.preallocate {
            let nonce = self.next_nonce();
            let creation = Creation { pool: policy.id.clone(), claim: None, unknown_since: None };
            self.ledger.begin_creation(nonce.clone(), creation);
            let description = creation_mark(&policy, None, nonce.clone()).render(None);
            self.send(Work::Preallocate, &policy.id, [Call::Post { description }], now);
            self.jobs.last_mut().expect("just sent").nonce = Some(nonce);
        }
    }

    fn begin(&mut self, pool: usize, chores: Vec<SweepAction>, now: Timestamp) {
        let id = self.pools[pool].policy.id.clone();
        for chore in chores {
            self.ledger.hold(chore.id(), Some(Hold::GivingBack));
            let calls: Vec<Call> = match chore {
                SweepAction::Delete(id) => vec![Call::Delete(id)],
                SweepAction::Rewrite { id, description, tags } => {
                    let describe = description.map(|text| Call::Describe(id.clone(), text));
                    describe.into_iter().chain(tags.into_iter().map(|tag| Call::RemoveTag(id.clone(), tag))).collect()
                }
                SweepAction::Release(id, tag) => vec![Call::AddTag(id, tag)],
                SweepAction::Describe(id, mark) => vec![Call::Describe(id, mark.render(None))],
            };
            self.send(Work::Sweep, &id, calls, now);
        }
    }

    pub fn surroundings(&self, pool: usize) -> ClusterView {
        let claims = self.claims.iter().filter(|(_, claim)| claim.pool == pool).map(|(name, claim)| {
            let living = if claim.is_deleted { ClaimLiveness::Deleting } else { ClaimLiveness::Active };
            (ClaimKey::of(&name.namespace, &name.name), living)
        });
        ClusterView { claims: claims.collect(), is_paused: false }
    }

    fn send(&mut self, work: Work, pool: &PoolId, calls: impl IntoIterator<Item = Call>, now: Timestamp) {
        let began = self.ledger.next_step();
        let calls: VecDeque<Call> = calls.into_iter().collect();
        assert!(!calls.is_empty(), "a decision without an effect: {work:?}");
        self.jobs.push(Job { work, calls, began, sent: now, pool: pool.clone(), nonce: None, reply: None });
    }

    /// The reply of a call has come, or will not come any more: the ledger learns what it says.
    pub fn learn(&mut self, mut job: Job, now: Timestamp) {
        let call = job.calls.pop_front().expect("a job has a call under way");
        let reply = job.reply.take().expect("only what was answered is learnt");
        let (is_done, is_unknown) = (matches!(reply, Reply::Answer(_)), matches!(reply, Reply::Unknown));
        match (&call, reply) {
            (Call::Post { .. }, reply) => return self.learn_creation(job, reply, now),
            (Call::Delete(id), Reply::Answer(_)) => self.ledger.gone(id),
            (Call::Describe(id, _) | Call::AddTag(id, _) | Call::RemoveTag(id, _), Reply::Answer(Answer::NotFound)) => {
                self.ledger.gone(id);
            }
            (Call::Describe(..), Reply::Answer(Answer::Fip(fip))) => self.ledger.wrote(fip, job.began),
            (Call::AddTag(id, tag), Reply::Answer(_)) => self.ledger.tagged(id, tag, true),
            (Call::RemoveTag(id, tag), Reply::Answer(_)) => self.ledger.tagged(id, tag, false),
            (
                Call::Describe(id, _) | Call::AddTag(id, _) | Call::RemoveTag(id, _) | Call::Delete(id),
                Reply::Unknown,
            ) => {
                self.ledger.doubt(id, now);
            }
            (_, Reply::Answer(_) | Reply::Failed) => {}
        }
        let (Call::Describe(id, _) | Call::AddTag(id, _) | Call::RemoveTag(id, _) | Call::Delete(id)) = call else {
            return;
        };
        if is_done && !job.calls.is_empty() && self.ledger.get(&id).is_some() {
            job.began = self.ledger.next_step();
            job.sent = now;
            return self.jobs.push(job);
        }
        match job.work {
            // It stays the claim's choice until it is certain, or certainly not done.
            Work::Mark(_) | Work::TakeBack(_) => {
                if !is_done && !is_unknown {
                    self.ledger.give_up(&id);
                }
            }
            Work::Withdraw(name) => {
                let claim = ClaimKey::of(&name.namespace, &name.name);
                self.ledger.end_withdrawal(&id, Hold::Claim { pool: job.pool, claim }, !is_done && !is_unknown);
            }
            Work::Sweep | Work::Discard => self.ledger.hold(&id, None),
            Work::Release(_) => {
                if self.ledger.get(&id).is_some_and(|entry| entry.hold == Some(Hold::GivingBack)) {
                    self.ledger.hold(&id, None);
                }
            }
            Work::Create(_) | Work::Preallocate => {}
        }
    }

    fn learn_creation(&mut self, job: Job, reply: Reply, now: Timestamp) {
        let nonce = job.nonce.expect("a POST has a nonce");
        let policy =
            self.pools.iter().find(|pool| pool.policy.id == job.pool).expect("pools stay known").policy.clone();
        let block = |refusal| CreationBlock { refusal, until: now + BLOCKED_FOR };
        match reply {
            Reply::Unknown => {
                self.ledger.doubt_creation(&nonce, now);
                self.must_look = true;
                return;
            }
            Reply::Answer(Answer::Fip(fip)) => {
                self.ledger.wrote(fip.clone(), job.began);
                match &job.work {
                    Work::Create(name) if self.claims.contains_key(name) => {
                        if claim::may_keep(&self.published, &policy, &self.request(name), &fip) {
                            self.ledger.unblock(&policy.id);
                        } else {
                            self.ledger.decline(&fip.id, Hold::Unwanted);
                        }
                    }
                    _ => {
                        let is_of_use = !policy.is_excluded(fip.address)
                            && policy.reserved_for(fip.address).is_none()
                            && !self.published.is_published(&fip);
                        if is_of_use {
                            self.ledger.unblock(&policy.id);
                        } else if self.ledger.get(&fip.id).is_some() {
                            self.ledger.decline(&fip.id, Hold::GivingBack);
                            self.ledger.found_barren(&policy.id, now);
                            self.discard(&policy.id, fip.id, now);
                        }
                    }
                }
            }
            Reply::Answer(Answer::OverQuota) => self.ledger.block(policy.id, block(Refusal::QuotaReached)),
            Reply::Answer(Answer::NoMoreAddresses) => self.ledger.block(policy.id, block(Refusal::NetworkExhausted)),
            Reply::Answer(Answer::Done | Answer::NotFound) | Reply::Failed => {}
        }
        self.ledger.end_creation(&nonce);
    }

    /// The next step of a listing: it begins, reads its pages, and ends.
    pub fn look(&mut self, fips: &[FloatingIp], now: Timestamp) {
        let half = fips.len() / 2;
        match &mut self.listing {
            None => {
                let began = self.ledger.next_step();
                self.listing = Some(Listing { began, at: now, pages: vec![fips[..half].to_vec()] });
            }
            Some(listing) if listing.pages.len() == 1 => {
                // By marker: what comes after the last one that was read.
                let last = listing.pages[0].last().map(|fip| fip.id.clone());
                let rest = fips.iter().filter(|fip| last.as_ref().is_none_or(|last| fip.id > *last));
                listing.pages.push(rest.cloned().collect());
            }
            Some(_) => {
                let listing = self.listing.take().expect("there is one");
                self.ledger.list(listing.began, listing.at, listing.pages.concat(), now);
                self.must_look = false;
            }
        }
    }

    /// The process dies; a new one waits out the calls of the old.
    pub fn crash(&mut self, now: Timestamp, settling: SignedDuration) -> Vec<Job> {
        self.ledger = Ledger::default();
        self.listing = None;
        self.must_look = true;
        for pool in &mut self.pools {
            pool.policy.fenced_until = Some(now + settling);
        }
        std::mem::take(&mut self.jobs)
    }

    pub fn set_listed(&mut self, pool: usize) {
        let Pool { policy, state } = &self.pools[pool];
        let listed = policy.listed.iter().chain(policy.reservations.values()).copied();
        let listed = listed.filter(|_| *state != PoolState::Gone).collect();
        self.published.set_listed(policy.id.to_string(), listed);
    }

    fn policy_of(&self, name: &ObjectName) -> &PoolPolicy {
        &self.pools[self.claims[name].pool].policy
    }

    fn next_nonce(&mut self) -> Nonce {
        self.nonces += 1;
        Nonce::parse(&format!("s{}x{:07}", self.index, self.nonces)).expect("of the nonce's form")
    }
}

/// What the published is told of an IPAddress of ours.
pub fn naming(address: &Address, network: &NetworkId) -> PublishedAddress {
    let ours = Binding {
        pool: address.pool.clone(),
        claim: address.claim.clone(),
        fip: address.fip.clone(),
        network: Some(network.clone()),
    };
    PublishedAddress { address: address.address, ours: Some(ours) }
}
