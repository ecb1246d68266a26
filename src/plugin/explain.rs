//! `explain`: why a claim has its address, or none, and what would give it one. The controllers' own decision is asked;
//! whether a higher limit or a later time would help is found by asking it again.

mod words;

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use serde::Serialize;

use super::cli::{Explain, Format};
use super::exit::{Answer, Failure};
use super::output::{self, Progress, Report, age, bold, fields};
use super::session::Session;
use crate::allocation::Refusal;
use crate::allocation::claim::Decision;
use crate::allocation::count::PoolUsage;
use crate::allocation::mark::Ownership;
use crate::api::conditions::claim_ready;
use crate::api::{IpAddressClaim, OpenStackFloatingIPPool};
use crate::controllers::inspect::{Inspection, Trouble, Verdict, View};
use crate::object_name::ObjectName;

/// Why a claim is as it is.
#[derive(Serialize, Debug)]
#[serde(rename_all = "camelCase")]
struct Explanation {
    namespace: String,
    claim: String,
    pool: String,
    /// What it has.
    address: Option<String>,
    /// In one line.
    why: String,
    /// What the controller does about it.
    next: Option<String>,
    /// What the controller wrote into the claim last.
    told: Option<Told>,
    /// Its place among those that wait.
    place: Option<QueuePosition>,
    /// What the pool has.
    pool_has: Option<PoolHas>,
    /// What would give it an address; any one of them.
    remedies: Vec<String>,
}

#[derive(Serialize, Debug)]
struct Told {
    status: String,
    reason: String,
    message: String,
}

#[derive(Serialize, Debug)]
struct QueuePosition {
    position: usize,
    of: usize,
    /// The claims before it, oldest first.
    ahead: Vec<String>,
    since: Timestamp,
}

#[derive(Serialize, Debug)]
struct PoolHas {
    allocated: usize,
    free: usize,
    cooling: usize,
    failed: usize,
    limit: Option<usize>,
    network: Option<String>,
}

/// Prints why the claim is as it is.
pub(super) async fn run(session: &Session, args: &Explain, format: Option<Format>) -> Result<Answer, Failure> {
    let progress = Progress::new();
    progress.step("listing pools and claims");
    let inspection = session.inspect().await?;
    let claim = find(session, &inspection, &args.claim)?;
    let name = session.object(&claim.name_any());
    let pool_name = ObjectName::new(&name.namespace, &claim.spec.pool_ref.name);
    let is_it = |pool: &&Arc<OpenStackFloatingIPPool>| {
        pool.namespace().as_deref() == Some(&pool_name.namespace) && pool.name_any() == pool_name.name
    };
    let pool = inspection.pools().iter().find(is_it).cloned().filter(|_| claim.spec.pool_ref.is_ours());
    let looked = match &pool {
        None => None,
        Some(pool) => {
            progress.step(&format!("asking OpenStack as pool {pool_name}"));
            let looked = session.look(&inspection, pool).await?;
            if let Ok(view) = &looked {
                view.quota().await.map_err(|error| Failure::Asked(format!("read the quota: {error}")))?;
            }
            Some(looked)
        }
    };
    let failed = |error| Failure::kubernetes("list pools and claims again", &error);
    inspection.refresh().await.map_err(failed)?;
    // It may have been served, or be gone, meanwhile.
    let claim = find(session, &inspection, &args.claim)?;
    let version = session.version().await?;
    let explanation = explain(&inspection, &claim, looked.as_ref(), version);
    drop(progress);
    output::print(&explanation, format)?;
    Ok(Answer::when(explanation.address.is_some()))
}

/// The claim of this name, or that of the server of this name.
fn find(session: &Session, inspection: &Inspection, name: &str) -> Result<Arc<IpAddressClaim>, Failure> {
    let all = inspection.claims();
    let named = |wanted: &str| {
        let is_it = |claim: &&Arc<IpAddressClaim>| {
            claim.namespace().as_deref() == Some(&session.namespace) && claim.name_any() == wanted
        };
        all.iter().find(is_it).cloned()
    };
    named(name).or_else(|| named(&format!("{name}-floating-ip-address"))).ok_or_else(|| {
        Failure::NotFound(format!(
            "there is no IPAddressClaim {name}, nor {name}-floating-ip-address, in namespace {}: `kubectl get ipaddressclaims` lists them; CAPO makes a machine's when its template has a floatingIPPoolRef",
            session.namespace
        ))
    })
}

fn explain(
    inspection: &Inspection,
    claim: &Arc<IpAddressClaim>,
    looked: Option<&Result<View, Trouble>>,
    version: crate::api::IpamVersion,
) -> Explanation {
    let name = ObjectName::new(claim.namespace().unwrap_or_default(), claim.name_any());
    let view = looked.and_then(|looked| looked.as_ref().ok());
    let verdict = inspection.verdict(claim);
    let published = inspection.addresses().into_iter().find(|address| {
        address.namespace().as_deref() == Some(&name.namespace)
            && claim
                .status
                .as_ref()
                .and_then(|status| status.address_ref.as_ref())
                .is_some_and(|its| its.name == address.name_any())
    });
    let told =
        claim_ready(claim.status.as_ref(), version).map(|(status, reason, message)| Told { status, reason, message });
    let count = view.map(View::count);
    let said = words::of(&verdict, |id| {
        view?.entries().into_iter().find(|entry| entry.fip.id == *id).map(|entry| entry.fip.address)
    });
    let waiting = inspection.waiting(&ObjectName::new(&name.namespace, &claim.spec.pool_ref.name));
    let place = waiting.iter().position(|place| place.object == name).map(|at| QueuePosition {
        position: at + 1,
        of: waiting.len(),
        ahead: waiting[..at].iter().map(|place| place.object.name.clone()).collect(),
        since: waiting[at].since,
    });
    let remedies = match (&verdict, view) {
        (Verdict::Next(Decision::Refuse(refusal)), Some(view)) => {
            let ahead = place.as_ref().map_or(0, |place| place.position - 1);
            remedies(inspection, claim, refusal, view, ahead)
        }
        _ => Vec::new(),
    };
    Explanation {
        namespace: name.namespace,
        claim: name.name,
        pool: claim.spec.pool_ref.name.clone(),
        address: published.map(|address| address.spec.address.clone()),
        why: said.why,
        next: said.next,
        told,
        place,
        pool_has: count.zip(view).map(|(count, view)| pool_has(&count, view)),
        remedies,
    }
}

fn pool_has(count: &PoolUsage, view: &View) -> PoolHas {
    PoolHas {
        allocated: count.allocated,
        free: count.free,
        cooling: count.cooling,
        failed: count.failed,
        limit: view.policy().max_ips,
        network: view.network().map(|network| network.name.clone()),
    }
}

/// What would give it an address. A higher limit and a later time are tried on the decision itself before they are said.
fn remedies(
    inspection: &Inspection,
    claim: &Arc<IpAddressClaim>,
    refusal: &Refusal,
    view: &View,
    ahead: usize,
) -> Vec<String> {
    let now = Timestamp::now();
    let mut remedies = Vec::new();
    if let Refusal::LimitReached(limit) = refusal {
        let enough = view.count().total.max(*limit).saturating_add(ahead + 1);
        match inspection.suppose(claim, |pool| pool.max_ips = Some(enough), now) {
            Some(Decision::Refuse(next)) => {
                remedies.push(format!("raise spec.maxIPs to {enough} or more; but then {next}"));
            }
            _ => remedies.push(format!("raise spec.maxIPs to {enough} or more")),
        }
    }
    for entry in view.entries() {
        let Ownership::Released { at, .. } = entry.marks.ownership(&view.policy().id) else { continue };
        let (address, rested) = (entry.fip.address, cooldown_end(at, view.policy().grace));
        if entry.fip.is_attached() {
            remedies
                .push(format!("{address} was given back, and is to be had once nothing is attached to it any more"));
        } else if rested > now && !matches!(inspection.suppose(claim, |_| {}, rested), None | Some(Decision::Refuse(_)))
        {
            remedies.push(format!("wait until {rested}: {address} was given back and rests until then"));
        }
    }
    let count = view.count();
    remedies.extend(count.failures.iter().map(|(address, failure)| format!("{address} {failure}")));
    let is_for_its_own = view.policy().reservations.contains_key(&claim.name_any());
    if count.allocated > 0 && !is_for_its_own {
        remedies.push(format!("release one of the {} claims that hold an address of the pool", count.allocated));
    }
    remedies
}

/// The time comes from a tag, which anyone in the project can write.
fn cooldown_end(released_at: Timestamp, grace: SignedDuration) -> Timestamp {
    released_at.saturating_add(grace).unwrap_or(Timestamp::MAX)
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
        let has = self.pool_has.as_ref().map_or(String::new(), |has| format!(": {}", has.text()));
        lines.push(("pool", format!("{}{has}", self.pool)));
        if let Some(QueuePosition { position, of, ahead, since }) = &self.place {
            lines.push(("place", format!("{position} of {of} that wait, for {}", age(*since, Timestamp::now()))));
            let some = if is_wide { ahead.len() } else { 3 };
            let more = if ahead.len() > some { format!(" and {} more", ahead.len() - some) } else { String::new() };
            if !ahead.is_empty() {
                lines.push(("behind", ahead.iter().take(some).cloned().collect::<Vec<_>>().join(", ") + &more));
            }
        }
        match &self.told {
            Some(told) if told.status == "True" => {}
            Some(told) => lines.push(("told", format!("{}: {}", told.reason, told.message))),
            None if self.address.is_none() => {
                lines.push((
                    "told",
                    "nothing yet by the controller: `kubectl fippool check` says whether it runs".into(),
                ));
            }
            None => {}
        }
        text += &fields(&lines);
        if !self.remedies.is_empty() {
            text += "What would give it an address:\n";
            self.remedies.iter().for_each(|remedy| text += &format!("  - {remedy}\n"));
        }
        text
    }
}

impl PoolHas {
    fn text(&self) -> String {
        let limit = self.limit.map_or("no limit".into(), |limit| format!("limit {limit}"));
        let network = self.network.as_ref().map_or("a closed list".into(), |network| format!("network {network}"));
        let Self { allocated, free, cooling, failed, .. } = self;
        format!(
            "{allocated} allocated, {free} free, {cooling} on their way out, {failed} that cannot be given, {limit}, {network}"
        )
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by it")]
mod tests {
    use super::*;

    #[test]
    fn a_release_tag_with_the_latest_possible_time_does_not_overflow() {
        let released_at = Timestamp::from_second(0x3a_fff2_d3e0).unwrap();
        assert_eq!(cooldown_end(released_at, SignedDuration::from_secs(300)), Timestamp::MAX);
    }
}
