//! Objects of the largest size that Kubernetes allows do not fill the controller's memory.

use super::*;
use crate::support::{pool, with_namespace};
use crate::usage;

/// More than a page, and together more than the controller may have.
const OBJECTS: usize = 60;
/// Kubernetes allows as much for the annotations of an object, in bytes.
const ANNOTATIONS: usize = 256 << 10;
/// How much more memory they may take, in MiB. A page of fifty is 12.5 MiB, and that several times.
const MORE: f64 = 16.0;

fn large_claim(number: usize) -> Manifest {
    let mut large: Manifest = claim(&format!("large-{number}")).from("nobodys").into();
    large.body["metadata"]["annotations"] = json!({"large": "x".repeat(ANNOTATIONS - 64)});
    large
}

/// Starts another controller, binds a claim, and returns the most memory that it had by then, in MiB.
async fn peak_of_new_controller(ns: &Namespace, server: &str) -> f64 {
    ns.kill_controllers();
    let controller = ns.start_controller(&ns.world.account, &[]);
    // On a busy machine reading the large objects takes a while.
    ns.bind_within(claim(server), RECOVERY * 2).await;
    usage::memory(controller.pid()).peak
}

#[tokio::test]
async fn controller_that_starts_beside_large_objects_serves_and_takes_little_more_memory() {
    with_namespace(async |ns| {
        ns.create_secret_for("demo").await;
        ns.restart_controller();
        create_ready_pool(ns, pool("public").network("public").served_in(&ns.name)).await;
        ns.bind(claim("web-0")).await;
        let usual = peak_of_new_controller(ns, "web-1").await;
        ns.kill_controllers();
        join_all((0..OBJECTS).map(|number| ns.create(large_claim(number)))).await;
        let peak = peak_of_new_controller(ns, "web-2").await;
        eprintln!("with {OBJECTS} large claims: {peak:.1} MiB at most, {usual:.1} MiB without");
        assert!(peak < usual + MORE, "{peak:.1} MiB, and {usual:.1} MiB without large objects");
    })
    .await;
}
