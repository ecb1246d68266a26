//! Whether the controller's ServiceAccount may do what config/rbac/role.yaml gives it: each rule is asked for by a
//! SubjectAccessReview, so that it does not matter by which roles it is granted.

use futures::{StreamExt, stream};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::api::{Api, PostParams};
use serde::Deserialize;

use super::finding::{Finding, Status};
use crate::plugin::cli::Check;
use crate::plugin::session::Session;

/// What the controller is given.
const ROLES: &str = include_str!("../../../config/rbac/role.yaml");

/// How many reviews are asked for side by side.
const SIDE_BY_SIDE: usize = 8;

/// One thing that the controller must be able to do.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Need {
    /// In the controller's own namespace; else where the pools are.
    is_own: bool,
    group: String,
    resource: String,
    verb: String,
}

pub(super) async fn look(session: &Session, args: &Check, account: &str) -> Finding {
    let user = format!("system:serviceaccount:{}:{account}", args.controller_namespace);
    let pools = (!session.is_all).then_some(session.namespace.as_str());
    let needs = needs(ROLES);
    let asked = stream::iter(needs.iter().map(async |need| {
        let namespace = if need.is_own { Some(args.controller_namespace.as_str()) } else { pools };
        (need, is_allowed(session, &user, need, namespace).await)
    }));
    let answers: Vec<(&Need, Result<bool, kube::Error>)> = asked.buffered(SIDE_BY_SIDE).collect().await;
    let denied: Vec<&Need> =
        answers.iter().filter(|(_, answer)| matches!(answer, Ok(false))).map(|(need, _)| *need).collect();
    let error = answers.iter().find_map(|(_, answer)| answer.as_ref().err());
    judge(&user, needs.len(), &denied, error.map(ToString::to_string))
}

fn judge(user: &str, all: usize, denied: &[&Need], error: Option<String>) -> Finding {
    let say = |status, message| Finding::new("Controller", "permissions", status, message);
    if let Some(error) = error {
        return say(Status::Unknown, format!("what {user} may do cannot be asked: {error}"));
    }
    if denied.is_empty() {
        return say(Status::Ok, format!("{user} may do all {all} things that it must"));
    }
    if denied.len() == all {
        let message = format!(
            "{user} may do nothing of what it must: is it the controller's (--service-account, --controller-namespace)? If so, apply config/rbac, or the chart's roles"
        );
        return say(Status::Failed, message);
    }
    let list: Vec<String> = denied.iter().map(|need| need.text()).collect();
    say(Status::Failed, format!("{user} may not {}: apply config/rbac, or the chart's roles", list.join(", ")))
}

async fn is_allowed(session: &Session, user: &str, need: &Need, namespace: Option<&str>) -> Result<bool, kube::Error> {
    let (resource, subresource) =
        need.resource.split_once('/').map_or((need.resource.as_str(), None), |(resource, sub)| (resource, Some(sub)));
    let attributes = ResourceAttributes {
        group: Some(need.group.clone()),
        resource: Some(resource.into()),
        subresource: subresource.map(str::to_owned),
        verb: Some(need.verb.clone()),
        namespace: namespace.map(str::to_owned),
        ..ResourceAttributes::default()
    };
    let spec = SubjectAccessReviewSpec {
        user: Some(user.into()),
        // As a token of the account would bring them along.
        groups: Some(vec!["system:serviceaccounts".into(), "system:authenticated".into()]),
        resource_attributes: Some(attributes),
        ..SubjectAccessReviewSpec::default()
    };
    let reviews: Api<SubjectAccessReview> = Api::all(session.client.clone());
    let review = reviews.create(&PostParams::default(), &SubjectAccessReview { spec, ..Default::default() }).await?;
    Ok(review.status.is_some_and(|status| status.allowed))
}

/// Every verb on every resource of the roles.
fn needs(roles: &str) -> Vec<Need> {
    #[derive(Deserialize)]
    struct Role {
        kind: String,
        #[serde(default)]
        rules: Vec<PolicyRule>,
    }
    let roles: Vec<Role> =
        serde_saphyr::from_multiple(roles).expect("config/rbac/role.yaml is tested to be well formed");
    let is_role = |role: &Role| matches!(role.kind.as_str(), "ClusterRole" | "Role");
    let mut needs = Vec::new();
    for role in roles.into_iter().filter(is_role) {
        for rule in role.rules {
            for group in rule.api_groups.iter().flatten() {
                for resource in rule.resources.iter().flatten() {
                    for verb in &rule.verbs {
                        needs.push(Need {
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
    needs
}

impl Need {
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
        let needs = needs(ROLES);
        let has = |text: &str, is_own| needs.iter().any(|need| need.text() == text && need.is_own == is_own);
        assert!(has("patch openstackfloatingippools/status.ipam.cluster.x-k8s.io", false), "{needs:?}");
        assert!(has("get secrets", false) && has("update leases.coordination.k8s.io", true), "{needs:?}");
    }

    #[test]
    fn what_is_denied_is_named_and_what_cannot_be_asked_is_not_taken_for_well() {
        let need = Need { is_own: false, group: String::new(), resource: "secrets".into(), verb: "get".into() };
        assert_eq!(judge("u", 1, &[], None).status, Status::Ok);
        let denied = judge("u", 2, &[&need], None);
        assert_eq!(denied.status, Status::Failed);
        assert!(denied.message.contains("get secrets"), "{}", denied.message);
        assert_eq!(judge("u", 1, &[], Some("forbidden".into())).status, Status::Unknown);
    }
}
