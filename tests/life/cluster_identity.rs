//! Pools with the credentials of CAPO's cluster identities: served while the identity allows their namespace, and not a
//! call longer.

use super::*;
use crate::support::{
    SOON, apply_identity, cloud_entry, clouds_yaml, delete_identity, label_namespace, pool, with_namespace,
};

/// Until a change of an identity or of a namespace's labels is noticed: both are read at each reconcile.
const NOTICED: Duration = Duration::from_secs(45);

/// Sooner than any reconcile that nothing has triggered.
const TRIGGERED: Duration = Duration::from_millis(7500);

/// Until a process that lost the use of an identity, and has it again, deletes floating IPs: calls of before may be under
/// way until then.
const AFTER_FENCE: Duration = Duration::from_secs(90);

fn selector() -> Value {
    json!({"matchLabels": {"identities": "shared"}})
}

/// A controller of the namespace's own for identities whose Secrets are in this one.
fn start_controller(ns: &Namespace, secrets: &Namespace) {
    let flag = format!("--cluster-identity-namespaces={}", secrets.name);
    ns.start_controller(&ns.world.account, &[&flag]);
}

async fn await_refused(ns: &Namespace) -> String {
    ns.await_condition(Kind::Pool, "public", "Ready", "False", "NamespaceNotAllowed", NOTICED).await
}

async fn await_ready(ns: &Namespace) {
    ns.await_condition(Kind::Pool, "public", "Ready", "True", "Ready", NOTICED).await;
}

/// A pool that is served with an identity, named after the namespace, with a Secret in another namespace.
async fn create_pool_of_identity(ns: &Namespace, platform: &Namespace) {
    platform.create_secret_for("demo").await;
    apply_identity(ns, &ns.name, (&platform.name, "cloud"), selector()).await;
    start_controller(ns, platform);
    ns.create(pool("public").cluster_identity(&ns.name).network("public").served_in(&ns.name)).await;
}

#[tokio::test]
async fn pool_of_a_cluster_identity_serves_while_its_namespace_is_allowed() {
    with_namespace(async |platform| {
        with_namespace(async |ns| {
            create_pool_of_identity(ns, platform).await;
            let message = await_refused(ns).await;
            assert!(message.contains(&ns.name) && message.contains("namespaceSelector"), "{message}");
            create_waiting_claim(ns, "web-0", "PoolNotReady").await;

            label_namespace(ns, Some("shared")).await;
            await_ready(ns).await;
            let address = await_bound(ns, "web-0").await;
            let secret = platform.get(Kind::Secret, "cloud").await.expect("it is the platform's");
            assert!(secret.finalizers().is_empty(), "{:?}", secret.finalizers());

            label_namespace(ns, None).await;
            await_refused(ns).await;
            create_waiting_claim(ns, "web-1", "PoolNotReady").await;
            assert_eq!(await_bound(ns, "web-0").await, address, "a bound claim keeps its address");
            let fip = floating_ip_of(ns.cloud().await, &address).await;
            assert!(is_marked(&fip), "{fip:?}");

            label_namespace(ns, Some("shared")).await;
            ns.await_bound(&claim_name("web-1"), NOTICED).await;
            for server in ["web-0", "web-1"] {
                ns.release(&claim_name(server)).await;
                ns.await_gone(Kind::Claim, &claim_name(server), AFTER_FENCE).await;
            }
            ns.delete(Kind::Pool, "public").await;
            ns.await_gone(Kind::Pool, "public", AFTER_FENCE).await;
            assert!(ns.cloud().await.find(&address).await.is_none(), "it is deleted with its claim");
            delete_identity(ns, &ns.name).await;
        })
        .await;
    })
    .await;
}

/// Although the process had a session a moment ago: after a restart it could not either.
#[tokio::test]
async fn nothing_is_released_with_an_identity_that_the_namespace_may_not_use() {
    with_namespace(async |platform| {
        with_namespace(async |ns| {
            label_namespace(ns, Some("shared")).await;
            create_pool_of_identity(ns, platform).await;
            let address = ns.bind(claim("web-0")).await;
            label_namespace(ns, None).await;
            await_refused(ns).await;
            let before = floating_ip_of(ns.cloud().await, &address).await;

            ns.release(&claim_name("web-0")).await;
            let message = await_waiting(ns, "web-0", "ReleaseFailed").await;
            assert!(message.contains("namespaceSelector"), "{message}");
            ns.delete(Kind::Pool, "public").await;
            let message = ns.await_condition(Kind::Pool, "public", "Ready", "False", "Deleting", SOON).await;
            assert!(message.contains("namespaceSelector") && message.contains("abandon=true"), "{message}");
            let blocked = "NamespaceNotAllowed";
            ns.await_condition(Kind::Pool, "public", "CredentialsValid", "False", blocked, SOON).await;
            assert_eq!(floating_ip_of(ns.cloud().await, &address).await, before, "it is not touched");

            label_namespace(ns, Some("shared")).await;
            ns.await_gone(Kind::Claim, &claim_name("web-0"), AFTER_FENCE).await;
            ns.await_gone(Kind::Pool, "public", AFTER_FENCE).await;
            assert!(ns.cloud().await.find(&address).await.is_none(), "it is deleted with its pool");
            delete_identity(ns, &ns.name).await;
        })
        .await;
    })
    .await;
}

/// By a controller for all namespaces, which watches the Secrets of all.
#[tokio::test]
async fn changed_secret_of_an_identity_takes_effect_at_once_for_the_namespaces_that_it_allows() {
    with_namespace(async |platform| {
        with_namespace(async |ns| {
            with_namespace(async |other| {
                platform.create_secret_for("demo").await;
                apply_identity(ns, &ns.name, (&platform.name, "cloud"), selector()).await;
                label_namespace(ns, Some("shared")).await;
                let flag = format!("--cluster-identity-namespaces={}", platform.name);
                ns.start_controller(&ns.world.account, &["--namespace=", &flag]);
                for place in [ns, other] {
                    place.create(pool("public").cluster_identity(&ns.name).network("public").served_in(&ns.name)).await;
                }
                await_ready(ns).await;
                await_refused(other).await;

                platform.apply_secret("cloud", "clouds:\n  openstack: [\n").await;
                let invalid = "CredentialsInvalid";
                let message = ns.await_condition(Kind::Pool, "public", "Ready", "False", invalid, TRIGGERED).await;
                assert!(message.contains(&format!("Secret {}/cloud", platform.name)), "{message}");
                platform.apply_secret("cloud", &clouds_yaml(&cloud_entry("demo"))).await;
                ns.await_condition(Kind::Pool, "public", "Ready", "True", "Ready", TRIGGERED).await;
                await_refused(other).await;
                for place in [ns, other] {
                    delete_pool(place, "public").await;
                }
                delete_identity(ns, &ns.name).await;
            })
            .await;
        })
        .await;
    })
    .await;
}

#[tokio::test]
async fn pool_goes_from_a_secret_to_a_cluster_identity_and_back() {
    with_namespace(async |platform| {
        with_namespace(async |ns| {
            platform.create_secret_for("demo").await;
            ns.create_secret_for("demo").await;
            apply_identity(ns, &ns.name, (&platform.name, "cloud"), Value::Null).await;
            start_controller(ns, platform);
            create_ready_pool(ns, pool("public").network("public").served_in(&ns.name)).await;
            let address = ns.bind(claim("web-0")).await;
            let is_kept = async || ns.get(Kind::Secret, "cloud").await.is_some_and(|secret| is_protected(&secret));
            assert!(is_kept().await);

            let identity = json!({"type": "ClusterIdentity", "name": ns.name});
            ns.patch(Kind::Pool, "public", json!({"spec": {"identityRef": identity}})).await;
            let released = async || if is_kept().await { Err("the Secret is protected") } else { Ok(()) };
            eventually(RECOVERY, released).await;
            ns.bind(claim("web-1")).await;
            assert_eq!(await_bound(ns, "web-0").await, address);

            let secret = json!({"type": null, "name": "cloud"});
            ns.patch(Kind::Pool, "public", json!({"spec": {"identityRef": secret}})).await;
            let protected = async || if is_kept().await { Ok(()) } else { Err("the Secret is not protected") };
            eventually(RECOVERY, protected).await;
            assert_eq!(await_bound(ns, "web-0").await, address);
            delete_identity(ns, &ns.name).await;
        })
        .await;
    })
    .await;
}
