//! The world in memory.

use std::net::IpAddr;
use std::sync::Arc;

use async_trait::async_trait;
use caip_openstack::clock::Clock;
use caip_openstack::floating_ip::{FloatingIpId, NetworkId, ProjectId, SubnetId};
use caip_openstack::openstack::memory::MemoryCloud;
use caip_openstack::openstack::{Clouds, Neutron};

use super::World;

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
