//! One owner: the pool of one management cluster. Its memory of Neutron is the product's own `Ledger` and `PublishedAddresses`, and
//! every decision is the product's own; here is only what `src/controllers` does with a decision and with a reply.
//!
//! An owner knows itself as owner 0 and the others from there on, so that owners in the same situation are the same value.

use std::collections::{BTreeMap, BTreeSet};

use caip_openstack::allocation::Situation;
use caip_openstack::allocation::claim::{self, BoundAddress, ClaimRequest, Decision, MarkWrite};
use caip_openstack::allocation::ledger::{Began, CreationBlock, Hold, Ledger};
use caip_openstack::allocation::mark::Ownership;
use caip_openstack::allocation::policy::{PoolPolicy, ReusePolicy};
use caip_openstack::allocation::published::{Binding, PublishedAddress, PublishedAddresses};
use caip_openstack::allocation::refusal::Refusal;
use caip_openstack::allocation::release::{self, ReleaseStep};
use caip_openstack::allocation::situation::QueuePosition;
use caip_openstack::allocation::sweep::{ClaimLiveness, ClusterView, SweepAction, plan_sweep};
use caip_openstack::object_name::ObjectName;
use jiff::{SignedDuration, Timestamp};

use crate::events::{Claim, Event, Flaw, Job, Life, Reply, Spec, Work};
use crate::neutron::{CLAIMS, Call, Tag, address, addresses, fip_id, fip_index, key, network, noon, pool_id};

/// The longest that a request which nobody waits for any more may take to reach Neutron: `REQUEST_TIMEOUT`. Time passes
/// in such pieces.
pub const TIMEOUT: SignedDuration = SignedDuration::from_secs(30);

#[derive(Clone, Debug)]
pub struct Owner {
    pub spec: Spec,
    pub now: Timestamp,
    pub ledger: Ledger,
    pub published: PublishedAddresses,
    pub policy: PoolPolicy,
    pub waiting: BTreeSet<QueuePosition>,
    pub claims: [Claim; CLAIMS],
    pub jobs: BTreeMap<usize, Job>,
    pub look: Option<Began>,
    /// Somebody waits for a listing.
    pub must_look: bool,
    /// What the last event published.
    pub gave: Option<(usize, u8)>,
}

impl Owner {
    pub fn new(spec: Spec) -> Self {
        let claim = |index| Claim {
            life: if index < spec.claims { Life::Stays } else { Life::Absent },
            published: None,
            is_served: false,
            is_old: false,
        };
        let mut published = PublishedAddresses::default();
        published.set_listed(ObjectName::new("team", "pool"), addresses(spec.listed));
        Self {
            spec,
            now: noon(),
            ledger: memory(),
            published,
            policy: policy(spec),
            waiting: BTreeSet::new(),
            claims: std::array::from_fn(claim),
            jobs: BTreeMap::new(),
            look: None,
            must_look: true,
            gave: None,
        }
    }

    pub fn happen(&mut self, event: &Event) {
        self.gave = None;
        match event {
            Event::Create(claim) => {
                self.claims[*claim] = Claim { life: Life::Stays, published: None, is_served: false, is_old: false };
            }
            Event::Delete(claim) => self.claims[*claim].life = Life::Goes,
            Event::Serve(claim) => self.go_on(*claim),
            Event::Sweep => self.sweep(),
            Event::Answered(slot, reply) => self.learn(*slot, *reply),
            Event::Look => self.look = Some(self.ledger.begin(self.now)),
            Event::Listed(seen) => {
                let began = self.look.take().expect("a listing is under way");
                let fips = seen.iter().enumerate().map(|(index, seen)| seen.shown(index)).collect();
                self.ledger.record_listing(began, fips, self.now);
                self.must_look = false;
                for claim in (0..CLAIMS).filter(|claim| self.claims[*claim].is_served).collect::<Vec<_>>() {
                    self.go_on(claim);
                }
            }
            Event::Pass => self.now += TIMEOUT,
            Event::Crash => self.crash(),
        }
    }

    /// A claim's controller takes its next turn, unless a call of its is under way.
    fn go_on(&mut self, claim: usize) {
        if self.jobs.contains_key(&claim) {
            return;
        }
        match self.claims[claim].life {
            Life::Stays => self.serve(claim),
            Life::Goes if self.claims[claim].is_served => self.serve(claim),
            Life::Goes => self.release(claim),
            Life::Absent => {}
        }
    }

    /// One turn of `controllers/claim/serve.rs`.
    fn serve(&mut self, claim: usize) {
        let request = self.request(claim);
        let decision = claim::decide(&self.situation(), &request);
        let decision = match (decision, self.spec.flaw) {
            (Decision::Confirm(id), Some(Flaw::NoConfirm)) => Decision::Keep(id),
            (decision, _) => decision,
        };
        let hold = request.hold(&self.policy.id);
        let is_refused = matches!(decision, Decision::Refuse(_));
        self.claims[claim].is_served =
            !is_refused && !matches!(decision, Decision::Keep(_) | Decision::Fenced(_) | Decision::Lost(_));
        if !self.claims[claim].is_served {
            match is_refused {
                true => self.waiting.insert(request.queue_position()),
                false => self.waiting.remove(&request.queue_position()),
            };
        }
        match decision {
            Decision::Keep(id) => {
                let fip = fip_index(&id);
                if self.claims[claim].published.is_none() {
                    self.claims[claim].published = Some(fip as u8);
                    self.gave = Some((claim, fip as u8));
                }
                self.published.insert(request.object.clone(), self.published_address(claim, fip));
                self.ledger.end_holds_of(&self.policy.id, &request.key);
            }
            Decision::Mark(id, _, MarkWrite::Tag(tag)) => {
                self.ledger.set_hold(&id, Some(hold));
                self.send(claim, Work::Mark, fip_index(&id), &[tag], true);
            }
            Decision::TakeBack(id, tags) => {
                self.ledger.set_hold(&id, Some(hold));
                self.send(claim, Work::TakeBack, fip_index(&id), &tags, false);
            }
            Decision::Withdraw(id, _) if self.spec.flaw == Some(Flaw::NoWithdrawal) => {
                self.ledger.set_hold(&id, None);
                self.claims[claim].is_served = false;
            }
            Decision::Withdraw(id, tag) => {
                self.ledger.begin_withdrawal(&id, &self.policy.id, &request.key);
                self.send(claim, Work::Withdraw, fip_index(&id), &[tag], false);
            }
            Decision::Confirm(_) | Decision::Settle => self.must_look = true,
            Decision::Fenced(_) | Decision::Refuse(_) | Decision::Lost(_) => {}
            Decision::Create(..) | Decision::Mark(_, _, MarkWrite::Describe(_)) => panic!("nothing is created here"),
        }
    }

    /// One turn of `controllers/claim/release.rs`.
    fn release(&mut self, claim: usize) {
        let request = self.request(claim);
        match release::decide(&self.situation(), &request.key) {
            ReleaseStep::Tag(id, tag) => self.send(claim, Work::Release, fip_index(&id), &[tag], true),
            ReleaseStep::Withdraw(id, tag) => {
                self.ledger.begin_withdrawal(&id, &self.policy.id, &request.key);
                self.send(claim, Work::Withdraw, fip_index(&id), &[tag], false);
            }
            ReleaseStep::Settle => self.must_look = true,
            ReleaseStep::Describe(..) => panic!("there are tags here"),
            ReleaseStep::Done => {
                self.ledger.end_holds_of(&self.policy.id, &request.key);
                self.published.remove(&request.object);
                self.waiting.remove(&request.queue_position());
                self.claims[claim] = Claim { life: Life::Absent, published: None, is_served: false, is_old: false };
            }
        }
    }

    /// One round of `controllers/sweeper.rs`.
    fn sweep(&mut self) {
        if self.ledger.listed().is_none() || self.jobs.keys().any(|slot| *slot >= CLAIMS) {
            return;
        }
        let living = |(index, claim): (usize, &Claim)| match claim.life {
            Life::Absent => None,
            Life::Stays => Some((key(index), ClaimLiveness::Active)),
            Life::Goes => Some((key(index), ClaimLiveness::Deleting)),
        };
        let claims = self.claims.iter().enumerate().filter_map(living).collect();
        let cluster = ClusterView { namespace: "team".into(), claims, is_paused: false };
        let plan = plan_sweep(&self.situation(), &cluster);
        self.ledger.note_orphans(&self.policy.id, &plan.orphans, self.now);
        self.must_look |= plan.must_list && plan.actions.is_empty();
        for action in plan.actions {
            let id = action.id().clone();
            let ownership = self.ledger.get(&id).map(|entry| entry.marks.ownership(&self.policy.id));
            let is_released = matches!(ownership, Some(Ownership::Released { .. }));
            self.ledger.set_hold(&id, Some(Hold::GivingBack));
            let fip = fip_index(&id);
            match action {
                SweepAction::Rewrite { description: None, tags, .. } => {
                    self.send(CLAIMS + fip, Work::Sweep(is_released), fip, &tags, false);
                }
                SweepAction::Release(_, tag) => self.send(CLAIMS + fip, Work::Sweep(false), fip, &[tag], true),
                other => panic!("nothing was created here: {other:?}"),
            }
        }
    }

    /// What `controllers/act.rs` learns from a reply.
    fn learn(&mut self, slot: usize, reply: Reply) {
        let mut job = self.jobs.remove(&slot).expect("a call is under way");
        let call = job.calls.remove(0);
        let id = fip_id(call.fip.into());
        let reply = match (reply, self.spec.flaw) {
            (Reply::Unknown, Some(Flaw::NoDoubt)) => Reply::Undone,
            (reply, _) => reply,
        };
        match reply {
            Reply::Done => self.ledger.record_tag(&id, &call.tag.text(), call.adds),
            Reply::Unknown => self.ledger.note_uncertain_write(&id, self.now),
            Reply::Undone if self.spec.flaw == Some(Flaw::GivesUpInDoubt) => self.ledger.set_hold(&id, None),
            Reply::Undone => self.ledger.end_hold_unless_uncertain(&id),
        }
        if reply == Reply::Done && !job.calls.is_empty() {
            self.jobs.insert(slot, job);
            return;
        }
        match job.work {
            Work::Withdraw => {
                let claim = Hold::Claim { pool: self.policy.id.clone(), claim: key(slot) };
                self.ledger.end_withdrawal(&id, claim, reply == Reply::Undone);
            }
            Work::Sweep(_) => self.ledger.set_hold(&id, None),
            Work::Mark | Work::TakeBack | Work::Release => {}
        }
        if slot < CLAIMS && reply == Reply::Done {
            self.go_on(slot);
        } else if slot < CLAIMS {
            self.claims[slot].is_served = false;
        }
    }

    /// The process dies; the new one remembers what Kubernetes has, and waits out the calls of the old.
    fn crash(&mut self) {
        (self.ledger, self.look, self.must_look) = (memory(), None, true);
        self.jobs.clear();
        let is_fenced = self.spec.flaw != Some(Flaw::NoFence);
        self.policy.fenced_until = is_fenced.then(|| self.now + TIMEOUT);
        for claim in self.claims.iter_mut().filter(|claim| claim.life != Life::Absent) {
            (claim.is_served, claim.is_old) = (false, true);
        }
    }

    fn send(&mut self, slot: usize, work: Work, fip: usize, tags: &[String], adds: bool) {
        let call = |text: &String| Call { fip: fip as u8, tag: Tag::read(text), adds };
        let job = Job { work, calls: tags.iter().map(call).collect() };
        assert!(!job.calls.is_empty(), "a decision without an effect");
        assert!(job.calls.iter().all(|call| call.tag.owner() == 0), "another owner's tag: {job:?}");
        self.jobs.insert(slot, job);
    }

    fn situation(&self) -> Situation<'_> {
        let Self { ledger, published, policy: pool, waiting, now, .. } = self;
        Situation { ledger, published, pool, waiting, now: *now }
    }

    fn request(&self, claim: usize) -> ClaimRequest {
        let published = self.claims[claim].published.map(usize::from);
        ClaimRequest {
            key: key(claim),
            object: ObjectName::new("team", format!("claim-{claim}")),
            since: Timestamp::from_second(claim as i64).expect("in range"),
            bound: published.map(|fip| BoundAddress { address: address(fip), fip: fip_id(fip) }),
        }
    }

    fn published_address(&self, claim: usize, fip: usize) -> PublishedAddress {
        let pool = self.policy.id.clone();
        let binding = Some(Binding { pool, claim: key(claim), fip: fip_id(fip), network: Some(network()) });
        PublishedAddress { address: address(fip), binding }
    }
}

/// What a new process knows: nothing, but that the project's quota is used up, so that no POST is made.
fn memory() -> Ledger {
    let mut ledger = Ledger::default();
    ledger.block_creation(pool_id(0), CreationBlock { refusal: Refusal::QuotaReached, until: Timestamp::MAX });
    ledger
}

fn policy(spec: Spec) -> PoolPolicy {
    PoolPolicy {
        id: pool_id(0),
        listed: addresses(spec.listed).into_iter().collect(),
        network: spec.reuses.then(network),
        subnets: vec![],
        max_ips: None,
        deletes: true,
        reuse: ReusePolicy::Unmarked { idle: SignedDuration::ZERO },
        excluded: vec![],
        reservations: BTreeMap::new(),
        preallocate: 0,
        grace: SignedDuration::ZERO,
        releases_orphans: true,
        orphan_grace: TIMEOUT,
        has_tags: true,
        fenced_until: None,
    }
}
