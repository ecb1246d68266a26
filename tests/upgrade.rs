//! Cluster API is upgraded while the controllers run. A binary of its own, since it changes the whole management cluster:
//! `hack/test.sh` starts one with an older Cluster API for it.

#![allow(clippy::restriction, reason = "a panic fails the test")]
#![warn(clippy::dbg_macro, clippy::todo, clippy::unwrap_used)]

#[allow(dead_code, unused_imports, reason = "a vocabulary: not every scenario uses every word")]
mod support;

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use caip_openstack::api::IpamVersion;
use support::{Kind, RECOVERY, World, claim, condition_of, controller, eventually, pool, with_namespace};

/// The controllers check the served versions every 30 s.
const UPGRADE_HANDLED: Duration = Duration::from_secs(90);

/// As `clusterctl upgrade` does: new CRDs, then the new core manager.
fn upgrade() {
    // Into a file: the manager that it starts would keep a pipe open.
    let log = Path::new(env!("CARGO_TARGET_TMPDIR")).join("upgrade.log");
    let file = File::create(&log).expect("a file can be made");
    let mut script = Command::new("hack/env/management.sh");
    script.env("CAIP_CLUSTER_API", "v1beta2").stdin(Stdio::null()).stdout(Stdio::null()).stderr(file);
    let status = script.status().expect("hack/env/management.sh runs");
    assert!(status.success(), "{}", std::fs::read_to_string(&log).unwrap_or_default());
}

#[tokio::test]
async fn claims_keep_their_addresses_when_cluster_api_is_upgraded() {
    with_namespace(async |ns| {
        assert_eq!(ns.world.version, IpamVersion::V1Beta1, "this needs an older Cluster API: run `make test`");
        ns.create_secret_for("demo").await;
        controller();
        ns.create(pool("public").network("public")).await;
        let mut before = Vec::new();
        for server in ["web-0", "web-1", "web-2"] {
            before.push((claim(server).name(), ns.bind(claim(server)).await));
        }
        tokio::task::spawn_blocking(upgrade).await.expect("it does not panic");
        let now = World::new().await;
        assert_eq!(now.version, IpamVersion::V1Beta2);
        eventually(UPGRADE_HANDLED, async || {
            let log = controller().log();
            let starts =
                log.lines().filter(|line| line.contains("starting the controllers") && line.contains("v1beta2"));
            if starts.count() > 0 { Ok(()) } else { Err("the controllers still work with v1beta1") }
        })
        .await;

        for (name, address) in &before {
            assert_eq!(ns.await_bound(name, RECOVERY).await, *address);
        }
        let new = claim("web-3").name();
        ns.bind(claim("web-3")).await;
        // The condition is where the new version has it.
        let claims = kube::Api::<kube::core::DynamicObject>::namespaced_with(
            now.client.clone(),
            &ns.name,
            &Kind::Claim.resource(now.version),
        );
        for name in before.iter().map(|(name, _)| name).chain([&new]) {
            eventually(RECOVERY, async || {
                let claim = claims.get(name).await.map_err(|error| error.to_string())?;
                let ready = condition_of(&claim, "Ready").cloned().unwrap_or_default();
                if ready["reason"] == "AddressAllocated" { Ok(()) } else { Err(format!("{name}: {ready}")) }
            })
            .await;
        }
        ns.release(&before[0].0).await;
        // A release waits for up to half a minute after the controllers have started again.
        ns.await_gone(Kind::Claim, &before[0].0, RECOVERY * 2).await;
        controller().assert_running();
    })
    .await;
}
