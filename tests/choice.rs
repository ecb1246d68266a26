//! Law 7 for single decisions: in generated situations, what the core gives a claim is what the oracle, a second statement
//! of the rules, would give, and the core refuses only where the oracle finds nothing. `PROPTEST_CASES=100000` for more.

#![allow(clippy::restriction, reason = "a panic fails the test")]
#![warn(clippy::dbg_macro, clippy::todo, clippy::unwrap_used)]

#[path = "support/laws/oracle.rs"]
mod oracle;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use caip_openstack::allocation::claim::{ClaimRequest, decide};
use caip_openstack::allocation::ledger::{CreationBlock, Hold, LedgerEntry, Viewer};
use caip_openstack::allocation::mark::{CreationMark, Ownership, claim_tag, release_tag};
use caip_openstack::allocation::policy::ReuseRule;
use caip_openstack::allocation::published::{Binding, PublishedAddress};
use caip_openstack::allocation::situation::{ClaimState, QueuePosition};
use caip_openstack::allocation::sweep::{ClusterView, SweepScope, plan_sweep};
use caip_openstack::allocation::{
    CapoAddresses, ClaimKey, Ledger, Nonce, PoolId, PoolPolicy, PublishedAddresses, Refusal,
};
use caip_openstack::floating_ip::{FloatingIp, FloatingIpId, NetworkId, PortId, ProjectId, SubnetId};
use caip_openstack::object_name::ObjectName;
use jiff::{SignedDuration, Timestamp};
use oracle::{NamedAddresses, Oracle};
use proptest::prelude::*;
use proptest::test_runner::Config;

/// How many addresses the network has.
const ADDRESSES: u8 = 6;
/// The other claims of the pool; the first may have a reservation, as the claim that is decided for may.
const OTHERS: [&str; 3] = ["db", "old", "young"];

/// What is written on a floating IP.
#[derive(Clone, Copy, Debug)]
enum Marking {
    Plain,
    UsersTag,
    UsersDescription,
    /// Tagged for another claim of the pool.
    Tagged,
    /// Created by the pool, and free.
    Idle,
    /// Created by the pool, for another claim.
    Held,
    /// The same, with the release of an earlier claim.
    Retaken,
    /// Created by the pool, and released so many seconds ago.
    Released(u8),
    /// A user's tag, and the mark of another pool's claim.
    ForeignTag,
    CreatedByAnother,
    /// Created by the pool, with another owner's tag.
    Contested,
    /// With the same creation mark as every other copied one.
    Copied,
}

#[derive(Clone, Debug)]
struct Row {
    marking: Marking,
    is_attached: bool,
    is_changed_lately: bool,
    is_on_network: bool,
    hold: Option<Hold>,
    is_uncertain: bool,
    /// Whether it was written after it was last listed.
    is_unconfirmed: bool,
    /// Whether the POST that creates it is not answered yet.
    is_arriving: bool,
    /// Whether an IPAddress names it: one of ours, or another provider's.
    published: Option<bool>,
}

#[derive(Clone, Debug)]
struct Spec {
    listed: Vec<u8>,
    has_network: bool,
    subnets: u8,
    max_ips: Option<usize>,
    reuse: u8,
    excluded: Option<u8>,
    /// What a cluster of CAPO names, in the pool's namespace or in another.
    named_by_cluster: Option<(u8, bool)>,
    reservations: [Option<u8>; 2],
    grace: i64,
    has_tags: bool,
}

#[derive(Clone, Debug)]
struct Situation {
    rows: Vec<Option<Row>>,
    spec: Spec,
    /// The claims that wait, by their index in [`OTHERS`], and how long.
    waiting: Vec<(usize, i64)>,
    /// POSTs that are under way.
    creations: u8,
    /// Whether Neutron refused to create, and whether it may be asked again.
    block: Option<bool>,
    /// Whether Neutron offered only what may not be given, and whether it may be asked again.
    unwanted_offers: Option<bool>,
    empty_subnets: u8,
}

fn pool_id() -> PoolId {
    PoolId::parse("p").expect("of the form of an id")
}

fn another_pool() -> PoolId {
    PoolId::parse("theirs").expect("of the form of an id")
}

fn key(claim: &str) -> ClaimKey {
    ClaimKey::of("team", claim)
}

fn nonce(number: u8) -> Nonce {
    Nonce::parse(&format!("nonce00{number:03}")).expect("of the form of a nonce")
}

fn address(index: u8) -> IpAddr {
    IpAddr::from([203, 0, 113, 10 + index])
}

fn fip_id(index: u8) -> FloatingIpId {
    FloatingIpId::new(format!("fip-{index}"))
}

fn seconds(count: i64) -> SignedDuration {
    SignedDuration::from_secs(count)
}

fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).expect("in range")
}

fn position(claim: &str, age: i64) -> QueuePosition {
    QueuePosition {
        since: now() - seconds(age),
        object: ObjectName::new("team", claim),
        key: ClaimKey::of("team", claim),
    }
}

fn hold() -> impl Strategy<Value = Hold> {
    prop_oneof![Just(Hold::Claim { pool: pool_id(), claim: key("db") }), Just(Hold::Cleanup), Just(Hold::Unwanted)]
}

fn marking() -> impl Strategy<Value = Marking> {
    prop_oneof![
        6 => Just(Marking::Plain),
        1 => Just(Marking::UsersTag),
        1 => Just(Marking::UsersDescription),
        2 => Just(Marking::Tagged),
        3 => Just(Marking::Idle),
        2 => Just(Marking::Held),
        1 => Just(Marking::Retaken),
        3 => prop::sample::select(vec![0, 30, 59, 60, 200]).prop_map(Marking::Released),
        1 => Just(Marking::ForeignTag),
        1 => Just(Marking::CreatedByAnother),
        1 => Just(Marking::Contested),
        1 => Just(Marking::Copied),
    ]
}

fn rarely<T: std::fmt::Debug + Clone>(
    value: impl Strategy<Value = T> + Clone,
) -> impl Strategy<Value = Option<T>> + Clone {
    prop::option::weighted(0.15, value)
}

fn row() -> impl Strategy<Value = Row> {
    let flag = || prop::bool::weighted(0.1);
    (marking(), flag(), flag(), prop::bool::weighted(0.9), prop::option::weighted(0.1, hold()), flag(), flag(), flag())
        .prop_flat_map(|row| (Just(row), rarely(any::<bool>())))
        .prop_map(
            |(
                (marking, is_attached, is_changed_lately, is_on_network, hold, is_uncertain, unconfirmed, arriving),
                published,
            )| {
                let is_unconfirmed = unconfirmed;
                let is_arriving = arriving;
                Row {
                    marking,
                    is_attached,
                    is_changed_lately,
                    is_on_network,
                    hold,
                    is_uncertain,
                    is_unconfirmed,
                    is_arriving,
                    published,
                }
            },
        )
}

fn spec() -> impl Strategy<Value = Spec> {
    let listed = prop::collection::btree_set(0..ADDRESSES, 0..3).prop_map(|set| set.into_iter().rev().collect());
    let reserved = || rarely(0..ADDRESSES);
    (
        (listed, prop::bool::weighted(0.8), 0..3u8, prop::option::of(0..7usize)),
        (0..3u8, rarely(0..ADDRESSES), rarely((0..ADDRESSES, any::<bool>())), reserved(), reserved()),
        (prop::sample::select(vec![0, 60]), prop::bool::weighted(0.9)),
    )
        .prop_map(
            |(
                (listed, has_network, subnets, max_ips),
                (reuse, excluded, named_by_cluster, ours, others),
                (grace, has_tags),
            )| {
                let reservations = [ours, others.filter(|address| ours != Some(*address))];
                Spec {
                    listed,
                    has_network,
                    subnets,
                    max_ips,
                    reuse,
                    excluded,
                    named_by_cluster,
                    reservations,
                    grace,
                    has_tags,
                }
            },
        )
}

fn situation() -> impl Strategy<Value = Situation> {
    let rows = prop::collection::vec(prop::option::weighted(0.6, row()), usize::from(ADDRESSES));
    let waiting = prop::collection::vec((0..OTHERS.len(), prop::sample::select(vec![500, 1000, 2000])), 0..3);
    (rows, spec(), waiting, 0..2u8, rarely(any::<bool>()), rarely(any::<bool>()), 0..3u8).prop_map(
        |(rows, spec, waiting, creations, block, unwanted_offers, empty_subnets)| Situation {
            rows,
            spec,
            waiting,
            creations,
            block,
            unwanted_offers,
            empty_subnets,
        },
    )
}

impl Row {
    fn creation_mark(&self, index: u8) -> Option<CreationMark> {
        let (pool, nonce, claim) = match self.marking {
            Marking::Idle | Marking::Contested => (pool_id(), nonce(index), None),
            Marking::Held | Marking::Retaken | Marking::Released(_) => (pool_id(), nonce(index), Some(key("db"))),
            Marking::Copied => (pool_id(), nonce(100), None),
            Marking::CreatedByAnother => (another_pool(), nonce(200 + index), None),
            _ => return None,
        };
        Some(CreationMark { pool, nonce, claim, released: None, is_retained: false })
    }

    fn fip(&self, index: u8) -> FloatingIp {
        let prod = || "prod".to_owned();
        let foreign_claim = || claim_tag(&another_pool(), &key("db"));
        let tags = match self.marking {
            Marking::UsersTag => vec![prod()],
            Marking::Tagged => vec![claim_tag(&pool_id(), &key("db"))],
            Marking::ForeignTag => vec![prod(), foreign_claim()],
            Marking::Released(ago) => vec![release_tag(&pool_id(), &key("db"), now() - seconds(ago.into()))],
            Marking::Retaken => vec![release_tag(&pool_id(), &key("old"), now() - seconds(1000))],
            Marking::Contested => vec![foreign_claim()],
            _ => vec![],
        };
        let description = match self.marking {
            Marking::UsersDescription => "mail".to_owned(),
            _ => self.creation_mark(index).map(|mark| mark.render(None)).unwrap_or_default(),
        };
        FloatingIp {
            id: fip_id(index),
            address: address(index),
            network: NetworkId::new(if self.is_on_network { "public" } else { "another" }),
            project: ProjectId::new("project"),
            port: self.is_attached.then(|| PortId::new("port")),
            is_forwarded: false,
            description,
            tags: tags.into_iter().collect(),
            dns_name: String::new(),
            changed_at: Some(now() - seconds(if self.is_changed_lately { 10 } else { 100_000 })),
            created_at: Some(now() - seconds(100_000)),
        }
    }

    /// What the ledger knows beside what was listed.
    fn apply(&self, index: u8, ledger: &mut Ledger) {
        if let Some(mark) = self.creation_mark(index).filter(|_| self.is_arriving) {
            ledger.begin_creation(mark.nonce, pool_id(), None);
        }
        if self.is_uncertain {
            ledger.set_hold(&fip_id(index), Some(Hold::Claim { pool: pool_id(), claim: key("db") }));
            ledger.note_uncertain_write(&fip_id(index), now());
        }
        ledger.set_hold(&fip_id(index), self.hold.clone());
        if self.is_unconfirmed {
            ledger.record_tag(&fip_id(index), "a-tag-that-was-taken-off", false);
        }
    }
}

impl Situation {
    fn rows(&self) -> impl Iterator<Item = (u8, &Row)> {
        (0..).zip(&self.rows).filter_map(|(index, row)| Some((index, row.as_ref()?)))
    }

    fn policy(&self) -> PoolPolicy {
        let spec = &self.spec;
        let [ours, others] = spec.reservations;
        let reserve = |claim: &str, index: Option<u8>| index.map(|index| (claim.to_owned(), address(index)));
        let idle = seconds(300);
        PoolPolicy {
            namespace: "team".into(),
            id: pool_id(),
            viewer: Viewer::default(),
            listed: spec.listed.iter().map(|index| address(*index)).collect(),
            network: spec.has_network.then(|| NetworkId::new("public")),
            subnets: (0..spec.subnets).map(|index| SubnetId::new(format!("subnet-{index}"))).collect(),
            max_ips: spec.max_ips,
            deletes: true,
            reuse: match spec.reuse {
                0 => ReuseRule::Never,
                1 => ReuseRule::Unmarked { idle },
                _ => ReuseRule::Tagged { tags: ["prod".to_owned()].into(), idle },
            },
            excluded: spec.excluded.iter().map(|index| address(*index).into()).collect(),
            reservations: reserve("web", ours).into_iter().chain(reserve("db", others)).collect::<BTreeMap<_, _>>(),
            min_free: 0,
            tags: BTreeSet::new(),
            grace: seconds(spec.grace),
            releases_orphans: true,
            orphan_grace: seconds(3600),
            has_tags: spec.has_tags,
            fenced_until: None,
            only_releases: false,
        }
    }

    fn ledger(&self) -> Ledger {
        let mut ledger = Ledger::default();
        let began = ledger.begin(now());
        ledger.record_listing(began, self.rows().map(|(index, row)| row.fip(index)).collect(), now());
        self.rows().for_each(|(index, row)| row.apply(index, &mut ledger));
        for number in 0..self.creations {
            ledger.begin_creation(nonce(210 + number), pool_id(), Some(key("db")));
        }
        let until = |may_ask: bool| now() + seconds(if may_ask { -1 } else { 20 });
        for index in 0..self.empty_subnets.min(self.spec.subnets) {
            ledger.note_empty_subnet(&pool_id(), SubnetId::new(format!("subnet-{index}")), until(false));
        }
        if let Some(may_ask) = self.unwanted_offers {
            let first = self.policy().subnets.first().cloned();
            ledger.note_only_unwanted(&pool_id(), first.as_ref(), now() - seconds(if may_ask { 1000 } else { 0 }));
        } else if let Some(may_ask) = self.block {
            ledger.block_creation(pool_id(), CreationBlock { refusal: Refusal::QuotaReached, until: until(may_ask) });
        }
        ledger
    }

    fn waiting(&self) -> BTreeSet<QueuePosition> {
        self.waiting.iter().map(|(claim, age)| position(OTHERS[*claim], *age)).collect()
    }

    /// What Kubernetes names, as the core and as the oracle take it.
    fn published(&self) -> (PublishedAddresses, NamedAddresses) {
        let policy = self.policy();
        let listed: BTreeSet<IpAddr> = policy.listed.iter().chain(policy.reservations.values()).copied().collect();
        let (mut published, mut named) = (PublishedAddresses::default(), NamedAddresses::default());
        published.set_listed(ObjectName::new("team", "p"), listed.clone());
        named.listed = listed;
        if let Some((index, is_in_the_namespace)) = self.spec.named_by_cluster {
            let namespace = if is_in_the_namespace { "team" } else { "elsewhere" };
            let mut by_clusters = CapoAddresses::default();
            by_clusters.add(namespace, [address(index)]);
            published.set_named_by_clusters(Some(by_clusters));
            named.listed.extend(is_in_the_namespace.then(|| address(index)));
        }
        for (index, row) in self.rows() {
            let Some(is_ours) = row.published else { continue };
            let network = row.fip(index).network;
            let (pool, claim, since) = (pool_id(), key("db"), Timestamp::UNIX_EPOCH);
            let binding = Binding { pool, claim, fip: fip_id(index), network: Some(network.clone()), since };
            let ours = is_ours.then_some(binding);
            let object = ObjectName::new("team", format!("address-{index}"));
            published.insert(object, PublishedAddress { address: address(index), binding: ours });
            named.published.push((address(index), is_ours.then_some(network)));
        }
        (published, named)
    }
}

fn config() -> Config {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(4096);
    Config { cases, ..Config::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn every_choice_and_every_refusal_is_what_the_oracle_would_decide(situation in situation()) {
        let (ledger, pool, (published, named)) = (situation.ledger(), situation.policy(), situation.published());
        let QueuePosition { since, object, .. } = position("web", 1000);
        let claim = ClaimRequest { key: key("web"), object, since, bound: None, was_bound: false };
        let waiting = situation.waiting();
        let namespaces = ["team".to_owned()].into();
        let core = caip_openstack::allocation::Situation { ledger: &ledger, published: &published, namespaces: &namespaces, unresolved: &BTreeSet::new(), pool: &pool, claims: &BTreeMap::new(), queue: &waiting, now: now() };
        let decision = decide(&core, &claim);
        let oracle = Oracle { ledger: &ledger, named: &named, pool: &pool, waiting: &waiting, claim: &claim, now: now() };
        prop_assert_eq!(oracle.judge(&decision), Ok(()));
    }

    /// Sweeps that leave out the addresses with one claim's mark do as much as those of all, but for orphans (here, none is
    /// old) and for what their claim may not have.
    #[test]
    fn a_sweep_of_unsettled_addresses_does_what_one_of_all_does(situation in situation(), min_free in 0..3usize, is_bound in any::<bool>()) {
        let (ledger, policy, (published, _)) = (situation.ledger(), situation.policy(), situation.published());
        let (waiting, namespaces, pool) = (situation.waiting(), ["team".to_owned()].into(), PoolPolicy { min_free, ..policy });
        let state = if is_bound { ClaimState::Bound } else { ClaimState::Waiting };
        let claims = [(key("db"), state)].into();
        let core = caip_openstack::allocation::Situation { ledger: &ledger, published: &published, namespaces: &namespaces, unresolved: &BTreeSet::new(), pool: &pool, claims: &claims, queue: &waiting, now: now() };
        let [mut all, unsettled] = [SweepScope::All, SweepScope::Unsettled].map(|scope| plan_sweep(&core, &ClusterView::default(), scope));
        let may_not_have = |entry: &LedgerEntry| matches!(entry.marks.ownership(&pool.id), Ownership::Claimed(claim) if !pool.allows(entry.fip.address, &claim));
        let is_left_out = |id: &FloatingIpId| ledger.get(id).is_some_and(|entry| may_not_have(entry) && entry.marks.releases.is_empty());
        let left_out = all.actions.extract_if(.., |action| is_left_out(action.id())).count();
        // Under a limit that was lowered, as many others may stay.
        let most = ledger.entries().count() + ledger.creations(&pool.id).count();
        if left_out == 0 || pool.max_ips.is_none_or(|limit| most <= limit) {
            prop_assert_eq!((&all.actions, all.new_spares, all.offered), (&unsettled.actions, unsettled.new_spares, unsettled.offered));
        }
        prop_assert!(all.must_list == unsettled.must_list || ledger.entries().any(may_not_have));
    }
}
