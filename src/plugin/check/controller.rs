//! Whether a controller runs: only a running one renews the Lease. Its Deployment names its ServiceAccount.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use kube::ResourceExt;
use kube::api::Api;

use super::finding::{Finding, Status};
use crate::plugin::cli::{Check, ControllerPlace};
use crate::plugin::deployment::{
    authenticates_readers, identity_namespaces, read_deployment, watched_namespace, writes_address_config_maps,
};
use crate::plugin::exit::Failure;
use crate::plugin::output::duration;
use crate::plugin::session::PluginSession;
use crate::plugin::version::{ControllerVersion, Skew, published_version, skew};
use crate::runtime::flags::Namespaces;

const SUBJECT: &str = "Controller";

const DEFAULT_SERVICE_ACCOUNT: &str = "caip-openstack";

/// What the controller needs permissions for.
pub(super) struct Installed {
    pub(super) service_account: String,
    /// The namespaces of the Secrets of CAPO's cluster identities.
    pub(super) identity_namespaces: Namespaces,
    /// Whether it writes ConfigMaps with the addresses of pools.
    pub(super) writes_address_config_maps: bool,
    /// Whether those who read its metrics need a token.
    pub(super) authenticates_readers: bool,
    /// None if it watches all namespaces, or if that is not known.
    pub(super) watched_namespace: Option<String>,
}

/// The findings, and what was found.
pub(super) async fn check_controller(
    session: &PluginSession,
    args: &Check,
) -> Result<(Vec<Finding>, Installed), Failure> {
    let ControllerPlace { controller_namespace: namespace, lease } = &args.controller;
    let lease_name = format!("{namespace}/{lease}");
    let (lease, running) = match read_lease(session, &args.controller).await {
        Ok(lease) => {
            let running = judge_lease(lease.as_ref(), &lease_name, Timestamp::now());
            (lease, running)
        }
        Err(kube::Error::Api(status)) if status.code == 403 => {
            (None, Finding::new(SUBJECT, "running", Status::Unknown, status.message))
        }
        Err(error) => return Err(session.unreachable(&error)),
    };
    // --service-account serves users who may not list Deployments, or whose controller runs elsewhere.
    let deployment = read_deployment(session, &args.controller).await.ok().flatten();
    let account =
        deployment.as_ref().and_then(|it| it.spec.as_ref()?.template.spec.as_ref()?.service_account_name.clone());
    let service_account = args.service_account.clone().or(account).unwrap_or_else(|| DEFAULT_SERVICE_ACCOUNT.into());
    let installed = Installed {
        service_account,
        identity_namespaces: deployment.as_ref().map(identity_namespaces).unwrap_or_default(),
        writes_address_config_maps: deployment.as_ref().is_some_and(writes_address_config_maps),
        authenticates_readers: deployment.as_ref().is_none_or(authenticates_readers),
        watched_namespace: deployment.as_ref().and_then(watched_namespace),
    };
    let mut findings = vec![running];
    findings.extend(deployment.as_ref().map(judge_replicas));
    let version = published_version(lease.as_ref(), deployment.as_ref());
    findings.extend(version.map(|version| judge_version(env!("CARGO_PKG_VERSION"), &version)));
    Ok((findings, installed))
}

fn judge_version(client: &str, controller: &ControllerVersion) -> Finding {
    let message = format!("the controller has version {}, and this program {client}", controller.version);
    match skew(client, &controller.version) {
        Skew::Supported => Finding::new(SUBJECT, "version", Status::Ok, message),
        Skew::Unsupported => {
            let message =
                format!("{message}: they may differ by one minor version; use the plugin of the controller's release");
            Finding::new(SUBJECT, "version", Status::Warning, message)
        }
        Skew::Unknown => Finding::new(SUBJECT, "version", Status::Unknown, message),
    }
}

/// None if there is no such Lease.
pub(in crate::plugin) async fn read_lease(
    session: &PluginSession,
    place: &ControllerPlace,
) -> Result<Option<Lease>, kube::Error> {
    let leases: Api<Lease> = Api::namespaced(session.client.clone(), &place.controller_namespace);
    leases.get_opt(&place.lease).await
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
    fn versions_that_are_too_far_apart_are_a_warning() {
        let status = |version: &str| {
            let controller = ControllerVersion { version: version.into(), source: "Lease" };
            judge_version("0.3.1", &controller).status
        };
        assert_eq!(["0.3.9", "0.4.0", "0.2.0 (1234)"].map(status), [Status::Ok; 3]);
        assert_eq!(["0.5.0", "0.1.0", "1.3.1"].map(status), [Status::Warning; 3]);
        assert_eq!(status("main"), Status::Unknown);
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
