//! `orphans`: floating IPs with the mark of a claim that does not exist, as the controllers' sweep finds them; a report of
//! them, and their release from that report.

pub(crate) mod release;
pub(crate) mod report;

use std::collections::BTreeSet;
use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use kube::ResourceExt;

use super::cli::Orphans;
use super::exit::{Answer, Failure};
use super::output::format::Format;
use super::output::{self, Progress};
use super::ownership::{ClaimNames, claim_names, describe_attachment, describe_ownership};
use super::session::PluginSession;
use crate::allocation::PoolId;
use crate::allocation::ledger::LedgerEntry;
use crate::allocation::mark::Ownership;
use crate::api::OpenStackFloatingIPPool;
use crate::api::names::POOL_ID_ANNOTATION;
use crate::controllers::inspect::{Inspection, View};
use report::{ForeignFloatingIp, Orphan, OrphanReport};

pub(super) use release::release_orphans;

const PAUSED_CLUSTER: &str = "a Cluster of the namespace is paused: a move or a restore may be in progress";
const CONTESTED: &str = "it also carries another owner's mark: the controller removes ours automatically";

pub(super) async fn list_orphans(
    session: &PluginSession,
    args: &Orphans,
    format: Option<&Format>,
) -> Result<Answer, Failure> {
    let report = create_report(session, &args.pools.pools).await?;
    if let Some(path) = &args.report {
        save(&report, path)?;
        output::note(&format!(
            "written to {}; release the orphans with `kubectl fippool orphans release --from-report`",
            path.display()
        ));
    }
    output::print(&report, format)?;
    Ok(Answer::yes_if(report.orphans.is_empty()))
}

/// A report is evidence: it is never overwritten.
fn save(report: &OrphanReport, path: &Path) -> Result<(), Failure> {
    let failed = |error: &dyn Display| Failure::Usage(format!("{} cannot be written: {error}", path.display()));
    let text = serde_json::to_string_pretty(report).map_err(|error| failed(&error))? + "\n";
    let mut file = std::fs::File::create_new(path).map_err(|error| failed(&error))?;
    std::io::Write::write_all(&mut file, text.as_bytes()).map_err(|error| failed(&error))
}

async fn create_report(session: &PluginSession, named: &[String]) -> Result<OrphanReport, Failure> {
    let progress = Progress::start("listing pools and claims");
    let inspection = session.inspect().await?;
    let mut views: Vec<(Arc<OpenStackFloatingIPPool>, View)> = Vec::new();
    for pool in session.select(inspection.pools(), named)? {
        if let Some(view) = session.inspect_usable_pool(&inspection, &pool, &progress).await? {
            views.push((pool, view));
        }
    }
    let taken_at = Timestamp::now();
    session.refresh(&inspection).await?;
    let claims = claim_names(&inspection);
    Ok(OrphanReport {
        version: report::VERSION,
        cluster: session.url.clone(),
        taken_at,
        orphans: views.iter().flat_map(|(pool, view)| pool_orphans(pool, view, &claims)).collect(),
        foreign: foreign_floating_ips(&views, &inspection),
    })
}

fn pool_orphans(pool: &OpenStackFloatingIPPool, view: &View, claims: &ClaimNames) -> Vec<Orphan> {
    let sweep = view.sweep(None);
    let entries = view.entries();
    let found = sweep.orphans.iter().chain(&sweep.copied);
    let describe = |entry: &LedgerEntry| Orphan {
        namespace: pool.namespace().unwrap_or_default(),
        pool: pool.name_any(),
        pool_id: view.policy().id.to_string(),
        project: entry.fip.project.to_string(),
        id: entry.fip.id.to_string(),
        address: entry.fip.address,
        port: entry.fip.port.as_ref().map(ToString::to_string),
        description: entry.fip.description.clone(),
        tags: entry.fip.tags.clone(),
        changed_at: entry.fip.changed_at,
        evidence: vec![
            describe_ownership(entry, view.policy(), claims),
            "no IPAddress of this management cluster names it".into(),
            describe_attachment(entry),
        ],
        blocked_by: find_blocked_by(entry, view, sweep.copied.contains(&entry.fip.id)).map(str::to_owned),
    };
    found.filter_map(|id| entries.iter().find(|entry| entry.fip.id == *id)).map(describe).collect()
}

/// Why an orphan would not be released now.
fn find_blocked_by(entry: &LedgerEntry, view: &View, is_copied: bool) -> Option<&'static str> {
    if entry.fip.is_attached() {
        Some("it is attached: detach it first, if it is unused")
    } else if is_copied {
        Some("it has the same description as another floating IP: clear the copied description")
    } else if !matches!(entry.marks.ownership(&view.policy().id), Ownership::Claimed(_)) {
        Some(CONTESTED)
    } else {
        view.has_paused_cluster().then_some(PAUSED_CLUSTER)
    }
}

/// Floating IPs that carry only marks of pools outside this management cluster: another one's, or those of a pool whose
/// finalizers were removed by force.
fn foreign_floating_ips(
    views: &[(Arc<OpenStackFloatingIPPool>, View)],
    inspection: &Inspection,
) -> Vec<ForeignFloatingIp> {
    let pools = inspection.pools();
    let known = pools.iter().flat_map(|pool| {
        let annotation = pool.annotations().get(POOL_ID_ANNOTATION);
        let reported = pool.status.as_ref().and_then(|status| status.pool_id.as_ref());
        let recorded = [pool.spec.pool_id.as_ref(), annotation, reported];
        recorded.into_iter().flatten().filter_map(|id| PoolId::parse(id)).collect::<Vec<_>>()
    });
    let known: BTreeSet<PoolId> = known.chain(views.iter().map(|(_, view)| view.policy().id.clone())).collect();
    let mut seen = BTreeSet::new();
    let mut foreign = Vec::new();
    for entry in views.iter().flat_map(|(_, view)| view.entries()) {
        let pools = entry.marks.pools();
        let is_foreign = !pools.is_empty() && pools.iter().all(|pool| !known.contains(*pool));
        if is_foreign && seen.insert(entry.fip.id.clone()) {
            foreign.push(ForeignFloatingIp {
                id: entry.fip.id.to_string(),
                address: entry.fip.address,
                project: entry.fip.project.to_string(),
                pool_ids: pools.into_iter().map(ToString::to_string).collect(),
                description: entry.fip.description.clone(),
            });
        }
    }
    foreign
}
