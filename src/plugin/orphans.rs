//! `orphans`: floating IPs that carry a pool's mark and that no claim holds, as the sweep sees them; a report of them, and
//! their release from it.

mod release;
mod report;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use kube::ResourceExt;

use super::cli::{Format, Orphans, OrphansCommand};
use super::exit::{Answer, Failure};
use super::output::{self, Progress};
use super::ownership::{Keys, attachment, describe, keys};
use super::session::Session;
use crate::allocation::PoolId;
use crate::allocation::ledger::LedgerEntry;
use crate::allocation::mark::Ownership;
use crate::api::OpenStackFloatingIPPool;
use crate::controllers::inspect::{Inspection, View};
use report::{Orphan, Stranger, Written};

/// Reports, or releases.
pub(super) async fn run(session: &Session, args: &Orphans, format: Option<Format>) -> Result<Answer, Failure> {
    if let Some(OrphansCommand::Release(args)) = &args.release {
        return release::run(session, args, format).await;
    }
    let written = look(session, &args.pools.pools).await?;
    if let Some(path) = &args.report {
        save(&written, path)?;
        output::note(&format!(
            "written to {}: `kubectl fippool orphans release --from-report` takes it",
            path.display()
        ));
    }
    output::print(&written, format)?;
    Ok(Answer::when(written.orphans.is_empty()))
}

/// A report is evidence: it is never written over.
fn save(written: &Written, path: &Path) -> Result<(), Failure> {
    let failed =
        |error: &dyn std::fmt::Display| Failure::Usage(format!("{} cannot be written: {error}", path.display()));
    let text = serde_json::to_string_pretty(written).map_err(|error| failed(&error))? + "\n";
    let mut file = std::fs::File::create_new(path).map_err(|error| failed(&error))?;
    std::io::Write::write_all(&mut file, text.as_bytes()).map_err(|error| failed(&error))
}

async fn look(session: &Session, named: &[String]) -> Result<Written, Failure> {
    let progress = Progress::new();
    progress.step("listing pools and claims");
    let inspection = session.inspect().await?;
    let pools = session.select(inspection.pools(), named)?;
    let mut views: Vec<(Arc<OpenStackFloatingIPPool>, View)> = Vec::new();
    for pool in pools {
        let name = format!("{}/{}", pool.namespace().unwrap_or_default(), pool.name_any());
        progress.step(&format!("asking OpenStack as pool {name}"));
        match session.look(&inspection, &pool).await? {
            Ok(view) => views.push((pool, view)),
            Err(trouble) => output::note(&format!("pool {name} is not looked at: {trouble}")),
        }
    }
    let taken_at = Timestamp::now();
    // What Neutron shows as marked had its claim by then: so Kubernetes is listed after it.
    inspection.refresh().await.map_err(|error| Failure::kubernetes("list pools and claims again", &error))?;
    let keys = keys(&inspection);
    let orphans = views.iter().flat_map(|(pool, view)| of_pool(pool, view, &keys)).collect();
    Ok(Written {
        version: report::VERSION,
        cluster: session.url.clone(),
        taken_at,
        orphans,
        strangers: strangers(&views, &inspection),
    })
}

fn of_pool(pool: &OpenStackFloatingIPPool, view: &View, keys: &Keys) -> Vec<Orphan> {
    let sweep = view.sweep(None);
    let entries = view.entries();
    let found = sweep.orphans.iter().chain(&sweep.copied);
    let is_paused = view.has_paused_cluster();
    let of = |entry: &LedgerEntry| Orphan {
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
            describe(entry, view.policy(), keys),
            "no IPAddress of this management cluster names it".into(),
            attachment(entry),
        ],
        hindrance: hindrance(entry, &view.policy().id, sweep.copied.contains(&entry.fip.id), is_paused),
    };
    found.filter_map(|id| entries.iter().find(|entry| entry.fip.id == *id)).map(of).collect()
}

/// Why it would not be released, as things are.
fn hindrance(entry: &LedgerEntry, pool: &PoolId, is_copied: bool, is_paused: bool) -> Option<String> {
    let why = match () {
        () if entry.fip.is_attached() => "something is attached to it: detach it first, if it is nobody's",
        () if is_copied => "its description was copied onto, or from, another floating IP: clear the copied one",
        () if !matches!(entry.marks.ownership(pool), Ownership::Held(_)) => {
            "it carries another owner's mark too: the controller takes ours off by itself"
        }
        () if is_paused => "a Cluster of the namespace is paused: a move or a restore may be under way",
        () => return None,
    };
    Some(why.to_owned())
}

/// What carries marks of pools that are not here: another management cluster's, or what a pool left that went by force.
fn strangers(views: &[(Arc<OpenStackFloatingIPPool>, View)], inspection: &Inspection) -> Vec<Stranger> {
    let known = inspection.pools();
    let known = known.iter().filter_map(|pool| {
        let annotation = pool.annotations().get(crate::api::names::POOL_ID_ANNOTATION);
        PoolId::parse(pool.spec.pool_id.as_deref().or(annotation.map(String::as_str))?)
    });
    let known: BTreeSet<PoolId> = known.chain(views.iter().map(|(_, view)| view.policy().id.clone())).collect();
    let mut seen = BTreeSet::new();
    let mut strangers = Vec::new();
    for entry in views.iter().flat_map(|(_, view)| view.entries()) {
        let pools = entry.marks.pools();
        let is_strange = !pools.is_empty() && pools.iter().all(|pool| !known.contains(*pool));
        if is_strange && seen.insert(entry.fip.id.clone()) {
            strangers.push(Stranger {
                id: entry.fip.id.to_string(),
                address: entry.fip.address,
                project: entry.fip.project.to_string(),
                pool_ids: pools.into_iter().map(ToString::to_string).collect(),
                description: entry.fip.description.clone(),
            });
        }
    }
    strangers
}
