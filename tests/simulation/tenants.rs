//! A tenant's own Keystone can name any project and any Neutron. What it says changes nothing for others.

use std::time::Duration;

use serde_json::json;

use crate::api::Kind;
use crate::memory::Elsewhere;
use crate::simulate_bound;
use crate::wire::{Fault, Side};
use crate::world::{NAMESPACE, Site, Start, World};

const START: Start = Start { seed: 11, sites: 1, replicas: 1, slowest: 20, is_logged: true };
const SOON: Duration = Duration::from_secs(60);

/// A pool whose Secret names the tenant's own Keystone.
fn create_pool_of_tenant(world: &World, site: &Site) {
    let data = serde_json::to_value(world.cloud.secret_elsewhere("ours", Elsewhere::Keystone)).unwrap();
    let secret = json!({"metadata": {"name": "tenant", "namespace": NAMESPACE}, "data": data});
    site.server.create(Kind::Secret, secret).expect("it is valid");
    let identity = json!({"name": "tenant", "cloudName": "openstack"});
    let list = json!({"preAllocatedFloatingIPs": ["203.0.113.200"], "identityRef": identity});
    site.create_pool("tenant", &list);
}

#[test]
fn a_project_that_another_keystone_says_is_empty_is_not() {
    simulate_bound(&START, async |world, site| {
        let had = site.address_of("web-0");
        create_pool_of_tenant(world, site);
        world.advance(3 * SOON).await;
        site.delete(Kind::Address, "web-0");
        world.advance(3 * SOON).await;
        world.expect(5, "web-0", "bound to the address that it had", site.address_of("web-0") == had && had.is_some());
        site.delete(Kind::Pool, "tenant");
    });
}

/// The ledger of the new one does not know of the POST.
#[test]
fn a_call_that_lands_after_keystone_got_another_url_is_found() {
    for deleted_after in [3, 8, 15, 20] {
        simulate_bound(&START, async |world, site| {
            site.change(Kind::Pool, "public", &json!({"spec": {"orphans": {"policy": "Report"}}}));
            world.advance(SOON).await;
            let late = Fault::Late(Duration::from_secs(55));
            site.replicas[0].add_outage(Side::OpenStack, late, 8, Duration::from_secs(3));
            site.create_claim("web-1", "public");
            world.advance(Duration::from_secs(31)).await;
            world.cloud.move_keystone("ours", "https://keystone.memory/v3/");
            let data = serde_json::to_value(world.cloud.secret("ours")).unwrap();
            site.change(Kind::Secret, "cloud", &json!({"data": data}));
            world.advance(Duration::from_secs(deleted_after)).await;
            site.delete(Kind::Claim, "web-1");
            world.advance(2 * SOON).await;
            world.expect(4, "Neutron", "left with the address of web-0", world.cloud.floating_ips().len() == 1);
        });
    }
}
