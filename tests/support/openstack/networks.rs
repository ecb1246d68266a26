//! Networks and ports that scenarios create.

use std::sync::atomic::{AtomicU8, Ordering};

use reqwest::Method;
use serde_json::json;

use super::Cloud;

/// An external network that only one scenario uses.
pub struct ExternalNetwork {
    pub name: String,
    range: String,
}

impl ExternalNetwork {
    pub fn cidr(&self) -> String {
        format!("{}.0/24", self.range)
    }

    /// One of its addresses; the first is 0.
    pub fn address(&self, which: usize) -> String {
        format!("{}.{}", self.range, which + 2)
    }
}

impl Cloud {
    /// The id of the network of this name.
    pub async fn network(&self, name: &str) -> String {
        let answer = self.must(Method::GET, &format!("networks?name={name}"), None).await;
        let id = answer["networks"][0]["id"].as_str();
        id.unwrap_or_else(|| panic!("Neutron has no network `{name}`")).to_owned()
    }

    /// A port on the network of this name; `private` is routed to `public`, so that floating IPs of `public` attach.
    pub async fn port(&self, network: &str) -> String {
        let network = self.network(network).await;
        let port =
            self.make("ports", json!({"port": {"network_id": network, "name": crate::support::unique("t")}})).await;
        port["id"].as_str().expect("a port has an id").to_owned()
    }

    /// Deletes a port, as Nova does with a VM; the floating IP stays.
    pub async fn delete_port(&self, id: &str) {
        self.must(Method::DELETE, &format!("ports/{id}"), None).await;
    }

    /// Creates an external network with `count` addresses. Only an administrator may. No router leads to it, so nothing
    /// can be attached.
    pub async fn external_network(&self, count: usize) -> ExternalNetwork {
        // Networks may have the same addresses, but a scenario has to know which one an address is from.
        static MADE: AtomicU8 = AtomicU8::new(0);
        let name = crate::support::unique("t");
        let range = format!("198.19.{}", MADE.fetch_add(1, Ordering::Relaxed));
        let body = self.make("networks", json!({"network": {"name": name, "router:external": true}})).await;
        let network = ExternalNetwork { name, range };
        self.make(
            "subnets",
            json!({"subnet": {
                "network_id": body["id"], "ip_version": 4, "cidr": network.cidr(), "enable_dhcp": false,
                "allocation_pools": [{"start": network.address(0), "end": network.address(count - 1)}]
            }}),
        )
        .await;
        network
    }
}
