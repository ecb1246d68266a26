//! Pool, claim and sweeper: read, decide, act, report.
//!
//! | file | what it does |
//! |---|---|
//! | [`watch`] | keeps what Kubernetes has in stores, and tells who must look |
//! | [`context`](self) | what all three share |
//! | [`events`] | what users are told beside the conditions |
//! | [`project`] | one project's ledger, and the one listing at a time that keeps it true |
//! | [`queue`] | who is looked at next |
//! | [`explain`] | what OpenStack said, with what to do about it |
//! | [`registry`] | the pools that can serve, as the pool controller last resolved them |
//! | [`pool`] | credentials, network, identity, counters, conditions; the end of a pool |
//! | [`claim`] | one claim's life |
//! | [`sweeper`] | what was released, orphans, spares |

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::openstack::Clouds;
use crate::runtime::health::Readiness;
use crate::runtime::metrics::Metrics;

mod act;
mod claim;
mod context;
mod events;
mod explain;
mod patch;
mod pool;
mod project;
mod queue;
mod registry;
mod sweeper;
mod watch;

use context::Context;

/// What the controllers work with.
pub struct Setup {
    /// The management cluster.
    pub client: kube::Client,
    /// Where sessions come from.
    pub clouds: Arc<dyn Clouds>,
    /// What the command line chose.
    pub options: Options,
    /// Where things are counted.
    pub metrics: Metrics,
    /// Where the controllers report that they are well.
    pub readiness: Readiness,
    /// Time and chance.
    pub clock: Clock,
}

/// What the command line chose.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// The namespace to watch; all of them when there is none.
    pub namespace: Option<String>,
    /// The watch filter's value, when there is one.
    pub watch_filter: Option<String>,
    /// How many claims are worked on side by side; 0 for no limit.
    pub claim_concurrency: usize,
    /// How many pools are worked on side by side; 0 for no limit.
    pub pool_concurrency: usize,
    /// Whether a predecessor may still have calls under way.
    pub fence: bool,
}

/// Why the controllers ended by themselves.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A watch ended, which it never does by itself.
    #[error("keep a watch going")]
    WatchEnded,
}

/// Runs all controllers until `shutdown` resolves and what was begun is finished.
pub async fn run(setup: Setup, shutdown: impl Future<Output = ()> + Send + 'static) -> Result<(), Error> {
    let stop = CancellationToken::new();
    let ending = stop.clone();
    let shutdown = async move {
        shutdown.await;
        ending.cancel();
    };
    tokio::pin!(shutdown);
    setup.readiness.set("caches", false);
    let version = tokio::select! {
        biased;
        version = watch::await_apis(&setup.client) => version,
        () = &mut shutdown => return Ok(()),
    };
    let (wake, woken) = context::wakers();
    let (stores, watches) = watch::stores(version);
    let (events, announced) = events::events(setup.client.clone());
    let ctx = Arc::new(Context::new(setup, version, stores, wake, events));
    let watching = watches.drive(ctx.clone());
    tokio::pin!(watching);
    let working = async {
        ctx.stores.ready().await;
        ctx.readiness.set("caches", true);
        tracing::info!(ipam.version = version.as_str(), "controllers start");
        let done = CancellationToken::new();
        let working = async {
            work(ctx.clone(), woken, stop.clone()).await;
            done.cancel();
        };
        tokio::join!(working, announced.write(done.cancelled()));
    };
    tokio::pin!(working);
    tokio::select! {
        // In this order always, so that a simulation repeats.
        biased;
        () = &mut working => Ok(()),
        () = &mut watching => Err(Error::WatchEnded),
        // From here on nothing new is begun; the watches go on, since what is under way reads from them.
        () = &mut shutdown => tokio::select! {
            biased;
            () = working => Ok(()),
            () = watching => Err(Error::WatchEnded),
        },
    }
}

/// The three controllers side by side, until `stop` and until what was begun is finished.
async fn work(ctx: Arc<Context>, woken: context::Woken, stop: CancellationToken) {
    let pools = queue::run(
        ctx.stores.pools.clone(),
        woken.pools,
        ctx.options.pool_concurrency,
        stop.clone(),
        async |pool| pool::reconcile(pool, ctx.clone()).await,
        |pool, error| pool::on_error(pool, error, ctx.clone()),
    );
    let sweeper = queue::run(
        ctx.stores.pools.clone(),
        woken.sweeps,
        ctx.options.pool_concurrency,
        stop.clone(),
        async |pool| sweeper::reconcile(pool, ctx.clone()).await,
        |pool, error| sweeper::on_error(pool, error, ctx.clone()),
    );
    let claims = queue::run(
        ctx.stores.claims.clone(),
        woken.claims,
        ctx.options.claim_concurrency,
        stop.clone(),
        async |claim| claim::reconcile(claim, ctx.clone()).await,
        |claim, error| claim::on_error(claim, error, ctx.clone()),
    );
    tokio::join!(pools, sweeper, claims);
}
