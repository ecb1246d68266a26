//! `orphans release`: what a report names is looked at again, and only what is an orphan still, unchanged and without a
//! port, is tagged for release. The controllers do the rest, as with any address that was given back.

use std::collections::BTreeMap;
use std::collections::btree_map;
use std::io::{BufRead, IsTerminal, Write};
use std::net::IpAddr;
use std::path::Path;

use anstyle::AnsiColor;
use kube::ResourceExt;
use serde::Serialize;

use super::report::{Orphan, VERSION, Written};
use crate::allocation::ledger::LedgerEntry;
use crate::allocation::sweep::{SweepAction, SweepPlan};
use crate::controllers::inspect::{Inspection, View};
use crate::floating_ip::{FloatingIp, FloatingIpId};
use crate::plugin::cli::{Format, Release};
use crate::plugin::exit::{Answer, Failure};
use crate::plugin::output::{self, Progress, Report, paint, style, table};
use crate::plugin::session::Session;

/// What became of each orphan of the report.
#[derive(Serialize, Debug)]
#[serde(transparent)]
struct Done(Vec<Outcome>);

#[derive(Serialize, Debug)]
#[serde(rename_all = "camelCase")]
struct Outcome {
    namespace: String,
    pool: String,
    address: IpAddr,
    id: String,
    is_released: bool,
    /// Why it was left alone.
    why: Option<String>,
}

/// Releases what a second look confirms.
pub(super) async fn run(session: &Session, args: &Release, format: Option<Format>) -> Result<Answer, Failure> {
    let report = read(&args.from_report, &session.url)?;
    let progress = Progress::new();
    progress.step("looking again");
    let inspection = session.inspect().await?;
    let mut views: BTreeMap<(String, String), Result<View, String>> = BTreeMap::new();
    for orphan in &report.orphans {
        let name = (orphan.namespace.clone(), orphan.pool.clone());
        if let btree_map::Entry::Vacant(place) = views.entry(name) {
            progress.step(&format!("asking OpenStack as pool {}/{}", orphan.namespace, orphan.pool));
            place.insert(look(session, &inspection, orphan).await?);
        }
    }
    inspection.refresh().await.map_err(|error| Failure::kubernetes("list pools and claims again", &error))?;
    let second: Vec<(&Orphan, Result<SweepAction, String>)> = report
        .orphans
        .iter()
        .map(|orphan| (orphan, again(orphan, &views[&(orphan.namespace.clone(), orphan.pool.clone())], &report)))
        .collect();
    drop(progress);
    let confirmed = second.iter().filter(|(_, second)| second.is_ok()).count();
    if confirmed > 0 && !args.yes && !confirm(&second, confirmed)? {
        output::note("nothing was released");
        return Ok(Answer::No);
    }
    let mut done = Done(Vec::new());
    for (orphan, second) in second {
        let result = match (second, &views[&(orphan.namespace.clone(), orphan.pool.clone())]) {
            (Ok(chore), Ok(view)) => release(orphan, &chore, view).await,
            (Err(why), _) => Err(why),
            (Ok(_), Err(why)) => Err(why.clone()),
        };
        done.0.push(Outcome::of(orphan, result));
    }
    output::print(&done, format)?;
    Ok(Answer::when(done.0.iter().all(|outcome| outcome.is_released)))
}

fn read(path: &Path, cluster: &str) -> Result<Written, Failure> {
    let wrong = |why: String| Failure::Usage(format!("{} {why}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| wrong(format!("cannot be read: {error}")))?;
    let report: Written = serde_json::from_str(&text)
        .map_err(|error| wrong(format!("is not what `kubectl fippool orphans --report` writes: {error}")))?;
    if report.version != VERSION {
        return Err(wrong(format!(
            "is of form {}, and this program reads {VERSION}: make a new report",
            report.version
        )));
    }
    if report.cluster != cluster {
        let message =
            format!("is about the management cluster {}, and this is {cluster}: name its --context", report.cluster);
        return Err(wrong(message));
    }
    Ok(report)
}

async fn look(session: &Session, inspection: &Inspection, orphan: &Orphan) -> Result<Result<View, String>, Failure> {
    let pools = inspection.pools();
    let is_it = |pool: &&std::sync::Arc<crate::api::OpenStackFloatingIPPool>| {
        pool.namespace().as_deref() == Some(&orphan.namespace) && pool.name_any() == orphan.pool
    };
    let Some(pool) = pools.iter().find(is_it) else {
        return Ok(Err("its pool is gone".into()));
    };
    Ok(session.look(inspection, pool).await?.map_err(|trouble| format!("its pool cannot be looked at: {trouble}")))
}

/// The second look at one of them: what is to be done, or why nothing is.
fn again(orphan: &Orphan, view: &Result<View, String>, report: &Written) -> Result<SweepAction, String> {
    let view = view.as_ref().map_err(Clone::clone)?;
    if view.policy().id.as_str() != orphan.pool_id {
        return Err("its pool is another one of the same name".into());
    }
    let id = FloatingIpId::new(&orphan.id);
    let sweep = view.sweep(Some((report.taken_at, std::slice::from_ref(&id))));
    let entries = view.entries();
    judge(orphan, entries.iter().find(|entry| entry.fip.id == id), &sweep)
}

fn judge(orphan: &Orphan, entry: Option<&LedgerEntry>, sweep: &SweepPlan) -> Result<SweepAction, String> {
    let Some(entry) = entry else { return Err("it is gone".into()) };
    unchanged(orphan, &entry.fip)?;
    if !sweep.orphans.contains(&entry.fip.id) {
        return Err("it is no orphan any more: a claim has it, or it is on its way out".into());
    }
    let is_its = |chore: &&SweepAction| *chore.id() == entry.fip.id;
    match sweep.chores.iter().find(is_its) {
        Some(chore @ (SweepAction::Release(..) | SweepAction::Describe(..))) => Ok(chore.clone()),
        Some(_) => Err("it carries another owner's mark too: the controller takes ours off by itself".into()),
        None => Err("a Cluster of the namespace is paused: a move or a restore may be under way".into()),
    }
}

/// Whether it is as the report says, with nothing on it.
fn unchanged(orphan: &Orphan, fip: &FloatingIp) -> Result<(), String> {
    if fip.is_attached() {
        return Err("something is attached to it".into());
    }
    if fip.address != orphan.address || fip.description != orphan.description || fip.tags != orphan.tags {
        return Err("its marks are not what the report says: make a new one".into());
    }
    Ok(())
}

/// Writes the release, after one last look at the floating IP alone.
async fn release(orphan: &Orphan, chore: &SweepAction, view: &View) -> Result<(), String> {
    let fip = view.get(chore.id()).await.map_err(|error| error.to_string())?;
    unchanged(orphan, &fip.ok_or("it is gone")?)?;
    view.release(chore).await.map_err(|error| error.to_string())
}

fn confirm(second: &[(&Orphan, Result<SweepAction, String>)], confirmed: usize) -> Result<bool, Failure> {
    if !std::io::stdin().is_terminal() {
        return Err(Failure::Usage("nobody can be asked here: add --yes, or run it on a terminal".into()));
    }
    for (orphan, _) in second.iter().filter(|(_, second)| second.is_ok()) {
        eprintln!("  {} of pool {}/{}: {}", orphan.address, orphan.namespace, orphan.pool, orphan.description);
    }
    eprint!("Release {confirmed} of {}? [y/N] ", second.len());
    let _ = std::io::stderr().flush();
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer);
    read.map_err(|error| Failure::Usage(format!("the answer cannot be read: {error}")))?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

impl Outcome {
    fn of(orphan: &Orphan, result: Result<(), String>) -> Self {
        Self {
            namespace: orphan.namespace.clone(),
            pool: orphan.pool.clone(),
            address: orphan.address,
            id: orphan.id.clone(),
            is_released: result.is_ok(),
            why: result.err(),
        }
    }
}

impl Report for Done {
    fn text(&self, _: bool) -> String {
        let row = |outcome: &Outcome| {
            let said = match &outcome.why {
                None => paint(style(AnsiColor::Green), "released: the controller gives it back, as the pool says"),
                Some(why) => paint(style(AnsiColor::Yellow), format_args!("left: {why}")),
            };
            vec![outcome.namespace.clone(), outcome.pool.clone(), outcome.address.to_string(), said]
        };
        if self.0.is_empty() {
            return "the report names no orphans\n".into();
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
            hindrance: None,
        }
    }

    fn judged(fip: Option<FloatingIp>, sweep: SweepPlan) -> Result<SweepAction, String> {
        let mut ledger = Ledger::default();
        let (step, now) = (ledger.next_step(), jiff::Timestamp::now());
        ledger.list(step, now, fip.into_iter().collect(), now);
        judge(&orphan(), ledger.get(&FloatingIpId::new("one")), &sweep)
    }

    fn confirmed() -> SweepPlan {
        let id = FloatingIpId::new("one");
        SweepPlan {
            orphans: vec![id.clone()],
            chores: vec![SweepAction::Release(id, "caip-out".into())],
            ..SweepPlan::default()
        }
    }

    #[test]
    fn what_is_an_orphan_at_both_looks_is_released() {
        assert!(matches!(judged(Some(fip()), confirmed()), Ok(SweepAction::Release(..))));
    }

    #[test]
    fn one_with_a_port_is_never_released_whatever_the_plan_says() {
        let port = Some(crate::floating_ip::PortId::new("port"));
        assert!(judged(Some(FloatingIp { port, ..fip() }), confirmed()).is_err());
        assert!(judged(Some(FloatingIp { is_forwarded: true, ..fip() }), confirmed()).is_err());
    }

    #[test]
    fn what_changed_since_the_report_is_left_alone() {
        assert!(judged(None, confirmed()).is_err());
        let changes = [
            FloatingIp { description: "mail".into(), ..fip() },
            FloatingIp { tags: ["prod".to_owned()].into(), ..fip() },
            FloatingIp { address: "203.0.113.11".parse().expect("an address"), ..fip() },
        ];
        changes.into_iter().for_each(|fip| assert!(judged(Some(fip.clone()), confirmed()).is_err(), "{fip:?}"));
    }

    #[test]
    fn what_the_plan_does_not_release_is_left_alone() {
        assert!(judged(Some(fip()), SweepPlan::default()).is_err(), "no orphan any more");
        assert!(judged(Some(fip()), SweepPlan { chores: vec![], ..confirmed() }).is_err(), "a Cluster is paused");
        let delete = SweepPlan { chores: vec![SweepAction::Delete(FloatingIpId::new("one"))], ..confirmed() };
        assert!(judged(Some(fip()), delete).is_err());
    }
}
