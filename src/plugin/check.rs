//! `check`: is everything ready, from the CRDs to the quota. Each part gathers, and then judges what it gathered.

mod controller;
mod finding;
mod installed;
mod permissions;
mod pools;

use std::time::Duration;

use serde::Serialize;
use tokio::time::{Instant, sleep};

use super::cli::{Check, Format};
use super::exit::{Answer, Failure};
use super::output::{self, Progress, Report, bold};
use super::session::Session;
use finding::{Finding, Status};

/// How often `--wait` looks again.
const PAUSE: Duration = Duration::from_secs(3);

/// Everything that was looked at.
#[derive(Serialize, Debug)]
#[serde(rename_all = "camelCase")]
struct Findings {
    /// Nothing failed.
    is_ready: bool,
    findings: Vec<Finding>,
}

/// Prints whether everything is ready; with `--wait` when it is, or when time is up.
pub(super) async fn run(session: &Session, args: &Check, format: Option<Format>) -> Result<Answer, Failure> {
    let Some(patience) = args.wait else {
        let findings = look(session, args).await?;
        output::print(&findings, format)?;
        return Ok(Answer::when(findings.is_ready));
    };
    let start = Instant::now();
    let mut said = String::new();
    loop {
        // A cluster that does not answer yet may do so later: that is what is waited for.
        let looked = look(session, args).await;
        if let Ok(findings) = &looked
            && findings.is_ready
        {
            output::print(findings, format)?;
            return Ok(Answer::Yes);
        }
        if start.elapsed() + PAUSE >= patience {
            let findings = looked?;
            output::print(&findings, format)?;
            return Err(Failure::TimedOut(patience));
        }
        let missing = match &looked {
            Ok(findings) => findings.first_failure(),
            Err(failure) => failure.to_string(),
        };
        if missing != said {
            output::note(&format!("waiting: {missing}"));
            said = missing;
        }
        sleep(PAUSE).await;
    }
}

async fn look(session: &Session, args: &Check) -> Result<Findings, Failure> {
    let progress = Progress::new();
    progress.step("asking what is installed");
    let mut findings = installed::look(session).await?;
    progress.step("asking for the controller");
    let (controller, account) = controller::look(session, args).await?;
    findings.extend(controller);
    progress.step("asking what the controller may do");
    findings.push(permissions::look(session, args, &account).await);
    // Without the kinds there are no pools to ask for.
    if findings.iter().all(|finding| finding.is_about_kinds_and_fine()) {
        findings.extend(pools::look(session, args, &progress).await?);
    }
    Ok(Findings { is_ready: findings.iter().all(|finding| finding.status != Status::Failed), findings })
}

impl Findings {
    fn first_failure(&self) -> String {
        let failed = self.findings.iter().find(|finding| finding.status == Status::Failed);
        failed.map_or(String::new(), |finding| format!("{}, {}: {}", finding.subject, finding.check, finding.message))
    }
}

impl Report for Findings {
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
        text + &format!("{}: {failed} failed, {warnings} to look at, of {}\n", bold(verdict), self.findings.len())
    }
}
