//! A replica takes over from a leader that is cut off, or stopped, in the middle of its work; what the leader had sent
//! lands late, and what it does when it wakes comes to nothing.

use std::sync::Arc;

use futures::future::join_all;

use super::*;
use crate::support::{Controller, Fault, Line, SYSTEM_NAMESPACE, await_lawful, pool, with_namespace};

/// How long a leader may be silent. Longer than a busy machine is, and well below [`LATE`].
const LEASE: &str = "--leader-elect-lease-duration=8s";
const DEADLINE: &str = "--leader-elect-renew-deadline=6s";
const RETRY: &str = "--leader-elect-retry-period=500ms";
/// When a call lands that the leader sent: the follower leads by then, and a call lasts no longer than 30 s.
const LATE: Duration = Duration::from_secs(20);

const CLAIMS: usize = 8;

/// Starts a replica, and waits until it has said this.
async fn replica(ns: &Namespace, kubeconfig: &str, part: &str) -> Arc<Controller> {
    let place = format!("--leader-election-namespace={SYSTEM_NAMESPACE}");
    let lease = format!("--leader-election-id={}", ns.name);
    let replica = ns.serve_by(kubeconfig, &["--leader-elect=true", LEASE, DEADLINE, RETRY, &place, &lease]);
    says(&replica, part).await;
    replica
}

async fn says(replica: &Controller, part: &str) {
    eventually(BURST, async || {
        let log = replica.log();
        if log.contains(part) { Ok(()) } else { Err(format!("it never said {part:?}, but:\n{log}")) }
    })
    .await;
}

async fn await_end_of(replica: &Controller) {
    let status = eventually(HEALS, async || replica.ended().ok_or("it does not lead, and has not ended")).await;
    assert_eq!(status.code(), Some(1), "{}", replica.log());
    assert!(replica.log().contains("leadership lost, exiting"), "{}", replica.log());
}

/// Two addresses of a list, one that is ready, and new ones: what a burst does is tag, describe and create.
async fn mixed_pool(ns: &Namespace) -> String {
    let listed = [ns.floating_ip("public-large").await.address, ns.floating_ip("public-large").await.address];
    // A POST that lands after its claim has another address is an orphan: soon found, here.
    let orphans = json!({"policy": "Release", "graceSeconds": 1});
    let public = pool("public").list(listed).network("public-large").preallocate(1).with("orphans", orphans);
    let id = ready(ns, public.served_in(&ns.name)).await;
    await_count(ns, "free", 3).await;
    id
}

async fn burst(ns: &Namespace) {
    join_all((0..CLAIMS).map(|number| ns.create(claim(&format!("web-{number}"))))).await;
}

/// All are served, then all go; nothing is given twice, and nothing is left.
async fn all_is_well(ns: &Namespace, id: &str) {
    await_bound_count_within(TROUBLE, ns, CLAIMS).await;
    assert_distinct(&addresses(ns).await);
    await_lawful(&[ns]).await;
    ns.patch(Kind::Pool, "public", json!({"spec": {"preallocate": 0}})).await;
    join_all(addresses(ns).await.iter().map(|(claim, _)| ns.release(claim))).await;
    let cloud = ns.cloud().await;
    eventually(TROUBLE, async || match (ns.list(Kind::Claim).await.len(), marked(cloud, id).await.len()) {
        (0, 0) => Ok(()),
        left => Err(format!("(claims, floating IPs) left: {left:?}")),
    })
    .await;
    await_lawful(&[ns]).await;
}

#[tokio::test]
async fn calls_of_a_leader_that_was_cut_off_land_after_the_takeover_and_do_no_harm() {
    with_namespace(async |ns| {
        let (line, wire) = (Line::to(ns).await, Wire::to("demo").await);
        ns.secret("cloud", &wire.clouds_yaml()).await;
        let leader = replica(ns, line.kubeconfig(), "leading was_vacant=true").await;
        let follower = replica(ns, &ns.world.account, "not leading yet").await;
        let id = mixed_pool(ns).await;
        let held = ["POST floatingips", "PUT floatingips/ID", "PUT floatingips/ID/tags/TAG"];
        wire.set(held.map(|call| Fault::delay(call, LATE).once()));
        burst(ns).await;
        eventually(HEALS, async || match wire.faults_left() {
            left if left.is_empty() => Ok(()),
            left => Err(format!("it did not come to {left:?}")),
        })
        .await;

        line.cut();
        await_end_of(&leader).await;
        says(&follower, "leading was_vacant=false").await;
        assert_eq!(wire.landed(), 0, "they land after the takeover");
        eventually(BURST, async || match wire.landed() {
            3 => Ok(()),
            landed => Err(format!("{landed} of 3 have landed")),
        })
        .await;
        all_is_well(ns, &id).await;
        follower.assert_running();
    })
    .await;
}

#[tokio::test]
async fn a_leader_that_was_stopped_for_longer_than_its_lease_ends_when_it_wakes_and_does_no_harm() {
    with_namespace(async |ns| {
        let wire = Wire::to("demo").await;
        ns.secret("cloud", &wire.clouds_yaml()).await;
        let leader = replica(ns, &ns.world.account, "leading was_vacant=true").await;
        let follower = replica(ns, &ns.world.account, "not leading yet").await;
        let id = mixed_pool(ns).await;
        // Answers to these wait for it when it wakes.
        wire.set([Fault::delay("POST floatingips", Duration::from_secs(2)).times(CLAIMS)]);
        burst(ns).await;
        eventually(HEALS, async || match wire.count("POST floatingips") {
            0 => Err("it has not begun"),
            _ => Ok(()),
        })
        .await;
        leader.signal("STOP");
        wire.set([]);
        says(&follower, "leading was_vacant=false").await;
        leader.signal("CONT");
        await_end_of(&leader).await;
        all_is_well(ns, &id).await;
        follower.assert_running();
    })
    .await;
}
