//! The pool that is edited. Its addresses are in every state for which an edit can matter: bound from the list, by reuse
//! and by creation, an orphan, one in its grace period; and there are floating IPs that it may get.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use caip_openstack::allocation::PoolId;
use caip_openstack::allocation::mark::Marks;
use caip_openstack::floating_ip::{FloatingIp, FloatingIpId, NetworkId, PortId, ProjectId, SubnetId};
use jiff::SignedDuration;
use k8s_openapi::ByteString;
use serde_json::{Value, json};

use crate::api::Kind;
use crate::api::objects::{Part, finalizers};
use crate::identities;
use crate::laws::{self, text};
use crate::users::key;
use crate::world::{NAMESPACE, Site, World};

pub const POOL: &str = "public";
/// The claims that have an address, in the order in which they got it: from the list, by reuse, by creation.
pub const BOUND: [&str; 3] = ["web-0", "web-1", "web-2"];
/// A claim that some edits reserve an address for.
pub const RESERVING: &str = "reserving";

pub const BOUND_FROM_LIST: &str = "203.0.113.10";
const BOUND_BY_REUSE: &str = "203.0.113.11";
/// A floating IP of the project that nobody uses.
pub const FREE: &str = "203.0.113.12";
/// Another one, with [`TAG`].
const TAGGED: &str = "203.0.113.13";
pub const ATTACHED: &str = "203.0.113.14";
/// No floating IP has it.
pub const MISSING: &str = "203.0.113.99";
pub const TAG: &str = "prod";

pub const OTHER_SECRET: &str = "cloud-2";
/// A cluster identity with the pool's own Secret.
pub const IDENTITY: &str = "shared";
/// Another entry of the same clouds.yaml, with the same credentials.
pub const OTHER_CLOUD: &str = "other";
pub const OTHER_SUBNET: &str = "more";
/// A ConfigMap of another owner.
pub const TAKEN: &str = "taken";

/// Longer ago than `minIdleSeconds` demands by default.
const LONG_AGO: SignedDuration = SignedDuration::from_hours(2);
const SOON: Duration = Duration::from_secs(120);

/// What else there is in Neutron.
#[derive(Clone)]
pub struct Ids {
    pub project: ProjectId,
    pub network: NetworkId,
    pub other_network: NetworkId,
    /// Not external.
    pub inner_network: NetworkId,
    pub other_subnet: SubnetId,
    pub subnet_elsewhere: SubnetId,
}

/// The spec before the first edit.
pub fn first_spec() -> Value {
    json!({
        "identityRef": {"name": "cloud", "cloudName": "openstack"},
        "preAllocatedFloatingIPs": [BOUND_FROM_LIST],
        "floatingIPNetwork": {"filter": {"name": "public"}},
        "reuse": {"minIdleSeconds": 60},
        "reuseGracePeriodSeconds": 86_400,
    })
}

pub struct Setting<'a> {
    pub world: &'a World,
    pub ids: Ids,
    /// What [`BOUND`] got.
    pub bound: BTreeMap<&'static str, (IpAddr, FloatingIpId)>,
}

impl<'a> Setting<'a> {
    /// None, and a violation, if the pool does not get that far.
    pub async fn prepare(world: &'a World) -> Option<Self> {
        world.skips_rest.set(true);
        world.users_interfered.set(true);
        let ids = add_networks(world);
        write_secrets(world);
        for address in [BOUND_FROM_LIST, BOUND_BY_REUSE] {
            create_long_ago(world, address);
        }
        let tagged = create_long_ago(world, TAGGED);
        change_long_ago(world, &tagged, |fip| _ = fip.tags.insert(TAG.into()));
        let attached = create_long_ago(world, ATTACHED);
        attach(world, &attached, Some("port-of-a-user"));
        // Until the claims have their addresses.
        let occupied = create_long_ago(world, FREE);
        attach(world, &occupied, Some("port-of-a-user"));
        let site = &world.sites[0];
        identities::allow(site, true);
        let theirs = json!({"metadata": {"name": TAKEN, "namespace": NAMESPACE}, "data": {"addresses": "theirs"}});
        let _ = site.server.create(Kind::ConfigMap, theirs);
        let pool = json!({"metadata": {"name": POOL, "namespace": NAMESPACE}, "spec": first_spec()});
        let _ = site.server.create(Kind::Pool, pool);
        let mut setting = Self { world, ids, bound: BTreeMap::new() };
        for claim in BOUND {
            let address = setting.bind(claim).await?;
            setting.bound.insert(claim, address);
        }
        setting.bind("orphan").await?;
        setting.bind("cooling").await?;
        site.delete(Kind::Claim, "cooling");
        for kind in [Kind::Claim, Kind::Address] {
            site.delete_by_force(kind, "orphan");
        }
        attach(world, &occupied, None);
        let is_reported = || setting.condition("OrphansDetected") == "True";
        let is_reported = world.wait_until(SOON, is_reported).await;
        world.expect(4, POOL, "reporting its orphan", is_reported);
        world.advance(Duration::from_secs(30)).await;
        is_reported.then_some(setting)
    }

    async fn bind(&self, claim: &str) -> Option<(IpAddr, FloatingIpId)> {
        let site = self.site();
        site.create_claim(claim, POOL);
        let is_bound = self.world.wait_until(SOON, || site.is_bound(claim)).await;
        self.world.expect(7, claim, "bound", is_bound);
        site.address_of(claim).filter(|_| is_bound)
    }

    pub fn site(&self) -> &'a Site {
        &self.world.sites[0]
    }

    pub fn pool(&self) -> Value {
        self.site().server.get(&key(Kind::Pool, POOL)).map(|pool| (*pool).clone()).unwrap_or_default()
    }

    pub fn pool_id(&self) -> PoolId {
        laws::pool_id(&self.pool()).unwrap()
    }

    /// The status of one of the pool's conditions.
    fn condition(&self, type_: &str) -> String {
        let pool = self.pool();
        let conditions = pool["status"]["conditions"].as_array().into_iter().flatten();
        let mut found = conditions.filter(|condition| condition["type"] == type_);
        found.next().map(|condition| text(condition, "/status").to_owned()).unwrap_or_default()
    }

    /// A user replaces the pool's spec.
    pub fn edit(&self, spec: &Value) {
        self.allow_what_it_has();
        let mut pool = self.pool();
        pool["spec"] = spec.clone();
        self.site().server.update(&key(Kind::Pool, POOL), Part::Main, pool).unwrap();
    }

    /// The pool is created with this spec, as `clusterctl move` creates one that has addresses: with its annotations and
    /// as the owner of its IPAddresses, but without a status. The controllers start anew, and so remember nothing.
    pub fn create_again(&self, spec: &Value) {
        self.allow_what_it_has();
        let (site, old) = (self.site(), self.pool());
        site.kill_controllers();
        site.delete_by_force(Kind::Pool, POOL);
        let metadata = json!({
            "name": POOL, "namespace": NAMESPACE, "annotations": old["metadata"]["annotations"],
            "finalizers": finalizers(&old),
        });
        let new = site.server.create(Kind::Pool, json!({"metadata": metadata, "spec": spec})).unwrap();
        for address in site.server.all(Kind::Address) {
            let mut owners = address["metadata"]["ownerReferences"].clone();
            for owner in owners.as_array_mut().into_iter().flatten().filter(|it| it["uid"] == old["metadata"]["uid"]) {
                owner["uid"] = new["metadata"]["uid"].clone();
            }
            let change = json!({"metadata": {"ownerReferences": owners}});
            site.change(Kind::Address, text(&address, "/metadata/name"), &change);
        }
    }

    /// A lower limit takes no address away.
    fn allow_what_it_has(&self) {
        let id = self.pool_id();
        let marked =
            self.world.cloud.floating_ips().iter().filter(|fip| Marks::read(fip).pools().contains(&id)).count();
        self.world.floors.borrow_mut().insert((self.site().server.id(), POOL.to_owned()), marked);
    }
}

fn add_networks(world: &World) -> Ids {
    let add = |network: &NetworkId, name: &str, subnet: [u8; 3]| {
        let address = |last: u8| IpAddr::from([subnet[0], subnet[1], subnet[2], last]);
        world.cloud.add_subnet(network, name, address(10)..=address(13))
    };
    let other_network = world.cloud.add_network(&world.project, "second", true);
    Ids {
        project: world.project.clone(),
        network: world.network.clone(),
        inner_network: world.cloud.add_network(&world.project, "inner", false),
        other_subnet: add(&world.network, OTHER_SUBNET, [198, 51, 100]),
        subnet_elsewhere: add(&other_network, "elsewhere", [192, 0, 2]),
        other_network,
    }
}

/// Two Secrets with the same clouds.yaml, in which two clouds have the same credentials.
fn write_secrets(world: &World) {
    let mut data = world.cloud.secret("ours");
    for ByteString(yaml) in data.values_mut() {
        let text = String::from_utf8(yaml.clone()).unwrap();
        let (_, cloud) = text.split_once("  openstack:").unwrap();
        *yaml = format!("{text}  {OTHER_CLOUD}:{cloud}").into_bytes();
    }
    let site = &world.sites[0];
    let data = serde_json::to_value(data).unwrap();
    site.change(Kind::Secret, "cloud", &json!({"data": data}));
    let metadata = json!({"name": OTHER_SECRET, "namespace": NAMESPACE});
    let _ = site.server.create(Kind::Secret, json!({"metadata": metadata, "data": data}));
}

fn create_long_ago(world: &World, address: &str) -> FloatingIpId {
    let address = address.parse().unwrap();
    let id = world.tamper(|world| world.cloud.create_at(&world.project, &world.network, address)).id;
    change_long_ago(world, &id, |_| {});
    id
}

/// A user attaches it, or detaches it.
fn attach(world: &World, id: &FloatingIpId, port: Option<&str>) {
    change_long_ago(world, id, |fip| fip.port = port.map(PortId::new));
}

fn change_long_ago(world: &World, id: &FloatingIpId, change: impl FnOnce(&mut FloatingIp)) {
    world.tamper(|world| {
        world.cloud.edit(id, change);
        world.cloud.set_last_change(id, world.clock.now() - LONG_AGO);
    });
}
