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
//! | [`inspect`] | what the controllers see and would do, for tools that only look |
//! | [`registry`] | the pools that can serve, as the pool controller last resolved them |
//! | [`pool`] | credentials, network, identity, counters, conditions; the end of a pool |
//! | [`claim`] | one claim's life |
//! | [`sweeper`] | what was released, orphans, spares |

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::api::IpamVersion;
use crate::clock::Clock;
use crate::metrics::Metrics;
use crate::openstack::Clouds;
use crate::runtime::health::Readiness;

mod act;
mod claim;
mod context;
mod events;
mod explain;
pub mod inspect;
mod patch;
mod pool;
mod project;
mod queue;
mod registry;
mod sweeper;
mod watch;

use context::Context;

/// What the controllers work with.
#[derive(Clone)]
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
///
/// When Cluster API is upgraded meanwhile and serves another version of its kinds, they start anew with that.
pub async fn run(mut setup: Setup, shutdown: impl Future<Output = ()> + Send + 'static) -> Result<(), Error> {
    let ending = CancellationToken::new();
    let working = async {
        while !ending.is_cancelled() {
            setup.readiness.set("caches", false);
            tokio::select! {
                // In this order always, so that a simulation repeats.
                biased;
                version = watch::await_apis(&setup) => serve(setup.clone(), version, ending.child_token()).await?,
                () = ending.cancelled() => {}
            }
            // A call that was given up may still land, and whoever knew of it is gone.
            setup.options.fence = true;
        }
        Ok(())
    };
    tokio::pin!(working);
    tokio::select! {
        biased;
        result = &mut working => result,
        () = shutdown => {
            ending.cancel();
            working.await
        }
    }
}

/// Works with one version of Cluster API's kinds, until `stop` or until another is served, and until what was begun is
/// finished: the watches go on that long, since what is under way reads from them.
async fn serve(setup: Setup, version: IpamVersion, stop: CancellationToken) -> Result<(), Error> {
    let (wake, woken) = context::wakers();
    let (stores, watches) = watch::stores(version);
    let (events, announced) = events::events(setup.client.clone());
    let ctx = Arc::new(Context::new(setup, version, stores, wake, events));
    let working = async {
        tokio::select! {
            biased;
            () = ctx.stores.ready() => {}
            () = stop.cancelled() => return,
        }
        ctx.readiness.set("caches", true);
        tracing::info!(ipam.version = version.as_str(), "controllers start");
        let done = CancellationToken::new();
        let working = async {
            work(ctx.clone(), woken, stop.clone()).await;
            done.cancel();
        };
        tokio::join!(working, announced.write(done.cancelled()));
    };
    let outdated = async {
        let other = watch::another_version(&ctx.client, version).await;
        tracing::info!(ipam.version = other.as_str(), "Cluster API serves another version, controllers start anew");
        stop.cancel();
        std::future::pending().await
    };
    tokio::select! {
        biased;
        () = working => Ok(()),
        () = watches.drive(ctx.clone()) => Err(Error::WatchEnded),
        () = outdated => Ok(()),
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
