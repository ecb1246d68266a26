//! `check`: is everything ready, from the CRDs to the quota. Each part collects facts, and then judges them.

pub(super) mod controller;
mod finding;
mod installed;
mod permissions;
mod pools;

use std::time::Duration;

use serde::Serialize;
use tokio::time::{Instant, sleep};

use super::cli::Check;
use super::exit::{Answer, Failure};
use super::output::format::Format;
use super::output::{self, Progress, Report, bold};
use super::session::PluginSession;
use finding::{Finding, Status};

/// How often `--wait` checks again.
const INTERVAL: Duration = Duration::from_secs(3);

#[derive(Serialize, Debug)]
#[serde(rename_all = "camelCase")]
struct CheckReport {
    /// No finding has failed.
    is_ready: bool,
    findings: Vec<Finding>,
}

pub(super) async fn check_installation(
    session: &PluginSession,
    args: &Check,
    format: Option<&Format>,
) -> Result<Answer, Failure> {
    if let Some(timeout) = args.wait {
        return wait_until_ready(session, args, format, timeout).await;
    }
    let report = run_checks(session, args).await?;
    output::print(&report, format)?;
    Ok(Answer::yes_if(report.is_ready))
}

async fn wait_until_ready(
    session: &PluginSession,
    args: &Check,
    format: Option<&Format>,
    timeout: Duration,
) -> Result<Answer, Failure> {
    let start = Instant::now();
    let mut last_noted = String::new();
    loop {
        // An API server that does not answer yet is not a failure before the timeout.
        let result = run_checks(session, args).await;
        if let Ok(report) = &result
            && report.is_ready
        {
            output::print(report, format)?;
            return Ok(Answer::Yes);
        }
        if start.elapsed().saturating_add(INTERVAL) >= timeout {
            output::print(&result?, format)?;
            return Err(Failure::TimedOut(timeout));
        }
        let missing = match &result {
            Ok(report) => report.first_failure(),
            Err(failure) => failure.to_string(),
        };
        if missing != last_noted {
            output::note(&format!("waiting: {missing}"));
            last_noted = missing;
        }
        sleep(INTERVAL).await;
    }
}

async fn run_checks(session: &PluginSession, args: &Check) -> Result<CheckReport, Failure> {
    let progress = Progress::start("checking the installed kinds");
    let mut findings = installed::check_kinds(session).await?;
    progress.step("checking the controller");
    let (controller, installed) = controller::check_controller(session, args).await?;
    findings.extend(controller);
    progress.step("checking the controller's permissions");
    findings.push(permissions::check_permissions(session, args, &installed).await);
    if !findings.iter().any(Finding::is_missing_kind) {
        findings.extend(pools::check_pools(session, &args.pools.pools, &progress).await?);
    }
    Ok(CheckReport { is_ready: findings.iter().all(|finding| finding.status != Status::Failed), findings })
}

impl CheckReport {
    fn first_failure(&self) -> String {
        let failed = self.findings.iter().find(|finding| finding.status == Status::Failed);
        failed.map_or(String::new(), |finding| format!("{}, {}: {}", finding.subject, finding.check, finding.message))
    }
}

impl Report for CheckReport {
    fn text(&self, _: bool) -> String {
        let mut text = String::new();
        let widest = self.findings.iter().map(|finding| finding.check.len()).max().unwrap_or_default();
        let mut subject = "";
        for finding in &self.findings {
            if finding.subject != subject {
                subject = &finding.subject;
                text += &format!("{}\n", bold(subject));
            }
            text += &finding.line(widest);
        }
        let count = |status| self.findings.iter().filter(|finding| finding.status == status).count();
        let (failed, warnings) = (count(Status::Failed), count(Status::Warning));
        let verdict = if self.is_ready { "ready" } else { "not ready" };
        text + &format!("{}: {failed} failed, {warnings} with a warning, of {}\n", bold(verdict), self.findings.len())
    }
}
