//! Each pool: what stands in its way to OpenStack, seen as its controller sees it, and what the controller says of it.

use kube::ResourceExt;

use super::finding::{Finding, Status};
use crate::api::OpenStackFloatingIPPool;
use crate::api::conditions::{EXHAUSTED, ORPHANS_DETECTED, PAUSED, READY};
use crate::api::names::{PAUSED_ANNOTATION, WATCH_FILTER_LABEL};
use crate::controllers::inspect::{Stage, Trouble};
use crate::openstack::Quota;
use crate::plugin::cli::Check;
use crate::plugin::exit::Failure;
use crate::plugin::output::Progress;
use crate::plugin::session::Session;

/// How much of a quota may be used before somebody should look at it, in percent.
const QUOTA_NEARLY_USED: u64 = 90;

/// The ways to OpenStack, in the order in which they are gone.
const WAYS: [(Stage, &str, &str); 4] = [
    (Stage::Name, "name", "no other pool serves the same claims or has the same id"),
    (Stage::Credentials, "credentials", "OpenStack takes the credentials"),
    (Stage::Network, "network", ""),
    (Stage::Neutron, "neutron", "Neutron lists the project's floating IPs"),
];

pub(super) async fn look(session: &Session, args: &Check, progress: &Progress) -> Result<Vec<Finding>, Failure> {
    let inspection = session.inspect().await?;
    let pools = session.select(inspection.pools(), &args.pools.pools)?;
    if pools.is_empty() {
        let message = format!("there is none {}: nothing to look at", session.place());
        return Ok(vec![Finding::new("Pools", "pools", Status::Warning, message)]);
    }
    let mut findings = Vec::new();
    for pool in pools {
        let name = format!("{}/{}", pool.namespace().unwrap_or_default(), pool.name_any());
        let subject = format!("Pool {name}");
        progress.step(&format!("asking OpenStack as pool {name}"));
        match session.look(&inspection, &pool).await {
            Ok(looked) => {
                let network = looked.as_ref().ok().map(|view| match view.network() {
                    Some(network) => format!("{} ({})", network.name, network.id),
                    None => "a closed list needs none".into(),
                });
                findings.extend(ways(&subject, looked.as_ref().err(), network));
                if let Ok(view) = &looked {
                    findings.extend(view.quota().await.ok().flatten().map(|found| quota(&subject, found)));
                    let failures = view.count().failures;
                    let of =
                        |(address, why)| Finding::new(&subject, "address", Status::Warning, format!("{address} {why}"));
                    findings.extend(failures.into_iter().map(of));
                }
            }
            Err(failure) => {
                findings.push(Finding::new(&subject, "credentials", Status::Unknown, failure.to_string()));
            }
        }
        findings.extend(told(&subject, &pool));
    }
    Ok(findings)
}

/// What comes before the trouble is well, and what comes after it is not known.
fn ways(subject: &str, trouble: Option<&Trouble>, network: Option<String>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (stage, check, fine) in WAYS {
        match trouble {
            Some(trouble) if trouble.stage == stage => {
                let message = format!("{}: {}", trouble.reason, trouble.message);
                findings.push(Finding::new(subject, check, Status::Failed, message));
                break;
            }
            _ => {
                let message =
                    if stage == Stage::Network { network.clone().unwrap_or("resolved".into()) } else { fine.into() };
                findings.push(Finding::new(subject, check, Status::Ok, message));
            }
        }
    }
    findings
}

fn quota(subject: &str, quota: Quota) -> Finding {
    let say = |status, message| Finding::new(subject, "quota", status, message);
    match quota {
        Quota { limit: None, used } => say(Status::Ok, format!("{used} floating IPs in the project, no limit")),
        Quota { limit: Some(limit), used } => {
            let message = format!("{used} of {limit} floating IPs of the project are used");
            match u64::from(used) * 100 >= u64::from(limit) * QUOTA_NEARLY_USED {
                false => say(Status::Ok, message),
                true => say(Status::Warning, format!("{message}: raise the quota, or delete those that nobody uses")),
            }
        }
    }
}

/// What the controller says of the pool.
fn told(subject: &str, pool: &OpenStackFloatingIPPool) -> Vec<Finding> {
    let say = |check, status, message: String| Finding::new(subject, check, status, message);
    if pool.metadata.deletion_timestamp.is_some() {
        let message = "the pool is being deleted, and serves no new claim".to_owned();
        return vec![say("served", Status::Failed, message)];
    }
    if pool.annotations().contains_key(PAUSED_ANNOTATION) {
        return vec![say(
            "served",
            Status::Failed,
            format!("the pool is paused: take the annotation {PAUSED_ANNOTATION} off"),
        )];
    }
    let conditions = pool.status.iter().flat_map(|status| &status.conditions);
    let of_type = |type_| conditions.clone().find(|condition| condition.type_ == type_);
    let is_seen = pool.status.as_ref().and_then(|status| status.observed_generation) == pool.metadata.generation;
    let served = match of_type(READY) {
        _ if !is_seen => {
            let filter = pool.labels().get(WATCH_FILTER_LABEL);
            let filter = filter.map_or(String::new(), |filter| {
                format!("; its label asks for a controller with --watch-filter={filter}")
            });
            say("served", Status::Failed, format!("no controller has looked at the pool as it is now{filter}"))
        }
        Some(ready) if ready.status == "True" => say("served", Status::Ok, ready.message.clone()),
        Some(ready) => say("served", Status::Failed, format!("{}: {}", ready.reason, ready.message)),
        None => say("served", Status::Failed, "no controller has said anything of the pool yet".into()),
    };
    let mut findings = vec![served];
    for (type_, check) in [(EXHAUSTED, "addresses"), (ORPHANS_DETECTED, "orphans"), (PAUSED, "paused")] {
        let told = of_type(type_).filter(|condition| condition.status == "True");
        findings.extend(told.map(|condition| say(check, Status::Warning, condition.message.clone())));
    }
    findings
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by it")]
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
        let trouble = Trouble { stage: Stage::Network, reason: "NetworkNotFound".into(), message: "none".into() };
        let found = ways("p", Some(&trouble), None);
        assert_eq!(statuses(&found), [("name", Status::Ok), ("credentials", Status::Ok), ("network", Status::Failed)]);
        assert_eq!(found[2].message, "NetworkNotFound: none");
        assert!(ways("p", None, Some("public".into())).iter().all(|finding| finding.status == Status::Ok));
    }

    #[test]
    fn a_quota_is_told_before_it_is_used_up() {
        let of = |limit, used| quota("p", Quota { limit, used }).status;
        assert_eq!(of(None, 1000), Status::Ok);
        assert_eq!(
            [of(Some(50), 44), of(Some(50), 45), of(Some(50), 50)],
            [Status::Ok, Status::Warning, Status::Warning]
        );
        assert_eq!(of(Some(0), 0), Status::Warning);
    }

    #[test]
    fn what_the_controller_says_counts_only_for_the_spec_that_it_has_seen() {
        assert_eq!(statuses(&told("p", &pool(ready("True")))), [("served", Status::Ok)]);
        assert_eq!(statuses(&told("p", &pool(ready("False")))), [("served", Status::Failed)]);
        let mut edited = pool(ready("True"));
        edited.metadata.generation = Some(3);
        assert_eq!(statuses(&told("p", &edited)), [("served", Status::Failed)]);
        edited.metadata.labels = Some([(WATCH_FILTER_LABEL.to_owned(), "blue".to_owned())].into());
        assert!(told("p", &edited)[0].message.contains("--watch-filter=blue"));
    }

    #[test]
    fn paused_and_exhausted_are_told() {
        let mut conditions = ready("True");
        conditions.as_array_mut().unwrap().push(
            serde_json::json!({"type": "Exhausted", "status": "True", "reason": "Exhausted", "message": "the limit"}),
        );
        assert_eq!(statuses(&told("p", &pool(conditions))), [("served", Status::Ok), ("addresses", Status::Warning)]);
        let mut paused = pool(ready("True"));
        paused.metadata.annotations = Some([(PAUSED_ANNOTATION.to_owned(), String::new())].into());
        assert_eq!(statuses(&told("p", &paused)), [("served", Status::Failed)]);
    }
}
