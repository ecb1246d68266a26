//! Ten hostile tenants beside an honest one, under one controller: whatever their Keystones and Neutrons send, and however,
//! the honest tenant's claims are bound, and nothing else happens in its project.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::time::{Instant, sleep};

use super::*;
use crate::support::hostile::{self, Attack, HostileTenants, Victim, with_hostile_tenants};
use crate::support::{
    Controller, LeaseObserver, Project, RENEW_DEADLINE, clouds_yaml, leader_election_flags, pool, with_namespace,
};

const NETWORK: &str = "public-large";
/// Longer than the longest call, which a server lets stall.
const ATTACK: Duration = Duration::from_secs(32);
/// Between two claims of the honest tenant.
const PAUSE: Duration = Duration::from_secs(2);
/// Claims that the honest tenant has before the attack.
const FIRST: usize = 4;

/// A controller of all namespaces, which leads.
fn start_controller(ns: &Namespace) -> Arc<Controller> {
    let leading = leader_election_flags(&ns.name);
    let flags = [&["--namespace="][..], &leading.each_ref().map(String::as_str), &metrics::PLAIN].concat();
    ns.start_controller(&ns.world.account, &flags)
}

/// Floating IPs of others in the honest tenant's project: plain, described, tagged. Returns them as Neutron lists them.
async fn create_floating_ips_of_others(cloud: &Cloud) -> BTreeMap<String, Value> {
    cloud.create(NETWORK, "").await;
    cloud.create(NETWORK, "of a user").await;
    let tagged = cloud.create(NETWORK, "").await;
    cloud.tag(&tagged.id, "of-a-user").await;
    rows_by_address(cloud).await
}

async fn rows_by_address(cloud: &Cloud) -> BTreeMap<String, Value> {
    let address = |row: &Value| row["floating_ip_address"].as_str().unwrap_or_default().to_owned();
    hostile::rows(cloud).await.into_iter().map(|row| (address(&row), row)).collect()
}

/// Waits until the project has the floating IPs of others, unchanged down to their revision, and one for each claim.
async fn await_project_is_as_expected(ns: &Namespace, others: &BTreeMap<String, Value>, pool_id: &str) {
    eventually(RESYNC, async || {
        let mut rows = rows_by_address(ns.cloud().await).await;
        for (address, before) in others {
            let now = rows.remove(address);
            assert_eq!(now.as_ref(), Some(before), "{address} is of another user");
        }
        let bound: BTreeSet<String> = bound_addresses(ns).await.into_iter().map(|(_, address)| address).collect();
        let of_pool = |row: &Value| row["description"].as_str().is_some_and(|text| text.contains(pool_id));
        match rows.keys().eq(&bound) && rows.values().all(of_pool) {
            true => Ok(()),
            false => Err(format!("bound are {bound:?}, and in the project are {rows:?}")),
        }
    })
    .await;
}

/// The times at which the conditions of the pool `public` last changed.
async fn transitions(ns: &Namespace) -> Vec<Value> {
    let pool = ns.get(Kind::Pool, "public").await.expect("the pool is there");
    let conditions = pool.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.iter().map(|found| json!([found["type"], found["status"], found["lastTransitionTime"]])).collect()
}

async fn assert_events(ns: &Namespace, kind: Kind, name: &str, reason: &str) {
    let events = ns.events(kind, name).await;
    assert!(events.iter().all(|(found, _)| found == reason), "{kind:?} {name}: {events:?}");
}

/// Binds and releases claims for as long as the attack lasts; returns how many claims there were.
async fn bind_and_release_claims(ns: &Namespace) -> usize {
    let end = Instant::now() + ATTACK;
    let mut next = FIRST;
    while Instant::now() < end {
        let server = format!("web-{next}");
        ns.bind_within(claim(&server), BURST).await;
        ns.await_condition(Kind::Claim, &claim_name(&server), "Ready", "True", "AddressAllocated", BURST).await;
        assert_events(ns, Kind::Claim, &claim_name(&server), "AddressAllocated").await;
        // Two of three stay.
        if next.is_multiple_of(3) {
            ns.release(&claim_name(&server)).await;
            ns.await_gone(Kind::Claim, &claim_name(&server), BURST).await;
        }
        next += 1;
        sleep(PAUSE).await;
    }
    next
}

/// Fails unless every server was asked for tokens, and most for floating IPs too.
fn assert_all_attacked(tenants: &HostileTenants) {
    let calls = tenants.calls();
    for (attack, calls) in Attack::ALL.iter().zip(&calls) {
        eprintln!("{attack:?}: {calls:?}");
        assert!(calls.contains_key("POST auth/tokens"), "{attack:?} was asked for no token");
    }
    let listed = calls.iter().filter(|calls| calls.contains_key("GET floatingips")).count();
    assert!(listed >= 7, "only {listed} servers were asked for floating IPs");
}

/// The sum of a metric's samples.
async fn metric(address: &str, name: &str) -> f64 {
    let answer = reqwest::get(format!("http://{address}/metrics")).await.expect("it answers");
    let text = answer.text().await.expect("it answers to the end");
    let samples = text.lines().filter(|line| line.starts_with(name));
    samples.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).sum()
}

#[tokio::test]
async fn ten_hostile_tenants_do_not_harm_an_honest_one() {
    let project = Project::new().await;
    with_namespace(async |ns| {
        ns.use_cloud(project.cloud().await);
        ns.apply_secret("cloud", &clouds_yaml(project.entry())).await;
        let cloud = ns.cloud().await;
        let others = create_floating_ips_of_others(cloud).await;
        let controller = start_controller(ns);
        let pool_id = create_ready_pool(ns, pool("public").network(NETWORK).served_in(&ns.name)).await;
        create_claims(ns, 0..FIRST).await;
        await_bound_count(ns, FIRST, BURST).await;
        let (pid, conditions) = (controller.pid(), transitions(ns).await);
        let lease = LeaseObserver::start(&ns.world, &ns.name);

        let victim = Victim::copy(cloud, NETWORK, &pool_id).await;
        with_hostile_tenants(&ns.world, victim, &ns.name, &Attack::ALL, async |tenants| {
            let claims = bind_and_release_claims(ns).await;
            assert!(claims > FIRST, "no claim was bound");
            assert_all_attacked(tenants);
            await_project_is_as_expected(ns, &others, &pool_id).await;
            assert_eq!(transitions(ns).await, conditions, "the pool's conditions never changed");
            assert_events(ns, Kind::Pool, "public", "Ready").await;

            controller.assert_running();
            assert_eq!(controller.pid(), pid);
            let address = controller.diagnostics().await;
            assert_eq!(
                metric(&address, "caip_openstack_reconcile_panics_total").await,
                0.0,
                "{}",
                controller.log_path().display()
            );
            assert!(!controller.log().contains("panicked"), "{}", controller.log_path().display());
            let lease = lease.history();
            assert_eq!((lease.holders.len(), lease.transitions.len()), (1, 1), "{lease:?}");
            assert!(lease.longest_gap < RENEW_DEADLINE, "{lease:?}");

            release_bound_claims(ns).await;
            await_all_released(ns, &pool_id, BURST).await;
            assert_eq!(rows_by_address(cloud).await, others, "nothing else is left");
        })
        .await;
    })
    .await;
    project.end().await;
}
