//! Controllers that are killed while claims come and go: during a burst, and at random moments, in any call.

use super::*;
use crate::support::{await_laws_hold, pool, with_namespace};

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
