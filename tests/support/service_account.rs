//! The ServiceAccount of `config/rbac` under another name, since scenarios also install and uninstall the program. The
//! controllers of all scenarios run as it, so that a missing permission fails a scenario. It has the permissions of
//! `config/cluster-identities` and `config/address-config-maps` too; only controllers that are started with the flags for
//! these use them.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::ResourceExt;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::discovery::ApiResource;
use serde_json::json;

use super::kubeconfig;
use super::world::{client, required, run_id};

/// The namespace of the ServiceAccount and of its Leases.
pub const SYSTEM_NAMESPACE: &str = "caip-scenarios-system";
/// Replaces `caip-openstack` in every name; `hack/env/audit-policy.yaml` has it too.
const NAME: &str = "caip-scenarios";
const MANIFESTS: [&str; 5] = [
    include_str!("../../config/rbac/service_account.yaml"),
    include_str!("../../config/rbac/role.yaml"),
    include_str!("../../config/cluster-identities/role.yaml"),
    include_str!("../../config/address-config-maps/role.yaml"),
    include_str!("../../config/rbac/admission_policy.yaml"),
];
/// Longer than the tests take.
const TOKEN_SECONDS: i64 = 6 * 3600;

/// The kubeconfig of the ServiceAccount in the cluster of the kubeconfig in `variable`. The first call of a run creates the
/// account with its permissions.
pub fn kubeconfig(variable: &'static str) -> String {
    static MADE: Mutex<BTreeMap<&str, String>> = Mutex::new(BTreeMap::new());
    // A test that panics here must not fail the others.
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    let write = || {
        let (name, user) = (format!("{}-{variable}", run_id()), json!({"token": token(variable)}));
        kubeconfig::write_changed(&required(variable), &name, "/users/0/user", user)
    };
    made.entry(variable).or_insert_with(write).clone()
}

/// A token of the account. In a runtime of its own, since the caller may or may not be in one.
fn token(variable: &'static str) -> String {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime can be made");
    let created = std::thread::spawn(move || runtime().block_on(create(variable)));
    created.join().expect("the ServiceAccount of config/rbac can be made")
}

/// Creates the ServiceAccount with its permissions, and a token for it.
async fn create(variable: &str) -> String {
    let client = client(variable).await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM_NAMESPACE}});
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let apply = PatchParams::apply("kubectl").force();
    namespaces.patch(SYSTEM_NAMESPACE, &apply, &Patch::Apply(&namespace)).await.expect("a namespace can be made");
    for manifest in MANIFESTS {
        let documents: Vec<DynamicObject> =
            serde_saphyr::from_multiple(&manifest.replace("caip-openstack", NAME)).expect("config/rbac is YAML");
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
    answer.expect("a token can be made").status.expect("the answer has the token").token
}
