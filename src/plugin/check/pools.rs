//! Each pool: whether its project can be reached, as the controller reaches it, and what the controller reports about it.

use kube::ResourceExt;

use super::finding::{Finding, Status};
use crate::api::OpenStackFloatingIPPool;
use crate::api::conditions::{EXHAUSTED, ORPHANS_DETECTED, PAUSED, READY};
use crate::api::names::{PAUSED_ANNOTATION, WATCH_FILTER_LABEL};
use crate::controllers::inspect::{ConnectionProblem, Stage, View};
use crate::openstack::Quota;
use crate::plugin::exit::Failure;
use crate::plugin::output::Progress;
use crate::plugin::session::{PluginSession, object_name};

/// From this percentage on, the use of a quota is a warning.
const QUOTA_NEARLY_USED: u64 = 90;

/// The steps from a pool to its project, in the order in which the controller takes them; the last text is for success.
const STAGES: [(Stage, &str, &str); 4] = [
    (Stage::Name, "name", "no other pool serves the same claims or has the same id"),
    (Stage::Credentials, "credentials", "OpenStack accepts the credentials"),
    (Stage::Network, "network", "resolved"),
    (Stage::Neutron, "neutron", "Neutron lists the project's floating IPs"),
];

pub(super) async fn check_pools(
    session: &PluginSession,
    named: &[String],
    progress: &Progress,
) -> Result<Vec<Finding>, Failure> {
    let inspection = session.inspect().await?;
    let pools = session.select(inspection.pools(), named)?;
    if pools.is_empty() {
        let message = format!("there is no pool {}", session.place());
        return Ok(vec![Finding::new("Pools", "pools", Status::Warning, message)]);
    }
    let unseen = inspection.find_unseen().await.map(|why| format!("CAPO's pools cannot be listed: {why}"));
    let mut findings = Vec::new();
    for pool in pools {
        let subject = format!("Pool {}", object_name(pool.as_ref()));
        match session.inspect_pool(&inspection, &pool, progress).await {
            Ok(Ok(view)) => findings.extend(view_findings(&subject, &view, unseen.as_deref()).await),
            Ok(Err(problem)) => findings.extend(stage_findings(&subject, Some(&problem), None, unseen.as_deref())),
            Err(failure) => {
                findings.push(Finding::new(&subject, "credentials", Status::Unknown, failure.to_string()));
            }
        }
        findings.extend(status_findings(&subject, &pool));
    }
    Ok(findings)
}

async fn view_findings(subject: &str, view: &View, unseen: Option<&str>) -> Vec<Finding> {
    let network = match view.network() {
        Some(network) => format!("{} ({})", network.name, network.id),
        None => "not needed: the pool has a closed list".into(),
    };
    let mut findings = stage_findings(subject, None, Some(&network), unseen);
    findings.extend(view.quota().await.ok().flatten().map(|quota| judge_quota(subject, quota)));
    let unusable = |(address, why)| Finding::new(subject, "address", Status::Warning, format!("{address} {why}"));
    findings.extend(view.usage().failures.into_iter().map(unusable));
    findings
}

/// The stages before the problem are fine; those after it are not known. Nor is it known whether a pool of CAPO has the same
/// name if those are `unseen`, for the reason that is given.
fn stage_findings(
    subject: &str,
    problem: Option<&ConnectionProblem>,
    network: Option<&str>,
    unseen: Option<&str>,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (stage, check, success) in STAGES {
        if let Some(problem) = problem.filter(|problem| problem.stage == stage) {
            let message = format!("{}: {}", problem.reason, problem.message);
            findings.push(Finding::new(subject, check, Status::Failed, message));
            break;
        }
        let (status, message) = match (stage, network, unseen) {
            (Stage::Name, _, Some(why)) => (Status::Unknown, why),
            (Stage::Network, Some(network), _) => (Status::Ok, network),
            _ => (Status::Ok, success),
        };
        findings.push(Finding::new(subject, check, status, message));
    }
    findings
}

fn judge_quota(subject: &str, Quota { limit, used }: Quota) -> Finding {
    let finding = |status, message| Finding::new(subject, "quota", status, message);
    let Some(limit) = limit else {
        return finding(Status::Ok, format!("{used} floating IPs in the project, without a limit"));
    };
    let message = format!("{used} of {limit} floating IPs of the project are used");
    if u64::from(used) * 100 < u64::from(limit) * QUOTA_NEARLY_USED {
        finding(Status::Ok, message)
    } else {
        finding(Status::Warning, format!("{message}: raise the quota, or delete unused ones"))
    }
}

/// What the controller wrote into the pool.
fn status_findings(subject: &str, pool: &OpenStackFloatingIPPool) -> Vec<Finding> {
    let served = |status, message: String| Finding::new(subject, "served", status, message);
    if pool.metadata.deletion_timestamp.is_some() {
        let message = "the pool is being deleted, and serves no new claims".to_owned();
        return vec![served(Status::Failed, message)];
    }
    if pool.annotations().contains_key(PAUSED_ANNOTATION) {
        return vec![served(Status::Failed, format!("the pool is paused: remove the annotation {PAUSED_ANNOTATION}"))];
    }
    let conditions = pool.status.iter().flat_map(|status| &status.conditions);
    let condition = |type_| conditions.clone().find(|condition| condition.type_ == type_);
    let is_up_to_date = pool.status.as_ref().and_then(|status| status.observed_generation) == pool.metadata.generation;
    let ready = match condition(READY) {
        _ if !is_up_to_date => {
            let filter = pool.labels().get(WATCH_FILTER_LABEL);
            let filter = filter.map_or(String::new(), |filter| {
                format!("; its label requires a controller with --watch-filter={filter}")
            });
            served(Status::Failed, format!("no controller has reconciled the current spec{filter}"))
        }
        Some(ready) if ready.status == "True" => served(Status::Ok, ready.message.clone()),
        Some(ready) => served(Status::Failed, format!("{}: {}", ready.reason, ready.message)),
        None => served(Status::Failed, "no controller has set the Ready condition yet".into()),
    };
    let mut findings = vec![ready];
    for (type_, check) in [(EXHAUSTED, "addresses"), (ORPHANS_DETECTED, "orphans"), (PAUSED, "paused")] {
        let active = condition(type_).filter(|condition| condition.status == "True");
        findings.extend(active.map(|it| Finding::new(subject, check, Status::Warning, it.message.clone())));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(conditions: serde_json::Value) -> OpenStackFloatingIPPool {
        let mut conditions = conditions;
        for condition in conditions.as_array_mut().unwrap() {
            condition["lastTransitionTime"] = "2026-11-21T09:00:00Z".into();
        }
        serde_json::from_value(serde_json::json!({
            "apiVersion": "ipam.cluster.x-k8s.io/v1alpha1", "kind": "OpenStackFloatingIPPool",
            "metadata": {"name": "public", "namespace": "team", "generation": 2},
            "spec": {"identityRef": {"name": "cloud", "cloudName": "openstack"}},
            "status": {"observedGeneration": 2, "conditions": conditions}
        }))
        .unwrap()
    }

    fn ready(status: &str) -> serde_json::Value {
        serde_json::json!([{"type": "Ready", "status": status, "reason": "R", "message": "M"}])
    }

    fn statuses(findings: &[Finding]) -> Vec<(&str, Status)> {
        findings.iter().map(|finding| (finding.check, finding.status)).collect()
    }

    #[test]
    fn the_way_to_openstack_ends_where_the_trouble_is() {
        let problem = ConnectionProblem { stage: Stage::Network, reason: "NetworkNotFound", message: "none".into() };
        let found = stage_findings("p", Some(&problem), None, None);
        assert_eq!(statuses(&found), [("name", Status::Ok), ("credentials", Status::Ok), ("network", Status::Failed)]);
        assert_eq!(found[2].message, "NetworkNotFound: none");
        let found = stage_findings("p", None, Some("public"), None);
        assert!(found.iter().all(|finding| finding.status == Status::Ok));
        let found = stage_findings("p", None, Some("public"), Some("forbidden"));
        assert_eq!((found[0].status, found[0].message.as_str()), (Status::Unknown, "forbidden"), "not taken for well");
        assert!(found[1..].iter().all(|finding| finding.status == Status::Ok));
    }

    #[test]
    fn a_quota_is_told_before_it_is_used_up() {
        let status = |limit, used| judge_quota("p", Quota { limit, used }).status;
        assert_eq!(status(None, 1000), Status::Ok);
        assert_eq!(
            [status(Some(50), 44), status(Some(50), 45), status(Some(50), 50)],
            [Status::Ok, Status::Warning, Status::Warning]
        );
        assert_eq!(status(Some(0), 0), Status::Warning);
    }

    #[test]
    fn what_the_controller_says_counts_only_for_the_spec_that_it_has_seen() {
        assert_eq!(statuses(&status_findings("p", &pool(ready("True")))), [("served", Status::Ok)]);
        assert_eq!(statuses(&status_findings("p", &pool(ready("False")))), [("served", Status::Failed)]);
        let mut edited = pool(ready("True"));
        edited.metadata.generation = Some(3);
        assert_eq!(statuses(&status_findings("p", &edited)), [("served", Status::Failed)]);
        edited.metadata.labels = Some([(WATCH_FILTER_LABEL.to_owned(), "blue".to_owned())].into());
        assert!(status_findings("p", &edited)[0].message.contains("--watch-filter=blue"));
    }

    #[test]
    fn paused_and_exhausted_are_told() {
        let mut conditions = ready("True");
        conditions.as_array_mut().unwrap().push(
            serde_json::json!({"type": "Exhausted", "status": "True", "reason": "Exhausted", "message": "the limit"}),
        );
        assert_eq!(
            statuses(&status_findings("p", &pool(conditions))),
            [("served", Status::Ok), ("addresses", Status::Warning)]
        );
        let mut paused = pool(ready("True"));
        paused.metadata.annotations = Some([(PAUSED_ANNOTATION.to_owned(), String::new())].into());
        assert_eq!(statuses(&status_findings("p", &paused)), [("served", Status::Failed)]);
    }
}
