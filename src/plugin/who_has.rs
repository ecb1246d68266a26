//! `who-has`: the claim that holds an address, the machine behind it, and what Neutron says.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use jiff::Timestamp;
use kube::ResourceExt;
use serde::Serialize;

use super::exit::{Answer, Failure};
use super::output::format::Format;
use super::output::{self, Progress, Report, age, bold, fields, or_dash};
use super::ownership::{ClaimNames, claim_names, describe_attachment, describe_ownership};
use super::session::{PluginSession, object_name, owners};
use crate::allocation::ledger::LedgerEntry;
use crate::allocation::mark::Ownership;
use crate::api::names::{CLUSTER_NAME_LABEL, FLOATING_IP_ID_ANNOTATION, ORIGIN_ANNOTATION, POOL_ID_ANNOTATION};
use crate::api::{IpAddress, OpenStackFloatingIPPool};
use crate::controllers::inspect::{Inspection, View};
use crate::object_name::ObjectName;

#[derive(Serialize, Debug)]
#[serde(rename_all = "camelCase")]
struct AddressTrace {
    address: IpAddr,
    /// More than one only where several networks have the same address.
    holders: Vec<Holder>,
    /// From the projects that were listed.
    floating_ips: Vec<FloatingIpFacts>,
    /// The pools whose spec names it, with the field.
    named_by: Vec<String>,
}

#[derive(Serialize, Debug)]
#[serde(rename_all = "camelCase")]
struct Holder {
    namespace: String,
    claim: String,
    /// `Kind name`, the nearest first.
    owners: Vec<String>,
    cluster: Option<String>,
    /// Kind and group of the pool, which may be another provider's.
    provider: String,
    pool: String,
    origin: Option<String>,
    since: Option<Timestamp>,
    is_being_deleted: bool,
    floating_ip_id: Option<String>,
}

#[derive(Serialize, Debug)]
#[serde(rename_all = "camelCase")]
struct FloatingIpFacts {
    pool: String,
    project: String,
    id: String,
    network: String,
    port: Option<String>,
    has_port_forwardings: bool,
    description: String,
    tags: Vec<String>,
    changed_at: Option<Timestamp>,
    ownership: String,
    #[serde(skip)]
    attachment: String,
    /// It carries the mark of another pool than the one whose project was listed.
    #[serde(skip)]
    is_foreign: bool,
}

pub(super) async fn trace_address(
    session: &PluginSession,
    address: IpAddr,
    format: Option<&Format>,
) -> Result<Answer, Failure> {
    let progress = Progress::start("listing claims and addresses");
    let inspection = session.inspect().await?;
    let is_in_scope = |name: ObjectName| !session.is_given || name.namespace == session.namespace;
    let mut holders = Vec::new();
    for published in inspection.addresses() {
        if published.spec.address.parse() == Ok(address) && is_in_scope(object_name(published.as_ref())) {
            holders.push(describe_holder(session, &inspection, &published).await);
        }
    }
    let mut pools = inspection.pools();
    pools.retain(|pool| is_in_scope(object_name(pool.as_ref())));
    let named_by = pools
        .iter()
        .filter_map(|pool| Some(format!("{} ({})", object_name(pool.as_ref()), spec_field_with(pool, address)?)));
    let trace = AddressTrace {
        address,
        named_by: named_by.collect(),
        floating_ips: find_floating_ips(session, &inspection, pools, &holders, address, &progress).await?,
        holders,
    };
    drop(progress);
    output::print(&trace, format)?;
    Ok(Answer::yes_if(!trace.holders.is_empty()))
}

async fn describe_holder(session: &PluginSession, inspection: &Inspection, address: &Arc<IpAddress>) -> Holder {
    let claim_name = ObjectName::new(address.namespace().unwrap_or_default(), &address.spec.claim_ref.name);
    let claim = inspection.claims().into_iter().find(|claim| object_name(claim.as_ref()) == claim_name);
    let owners = match &claim {
        Some(claim) => owners::list_owners(&session.client, &claim_name.namespace, claim.owner_references()).await,
        None => Vec::new(),
    };
    let pool = &address.spec.pool_ref;
    let annotation = |name: &str| address.annotation(name).map(str::to_owned);
    Holder {
        namespace: claim_name.namespace,
        claim: claim_name.name,
        owners,
        // CAPO labels only its claims.
        cluster: cluster_label(address.as_ref()).or_else(|| claim.as_deref().and_then(cluster_label)),
        provider: format!("{}.{}", pool.kind, pool.api_group.as_deref().unwrap_or_default()),
        pool: pool.name.clone(),
        origin: annotation(ORIGIN_ANNOTATION),
        since: address.metadata.creation_timestamp.as_ref().map(|time| time.0),
        is_being_deleted: claim.is_some_and(|claim| claim.metadata.deletion_timestamp.is_some()),
        floating_ip_id: annotation(POOL_ID_ANNOTATION).and_then(|_| annotation(FLOATING_IP_ID_ANNOTATION)),
    }
}

fn cluster_label(object: &impl ResourceExt) -> Option<String> {
    object.labels().get(CLUSTER_NAME_LABEL).cloned()
}

/// The field of the pool's spec that names the address.
fn spec_field_with(pool: &OpenStackFloatingIPPool, address: IpAddr) -> Option<&'static str> {
    let spec = &pool.spec;
    if spec.reservations.iter().any(|reservation| covers(&reservation.address, address)) {
        Some("spec.reservations")
    } else if spec.excluded_addresses.iter().any(|range| covers(range, address)) {
        Some("spec.excludedAddresses")
    } else if spec.pre_allocated_floating_ips.iter().any(|listed| covers(listed, address)) {
        Some("spec.preAllocatedFloatingIPs")
    } else {
        None
    }
}

/// `text` is an address or a CIDR.
fn covers(text: &str, address: IpAddr) -> bool {
    text.parse() == Ok(address) || text.parse().is_ok_and(|range: ipnet::IpNet| range.contains(&address))
}

/// Lists the project of the holder's pool. Without such a pool, lists the projects of all pools in scope.
async fn find_floating_ips(
    session: &PluginSession,
    inspection: &Inspection,
    mut pools: Vec<Arc<OpenStackFloatingIPPool>>,
    holders: &[Holder],
    address: IpAddr,
    progress: &Progress,
) -> Result<Vec<FloatingIpFacts>, Failure> {
    if pools.iter().any(|pool| is_pool_of_any(holders, pool)) {
        pools.retain(|pool| is_pool_of_any(holders, pool));
    }
    let claims = claim_names(inspection);
    // Several pools of one project list the same floating IP. The pool whose mark it carries describes it best.
    let mut by_id: BTreeMap<String, FloatingIpFacts> = BTreeMap::new();
    for pool in pools {
        let Some(view) = session.inspect_usable_pool(inspection, &pool, progress).await? else { continue };
        for entry in view.entries().iter().filter(|entry| entry.fip.address == address) {
            let facts = describe_floating_ip(&object_name(pool.as_ref()), &view, entry, &claims);
            if !facts.is_foreign || !by_id.contains_key(&facts.id) {
                by_id.insert(facts.id.clone(), facts);
            }
        }
    }
    Ok(by_id.into_values().collect())
}

fn is_pool_of_any(holders: &[Holder], pool: &OpenStackFloatingIPPool) -> bool {
    let ObjectName { namespace, name } = object_name(pool);
    holders.iter().any(|holder| holder.pool == name && holder.namespace == namespace)
}

fn describe_floating_ip(pool: &ObjectName, view: &View, entry: &LedgerEntry, claims: &ClaimNames) -> FloatingIpFacts {
    let fip = &entry.fip;
    FloatingIpFacts {
        pool: pool.to_string(),
        project: fip.project.to_string(),
        id: fip.id.to_string(),
        network: fip.network.to_string(),
        port: fip.port.as_ref().map(ToString::to_string),
        has_port_forwardings: fip.is_forwarded,
        description: fip.description.clone(),
        tags: fip.tags.iter().cloned().collect(),
        changed_at: fip.changed_at,
        ownership: describe_ownership(entry, view.policy(), claims),
        attachment: describe_attachment(entry),
        is_foreign: entry.marks.ownership(&view.policy().id) == Ownership::Foreign,
    }
}

impl Report for AddressTrace {
    fn text(&self, is_wide: bool) -> String {
        let mut text = String::new();
        for holder in &self.holders {
            text += &format!(
                "{} is held by claim {}{}\n",
                bold(self.address),
                bold(format_args!("{}/{}", holder.namespace, holder.claim)),
                if holder.is_being_deleted { ", which is being deleted" } else { "" }
            );
            text += &holder.text();
        }
        if self.holders.is_empty() {
            text += &format!("{} is held by no claim\n", bold(self.address));
        }
        for named in &self.named_by {
            text += &fields(&[("named by", format!("pool {named}"))]);
        }
        for fip in &self.floating_ips {
            text += &fip.text(is_wide);
        }
        if self.floating_ips.is_empty() && self.holders.is_empty() {
            text += "  there is no such floating IP in the projects that were searched\n";
        }
        text
    }
}

impl Holder {
    fn text(&self) -> String {
        let owners =
            if self.owners.is_empty() { "unknown: the claim has no owner".into() } else { self.owners.join(", ") };
        let since = or_dash(self.since.map(|at| format!("{at} ({})", age(at, Timestamp::now()))));
        fields(&[
            ("for", owners),
            ("cluster", or_dash(self.cluster.as_ref())),
            ("pool", format!("{} ({})", self.pool, self.provider)),
            ("origin", or_dash(self.origin.as_ref())),
            ("since", since),
        ])
    }
}

impl FloatingIpFacts {
    fn text(&self, is_wide: bool) -> String {
        let mut lines = vec![
            ("Neutron", format!("floating IP {}, {}", self.id, self.attachment)),
            ("mark", self.ownership.clone()),
        ];
        if is_wide {
            lines.extend([
                ("project", self.project.clone()),
                ("network", self.network.clone()),
                ("description", self.description.clone()),
                ("tags", self.tags.join(", ")),
                ("changed", or_dash(self.changed_at)),
            ]);
        }
        fields(&lines)
    }
}
