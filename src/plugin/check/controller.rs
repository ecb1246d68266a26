//! Whether a controller runs: only a running one renews the Lease. Its Deployment names its ServiceAccount.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use kube::ResourceExt;
use kube::api::{Api, ListParams};

use super::finding::{Finding, Status};
use crate::plugin::cli::Check;
use crate::plugin::deployment::{identity_namespaces, is_ours};
use crate::plugin::exit::Failure;
use crate::plugin::output::duration;
use crate::plugin::session::PluginSession;
use crate::runtime::flags::Namespaces;

const SUBJECT: &str = "Controller";

const DEFAULT_SERVICE_ACCOUNT: &str = "caip-openstack";

/// What the controller needs permissions for.
pub(super) struct Installed {
    pub(super) service_account: String,
    /// The namespaces of the Secrets of CAPO's cluster identities.
    pub(super) identity_namespaces: Namespaces,
}

/// The findings, and what was found.
pub(super) async fn check_controller(
    session: &PluginSession,
    args: &Check,
) -> Result<(Vec<Finding>, Installed), Failure> {
    let namespace = &args.controller_namespace;
    let leases: Api<Lease> = Api::namespaced(session.client.clone(), namespace);
    let lease_name = format!("{namespace}/{}", args.lease);
    let lease = match leases.get_opt(&args.lease).await {
        Ok(lease) => judge_lease(lease.as_ref(), &lease_name, Timestamp::now()),
        Err(kube::Error::Api(status)) if status.code == 403 => {
            Finding::new(SUBJECT, "running", Status::Unknown, status.message)
        }
        Err(error) => return Err(session.unreachable(&error)),
    };
    let deployments: Api<Deployment> = Api::namespaced(session.client.clone(), namespace);
    // --service-account serves users who may not list Deployments, or whose controller runs elsewhere.
    let deployed = deployments.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default();
    let deployment = deployed.iter().find(|deployment| is_ours(deployment));
    let account = deployment.and_then(|it| it.spec.as_ref()?.template.spec.as_ref()?.service_account_name.clone());
    let service_account = args.service_account.clone().or(account).unwrap_or_else(|| DEFAULT_SERVICE_ACCOUNT.into());
    let identity_namespaces = deployment.map(identity_namespaces).unwrap_or_default();
    let mut findings = vec![lease];
    findings.extend(deployment.map(judge_replicas));
    Ok((findings, Installed { service_account, identity_namespaces }))
}

fn judge_replicas(deployment: &Deployment) -> Finding {
    let wanted = deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
    let ready = deployment.status.as_ref().and_then(|status| status.ready_replicas).unwrap_or_default();
    let message = format!("Deployment {}: {ready} of {wanted} replicas are ready", deployment.name_any());
    let status = match ready {
        0 => Status::Failed,
        ready if ready < wanted => Status::Warning,
        _ => Status::Ok,
    };
    Finding::new(SUBJECT, "replicas", status, message)
}

fn judge_lease(lease: Option<&Lease>, lease_name: &str, now: Timestamp) -> Finding {
    let finding = |status, message: String| Finding::new(SUBJECT, "running", status, message);
    let spec = lease.and_then(|lease| lease.spec.as_ref());
    let holder = spec.and_then(|spec| spec.holder_identity.as_deref()).filter(|holder| !holder.is_empty());
    let Some((spec, holder)) = spec.zip(holder) else {
        let message = format!(
            "the Lease {lease_name} has no holder: no controller is running, or it is elsewhere (--controller-namespace, --lease), or it runs with --leader-elect=false"
        );
        return finding(Status::Failed, message);
    };
    let renewed = spec.renew_time.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0);
    let duration_limit = SignedDuration::from_secs(i64::from(spec.lease_duration_seconds.unwrap_or_default()));
    let silent = now.duration_since(renewed);
    if silent > duration_limit {
        let message = format!("{holder} holds the Lease {lease_name}, but has not renewed it for {}", duration(silent));
        return finding(Status::Failed, message);
    }
    finding(Status::Ok, format!("{holder} is the leader"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(holder: &str, renewed: &str) -> Status {
        let lease = serde_json::json!({"spec": {
            "holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": renewed
        }});
        let lease: Lease = serde_json::from_value(lease).unwrap();
        judge_lease(Some(&lease), "ns/lease", "2026-11-21T09:00:20Z".parse().unwrap()).status
    }

    #[test]
    fn a_lease_that_is_held_and_renewed_means_that_a_controller_runs() {
        assert_eq!(judged("host_abc", "2026-11-21T09:00:10.000000Z"), Status::Ok);
        assert_eq!(
            judged("host_abc", "2026-11-21T09:00:04.000000Z"),
            Status::Failed,
            "silent for longer than it lasts"
        );
        assert_eq!(judged("", "2026-11-21T09:00:10.000000Z"), Status::Failed, "given back");
        assert_eq!(judge_lease(None, "ns/lease", Timestamp::now()).status, Status::Failed);
    }

    #[test]
    fn replicas_that_are_missing_are_told() {
        let status = |ready: i32| {
            let deployment = serde_json::json!({
                "metadata": {"name": "d"}, "spec": {"replicas": 2, "selector": {}, "template": {}},
                "status": {"readyReplicas": ready}
            });
            judge_replicas(&serde_json::from_value(deployment).unwrap()).status
        };
        assert_eq!([0, 1, 2].map(status), [Status::Failed, Status::Warning, Status::Ok]);
    }
}
