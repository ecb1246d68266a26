//! `orphans release`: checks each orphan of a report again, and tags for release those that are still orphans, unchanged
//! and without a port. The controllers do the rest, as for any released address.

use std::collections::BTreeMap;
use std::io::{BufRead, IsTerminal, Write};
use std::net::IpAddr;
use std::path::Path;

use anstyle::AnsiColor;
use serde::Serialize;

use super::report::{Orphan, OrphanReport, VERSION};
use super::{CONTESTED, PAUSED_CLUSTER};
use crate::allocation::ledger::LedgerEntry;
use crate::allocation::sweep::{SweepAction, SweepPlan};
use crate::controllers::inspect::View;
use crate::floating_ip::{FloatingIp, FloatingIpId};
use crate::object_name::ObjectName;
use crate::plugin::cli::Release;
use crate::plugin::exit::{Answer, Failure};
use crate::plugin::output::format::Format;
use crate::plugin::output::{self, Progress, Report, paint, table};
use crate::plugin::session::{PluginSession, find_pool};
use crate::text::one_line;

/// What happened to each orphan of the report.
#[derive(Serialize, Debug)]
#[serde(transparent)]
struct ReleaseReport(Vec<ReleaseResult>);

#[derive(Serialize, Debug)]
#[serde(rename_all = "camelCase")]
struct ReleaseResult {
    namespace: String,
    pool: String,
    address: IpAddr,
    id: String,
    is_released: bool,
    /// Why it was not released.
    why: Option<String>,
}

/// An orphan that may be released: the write that releases it, and the view to write through.
type ConfirmedRelease<'a> = (SweepAction, &'a View);

pub(in crate::plugin) async fn release_orphans(
    session: &PluginSession,
    args: &Release,
    format: Option<&Format>,
) -> Result<Answer, Failure> {
    let report = read_report(&args.from_report, &session.url)?;
    let views = inspect_pools(session, &report).await?;
    let checked: Vec<_> = report.orphans.iter().map(|orphan| (orphan, check_again(orphan, &report, &views))).collect();
    let confirmed: Vec<&Orphan> =
        checked.iter().filter(|(_, release)| release.is_ok()).map(|(orphan, _)| *orphan).collect();
    if !confirmed.is_empty() && !args.yes && !ask_for_confirmation(&confirmed, checked.len())? {
        output::note("nothing was released");
        return Ok(Answer::No);
    }
    let mut results = ReleaseReport(Vec::new());
    for (orphan, confirmed) in checked {
        let result = match confirmed {
            Ok((action, view)) => release(orphan, &action, view).await,
            Err(why) => Err(why),
        };
        results.0.push(ReleaseResult {
            namespace: orphan.namespace.clone(),
            pool: orphan.pool.clone(),
            address: orphan.address,
            id: orphan.id.clone(),
            is_released: result.is_ok(),
            why: result.err(),
        });
    }
    output::print(&results, format)?;
    Ok(Answer::yes_if(results.0.iter().all(|result| result.is_released)))
}

fn read_report(path: &Path, cluster: &str) -> Result<OrphanReport, Failure> {
    let unusable = |why: String| Failure::Usage(format!("{} {why}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| unusable(format!("cannot be read: {error}")))?;
    parse_report(&text, cluster).map_err(unusable)
}

/// The error says what the file is.
pub(crate) fn parse_report(text: &str, cluster: &str) -> Result<OrphanReport, String> {
    let report: OrphanReport = serde_json::from_str(text)
        .map_err(|error| format!("is not a report of `kubectl fippool orphans --report`: {error}"))?;
    if report.version != VERSION {
        return Err(format!(
            "has format version {}, but this program reads version {VERSION}: create a new report",
            report.version
        ));
    }
    if report.cluster != cluster {
        return Err(format!(
            "is about the management cluster {}, but this is {cluster}: use its --context",
            report.cluster
        ));
    }
    Ok(report)
}

/// The pools of the report, or why one cannot be used.
async fn inspect_pools(
    session: &PluginSession,
    report: &OrphanReport,
) -> Result<BTreeMap<ObjectName, Result<View, String>>, Failure> {
    let progress = Progress::start("listing pools and claims");
    let inspection = session.inspect().await?;
    let mut views = BTreeMap::new();
    for orphan in &report.orphans {
        let name = pool_name(orphan);
        if views.contains_key(&name) {
            continue;
        }
        let view = match find_pool(&inspection, &name) {
            None => Err("its pool is gone".into()),
            Some(pool) => {
                let result = session.inspect_pool(&inspection, &pool, &progress).await?;
                result.map_err(|trouble| format!("its pool cannot be used: {trouble}"))
            }
        };
        views.insert(name, view);
    }
    session.refresh(&inspection).await?;
    Ok(views)
}

fn pool_name(orphan: &Orphan) -> ObjectName {
    ObjectName::new(&orphan.namespace, &orphan.pool)
}

/// The report was the first sight of the orphan, and this is the second. An error says why it is not released.
fn check_again<'a>(
    orphan: &Orphan,
    report: &OrphanReport,
    views: &'a BTreeMap<ObjectName, Result<View, String>>,
) -> Result<ConfirmedRelease<'a>, String> {
    let view = views[&pool_name(orphan)].as_ref().map_err(Clone::clone)?;
    if view.policy().id.as_str() != orphan.pool_id {
        return Err("its pool was replaced by another one with the same name".into());
    }
    let id = FloatingIpId::new(&orphan.id);
    let sweep = view.sweep(Some((report.taken_at, std::slice::from_ref(&id))));
    let entries = view.entries();
    Ok((confirm_release(orphan, entries.iter().find(|entry| entry.fip.id == id), &sweep)?, view))
}

fn confirm_release(orphan: &Orphan, entry: Option<&LedgerEntry>, sweep: &SweepPlan) -> Result<SweepAction, String> {
    let entry = entry.ok_or("it is gone")?;
    check_unchanged(orphan, &entry.fip)?;
    if !sweep.orphans.contains(&entry.fip.id) {
        return Err("it is no longer an orphan: a claim holds it, or it is cooling down".into());
    }
    match sweep.actions.iter().find(|action| *action.id() == entry.fip.id) {
        Some(action @ (SweepAction::Release(..) | SweepAction::Describe(..))) => Ok(action.clone()),
        Some(_) => Err(CONTESTED.into()),
        None => Err(PAUSED_CLUSTER.into()),
    }
}

/// Whether it is as the report says, and unattached.
fn check_unchanged(orphan: &Orphan, fip: &FloatingIp) -> Result<(), String> {
    if fip.is_attached() {
        return Err("it is attached".into());
    }
    if fip.address != orphan.address || fip.description != orphan.description || fip.tags != orphan.tags {
        return Err("it has changed since the report: create a new report".into());
    }
    Ok(())
}

/// Reads the floating IP once more right before the write: the listing may be minutes old.
async fn release(orphan: &Orphan, action: &SweepAction, view: &View) -> Result<(), String> {
    let fip = view.get(action.id()).await.map_err(|error| error.to_string())?;
    check_unchanged(orphan, &fip.ok_or("it is gone")?)?;
    view.release(action).await.map_err(|error| error.to_string())
}

fn ask_for_confirmation(confirmed: &[&Orphan], all: usize) -> Result<bool, Failure> {
    if !std::io::stdin().is_terminal() {
        return Err(Failure::Usage("stdin is not a terminal: add --yes, or run the command on a terminal".into()));
    }
    for orphan in confirmed {
        let description = one_line(&orphan.description, 255);
        eprintln!("  {} of pool {}: {description}", orphan.address, one_line(&pool_name(orphan).to_string(), 255));
    }
    eprint!("Release {} of {all}? [y/N] ", confirmed.len());
    let _ = std::io::stderr().flush();
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer);
    read.map_err(|error| Failure::Usage(format!("the answer cannot be read: {error}")))?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

impl Report for ReleaseReport {
    fn text(&self, _: bool) -> String {
        let row = |result: &ReleaseResult| {
            let outcome = match &result.why {
                None => paint(
                    AnsiColor::Green,
                    "released: the controller deletes, keeps or unmarks it, as the pool specifies",
                ),
                Some(why) => paint(AnsiColor::Yellow, format_args!("not released: {why}")),
            };
            vec![result.namespace.clone(), result.pool.clone(), result.address.to_string(), outcome]
        };
        if self.0.is_empty() {
            return "the report contains no orphans\n".into();
        }
        table(&["NAMESPACE", "POOL", "ADDRESS", "OUTCOME"], &self.0.iter().map(row).collect::<Vec<_>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allocation::Ledger;

    const DESCRIPTION: &str = "caip-openstack pool=p nonce=nonce00001 claim=aaaabbbbccccdddd";

    fn fip() -> FloatingIp {
        FloatingIp {
            id: FloatingIpId::new("one"),
            address: "203.0.113.10".parse().expect("an address"),
            network: crate::floating_ip::NetworkId::new("net"),
            project: crate::floating_ip::ProjectId::new("project"),
            port: None,
            is_forwarded: false,
            description: DESCRIPTION.into(),
            tags: [].into(),
            dns_name: String::new(),
            changed_at: None,
            created_at: None,
        }
    }

    fn orphan() -> Orphan {
        Orphan {
            namespace: "team".into(),
            pool: "public".into(),
            pool_id: "p".into(),
            project: "project".into(),
            id: "one".into(),
            address: fip().address,
            port: None,
            description: DESCRIPTION.into(),
            tags: [].into(),
            changed_at: None,
            evidence: vec![],
            blocked_by: None,
        }
    }

    fn confirm(fip: Option<FloatingIp>, sweep: SweepPlan) -> Result<SweepAction, String> {
        let mut ledger = Ledger::default();
        let now = jiff::Timestamp::now();
        let began = ledger.begin(now);
        ledger.record_listing(began, fip.into_iter().collect(), now);
        confirm_release(&orphan(), ledger.get(&FloatingIpId::new("one")), &sweep)
    }

    fn release_plan() -> SweepPlan {
        let id = FloatingIpId::new("one");
        SweepPlan {
            orphans: vec![id.clone()],
            actions: vec![SweepAction::Release(id, "caip-out".into())],
            ..SweepPlan::default()
        }
    }

    #[test]
    fn what_is_still_an_orphan_is_released() {
        assert!(matches!(confirm(Some(fip()), release_plan()), Ok(SweepAction::Release(..))));
    }

    #[test]
    fn one_with_a_port_is_never_released_whatever_the_plan_says() {
        let port = Some(crate::floating_ip::PortId::new("port"));
        assert!(confirm(Some(FloatingIp { port, ..fip() }), release_plan()).is_err());
        assert!(confirm(Some(FloatingIp { is_forwarded: true, ..fip() }), release_plan()).is_err());
    }

    #[test]
    fn what_changed_since_the_report_is_left_alone() {
        assert!(confirm(None, release_plan()).is_err());
        let changes = [
            FloatingIp { description: "mail".into(), ..fip() },
            FloatingIp { tags: ["prod".to_owned()].into(), ..fip() },
            FloatingIp { address: "203.0.113.11".parse().expect("an address"), ..fip() },
        ];
        changes.into_iter().for_each(|fip| assert!(confirm(Some(fip.clone()), release_plan()).is_err(), "{fip:?}"));
    }

    #[test]
    fn what_the_plan_does_not_release_is_left_alone() {
        assert!(confirm(Some(fip()), SweepPlan::default()).is_err(), "no orphan any more");
        assert!(confirm(Some(fip()), SweepPlan { actions: vec![], ..release_plan() }).is_err(), "a Cluster is paused");
        let delete = SweepPlan { actions: vec![SweepAction::Delete(FloatingIpId::new("one"))], ..release_plan() };
        assert!(confirm(Some(fip()), delete).is_err());
    }
}
