//! The cloud in memory, and what is true of it alone.

use std::collections::BTreeSet;
use std::net::IpAddr;

use async_trait::async_trait;
use caip_openstack::clock::Clock;
use caip_openstack::floating_ip::{FloatingIpId, ProjectId};
use caip_openstack::openstack::{Clouds, ErrorKind};
use futures::future::join_all;

use super::{Operator, World, new, refused};
use crate::memory::MemoryCloud;

struct MemoryOperator {
    cloud: MemoryCloud,
    project: ProjectId,
}

pub(super) async fn world() -> World {
    let cloud = MemoryCloud::new(Clock::simulated("2026-11-21T09:00:00Z".parse().expect("a time"), 1));
    let project = cloud.add_project("ours", None);
    let operators = cloud.add_project("operators", None);
    let range = |first: &str, last: &str| {
        let address = |text: &str| text.parse::<IpAddr>().expect("an address");
        address(first)..=address(last)
    };
    let network = cloud.add_network(&operators, "public", true);
    let subnet = cloud.add_subnet(&network, "public-v4", range("203.0.113.10", "203.0.113.250"));
    let tiny = cloud.add_network(&operators, "tiny", true);
    cloud.add_subnet(&tiny, "tiny-v4", range("198.51.100.2", "198.51.100.4"));
    let private = cloud.add_network(&project, "private", false);
    let neutron = cloud.connect("team-a", &cloud.credentials("ours")).await.expect("it connects");
    let stranger = cloud.connect("team-a", &cloud.credentials("operators")).await.expect("it connects");
    let operator = Box::new(MemoryOperator { cloud, project });
    World { neutron, stranger, network, subnet, tiny, private, operator }
}

#[async_trait]
impl Operator for MemoryOperator {
    async fn attach(&self, id: &FloatingIpId) {
        assert!(self.cloud.set_port(id, Some("00000000-0000-4000-8000-00000000000a")));
    }
    async fn detach(&self, id: &FloatingIpId) {
        assert!(self.cloud.set_port(id, None));
    }
    async fn set_quota(&self, limit: Option<u32>) {
        self.cloud.set_quota(&self.project, limit);
    }
    async fn clean_up(&self) {}
}

#[tokio::test]
async fn concurrent_requests_exceed_the_quota_but_get_different_addresses() {
    let world = world().await;
    world.operator.set_quota(Some(3)).await;
    let new = new(&world.network, "contract");
    let results = join_all((0..8).map(|_| world.neutron.create_floating_ip(&new, &|| true))).await;
    let addresses: BTreeSet<_> = results.into_iter().map(|ip| ip.expect("the check was before").address).collect();
    assert_eq!(addresses.len(), 8);
    refused(world.neutron.create_floating_ip(&new, &|| true).await, ErrorKind::OverQuota);
}

#[tokio::test]
async fn the_same_calls_give_the_same_ids_and_addresses() {
    let create = async || {
        let world = world().await;
        let new = new(&world.network, "contract");
        join_all((0..4).map(|_| world.neutron.create_floating_ip(&new, &|| true))).await;
        world.neutron.list_floating_ips().await.expect("it lists")
    };
    assert_eq!(create().await, create().await);
}
