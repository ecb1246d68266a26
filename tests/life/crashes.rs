//! Controllers that are killed while claims come and go: during a burst, and at random moments, in any call.

use super::*;
use crate::support::{Fault, SOON, await_laws_hold, pool, with_namespace};

/// `CAIP_KILLS=30 make test` is the long run.
const ROUNDS: u64 = 3;
/// New claims in each round.
const CLAIMS: usize = 6;
/// The longest that a controller runs in a round: about as long as its work takes.
const LIFETIME: Duration = Duration::from_millis(2500);

fn variable(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{name} must be a number, not {value:?}")))
}

#[tokio::test]
async fn controller_killed_at_random_moments_gives_no_address_twice_and_leaks_none() {
    let seed = variable("CAIP_KILLS_SEED").unwrap_or_else(|| fastrand::u64(..));
    let rounds = variable("CAIP_KILLS").unwrap_or(ROUNDS);
    // Shown when it fails.
    println!("CAIP_KILLS={rounds} CAIP_KILLS_SEED={seed}");
    let mut chance = fastrand::Rng::with_seed(seed);
    with_namespace(async |ns| {
        ns.create_secret_for("demo").await;
        ns.restart_controller();
        let listed = [ns.create_floating_ip("public").await.address, ns.create_floating_ip("public").await.address];
        let spec = pool("public").list(listed).network("public").min_free(1).with("orphans", released_orphans());
        create_ready_pool(ns, spec.served_in(&ns.name)).await;
        let mut servers: Vec<String> = Vec::new();
        let mut next = 0;
        for _ in 0..rounds {
            chance.shuffle(&mut servers);
            let removed = servers.split_off(servers.len() / 2);
            let added: Vec<String> = (next..next + CLAIMS).map(|number| format!("web-{number}")).collect();
            next += CLAIMS;
            let lifetime = LIFETIME.mul_f64(chance.f64());
            let work = async {
                let creations = added.iter().map(async |server| drop(ns.create(claim(server)).await));
                let releases = removed.iter().map(async |server| ns.release(&claim_name(server)).await);
                tokio::join!(join_all(creations), join_all(releases));
            };
            let crash = async {
                tokio::time::sleep(lifetime).await;
                ns.restart_controller();
            };
            tokio::join!(work, crash);
            servers.extend(added);
            assert_distinct(&bound_addresses(ns).await);
        }
        await_bound_count(ns, servers.len(), AFTER_LOST_CALLS).await;
        await_laws_hold(&[ns]).await;
        join_all(servers.iter().map(async |server| ns.release(&claim_name(server)).await)).await;
        eventually(AFTER_LOST_CALLS, async || match ns.list(Kind::Claim).await.len() {
            0 => Ok(()),
            left => Err(format!("{left} claims are left")),
        })
        .await;
        await_laws_hold(&[ns]).await;
    })
    .await;
}

/// A POST that takes effect after the controller was killed, when its claim has another address, leaves an orphan: it is
/// released soon.
fn released_orphans() -> Value {
    json!({"policy": "Release", "graceSeconds": 1})
}

#[tokio::test]
async fn controller_killed_during_a_burst_gives_every_claim_one_address() {
    with_namespace(async |ns| {
        ns.create_secret_for("demo").await;
        ns.restart_controller();
        let spec = pool("public").list([MISSING]).network("public").served_in(&ns.name);
        let id = create_ready_pool(ns, spec.with("orphans", released_orphans())).await;
        create_claims(ns, 0..20).await;
        for round in 1..=3 {
            let enough = round * 4;
            eventually(BURST, async || match count_bound(ns).await {
                count if count >= enough => Ok(()),
                count => Err(format!("{count} bound, waiting for {enough}")),
            })
            .await;
            ns.restart_controller();
        }
        await_bound_count(ns, 20, BURST).await;
        await_marks_of_bound_claims_alone(ns, &id, RESYNC).await;

        for number in 0..20 {
            ns.release(&claim_name(&format!("web-{number}"))).await;
            if number == 10 {
                ns.restart_controller();
            }
        }
        await_all_released(ns, &id, BURST).await;
        ns.delete(Kind::Pool, "public").await;
        ns.await_gone(Kind::Pool, "public", RESYNC).await;
    })
    .await;
}

/// The first process has sent a POST for the claim, the second one finds nothing for it.
#[tokio::test]
async fn claim_is_not_let_go_while_the_creation_of_a_killed_process_can_still_land() {
    with_namespace(async |ns| {
        let proxy = OpenStackProxy::to_cloud("demo").await;
        ns.apply_secret("cloud", &proxy.clouds_yaml()).await;
        ns.restart_controller();
        // Orphans stay for an hour.
        let id = create_ready_pool(ns, pool("public").network("public").served_in(&ns.name)).await;
        proxy.set_faults([Fault::delay("POST floatingips", Duration::from_secs(15)).once()]);
        ns.create(claim("web-0")).await;
        proxy.await_faults_used(RECOVERY).await;
        ns.restart_controller();
        ns.release(&claim_name("web-0")).await;
        eventually(RECOVERY, async || match proxy.delayed_calls_done() {
            0 => Err("it has not landed"),
            _ => Ok(()),
        })
        .await;
        assert!(ns.get(Kind::Claim, &claim_name("web-0")).await.is_some(), "the claim is kept until then");
        await_all_released(ns, &id, BURST).await;
    })
    .await;
}

#[tokio::test]
async fn new_claim_after_a_kill_gets_a_new_address_while_the_pools_spare_may_not_be_touched() {
    with_namespace(async |ns| {
        ns.create_secret_for("demo").await;
        ns.restart_controller();
        let id = create_ready_pool(ns, pool("public").network("public").min_free(1).served_in(&ns.name)).await;
        await_address_count(ns, "free", 1).await;
        let spare = marked_addresses(ns.cloud().await, &id).await;
        ns.restart_controller();
        // Half of the time in which a call of the process before may land.
        let address = ns.bind_within(claim("web-0"), SOON).await;
        assert!(!spare.contains(&address), "{address} is the spare: {spare:?}");
    })
    .await;
}
