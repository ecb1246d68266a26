//! The namespace of a run with its proxies and its controllers, and what the workloads do there.

use std::time::Duration;

use caip_openstack::allocation::mark::claim_in_description;
use kube::api::ListParams;
use kube::core::DynamicObject;
use serde_json::Value;

use super::kubernetes_proxy::KubernetesProxy;
use super::recorder::{Recorder, Reply};
use super::request::short_name;
use crate::support::{
    FloatingIp, Kind, Manifest, Namespace, NeutronWrite, OpenStackProxy, PoolBuilder, claim, eventually,
};

/// For each step of a workload: longer than every perturbation and the time of recovery after it.
pub const PATIENCE: Duration = Duration::from_secs(150);
/// Pools, claims, IPAddresses, Clusters, Secrets.
const WATCHED_KINDS: usize = 5;

pub struct Scene<'a> {
    /// The namespace, and for a move the one in the other management cluster.
    pub sides: &'a [&'a Namespace],
    recorder: Recorder,
    neutron: OpenStackProxy,
    proxies: Vec<KubernetesProxy>,
}

impl<'a> Scene<'a> {
    /// Starts the controllers, and waits until they watch. The Secret `cloud` is there.
    pub async fn start(sides: &'a [&'a Namespace], recorder: &Recorder) -> Self {
        let neutron = OpenStackProxy::to_cloud("demo").await;
        observe(&neutron, recorder);
        let mut scene = Self { sides, recorder: recorder.clone(), neutron, proxies: Vec::new() };
        scene.ns().apply_secret("cloud", &scene.neutron.clouds_yaml()).await;
        for (side, ns) in sides.iter().enumerate() {
            scene.proxies.push(KubernetesProxy::start(ns, side, recorder).await);
            scene.start_controller(side);
        }
        eventually(PATIENCE, async || match recorder.watched() {
            count if count == WATCHED_KINDS * sides.len() => Ok(()),
            count => Err(format!("{count} kinds are watched")),
        })
        .await;
        scene
    }

    /// They end when they are dropped.
    pub fn into_proxies(self) -> Vec<KubernetesProxy> {
        self.proxies
    }

    pub fn ns(&self) -> &'a Namespace {
        self.sides.first().expect("a run has a namespace")
    }

    /// The namespace in the other management cluster.
    pub fn target(&self) -> &'a Namespace {
        self.sides.get(1).expect("the workload is between two management clusters")
    }

    fn start_controller(&self, side: usize) {
        let controller = self.sides[side].start_controller(self.proxies[side].kubeconfig(), &[]);
        self.recorder.set_controller(side, controller);
    }

    /// Starts another controller after each crash, for as long as the run lasts.
    pub async fn restart_after_crashes(&self) {
        loop {
            for side in self.recorder.crash().await {
                self.start_controller(side);
            }
        }
    }

    /// The workload begins.
    pub async fn begin(&self) {
        let mut revisions = Vec::new();
        for ns in self.sides {
            let listed = ns.api(Kind::Pool).list(&ListParams::default().limit(1)).await.expect("pools can be listed");
            let revision = listed.metadata.resource_version.and_then(|revision| revision.parse().ok());
            revisions.push(revision.expect("the version of a list is a number"));
        }
        self.recorder.begin(revisions);
    }

    pub async fn create_pool(&self, pool: PoolBuilder) {
        self.ns().create(pool.served_in(&self.ns().name)).await;
    }

    pub async fn bind(&self, server: &str) -> String {
        self.ns().bind_within(claim(server), PATIENCE).await
    }

    pub async fn await_bound(&self, server: &str) -> String {
        self.ns().await_bound(&claim(server).name(), PATIENCE).await
    }

    /// Creates a claim, and waits until it is not ready for this reason.
    pub async fn create_waiting(&self, server: &str, reason: &str) {
        self.ns().create(claim(server)).await;
        let name = claim(server).name();
        self.ns().await_condition(Kind::Claim, &name, "Ready", "False", reason, PATIENCE).await;
    }

    /// Releases a claim as CAPO does, and waits until it is gone.
    pub async fn release(&self, server: &str) {
        self.ns().release(&claim(server).name()).await;
        self.await_released(server).await;
    }

    pub async fn await_released(&self, server: &str) {
        for kind in [Kind::Claim, Kind::Address] {
            self.ns().await_gone(kind, &claim(server).name(), PATIENCE).await;
        }
    }

    /// A floating IP of the user's, which a pool may list.
    pub async fn create_floating_ip(&self, name: &str) -> FloatingIp {
        let made = self.ns().create_floating_ip("public").await;
        self.recorder.name_floating_ip(&made.id, name);
        made
    }

    /// Waits until the floating IP with this address is as wanted.
    pub async fn await_floating_ip(&self, address: &str, is_wanted: impl Fn(Option<&FloatingIp>) -> bool) {
        let cloud = self.ns().cloud().await;
        eventually(PATIENCE, async || match cloud.find(address).await {
            found if is_wanted(found.as_ref()) => Ok(()),
            found => Err(format!("{address} is {found:?}")),
        })
        .await;
    }

    pub async fn await_counts(&self, allocated: u64, free: u64) {
        let is_so = |pool: Option<&DynamicObject>| {
            let count = |which: &str| pool.and_then(|pool| pool.data["status"]["addresses"][which].as_u64());
            (count("allocated").unwrap_or_default(), count("free").unwrap_or_default()) == (allocated, free)
        };
        let what = format!("at {allocated} allocated and {free} free");
        self.ns().await_object(Kind::Pool, "public", PATIENCE, &what, is_so).await;
    }

    pub async fn create(&self, manifest: impl Into<Manifest>) -> DynamicObject {
        self.ns().create(manifest).await
    }
}

/// Writes to Neutron are part of the trace.
fn observe(neutron: &OpenStackProxy, recorder: &Recorder) {
    let recorder = recorder.clone();
    neutron.observe_writes(move |write| {
        let call = call(write, &recorder);
        let is_effective = (200..300).contains(&write.status);
        recorder.write(None, call, is_effective, None) == Reply::Delivered
    });
}

/// The call as the trace names it: a floating IP has the name of the claim that it was created for.
fn call(write: &NeutronWrite<'_>, recorder: &Recorder) -> String {
    let parts: Vec<&str> = write.path.trim_start_matches("/v2.0/").split('/').collect();
    let method = write.method;
    match parts.as_slice() {
        [kind] => {
            let name = created_for(write.body);
            let answer: Value = serde_json::from_str(write.answer).unwrap_or_default();
            if let Some(id) = answer["floatingip"]["id"].as_str() {
                recorder.name_floating_ip(id, &name);
            }
            format!("{method} {kind}/{name}")
        }
        [kind, id] => format!("{method} {kind}/{}", recorder.floating_ip(id)),
        [kind, id, rest @ ..] => {
            let tag = rest.last().and_then(|tag| tag.split('.').next()).unwrap_or_default();
            format!("{method} {kind}/{}/{tag}", recorder.floating_ip(id))
        }
        [] => method.to_string(),
    }
}

/// The claim that the description of a new floating IP names.
fn created_for(body: &[u8]) -> String {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let description = body["floatingip"]["description"].as_str().unwrap_or_default();
    claim_in_description(description).map_or_else(|| "spare".to_owned(), |(_, name)| short_name(name))
}
