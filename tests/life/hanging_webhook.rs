//! A validating webhook for IPAddresses that never answers: the leader keeps its Lease. One for pools that is gone: the pool
//! says so.

use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use kube::api::PostParams;
use tokio::net::TcpListener;

use super::*;
use crate::support::{LeaseObserver, RENEW_DEADLINE, leader_election_flags, pool, with_namespace};

/// More than the writes that the controllers have in progress at a time.
const CLAIMS: usize = 40;
/// Twice the time after which a leader without a renewal ends.
const HANGS_FOR: Duration = RENEW_DEADLINE.saturating_mul(2);

/// A server that accepts connections, and never answers.
async fn start_silent_server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("some port is free");
    let address = listener.local_addr().expect("it is bound");
    tokio::spawn(async move {
        let mut connections = Vec::new();
        while let Ok((connection, _)) = listener.accept().await {
            connections.push(connection);
        }
    });
    format!("https://{address}/")
}

/// Each object that is written so in the namespace waits for it. It is owned by the namespace, and goes with that.
async fn create_webhook(ns: &Namespace, url: &str, resources: &str, operation: &str) {
    let namespaces: Api<KubeNamespace> = Api::all(ns.world.client.clone());
    let owner = namespaces.get(&ns.name).await.expect("it is there").uid();
    let rule = json!({
        "apiGroups": ["ipam.cluster.x-k8s.io"], "apiVersions": ["*"], "operations": [operation],
        "resources": [resources],
    });
    let webhook = json!({
        "name": "silent.example.com", "clientConfig": {"url": url}, "rules": [rule], "failurePolicy": "Fail",
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": ns.name}}, "timeoutSeconds": 10,
        "sideEffects": "None", "admissionReviewVersions": ["v1"],
    });
    let owners = json!([{"apiVersion": "v1", "kind": "Namespace", "name": ns.name, "uid": owner}]);
    let configuration = json!({"metadata": {"name": ns.name, "ownerReferences": owners}, "webhooks": [webhook]});
    let configuration = serde_json::from_value(configuration).expect("that is a configuration");
    webhooks(ns).create(&PostParams::default(), &configuration).await.expect("it can be created");
}

fn webhooks(ns: &Namespace) -> Api<ValidatingWebhookConfiguration> {
    Api::all(ns.world.client.clone())
}

#[tokio::test]
async fn lease_is_renewed_in_time_while_a_webhook_for_ip_addresses_hangs() {
    with_namespace(async |ns| {
        ns.create_secret_for("demo").await;
        let leading = leader_election_flags(&ns.name);
        let controller = ns.start_controller(&ns.world.account, &leading.each_ref().map(String::as_str));
        create_ready_pool(ns, pool("public").network("public-large").served_in(&ns.name)).await;
        create_webhook(ns, &start_silent_server().await, "ipaddresses", "CREATE").await;
        let lease = LeaseObserver::start(&ns.world, &ns.name);
        create_claims(ns, 0..CLAIMS).await;
        tokio::time::sleep(HANGS_FOR).await;
        assert_eq!(count_bound(ns).await, 0, "the webhook hangs");
        eventually(BURST, async || {
            let claims = ns.list(Kind::Claim).await;
            let message = |claim: &DynamicObject| Some(condition_of(claim, "Ready")?["message"].to_string());
            let is_told =
                |message: &String| message.contains("Kubernetes refused") && message.contains("silent.example");
            let told = claims.iter().filter_map(message).filter(is_told).count();
            if told > 0 { Ok(()) } else { Err("no claim says which webhook fails") }
        })
        .await;
        let lease = lease.history();
        assert_eq!((lease.holders.len(), lease.transitions.len()), (1, 1), "{lease:?}");
        assert!(lease.renewals > 1 && lease.longest_gap < RENEW_DEADLINE, "{lease:?}");
        controller.assert_running();

        webhooks(ns).delete(&ns.name, &DeleteParams::default()).await.expect("it can be deleted");
        await_bound_count(ns, CLAIMS, BURST).await;
        controller.assert_running();
        release_bound_claims(ns).await;
    })
    .await;
}

#[tokio::test]
async fn pool_whose_writes_a_webhook_refuses_says_so_and_serves_once_it_is_gone() {
    with_namespace(async |ns| {
        ns.create_secret_for("demo").await;
        // Nothing listens there.
        create_webhook(ns, "https://127.0.0.1:1/", "openstackfloatingippools", "UPDATE").await;
        ns.create(pool("public").network("public-large")).await;
        let said = ns.await_condition(Kind::Pool, "public", "Ready", "False", "KubernetesRefused", BURST).await;
        assert!(said.contains("silent.example.com") && said.contains("check the controller's role"), "{said}");

        webhooks(ns).delete(&ns.name, &DeleteParams::default()).await.expect("it can be deleted");
        ns.await_condition(Kind::Pool, "public", "Ready", "True", "Ready", BURST).await;
    })
    .await;
}
