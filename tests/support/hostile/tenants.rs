//! Hostile tenants of the management cluster: each with a namespace, Secrets that lead to its server, pools and claims.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, resume_unwind};

use futures::FutureExt;
use futures::future::join_all;
use serde_json::json;

use super::liar::Attack;
use super::server::HostileServers;
use super::victim::Victim;
use crate::support::clouds::clouds_yaml;
use crate::support::manifest::{Kind, PoolBuilder, claim, pool};
use crate::support::namespace::Namespace;
use crate::support::world::World;

/// Of each tenant: Secrets that differ, with a pool each.
pub const SECRETS: usize = 8;
/// Of each tenant.
pub const CLAIMS: usize = 20;

pub struct HostileTenants {
    servers: HostileServers,
    namespaces: Vec<Namespace>,
}

/// Runs `scenario` beside one hostile tenant for each attack, whose pools are served by the controllers with this watch
/// filter. Their objects are removed by force when it has ended, however it does.
pub async fn with_hostile_tenants(
    world: &World,
    victim: Victim,
    watch_filter: &str,
    attacks: &[Attack],
    scenario: impl AsyncFnOnce(&HostileTenants),
) {
    let tenants = HostileTenants::create(world, victim.clone(), attacks).await;
    let judged = async {
        tenants.begin(&victim, watch_filter).await;
        scenario(&tenants).await;
    };
    let outcome = AssertUnwindSafe(judged.boxed_local()).catch_unwind().await;
    tenants.remove().await;
    if let Err(panic) = outcome {
        resume_unwind(panic);
    }
}

impl HostileTenants {
    async fn create(world: &World, victim: Victim, attacks: &[Attack]) -> Self {
        let seed = seed();
        eprintln!("hostile tenants: CAIP_HOSTILE_SEED={seed}");
        let servers = HostileServers::start(attacks, victim, seed);
        let create = |_| Namespace::create_in(world.clone(), crate::support::unique("hostile"));
        Self { servers, namespaces: join_all(attacks.iter().map(create)).await }
    }

    /// Creates all Secrets, pools and claims.
    async fn begin(&self, victim: &Victim, watch_filter: &str) {
        let urls: Vec<&str> = self.servers.urls().collect();
        join_all(self.namespaces.iter().zip(urls).map(async |(ns, url)| {
            join_all((0..SECRETS).map(async |number| {
                ns.apply_secret(&secret(number), &hostile_clouds_yaml(url, number)).await;
                ns.create(hostile_pool(number, victim).served_in(watch_filter)).await;
            }))
            .await;
            // By the names that the honest tenant's claims have.
            let claims = (0..CLAIMS).map(|number| claim(&format!("web-{number}")).from(&pool_name(number % SECRETS)));
            join_all(claims.map(|claim| ns.create(claim.without_capo_finalizer()))).await;
        }))
        .await;
    }

    /// How often each kind of call came to each tenant's server.
    pub fn calls(&self) -> Vec<BTreeMap<String, usize>> {
        self.servers.calls()
    }

    pub fn namespaces(&self) -> &[Namespace] {
        &self.namespaces
    }

    async fn remove(self) {
        let remove = async |ns: &Namespace| ns.remove_by_force().await;
        join_all(self.namespaces.iter().map(remove)).await;
    }
}

/// `CAIP_HOSTILE_SEED`, or any.
fn seed() -> u64 {
    std::env::var("CAIP_HOSTILE_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(|| fastrand::u64(..))
}

fn secret(number: usize) -> String {
    format!("secret-{number}")
}

/// The first has the name of the honest tenant's.
fn pool_name(number: usize) -> String {
    if number == 0 { "public".to_owned() } else { format!("public-{number}") }
}

/// Each Secret leads to a Keystone and a Neutron with URLs of their own, so that no limit counts them together.
fn hostile_clouds_yaml(url: &str, number: usize) -> String {
    let auth = json!({
        "auth_url": format!("{url}/{}/v3", secret(number)), "username": "u", "password": format!("p-{number}"),
        "project_name": "p", "user_domain_id": "default", "project_domain_id": "default",
    });
    clouds_yaml(&json!({"region_name": "RegionOne", "auth": auth}))
}

/// New addresses, the honest tenant's as a list, free ones of the project, and the honest pool's id.
fn hostile_pool(number: usize, victim: &Victim) -> PoolBuilder {
    let identity = json!({"name": secret(number), "cloudName": "openstack"});
    let pool = pool(&pool_name(number)).with("identityRef", identity).network("public-large");
    let addresses = victim.rows.iter().filter_map(|row| row["floating_ip_address"].as_str());
    match number % 4 {
        0 => pool.min_free(2),
        1 => pool.list(addresses),
        2 => pool.reuse_unmarked(),
        _ if number == 3 => pool.pool_id(&victim.pool_id),
        _ => pool,
    }
}
