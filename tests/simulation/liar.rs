//! The Keystone and Neutron of a hostile tenant. They claim that a token is for another tenant's project, list that
//! tenant's floating IPs and marks, accept everything, fail in every way, and hang.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use caip_openstack::floating_ip::{FloatingIp, FloatingIpId, NetworkId, ProjectId};
use caip_openstack::openstack::credentials::Fingerprint;
use caip_openstack::openstack::session::REQUEST_TIMEOUT;
use caip_openstack::openstack::{
    Credentials, DeletionCheck, Error, ErrorKind, Filter, MaySend, Network, Neutron, NewFloatingIp, ProjectScope,
    Quota, Subnet,
};
use serde_json::{Value, json};

use crate::memory::{MemoryCloud, may_delete};
use crate::world::{ADDRESSES, address};

/// The credentials that lead to liars, and the seed of each.
#[derive(Clone, Default)]
pub struct Liars(Arc<Mutex<BTreeMap<Fingerprint, u64>>>);

impl Liars {
    /// The data of a Secret that leads to the liar with this seed.
    pub fn secret(&self, seed: u64) -> Value {
        let yaml = format!(
            "clouds:\n  openstack:\n    region_name: RegionOne\n    auth: {{auth_url: 'http://keystone.liar-{seed}/v3/', \
             username: u, password: p, project_name: u}}\n",
        );
        let data = BTreeMap::from([("clouds.yaml".to_owned(), k8s_openapi::ByteString(yaml.into_bytes()))]);
        let credentials = Credentials::from_secret(&data, "openstack", None).expect("it is valid");
        self.0.lock().unwrap().insert(credentials.fingerprint(), seed);
        json!(data)
    }

    /// A session, where the credentials lead to a liar.
    pub async fn connect(
        &self,
        credentials: &Credentials,
        victim: &MemoryCloud,
    ) -> Option<Result<Arc<dyn Neutron>, Error>> {
        let seed = self.0.lock().unwrap().get(&credentials.fingerprint()).copied()?;
        let random = Mutex::new(fastrand::Rng::with_seed(seed));
        let project = victim.floating_ips().first().map_or_else(|| ProjectId::new("p"), |fip| fip.project.clone());
        let scope = ProjectScope {
            keystone: credentials.keystone(),
            endpoint: "http://neutron.RegionOne.memory/v2.0/".into(),
            region: "RegionOne".into(),
            project,
        };
        let liar = Liar { scope, victim: victim.clone(), random };
        Some(liar.answer("connect", |_| ()).await.map(|()| Arc::new(liar) as Arc<dyn Neutron>))
    }
}

struct Liar {
    scope: ProjectScope,
    victim: MemoryCloud,
    random: Mutex<fastrand::Rng>,
}

impl Liar {
    async fn answer<T>(&self, operation: &'static str, lie: impl FnOnce(&mut fastrand::Rng) -> T) -> Result<T, Error> {
        let mut random = self.random.lock().unwrap().fork();
        match random.u8(0..40) {
            0..=3 => {
                tokio::time::sleep(REQUEST_TIMEOUT).await;
                Err(Error::new(ErrorKind::NoAnswer, operation, "the liar does not answer in time"))
            }
            4..=10 => Err(failure(&mut random, operation)),
            _ => {
                tokio::time::sleep(Duration::from_millis(random.u64(0..3000))).await;
                Ok(lie(&mut random))
            }
        }
    }

    fn floating_ip(&self, random: &mut fastrand::Rng) -> FloatingIp {
        let known = self.victim.floating_ips();
        match known.get(random.usize(0..=known.len())) {
            Some(fip) if random.bool() => {
                FloatingIp { tags: Default::default(), description: String::new(), ..fip.clone() }
            }
            Some(fip) => fip.clone(),
            None => FloatingIp {
                id: FloatingIpId::new(format!("{:032x}", random.u128(..))),
                address: address(random.u8(0..ADDRESSES)),
                network: known.first().map_or_else(|| NetworkId::new("n"), |fip| fip.network.clone()),
                project: self.scope.project.clone(),
                port: None,
                is_forwarded: false,
                description: known.first().map(|fip| fip.description.clone()).unwrap_or_default(),
                tags: known.first().map(|fip| fip.tags.clone()).unwrap_or_default(),
                dns_name: String::new(),
                changed_at: None,
                created_at: None,
            },
        }
    }
}

fn failure(random: &mut fastrand::Rng, operation: &'static str) -> Error {
    use ErrorKind::*;
    let kinds = [
        NotFound,
        BadNetwork,
        OverQuota,
        NoMoreAddresses,
        Conflict,
        Unauthorized,
        Forbidden,
        TooManyRequests,
        Rejected,
        Server,
        NoAnswer,
        Unreachable,
        SlowLookup,
        Untrusted,
        Malformed,
        Credentials,
        NoNetworkService,
        DescriptionDropped,
    ];
    // What the parser of answers makes of the header.
    let seconds = [None, Some(1), Some(300)][random.usize(0..3)];
    let mut error = Error::new(kinds[random.usize(0..kinds.len())], operation, "a lie");
    error.retry_after = seconds.map(Duration::from_secs);
    error
}

#[async_trait]
impl Neutron for Liar {
    fn scope(&self) -> &ProjectScope {
        &self.scope
    }

    fn is_current(&self) -> bool {
        true
    }

    async fn list_floating_ips(&self) -> Result<Vec<FloatingIp>, Error> {
        self.answer("list floating IPs", |random| {
            let count = [0, 1, 5, 40][random.usize(0..4)];
            let rows: BTreeMap<_, _> =
                (0..count).map(|_| self.floating_ip(random)).map(|fip| (fip.id.clone(), fip)).collect();
            rows.into_values().collect()
        })
        .await
    }

    async fn get_floating_ip(&self, _: &FloatingIpId) -> Result<FloatingIp, Error> {
        self.answer("read floating IP", |random| self.floating_ip(random)).await
    }

    async fn create_floating_ip(&self, new: &NewFloatingIp, _: &MaySend<'_>) -> Result<FloatingIp, Error> {
        let description = new.description.clone();
        self.answer("create floating IP", |random| FloatingIp { description, ..self.floating_ip(random) }).await
    }

    async fn describe_floating_ip(&self, _: &FloatingIpId, _: &str, _: &MaySend<'_>) -> Result<FloatingIp, Error> {
        self.answer("describe floating IP", |random| self.floating_ip(random)).await
    }

    async fn delete_floating_ip(&self, id: &FloatingIpId, check: &mut DeletionCheck<'_>) -> Result<bool, Error> {
        if !may_delete(self, id, check).await? {
            return Ok(false);
        }
        self.answer("delete floating IP", |_| true).await
    }

    async fn add_tag(&self, _: &FloatingIpId, _: &str, _: &MaySend<'_>) -> Result<(), Error> {
        self.answer("tag floating IP", |_| ()).await
    }

    async fn remove_tag(&self, _: &FloatingIpId, _: &str, _: &MaySend<'_>) -> Result<(), Error> {
        self.answer("untag floating IP", |_| ()).await
    }

    async fn find_networks(&self, _: &Filter) -> Result<Vec<Network>, Error> {
        let id = self.victim.floating_ips().first().map_or_else(|| NetworkId::new("n"), |fip| fip.network.clone());
        self.answer("find networks", |random| {
            (0..random.u8(0..4)).map(|_| Network { id: id.clone(), name: "public".into(), is_external: true }).collect()
        })
        .await
    }

    async fn find_subnets(&self, _: &Filter) -> Result<Vec<Subnet>, Error> {
        self.answer("find subnets", |_| Vec::new()).await
    }

    async fn has_tags(&self) -> Result<bool, Error> {
        self.answer("list extensions", fastrand::Rng::bool).await
    }

    async fn quota(&self) -> Result<Option<Quota>, Error> {
        self.answer("read quota", |random| Some(Quota { limit: Some(random.u32(..)), used: random.u32(..) })).await
    }
}
