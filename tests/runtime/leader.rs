//! Leader election on a real API server, with real write conflicts.

use std::time::Duration;

use caip_openstack::clock::Clock;
use caip_openstack::runtime::leader::{Leader, LeaseSettings, Lost};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::with_namespace;

/// Not the minimum of 1 s, to allow for a busy machine.
const LEASE: Duration = Duration::from_secs(6);

async fn candidate(client: &kube::Client, namespace: &str, identity: &str) -> Leader {
    let settings = LeaseSettings {
        namespace: namespace.into(),
        name: "the-lease".into(),
        identity: identity.into(),
        duration: LEASE,
        renew_deadline: LEASE * 3 / 4,
        retry_period: Duration::from_millis(200),
    };
    Leader::acquire(client.clone(), settings, &Clock::system()).await
}

fn leases(client: &kube::Client, namespace: &str) -> Api<Lease> {
    Api::namespaced(client.clone(), namespace)
}

async fn record(client: &kube::Client, namespace: &str) -> LeaseSpec {
    leases(client, namespace).get("the-lease").await.expect("the Lease exists").spec.expect("the Lease has a spec")
}

/// Waits until the holder has kept the Lease for longer than its duration.
async fn await_renewals(client: &kube::Client, namespace: &str) {
    loop {
        let record = record(client, namespace).await;
        let (Some(first), Some(last)) = (record.acquire_time, record.renew_time) else { panic!("no times") };
        if last.0.duration_since(first.0).unsigned_abs() > LEASE * 3 / 2 {
            return;
        }
        sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn one_of_two_candidates_leads_until_it_gives_the_lease_back() {
    with_namespace(async |client, ns| {
        let first = candidate(&client, &ns, "first").await;
        assert!(first.was_vacant(), "there was no Lease");
        let mut second = Box::pin(candidate(&client, &ns, "second"));
        tokio::select! {
            _ = &mut second => panic!("two leaders"),
            () = await_renewals(&client, &ns) => {}
        }
        assert_eq!(record(&client, &ns).await.holder_identity.as_deref(), Some("first"));

        first.release().await.expect("the Lease is given back");
        assert_eq!(record(&client, &ns).await.holder_identity, None);
        let begin = Instant::now();
        let second = second.await;
        assert!(begin.elapsed() < LEASE, "no wait for a Lease that was given back");
        assert!(second.was_vacant());
        assert_eq!(record(&client, &ns).await.lease_transitions, Some(1));
    })
    .await;
}

#[tokio::test]
async fn one_of_many_concurrent_candidates_leads() {
    with_namespace(async |client, ns| {
        let names: Vec<_> = (0..8).map(|number| format!("candidate-{number}")).collect();
        let candidates = names.iter().map(|name| Box::pin(candidate(&client, &ns, name)));
        let (leader, _, others) = futures::future::select_all(candidates).await;
        tokio::select! {
            _ = futures::future::select_all(others) => panic!("two leaders"),
            () = await_renewals(&client, &ns) => {}
        }
        leader.release().await.expect("the Lease is given back");
    })
    .await;
}

#[tokio::test]
async fn a_candidate_waits_until_the_lease_of_a_silent_leader_expires() {
    with_namespace(async |client, ns| {
        drop(candidate(&client, &ns, "first").await);
        let begin = Instant::now();
        let second = candidate(&client, &ns, "second").await;
        assert!(begin.elapsed() >= LEASE, "the Lease had not expired");
        assert!(!second.was_vacant(), "requests of the first leader may be in flight");
        assert_eq!(record(&client, &ns).await.holder_identity.as_deref(), Some("second"));
    })
    .await;
}

#[tokio::test]
async fn a_leader_notices_that_its_lease_was_taken() {
    with_namespace(async |client, ns| {
        let leader = candidate(&client, &ns, "first").await;
        let theft = json!({"spec": {"holderIdentity": "thief"}});
        let params = PatchParams::default();
        leases(&client, &ns).patch("the-lease", &params, &Patch::Merge(theft)).await.expect("the Lease is changed");
        assert_eq!(leader.lost().await, Lost::TakenBy("thief".into()));
        leader.release().await.expect("giving back another holder's Lease is no error");
        assert_eq!(record(&client, &ns).await.holder_identity.as_deref(), Some("thief"));
    })
    .await;
}

#[tokio::test]
async fn a_leader_notices_that_its_lease_was_deleted() {
    with_namespace(async |client, ns| {
        let leader = candidate(&client, &ns, "first").await;
        leases(&client, &ns).delete("the-lease", &DeleteParams::default()).await.expect("the Lease is deleted");
        assert_eq!(leader.lost().await, Lost::Vacated);
    })
    .await;
}
