//! What is installed: our CRD with all fields of this version, and Cluster API's kinds in a supported version.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DynamicObject, ListParams};
use kube::core::ApiResource;
use kube::{CustomResourceExt, ResourceExt};
use serde_json::Value;

use super::finding::{Finding, Status};
use crate::api::names::{CLAIM_KIND, GROUP};
use crate::api::{IpamVersion, OpenStackFloatingIPPool};
use crate::plugin::exit::Failure;
use crate::plugin::session::PluginSession;

const SUBJECT: &str = "Installation";

/// `clusterctl move` moves the objects of CRDs with these labels.
const MOVE_LABELS: [&str; 2] = ["clusterctl.cluster.x-k8s.io", "clusterctl.cluster.x-k8s.io/move-hierarchy"];

pub(super) async fn check_kinds(session: &PluginSession) -> Result<Vec<Finding>, Failure> {
    let served = IpamVersion::discover(&session.client).await.map_err(|error| session.unreachable(&error))?;
    Ok(vec![check_pool_kind(session).await?, check_ipam_kinds(session, served).await])
}

async fn check_pool_kind(session: &PluginSession) -> Result<Finding, Failure> {
    let crds: Api<CustomResourceDefinition> = Api::all(session.client.clone());
    match crds.get_opt(OpenStackFloatingIPPool::crd_name()).await {
        Ok(crd) => Ok(judge_crd(crd.as_ref(), &OpenStackFloatingIPPool::crd())),
        Err(kube::Error::Api(status)) if status.code == 403 => {
            Ok(Finding::new(SUBJECT, Finding::CRD, Status::Unknown, status.message))
        }
        Err(error) => Err(session.unreachable(&error)),
    }
}

fn judge_crd(found: Option<&CustomResourceDefinition>, ours: &CustomResourceDefinition) -> Finding {
    let finding = |status, message: String| Finding::new(SUBJECT, Finding::CRD, status, message);
    let Some(found) = found else {
        return finding(
            Status::Failed,
            "the CRD of OpenStackFloatingIPPool is missing: apply crds/, or install the chart".into(),
        );
    };
    let mut conditions = found.status.iter().flat_map(|status| status.conditions.iter().flatten());
    if !conditions.any(|condition| condition.type_ == "Established" && condition.status == "True") {
        return finding(Status::Failed, "the CRD of OpenStackFloatingIPPool is not established (yet)".into());
    }
    let missing: Vec<String> =
        spec_fields(ours).into_iter().filter(|field| !spec_fields(found).contains(field)).collect();
    if spec_fields(found).is_empty() {
        return finding(
            Status::Failed,
            "the CRD of OpenStackFloatingIPPool does not serve v1alpha1: apply crds/ of this version".into(),
        );
    }
    if !missing.is_empty() {
        let message = format!(
            "the CRD is older than version {}, and lacks spec.{}: apply crds/ of that version",
            env!("CARGO_PKG_VERSION"),
            missing.join(", spec.")
        );
        return finding(Status::Warning, message);
    }
    if let Some(label) = MOVE_LABELS.iter().find(|label| !found.labels().contains_key(**label)) {
        let message =
            format!("the CRD has no label {label}, so `clusterctl move` would leave pools behind: apply crds/");
        return finding(Status::Warning, message);
    }
    finding(Status::Ok, "OpenStackFloatingIPPool v1alpha1 is served".into())
}

/// Empty when v1alpha1 is not served.
fn spec_fields(crd: &CustomResourceDefinition) -> Vec<String> {
    let served = crd.spec.versions.iter().find(|version| version.name == "v1alpha1" && version.served);
    let schema = served.and_then(|version| serde_json::to_value(&version.schema).ok());
    let fields = schema.as_ref().and_then(|schema| schema.pointer("/openAPIV3Schema/properties/spec/properties"));
    fields.and_then(Value::as_object).map(|fields| fields.keys().cloned().collect()).unwrap_or_default()
}

/// Lists in every served version: all but one of them need Cluster API's conversion webhook.
async fn check_ipam_kinds(session: &PluginSession, served: Option<IpamVersion>) -> Finding {
    let finding = |status, message: String| Finding::new(SUBJECT, Finding::CLUSTER_API, status, message);
    let Some(used) = served else {
        return finding(
            Status::Failed,
            "Cluster API's IPAM kinds are not served: install Cluster API 1.9 or later".into(),
        );
    };
    let mut also = Vec::new();
    for version in [IpamVersion::V1Beta2, IpamVersion::V1Beta1] {
        let resource: ApiResource = version.resource(CLAIM_KIND, "ipaddressclaims");
        let claims: Api<DynamicObject> = match session.is_all {
            true => Api::all_with(session.client.clone(), &resource),
            false => Api::namespaced_with(session.client.clone(), &session.namespace, &resource),
        };
        match claims.list(&ListParams::default().limit(1)).await {
            Ok(_) if version != used => also.push(version.as_str()),
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(kube::Error::Api(status)) if status.code == 403 => return finding(Status::Unknown, status.message),
            Err(error) => {
                let message = format!(
                    "IPAddressClaims of {GROUP}/{} cannot be listed: {error}; is Cluster API's controller, which converts them, running?",
                    version.as_str()
                );
                return finding(Status::Failed, message);
            }
        }
    }
    let also = if also.is_empty() { String::new() } else { format!(" (also {})", also.join(", ")) };
    finding(Status::Ok, format!("IPAddressClaim and IPAddress are served as {}{also}", used.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn established() -> CustomResourceDefinition {
        let mut crd = OpenStackFloatingIPPool::crd();
        let status = serde_json::json!({
            "acceptedNames": {"kind": "OpenStackFloatingIPPool", "plural": "openstackfloatingippools"},
            "conditions": [{"type": "Established", "status": "True"}], "storedVersions": ["v1alpha1"]
        });
        crd.status = Some(serde_json::from_value(status).unwrap());
        crd
    }

    fn judged(found: Option<&CustomResourceDefinition>) -> (Status, String) {
        let finding = judge_crd(found, &OpenStackFloatingIPPool::crd());
        (finding.status, finding.message)
    }

    #[test]
    fn the_crd_of_this_version_is_well() {
        assert_eq!(judged(Some(&established())).0, Status::Ok);
    }

    #[test]
    fn a_crd_that_is_missing_not_established_or_unserved_fails() {
        assert_eq!(judged(None).0, Status::Failed);
        assert_eq!(judged(Some(&OpenStackFloatingIPPool::crd())).0, Status::Failed);
        let mut unserved = established();
        unserved.spec.versions[0].served = false;
        assert_eq!(judged(Some(&unserved)).0, Status::Failed);
    }

    #[test]
    fn an_older_crd_names_what_it_lacks() {
        let mut older = serde_json::to_value(established()).unwrap();
        let spec = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties";
        older.pointer_mut(spec).unwrap().as_object_mut().unwrap().remove("reservations");
        let (status, message) = judged(Some(&serde_json::from_value(older).unwrap()));
        assert_eq!(status, Status::Warning);
        assert!(message.contains("lacks spec.reservations"), "{message}");
    }

    #[test]
    fn a_crd_that_clusterctl_would_leave_behind_is_told() {
        let mut bare = established();
        bare.metadata.labels.as_mut().unwrap().remove(MOVE_LABELS[1]);
        assert_eq!(judged(Some(&bare)).0, Status::Warning);
    }
}
