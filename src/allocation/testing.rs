//! Fixtures for the unit tests of `allocation`. The pool is `p`, its claims are in the namespace `team`.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use jiff::{SignedDuration, Timestamp};

use super::claim::{self, BoundAddress, ClaimRequest, Decision};
use super::identity::{ClaimKey, Nonce, PoolId};
use super::ledger::{Choice, CreationBlock, Hold, Ledger, LedgerEntry, Viewer};
use super::mark::{CreationMark, TAG_LIMIT, claim_tag, release_tag};
use super::origin::Origin;
use super::policy::{PoolPolicy, ReuseRule};
use super::published::{Binding, PublishedAddress, PublishedAddresses};
use super::refusal::Refusal;
use super::release::{self, ReleaseStep};
use super::situation::{ClaimState, QueuePosition, Situation};
use super::sweep::{ClusterView, PoolTeardown, SweepPlan, SweepScope, plan_sweep, plan_teardown};
use crate::floating_ip::{FloatingIp, FloatingIpId, NetworkId, PortId, ProjectId, SubnetId};
use crate::object_name::ObjectName;

/// When every fixture begins.
pub fn start() -> Timestamp {
    Timestamp::from_second(1_800_000_000).expect("in range")
}

pub fn seconds(count: i64) -> SignedDuration {
    SignedDuration::from_secs(count)
}

/// So many seconds before [`start`].
pub fn ago(count: i64) -> Timestamp {
    start() - seconds(count)
}

/// 203.0.113.`last`.
pub fn address(last: u8) -> IpAddr {
    IpAddr::from([203, 0, 113, last])
}

pub fn id(last: u8) -> FloatingIpId {
    FloatingIpId::new(format!("fip-{last}"))
}

pub fn pool_id(name: &str) -> PoolId {
    PoolId::parse(name).expect("an id")
}

pub fn key(claim: &str) -> ClaimKey {
    ClaimKey::of("team", claim)
}

pub fn network() -> NetworkId {
    NetworkId::new("public")
}

/// The mark of what the pool `p` created with a nonce that ends in `last`; no claim has it.
pub fn unclaimed_mark(last: u8) -> CreationMark {
    let nonce = Nonce::parse(&format!("nonce00{last:03}")).expect("a nonce");
    CreationMark { pool: pool_id("p"), nonce, claim: None, released: None, is_retained: false }
}

/// Builds a floating IP.
#[derive(Clone)]
pub struct Fip(pub FloatingIp);

/// 203.0.113.`last`: free, without tags or texts, not changed recently.
pub fn fip(last: u8) -> Fip {
    Fip(FloatingIp {
        id: id(last),
        address: address(last),
        network: network(),
        project: ProjectId::new("project"),
        port: None,
        is_forwarded: false,
        description: String::new(),
        tags: BTreeSet::new(),
        dns_name: String::new(),
        changed_at: Some(ago(100_000)),
        created_at: Some(ago(100_000)),
    })
}

impl Fip {
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.0.tags.insert(tag.into());
        self
    }
    /// With as many tags of users as Neutron allows.
    pub fn full_of_tags(mut self) -> Self {
        let room = TAG_LIMIT - self.0.tags.len();
        self.0.tags.extend((0..room).map(|number| format!("of-a-user-{number}")));
        self
    }
    pub fn described(mut self, text: impl Into<String>) -> Self {
        self.0.description = text.into();
        self
    }
    pub fn attached(mut self) -> Self {
        self.0.port = Some(PortId::new("port"));
        self
    }
    pub fn forwarded(mut self) -> Self {
        self.0.is_forwarded = true;
        self
    }
    pub fn on_network(mut self, network: &str) -> Self {
        self.0.network = NetworkId::new(network);
        self
    }
    pub fn created_at(mut self, at: Timestamp) -> Self {
        self.0.created_at = Some(at);
        self
    }
    pub fn changed_at(mut self, at: Timestamp) -> Self {
        self.0.changed_at = Some(at);
        self
    }
    /// Created by the pool `p`, free.
    pub fn idle(self) -> Self {
        let mark = unclaimed_mark(self.last());
        self.described(mark.render(None))
    }
    /// Created by the pool `other`, free.
    pub fn created_by_another_pool(self) -> Self {
        let mark = CreationMark { pool: pool_id("other"), ..unclaimed_mark(self.last()) };
        self.described(mark.render(None))
    }
    /// Created by the pool `p` for this claim.
    pub fn created_for(self, claim: &str) -> Self {
        let mark = CreationMark { claim: Some(key(claim)), ..unclaimed_mark(self.last()) };
        self.described(mark.render(Some(("team", claim))))
    }
    /// Tagged by the pool `p` for this claim.
    pub fn tagged_for(self, claim: &str) -> Self {
        self.tag(claim_tag(&pool_id("p"), &key(claim)))
    }
    /// Tagged for release by this claim of the pool `p`.
    pub fn released_by(self, claim: &str, at: Timestamp) -> Self {
        self.tag(release_tag(&pool_id("p"), &key(claim), at))
    }
    /// Tagged by a claim of another pool.
    pub fn tagged_by_another_pool(self) -> Self {
        self.tag(claim_tag(&pool_id("other"), &key("theirs")))
    }
    fn last(&self) -> u8 {
        match self.0.address {
            IpAddr::V4(address) => address.octets()[3],
            IpAddr::V6(_) => 0,
        }
    }
}

/// Everything that a decision about the pool `p` depends on.
pub struct Fixture {
    pub ledger: Ledger,
    pub published: PublishedAddresses,
    pub namespaces: BTreeSet<String>,
    pub unresolved: BTreeSet<String>,
    pub pool: PoolPolicy,
    pub cluster: ClusterView,
    pub claims: BTreeMap<ClaimKey, ClaimState>,
    pub queue: BTreeSet<QueuePosition>,
    pub now: Timestamp,
}

/// A pool with a network that reuses, creates and deletes, in a project without floating IPs.
pub fn fixture() -> Fixture {
    let pool = PoolPolicy {
        namespace: "team".into(),
        id: pool_id("p"),
        viewer: Viewer::default(),
        listed: vec![],
        network: Some(network()),
        subnets: vec![],
        max_ips: None,
        deletes: true,
        reuse: ReuseRule::Unmarked { idle: seconds(300) },
        excluded: vec![],
        reservations: BTreeMap::new(),
        min_free: 0,
        tags: BTreeSet::new(),
        grace: seconds(0),
        releases_orphans: true,
        orphan_grace: seconds(3600),
        has_tags: true,
        fenced_until: None,
        only_releases: false,
    };
    let (mut ledger, published, queue) = (Ledger::default(), PublishedAddresses::default(), BTreeSet::new());
    let began = ledger.begin(start());
    ledger.record_listing(began, vec![], start());
    ledger.note_served(&pool.id, Viewer::default());
    let cluster = ClusterView::default();
    let namespaces = ["team".into()].into();
    let (unresolved, claims) = (BTreeSet::new(), BTreeMap::new());
    Fixture { ledger, published, namespaces, unresolved, pool, cluster, claims, queue, now: start() }.fips([])
}

impl Fixture {
    /// Records a complete listing with these floating IPs.
    pub fn fips<const N: usize>(mut self, fips: [Fip; N]) -> Self {
        self.relist(fips);
        self
    }
    pub fn relist<const N: usize>(&mut self, fips: [Fip; N]) {
        let began = self.ledger.begin(self.now);
        self.ledger.record_listing(began, fips.into_iter().map(|fip| fip.0).collect(), self.now);
    }
    pub fn with_policy(mut self, change: impl FnOnce(&mut PoolPolicy)) -> Self {
        change(&mut self.pool);
        self
    }
    /// The pool gives only these addresses.
    pub fn closed_list<const N: usize>(self, listed: [u8; N]) -> Self {
        self.listed(listed).with_policy(|pool| pool.network = None)
    }
    pub fn listed<const N: usize>(mut self, listed: [u8; N]) -> Self {
        self.pool.listed = listed.map(address).to_vec();
        self.published.set_listed(ObjectName::new("team", "p"), self.pool.listed.iter().copied().collect());
        self
    }
    pub fn max_ips(self, max_ips: usize) -> Self {
        self.with_policy(|pool| pool.max_ips = Some(max_ips))
    }
    pub fn reserving(self, claim: &str, last: u8) -> Self {
        self.with_policy(|pool| pool.reservations.extend([(claim.into(), address(last))]))
    }
    pub fn excluding(self, range: &str) -> Self {
        self.with_policy(|pool| pool.excluded.push(range.parse().expect("a range")))
    }
    pub fn fenced(self) -> Self {
        let until = self.now + seconds(60);
        self.with_policy(|pool| pool.fenced_until = Some(until))
    }
    pub fn held(mut self, last: u8, hold: Hold) -> Self {
        self.ledger.set_hold(&id(last), Some(hold));
        self
    }
    /// Neutron offered it from there, and it is unwanted.
    pub fn hold_unwanted(&mut self, last: u8, subnet: Option<&SubnetId>) {
        self.ledger.hold_unwanted(&self.pool, &id(last), subnet, self.now);
    }
    /// Another pool creates it: a listing shows it already.
    pub fn begin_creation_by_another_pool(&mut self, last: u8) {
        self.ledger.begin_creation(unclaimed_mark(last).nonce, pool_id("other"), None);
        self.relist([fip(last).created_by_another_pool()]);
    }
    /// What another pool was creating is unwanted.
    pub fn offer_unwanted_to_another_pool(&mut self, last: u8) {
        let other = PoolPolicy { id: pool_id("other"), ..self.pool.clone() };
        self.ledger.end_creation(&unclaimed_mark(last).nonce);
        self.ledger.hold_unwanted(&other, &id(last), None, self.now);
    }
    /// A claim of the pool `p` chose this address, from its list.
    pub fn chosen_by(self, last: u8, claim: &str) -> Self {
        self.chosen_from(Origin::List, last, claim)
    }
    pub fn chosen_from(self, origin: Origin, last: u8, claim: &str) -> Self {
        self.chosen(Choice { origin, was_published: false }, last, claim)
    }
    /// A claim of the pool `p`, whose IPAddress names this address, chose it.
    pub fn chosen_as_published(self, last: u8, claim: &str) -> Self {
        self.chosen(Choice { origin: Origin::Owned, was_published: true }, last, claim)
    }
    pub fn chosen(mut self, choice: Choice, last: u8, claim: &str) -> Self {
        self.ledger.set_chosen(&id(last), choice, &pool_id("p"), &key(claim));
        self
    }
    /// The pool is gone, as far as the ledger is concerned.
    pub fn lose_pool(&mut self, name: &str) {
        self.ledger.leave_holds(&pool_id(name), |_| true, start());
        self.ledger.forget_pool(&pool_id(name));
    }
    /// The claim is gone, and its IPAddress is still there.
    pub fn lost_claim(mut self, claim: &str) -> Self {
        self.cluster.stray_claims.insert(key(claim));
        self
    }
    pub fn active_claim(mut self, claim: &str) -> Self {
        self.claims.insert(key(claim), ClaimState::Waiting);
        self
    }
    /// Its status says that it has an address.
    pub fn bound_claim(mut self, claim: &str) -> Self {
        self.claims.insert(key(claim), ClaimState::Bound);
        self
    }
    /// The claim itself was refused an address.
    pub fn in_queue(mut self, claim: &str) -> Self {
        self.queue.insert(request(claim).queue_position());
        self
    }
    /// A claim that is older than the others was refused an address.
    pub fn waiting_claim(mut self, claim: &str) -> Self {
        let position = request(claim).queue_position();
        self.queue.insert(QueuePosition { since: ago(50_000), ..position });
        self
    }
    /// Neutron refuses creations for now.
    pub fn blocked(mut self) -> Self {
        let block = CreationBlock { refusal: Refusal::QuotaReached, until: start() + seconds(20) };
        self.ledger.block_creation(pool_id("p"), block);
        self
    }
    /// An IPAddress of this claim of the pool `p` names the floating IP.
    pub fn published(self, claim: &str, last: u8) -> Self {
        self.publish(claim, last, id(last), start())
    }
    /// The same, with the id of this floating IP.
    pub fn published_as(self, claim: &str, last: u8, fip: FloatingIpId) -> Self {
        self.publish(claim, last, fip, start())
    }
    /// The same, by an IPAddress that was created at `since`.
    pub fn published_since(self, claim: &str, last: u8, since: Timestamp) -> Self {
        self.publish(claim, last, id(last), since)
    }
    fn publish(mut self, claim: &str, last: u8, fip: FloatingIpId, since: Timestamp) -> Self {
        let (pool, claim_key) = (pool_id("p"), key(claim));
        let binding = Some(Binding { pool, claim: claim_key, fip, network: Some(network()), since });
        self.published.insert(ObjectName::new("team", claim), PublishedAddress { address: address(last), binding });
        self
    }
    /// An IPAddress of another provider names the address.
    pub fn published_by_others(mut self, last: u8) -> Self {
        let object = ObjectName::new("team", format!("address-{last}"));
        self.published.insert(object, PublishedAddress { address: address(last), binding: None });
        self
    }
    pub fn entry(&self, last: u8) -> &LedgerEntry {
        self.ledger.get(&id(last)).expect("it is in the fixture")
    }
    pub fn situation(&self) -> Situation<'_> {
        let Self { ledger, published, namespaces, unresolved, pool, claims, queue, now, .. } = self;
        Situation { ledger, published, namespaces, unresolved, pool, claims, queue, now: *now }
    }
    /// What to do for a claim without an IPAddress.
    pub fn decide(&self, claim: &str) -> Decision {
        claim::decide(&self.situation(), &request(claim))
    }
    /// What to do for a claim whose IPAddress names this floating IP.
    pub fn decide_published(&self, claim: &str, last: u8) -> Decision {
        self.decide_bound(claim, BoundAddress { address: address(last), fip: id(last) })
    }
    pub fn decide_bound(&self, claim: &str, bound: BoundAddress) -> Decision {
        claim::decide(&self.situation(), &ClaimRequest { bound: Some(bound), ..request(claim) })
    }
    pub fn release(&self, claim: &str) -> ReleaseStep {
        release::decide(&self.situation(), &key(claim))
    }
    pub fn plan(&self) -> SweepPlan {
        self.plan_of(SweepScope::All)
    }
    pub fn plan_of(&self, scope: SweepScope) -> SweepPlan {
        plan_sweep(&self.situation(), &self.cluster, scope)
    }
    pub fn teardown(&self) -> PoolTeardown {
        plan_teardown(&self.situation(), self.cluster.is_paused)
    }
}

/// A claim without an IPAddress.
pub fn request(claim: &str) -> ClaimRequest {
    ClaimRequest {
        key: key(claim),
        object: ObjectName::new("team", claim),
        since: ago(1000),
        bound: None,
        was_bound: false,
    }
}

/// The floating IP that a decision marks.
pub fn marked(decision: &Decision) -> Option<&FloatingIpId> {
    match decision {
        Decision::Mark(id, ..) => Some(id),
        _ => None,
    }
}
