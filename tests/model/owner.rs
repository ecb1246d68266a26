//! One owner: the pool of one management cluster. Its memory of Neutron is the product's own `Ledger` and
//! `PublishedAddresses`, and the product makes every decision. This file only models how `src/controllers` acts on
//! decisions and replies.
//!
//! An owner sees itself as owner 0 and the others as 1 and up, so that owners in the same situation are the same value.

use std::collections::{BTreeMap, BTreeSet};

use caip_openstack::allocation::claim::{self, BoundAddress, ClaimRequest, Decision, MarkWrite};
use caip_openstack::allocation::ledger::{CallStart, CreationBlock, Hold, Ledger, Viewer};
use caip_openstack::allocation::mark::Ownership;
use caip_openstack::allocation::policy::{PoolPolicy, ReuseRule};
use caip_openstack::allocation::published::{Binding, PublishedAddress, PublishedAddresses};
use caip_openstack::allocation::refusal::Refusal;
use caip_openstack::allocation::release::{self, ReleaseStep};
use caip_openstack::allocation::situation::{ClaimState, QueuePosition};
use caip_openstack::allocation::sweep::{ClusterView, SweepAction, SweepScope, plan_sweep};
use caip_openstack::allocation::{PoolId, Situation};
use caip_openstack::floating_ip::FloatingIpId;
use caip_openstack::object_name::ObjectName;
use jiff::{SignedDuration, Timestamp};

use crate::events::{Claim, Event, Flaw, Lifecycle, Operation, OperationKind, Reply, Spec};
use crate::neutron::{CLAIMS, Call, Seat, Tag, address, addresses, claim_key, fip_id, fip_index, network, noon};

/// `REQUEST_TIMEOUT`: a request that its sender has given up reaches Neutron within this time or never. Time passes in
/// units of it.
pub const TIMEOUT: SignedDuration = SignedDuration::from_secs(30);

#[derive(Clone, Debug)]
pub struct Owner {
    pub spec: Spec,
    pub seat: Seat,
    pub now: Timestamp,
    pub ledger: Ledger,
    pub published: PublishedAddresses,
    pub policy: PoolPolicy,
    pub queue: BTreeSet<QueuePosition>,
    pub claims: [Claim; CLAIMS],
    pub operations: BTreeMap<usize, Operation>,
    pub listing_began: Option<CallStart>,
    /// A claim or the sweep waits for a listing.
    pub must_list: bool,
    /// The claim and the floating IP that the last event published.
    pub just_published: Option<(usize, u8)>,
}

impl Owner {
    pub fn new(spec: Spec, seat: Seat) -> Self {
        let claim = |index| Claim::new(if index < spec.claims { Lifecycle::Active } else { Lifecycle::Absent });
        let mut published = PublishedAddresses::default();
        published.set_listed(ObjectName::new("team", "pool"), addresses(spec.listed));
        let policy = policy(spec, seat.pool_id(0));
        Self {
            spec,
            seat,
            now: noon(),
            ledger: new_ledger(&policy.id),
            published,
            policy,
            queue: BTreeSet::new(),
            claims: std::array::from_fn(claim),
            operations: BTreeMap::new(),
            listing_began: None,
            must_list: true,
            just_published: None,
        }
    }

    pub fn apply_event(&mut self, event: &Event) {
        self.just_published = None;
        match event {
            Event::Create(claim) => {
                self.claims[*claim] = Claim::new(Lifecycle::Active);
            }
            Event::Delete(claim) => self.claims[*claim].lifecycle = Lifecycle::Deleting,
            Event::DeleteAddress(claim) => {
                self.published.remove(&self.request(*claim).object);
                self.claims[*claim].published = None;
            }
            Event::Serve(claim) => self.advance(*claim),
            Event::Sweep => self.sweep(),
            Event::Answered(slot, reply) => self.record_reply(*slot, *reply),
            Event::StartListing => self.listing_began = Some(self.ledger.begin(self.now)),
            Event::Listed(fips) => {
                let began = self.listing_began.take().expect("a listing is in progress");
                let fips = fips.iter().enumerate().map(|(index, fip)| fip.to_product(index, self.seat)).collect();
                self.ledger.record_listing(began, fips, self.now);
                self.must_list = false;
                for claim in (0..CLAIMS).filter(|claim| self.claims[*claim].is_being_served).collect::<Vec<_>>() {
                    self.advance(claim);
                }
            }
            Event::PassTime => self.now += TIMEOUT,
            Event::Crash => self.crash(),
        }
    }

    /// Reconciles a claim, unless one of its calls is in progress.
    fn advance(&mut self, claim: usize) {
        if self.operations.contains_key(&claim) {
            return;
        }
        match self.claims[claim].lifecycle {
            Lifecycle::Active => self.serve(claim),
            Lifecycle::Deleting if self.claims[claim].is_being_served => self.serve(claim),
            Lifecycle::Deleting => self.release(claim),
            Lifecycle::Absent => {}
        }
    }

    /// One pass of `controllers/claim/serve.rs`.
    fn serve(&mut self, claim: usize) {
        let request = self.request(claim);
        let decision = self.with_situation(|situation| claim::decide(situation, &request));
        let decision = match (decision, self.spec.flaw) {
            (Decision::Confirm(id), Some(Flaw::NoConfirm)) => Decision::Keep(id),
            (decision, _) => decision,
        };
        let hold = request.hold(&self.policy.id);
        let is_refused = matches!(decision, Decision::Refuse(_));
        self.claims[claim].is_being_served =
            !is_refused && !matches!(decision, Decision::Keep(_) | Decision::Fenced(_) | Decision::Lost(_));
        if !self.claims[claim].is_being_served {
            match is_refused {
                true => self.queue.insert(request.queue_position()),
                false => self.queue.remove(&request.queue_position()),
            };
        }
        match decision {
            Decision::Keep(id) => {
                let fip = fip_index(&id);
                if self.claims[claim].published.is_none() {
                    self.claims[claim].published = Some(fip as u8);
                    self.claims[claim].bound = Some(fip as u8);
                    self.just_published = Some((claim, fip as u8));
                }
                self.published.insert(request.object.clone(), self.published_address(claim, fip));
                self.ledger.note_bound(&id, &self.policy.id, &request.key);
            }
            Decision::Mark(id, _, MarkWrite::Tag(tag)) => {
                self.ledger.set_hold(&id, Some(hold));
                self.send(claim, OperationKind::Mark, fip_index(&id), &[tag], true);
            }
            Decision::TakeBack(id, tags) => {
                self.ledger.set_hold(&id, Some(hold));
                self.send(claim, OperationKind::TakeBack, fip_index(&id), &tags, false);
            }
            Decision::Withdraw(id, _) if self.spec.flaw == Some(Flaw::NoWithdrawal) => {
                self.ledger.set_hold(&id, None);
                self.claims[claim].is_being_served = false;
            }
            Decision::Withdraw(id, tag) => {
                self.begin_withdrawal(&id, &request);
                self.send(claim, OperationKind::Withdraw, fip_index(&id), &[tag], false);
            }
            Decision::Confirm(_) | Decision::Settle => self.must_list = true,
            // How often it has waited is not counted: here, the other owner is never gone for good.
            Decision::AwaitOwner(_) | Decision::AwaitMark(_) => {
                self.claims[claim].is_being_served = false;
                self.must_list = true;
            }
            Decision::ForgetAddress => {
                self.claims[claim].bound = None;
                self.serve(claim);
            }
            Decision::Fenced(_) | Decision::Refuse(_) | Decision::Lost(_) => {}
            Decision::Create(..) | Decision::Mark(_, _, MarkWrite::Describe(_)) => {
                panic!("the model creates no floating IPs")
            }
        }
    }

    /// One pass of `controllers/claim/release.rs`.
    fn release(&mut self, claim: usize) {
        let request = self.request(claim);
        match self.with_situation(|situation| release::decide(situation, &request.key)) {
            ReleaseStep::Tag(id, tag) => self.send(claim, OperationKind::Release, fip_index(&id), &[tag], true),
            ReleaseStep::Withdraw(id, tag) => {
                self.begin_withdrawal(&id, &request);
                self.send(claim, OperationKind::Withdraw, fip_index(&id), &[tag], false);
            }
            ReleaseStep::Settle | ReleaseStep::Fenced(_) => self.must_list = true,
            ReleaseStep::Describe(..) => panic!("the model has tags"),
            ReleaseStep::Done => {
                self.ledger.forget_claim(&self.policy.id, &request.key);
                self.published.remove(&request.object);
                self.queue.remove(&request.queue_position());
                self.claims[claim] = Claim::new(Lifecycle::Absent);
            }
        }
    }

    fn begin_withdrawal(&mut self, id: &FloatingIpId, request: &ClaimRequest) {
        if self.spec.flaw != Some(Flaw::NoPrecedence) {
            self.ledger.yield_to_earlier_pool(id, &self.policy.id, self.now);
        }
        self.ledger.begin_withdrawal(id, &self.policy.id, &request.key);
    }

    /// One pass of `controllers/sweeper.rs`.
    fn sweep(&mut self) {
        if self.ledger.is_unlisted(Viewer::default()) || self.operations.keys().any(|slot| *slot >= CLAIMS) {
            return;
        }
        let cluster = ClusterView::default();
        let plan = self.with_situation(|situation| plan_sweep(situation, &cluster, SweepScope::All));
        self.ledger.note_orphans(&self.policy.id, &plan.orphans, self.now);
        self.must_list |= plan.must_list && plan.actions.is_empty();
        for action in plan.actions {
            let id = action.id().clone();
            let ownership = self.ledger.get(&id).map(|entry| entry.marks.ownership(&self.policy.id));
            let is_released = matches!(ownership, Some(Ownership::Released { .. }));
            self.ledger.set_hold(&id, Some(Hold::Cleanup));
            let fip = fip_index(&id);
            match action {
                SweepAction::Rewrite { description: None, tags, .. } => {
                    self.send(CLAIMS + fip, OperationKind::Sweep(is_released), fip, &tags, false);
                }
                SweepAction::Release(_, tag) => self.send(CLAIMS + fip, OperationKind::Sweep(false), fip, &[tag], true),
                other => panic!("the model creates no floating IPs: {other:?}"),
            }
        }
    }

    /// Records a reply as `controllers/act.rs` does.
    fn record_reply(&mut self, slot: usize, reply: Reply) {
        let mut operation = self.operations.remove(&slot).expect("a call is in progress");
        let call = operation.calls.remove(0);
        let id = fip_id(call.fip.into());
        let reply = match (reply, self.spec.flaw) {
            (Reply::Unknown, Some(Flaw::MissingReplyIsRefusal)) => Reply::Refused,
            (reply, _) => reply,
        };
        match reply {
            Reply::Done => self.ledger.record_tag(&id, &call.tag.format(self.seat), call.adds),
            Reply::Unknown => self.ledger.note_uncertain_write(&id, self.now),
            Reply::Refused if self.spec.flaw == Some(Flaw::GivesUpWhileUncertain) => self.ledger.set_hold(&id, None),
            Reply::Refused => self.ledger.end_hold_unless_uncertain(&id),
        }
        if reply == Reply::Done && !operation.calls.is_empty() {
            self.operations.insert(slot, operation);
            return;
        }
        match operation.kind {
            OperationKind::Withdraw => {
                let claim = Hold::Claim { pool: self.policy.id.clone(), claim: claim_key(slot) };
                self.ledger.end_withdrawal(&id, claim, reply == Reply::Refused);
            }
            OperationKind::Sweep(_) => self.ledger.set_hold(&id, None),
            OperationKind::Mark | OperationKind::TakeBack | OperationKind::Release => {}
        }
        if slot < CLAIMS && reply == Reply::Done {
            self.advance(slot);
        } else if slot < CLAIMS {
            self.claims[slot].is_being_served = false;
        }
    }

    /// The new process knows only what Kubernetes stores, and waits until the old one's calls have settled.
    fn crash(&mut self) {
        (self.ledger, self.listing_began, self.must_list) = (new_ledger(&self.policy.id), None, true);
        self.operations.clear();
        let is_fenced = self.spec.flaw != Some(Flaw::NoFence);
        self.policy.fenced_until = is_fenced.then(|| self.now + TIMEOUT);
        for claim in self.claims.iter_mut().filter(|claim| claim.lifecycle != Lifecycle::Absent) {
            (claim.is_being_served, claim.predates_process) = (false, true);
        }
    }

    fn send(&mut self, slot: usize, kind: OperationKind, fip: usize, tags: &[String], adds: bool) {
        let call = |text: &String| Call { fip: fip as u8, tag: Tag::parse(text, self.seat), adds };
        let operation = Operation { kind, calls: tags.iter().map(call).collect() };
        assert!(!operation.calls.is_empty(), "a decision without an effect");
        assert!(operation.calls.iter().all(|call| call.tag.owner() == 0), "another owner's tag: {operation:?}");
        self.operations.insert(slot, operation);
    }

    fn with_situation<T>(&self, decide: impl FnOnce(&Situation<'_>) -> T) -> T {
        let existing = |(index, claim): (usize, &Claim)| match claim.lifecycle {
            Lifecycle::Absent => None,
            Lifecycle::Active => Some((claim_key(index), ClaimState::Waiting)),
            Lifecycle::Deleting => Some((claim_key(index), ClaimState::Deleting)),
        };
        let claims = self.claims.iter().enumerate().filter_map(existing).collect();
        let Self { ledger, published, policy: pool, queue, now, .. } = self;
        let namespaces = &["team".to_owned()].into();
        let unresolved = &BTreeSet::new();
        decide(&Situation { ledger, published, namespaces, unresolved, pool, claims: &claims, queue, now: *now })
    }

    fn request(&self, claim: usize) -> ClaimRequest {
        let published = self.claims[claim].published.map(usize::from);
        ClaimRequest {
            key: claim_key(claim),
            object: ObjectName::new("team", format!("claim-{claim}")),
            since: Timestamp::from_second(claim as i64).expect("in range"),
            bound: published.map(|fip| BoundAddress { address: address(fip), fip: fip_id(fip) }),
            was_bound: self.claims[claim].bound.is_some() && self.spec.flaw != Some(Flaw::ForgetsBinding),
        }
    }

    fn published_address(&self, claim: usize, fip: usize) -> PublishedAddress {
        let (pool, claim, since) = (self.policy.id.clone(), claim_key(claim), Timestamp::UNIX_EPOCH);
        let binding = Some(Binding { pool, claim, fip: fip_id(fip), network: Some(network()), since });
        PublishedAddress { address: address(fip), binding }
    }
}

/// An empty ledger, except that the project's quota is used up: the model has no POSTs.
fn new_ledger(pool: &PoolId) -> Ledger {
    let mut ledger = Ledger::default();
    ledger.note_served(pool, Viewer::default());
    ledger.block_creation(pool.clone(), CreationBlock { refusal: Refusal::QuotaReached, until: Timestamp::MAX });
    ledger
}

fn policy(spec: Spec, id: PoolId) -> PoolPolicy {
    PoolPolicy {
        namespace: "team".into(),
        id,
        viewer: Viewer::default(),
        listed: addresses(spec.listed).into_iter().collect(),
        network: spec.reuses.then(network),
        subnets: vec![],
        max_ips: None,
        deletes: true,
        reuse: ReuseRule::Unmarked { idle: SignedDuration::ZERO },
        excluded: vec![],
        reservations: BTreeMap::new(),
        min_free: 0,
        tags: BTreeSet::new(),
        grace: SignedDuration::ZERO,
        releases_orphans: true,
        orphan_grace: TIMEOUT,
        has_tags: true,
        fenced_until: None,
        only_releases: false,
    }
}
