//! Cluster identities that cannot be used.

use serde_json::{Value, json};

use super::case::{Case, run_all};
use crate::support::{
    Kind, Namespace, RECOVERY, SOON, apply_identity, claim, cloud_entry, clouds_yaml, delete_identity, label_namespace,
    pool, with_namespace,
};

const NOT_VALID: (&str, &str) = ("CredentialsValid", "False");

/// The controller of the other scenarios uses none.
#[tokio::test]
async fn cluster_identity_is_reported_while_the_controller_uses_none() {
    run_all([Case::new("identities-are-off")
        .pool(|pool| pool.cluster_identity("shared"))
        .reports("ClusterIdentityDisabled", NOT_VALID, ["--cluster-identity-namespaces", "name a Secret"])
        .fixed_by_spec(json!({"identityRef": {"type": "Secret", "name": "cloud"}}))])
    .await;
}

/// One mistake of the platform's: the pool and the identity have its name.
struct Mistake {
    name: String,
    /// Where the identity's Secret is; none if there is no identity.
    secret: Option<(String, &'static str)>,
    selector: Value,
    reason: &'static str,
    part: &'static str,
}

fn mistakes(ns: &Namespace, platform: &Namespace) -> Vec<Mistake> {
    let name = |what: &str| format!("{what}-{}", ns.name);
    let here = |secret| Some((platform.name.clone(), secret));
    let invalid = json!({"matchExpressions": [{"key": "identities", "operator": "NotIn"}]});
    vec![
        Mistake {
            name: name("missing"),
            secret: None,
            selector: Value::Null,
            reason: "ClusterIdentityNotFound",
            part: "does not exist",
        },
        Mistake {
            name: name("elsewhere"),
            secret: Some((ns.name.clone(), "cloud")),
            selector: Value::Null,
            reason: "ClusterIdentityDisabled",
            part: "--cluster-identity-namespaces",
        },
        Mistake {
            name: name("selector"),
            secret: here("cloud"),
            selector: invalid,
            reason: "ClusterIdentityInvalid",
            part: "the operator NotIn of the label identities needs values",
        },
        Mistake {
            name: name("not-allowed"),
            secret: here("cloud"),
            selector: json!({"matchLabels": {"identities": "others"}}),
            reason: "NamespaceNotAllowed",
            part: "does not match the namespace's labels",
        },
        Mistake {
            name: name("no-secret"),
            secret: here("missing"),
            selector: json!({}),
            reason: "SecretNotFound",
            part: "/missing of OpenStackClusterIdentity",
        },
        Mistake {
            name: name("no-key"),
            secret: here("empty"),
            selector: Value::Null,
            reason: "CredentialsInvalid",
            part: "no key clouds.yaml",
        },
    ]
}

#[tokio::test]
async fn unusable_cluster_identity_is_reported_until_it_is_fixed() {
    with_namespace(async |platform| {
        with_namespace(async |ns| {
            platform.create_secret_for("demo").await;
            let empty = json!({"metadata": {"name": "empty"}, "stringData": {"other": "x"}});
            platform.create(crate::support::Manifest::new(Kind::Secret, empty)).await;
            ns.apply_secret("cloud", &clouds_yaml(&cloud_entry("demo"))).await;
            label_namespace(ns, Some("shared")).await;
            let flag = format!("--cluster-identity-namespaces={}", platform.name);
            ns.start_controller(&ns.world.account, &[&flag]);
            let all = mistakes(ns, platform);
            for Mistake { name, secret, selector, .. } in &all {
                if let Some((namespace, secret)) = secret {
                    apply_identity(ns, name, (namespace, secret), selector.clone()).await;
                }
                ns.create(pool(name).cluster_identity(name).network("public-large").served_in(&ns.name)).await;
            }
            for Mistake { name, reason, part, .. } in &all {
                let message = ns.await_condition(Kind::Pool, name, "Ready", "False", reason, SOON).await;
                assert!(message.contains(part), "{name}: {part:?} is not in {message:?}");
                ns.await_condition(Kind::Pool, name, NOT_VALID.0, NOT_VALID.1, reason, SOON).await;
            }
            for Mistake { name, .. } in &all {
                apply_identity(ns, name, (&platform.name, "cloud"), json!({"matchLabels": {"identities": "shared"}}))
                    .await;
            }
            for Mistake { name, .. } in &all {
                ns.await_condition(Kind::Pool, name, "Ready", "True", "Ready", RECOVERY).await;
                ns.bind(claim(name).from(name)).await;
                ns.release(&claim(name).name()).await;
                ns.await_gone(Kind::Claim, &claim(name).name(), SOON).await;
                ns.delete(Kind::Pool, name).await;
                ns.await_gone(Kind::Pool, name, RECOVERY).await;
                delete_identity(ns, name).await;
            }
        })
        .await;
    })
    .await;
}
