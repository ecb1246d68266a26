//! The frame of a scenario: it runs, the laws must hold, and nothing of it may be left.

use std::any::Any;
use std::panic::{AssertUnwindSafe, resume_unwind};

use futures::FutureExt;
use futures::future::LocalBoxFuture;

use super::laws_hold::await_laws_hold;
use super::namespace::Namespace;
use super::openstack::{Cloud, ExternalNetwork};
use super::world::World;

/// Runs a scenario in a namespace of its own.
///
/// When the scenario has passed, the laws must hold; then its claims and its pools are deleted and must be gone within
/// 30 s, and nothing in Neutron may carry a mark of its pools: every scenario shows that nothing leaks. When it has
/// panicked, its objects are printed, and everything is removed by force.
pub async fn with_namespace(scenario: impl AsyncFnOnce(&Namespace)) {
    let ns = Namespace::create_in(World::new().await, super::unique("t")).await;
    run_and_clean_up(&[&ns], scenario(&ns).boxed_local()).await;
}

/// The same in two namespaces with one name, in the first and in the second management cluster, which share one
/// OpenStack. The laws must hold for both together.
pub async fn with_two_clusters(scenario: impl AsyncFnOnce(&Namespace, &Namespace)) {
    let name = super::unique("t");
    let first = Namespace::create_in(World::new().await, name.clone()).await;
    let second = Namespace::create_in(World::second().await, name).await;
    run_and_clean_up(&[&first, &second], scenario(&first, &second).boxed_local()).await;
}

/// Runs a scenario with an external network of its own, which has that many addresses.
pub async fn with_external_network(addresses: usize, scenario: impl AsyncFnOnce(&Namespace, &ExternalNetwork)) {
    let admin = Cloud::named("admin").await;
    let network = admin.external_network(addresses).await;
    let judged = with_namespace(async |ns| scenario(ns, &network).await);
    let outcome = AssertUnwindSafe(judged).catch_unwind().await;
    admin.clean_up().await;
    if let Err(panic) = outcome {
        resume_unwind(panic);
    }
}

/// The scenario is on the heap: by value, scenarios within scenarios overflow the stack of a test.
async fn run_and_clean_up(sides: &[&Namespace], scenario: LocalBoxFuture<'_, ()>) {
    let judged = async {
        scenario.await;
        await_laws_hold(sides).await;
    };
    let outcome = AssertUnwindSafe(judged).catch_unwind().await;
    let mut cleaned_up = Ok(());
    // What the scenario created in Neutron was created through the first side, and is removed last.
    for side in sides.iter().rev() {
        if outcome.is_err() {
            side.print_state().await;
        }
        cleaned_up = side.clean_up(outcome.is_ok()).await.and(cleaned_up);
    }
    if let Err(panic) = outcome {
        // What is printed above may be long.
        eprintln!("failed: {}", text_of_panic(&*panic));
        resume_unwind(panic);
    }
    if let Err(reason) = cleaned_up {
        panic!("the scenario passed, but {reason}");
    }
}

/// What a caught panic said.
pub fn text_of_panic(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
}
