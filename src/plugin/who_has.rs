//! `who-has`: the claim that holds an address, the machine behind it, and what Neutron says.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use jiff::Timestamp;
use kube::ResourceExt;
use serde::Serialize;

use super::cli::{Format, WhoHas};
use super::exit::{Answer, Failure};
use super::output::{self, Progress, Report, age, bold, fields};
use super::ownership::{Keys, attachment, describe, keys};
use super::session::{Session, owners};
use crate::allocation::ledger::LedgerEntry;
use crate::api::names::{CLUSTER_NAME_LABEL, FLOATING_IP_ID_ANNOTATION, ORIGIN_ANNOTATION, POOL_ID_ANNOTATION};
use crate::api::{IpAddress, OpenStackFloatingIPPool};
use crate::controllers::inspect::{Inspection, View};

/// What is known of an address.
#[derive(Serialize, Debug)]
#[serde(rename_all = "camelCase")]
struct Found {
    address: IpAddr,
    /// Those who hold it: one, but for the same address on two networks.
    holders: Vec<Holder>,
    /// As Neutron has it, in the projects that were looked at.
    floating_ips: Vec<Seen>,
    /// The pools whose spec names it.
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
    /// The pool's kind and group, which may be another provider's.
    provider: String,
    pool: String,
    origin: Option<String>,
    since: Option<Timestamp>,
    is_being_deleted: bool,
    floating_ip_id: Option<String>,
}

#[derive(Serialize, Debug)]
#[serde(rename_all = "camelCase")]
struct Seen {
    pool: String,
    project: String,
    id: String,
    network: String,
    port: Option<String>,
    has_port_forwardings: bool,
    description: String,
    tags: Vec<String>,
    changed_at: Option<Timestamp>,
    /// What the marks say.
    standing: String,
    /// The same, for people.
    #[serde(skip)]
    attachment: String,
}

/// Prints who has the address.
pub(super) async fn run(session: &Session, args: &WhoHas, format: Option<Format>) -> Result<Answer, Failure> {
    let progress = Progress::new();
    progress.step("listing claims and addresses");
    let inspection = session.inspect().await?;
    let is_meant = |namespace: Option<String>| !session.is_given || namespace.as_deref() == Some(&session.namespace);
    let mut found = Found { address: args.address, holders: vec![], floating_ips: vec![], named_by: vec![] };
    for address in inspection.addresses() {
        if address.spec.address.parse() == Ok(args.address) && is_meant(address.namespace()) {
            found.holders.push(holder(session, &inspection, &address).await);
        }
    }
    let pools: Vec<_> = inspection.pools().into_iter().filter(|pool| is_meant(pool.namespace())).collect();
    let named = pools.iter().filter_map(|pool| naming(pool, args.address).map(|how| format!("{} ({how})", full(pool))));
    found.named_by = named.collect();
    let is_the_holders = |pool: &OpenStackFloatingIPPool| {
        let namespace = pool.namespace().unwrap_or_default();
        found.holders.iter().any(|holder| holder.pool == pool.name_any() && holder.namespace == namespace)
    };
    // The holder's pool is where it is; only an address that nobody holds is looked for everywhere.
    let is_held = pools.iter().any(|pool| is_the_holders(pool));
    for pool in pools.iter().filter(|pool| !is_held || is_the_holders(pool)) {
        progress.step(&format!("asking OpenStack as pool {}", full(pool)));
        match session.look(&inspection, pool).await? {
            Ok(view) => found.floating_ips.extend(seen(pool, &view, &inspection, args.address)),
            Err(trouble) => output::note(&format!("pool {} is not looked at in OpenStack: {trouble}", full(pool))),
        }
    }
    found.floating_ips = concerned(found.floating_ips);
    drop(progress);
    output::print(&found, format)?;
    Ok(Answer::when(!found.holders.is_empty()))
}

fn full(pool: &OpenStackFloatingIPPool) -> String {
    format!("{}/{}", pool.namespace().unwrap_or_default(), pool.name_any())
}

async fn holder(session: &Session, inspection: &Inspection, address: &Arc<IpAddress>) -> Holder {
    let namespace = address.namespace().unwrap_or_default();
    let claim = inspection.claims().into_iter().find(|claim| {
        claim.namespace().as_deref() == Some(&namespace) && claim.name_any() == address.spec.claim_ref.name
    });
    let owners = match &claim {
        Some(claim) => owners::chain(&session.client, &namespace, claim.owner_references()).await,
        None => Vec::new(),
    };
    let pool = &address.spec.pool_ref;
    let annotation = |name: &str| address.annotations().get(name).cloned();
    Holder {
        claim: address.spec.claim_ref.name.clone(),
        owners,
        // CAPO labels its claims alone.
        cluster: label(address.as_ref()).or_else(|| claim.as_deref().and_then(label)),
        provider: format!("{}.{}", pool.kind, pool.api_group.as_deref().unwrap_or_default()),
        pool: pool.name.clone(),
        origin: annotation(ORIGIN_ANNOTATION),
        since: address.metadata.creation_timestamp.as_ref().map(|time| time.0),
        is_being_deleted: claim.is_some_and(|claim| claim.metadata.deletion_timestamp.is_some()),
        floating_ip_id: annotation(POOL_ID_ANNOTATION).and_then(|_| annotation(FLOATING_IP_ID_ANNOTATION)),
        namespace,
    }
}

fn label(object: &impl ResourceExt) -> Option<String> {
    object.labels().get(CLUSTER_NAME_LABEL).cloned()
}

/// How a pool's spec names the address.
fn naming(pool: &OpenStackFloatingIPPool, address: IpAddr) -> Option<&'static str> {
    let is_it = |text: &String| text.parse() == Ok(address);
    let spec = &pool.spec;
    if spec.reservations.iter().any(|reservation| is_it(&reservation.address)) {
        return Some("spec.reservations");
    }
    let is_excluded =
        |range: &String| is_it(range) || range.parse().is_ok_and(|range: ipnet::IpNet| range.contains(&address));
    if spec.excluded_addresses.iter().any(is_excluded) {
        return Some("spec.excludedAddresses");
    }
    spec.pre_allocated_floating_ips.iter().any(is_it).then_some("spec.preAllocatedFloatingIPs")
}

fn seen(pool: &OpenStackFloatingIPPool, view: &View, inspection: &Inspection, address: IpAddr) -> Vec<Seen> {
    let keys = keys(inspection);
    let entries = view.entries().into_iter().filter(|entry| entry.fip.address == address);
    entries.map(|entry| one(pool, view, &entry, &keys)).collect()
}

fn one(pool: &OpenStackFloatingIPPool, view: &View, entry: &LedgerEntry, keys: &Keys) -> Seen {
    let fip = &entry.fip;
    Seen {
        pool: full(pool),
        project: fip.project.to_string(),
        id: fip.id.to_string(),
        network: fip.network.to_string(),
        port: fip.port.as_ref().map(ToString::to_string),
        has_port_forwardings: fip.is_forwarded,
        description: fip.description.clone(),
        tags: fip.tags.iter().cloned().collect(),
        changed_at: fip.changed_at,
        standing: describe(entry, view.policy(), keys),
        attachment: attachment(entry),
    }
}

/// Several pools of one project see the same floating IP: the one whose mark it carries tells.
fn concerned(seen: Vec<Seen>) -> Vec<Seen> {
    let mut by_id: BTreeMap<String, Seen> = BTreeMap::new();
    for one in seen {
        let is_foreign = one.standing.contains("another pool");
        match by_id.get(&one.id) {
            Some(_) if is_foreign => {}
            _ => drop(by_id.insert(one.id.clone(), one)),
        }
    }
    by_id.into_values().collect()
}

impl Report for Found {
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
        for seen in &self.floating_ips {
            text += &seen.text(is_wide);
        }
        if self.floating_ips.is_empty() && self.holders.is_empty() {
            text += "  OpenStack has no such floating IP in the projects that were looked at\n";
        }
        text
    }
}

impl Holder {
    fn text(&self) -> String {
        let or_none = |text: &Option<String>| text.clone().unwrap_or("-".into());
        let owners = if self.owners.is_empty() { "nobody that its owners tell".into() } else { self.owners.join(", ") };
        let since = self.since.map_or("-".into(), |at| format!("{at} ({})", age(at, Timestamp::now())));
        fields(&[
            ("for", owners),
            ("cluster", or_none(&self.cluster)),
            ("pool", format!("{} ({})", self.pool, self.provider)),
            ("origin", or_none(&self.origin)),
            ("since", since),
        ])
    }
}

impl Seen {
    fn text(&self, is_wide: bool) -> String {
        let mut lines =
            vec![("Neutron", format!("floating IP {}, {}", self.id, self.attachment)), ("mark", self.standing.clone())];
        if is_wide {
            lines.push(("project", self.project.clone()));
            lines.push(("network", self.network.clone()));
            lines.push(("description", self.description.clone()));
            lines.push(("tags", self.tags.join(", ")));
            lines.push(("changed", self.changed_at.map_or("-".into(), |at| at.to_string())));
        }
        fields(&lines)
    }
}
