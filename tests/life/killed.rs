//! `kill -9` at random moments, while claims come and go: no call of the controller is named here, any may be struck.

use super::*;
use crate::support::{await_lawful, pool, with_namespace};

/// Rounds of a plain run; `CAIP_KILLS=30 make test` is the long one.
const ROUNDS: u64 = 3;
/// Claims that come in each round.
const COME: usize = 6;
/// The longest that a controller lives in a round: about as long as its work takes.
const LIFE: Duration = Duration::from_millis(2500);

fn variable(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{name} must be a number, not {value:?}")))
}

#[tokio::test]
async fn controller_that_is_killed_at_any_moment_gives_no_address_twice_and_leaves_none() {
    let seed = variable("CAIP_KILLS_SEED").unwrap_or_else(|| fastrand::u64(..));
    let rounds = variable("CAIP_KILLS").unwrap_or(ROUNDS);
    // Shown when it fails.
    println!("CAIP_KILLS={rounds} CAIP_KILLS_SEED={seed}");
    let mut chance = fastrand::Rng::with_seed(seed);
    with_namespace(async |ns| {
        ns.secret_for("demo").await;
        ns.serve();
        let listed = [ns.floating_ip("public").await.address, ns.floating_ip("public").await.address];
        // A POST that lands after its sender died and the claim has another address is an orphan: soon found, here.
        let orphans = json!({"policy": "Release", "graceSeconds": 1});
        let spec = pool("public").list(listed).network("public").preallocate(1).with("orphans", orphans);
        ready(ns, spec.served_in(&ns.name)).await;
        let mut living: Vec<String> = Vec::new();
        let mut next = 0;
        for _ in 0..rounds {
            chance.shuffle(&mut living);
            let goes = living.split_off(living.len() / 2);
            let comes: Vec<String> = (next..next + COME).map(|number| format!("web-{number}")).collect();
            next += COME;
            let life = LIFE.mul_f64(chance.f64());
            let work = async {
                let creations = comes.iter().map(async |server| drop(ns.create(claim(server)).await));
                let releases = goes.iter().map(async |server| ns.release(&named(server)).await);
                tokio::join!(futures::future::join_all(creations), futures::future::join_all(releases));
            };
            let death = async {
                tokio::time::sleep(life).await;
                ns.serve();
            };
            tokio::join!(work, death);
            living.extend(comes);
            assert_distinct(&addresses(ns).await);
        }
        await_bound_count_within(TROUBLE, ns, living.len()).await;
        await_lawful(&[ns]).await;
        let all = living.iter().map(async |server| ns.release(&named(server)).await);
        futures::future::join_all(all).await;
        eventually(TROUBLE, async || match ns.list(Kind::Claim).await.len() {
            0 => Ok(()),
            left => Err(format!("{left} claims are left")),
        })
        .await;
        await_lawful(&[ns]).await;
    })
    .await;
}
