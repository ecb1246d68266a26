//! A replica takes over from a leader that is disconnected or suspended during its work. The leader's calls may still take
//! effect, but when it continues it does nothing more.

use std::sync::Arc;

use super::*;
use crate::support::{ApiServerProxy, Controller, Fault, SYSTEM_NAMESPACE, await_laws_hold, pool, with_namespace};

/// Longer than the pauses of a busy machine, and well below [`LATE`].
const LEASE: &str = "--leader-elect-lease-duration=8s";
const DEADLINE: &str = "--leader-elect-renew-deadline=6s";
const RETRY: &str = "--leader-elect-retry-period=500ms";
/// When a call of the leader takes effect: the follower leads by then, and a call lasts no longer than 30 s.
const LATE: Duration = Duration::from_secs(20);

const CLAIMS: usize = 8;

/// Starts a replica, and waits until it has logged this text.
async fn start_replica(ns: &Namespace, kubeconfig: &str, text: &str) -> Arc<Controller> {
    let namespace = format!("--leader-election-namespace={SYSTEM_NAMESPACE}");
    let lease = format!("--leader-election-id={}", ns.name);
    let replica = ns.start_controller(kubeconfig, &["--leader-elect=true", LEASE, DEADLINE, RETRY, &namespace, &lease]);
    await_log(&replica, text).await;
    replica
}

async fn await_log(replica: &Controller, text: &str) {
    eventually(BURST, async || {
        let log = replica.log();
        if log.contains(text) { Ok(()) } else { Err(format!("{text:?} is not logged:\n{log}")) }
    })
    .await;
}

async fn await_lost_leadership(replica: &Controller) {
    let status = eventually(RECOVERY, async || replica.ended().ok_or("it has not ended")).await;
    assert_eq!(status.code(), Some(1), "{}", replica.log());
    assert!(replica.log().contains("leadership lost, exiting"), "{}", replica.log());
}

/// A pool with two predefined addresses, a spare and new ones: claims cause tags, descriptions and POSTs.
async fn create_mixed_pool(ns: &Namespace) -> String {
    let listed =
        [ns.create_floating_ip("public-large").await.address, ns.create_floating_ip("public-large").await.address];
    // A POST that takes effect when its claim has another address leaves an orphan: it is released soon.
    let orphans = json!({"policy": "Release", "graceSeconds": 1});
    let public = pool("public").list(listed).network("public-large").min_free(1).with("orphans", orphans);
    let id = create_ready_pool(ns, public.served_in(&ns.name)).await;
    await_address_count(ns, "free", 3).await;
    id
}

/// Waits until all claims are bound, releases them, and waits until nothing is left; no address is given twice.
async fn assert_all_served_and_released(ns: &Namespace, id: &str) {
    await_bound_count(ns, CLAIMS, AFTER_LOST_CALLS).await;
    assert_distinct(&bound_addresses(ns).await);
    await_laws_hold(&[ns]).await;
    ns.patch(Kind::Pool, "public", json!({"spec": {"minFree": 0}})).await;
    release_bound_claims(ns).await;
    await_all_released(ns, id, AFTER_LOST_CALLS).await;
}

#[tokio::test]
async fn calls_of_a_disconnected_leader_that_land_after_the_takeover_are_harmless() {
    with_namespace(async |ns| {
        let (api_server, proxy) = (ApiServerProxy::start(ns).await, OpenStackProxy::to_cloud("demo").await);
        ns.apply_secret("cloud", &proxy.clouds_yaml()).await;
        let leader = start_replica(ns, api_server.kubeconfig(), "leading was_vacant=true").await;
        let follower = start_replica(ns, &ns.world.account, "not leading yet").await;
        let id = create_mixed_pool(ns).await;
        let delayed = ["POST floatingips", "PUT floatingips/ID", "PUT floatingips/ID/tags/TAG"];
        proxy.set_faults(delayed.map(|call| Fault::delay(call, LATE).once()));
        create_claims(ns, 0..CLAIMS).await;
        proxy.await_faults_used(RECOVERY).await;

        api_server.disconnect();
        await_lost_leadership(&leader).await;
        await_log(&follower, "leading was_vacant=false").await;
        assert_eq!(proxy.delayed_calls_done(), 0, "they take effect after the takeover");
        eventually(BURST, async || match proxy.delayed_calls_done() {
            3 => Ok(()),
            done => Err(format!("{done} of 3 calls have taken effect")),
        })
        .await;
        assert_all_served_and_released(ns, &id).await;
        follower.assert_running();
    })
    .await;
}

/// SIGTERM comes while it is not known whether the POST for a claim takes effect.
#[tokio::test]
async fn leader_that_ends_while_a_call_may_take_effect_leaves_its_lease_to_expire() {
    with_namespace(async |ns| {
        let proxy = OpenStackProxy::to_cloud("demo").await;
        ns.apply_secret("cloud", &proxy.clouds_yaml()).await;
        let leader = start_replica(ns, &ns.world.account, "leading was_vacant=true").await;
        let id = create_mixed_pool(ns).await;
        proxy.set_faults([Fault::page("POST floatingips", 504).once()]);
        create_claims(ns, 0..CLAIMS).await;
        proxy.await_faults_used(RECOVERY).await;
        leader.signal("TERM");
        let status = eventually(RECOVERY, async || leader.ended().ok_or("it has not ended")).await;
        assert_eq!(status.code(), Some(0), "{}", leader.log());
        assert!(leader.log().contains("the Lease is left to expire"), "{}", leader.log());
        let follower = start_replica(ns, &ns.world.account, "leading was_vacant=false").await;
        assert_all_served_and_released(ns, &id).await;
        follower.assert_running();
    })
    .await;
}

#[tokio::test]
async fn leader_suspended_for_longer_than_its_lease_exits_without_harm() {
    with_namespace(async |ns| {
        let proxy = OpenStackProxy::to_cloud("demo").await;
        ns.apply_secret("cloud", &proxy.clouds_yaml()).await;
        let leader = start_replica(ns, &ns.world.account, "leading was_vacant=true").await;
        let follower = start_replica(ns, &ns.world.account, "not leading yet").await;
        let id = create_mixed_pool(ns).await;
        // Their answers wait for the leader when it continues.
        proxy.set_faults([Fault::delay("POST floatingips", Duration::from_secs(2)).times(CLAIMS)]);
        create_claims(ns, 0..CLAIMS).await;
        eventually(RECOVERY, async || match proxy.count("POST floatingips") {
            0 => Err("there was no call"),
            _ => Ok(()),
        })
        .await;
        leader.signal("STOP");
        proxy.remove_faults();
        await_log(&follower, "leading was_vacant=false").await;
        leader.signal("CONT");
        await_lost_leadership(&leader).await;
        assert_all_served_and_released(ns, &id).await;
        follower.assert_running();
    })
    .await;
}
