//! The API server's etcd is restored from a backup while the controllers run, with and without a bump of the revision. A
//! binary of its own, since it changes the whole management cluster: `hack/test.sh` runs it on one that is nobody else's.

#![allow(clippy::restriction, reason = "a panic fails the test")]
#![warn(clippy::dbg_macro, clippy::todo, clippy::unwrap_used)]

#[allow(dead_code, unused_imports, reason = "a vocabulary: not every scenario uses every word")]
mod support;

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::DynamicObject;
use serde_json::json;
use support::{
    FloatingIp, Kind, Namespace, PoolBuilder, RECOVERY, await_laws_hold, claim, eventually, leader_election_flags,
    pool, unique, with_namespace,
};
use tokio::sync::Mutex;

/// Within this time after the API server is back, new claims are served.
const SERVED_WITHIN: Duration = Duration::from_secs(60);
/// Within this time claims are released that were served at once: while Cluster API's webhook was starting, the creation of
/// an IPAddress was answered with a status 500, and such a creation may take effect for 60 s.
const RELEASED_WITHIN: Duration = Duration::from_secs(90);
/// For `etcdutl snapshot restore --bump-revision`, as etcd's documentation has it.
const BUMP: &str = "1000000000";

/// The scenarios restore the same API server.
static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

#[tokio::test]
async fn new_claims_are_served_and_marks_decide_after_a_restore_with_a_bumped_revision() {
    restore_under_running_controllers(&[BUMP]).await;
}

#[tokio::test]
async fn new_claims_are_served_and_marks_decide_after_a_restore_without_a_bumped_revision() {
    restore_under_running_controllers(&[]).await;
}

/// In one namespace a controller without a Lease outlives the restore, in the other one leader follows another.
async fn restore_under_running_controllers(bump: &[&str]) {
    let _others_wait = ONE_AT_A_TIME.lock().await;
    with_namespace(async |single| {
        with_namespace(async |replicated| {
            single.restart_controller();
            start_replica(replicated);
            start_replica(replicated);
            let sides = [Side::create(single).await, Side::create(replicated).await];
            let backup = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}.etcd", unique("backup")));
            etcd_backup("save", &backup, &[]).await;
            for side in &sides {
                side.change().await;
            }
            if bump.is_empty() {
                use_up_revisions(single).await;
            }
            etcd_backup("restore", &backup, bump).await;
            futures::future::join_all(sides.iter().map(Side::assert_served)).await;
        })
        .await;
    })
    .await;
}

/// So many that the restored API server does not reach the last of them while the scenario runs.
const REVISIONS: usize = 1500;

async fn use_up_revisions(ns: &Namespace) {
    let maps: Api<ConfigMap> = Api::namespaced(ns.world.client.clone(), &ns.name);
    let mut map = ConfigMap::default();
    map.metadata.name = Some("revisions".into());
    maps.create(&PostParams::default(), &map).await.expect("it can be created");
    let write = async |number: usize| {
        let change = json!({"data": {"number": number.to_string()}});
        maps.patch("revisions", &PatchParams::default(), &Patch::Merge(change)).await.expect("it can be changed");
    };
    futures::stream::iter(0..REVISIONS).map(write).buffer_unordered(16).collect::<()>().await;
}

/// As an operator does.
async fn etcd_backup(what: &'static str, backup: &Path, bump: &[&str]) {
    let log: PathBuf = backup.with_extension("log");
    // Into a file: the servers that it starts would keep a pipe open.
    let file = File::create(&log).expect("a file can be made");
    let mut script = Command::new("hack/env/etcd-backup.sh");
    script.arg(what).arg(backup).args(bump).stdin(Stdio::null()).stdout(Stdio::null()).stderr(file);
    let status = tokio::task::spawn_blocking(move || script.status()).await.expect("it does not panic");
    let output = || std::fs::read_to_string(&log).unwrap_or_default();
    assert!(status.expect("hack/env/etcd-backup.sh runs").success(), "{}", output());
}

fn start_replica(ns: &Namespace) {
    ns.start_controller(&ns.world.account, &leader_election_flags(&ns.name).each_ref().map(String::as_str));
}

/// A namespace with two pools. `kept`, `gone` and `lost` are claims of `public`. The pool `small` has one address, which the
/// claim `old` has and `next` waits for.
struct Side<'a> {
    ns: &'a Namespace,
    kept: FloatingIp,
    only: FloatingIp,
}

impl<'a> Side<'a> {
    async fn create(ns: &'a Namespace) -> Self {
        ns.create_secret_for("demo").await;
        let (listed, only) = (ns.create_floating_ip("public").await, ns.create_floating_ip("public").await);
        let create = async |pool: PoolBuilder| ns.create(pool.served_in(&ns.name)).await;
        create(pool("public").list([&listed.address]).network("public")).await;
        create(pool("small").list([&only.address])).await;
        let kept = ns.bind_within(claim("kept"), SERVED_WITHIN).await;
        ns.bind(claim("gone")).await;
        assert_eq!(ns.bind(claim("old").from("small")).await, only.address);
        ns.create(claim("next").from("small")).await;
        let next = claim("next").name();
        ns.await_condition(Kind::Claim, &next, "Ready", "False", "PoolExhausted", RECOVERY).await;
        let kept = ns.cloud().await.find(&kept).await.expect("a bound address is in Neutron");
        Self { ns, kept, only }
    }

    /// What the backup does not have: `old` and `gone` are released, `next` has the address of `old`, `lost` has one.
    async fn change(&self) {
        let (ns, cloud) = (self.ns, self.ns.cloud().await);
        let address = self.address_of("gone").await.expect("it is bound");
        for server in ["old", "gone"] {
            ns.release(&claim(server).name()).await;
            ns.await_gone(Kind::Claim, &claim(server).name(), RECOVERY).await;
        }
        eventually(RECOVERY, async || match cloud.find(&address).await {
            None => Ok(()),
            Some(found) => Err(format!("not deleted: {found:?}")),
        })
        .await;
        assert_eq!(ns.await_bound(&claim("next").name(), RECOVERY).await, self.only.address);
        cloud.attach(&self.only.id, &cloud.port("private").await).await;
        ns.bind(claim("lost")).await;
    }

    async fn assert_served(&self) {
        let (ns, cloud) = (self.ns, self.ns.cloud().await);
        let before: BTreeSet<String> = cloud.floating_ips().await.into_iter().map(|fip| fip.address).collect();
        let begin = Instant::now();
        let new = ns.bind_within(claim("new"), SERVED_WITHIN).await;
        eprintln!("{}: a new claim was served {} s after the restore", ns.name, begin.elapsed().as_secs());
        assert!(!before.contains(&new), "{new} belonged to another claim");

        // The mark decides, and the loser is told.
        let told = self.await_failed("old").await;
        assert!(told.contains("is marked for another claim"), "{told}");
        let told = self.await_failed("gone").await;
        assert!(told.contains("no longer exists in the project"), "{told}");
        assert_eq!(cloud.get(&self.kept.id).await.as_ref(), Some(&self.kept), "a living address is not touched");
        let only = cloud.get(&self.only.id).await.expect("an address with a port is not deleted");
        assert!(only.port.is_some() && !only.tags.iter().any(|tag| tag.starts_with("caip-out.")), "{only:?}");

        // As the condition says; the claim that the mark names has the address again.
        ns.delete(Kind::Address, &claim("old").name()).await;
        assert_eq!(ns.await_bound(&claim("next").name(), SERVED_WITHIN).await, self.only.address);
        ns.release(&claim("gone").name()).await;
        // The machine of a lost claim is created again.
        let again = ns.bind_within(claim("lost"), SERVED_WITHIN).await;
        assert!(before.contains(&again) && again != self.kept.address, "{again} is not the address that it had");
        self.assert_no_address_is_given_twice().await;
        await_laws_hold(&[ns]).await;
        cloud.detach(&self.only.id).await;
        for server in ["new", "next", "lost"] {
            ns.release(&claim(server).name()).await;
            ns.await_gone(Kind::Claim, &claim(server).name(), RELEASED_WITHIN).await;
        }
    }

    async fn await_failed(&self, server: &str) -> String {
        let name = claim(server).name();
        self.ns.await_condition(Kind::Claim, &name, "Ready", "False", "AllocationFailed", SERVED_WITHIN).await
    }

    async fn address_of(&self, server: &str) -> Option<String> {
        address(&self.ns.get(Kind::Address, &claim(server).name()).await?)
    }

    async fn assert_no_address_is_given_twice(&self) {
        let all: Vec<_> = self.ns.list(Kind::Address).await.iter().filter_map(address).collect();
        let distinct: BTreeSet<_> = all.iter().collect();
        assert_eq!(distinct.len(), all.len(), "{all:?}");
    }
}

fn address(object: &DynamicObject) -> Option<String> {
    object.data["spec"]["address"].as_str().map(str::to_owned)
}
