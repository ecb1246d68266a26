//! The laws, judged from outside: Kubernetes' objects as JSON and Neutron's floating IPs in, the broken laws out, each
//! with the object that breaks it. Whoever has both can ask: a simulation, or scenarios on real servers.
//!
//! What the marks must say is judged by [`checker`]; here is what only Kubernetes shows: claims that wait
//! without reason, deletions that do not end, addresses that are not what they name.

mod checker;
mod oracle;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use caip_openstack::allocation::claim::{ClaimRequest, Decision};
use caip_openstack::allocation::ledger::{CreationBlock, Ledger};
use caip_openstack::allocation::mark::Marks;
use caip_openstack::allocation::policy::ReusePolicy;
use caip_openstack::allocation::{ClaimKey, PoolId, PoolPolicy, Refusal};
use caip_openstack::api::names::{
    ADDRESS_FINALIZER, CLAIM_FINALIZER, CLUSTER_NAME_LABEL, DELETE_FOR_MOVE_ANNOTATION, FLOATING_IP_ID_ANNOTATION,
    GARBAGE_COLLECTOR_FINALIZERS, GROUP, NETWORK_ID_ANNOTATION, PAUSED_ANNOTATION, POOL_FINALIZER, POOL_ID_ANNOTATION,
    POOL_KIND, SECRET_FINALIZER_PREFIX,
};
use caip_openstack::floating_ip::{FloatingIp, FloatingIpId, NetworkId};
use caip_openstack::object_name::ObjectName;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use checker::{Bound, Observed, check};
use oracle::{Names, Question};

pub use checker::Broken;

/// What can be seen, of all management clusters that share a project.
#[derive(Default)]
pub struct Seen {
    /// Every object of each management cluster that the controllers may read or write.
    pub clusters: Vec<Vec<Arc<Value>>>,
    /// Every floating IP of the project.
    pub fips: Vec<FloatingIp>,
    /// The network that pools without a list of their own take addresses from.
    pub network: Option<NetworkId>,
    /// The addresses that Neutron would create now.
    pub creatable: BTreeSet<IpAddr>,
    /// See [`Observed`].
    pub limits: BTreeMap<PoolId, usize>,
    /// See [`Observed`].
    pub others: BTreeSet<FloatingIpId>,
    /// See [`Observed`].
    pub forged: BTreeSet<FloatingIpId>,
    /// Nobody has done anything for long enough, so that what is under way must have ended.
    pub is_quiet: bool,
    pub now: Timestamp,
}

/// Every law that does not hold.
pub fn judge(seen: &Seen) -> Vec<Broken> {
    let mut broken = check(&observed(seen));
    broken.extend(addresses_are_theirs(seen));
    if seen.is_quiet {
        for site in 0..seen.clusters.len() {
            broken.extend(deletions_end(seen, site));
            broken.extend(refusals_are_justified(seen, site));
        }
    }
    broken
}

/// The marks' side of it.
pub fn observed(seen: &Seen) -> Observed {
    let mut observed = Observed {
        fips: seen.fips.clone(),
        limits: seen.limits.clone(),
        others: seen.others.clone(),
        forged: seen.forged.clone(),
        is_quiet: seen.is_quiet,
        now: seen.now,
        ..Observed::default()
    };
    for (site, objects) in seen.clusters.iter().enumerate() {
        for pool in of_kind(objects, POOL_KIND).filter(|pool| is_of(pool, GROUP)) {
            let Some(policy) = policy(pool, seen) else { continue };
            if is_going(pool) {
                observed.going.insert(policy.id.clone());
            }
            observed.pools.push(policy);
        }
        for claim in of_kind(objects, "IPAddressClaim") {
            if let Some(id) = pool_of(objects, claim).and_then(pool_id) {
                observed.claims.insert((id, key(claim)));
            }
        }
        for address in of_kind(objects, "IPAddress") {
            match bound(objects, address, site) {
                Some(bound) => observed.bound.push(bound),
                None => observed.named_by_others.extend(text(address, "/spec/address").parse::<IpAddr>()),
            }
        }
    }
    observed
}

/// An IPAddress of ours, as the checker sees it.
pub fn bound(objects: &[Arc<Value>], address: &Value, site: usize) -> Option<Bound> {
    let pool = PoolId::parse(annotation(address, POOL_ID_ANNOTATION)?)?;
    let fip = FloatingIpId::new(annotation(address, FLOATING_IP_ID_ANNOTATION)?);
    let (namespace, claim) = (text(address, "/metadata/namespace"), text(address, "/spec/claimRef/name"));
    let living = of_kind(objects, "IPAddressClaim")
        .find(|other| text(other, "/metadata/namespace") == namespace && text(other, "/metadata/name") == claim);
    Some(Bound {
        site,
        object: ObjectName::new(namespace, claim),
        pool,
        claim: ClaimKey::of(namespace, claim),
        address: text(address, "/spec/address").parse().ok()?,
        fip,
        has_claim: living.is_some_and(|claim| !is_going(claim)),
    })
}

/// Law 5: the floating IP that an address names has that address.
fn addresses_are_theirs(seen: &Seen) -> Vec<Broken> {
    let mut broken = Vec::new();
    for bound in observed(seen).bound {
        let fip = seen.fips.iter().find(|fip| fip.id == bound.fip);
        if let Some(fip) = fip.filter(|fip| fip.address != bound.address) {
            broken.push(Broken::new(5, &bound.object, format!("names {} and {}", bound.address, fip.address)));
        }
    }
    broken
}

/// Law 9: what is being deleted, and nobody else keeps, is gone.
fn deletions_end(seen: &Seen, site: usize) -> Vec<Broken> {
    let objects = &seen.clusters[site];
    let mut broken = Vec::new();
    let mut stuck = |object: &Value, why: &str| {
        let what = format!("{} of site {site}", describe(object));
        broken.push(Broken::new(9, what, why));
    };
    for object in objects.iter().filter(|object| is_going(object)) {
        let ours = |finalizer: &&str| {
            [CLAIM_FINALIZER, ADDRESS_FINALIZER, POOL_FINALIZER].contains(finalizer)
                || finalizer.starts_with(SECRET_FINALIZER_PREFIX)
        };
        if !finalizers(object).iter().any(ours) || is_left_alone(objects, object) {
            continue;
        }
        match text(object, "/kind") {
            "IPAddressClaim" if is_kept(object) => {}
            "IPAddress"
                if claim_of(objects, object).is_some_and(|claim| is_kept(claim) || is_left_alone(objects, claim)) => {}
            POOL_KIND if holders(objects, object).next().is_some() => {}
            "Secret" if of_kind(objects, POOL_KIND).any(|pool| names_secret(pool, object)) => {}
            "IPAddressClaim" | "IPAddress" | POOL_KIND | "Secret" => stuck(object, "being deleted, and still there"),
            _ => {}
        }
    }
    broken
}

/// Whether somebody else's finalizer keeps a claim that is being deleted.
fn is_kept(claim: &Value) -> bool {
    let foreign = |finalizer: &&str| *finalizer != CLAIM_FINALIZER && !GARBAGE_COLLECTOR_FINALIZERS.contains(finalizer);
    finalizers(claim).iter().any(foreign)
}

/// The claims and addresses of a pool that still count on it.
fn holders<'a>(objects: &'a [Arc<Value>], pool: &'a Value) -> impl Iterator<Item = &'a Value> {
    let holds = |object: &&Value| {
        let ours = [CLAIM_FINALIZER, ADDRESS_FINALIZER];
        finalizers(object).iter().any(|finalizer| ours.contains(finalizer))
    };
    let of_pool = move |object: &&Value| {
        text(object, "/spec/poolRef/name") == text(pool, "/metadata/name")
            && text(object, "/spec/poolRef/apiGroup") == GROUP
            && text(object, "/metadata/namespace") == text(pool, "/metadata/namespace")
    };
    objects.iter().map(Arc::as_ref).filter(of_pool).filter(holds)
}

fn names_secret(pool: &Value, secret: &Value) -> bool {
    text(pool, "/spec/identityRef/name") == text(secret, "/metadata/name")
        && text(pool, "/metadata/namespace") == text(secret, "/metadata/namespace")
        && finalizers(pool).contains(&POOL_FINALIZER)
}

/// Paused, or moved: nothing is to be done about it.
fn is_left_alone(objects: &[Arc<Value>], object: &Value) -> bool {
    let is_marked = |object: &Value| {
        annotation(object, PAUSED_ANNOTATION).is_some() || annotation(object, DELETE_FOR_MOVE_ANNOTATION).is_some()
    };
    let cluster = cluster_of(objects, object);
    let is_paused = |cluster: &Value| cluster.pointer("/spec/paused") == Some(&Value::Bool(true)) || is_marked(cluster);
    is_marked(object) || pool_of(objects, object).is_some_and(is_marked) || cluster.is_some_and(is_paused)
}

/// Law 7: a claim that has no address was told why, and that is so.
fn refusals_are_justified(seen: &Seen, site: usize) -> Vec<Broken> {
    let objects = &seen.clusters[site];
    let mut broken = Vec::new();
    for claim in of_kind(objects, "IPAddressClaim") {
        let is_ours = text(claim, "/spec/poolRef/apiGroup") == GROUP && text(claim, "/spec/poolRef/kind") == POOL_KIND;
        if !is_ours || is_going(claim) || is_left_alone(objects, claim) || is_served(objects, claim) {
            continue;
        }
        let ready = condition(claim, "Ready");
        let reason = ready.map_or("", |ready| text(ready, "/reason"));
        let pool = pool_of(objects, claim);
        let why = match (reason, pool) {
            ("PoolExhausted", Some(pool)) => unjustified(seen, site, pool, claim),
            ("PoolNotReady", Some(pool)) => {
                let is_ready = condition(pool, "Ready").is_some_and(|ready| text(ready, "/status") == "True");
                (is_ready && !is_going(pool)).then(|| "told that its pool is not ready, which it is".to_owned())
            }
            ("PoolNotReady", None) => None,
            ("AllocationFailed", _) => is_whole(seen, site, claim)
                .then(|| format!("told that it failed: {}", ready.map_or("", |ready| text(ready, "/message")))),
            ("", _) => Some("told nothing".to_owned()),
            (other, _) => Some(format!("told {other}")),
        };
        broken.extend(why.map(|why| Broken::new(7, format!("{} of site {site}", describe(claim)), why)));
    }
    broken
}

/// Its address is there, as the contract has it, and it says so.
fn is_served(objects: &[Arc<Value>], claim: &Value) -> bool {
    let name = text(claim, "/metadata/name");
    let has_address = of_kind(objects, "IPAddress").any(|address| {
        text(address, "/metadata/name") == name
            && text(address, "/metadata/namespace") == text(claim, "/metadata/namespace")
            && text(address, "/spec/claimRef/name") == name
            && !is_going(address)
    });
    has_address
        && text(claim, "/status/addressRef/name") == name
        && condition(claim, "Ready").is_some_and(|ready| text(ready, "/status") == "True")
}

/// Whether nothing is in the way that a person must mend: then a claim does not fail.
fn is_whole(seen: &Seen, site: usize, claim: &Value) -> bool {
    let objects = &seen.clusters[site];
    let cluster = annotation_or_label(claim);
    let is_cluster_there = cluster.is_none() || cluster_of(objects, claim).is_some();
    let Some(pool) = pool_of(objects, claim) else { return false };
    let is_spoilt = |fip: &FloatingIp| {
        let marks = Marks::read(fip);
        let names_it = pool_id(pool).is_some_and(|id| marks.claims_of(&id).contains(&key(claim)));
        names_it && (seen.forged.contains(&fip.id) || marks.pools().len() > 1)
    };
    let address = of_kind(objects, "IPAddress").find(|address| {
        text(address, "/metadata/name") == text(claim, "/metadata/name")
            && text(address, "/metadata/namespace") == text(claim, "/metadata/namespace")
    });
    // What its address names is gone, spoilt, or no longer allowed: a person must look.
    is_cluster_there && address.is_none() && !seen.fips.iter().any(is_spoilt)
}

/// Why the refusal is wrong, if it is.
fn unjustified(seen: &Seen, site: usize, pool: &Value, claim: &Value) -> Option<String> {
    let policy = policy(pool, seen)?;
    let mut ledger = Ledger::default();
    let began = ledger.next_step();
    ledger.list(began, seen.now, seen.fips.clone(), seen.now);
    let objects = &seen.clusters[site];
    let named =
        |address: &IpAddr| of_kind(objects, "IPAddress").any(|it| text(it, "/spec/address").parse() == Ok(*address));
    let may_give = |address: &IpAddr| policy.allows(*address, text(claim, "/metadata/name")) && !named(address);
    if !seen.creatable.iter().any(may_give) {
        let until = seen.now + SignedDuration::from_secs(1);
        ledger.block(policy.id.clone(), CreationBlock { refusal: Refusal::NetworkExhausted, until });
    }
    let mut names = Names::default();
    for address in of_kind(objects, "IPAddress") {
        if let Ok(named) = text(address, "/spec/address").parse() {
            let network = annotation(address, POOL_ID_ANNOTATION).and(annotation(address, NETWORK_ID_ANNOTATION));
            names.addresses.push((named, network.map(NetworkId::new)));
        }
    }
    for other in of_kind(objects, POOL_KIND) {
        let listed = other.pointer("/spec/preAllocatedFloatingIPs").and_then(Value::as_array).into_iter().flatten();
        names.listed.extend(listed.filter_map(|address| address.as_str()?.parse::<IpAddr>().ok()));
        let reserved = other.pointer("/spec/reservations").and_then(Value::as_array).into_iter().flatten();
        names.listed.extend(reserved.filter_map(|it| text(it, "/address").parse::<IpAddr>().ok()));
    }
    let request = ClaimRequest {
        key: key(claim),
        object: ObjectName::new(text(claim, "/metadata/namespace"), text(claim, "/metadata/name")),
        since: text(claim, "/metadata/creationTimestamp").parse().unwrap_or(seen.now),
        bound: None,
    };
    let question = Question { ledger: &ledger, names: &names, pool: &policy, claim: &request, now: seen.now };
    question.judge(&Decision::Refuse(Refusal::ListUsedUp)).err()
}

/// A pool's policy, read from its spec by hand; none while it has no id.
pub fn policy(pool: &Value, seen: &Seen) -> Option<PoolPolicy> {
    let spec = &pool["spec"];
    let number = |path: &str| pool.pointer(path).and_then(Value::as_i64);
    let addresses = |field: &str| spec[field].as_array().into_iter().flatten().filter_map(Value::as_str);
    let listed: Vec<IpAddr> = addresses("preAllocatedFloatingIPs").filter_map(|address| address.parse().ok()).collect();
    let is_closed = !listed.is_empty() && spec.get("floatingIPNetwork").is_none();
    let idle = SignedDuration::from_secs(number("/spec/reuse/minIdleSeconds").unwrap_or(300));
    let reservations = spec["reservations"].as_array().into_iter().flatten();
    Some(PoolPolicy {
        id: pool_id(pool)?,
        network: seen.network.clone().filter(|_| !is_closed),
        listed,
        subnets: Vec::new(),
        max_ips: number("/spec/maxIPs").and_then(|limit| usize::try_from(limit).ok()),
        deletes: text(pool, "/spec/reclaimPolicy") != "Retain",
        reuse: match text(pool, "/spec/reuse/policy") {
            "Never" => ReusePolicy::Never,
            "Tagged" => {
                let tags = spec["reuse"]["tags"].as_array().into_iter().flatten();
                ReusePolicy::Tagged { tags: tags.filter_map(|tag| Some(tag.as_str()?.to_owned())).collect(), idle }
            }
            _ => ReusePolicy::Unmarked { idle },
        },
        excluded: addresses("excludedAddresses")
            .filter_map(|range| range.parse().ok().or_else(|| range.parse::<IpAddr>().ok().map(Into::into)))
            .collect(),
        reservations: reservations
            .filter_map(|it| Some((text(it, "/claim").to_owned(), text(it, "/address").parse().ok()?)))
            .collect(),
        preallocate: number("/spec/preallocate").and_then(|count| usize::try_from(count).ok()).unwrap_or_default(),
        grace: SignedDuration::from_secs(number("/spec/reuseGracePeriodSeconds").unwrap_or_default()),
        releases_orphans: text(pool, "/spec/orphans/policy") != "Report",
        orphan_grace: SignedDuration::from_secs(number("/spec/orphans/graceSeconds").unwrap_or(3600)),
        has_tags: true,
        fenced_until: None,
    })
}

/// The id that a pool has, given or made.
pub fn pool_id(pool: &Value) -> Option<PoolId> {
    let given = pool.pointer("/spec/poolID").and_then(Value::as_str);
    given.or(annotation(pool, POOL_ID_ANNOTATION)).and_then(PoolId::parse)
}

fn pool_of<'a>(objects: &'a [Arc<Value>], of: &Value) -> Option<&'a Value> {
    of_kind(objects, POOL_KIND).find(|pool| {
        is_of(pool, GROUP)
            && text(pool, "/metadata/name") == text(of, "/spec/poolRef/name")
            && text(pool, "/metadata/namespace") == text(of, "/metadata/namespace")
    })
}

fn claim_of<'a>(objects: &'a [Arc<Value>], address: &Value) -> Option<&'a Value> {
    of_kind(objects, "IPAddressClaim").find(|claim| {
        text(claim, "/metadata/name") == text(address, "/spec/claimRef/name")
            && text(claim, "/metadata/namespace") == text(address, "/metadata/namespace")
    })
}

fn annotation_or_label(claim: &Value) -> Option<&str> {
    let by_spec = claim.pointer("/spec/clusterName").and_then(Value::as_str);
    by_spec.or_else(|| claim["metadata"]["labels"][CLUSTER_NAME_LABEL].as_str()).filter(|name| !name.is_empty())
}

fn cluster_of<'a>(objects: &'a [Arc<Value>], of: &Value) -> Option<&'a Value> {
    let name = annotation_or_label(of)?;
    of_kind(objects, "Cluster").find(|cluster| {
        text(cluster, "/metadata/name") == name
            && text(cluster, "/metadata/namespace") == text(of, "/metadata/namespace")
    })
}

fn of_kind<'a>(objects: &'a [Arc<Value>], kind: &'a str) -> impl Iterator<Item = &'a Value> {
    objects.iter().map(Arc::as_ref).filter(move |object| text(object, "/kind") == kind)
}

fn is_of(object: &Value, group: &str) -> bool {
    text(object, "/apiVersion").strip_prefix(group).is_some_and(|rest| rest.starts_with('/'))
}

fn is_going(object: &Value) -> bool {
    object["metadata"].get("deletionTimestamp").is_some()
}

fn finalizers(object: &Value) -> Vec<&str> {
    object["metadata"]["finalizers"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object["metadata"]["annotations"][key].as_str()
}

fn condition<'a>(object: &'a Value, type_: &str) -> Option<&'a Value> {
    object["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == type_)
}

fn key(claim: &Value) -> ClaimKey {
    ClaimKey::of(text(claim, "/metadata/namespace"), text(claim, "/metadata/name"))
}

fn describe(object: &Value) -> String {
    format!("{} {}/{}", text(object, "/kind"), text(object, "/metadata/namespace"), text(object, "/metadata/name"))
}

/// The text at a path, or none.
pub fn text<'a>(value: &'a Value, path: &str) -> &'a str {
    value.pointer(path).and_then(Value::as_str).unwrap_or_default()
}
