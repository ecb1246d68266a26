//! What users do, and what Cluster API does for them: pools, claims, machines.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use caip_openstack::api::names::{CLUSTER_NAME_LABEL, FLOATING_IP_ID_ANNOTATION, GROUP, POOL_KIND};
use caip_openstack::floating_ip::FloatingIpId;
use serde_json::{Value, json};

use crate::api::deletion::Deletion;
use crate::api::objects::Part;
use crate::api::{Key, Kind};
use crate::laws::{condition, text};
use crate::process::{LEASE_NAME, LEASE_NAMESPACE, Process};
use crate::world::{NAMESPACE, Site, World, address};

/// The key of an object in the one namespace of a site.
pub fn key(kind: Kind, name: &str) -> Key {
    Key::new(kind, NAMESPACE, name)
}

/// A change that pauses an object; with null, one that resumes it.
pub fn pause(value: Value) -> Value {
    json!({"metadata": {"annotations": {"cluster.x-k8s.io/paused": value}}})
}

impl Site {
    /// Creates a pool whose spec names the credentials, has short times, and is overridden by `spec`.
    pub fn create_pool(&self, name: &str, spec: &Value) {
        let mut whole = json!({
            "identityRef": {"name": "cloud", "cloudName": "openstack"},
            "reclaimPolicy": "Delete",
            "reuse": {"policy": "Never", "minIdleSeconds": 60},
            "orphans": {"policy": "Release", "graceSeconds": 90},
        });
        for (field, value) in spec.as_object().into_iter().flatten() {
            whole[field] = value.clone();
        }
        let _ =
            self.server.create(Kind::Pool, json!({"metadata": {"name": name, "namespace": NAMESPACE}, "spec": whole}));
    }

    /// Creates a claim as Cluster API does for a machine of the Cluster.
    pub fn create_claim(&self, name: &str, pool: &str) {
        let _ = self.server.create(
            Kind::Claim,
            json!({
                "metadata": {"name": name, "namespace": NAMESPACE, "labels": {CLUSTER_NAME_LABEL: "c"}},
                "spec": {"poolRef": {"apiGroup": GROUP, "kind": POOL_KIND, "name": pool}},
            }),
        );
    }

    pub fn delete(&self, kind: Kind, name: &str) {
        let _ = self.server.delete(&key(kind, name), &Deletion::default());
    }

    /// Deletes an object as an impatient user does: without its finalizers, nothing waits for what they stand for.
    pub fn delete_by_force(&self, kind: Kind, name: &str) {
        self.change(kind, name, &json!({"metadata": {"finalizers": null}}));
        self.delete(kind, name);
    }

    /// The first controller dies, and another one is started.
    pub fn kill_controller(&self) {
        self.replicas[0].wire().iter().for_each(|wire| wire.kill());
    }

    /// All its controllers die, and are started again.
    pub fn kill_controllers(&self) {
        self.replicas.iter().filter_map(|replica| replica.wire()).for_each(|wire| wire.kill());
    }

    pub fn change(&self, kind: Kind, name: &str, change: &Value) {
        let _ = self.server.patch(&key(kind, name), Part::Main, change);
    }

    /// Whether the process has the Lease.
    pub fn is_leader(&self, process: &Process) -> bool {
        self.lease().is_some_and(|lease| text(&lease, "/spec/holderIdentity") == process.identity())
    }

    /// How often the Lease went from one holder to another.
    pub fn leader_changes(&self) -> i64 {
        self.lease().and_then(|lease| lease["spec"]["leaseTransitions"].as_i64()).unwrap_or_default()
    }

    fn lease(&self) -> Option<Arc<Value>> {
        self.server.get(&Key::new(Kind::Lease, LEASE_NAMESPACE, LEASE_NAME))
    }

    /// The address of a claim, as Cluster API reads it.
    pub fn address_of(&self, claim: &str) -> Option<(IpAddr, FloatingIpId)> {
        let object = self.server.get(&key(Kind::Address, claim))?;
        let id = text(&object, &format!("/metadata/annotations/{}", FLOATING_IP_ID_ANNOTATION.replace('/', "~1")));
        Some((text(&object, "/spec/address").parse().ok()?, FloatingIpId::new(id)))
    }

    /// Reason and message of an object's `Ready` condition.
    pub fn ready(&self, kind: Kind, namespace: &str, name: &str) -> (String, String) {
        let object = self.server.get(&Key::new(kind, namespace, name)).unwrap();
        let ready = condition(&object, "Ready").cloned().unwrap_or_default();
        (text(&ready, "/reason").to_owned(), text(&ready, "/message").to_owned())
    }

    /// Whether a claim's status says that it is ready, or why not.
    pub fn has_condition(&self, claim: &str) -> bool {
        let claim = self.server.get(&key(Kind::Claim, claim));
        claim.is_some_and(|claim| claim["status"]["conditions"].as_array().is_some_and(|all| !all.is_empty()))
    }

    /// Whether a claim's status has this in it.
    pub fn is_told(&self, claim: &str, part: &str) -> bool {
        self.server.get(&key(Kind::Claim, claim)).is_some_and(|claim| claim["status"].to_string().contains(part))
    }

    /// Whether a claim's status names its address.
    pub fn is_bound(&self, claim: &str) -> bool {
        let claim = self.server.get(&key(Kind::Claim, claim));
        claim.is_some_and(|claim| !text(&claim, "/status/addressRef/name").is_empty())
    }
}

impl World {
    /// Creates a pool with 200 spares, in the first management cluster.
    pub async fn create_large_pool(&self) {
        self.witness.rates().lift_limit();
        let large = |last: u8| IpAddr::from([198, 51, 100, last]);
        self.cloud.add_subnet(&self.network, "large", large(1)..=large(254));
        let network = json!({"filter": {"name": "public"}});
        self.sites[0].create_pool("public", &json!({"floatingIPNetwork": network, "minFree": 200}));
        let is_full = self.wait_until(Duration::from_secs(300), || self.cloud.floating_ips().len() >= 200).await;
        self.expect(7, "public", "full", is_full);
    }

    /// A user changes something in Neutron, and the witness records it.
    pub fn tamper<T>(&self, how: impl FnOnce(&Self) -> T) -> T {
        let result = how(self);
        self.witness.record_user_change();
        result
    }

    /// Creates the pool `public` in the first site, and a claim that is bound in it.
    pub async fn bind_in_new_pool(&self, claim: &str) {
        self.sites[0].create_pool("public", &json!({"floatingIPNetwork": {"filter": {"name": "public"}}}));
        self.sites[0].create_claim(claim, "public");
        self.await_bound(claim).await;
    }

    /// Creates the pool `public` in the first site. It lists one address, which a user of the project has created.
    pub fn create_listed(&self) -> FloatingIpId {
        let id = self.tamper(|world| world.cloud.create_at(&world.project, &world.network, address(0))).id;
        self.sites[0].create_pool("public", &json!({"preAllocatedFloatingIPs": [address(0)]}));
        id
    }

    /// A user of the project has a floating IP with this address, with a port.
    pub fn create_attached(&self, address: IpAddr) {
        let fip = self.tamper(|world| world.cloud.create_at(&world.project, &world.network, address));
        self.tamper(|world| world.cloud.set_port(&fip.id, Some("port-of-a-user")));
    }

    /// A user of the project deletes the floating IP with this address.
    pub fn delete_at(&self, address: IpAddr) {
        let fip = self.cloud.floating_ips().into_iter().find(|fip| fip.address == address);
        self.tamper(|world| world.cloud.delete(&fip.unwrap().id));
    }

    pub async fn await_bound(&self, claim: &str) -> Option<IpAddr> {
        let site = &self.sites[0];
        let is_bound = self.wait_until(Duration::from_secs(60), || site.is_bound(claim)).await;
        self.expect(7, claim, "bound", is_bound);
        site.address_of(claim).map(|(address, _)| address)
    }

    /// The first site has no object of the kind within two minutes.
    pub async fn expect_gone(&self, kind: Kind) {
        let is_gone = self.wait_until(Duration::from_secs(120), || self.sites[0].server.all(kind).is_empty()).await;
        self.expect(9, &format!("{kind:?}"), "gone", is_gone);
    }
}
