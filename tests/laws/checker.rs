//! The laws that a state of Neutron and Kubernetes must keep (design 5), whoever brought it about: a model or servers.
//!
//! Plain values in, the broken laws out, each with the object that breaks it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

use caip_openstack::allocation::mark::{Marks, Ownership};
use caip_openstack::allocation::{ClaimKey, PoolId, PoolPolicy};
use caip_openstack::floating_ip::{FloatingIp, FloatingIpId};
use caip_openstack::object_name::ObjectName;
use jiff::Timestamp;

/// An IPAddress of one of our pools.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bound {
    /// Which management cluster.
    pub site: usize,
    /// Its and its claim's name.
    pub object: ObjectName,
    pub pool: PoolId,
    pub claim: ClaimKey,
    pub address: IpAddr,
    pub fip: FloatingIpId,
    /// Whether its claim still exists.
    pub has_claim: bool,
}

/// What can be seen of the world from outside.
#[derive(Default, Debug)]
pub struct Observed {
    /// Every floating IP of the project.
    pub fips: Vec<FloatingIp>,
    /// Every IPAddress of ours, of all management clusters.
    pub bound: Vec<Bound>,
    /// What IPAddresses of other providers name.
    pub named_by_others: BTreeSet<IpAddr>,
    /// The pools that exist.
    pub pools: Vec<PoolPolicy>,
    /// Those of them that are being deleted, and wait for the last of their claims.
    pub going: BTreeSet<PoolId>,
    /// The most that each pool may have: its `maxIPs`, or what it had when the limit was lowered.
    pub limits: BTreeMap<PoolId, usize>,
    /// Claims that exist, bound or not, by pool.
    pub claims: BTreeSet<(PoolId, ClaimKey)>,
    /// What others created and did not delete.
    pub others: BTreeSet<FloatingIpId>,
    /// What somebody wrote a mark on by hand: excused where the law cannot hold against that.
    pub forged: BTreeSet<FloatingIpId>,
    /// Nobody has done anything for long enough, so that what is under way must have ended.
    pub is_quiet: bool,
    pub now: Timestamp,
}

/// A law that does not hold, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Broken {
    pub law: u8,
    pub object: String,
    pub how: String,
}

impl Broken {
    pub fn new(law: u8, object: impl fmt::Display, how: impl fmt::Display) -> Self {
        Self { law, object: object.to_string(), how: how.to_string() }
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "law {}: {}: {}", self.law, self.object, self.how)
    }
}

/// Every law that does not hold.
pub fn check(world: &Observed) -> Vec<Broken> {
    let mut broken = one_claim_an_address(world);
    broken.extend(others_are_left(world));
    broken.extend(limits_are_kept(world));
    if world.is_quiet {
        broken.extend(nothing_leaks(world));
        broken.extend(marks_say_who_holds(world));
    }
    broken
}

/// Law 1. Two IPAddresses never name one address of a network; across management clusters only what nobody forged is
/// ours to answer for.
fn one_claim_an_address(world: &Observed) -> Vec<Broken> {
    let mut broken = Vec::new();
    for (index, one) in world.bound.iter().enumerate() {
        for other in &world.bound[index + 1..] {
            let is_excused = one.site != other.site
                && (world.forged.contains(&one.fip) || world.forged.contains(&other.fip) || one.fip != other.fip);
            if one.address == other.address && !is_excused {
                let how = format!("named by {} and {}", name(one), name(other));
                broken.push(Broken::new(1, one.address, how));
            }
        }
    }
    broken
}

/// Law 3. What others created is there until they delete it.
fn others_are_left(world: &Observed) -> Vec<Broken> {
    let there: BTreeSet<&FloatingIpId> = world.fips.iter().map(|fip| &fip.id).collect();
    let gone = world.others.iter().filter(|id| !there.contains(id));
    gone.map(|id| Broken::new(3, id, "deleted, and we did not create it")).collect()
}

/// Law 6.
fn limits_are_kept(world: &Observed) -> Vec<Broken> {
    let marks: Vec<Marks> = own(world).map(Marks::read).collect();
    let count = |pool: &PoolId| marks.iter().filter(|marks| marks.pools().contains(pool)).count();
    let over = world.limits.iter().map(|(pool, limit)| (pool, *limit, count(pool)));
    over.filter(|(_, limit, count)| count > limit)
        .map(|(pool, limit, count)| Broken::new(6, pool, format!("{count} addresses of at most {limit}")))
        .collect()
}

/// Law 4, once things are quiet: what carries a pool's mark belongs to a claim, is free, or is on its way out.
fn nothing_leaks(world: &Observed) -> Vec<Broken> {
    let mut broken = Vec::new();
    let copied = copied(world);
    for fip in own(world).filter(|fip| !copied.contains(&fip.id)) {
        let marks = Marks::read(fip);
        for id in marks.pools() {
            if marks.is_unreadable {
                continue;
            }
            let Some(pool) = world.pools.iter().find(|pool| pool.id == *id) else {
                broken.push(Broken::new(4, &fip.id, format!("carries the mark of {id}, which is gone")));
                continue;
            };
            let is_published = world.bound.iter().any(|bound| bound.address == fip.address)
                || world.named_by_others.contains(&fip.address);
            let how = match marks.ownership(id) {
                Ownership::Unmarked | Ownership::Idle => None,
                Ownership::Foreign | Ownership::Contested if fip.is_attached() || is_published => None,
                Ownership::Foreign | Ownership::Contested => Some("marked by two owners".to_owned()),
                Ownership::Held(claim) => {
                    let is_its = world
                        .bound
                        .iter()
                        .any(|bound| bound.fip == fip.id && bound.pool == *id && bound.claim == claim);
                    let is_kept =
                        is_published || fip.is_attached() || world.claims.contains(&(id.clone(), claim.clone()));
                    (!is_its && !is_kept).then(|| format!("says that {claim} has it, which does not exist"))
                }
                Ownership::Released { claim, at } => {
                    let is_resting = world.now.duration_since(at) < pool.grace;
                    let is_excused = is_resting || fip.is_attached() || is_published || world.going.contains(id);
                    (!is_excused).then(|| format!("released by {claim}, and still there"))
                }
            };
            broken.extend(how.map(|how| Broken::new(4, &fip.id, how)));
        }
    }
    broken
}

/// Laws 2 and 5, once things are quiet: the mark on a bound address is its claim's.
fn marks_say_who_holds(world: &Observed) -> Vec<Broken> {
    let mut broken = Vec::new();
    for bound in &world.bound {
        let Some(fip) = world.fips.iter().find(|fip| fip.id == bound.fip) else { continue };
        let ownership = Marks::read(fip).ownership(&bound.pool);
        let is_disputed = matches!(ownership, Ownership::Foreign | Ownership::Contested);
        if bound.has_claim && ownership != Ownership::Held(bound.claim.clone()) && !is_disputed {
            broken.push(Broken::new(5, name(bound), format!("its address {} is marked {ownership:?}", fip.address)));
        }
        if is_disputed && !world.forged.contains(&fip.id) {
            broken.push(Broken::new(2, name(bound), format!("its address {} has another owner too", fip.address)));
        }
    }
    broken
}

/// What nobody forged.
fn own(world: &Observed) -> impl Iterator<Item = &FloatingIp> {
    world.fips.iter().filter(|fip| !world.forged.contains(&fip.id))
}

fn copied(world: &Observed) -> BTreeSet<FloatingIpId> {
    let mut by_nonce: BTreeMap<_, Vec<&FloatingIp>> = BTreeMap::new();
    for fip in &world.fips {
        if let Some(mark) = Marks::read(fip).created {
            by_nonce.entry(mark.nonce).or_default().push(fip);
        }
    }
    by_nonce.into_values().filter(|fips| fips.len() > 1).flatten().map(|fip| fip.id.clone()).collect()
}

fn name(bound: &Bound) -> String {
    format!("{}/{} of site {}", bound.object.namespace, bound.object.name, bound.site)
}
