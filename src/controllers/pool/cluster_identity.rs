//! CAPO's cluster identities: which Secret one names, and whether a pool of a namespace may use it.
//!
//! Asked for each reconcile of a pool, and never remembered: what one namespace may use says nothing about another.

use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::core::{DynamicObject, PartialObjectMeta};

use super::failure::PoolFailure;
use crate::api::cluster_identity::{CLUSTER_IDENTITY_KIND, ClusterIdentitySpec, cluster_identities};
use crate::api::conditions::pool_reasons as reasons;
use crate::api::guarded::Guarded;
use crate::controllers::kubernetes::{Kubernetes, find};
use crate::controllers::memory::Problem;
use crate::controllers::patch;
use crate::object_name::{ObjectName, is_name};
use crate::runtime::flags::Namespaces;

/// Why it is not known which Secret a cluster identity names for a namespace.
#[derive(Debug)]
pub(in crate::controllers) enum IdentityError {
    /// The namespace may not use it: this ends a session with its credentials.
    Refused(Problem),
    /// What could not be read, and why. This says nothing about the identity.
    Unread(String, kube::Error),
}

impl From<IdentityError> for PoolFailure {
    fn from(error: IdentityError) -> Self {
        match error {
            IdentityError::Refused(problem) => Self::Access(problem),
            IdentityError::Unread(what, error) => {
                let message = format!("{what} cannot be read: {}", patch::reply(&error));
                Self::Credentials(Problem { reason: reasons::CLUSTER_IDENTITY_NOT_FOUND, message })
            }
        }
    }
}

fn refused(reason: &'static str, message: impl Into<String>) -> IdentityError {
    IdentityError::Refused(Problem { reason, message: message.into() })
}

/// The Secret of a cluster identity that pools of this namespace may use.
pub(super) async fn find_secret(
    kube: &Kubernetes,
    allowed: &Namespaces,
    identity: &str,
    namespace: &str,
) -> Result<ObjectName, IdentityError> {
    if allowed.is_empty() {
        let message = "spec.identityRef.type is ClusterIdentity, and this controller uses none: start it with --cluster-identity-namespaces, or name a Secret of this namespace";
        return Err(refused(reasons::CLUSTER_IDENTITY_DISABLED, message));
    }
    let spec = read_identity(kube, identity).await?;
    check_namespace(kube, &spec, identity, namespace).await?;
    let secret = ObjectName::new(&spec.secret_ref.namespace, &spec.secret_ref.name);
    if !is_name(&secret.name) || !is_name(&secret.namespace) {
        let message = format!("{CLUSTER_IDENTITY_KIND} {identity} names no Secret: correct its spec.secretRef");
        return Err(refused(reasons::CLUSTER_IDENTITY_INVALID, message));
    }
    if !allowed.contains(&secret.namespace) {
        let message = format!(
            "the Secret of {CLUSTER_IDENTITY_KIND} {identity} is in namespace {}, of which this controller reads no Secret: add the namespace to --cluster-identity-namespaces",
            secret.namespace
        );
        return Err(refused(reasons::CLUSTER_IDENTITY_DISABLED, message));
    }
    Ok(secret)
}

async fn read_identity(kube: &Kubernetes, identity: &str) -> Result<ClusterIdentitySpec, IdentityError> {
    if !is_name(identity) {
        let message = "spec.identityRef.name cannot be the name of an OpenStackClusterIdentity: use lowercase letters, digits, - and .";
        return Err(refused(reasons::CLUSTER_IDENTITY_NOT_FOUND, message));
    }
    let kind = cluster_identities();
    let identities: Api<Guarded<DynamicObject>> = Api::all_with(kube.client.clone(), &kind);
    let found = match find(&identities, identity).await.and_then(|found| found.map(Guarded::into_object).transpose()) {
        Ok(Some(found)) => found,
        Ok(None) => {
            let message = format!(
                "{CLUSTER_IDENTITY_KIND} {identity} (spec.identityRef.name) does not exist: create it, or name another one"
            );
            return Err(refused(reasons::CLUSTER_IDENTITY_NOT_FOUND, message));
        }
        Err(error) if kube.is_unserved(&kind, &error).await => {
            let message = "this cluster does not serve OpenStackClusterIdentity (infrastructure.cluster.x-k8s.io/v1alpha1): install CAPO 0.14 or later, or name a Secret of this namespace";
            return Err(refused(reasons::CLUSTER_IDENTITY_NOT_INSTALLED, message));
        }
        Err(error) => {
            let what = format!("{CLUSTER_IDENTITY_KIND} {identity} (spec.identityRef.name)");
            return Err(IdentityError::Unread(what, error));
        }
    };
    serde_json::from_value(found.data.get("spec").cloned().unwrap_or_default()).map_err(|error| {
        let message = format!("{CLUSTER_IDENTITY_KIND} {identity} cannot be read: {error}; correct its spec");
        refused(reasons::CLUSTER_IDENTITY_INVALID, message)
    })
}

async fn check_namespace(
    kube: &Kubernetes,
    spec: &ClusterIdentitySpec,
    identity: &str,
    namespace: &str,
) -> Result<(), IdentityError> {
    if spec.namespace_selector.is_none() {
        return Ok(());
    }
    let namespaces: Api<Guarded<PartialObjectMeta<Namespace>>> = Api::all(kube.client.clone());
    let metadata = namespaces.get(namespace).await.and_then(Guarded::into_object);
    let metadata = metadata.map_err(|error| IdentityError::Unread(format!("namespace {namespace}"), error))?.metadata;
    match spec.allows(&metadata.labels.unwrap_or_default()) {
        Ok(true) => Ok(()),
        Ok(false) => {
            let message = format!(
                "namespace {namespace} may not use {CLUSTER_IDENTITY_KIND} {identity}, whose namespaceSelector does not match the namespace's labels: label the namespace, or name another identity"
            );
            Err(refused(reasons::NAMESPACE_NOT_ALLOWED, message))
        }
        Err(error) => {
            let message = format!(
                "the namespaceSelector of {CLUSTER_IDENTITY_KIND} {identity} is not valid: {error}; correct it"
            );
            Err(refused(reasons::CLUSTER_IDENTITY_INVALID, message))
        }
    }
}

#[cfg(test)]
mod tests {
    use http::{Request, Response, StatusCode};
    use kube::client::Body;
    use serde_json::{Value, json};

    use super::*;
    use crate::api::IpamVersion;

    const IDENTITY: &str = "/apis/infrastructure.cluster.x-k8s.io/v1alpha1/openstackclusteridentities/shared";
    const VERSION: &str = "/apis/infrastructure.cluster.x-k8s.io/v1alpha1";
    const NAMESPACE: &str = "/api/v1/namespaces/team-a";

    /// An API server with an identity and a namespace, each a status and what the body says.
    fn kubernetes(identity: (u16, Value), namespace: (u16, Value)) -> Kubernetes {
        kubernetes_with(groups("v1beta1"), identity, namespace)
    }

    /// The same, with its list of what it serves.
    fn kubernetes_with(groups: (u16, Value), identity: (u16, Value), namespace: (u16, Value)) -> Kubernetes {
        let service = tower::service_fn(move |request: Request<Body>| {
            let (status, body) = match request.uri().path() {
                IDENTITY => identity.clone(),
                NAMESPACE => namespace.clone(),
                "/apis" => groups.clone(),
                VERSION => resources(),
                path => panic!("{path} is read"),
            };
            let body = body.as_str().map_or(body.to_string(), str::to_owned);
            let answer = Response::builder().status(StatusCode::from_u16(status).unwrap());
            std::future::ready(Ok::<_, tower::BoxError>(answer.body(Body::from(body.into_bytes())).unwrap()))
        });
        Kubernetes { client: kube::Client::new(service, "default"), version: IpamVersion::default() }
    }

    fn identity(selector: Value) -> (u16, Value) {
        let secret = json!({"name": "cloud", "namespace": "capo-system"});
        let spec = json!({"secretRef": secret, "namespaceSelector": selector});
        (200, json!({"metadata": {"name": "shared"}, "spec": spec}))
    }

    fn namespace(labels: Value) -> (u16, Value) {
        let metadata = json!({"name": "team-a", "labels": labels});
        (200, json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": metadata}))
    }

    /// CAPO's kinds are served in this version.
    fn groups(version: &str) -> (u16, Value) {
        let group = "infrastructure.cluster.x-k8s.io";
        let version = json!({"groupVersion": format!("{group}/{version}"), "version": version});
        (200, json!({"kind": "APIGroupList", "groups": [{"name": group, "versions": [version]}]}))
    }

    fn resources() -> (u16, Value) {
        let of = |name: &str| json!({"name": name, "singularName": "", "namespaced": false, "kind": "K", "verbs": []});
        let names = ["openstackfloatingippools", "openstackclusteridentities"];
        (200, json!({"groupVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "resources": names.map(of)}))
    }

    fn page() -> (u16, Value) {
        (404, json!("404 page not found\n"))
    }

    /// Must not be asked.
    fn unread() -> (u16, Value) {
        (500, json!("it is read"))
    }

    fn not_found() -> (u16, Value) {
        (404, json!({"kind": "Status", "status": "Failure", "code": 404, "reason": "NotFound", "message": "not found"}))
    }

    async fn find(kube: Kubernetes, allowed: &str) -> Result<ObjectName, IdentityError> {
        find_secret(&kube, &allowed.parse().unwrap(), "shared", "team-a").await
    }

    /// The reason, and whether it ends a session.
    fn failure(result: Result<ObjectName, IdentityError>) -> (&'static str, bool) {
        let failure = PoolFailure::from(result.expect_err("it is refused"));
        (failure.problem().reason, matches!(failure, PoolFailure::Access(_)))
    }

    #[tokio::test]
    async fn the_secret_of_an_identity_is_for_the_namespaces_that_it_allows() {
        let secret = ObjectName::new("capo-system", "cloud");
        let selector = json!({"matchLabels": {"team": "a"}});
        for (selector, labels) in [(json!(null), unread()), (selector.clone(), namespace(json!({"team": "a"})))] {
            let found = find(kubernetes(identity(selector), labels), "capo-system").await;
            assert_eq!(found.expect("it is allowed"), secret);
        }
        for labels in [json!({"team": "b"}), json!(null)] {
            let refused = find(kubernetes(identity(selector.clone()), namespace(labels)), "*").await;
            assert_eq!(failure(refused), ("NamespaceNotAllowed", true));
        }
    }

    #[tokio::test]
    async fn identities_are_used_only_where_the_controller_was_told_so() {
        let off = find(kubernetes(unread(), unread()), "").await;
        assert_eq!(failure(off), ("ClusterIdentityDisabled", true));
        let elsewhere = find(kubernetes(identity(json!(null)), unread()), "other").await;
        assert_eq!(failure(elsewhere), ("ClusterIdentityDisabled", true));
    }

    #[tokio::test]
    async fn what_is_not_there_is_told_from_what_cannot_be_read() {
        let of = async |answer| failure(find(kubernetes(answer, unread()), "*").await);
        assert_eq!(of(not_found()).await, ("ClusterIdentityNotFound", true));
        assert_eq!(of(page()).await, ("ClusterIdentityNotInstalled", true));
        let forbidden = json!({"kind": "Status", "code": 403, "reason": "Forbidden", "message": "forbidden"});
        for answer in [(403, forbidden), (503, json!("unavailable"))] {
            assert_eq!(of(answer).await, ("ClusterIdentityNotFound", false), "it says nothing about the identity");
        }
        let selector = json!({"matchLabels": {"team": "a"}});
        let no_namespace = find(kubernetes(identity(selector), not_found()), "*").await;
        assert_eq!(failure(no_namespace), ("ClusterIdentityNotFound", false));
    }

    /// As of a proxy in front of the API server, which serves the kind.
    #[tokio::test]
    async fn a_page_says_nothing_about_the_identity() {
        for groups in [groups("v1alpha1"), page()] {
            let refused = find(kubernetes_with(groups, page(), unread()), "*").await;
            assert_eq!(failure(refused), ("ClusterIdentityNotFound", false));
        }
    }

    #[tokio::test]
    async fn an_identity_that_is_not_valid_is_for_no_namespace() {
        let invalid = ("ClusterIdentityInvalid", true);
        let selector = json!({"matchExpressions": [{"key": "team", "operator": "NotIn"}]});
        let of = async |identity| failure(find(kubernetes(identity, namespace(json!({}))), "*").await);
        assert_eq!(of(identity(selector)).await, invalid);
        assert_eq!(of((200, json!({"metadata": {"name": "shared"}}))).await, invalid);
        let elsewhere = json!({"secretRef": {"name": "../../x", "namespace": "capo-system"}});
        assert_eq!(of((200, json!({"metadata": {"name": "shared"}, "spec": elsewhere}))).await, invalid);
    }
}
