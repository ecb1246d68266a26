//! The ServiceAccount that `config/rbac` makes. Every controller of a scenario works as it, so that a permission that is
//! missing is a scenario that fails.

use std::path::{Path, PathBuf};

use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::discovery::ApiResource;
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use super::world::{required, run_id};

/// The namespace of the ServiceAccount, and of the Leases that it may hold.
pub const SYSTEM_NAMESPACE: &str = "caip-openstack-system";
const NAME: &str = "caip-openstack";
const MANIFESTS: [&str; 2] =
    [include_str!("../../config/rbac/service_account.yaml"), include_str!("../../config/rbac/role.yaml")];
/// Longer than the tests take.
const TOKEN_SECONDS: i64 = 6 * 3600;

/// The kubeconfig of the ServiceAccount in the cluster that the one in `variable` leads to. [`super::World`] writes it.
pub fn kubeconfig(variable: &str) -> String {
    let path = path(variable);
    assert!(path.exists(), "a scenario makes its World before it starts a controller");
    path.into_os_string().into_string().expect("a directory of the tests has a name in UTF-8")
}

fn path(variable: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{variable}.kubeconfig", run_id()))
}

/// Makes the ServiceAccount with its permissions, and a kubeconfig for it out of the one in `variable`.
pub(super) async fn create(client: &Client, variable: &str) {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM_NAMESPACE}});
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let apply = PatchParams::apply("kubectl").force();
    namespaces.patch(SYSTEM_NAMESPACE, &apply, &Patch::Apply(&namespace)).await.expect("a namespace can be made");
    for manifest in MANIFESTS {
        let documents: Vec<DynamicObject> = serde_saphyr::from_multiple(manifest).expect("config/rbac is YAML");
        for object in documents {
            let types = object.types.clone().expect("it has a kind");
            let (group, version) = types.api_version.split_once('/').unwrap_or(("", &types.api_version));
            let resource = ApiResource::from_gvk(&kube::core::GroupVersionKind::gvk(group, version, &types.kind));
            let api: Api<DynamicObject> = match object.namespace() {
                Some(namespace) => Api::namespaced_with(client.clone(), &namespace, &resource),
                None => Api::all_with(client.clone(), &resource),
            };
            api.patch(&object.name_any(), &apply, &Patch::Apply(&object))
                .await
                .unwrap_or_else(|error| panic!("the API server refuses config/rbac: {error}"));
        }
    }
    let request = TokenRequest {
        spec: TokenRequestSpec { expiration_seconds: Some(TOKEN_SECONDS), ..TokenRequestSpec::default() },
        ..TokenRequest::default()
    };
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), SYSTEM_NAMESPACE);
    let answer = accounts.create_token_request(NAME, &PostParams::default(), &request).await;
    let token = answer.expect("a token can be made").status.expect("the answer has the token").token;
    write(variable, &token);
}

fn write(variable: &str, token: &str) {
    let admin = std::fs::read_to_string(required(variable)).expect("the kubeconfig can be read");
    let mut config: Value = serde_saphyr::from_str(&admin).expect("the kubeconfig is YAML");
    *config.pointer_mut("/users/0/user").expect("the kubeconfig names a user") = json!({ "token": token });
    // JSON is YAML. A scenario that starts meanwhile finds the whole file, or none.
    let path = path(variable);
    let part = path.with_extension("part");
    std::fs::write(&part, config.to_string()).expect("a file can be written");
    std::fs::rename(&part, &path).expect("a file can be renamed");
}
