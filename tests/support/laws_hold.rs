//! The laws (`laws.rs`) on the real servers: for one management cluster, or two that share a project.
//!
//! Scenarios that run at once share the project too, so only those floating IPs count that a pool of the scenario marks,
//! lists, binds or may reuse. What Neutron could still create is not known: a refusal is judged by what exists.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use caip_openstack::floating_ip::{FloatingIp, FloatingIpId, NetworkId, PortId, ProjectId};
use jiff::Timestamp;
use reqwest::Method;
use serde_json::Value;

use super::laws::{Snapshot, binding, judge, pool_id, text};
use super::manifest::Kind;
use super::namespace::Namespace;
use super::openstack::Cloud;
use super::wait::eventually;

/// For what a scenario left unfinished: a pool lists Neutron, and repairs what it finds, within this time.
const TIMEOUT: Duration = Duration::from_secs(100);

/// Waits until every law holds in these namespaces; after a time panics with those that do not.
pub async fn await_laws_hold(sides: &[&Namespace]) {
    eventually(TIMEOUT, async || {
        let broken: Vec<String> = judge(&observe(sides).await).iter().map(ToString::to_string).collect();
        if broken.is_empty() { Ok(()) } else { Err(broken.join("; ")) }
    })
    .await;
}

async fn observe(sides: &[&Namespace]) -> Snapshot {
    let mut seen = Snapshot { is_quiet: true, now: Timestamp::now(), ..Snapshot::default() };
    for side in sides {
        seen.clusters.push(objects(side).await);
        let cloud = side.cloud().await;
        seen.others.extend(cloud.created_floating_ips().into_iter().map(FloatingIpId::new));
        seen.forged.extend(cloud.forged().into_iter().map(FloatingIpId::new));
    }
    // The program may delete a floating IP whose mark says that it created it.
    seen.others.retain(|id| !seen.forged.contains(id));
    let pools: Vec<&Value> = seen.clusters.iter().flatten().map(Arc::as_ref).filter(|it| is_pool(it)).collect();
    // One whose spec was edited may have had a higher limit before.
    let unedited = pools.iter().filter(|pool| pool["metadata"]["generation"] == 1);
    let limits = unedited.filter_map(|pool| {
        let limit = pool.pointer("/spec/maxIPs").and_then(Value::as_u64)?;
        Some((pool_id(pool)?, usize::try_from(limit).ok()?))
    });
    seen.limits = limits.collect();
    seen.network = pools.iter().find_map(|pool| network(pool)).map(NetworkId::new);
    let selection = Selection::new(&seen);
    let cloud = sides.first().expect("there is a side").cloud().await;
    seen.fips = floating_ips(cloud).await.into_iter().filter(|fip| selection.contains(fip)).collect();
    seen
}

async fn objects(side: &Namespace) -> Vec<Arc<Value>> {
    let mut all = Vec::new();
    for kind in [Kind::Pool, Kind::Claim, Kind::Address, Kind::Cluster, Kind::Secret, Kind::ConfigMap] {
        let resource = kind.resource(side.world.version);
        for object in side.list(kind).await {
            let mut object = serde_json::to_value(object).expect("an object is JSON");
            object["apiVersion"] = resource.api_version.clone().into();
            object["kind"] = resource.kind.clone().into();
            all.push(Arc::new(object));
        }
    }
    all
}

fn is_pool(object: &Value) -> bool {
    text(object, "/kind") == "OpenStackFloatingIPPool"
}

fn network(pool: &Value) -> Option<&str> {
    pool.pointer("/status/network/id").and_then(Value::as_str)
}

/// Selects the floating IPs of a scenario.
struct Selection {
    pools: Vec<String>,
    addresses: BTreeSet<String>,
    reused: Vec<NetworkId>,
    made: BTreeSet<FloatingIpId>,
}

impl Selection {
    fn new(seen: &Snapshot) -> Self {
        let mut ours =
            Self { pools: Vec::new(), addresses: BTreeSet::new(), reused: Vec::new(), made: seen.others.clone() };
        for (site, objects) in seen.clusters.iter().enumerate() {
            let bound = objects.iter().filter_map(|object| binding(objects, object, site));
            ours.addresses.extend(bound.map(|bound| bound.address.to_string()));
            for pool in objects.iter().filter(|object| is_pool(object)) {
                ours.pools.extend(pool_id(pool).map(|id| id.to_string()));
                let listed = pool.pointer("/spec/preAllocatedFloatingIPs").and_then(Value::as_array);
                ours.addresses.extend(listed.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned));
                let reused = network(pool).filter(|_| text(pool, "/spec/reuse/policy") != "Never");
                ours.reused.extend(reused.map(NetworkId::new));
            }
        }
        ours
    }

    fn contains(&self, fip: &FloatingIp) -> bool {
        let is_marked = |id: &str| fip.description.contains(id) || fip.tags.iter().any(|tag| tag.contains(id));
        // On a network that others use too, a floating IP with another mark is theirs.
        self.made.contains(&fip.id)
            || self.addresses.contains(&fip.address.to_string())
            || self.pools.iter().any(|id| is_marked(id))
            || self.reused.contains(&fip.network) && !is_marked("caip")
    }
}

/// Parsed independently of the program: a second opinion.
async fn floating_ips(cloud: &Cloud) -> Vec<FloatingIp> {
    let (status, answer) = cloud.call(Method::GET, "floatingips", None).await;
    assert!(status.is_success(), "GET floatingips: {status} {answer}");
    answer["floatingips"].as_array().into_iter().flatten().map(floating_ip).collect()
}

fn floating_ip(body: &Value) -> FloatingIp {
    let text = |field: &str| body[field].as_str().unwrap_or_default().to_owned();
    let tags = body["tags"].as_array().into_iter().flatten();
    FloatingIp {
        id: FloatingIpId::new(text("id")),
        address: text("floating_ip_address").parse().expect("a floating IP has an address"),
        network: NetworkId::new(text("floating_network_id")),
        project: ProjectId::new(text("project_id")),
        port: body["port_id"].as_str().map(PortId::new),
        is_forwarded: body["port_forwardings"].as_array().is_some_and(|all| !all.is_empty()),
        description: text("description"),
        tags: tags.filter_map(Value::as_str).map(str::to_owned).collect(),
        dns_name: text("dns_name"),
        changed_at: text("updated_at").parse().ok(),
        created_at: text("created_at").parse().ok(),
    }
}
