//! Whether the controller's ServiceAccount has the permissions of config/rbac/role.yaml and, where its flags need them, of
//! config/cluster-identities/role.yaml and config/address-config-maps/role.yaml. Each is verified by a SubjectAccessReview,
//! whichever roles grant it.

use futures::{StreamExt, stream};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::api::{Api, PostParams};
use serde::Deserialize;

use super::controller::Installed;
use super::finding::{Finding, Status};
use crate::plugin::cli::Check;
use crate::plugin::session::PluginSession;

const ROLES: &str = include_str!("../../../config/rbac/role.yaml");
const IDENTITY_ROLES: &str = include_str!("../../../config/cluster-identities/role.yaml");

const ADDRESS_ROLES: &str = include_str!("../../../config/address-config-maps/role.yaml");

const CONCURRENT_REVIEWS: usize = 8;

#[derive(Clone, PartialEq, Eq, Debug)]
struct RequiredPermission {
    /// Whether it is for the controller's own namespace, and not for those of the pools.
    is_own: bool,
    group: String,
    resource: String,
    verb: String,
}

pub(super) async fn check_permissions(session: &PluginSession, args: &Check, installed: &Installed) -> Finding {
    let place = &args.controller.controller_namespace;
    let user = format!("system:serviceaccount:{place}:{}", installed.service_account);
    let watched = installed.watched_namespace.as_deref();
    let pool_namespace = watched.or((!session.is_all).then_some(session.namespace.as_str()));
    let mut required = required_permissions(ROLES);
    required.retain(|permission| installed.authenticates_readers || !permission.is_review());
    if !installed.identity_namespaces.is_empty() {
        required.extend(required_permissions(IDENTITY_ROLES));
    }
    if installed.writes_address_config_maps {
        required.extend(required_permissions(ADDRESS_ROLES));
    }
    let reviews = stream::iter(required.iter().map(async |permission| {
        let namespace =
            if permission.is_own { Some(args.controller.controller_namespace.as_str()) } else { pool_namespace };
        // A controller of one namespace may read the labels of that one alone.
        let name = watched.filter(|_| permission.resource == "namespaces");
        (permission, is_allowed(session, &user, permission, namespace, name).await)
    }));
    let results: Vec<_> = reviews.buffered(CONCURRENT_REVIEWS).collect().await;
    let mut denied = Vec::new();
    for (permission, result) in results {
        match result {
            Ok(true) => {}
            Ok(false) => denied.push(permission),
            Err(error) => return judge(&user, required.len(), &denied, Some(error.to_string())),
        }
    }
    judge(&user, required.len(), &denied, None)
}

fn judge(user: &str, all: usize, denied: &[&RequiredPermission], error: Option<String>) -> Finding {
    let finding = |status, message| Finding::new("Controller", "permissions", status, message);
    if let Some(error) = error {
        return finding(Status::Unknown, format!("the permissions of {user} cannot be checked: {error}"));
    }
    if denied.is_empty() {
        return finding(Status::Ok, format!("{user} has all {all} required permissions"));
    }
    if denied.len() == all {
        let message = format!(
            "{user} has none of the {all} required permissions: is it the controller's ServiceAccount (--service-account, --controller-namespace)? If so, apply config/rbac, or the chart's roles"
        );
        return finding(Status::Failed, message);
    }
    let list: Vec<String> = denied.iter().map(|permission| permission.text()).collect();
    finding(
        Status::Failed,
        format!("{user} lacks the permissions to {}: apply config/rbac, or the chart's roles", list.join(", ")),
    )
}

async fn is_allowed(
    session: &PluginSession,
    user: &str,
    permission: &RequiredPermission,
    namespace: Option<&str>,
    name: Option<&str>,
) -> Result<bool, kube::Error> {
    let mut resource = permission.resource.splitn(2, '/').map(str::to_owned);
    let attributes = ResourceAttributes {
        group: Some(permission.group.clone()),
        resource: resource.next(),
        subresource: resource.next(),
        verb: Some(permission.verb.clone()),
        namespace: namespace.map(str::to_owned),
        name: name.map(str::to_owned),
        ..ResourceAttributes::default()
    };
    let spec = SubjectAccessReviewSpec {
        user: Some(user.into()),
        // The groups of every ServiceAccount token.
        groups: Some(vec!["system:serviceaccounts".into(), "system:authenticated".into()]),
        resource_attributes: Some(attributes),
        ..SubjectAccessReviewSpec::default()
    };
    let reviews: Api<SubjectAccessReview> = Api::all(session.client.clone());
    let review = reviews.create(&PostParams::default(), &SubjectAccessReview { spec, ..Default::default() }).await?;
    Ok(review.status.is_some_and(|status| status.allowed))
}

/// Every verb on every resource of the roles.
fn required_permissions(roles: &str) -> Vec<RequiredPermission> {
    #[derive(Deserialize)]
    struct Role {
        kind: String,
        #[serde(default)]
        rules: Vec<PolicyRule>,
    }
    #[expect(clippy::expect_used, reason = "the roles are a part of the program")]
    let roles: Vec<Role> =
        serde_saphyr::from_multiple(roles).expect("config/rbac/role.yaml is tested to be well formed");
    let mut permissions = Vec::new();
    for role in roles.into_iter().filter(|role| matches!(role.kind.as_str(), "ClusterRole" | "Role")) {
        for rule in role.rules {
            for group in rule.api_groups.iter().flatten() {
                for resource in rule.resources.iter().flatten() {
                    for verb in &rule.verbs {
                        permissions.push(RequiredPermission {
                            is_own: role.kind == "Role",
                            group: group.clone(),
                            resource: resource.clone(),
                            verb: verb.clone(),
                        });
                    }
                }
            }
        }
    }
    permissions
}

impl RequiredPermission {
    /// Whether it serves to authenticate and authorize those who read the metrics.
    fn is_review(&self) -> bool {
        ["authentication.k8s.io", "authorization.k8s.io"].contains(&self.group.as_str())
    }

    fn text(&self) -> String {
        let group = if self.group.is_empty() { String::new() } else { format!(".{}", self.group) };
        format!("{} {}{group}", self.verb, self.resource)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_roles_are_read_with_their_subresources_and_places() {
        let all = required_permissions(ROLES);
        let has = |text: &str, is_own| all.iter().any(|it| it.text() == text && it.is_own == is_own);
        assert!(has("patch openstackfloatingippools/status.ipam.cluster.x-k8s.io", false), "{all:?}");
        assert!(has("get secrets", false) && has("update leases.coordination.k8s.io", true), "{all:?}");
        assert_eq!(all.iter().filter(|permission| permission.is_review()).count(), 2, "{all:?}");
    }

    #[test]
    fn cluster_identities_need_what_their_roles_grant_and_nothing_is_written() {
        let all = required_permissions(IDENTITY_ROLES);
        let texts: Vec<_> = all.iter().map(RequiredPermission::text).collect();
        assert_eq!(texts, ["get openstackclusteridentities.infrastructure.cluster.x-k8s.io", "get namespaces"]);
        assert!(all.iter().all(|permission| !permission.is_own), "they are cluster-wide");
    }

    #[test]
    fn the_config_maps_of_pools_are_read_and_written_by_name() {
        let all = required_permissions(ADDRESS_ROLES);
        let texts: Vec<_> = all.iter().map(RequiredPermission::text).collect();
        assert_eq!(texts, ["get configmaps", "create configmaps", "patch configmaps", "delete configmaps"]);
    }

    /// The documents delete what is cluster-wide by this label.
    #[test]
    fn what_is_applied_beside_the_components_has_the_label_of_the_provider() {
        for roles in [IDENTITY_ROLES, ADDRESS_ROLES] {
            let objects: Vec<serde_json::Value> = serde_saphyr::from_multiple(roles).unwrap();
            for object in objects {
                let label = &object["metadata"]["labels"]["cluster.x-k8s.io/provider"];
                assert_eq!(label, "ipam-openstack", "{object:#}");
            }
        }
    }

    #[test]
    fn what_is_denied_is_named_and_what_cannot_be_asked_is_not_taken_for_well() {
        let secrets =
            RequiredPermission { is_own: false, group: String::new(), resource: "secrets".into(), verb: "get".into() };
        assert_eq!(judge("u", 1, &[], None).status, Status::Ok);
        let denied = judge("u", 2, &[&secrets], None);
        assert_eq!(denied.status, Status::Failed);
        assert!(denied.message.contains("get secrets"), "{}", denied.message);
        assert_eq!(judge("u", 1, &[], Some("forbidden".into())).status, Status::Unknown);
    }
}
