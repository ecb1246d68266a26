//! `explain`: why a claim has its address, or none, and what would give it one, as the controllers' own code decides.

mod remedies;
mod verdict;

use std::sync::Arc;

use jiff::Timestamp;
use kube::ResourceExt;
use serde::Serialize;

use super::exit::{Answer, Failure};
use super::figures::PoolCapacity;
use super::output::format::Format;
use super::output::{self, Progress, Report, age, bold, fields};
use super::session::{PluginSession, find_pool, object_name};
use crate::api::conditions::claim_ready;
use crate::api::{IpAddressClaim, IpamVersion};
use crate::controllers::inspect::{Inspection, View};
use crate::object_name::ObjectName;

/// How many claims ahead are named without `-o wide`.
const NAMED_AHEAD: usize = 3;

#[derive(Serialize, Debug)]
#[serde(rename_all = "camelCase")]
struct Explanation {
    namespace: String,
    claim: String,
    pool: String,
    address: Option<String>,
    why: String,
    /// What the controller does next.
    next: Option<String>,
    /// The claim's `Ready` condition, as the controller last wrote it.
    condition: Option<ReadyCondition>,
    place: Option<WaitingPosition>,
    capacity: Option<PoolCapacity>,
    /// Alternatives, each of which would give it an address.
    remedies: Vec<String>,
}

#[derive(Serialize, Debug)]
struct ReadyCondition {
    status: String,
    reason: String,
    message: String,
}

#[derive(Serialize, Debug)]
struct WaitingPosition {
    /// From 1.
    position: usize,
    of: usize,
    /// The claims before it, oldest first.
    ahead: Vec<String>,
    since: Timestamp,
}

pub(super) async fn explain_claim(
    session: &PluginSession,
    name: &str,
    format: Option<&Format>,
) -> Result<Answer, Failure> {
    let progress = Progress::start("listing pools and claims");
    let inspection = session.inspect().await?;
    let claim = find_claim(session, &inspection, name)?;
    let view = match find_pool(&inspection, &pool_name(&claim)).filter(|_| claim.spec.pool_ref.is_ours()) {
        // What is wrong with the pool becomes the verdict on its claims.
        Some(pool) => session.inspect_pool(&inspection, &pool, &progress).await?.ok(),
        None => None,
    };
    if let Some(view) = &view {
        // A quota that is used up becomes part of the verdict.
        view.quota().await.map_err(|error| Failure::Request(format!("read the quota: {error}")))?;
    }
    session.refresh(&inspection).await?;
    // It may have been served or deleted in the meantime.
    let claim = find_claim(session, &inspection, name)?;
    let explanation = explain(&inspection, &claim, view.as_ref(), session.version().await?);
    drop(progress);
    output::print(&explanation, format)?;
    Ok(Answer::yes_if(explanation.address.is_some()))
}

fn pool_name(claim: &IpAddressClaim) -> ObjectName {
    ObjectName::new(claim.namespace().unwrap_or_default(), &claim.spec.pool_ref.name)
}

/// The claim of this name, or of the server of this name.
fn find_claim(session: &PluginSession, inspection: &Inspection, name: &str) -> Result<Arc<IpAddressClaim>, Failure> {
    let claims = inspection.claims();
    let names = [name.to_owned(), format!("{name}-floating-ip-address")];
    let mut found = names.iter().filter_map(|name| {
        let name = ObjectName::new(&session.namespace, name);
        claims.iter().find(|claim| object_name(claim.as_ref()) == name).cloned()
    });
    found.next().ok_or_else(|| {
        Failure::NotFound(format!(
            "there is no IPAddressClaim {name} or {name}-floating-ip-address in namespace {}: `kubectl get ipaddressclaims` lists all claims; CAPO creates a machine's claim when its template has a floatingIPPoolRef",
            session.namespace
        ))
    })
}

/// `view` is none where the pool is not ours, or cannot be worked with.
fn explain(
    inspection: &Inspection,
    claim: &Arc<IpAddressClaim>,
    view: Option<&View>,
    version: IpamVersion,
) -> Explanation {
    let name = object_name(claim.as_ref());
    let verdict = inspection.verdict(claim);
    let description = verdict::describe(&verdict, |id| {
        view?.entries().into_iter().find(|entry| entry.fip.id == *id).map(|entry| entry.fip.address)
    });
    let place = find_place(inspection, claim);
    let ahead = place.as_ref().map_or(0, |place| place.ahead.len());
    Explanation {
        pool: claim.spec.pool_ref.name.clone(),
        address: published_address(inspection, claim),
        why: description.why,
        next: description.next,
        condition: claim_ready(claim.status.as_ref(), version).map(|(status, reason, message)| ReadyCondition {
            status,
            reason,
            message,
        }),
        capacity: view.map(|view| PoolCapacity {
            counts: (&view.usage()).into(),
            limit: view.policy().max_ips.map(|limit| u32::try_from(limit).unwrap_or(u32::MAX)),
            network: view.network().map(|network| network.name.clone()),
        }),
        remedies: view.map_or(Vec::new(), |view| remedies::find_remedies(inspection, claim, &verdict, view, ahead)),
        place,
        namespace: name.namespace,
        claim: name.name,
    }
}

fn published_address(inspection: &Inspection, claim: &IpAddressClaim) -> Option<String> {
    let address = &claim.status.as_ref()?.address_ref.as_ref()?.name;
    let name = ObjectName::new(claim.namespace().unwrap_or_default(), address);
    let published = inspection.addresses().into_iter().find(|address| object_name(address.as_ref()) == name)?;
    Some(published.spec.address.clone())
}

fn find_place(inspection: &Inspection, claim: &IpAddressClaim) -> Option<WaitingPosition> {
    let name = object_name(claim);
    let waiting = inspection.waiting(&pool_name(claim));
    let ahead: Vec<String> =
        waiting.iter().map(|it| &it.object).take_while(|it| **it != name).map(|it| it.name.clone()).collect();
    let since = waiting.iter().nth(ahead.len())?.since;
    Some(WaitingPosition { position: ahead.len().saturating_add(1), of: waiting.len(), ahead, since })
}

impl Report for Explanation {
    fn text(&self, is_wide: bool) -> String {
        let claim = bold(format_args!("{}/{}", self.namespace, self.claim));
        let mut text = match &self.address {
            Some(address) => format!("{claim} has {}\n", bold(address)),
            None => format!("{claim} has no address\n"),
        };
        let mut lines = vec![("why", self.why.clone())];
        lines.extend(self.next.clone().map(|next| ("next", next)));
        let capacity =
            self.capacity.as_ref().map_or(String::new(), |capacity| format!(": {}", describe_capacity(capacity)));
        lines.push(("pool", format!("{}{capacity}", self.pool)));
        lines.extend(self.place.iter().flat_map(|place| place.lines(is_wide)));
        lines.extend(self.unready().map(|condition| ("condition", condition)));
        text += &fields(&lines);
        if !self.remedies.is_empty() {
            text += "What would give it an address:\n";
            self.remedies.iter().for_each(|remedy| text += &format!("  - {remedy}\n"));
        }
        text
    }
}

impl Explanation {
    fn unready(&self) -> Option<String> {
        match &self.condition {
            Some(condition) if condition.status == "True" => None,
            Some(condition) => Some(format!("{}: {}", condition.reason, condition.message)),
            None if self.address.is_some() => None,
            None => Some(
                "the controller has not reported anything yet: `kubectl fippool check` shows whether it runs".into(),
            ),
        }
    }
}

impl WaitingPosition {
    fn lines(&self, is_wide: bool) -> Vec<(&'static str, String)> {
        let Self { position, of, ahead, since } = self;
        let mut lines =
            vec![("place", format!("{position} of {of} waiting claims, for {}", age(*since, Timestamp::now())))];
        let (named, unnamed) = ahead.split_at(if is_wide { ahead.len() } else { NAMED_AHEAD.min(ahead.len()) });
        let more = if unnamed.is_empty() { String::new() } else { format!(" and {} more", unnamed.len()) };
        if !ahead.is_empty() {
            lines.push(("behind", named.join(", ") + &more));
        }
        lines
    }
}

fn describe_capacity(PoolCapacity { counts, limit, network }: &PoolCapacity) -> String {
    let limit = limit.map_or("no limit".into(), |limit| format!("limit {limit}"));
    let network = network.as_ref().map_or("closed list".into(), |network| format!("network {network}"));
    let out_of_range = counts.out_of_range.filter(|count| *count > 0);
    let out_of_range = out_of_range.map_or_else(String::new, |count| format!(" ({count} out of range)"));
    format!(
        "{} allocated{out_of_range}, {} free, {} cooling down, {} unusable, {limit}, {network}",
        counts.allocated, counts.free, counts.cooling, counts.failed
    )
}
