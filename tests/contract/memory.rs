//! The world in memory.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use async_trait::async_trait;
use caip_openstack::clock::Clock;
use caip_openstack::floating_ip::{FloatingIpId, NetworkId, ProjectId, SubnetId};
use caip_openstack::openstack::{Clouds, ErrorKind, Neutron};
use futures::future::join_all;

use super::{World, new, refused};
use crate::memory::MemoryCloud;

pub(super) struct Memory {
    cloud: MemoryCloud,
    project: ProjectId,
    neutron: Arc<dyn Neutron>,
    stranger: Arc<dyn Neutron>,
    network: NetworkId,
    subnet: SubnetId,
    tiny: NetworkId,
    private: NetworkId,
}

pub(super) async fn world() -> Memory {
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
    let neutron = cloud.connect(&cloud.credentials("ours")).await.expect("it connects");
    let stranger = cloud.connect(&cloud.credentials("operators")).await.expect("it connects");
    Memory { cloud, project, neutron, stranger, network, subnet, tiny, private }
}

#[async_trait]
impl World for Memory {
    fn neutron(&self) -> &Arc<dyn Neutron> {
        &self.neutron
    }
    fn stranger(&self) -> &Arc<dyn Neutron> {
        &self.stranger
    }
    fn network(&self) -> &NetworkId {
        &self.network
    }
    fn subnet(&self) -> &SubnetId {
        &self.subnet
    }
    fn tiny(&self) -> &NetworkId {
        &self.tiny
    }
    fn private(&self) -> &NetworkId {
        &self.private
    }
    async fn attach(&self, id: &FloatingIpId) {
        assert!(self.cloud.set_port(id, Some("00000000-0000-4000-8000-00000000000a")));
    }
    async fn detach(&self, id: &FloatingIpId) {
        assert!(self.cloud.set_port(id, None));
    }
    async fn set_quota(&self, limit: Option<u32>) {
        self.cloud.set_quota(&self.project, limit);
    }
    async fn clean(&self) {}
}

#[tokio::test]
async fn concurrent_requests_exceed_the_quota_but_get_different_addresses() {
    let world = world().await;
    world.set_quota(Some(3)).await;
    let new = new(&world.network, "contract");
    let results = join_all((0..8).map(|_| world.neutron.create_floating_ip(&new))).await;
    let addresses: BTreeSet<_> = results.into_iter().map(|ip| ip.expect("the check was before").address).collect();
    assert_eq!(addresses.len(), 8);
    refused(world.neutron.create_floating_ip(&new).await, ErrorKind::OverQuota);
}

#[tokio::test]
async fn the_same_calls_give_the_same_ids_and_addresses() {
    let tell = async || {
        let world = world().await;
        let new = new(&world.network, "contract");
        join_all((0..4).map(|_| world.neutron.create_floating_ip(&new))).await;
        world.cloud.floating_ips()
    };
    assert_eq!(tell().await, tell().await);
}
