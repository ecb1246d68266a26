//! `version`: the versions of the plugin and of the controller.
//!
//! The leader writes its version into its Lease: that is what runs, wherever it runs and however its image is named. Only
//! where no controller leads by a Lease, its Deployment is read.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use kube::ResourceExt;
use serde::Serialize;

use super::check::controller::read_lease;
use super::cli::{ControllerPlace, Global, Version};
use super::deployment::read_deployment;
use super::exit::{Answer, Failure};
use super::output::format::Format;
use super::output::{self, Report};
use super::session::PluginSession;
use crate::runtime::flags::VERSION;
use crate::runtime::leader::VERSION_ANNOTATION;

const VERSION_LABEL: &str = "app.kubernetes.io/version";

/// The controller's container, as the clusterctl contract names it.
const CONTAINER: &str = "manager";

#[derive(Serialize, Clone, PartialEq, Eq, Debug)]
#[serde(rename_all = "camelCase")]
struct Versions {
    client_version: String,
    /// None with `--client`, and where no controller publishes one.
    controller_version: Option<String>,
    /// Where the controller's version is from.
    source: Option<&'static str>,
}

/// The version that a controller publishes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct ControllerVersion {
    /// With the commit, if the build knew it.
    pub(super) version: String,
    pub(super) source: &'static str,
}

/// How far apart the plugin and the controller are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Skew {
    /// At most one minor version: docs/releases.md, "Compatibility".
    Supported,
    Unsupported,
    /// A version is not of the form `MAJOR.MINOR`.
    Unknown,
}

pub(super) async fn show_versions(global: &Global, args: &Version, format: Option<&Format>) -> Result<Answer, Failure> {
    let found = match args.client {
        true => None,
        false => Some(find_controller(&PluginSession::open(global).await?, &args.controller).await),
    };
    // The plugin's version is printed whatever the API server answers.
    let (controller, failure) = match found {
        Some(Ok(controller)) => (Some(controller), None),
        Some(Err(failure)) => (None, Some(failure)),
        None => (None, None),
    };
    let versions = Versions {
        client_version: VERSION.clone(),
        controller_version: controller.as_ref().map(|controller| controller.version.clone()),
        source: controller.as_ref().map(|controller| controller.source),
    };
    output::print(&versions, format)?;
    if controller.is_some_and(|controller| skew(&VERSION, &controller.version) == Skew::Unsupported) {
        output::note("the versions differ by more than one minor version: use the plugin of the controller's release");
    }
    failure.map_or(Ok(Answer::Yes), Err)
}

async fn find_controller(session: &PluginSession, place: &ControllerPlace) -> Result<ControllerVersion, Failure> {
    let failed = |error| Failure::kubernetes("read the controller's version", &error);
    let lease = read_lease(session, place).await.map_err(failed)?;
    // Without permission to list Deployments, the Lease may still tell.
    let (deployment, forbidden) = match read_deployment(session, place).await {
        Ok(deployment) => (deployment, None),
        Err(error) => (None, Some(error)),
    };
    published_version(lease.as_ref(), deployment.as_ref()).ok_or_else(|| match forbidden {
        Some(error) => failed(error),
        None => Failure::NotFound(format!(
            "no controller publishes its version in namespace {}: is it elsewhere (--controller-namespace, --lease)?",
            place.controller_namespace
        )),
    })
}

/// That of the leader; without one, that of the Deployment: its label, or the tag of its image.
pub(super) fn published_version(lease: Option<&Lease>, deployment: Option<&Deployment>) -> Option<ControllerVersion> {
    let is_held = |lease: &&Lease| {
        let holder = lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref());
        holder.is_some_and(|holder| !holder.is_empty())
    };
    let of_leader = lease.filter(is_held).and_then(|lease| lease.annotations().get(VERSION_ANNOTATION));
    let label = || deployment.and_then(|deployment| deployment.labels().get(VERSION_LABEL).cloned());
    let tag = || {
        let containers = &deployment?.spec.as_ref()?.template.spec.as_ref()?.containers;
        let image = containers.iter().find(|container| container.name == CONTAINER)?.image.as_deref()?;
        image_tag(image).map(str::to_owned)
    };
    let from = |source| move |version| ControllerVersion { version, source };
    of_leader.cloned().map(from("Lease")).or_else(|| label().or_else(tag).map(from("Deployment")))
}

/// `registry:5000/caip-openstack:v0.1.0@sha256:…` has the tag `v0.1.0`.
fn image_tag(image: &str) -> Option<&str> {
    let name = image.split('@').next()?.rsplit('/').next()?;
    Some(name.split_once(':')?.1)
}

pub(super) fn skew(client: &str, controller: &str) -> Skew {
    let Some((client, controller)) = major_and_minor(client).zip(major_and_minor(controller)) else {
        return Skew::Unknown;
    };
    match client.0 == controller.0 && client.1.abs_diff(controller.1) <= 1 {
        true => Skew::Supported,
        false => Skew::Unsupported,
    }
}

/// Of `v1.2.3`, `1.2.3 (commit)` and `1.2`.
fn major_and_minor(version: &str) -> Option<(u64, u64)> {
    let mut parts = version.strip_prefix('v').unwrap_or(version).split(['.', ' ', '-', '+']);
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

impl Report for Versions {
    fn text(&self, _: bool) -> String {
        let mut text = format!("Client Version: {}\n", self.client_version);
        if let Some(version) = &self.controller_version {
            text += &format!("Controller Version: {version}\n");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn lease(holder: &str) -> Lease {
        let annotations = json!({ VERSION_ANNOTATION: "0.3.0 (1234)" });
        let lease = json!({"metadata": {"annotations": annotations}, "spec": {"holderIdentity": holder}});
        serde_json::from_value(lease).unwrap()
    }

    fn deployment(label: Option<&str>, image: &str) -> Deployment {
        let labels = label.map(|label| json!({ VERSION_LABEL: label }));
        let containers = json!([{"name": "manager", "image": image}]);
        let spec = json!({"selector": {}, "template": {"spec": {"containers": containers}}});
        serde_json::from_value(json!({"metadata": {"labels": labels}, "spec": spec})).unwrap()
    }

    fn published(lease: Option<&Lease>, deployment: Option<&Deployment>) -> Option<(String, &'static str)> {
        published_version(lease, deployment).map(|found| (found.version, found.source))
    }

    #[test]
    fn the_leader_s_version_counts_and_then_the_deployment_s() {
        let labelled = deployment(Some("v0.2.0"), "registry:5000/caip-openstack:v0.1.0");
        assert_eq!(published(Some(&lease("pod_a")), Some(&labelled)), Some(("0.3.0 (1234)".into(), "Lease")));
        assert_eq!(published(Some(&lease("")), Some(&labelled)), Some(("v0.2.0".into(), "Deployment")));
        let tagged = deployment(None, "registry:5000/caip-openstack:v0.1.0@sha256:00");
        assert_eq!(published(None, Some(&tagged)), Some(("v0.1.0".into(), "Deployment")));
        let by_digest = deployment(None, "registry:5000/caip-openstack@sha256:00");
        assert_eq!(published(None, Some(&by_digest)), None);
        assert_eq!(published(None, None), None);
    }

    #[test]
    fn one_minor_version_apart_is_supported() {
        for (controller, expected) in [
            ("0.3.0", Skew::Supported),
            ("v0.2.9", Skew::Supported),
            ("0.4.0-rc.1 (1234)", Skew::Supported),
            ("0.5.0", Skew::Unsupported),
            ("0.1.0", Skew::Unsupported),
            ("1.3.0", Skew::Unsupported),
            ("latest", Skew::Unknown),
            ("", Skew::Unknown),
        ] {
            assert_eq!(skew("0.3.1 (abcd)", controller), expected, "{controller}");
        }
    }
}
