//! Laws 1 to 6: what IPAddresses name, and what the marks in Neutron say.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use caip_openstack::allocation::mark::{Marks, Ownership};
use caip_openstack::allocation::{ClaimKey, PoolId, PoolPolicy};
use caip_openstack::api::names::POOL_KIND;
use caip_openstack::floating_ip::{FloatingIp, FloatingIpId};
use jiff::SignedDuration;

use super::objects::{Binding, binding, claim_key, condition, is_deleting, of_kind, pool_id, pool_of, text};
use super::oracle::MOST_TAGS;
use super::spec::policy;
use super::{Snapshot, Violation};

/// How far the clocks of two controllers may be apart.
const CLOCK_SKEW: SignedDuration = SignedDuration::from_secs(60);

/// Within this time a pool deletes what Neutron offered and it does not want.
const LONGEST_OFFER: SignedDuration = SignedDuration::from_mins(5);

pub fn check(snapshot: &Snapshot) -> Vec<Violation> {
    let view = View::read(snapshot);
    let mut violations = view.no_address_is_given_twice();
    violations.extend(view.what_others_created_is_there());
    violations.extend(view.limits_are_kept());
    violations.extend(view.addresses_are_of_their_floating_ips());
    if snapshot.is_quiet {
        violations.extend(view.nothing_leaks());
        violations.extend(view.marks_name_the_holder());
    }
    violations
}

/// A snapshot, with what these laws need of Kubernetes' objects.
struct View<'a> {
    snapshot: &'a Snapshot,
    bindings: Vec<Binding>,
    /// What IPAddresses of other providers name.
    named_by_others: BTreeSet<IpAddr>,
    pools: Vec<PoolPolicy>,
    deleting_pools: BTreeSet<PoolId>,
    claims: BTreeSet<(PoolId, ClaimKey)>,
    /// The pools that do not say that they have a problem. The others only release, and keep their spares.
    untroubled: BTreeSet<PoolId>,
    /// The pools with a problem for which claims wait: these get what is released first, once the problem is solved.
    waited_for: BTreeSet<PoolId>,
}

impl<'a> View<'a> {
    fn read(snapshot: &'a Snapshot) -> Self {
        let (bindings, named_by_others, pools) = (Vec::new(), BTreeSet::new(), Vec::new());
        let (deleting_pools, claims) = (BTreeSet::new(), BTreeSet::new());
        let (untroubled, waited_for) = (BTreeSet::new(), BTreeSet::new());
        let mut view =
            Self { snapshot, bindings, named_by_others, pools, deleting_pools, claims, untroubled, waited_for };
        for (site, objects) in snapshot.clusters.iter().enumerate() {
            for pool in of_kind(objects, POOL_KIND) {
                view.deleting_pools.extend(pool_id(pool).filter(|_| is_deleting(pool)));
                let has_problem = condition(pool, "Ready").is_some_and(|ready| text(ready, "/status") == "False");
                view.untroubled.extend(pool_id(pool).filter(|_| !has_problem));
                view.pools.extend(policy(pool, snapshot.network.as_ref()));
            }
            for claim in of_kind(objects, "IPAddressClaim") {
                let id = pool_of(objects, claim).and_then(pool_id);
                view.claims.extend(id.clone().map(|id| (id, claim_key(claim))));
                let is_told = condition(claim, "Ready").is_some_and(|ready| text(ready, "/reason") == "PoolNotReady");
                view.waited_for.extend(id.filter(|_| is_told && !is_deleting(claim)));
            }
            for address in of_kind(objects, "IPAddress") {
                match binding(objects, address, site) {
                    Some(binding) => view.bindings.push(binding),
                    None => view.named_by_others.extend(text(address, "/spec/address").parse::<IpAddr>()),
                }
            }
        }
        view
    }

    /// Law 1: two IPAddresses never name one address of a network. Between management clusters only where the floating
    /// IP is the same and its marks are not forged. Not where a user wrote one of them by hand, and the claim of one is gone
    /// or was not told that it has the address. Not where both claims have marks on it, of which the cloud showed one
    /// at a time.
    fn no_address_is_given_twice(&self) -> Vec<Violation> {
        let mut violations = Vec::new();
        for (index, one) in self.bindings.iter().enumerate() {
            for other in &self.bindings[index + 1..] {
                let is_of_nobody = !(one.has_claim && other.has_claim);
                let is_forged = one.is_forged || other.is_forged || is_of_nobody && (one.is_edited || other.is_edited);
                let is_excused = is_forged
                    || self.snapshot.was_altered && self.has_marks_of(one, other)
                    || one.site != other.site
                        && (self.is_forged(&one.fip) || self.is_forged(&other.fip) || one.fip != other.fip);
                if one.address == other.address && !is_excused {
                    let how = format!("named by {} and {}", name(one), name(other));
                    violations.push(Violation::new(1, one.address, how));
                }
            }
        }
        violations
    }

    /// Whether the floating IP that both name has a mark of each.
    fn has_marks_of(&self, one: &Binding, other: &Binding) -> bool {
        let fip = self.fip(&one.fip).filter(|_| one.fip == other.fip);
        fip.map(Marks::read).is_some_and(|marks| {
            [one, other].iter().all(|binding| marks.claims_of(&binding.pool).contains(&binding.claim))
        })
    }

    /// Law 3: what others created is there until they delete it.
    fn what_others_created_is_there(&self) -> Vec<Violation> {
        let there: BTreeSet<&FloatingIpId> = self.snapshot.fips.iter().map(|fip| &fip.id).collect();
        let gone = self.snapshot.others.iter().filter(|id| !there.contains(id));
        gone.map(|id| Violation::new(3, id, "deleted, and we did not create it")).collect()
    }

    /// Law 6: no pool has more than its limit. A mark that the cloud hid while another address was created was not
    /// counted.
    fn limits_are_kept(&self) -> Vec<Violation> {
        if self.snapshot.has_hidden {
            return Vec::new();
        }
        let marks: Vec<Marks> = self.not_forged().map(Marks::read).collect();
        let count = |pool: &PoolId| marks.iter().filter(|marks| marks.pools().contains(pool)).count();
        let counts = self.snapshot.limits.iter().map(|(pool, limit)| (pool, *limit, count(pool)));
        counts
            .filter(|(_, limit, count)| count > limit)
            .map(|(pool, limit, count)| Violation::new(6, pool, format!("{count} addresses of at most {limit}")))
            .collect()
    }

    /// Law 5: the floating IP that an IPAddress names has that address.
    fn addresses_are_of_their_floating_ips(&self) -> Vec<Violation> {
        let mut violations = Vec::new();
        // The controllers need a moment to write again what a user changed.
        let is_excused = |binding: &Binding| binding.is_forged || binding.is_edited && !self.snapshot.is_quiet;
        for binding in self.bindings.iter().filter(|binding| !is_excused(binding)) {
            if let Some(fip) = self.fip(&binding.fip).filter(|fip| fip.address != binding.address) {
                let how = format!("names {}, and its floating IP has {}", binding.address, fip.address);
                violations.push(Violation::new(5, &binding.object, how));
            }
        }
        violations
    }

    /// Law 4: what carries a pool's mark belongs to a claim, is free, or is about to be deleted or unmarked.
    fn nothing_leaks(&self) -> Vec<Violation> {
        let copied = copied(&self.snapshot.fips);
        let mut violations = Vec::new();
        for fip in self.not_forged().filter(|fip| !copied.contains(&fip.id)) {
            let marks = Marks::read(fip);
            for pool in marks.pools().into_iter().filter(|_| !marks.is_unreadable) {
                violations.extend(self.leak(fip, &marks, pool).map(|how| Violation::new(4, &fip.id, how)));
            }
        }
        violations
    }

    fn leak(&self, fip: &FloatingIp, marks: &Marks, id: &PoolId) -> Option<String> {
        let Some(pool) = self.pools.iter().find(|pool| pool.id == *id) else {
            return Some(format!("carries the mark of {id}, which is gone"));
        };
        let is_published = self.bindings.iter().any(|binding| self.may_name(binding, fip))
            || self.named_by_others.contains(&fip.address);
        let is_used = fip.is_attached() || is_published;
        match marks.ownership(id) {
            Ownership::Unmarked => None,
            Ownership::Unclaimed => {
                let is_unused = marks.created.as_ref().is_some_and(|mark| !mark.is_retained);
                let is_offer = |at| self.snapshot.now.duration_since(at) < LONGEST_OFFER;
                let is_kept = fip.created_at.is_some_and(is_offer)
                    || self.deleting_pools.contains(id)
                    || !self.untroubled.contains(id);
                let is_due = is_unused && pool.is_excluded(fip.address) && !is_used && !is_kept;
                is_due.then(|| "never used, and excluded by the pool".to_owned())
            }
            Ownership::Foreign | Ownership::Contested => (!is_used).then(|| "marked by two owners".to_owned()),
            Ownership::Claimed(claim) => {
                let exists = self.claims.contains(&(id.clone(), claim.clone()));
                // A pool that is being deleted removes it in the end.
                (!is_used && !exists && !self.deleting_pools.contains(id))
                    .then(|| format!("marked for claim {claim}, which does not exist"))
            }
            Ownership::Released { claim, at } => {
                // One with a time that is yet to come is released again.
                let is_ahead = at.duration_since(self.snapshot.now) > CLOCK_SKEW;
                let is_cooling = !is_ahead && self.snapshot.now.duration_since(at) < pool.grace;
                let is_kept = self.deleting_pools.contains(id) || self.waited_for.contains(id);
                let is_due = !is_cooling && !is_used && !is_kept;
                is_due.then(|| format!("released by {claim}, and still there"))
            }
        }
    }

    /// Whether an IPAddress names the floating IP: not if it names one that is gone, and is older than this one.
    fn may_name(&self, binding: &Binding, fip: &FloatingIp) -> bool {
        let is_older = || binding.since.zip(fip.created_at).is_some_and(|(since, created_at)| since <= created_at);
        let names_another =
            binding.fip != fip.id && !binding.is_edited && is_older() && self.fip(&binding.fip).is_none();
        binding.address == fip.address && !names_another
    }

    /// Laws 2 and 5: the mark on a published address is its claim's.
    fn marks_name_the_holder(&self) -> Vec<Violation> {
        let mut violations = Vec::new();
        for binding in self.bindings.iter().filter(|binding| !binding.is_forged) {
            let Some(fip) = self.fip(&binding.fip) else { continue };
            let ownership = Marks::read(fip).ownership(&binding.pool);
            let is_disputed = matches!(ownership, Ownership::Foreign | Ownership::Contested);
            // Only then can a mark be restored that a user removed.
            let is_served = binding.has_pool && self.pools.iter().any(|pool| pool.id == binding.pool);
            let can_be_marked = is_served && fip.tags.len() < MOST_TAGS;
            // A user forged a mark for a claim that does not exist. That claim may be restored later, so the mark stays,
            // and the condition of the claim that has the IPAddress says so.
            let exists = |claim: &ClaimKey| self.claims.contains(&(binding.pool.clone(), claim.clone()));
            let is_of_nobody = matches!(&ownership, Ownership::Claimed(claim) if !exists(claim));
            // Nor does a new claim get what it finds without marks under an old IPAddress, unless the pool may give it.
            let is_unmarked = !matches!(ownership, Ownership::Claimed(_));
            // Nor a floating IP that another user has attached since a former claim with this name released it.
            let is_anothers = is_unmarked && fip.is_attached() && binding.is_told_of_another;
            let is_refused = is_unmarked && binding.is_refused;
            let may_stay = is_of_nobody || is_refused || self.deleting_pools.contains(&binding.pool);
            let is_left = is_anothers || self.is_forged(&fip.id) && may_stay;
            let is_right = ownership == Ownership::Claimed(binding.claim.clone());
            if binding.has_claim && can_be_marked && !is_right && !is_disputed && !is_left {
                let how = format!("its address {} is marked {ownership:?}", fip.address);
                violations.push(Violation::new(5, name(binding), how));
            }
            if is_disputed && !self.is_forged(&fip.id) && !binding.is_misnamed {
                let how = format!("its address {} has another owner too", fip.address);
                violations.push(Violation::new(2, name(binding), how));
            }
        }
        violations
    }

    fn fip(&self, id: &FloatingIpId) -> Option<&FloatingIp> {
        self.snapshot.fips.iter().find(|fip| fip.id == *id)
    }

    fn is_forged(&self, id: &FloatingIpId) -> bool {
        self.snapshot.forged.contains(id)
    }

    fn not_forged(&self) -> impl Iterator<Item = &FloatingIp> {
        self.snapshot.fips.iter().filter(|fip| !self.is_forged(&fip.id))
    }
}

/// Floating IPs that share a creation mark: nothing shows which is the copy.
pub fn copied(fips: &[FloatingIp]) -> BTreeSet<FloatingIpId> {
    let mut by_nonce: BTreeMap<_, Vec<&FloatingIp>> = BTreeMap::new();
    for fip in fips {
        if let Some(mark) = Marks::read(fip).created {
            by_nonce.entry(mark.nonce).or_default().push(fip);
        }
    }
    by_nonce.into_values().filter(|fips| fips.len() > 1).flatten().map(|fip| fip.id.clone()).collect()
}

fn name(binding: &Binding) -> String {
    format!("{}/{} of site {}", binding.object.namespace, binding.object.name, binding.site)
}
