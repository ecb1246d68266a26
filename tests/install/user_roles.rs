//! The ClusterRoles that add the pools to Kubernetes' roles `view`, `edit` and `admin`, on a real API server.

use serde_json::{Value, json};

use super::programs::{CHART, one, said, try_render};
use super::scratch::Scratch;
use crate::support::{RECOVERY, eventually, unique};

const API: &str = "rbac.authorization.k8s.io";
const USERS: [&str; 3] = ["view", "edit", "admin"];

/// The ClusterRoles, for a resource that no other release names.
fn roles(scratch: &Scratch, resource: &str) -> Value {
    let objects = try_render(&scratch.name, &scratch.name, &json!({})).expect("it renders");
    let roles = ["view", "edit"].map(|end| {
        let mut role = one(&objects, "ClusterRole", Some(&format!("{}-caip-openstack-{end}", scratch.name))).clone();
        role["metadata"]["name"] = json!(format!("{resource}-{end}"));
        role
    });
    let text = json!(roles).to_string().replace("openstackfloatingippools", resource);
    serde_json::from_str(&text).expect("it is JSON")
}

/// Whether a user may do this in the namespace.
fn may(scratch: &Scratch, user: &str, verb: &str, resource: &str) -> bool {
    let attributes =
        json!({"namespace": scratch.name, "group": "ipam.cluster.x-k8s.io", "resource": resource, "verb": verb});
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "spec": {"user": user, "resourceAttributes": attributes}});
    let create = ["create", "--output", "jsonpath={.status.allowed}", "--filename", "-"];
    said(&mut scratch.run("kubectl", &create), &review.to_string()) == "true"
}

#[tokio::test]
async fn users_may_do_with_pools_what_their_roles_say() {
    let (scratch, resource) = (Scratch::new().await, unique("pools"));
    for user in USERS {
        scratch.create(&json!({
            "apiVersion": format!("{API}/v1"), "kind": "RoleBinding", "metadata": {"name": user},
            "roleRef": {"apiGroup": API, "kind": "ClusterRole", "name": user},
            "subjects": [{"apiGroup": API, "kind": "User", "name": user}]
        }));
        assert!(!may(&scratch, user, "list", &resource), "{user}");
    }
    // As additional objects, they go with the release.
    let values = json!({"crds": {"enabled": false}, "extraObjects": roles(&scratch, &resource)});
    scratch.helm("install", &[CHART], &values).unwrap_or_else(|error| panic!("{error}"));

    for user in USERS {
        for verb in ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"] {
            let is_expected = user != "view" || ["get", "list", "watch"].contains(&verb);
            eventually(RECOVERY, async || {
                let is_allowed = may(&scratch, user, verb, &resource);
                (is_allowed == is_expected).then_some(()).ok_or_else(|| format!("{user} may {verb}: {is_allowed}"))
            })
            .await;
        }
    }
    assert!(!may(&scratch, "nobody", "list", &resource));
}
