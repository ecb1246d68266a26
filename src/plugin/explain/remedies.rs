//! What would give a refused claim an address. A higher limit and a later time are tried on the controllers' own decision
//! before they are suggested.

use std::sync::Arc;

use jiff::Timestamp;
use kube::ResourceExt;

use crate::allocation::Refusal;
use crate::allocation::claim::Decision;
use crate::allocation::mark::Ownership;
use crate::api::IpAddressClaim;
use crate::controllers::inspect::{Inspection, Verdict, View};
use crate::time::after;

/// `ahead` is the number of claims that are served before this one. Empty unless the verdict is a refusal.
pub(super) fn find_remedies(
    inspection: &Inspection,
    claim: &Arc<IpAddressClaim>,
    verdict: &Verdict,
    view: &View,
    ahead: usize,
) -> Vec<String> {
    let Verdict::Next(Decision::Refuse(refusal)) = verdict else { return Vec::new() };
    let count = view.usage();
    let mut remedies = Vec::new();
    if let Refusal::LimitReached(limit) = refusal {
        let enough = count.total.max(*limit).saturating_add(ahead).saturating_add(1);
        let decision = inspection.decide_hypothetically(claim, |pool| pool.max_ips = Some(enough), Timestamp::now());
        let but = match decision {
            Some(Decision::Refuse(next)) => format!("; but then: {next}"),
            _ => String::new(),
        };
        remedies.push(format!("raise spec.maxIPs to {enough} or more{but}"));
    }
    remedies.extend(released_addresses(inspection, claim, view));
    remedies.extend(count.failures.iter().map(|(address, failure)| format!("{address} {failure}")));
    let has_reservation = view.policy().reservations.contains_key(&claim.name_any());
    if count.allocated > 0 && !has_reservation {
        remedies.push(format!("delete one of the {} claims that hold an address of the pool", count.allocated));
    }
    remedies
}

fn released_addresses(inspection: &Inspection, claim: &Arc<IpAddressClaim>, view: &View) -> Vec<String> {
    let now = Timestamp::now();
    let mut remedies = Vec::new();
    for entry in view.entries() {
        let Ownership::Released { at, .. } = entry.marks.ownership(&view.policy().id) else { continue };
        let (address, end) = (entry.fip.address, after(at, view.policy().grace));
        if entry.fip.is_attached() {
            remedies.push(format!("{address} was released, and can be allocated once it is detached from its port"));
        } else if end > now
            && !matches!(inspection.decide_hypothetically(claim, |_| {}, end), None | Some(Decision::Refuse(_)))
        {
            remedies.push(format!("wait until {end}: {address} was released, and is cooling down until then"));
        }
    }
    remedies
}
