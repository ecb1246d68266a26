//! A scenario in two management clusters that share one OpenStack: a namespace of one name in each of them.

use std::panic::{AssertUnwindSafe, resume_unwind};

use futures::FutureExt;

use super::namespace::Namespace;
use super::verdict::await_lawful;
use super::world::World;

/// Runs a scenario in two namespaces of one name, in the first management cluster and in the second.
///
/// When the scenario has passed, the laws must hold for both together, and then each ends as
/// [`super::with_namespace`] says.
pub async fn with_two_clusters(scenario: impl AsyncFnOnce(&Namespace, &Namespace)) {
    let name = super::unique("t");
    let first = Namespace::create_in(World::new().await, name.clone()).await;
    let second = Namespace::create_in(World::second().await, name).await;
    let sides = [&first, &second];
    let judged = async {
        scenario(&first, &second).await;
        await_lawful(&sides).await;
    };
    let outcome = AssertUnwindSafe(judged).catch_unwind().await;
    let mut ended = Ok(());
    // What was made by hand in Neutron is made through the first, and goes last.
    for side in [&second, &first] {
        if outcome.is_err() {
            side.print_state().await;
        }
        ended = side.end(outcome.is_ok()).await.and(ended);
    }
    if let Err(panic) = outcome {
        resume_unwind(panic);
    }
    if let Err(reason) = ended {
        panic!("the scenario passed, but {reason}");
    }
}
