//! The choice of an address, stated once more without looking at how the core makes it: from plain text, by brute force.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use caip_openstack::allocation::claim::{ClaimRequest, Decision, Origin, UNWANTED_LIMIT};
use caip_openstack::allocation::ledger::{Hold, Ledger};
use caip_openstack::allocation::policy::ReusePolicy;
use caip_openstack::allocation::{Nonce, PoolPolicy, Refusal};
use caip_openstack::floating_ip::{FloatingIp, FloatingIpId, NetworkId};
use jiff::Timestamp;

/// What Kubernetes names, in plain values.
#[derive(Clone, Default, Debug)]
pub struct Names {
    /// Addresses that IPAddresses name, with the network when it is one of ours.
    pub addresses: Vec<(IpAddr, Option<NetworkId>)>,
    /// Addresses that pools list or reserve.
    pub listed: BTreeSet<IpAddr>,
}

/// What our kind wrote on a floating IP, read word by word.
#[derive(Default, Debug)]
struct Words {
    created_by: Option<String>,
    nonce: Option<String>,
    claims: BTreeSet<(String, String)>,
    releases: BTreeMap<(String, String), i64>,
    is_odd: bool,
}

impl Words {
    fn read(fip: &FloatingIp) -> Self {
        let mut words = Self::default();
        if let Some(text) = fip.description.strip_prefix("caip-openstack ") {
            let fields: BTreeMap<&str, &str> = text
                .split(" (")
                .next()
                .expect("a split has a first part")
                .split(' ')
                .filter_map(|field| field.split_once('='))
                .collect();
            words.created_by = fields.get("pool").map(|pool| pool.to_string());
            words.nonce = fields.get("nonce").map(|nonce| nonce.to_string());
            words.is_odd = words.created_by.is_none() || words.nonce.is_none();
            if let (Some(pool), Some(claim)) = (&words.created_by, fields.get("claim")) {
                words.claims.insert((pool.clone(), claim.to_string()));
            }
        }
        for tag in &fip.tags {
            match tag.split('.').collect::<Vec<_>>()[..] {
                ["caip", pool, claim] if claim.len() == 16 => drop(words.claims.insert((pool.into(), claim.into()))),
                ["caip-out", pool, claim, at] => {
                    let at = i64::from_str_radix(at, 16).expect("a time in hexadecimal");
                    let first = words.releases.entry((pool.into(), claim.into())).or_insert(at);
                    *first = at.min(*first);
                }
                ["caip" | "caip-out", ..] => words.is_odd = true,
                _ => {}
            }
        }
        words
    }

    fn is_none(&self) -> bool {
        self.created_by.is_none() && self.claims.is_empty() && self.releases.is_empty() && !self.is_odd
    }

    fn pools(&self) -> BTreeSet<&str> {
        let claims = self.claims.iter().chain(self.releases.keys()).map(|(pool, _)| pool.as_str());
        claims.chain(self.created_by.as_deref()).collect()
    }
}

/// Everything that a choice may depend on.
pub struct Question<'a> {
    pub ledger: &'a Ledger,
    pub names: &'a Names,
    pub pool: &'a PoolPolicy,
    pub claim: &'a ClaimRequest,
    pub now: Timestamp,
}

/// What may be given, by class, in the order of choice.
#[derive(Debug, Default)]
pub struct Supply {
    reserved: Option<BTreeSet<FloatingIpId>>,
    list: BTreeSet<FloatingIpId>,
    owned: BTreeSet<FloatingIpId>,
    /// How many the pool has ready, those that are reserved for others included.
    ready: usize,
    /// How many it has beyond its limit, which was lowered: so many of them go and are given to nobody.
    surplus: usize,
    reuse: BTreeSet<FloatingIpId>,
    /// How many may be created, as far as Neutron goes: one, when it refused before and may be asked again.
    creatable: usize,
    room: usize,
    older: usize,
    unwanted: usize,
}

impl Question<'_> {
    pub fn supply(&self) -> Supply {
        let mut supply = Supply {
            creatable: self.creatable(),
            surplus: self.pool.max_ips.map_or(0, |limit| self.count().saturating_sub(limit)),
            room: self.pool.max_ips.map_or(usize::MAX, |limit| limit.saturating_sub(self.count())),
            older: self.older(),
            ..Supply::default()
        };
        let own_address = self.pool.reservations.get(&self.claim.object.name);
        supply.reserved = own_address.map(|_| BTreeSet::new());
        for entry in self.ledger.entries() {
            let (fip, words) = (&entry.fip, Words::read(&entry.fip));
            supply.unwanted +=
                usize::from(entry.hold == Some(Hold::Unwanted) && words.pools().contains(self.pool.id.as_str()));
            // A listing may show it before its POST is answered.
            let is_coming = |(nonce, _): (&Nonce, _)| words.nonce.as_deref() == Some(nonce.as_str());
            let is_busy =
                entry.hold.is_some() || !entry.doubts.is_empty() || self.ledger.creations(&self.pool.id).any(is_coming);
            if is_busy
                || fip.port.is_some()
                || fip.is_forwarded
                || self.is_excluded(fip.address)
                || self.is_published(fip)
            {
                continue;
            }
            let is_on_network = self.pool.network.as_ref().is_some_and(|network| *network == fip.network);
            let is_idle = self.is_idle(&words);
            if let (Some(reserved), Some(own)) = (&mut supply.reserved, own_address) {
                let is_new = words.is_none() && self.pool.has_tags && supply.room > 0;
                let is_in_reach = self.pool.network.is_none() || is_on_network;
                if fip.address == *own && is_in_reach && (is_new || is_idle) {
                    reserved.insert(fip.id.clone());
                }
            }
            let is_ready = is_on_network && (is_idle || self.is_rested(&words) && entry.seen > entry.written);
            supply.ready += usize::from(is_ready);
            let others: Vec<&IpAddr> = self
                .pool
                .reservations
                .iter()
                .filter(|(name, _)| **name != self.claim.object.name)
                .map(|(_, address)| address)
                .collect();
            if others.contains(&&fip.address) {
                continue;
            }
            if words.is_none() && self.pool.has_tags && self.pool.listed.contains(&fip.address) {
                supply.list.insert(fip.id.clone());
            } else if is_ready {
                supply.owned.insert(fip.id.clone());
            } else if is_on_network && words.is_none() && self.is_reusable(fip) {
                supply.reuse.insert(fip.id.clone());
            }
        }
        supply
    }

    fn is_excluded(&self, address: IpAddr) -> bool {
        self.pool.excluded.iter().any(|range| range.contains(&address))
    }

    fn is_published(&self, fip: &FloatingIp) -> bool {
        self.names
            .addresses
            .iter()
            .any(|(address, network)| *address == fip.address && network.as_ref().is_none_or(|own| *own == fip.network))
    }

    fn is_the_pools(&self, words: &Words) -> bool {
        let is_copied = self
            .ledger
            .entries()
            .filter(|entry| words.nonce.is_some() && Words::read(&entry.fip).nonce == words.nonce)
            .count()
            > 1;
        let id = self.pool.id.as_str();
        words.created_by.as_deref() == Some(id)
            && words.pools().iter().all(|pool| *pool == id)
            && !words.is_odd
            && !is_copied
    }

    fn is_idle(&self, words: &Words) -> bool {
        self.is_the_pools(words) && words.claims.is_empty() && words.releases.is_empty()
    }

    /// Every claim on it gave it back, and the one that had it last did so long enough ago.
    fn is_rested(&self, words: &Words) -> bool {
        let last = words.claims.iter().filter_map(|claim| words.releases.get(claim)).max();
        let at = last.or(words.releases.values().max());
        self.is_the_pools(words)
            && words.claims.iter().all(|claim| words.releases.contains_key(claim))
            && at.is_some_and(|at| self.now.as_second() - at >= self.pool.grace.as_secs())
    }

    fn is_reusable(&self, fip: &FloatingIp) -> bool {
        let is_old = |idle: i64| fip.changed_at.is_some_and(|at| self.now.as_second() - at.as_second() >= idle);
        let is_wanted = match &self.pool.reuse {
            ReusePolicy::Never => false,
            ReusePolicy::Unmarked { idle } => {
                fip.tags.is_empty() && fip.description.is_empty() && fip.dns_name.is_empty() && is_old(idle.as_secs())
            }
            ReusePolicy::Tagged { tags, idle } => {
                tags.iter().all(|tag| fip.tags.contains(tag)) && is_old(idle.as_secs())
            }
        };
        let is_reserved = self.pool.reservations.values().any(|address| *address == fip.address);
        is_wanted && self.pool.has_tags && !is_reserved && !self.names.listed.contains(&fip.address)
    }

    fn creatable(&self) -> usize {
        let may_create = self.pool.network.is_some() && self.ledger.may_create(&self.pool.id, self.now);
        match (may_create, self.ledger.is_probing(&self.pool.id, self.now)) {
            (false, _) => 0,
            (true, true) => 1,
            (true, false) => usize::MAX,
        }
    }

    /// Everything that has the pool's mark, or may have it any moment.
    fn count(&self) -> usize {
        let is_the_pools = |hold: &Hold| matches!(hold, Hold::Claim { pool, .. } if *pool == self.pool.id);
        let entries = self.ledger.entries().filter(|entry| {
            Words::read(&entry.fip).pools().contains(self.pool.id.as_str())
                || entry.hold.as_ref().is_some_and(is_the_pools)
                || entry.doubts.iter().filter_map(|doubt| doubt.by.as_ref()).any(is_the_pools)
        });
        let seen: BTreeSet<String> = self.ledger.entries().filter_map(|entry| Words::read(&entry.fip).nonce).collect();
        let coming = self.ledger.creations(&self.pool.id).filter(|(nonce, _)| !seen.contains(nonce.as_str()));
        entries.count() + coming.count()
    }

    fn older(&self) -> usize {
        let waits_for_any = |name: &str| !self.pool.reservations.contains_key(name);
        self.ledger
            .waiting(&self.pool.id)
            .filter(|place| (place.since, &place.object) < (self.claim.since, &self.claim.object))
            .filter(|place| waits_for_any(&place.object.name))
            .count()
    }

    /// Whether the decision is one that the rules allow. Only for choices: what is recovered or finished is not chosen.
    pub fn judge(&self, decision: &Decision) -> Result<(), String> {
        let supply = self.supply();
        let wrong = |why: &str| Err(format!("{decision:?}: {why}; {supply:?}"));
        match decision {
            Decision::Mark(id, Origin::Reserved, _) => match &supply.reserved {
                Some(reserved) if reserved.contains(id) => Ok(()),
                _ => wrong("not the claim's reservation, or not to be had"),
            },
            _ if supply.reserved.is_some() => match decision {
                Decision::Refuse(_) if supply.reserved.as_ref().is_some_and(BTreeSet::is_empty) => Ok(()),
                Decision::Refuse(Refusal::LimitReached(_)) if supply.room == 0 => Ok(()),
                _ => wrong("a claim with a reservation gets that, or waits"),
            },
            Decision::Mark(id, ..) | Decision::TakeBack(id, _) => match supply.best() {
                Some(best) if best.contains(id) && supply.amount() > supply.older => Ok(()),
                _ => wrong("not of the first class that has any, or an older claim's"),
            },
            Decision::Create(..) if supply.best().is_some() => wrong("there was one without creating"),
            Decision::Create(..) if supply.creatable == 0 || supply.amount() <= supply.older => {
                wrong("nothing to create")
            }
            Decision::Refuse(Refusal::OnlyUnwanted) if !self.ledger.is_barren(&self.pool.id) => {
                wrong("none was unwanted")
            }
            Decision::Refuse(Refusal::OnlyUnwanted) if supply.unwanted >= UNWANTED_LIMIT => Ok(()),
            Decision::Refuse(Refusal::OnlyUnwanted | Refusal::NetworkExhausted)
                if supply.best().is_none() && self.is_every_subnet_empty() =>
            {
                Ok(())
            }
            Decision::Refuse(_) if supply.amount() > supply.older => wrong("there is one to give"),
            _ => Ok(()),
        }
    }

    fn is_every_subnet_empty(&self) -> bool {
        !self.pool.subnets.is_empty() && self.pool.subnets.iter().all(|subnet| !self.ledger.may_ask(subnet, self.now))
    }
}

impl Supply {
    /// The first class that has any.
    fn best(&self) -> Option<&BTreeSet<FloatingIpId>> {
        let classes = [(&self.list, self.room > 0), (&self.owned, self.givable() > 0), (&self.reuse, self.room > 0)];
        classes.into_iter().find(|(class, is_open)| *is_open && !class.is_empty()).map(|(class, _)| class)
    }

    /// How many claims can be served.
    fn amount(&self) -> usize {
        let others = (self.list.len() + self.reuse.len()).saturating_add(self.creatable);
        self.givable().saturating_add(others.min(self.room))
    }

    /// How many of the pool's own may be given.
    fn givable(&self) -> usize {
        self.owned.len().min(self.ready.saturating_sub(self.surplus))
    }
}
