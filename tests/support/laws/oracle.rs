//! The rules of choice, stated a second time and independently of the core: marks are read as plain text, every floating
//! IP is looked at in turn, and nothing of `claim`, `supply` or `mark` is called. Of the core it shares the data types, and
//! the ledger's answer to when Neutron may be asked for a new address again.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use caip_openstack::allocation::claim::{ClaimRequest, Decision};
use caip_openstack::allocation::ledger::UNWANTED_LIMIT;
use caip_openstack::allocation::ledger::{Hold, Ledger, LedgerEntry};
use caip_openstack::allocation::origin::Origin;
use caip_openstack::allocation::policy::ReuseRule;
use caip_openstack::allocation::situation::QueuePosition;
use caip_openstack::allocation::{Nonce, PoolPolicy, Refusal};
use caip_openstack::floating_ip::{FloatingIp, FloatingIpId, NetworkId};
use jiff::Timestamp;

/// How many tags Neutron takes.
pub const MOST_TAGS: usize = 50;

/// What Kubernetes names, in plain values.
#[derive(Clone, Default, Debug)]
pub struct NamedAddresses {
    /// What IPAddresses name, with the network when the IPAddress is one of ours.
    pub published: Vec<(IpAddr, Option<NetworkId>)>,
    /// What pools list or reserve, and what clusters name for their API servers: never reused.
    pub listed: BTreeSet<IpAddr>,
}

/// What this provider wrote on a floating IP, read word by word.
#[derive(Default, Debug)]
struct MarkText {
    created_by: Option<String>,
    nonce: Option<String>,
    claims: BTreeSet<(String, String)>,
    releases: BTreeMap<(String, String), i64>,
    is_unreadable: bool,
}

impl MarkText {
    fn read(fip: &FloatingIp) -> Self {
        let mut marks = Self::default();
        if let Some(text) = fip.description.strip_prefix("caip-openstack ") {
            let text = text.split(" (").next().unwrap_or_default();
            let mut fields: BTreeMap<&str, &str> = text.split(' ').filter_map(|field| field.split_once('=')).collect();
            // Only a newer version writes a version.
            if fields.contains_key("v") {
                fields.clear();
            }
            marks.created_by = fields.get("pool").map(|pool| pool.to_string());
            marks.nonce = fields.get("nonce").map(|nonce| nonce.to_string());
            marks.is_unreadable = marks.created_by.is_none() || marks.nonce.is_none();
            if let (Some(pool), Some(claim)) = (&marks.created_by, fields.get("claim")) {
                marks.claims.insert((pool.clone(), claim.to_string()));
            }
        }
        for tag in &fip.tags {
            match tag.split('.').collect::<Vec<_>>()[..] {
                ["caip", pool, claim] if claim.len() == 16 => drop(marks.claims.insert((pool.into(), claim.into()))),
                ["caip-out", pool, claim, at] => {
                    let at = i64::from_str_radix(at, 16).expect("a time in hexadecimal");
                    let first = marks.releases.entry((pool.into(), claim.into())).or_insert(at);
                    *first = at.min(*first);
                }
                ["caip" | "caip2" | "caip-out" | "caip2-out", _, ..] => marks.is_unreadable = true,
                _ => {}
            }
        }
        marks
    }

    fn is_empty(&self) -> bool {
        self.created_by.is_none() && self.claims.is_empty() && self.releases.is_empty() && !self.is_unreadable
    }

    fn pools(&self) -> BTreeSet<&str> {
        let claims = self.claims.iter().chain(self.releases.keys()).map(|(pool, _)| pool.as_str());
        claims.chain(self.created_by.as_deref()).collect()
    }
}

/// Everything that a choice may depend on.
pub struct Oracle<'a> {
    pub ledger: &'a Ledger,
    pub named: &'a NamedAddresses,
    pub pool: &'a PoolPolicy,
    /// The claims that were refused an address.
    pub waiting: &'a BTreeSet<QueuePosition>,
    pub claim: &'a ClaimRequest,
    pub now: Timestamp,
}

/// What may be given, by source, in the order of choice.
#[derive(Debug, Default)]
pub struct Supply {
    /// The claim's reservation, if it may be given; none for a claim without a reservation.
    reserved: Option<BTreeSet<FloatingIpId>>,
    list: BTreeSet<FloatingIpId>,
    owned: BTreeSet<FloatingIpId>,
    reuse: BTreeSet<FloatingIpId>,
    /// How many may be created, as far as Neutron is concerned: one, when it refused before and may be asked again.
    creatable: usize,
    /// How many the pool has ready, those that are reserved for others included.
    ready: usize,
    /// How many it has beyond its limit, which was lowered: so many are given to no claim.
    surplus: usize,
    /// How many more the limit allows.
    room: usize,
    /// How many older claims wait for any address.
    older: usize,
    /// How many Neutron offered that may not be given, and that are not deleted yet.
    unwanted: usize,
}

impl Oracle<'_> {
    pub fn supply(&self) -> Supply {
        let mut supply = Supply {
            creatable: self.creatable(),
            surplus: self.pool.max_ips.map_or(0, |limit| self.count().saturating_sub(limit)),
            room: self.pool.max_ips.map_or(usize::MAX, |limit| limit.saturating_sub(self.count())),
            older: self.older(),
            reserved: self.reservation().map(|_| BTreeSet::new()),
            ..Supply::default()
        };
        for entry in self.ledger.entries() {
            let marks = MarkText::read(&entry.fip);
            let is_ours = marks.pools().contains(self.pool.id.as_str());
            supply.unwanted += usize::from(is_ours && entry.hold == Some(Hold::Unwanted));
            if self.is_available(entry, &marks) {
                self.add(&mut supply, entry, &marks);
            }
        }
        supply
    }

    /// Sorts an available floating IP into its source.
    fn add(&self, supply: &mut Supply, entry: &LedgerEntry, marks: &MarkText) {
        let (fip, id) = (&entry.fip, entry.fip.id.clone());
        let is_new = marks.is_empty() && self.pool.has_tags;
        let has_room = fip.tags.len() < MOST_TAGS;
        let is_on_network = self.pool.network.as_ref().is_some_and(|network| *network == fip.network);
        let is_idle = self.is_idle(marks);
        if let (Some(reserved), Some(own)) = (&mut supply.reserved, self.reservation()) {
            let is_in_reach = self.pool.network.is_none() || is_on_network;
            if fip.address == own && is_in_reach && (is_new && has_room && supply.room > 0 || is_idle) {
                reserved.insert(id.clone());
            }
        }
        let is_ready = is_on_network && (is_idle || self.is_rested(marks) && entry.seen.sequence > entry.written);
        supply.ready += usize::from(is_ready);
        if self.is_reserved_for_another(fip.address) {
            return;
        }
        if is_new && has_room && self.pool.listed.contains(&fip.address) {
            supply.list.insert(id);
        } else if is_ready {
            supply.owned.insert(id);
        } else if is_on_network && is_new && has_room && self.is_reusable(fip) {
            supply.reuse.insert(id);
        }
    }

    /// Whether nothing is under way on it, nothing is attached to it, and no IPAddress names it.
    fn is_available(&self, entry: &LedgerEntry, marks: &MarkText) -> bool {
        // A listing may show it before its POST is answered.
        let is_coming = |(nonce, _): (&Nonce, _)| marks.nonce.as_deref() == Some(nonce.as_str());
        entry.hold.is_none()
            && entry.uncertain_writes.is_empty()
            && !self.ledger.creations(&self.pool.id).any(is_coming)
            && entry.fip.port.is_none()
            && !entry.fip.is_forwarded
            && !self.is_excluded(entry.fip.address)
            && !self.is_published(&entry.fip)
    }

    fn reservation(&self) -> Option<IpAddr> {
        self.pool.reservations.get(&self.claim.object.name).copied()
    }

    fn is_reserved_for_another(&self, address: IpAddr) -> bool {
        self.pool.reservations.iter().any(|(name, other)| *name != self.claim.object.name && *other == address)
    }

    fn is_excluded(&self, address: IpAddr) -> bool {
        self.pool.excluded.iter().any(|range| range.contains(&address))
    }

    fn is_published(&self, fip: &FloatingIp) -> bool {
        self.named
            .published
            .iter()
            .any(|(address, network)| *address == fip.address && network.as_ref().is_none_or(|own| *own == fip.network))
    }

    fn is_the_pools(&self, marks: &MarkText) -> bool {
        let is_copied = self
            .ledger
            .entries()
            .filter(|entry| marks.nonce.is_some() && MarkText::read(&entry.fip).nonce == marks.nonce)
            .count()
            > 1;
        let id = self.pool.id.as_str();
        marks.created_by.as_deref() == Some(id)
            && marks.pools().iter().all(|pool| *pool == id)
            && !marks.is_unreadable
            && !is_copied
    }

    fn is_idle(&self, marks: &MarkText) -> bool {
        self.is_the_pools(marks) && marks.claims.is_empty() && marks.releases.is_empty()
    }

    /// Whether every claim on it released it, and the last of them long enough ago.
    fn is_rested(&self, marks: &MarkText) -> bool {
        let last = marks.claims.iter().filter_map(|claim| marks.releases.get(claim)).max();
        let at = last.or(marks.releases.values().max());
        self.is_the_pools(marks)
            && marks.claims.iter().all(|claim| marks.releases.contains_key(claim))
            && at.is_some_and(|at| self.now.as_second() - at >= self.pool.grace.as_secs())
    }

    fn is_reusable(&self, fip: &FloatingIp) -> bool {
        let is_old = |idle: i64| fip.changed_at.is_some_and(|at| self.now.as_second() - at.as_second() >= idle);
        let is_wanted = match &self.pool.reuse {
            ReuseRule::Never => false,
            ReuseRule::Unmarked { idle } => {
                fip.tags.is_empty() && fip.description.is_empty() && fip.dns_name.is_empty() && is_old(idle.as_secs())
            }
            ReuseRule::Tagged { tags, idle } => tags.iter().all(|tag| fip.tags.contains(tag)) && is_old(idle.as_secs()),
        };
        let is_reserved = self.pool.reservations.values().any(|address| *address == fip.address);
        is_wanted && !is_reserved && !self.named.listed.contains(&fip.address)
    }

    fn creatable(&self) -> usize {
        let may_create = self.pool.network.is_some() && self.ledger.may_create(self.pool, self.now);
        match (may_create, self.ledger.is_probing(self.pool, self.now)) {
            (false, _) => 0,
            (true, true) => 1,
            (true, false) => usize::MAX,
        }
    }

    /// How many have the pool's mark, or may have it at any moment.
    fn count(&self) -> usize {
        let is_the_pools = |hold: &Hold| matches!(hold, Hold::Claim { pool, .. } if *pool == self.pool.id);
        let entries = self.ledger.entries().filter(|entry| {
            MarkText::read(&entry.fip).pools().contains(self.pool.id.as_str())
                || entry.hold.as_ref().is_some_and(is_the_pools)
                || entry.uncertain_writes.iter().filter_map(|write| write.by.as_ref()).any(is_the_pools)
        });
        let seen: BTreeSet<String> =
            self.ledger.entries().filter_map(|entry| MarkText::read(&entry.fip).nonce).collect();
        let coming = self.ledger.creations(&self.pool.id).filter(|(nonce, _)| !seen.contains(nonce.as_str()));
        entries.count() + coming.count()
    }

    fn older(&self) -> usize {
        let waits_for_any = |name: &str| !self.pool.reservations.contains_key(name);
        self.waiting
            .iter()
            .filter(|place| (place.since, &place.object) < (self.claim.since, &self.claim.object))
            .filter(|place| waits_for_any(&place.object.name))
            .filter(|place| !self.ledger.is_getting_address(&self.pool.id, &place.key))
            .count()
    }

    /// Whether the rules allow the decision. Only for choices: neither what is recovered, nor the end of an earlier choice.
    pub fn judge(&self, decision: &Decision) -> Result<(), String> {
        let supply = self.supply();
        let wrong = |why: &str| Err(format!("{decision:?}: {why}; {supply:?}"));
        match decision {
            Decision::Mark(id, Origin::Reserved, _) => match &supply.reserved {
                Some(reserved) if reserved.contains(id) => Ok(()),
                _ => wrong("not the claim's reservation, or not available"),
            },
            _ if supply.reserved.is_some() => match decision {
                Decision::Refuse(_) if supply.reserved.as_ref().is_some_and(BTreeSet::is_empty) => Ok(()),
                // All that the pool has is beyond its limit, which was lowered.
                Decision::Refuse(Refusal::LimitReached(_)) if supply.ready.max(1) <= supply.surplus => Ok(()),
                _ => wrong("a claim with a reservation gets that, or waits"),
            },
            Decision::Mark(id, ..) | Decision::TakeBack(id, _) => match supply.best() {
                Some(best) if best.contains(id) && supply.existing() > supply.older => Ok(()),
                _ => wrong("not of the first source that has any, or an older claim's"),
            },
            Decision::Create(..) if supply.existing() > supply.older => wrong("one was available without creating"),
            Decision::Create(..) if supply.creatable == 0 || supply.amount() <= supply.older => {
                wrong("nothing to create")
            }
            Decision::Refuse(Refusal::OnlyUnwanted) if !self.has_only_unwanted() => wrong("none was unwanted"),
            Decision::Refuse(Refusal::OnlyUnwanted)
                if self.pool.subnets.is_empty() && supply.unwanted >= UNWANTED_LIMIT =>
            {
                Ok(())
            }
            Decision::Refuse(_) if supply.existing() <= supply.older && self.is_every_subnet_empty() => Ok(()),
            Decision::Refuse(_) if supply.amount() > supply.older => wrong("an address is available"),
            _ => Ok(()),
        }
    }

    fn has_only_unwanted(&self) -> bool {
        self.ledger.offers_only_unwanted(self.pool)
            || self.is_every_subnet_empty() && self.ledger.subnets_refusal(self.pool) == Refusal::OnlyUnwanted
    }

    fn is_every_subnet_empty(&self) -> bool {
        !self.pool.subnets.is_empty() && self.ledger.usable_subnet(self.pool, self.now).is_none()
    }
}

impl Supply {
    /// The first source that has any.
    fn best(&self) -> Option<&BTreeSet<FloatingIpId>> {
        let sources = [(&self.list, self.room > 0), (&self.owned, self.givable() > 0), (&self.reuse, self.room > 0)];
        sources.into_iter().find(|(source, is_open)| *is_open && !source.is_empty()).map(|(source, _)| source)
    }

    /// How many claims can be served.
    fn amount(&self) -> usize {
        self.with_created(self.creatable)
    }

    /// How many of them without creating anything, which may fail.
    fn existing(&self) -> usize {
        self.with_created(0)
    }

    fn with_created(&self, creatable: usize) -> usize {
        let others = (self.list.len() + self.reuse.len()).saturating_add(creatable);
        self.givable().saturating_add(others.min(self.room))
    }

    /// How many of the pool's own may be given.
    fn givable(&self) -> usize {
        self.owned.len().min(self.ready.saturating_sub(self.surplus))
    }
}
