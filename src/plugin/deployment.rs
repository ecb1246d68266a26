//! The controller's Deployment, where it runs in one: its flags say what it does.

use k8s_openapi::api::apps::v1::Deployment;
use kube::ResourceExt;
use kube::api::{Api, ListParams};

use super::cli::ControllerPlace;
use super::session::PluginSession;
use crate::runtime::flags::{Namespaces, values};

/// The controller's Deployment in the namespace where it should be.
pub(super) async fn read_deployment(
    session: &PluginSession,
    place: &ControllerPlace,
) -> Result<Option<Deployment>, kube::Error> {
    let deployments: Api<Deployment> = Api::namespaced(session.client.clone(), &place.controller_namespace);
    Ok(deployments.list(&ListParams::default()).await?.items.into_iter().find(is_ours))
}

fn is_ours(deployment: &Deployment) -> bool {
    let keys = ["control-plane", "app.kubernetes.io/name"];
    keys.into_iter().any(|key| deployment.labels().get(key).is_some_and(|value| value == "caip-openstack"))
}

/// Whether any controller of the management cluster lets pools use cluster identities; none where that is not known: this
/// user may not list Deployments, or none is a controller's.
pub(super) async fn uses_identities(session: &PluginSession) -> Option<bool> {
    let deployments: Api<Deployment> = Api::all(session.client.clone());
    let listed = deployments.list(&ListParams::default().labels("control-plane=caip-openstack")).await.ok()?;
    let mut all = listed.items.iter().filter(|deployment| is_ours(deployment)).peekable();
    all.peek()?;
    Some(all.any(|deployment| !identity_namespaces(deployment).is_empty()))
}

/// The namespaces of the Secrets of cluster identities.
pub(super) fn identity_namespaces(deployment: &Deployment) -> Namespaces {
    value_of(deployment, "--cluster-identity-namespaces").and_then(|value| value.parse().ok()).unwrap_or_default()
}

/// Whether the controller writes ConfigMaps with the addresses of pools.
pub(super) fn writes_address_config_maps(deployment: &Deployment) -> bool {
    is_set(deployment, "--address-config-maps")
}

/// Whether the controller authenticates and authorizes those who read its metrics.
pub(super) fn authenticates_readers(deployment: &Deployment) -> bool {
    !is_set(deployment, "--insecure-diagnostics")
        && value_of(deployment, "--diagnostics-address").as_deref() != Some("0")
}

/// The one namespace that the controller watches; none for all.
pub(super) fn watched_namespace(deployment: &Deployment) -> Option<String> {
    value_of(deployment, "--namespace").filter(|name| !name.is_empty())
}

/// The value of a flag that has one, in the same argument or in the next; the last of several counts.
fn value_of(deployment: &Deployment, flag: &str) -> Option<String> {
    let args = args(deployment);
    let next = |at: usize| args.get(at.saturating_add(1)).copied();
    let value = |(at, arg): (usize, &&str)| match arg.strip_prefix(flag)? {
        "" => next(at).map(str::to_owned),
        rest => rest.strip_prefix('=').map(str::to_owned),
    };
    args.iter().enumerate().filter_map(value).next_back()
}

/// Whether a flag without a value, or with one in the same argument, is set; the last of several counts.
fn is_set(deployment: &Deployment, flag: &str) -> bool {
    let args = args(deployment);
    let value = |arg: &&str| match arg.strip_prefix(flag)? {
        "" => Some(true),
        rest => values::boolean(rest.strip_prefix('=')?).ok(),
    };
    args.iter().filter_map(value).next_back().unwrap_or(false)
}

fn args(deployment: &Deployment) -> Vec<&str> {
    let pod = deployment.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
    let containers = pod.iter().flat_map(|pod| &pod.containers);
    containers.flat_map(|container| container.args.iter().flatten()).map(String::as_str).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deployment(args: &[&str]) -> Deployment {
        let containers = serde_json::json!([{"name": "manager", "args": args}]);
        let deployment = serde_json::json!({
            "metadata": {"name": "d"}, "spec": {"selector": {}, "template": {"spec": {"containers": containers}}}
        });
        serde_json::from_value(deployment).unwrap()
    }

    #[test]
    fn config_maps_are_written_where_the_controllers_flag_says_so() {
        let writes = |args: &[&str]| writes_address_config_maps(&deployment(args));
        for off in
            [&[][..], &["--address-config-maps=false"], &["--address-config-maps", "--address-config-maps=false"]]
        {
            assert!(!writes(off), "{off:?}");
        }
        assert!(writes(&["--leader-elect", "--address-config-maps"]) && writes(&["--address-config-maps=true"]));
    }

    #[test]
    fn readers_of_the_metrics_need_no_token_where_the_metrics_are_plain_or_not_served() {
        let authenticates = |args: &[&str]| authenticates_readers(&deployment(args));
        assert!(authenticates(&[]) && authenticates(&["--insecure-diagnostics=false", "--diagnostics-address=:8443"]));
        for off in [["--insecure-diagnostics"], ["--insecure-diagnostics=true"], ["--diagnostics-address=0"]] {
            assert!(!authenticates(&off), "{off:?}");
        }
    }

    #[test]
    fn the_watched_namespace_is_that_of_the_flag() {
        let watched = |args: &[&str]| watched_namespace(&deployment(args));
        assert_eq!(watched(&["--namespace=team-a", "--v=2"]).as_deref(), Some("team-a"));
        assert_eq!([watched(&[]), watched(&["--namespace="])], [None, None]);
    }

    #[test]
    fn identities_are_used_where_the_controllers_flag_names_a_namespace() {
        let namespaces = |args: &[&str]| identity_namespaces(&deployment(args));
        for args in
            [&[][..], &["--leader-elect"], &["--cluster-identity-namespaces="], &["--cluster-identity-namespaces=,"]]
        {
            assert!(namespaces(args).is_empty(), "{args:?}");
        }
        assert!(namespaces(&["--cluster-identity-namespaces=capo-system", "--v=2"]).contains("capo-system"));
        assert!(namespaces(&["--cluster-identity-namespaces", "shared"]).contains("shared"));
        assert!(
            namespaces(&["--cluster-identity-namespaces=capo-system", "--cluster-identity-namespaces="]).is_empty(),
            "the last of two wins"
        );
    }
}
