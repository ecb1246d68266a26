//! Puts the program together: flags, logs, the connection, servers, the lease, and then the controllers, until a signal.

use std::future::pending;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use caip_openstack::clock::Clock;
use caip_openstack::controllers::{self, Options, Setup};
use caip_openstack::openstack::session::Sessions;
use caip_openstack::runtime::diagnostics::{self, Tls};
use caip_openstack::runtime::flags::{Flags, Stop, VERSION};
use caip_openstack::runtime::health::{self, Readiness};
use caip_openstack::runtime::leader::{self, Leader, LeaseSettings};
use caip_openstack::runtime::listen::Wish;
use caip_openstack::runtime::metered::Metered;
use caip_openstack::runtime::metrics::{Metrics, Outcome};
use caip_openstack::runtime::{client, shutdown, telemetry};
use tokio::net::TcpListener;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

fn main() -> ExitCode {
    let flags = match Flags::read(std::env::args_os()) {
        Ok(flags) => flags,
        Err(Stop::Asked(text)) => {
            print!("{text}");
            return ExitCode::SUCCESS;
        }
        Err(Stop::Wrong(line)) => {
            eprintln!("caip-openstack: {line}");
            return ExitCode::from(2);
        }
    };
    let directives = std::env::var("RUST_LOG").ok();
    let telemetry = match telemetry::start(flags.logging_format, flags.verbosity, directives.as_deref()) {
        Ok(telemetry) => telemetry,
        Err(error) => {
            eprintln!("caip-openstack: failed to {}", telemetry::chain(&error));
            return ExitCode::from(2);
        }
    };
    let code = start(flags).unwrap_or_else(|error| {
        tracing::error!("failed to {}", telemetry::chain(error.as_ref()));
        ExitCode::FAILURE
    });
    telemetry.end();
    code
}

fn start(flags: Flags) -> anyhow::Result<ExitCode> {
    // Whoever asks for TLS without naming a provider gets this one. It can be set once, and this is once.
    let _ = rustls::crypto::ring::default_provider().install_default();
    // One thread: all waiting is asynchronous, the work between is short, and every hand-over to another thread would cost
    // more than what is handed over.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("start the runtime")?;
    let result = runtime.block_on(run(flags));
    // What is still under way must not keep a process that no longer leads.
    runtime.shutdown_background();
    result
}

async fn run(flags: Flags) -> anyhow::Result<ExitCode> {
    tracing::info!(version = VERSION.as_str(), "starting");
    let ending = CancellationToken::new();
    let second_signal = shutdown::on_signals(ending.clone()).context("handle signals")?;
    let health = Wish { flag: "--health-addr", given: flags.health_addr.clone(), default_port: 9440 }.open().await?;
    let diagnostics =
        Wish { flag: "--diagnostics-address", given: flags.diagnostics_address.clone(), default_port: 8443 };
    let diagnostics = diagnostics.open().await?;
    let metrics = Metrics::new();
    let readiness = Readiness::new();
    let connected = async {
        let client = tokio::select! {
            client = client::connect(flags.kubeconfig.as_deref()) => client?,
            () = ending.cancelled() => return Ok(ExitCode::SUCCESS),
        };
        let health = serve_health(health, client.clone(), readiness.clone());
        let diagnostics = serve_diagnostics(&flags, diagnostics, client.clone(), metrics.clone());
        tokio::select! {
            code = work(&flags, client, metrics, readiness, &ending) => code,
            result = health => result.context("serve --health-addr").map(|()| ExitCode::FAILURE),
            result = diagnostics => result.context("serve --diagnostics-address").map(|()| ExitCode::FAILURE),
        }
    };
    tokio::select! {
        code = connected => code,
        () = second_signal => Ok(ExitCode::FAILURE),
    }
}

async fn serve_health(listener: Option<TcpListener>, client: kube::Client, readiness: Readiness) -> anyhow::Result<()> {
    let Some(listener) = listener else { return pending().await };
    Ok(axum::serve(listener, health::router(client, readiness)).await?)
}

async fn serve_diagnostics(
    flags: &Flags,
    listener: Option<TcpListener>,
    client: kube::Client,
    metrics: Metrics,
) -> anyhow::Result<()> {
    let Some(listener) = listener else { return pending().await };
    if flags.insecure_diagnostics {
        return Ok(diagnostics::serve_plain(listener, metrics).await?);
    }
    let tls = Tls { least: flags.tls_min_version, suites: flags.tls_cipher_suites.clone() };
    Ok(diagnostics::serve_secure(listener, metrics, client, &tls)?.await?)
}

/// Leads and works until `ending` is asked for; the lease is given back only when nothing is under way any more.
async fn work(
    flags: &Flags,
    client: kube::Client,
    metrics: Metrics,
    readiness: Readiness,
    ending: &CancellationToken,
) -> anyhow::Result<ExitCode> {
    let clock = Clock::system();
    let leader = tokio::select! {
        leader = lead(flags, &client, &clock) => leader,
        () = ending.cancelled() => return Ok(ExitCode::SUCCESS),
    };
    metrics.leads(true);
    let options = Options {
        namespace: flags.watched_namespace(),
        watch_filter: flags.watched_label(),
        // Without a lease nobody knows whether there was a predecessor.
        claim_concurrency: flags.claim_concurrency(),
        pool_concurrency: flags.pool_concurrency(),
        fence: leader.as_ref().is_none_or(|leader| !leader.was_vacant()),
    };
    let heard = metrics.clone();
    let sessions = Sessions::new(clock.clone())
        .max_concurrent_calls(flags.openstack_concurrency.get())
        .on_authentication(move |error| heard.token_refreshed(Outcome::from(&error.map_or(Ok(()), Err))));
    let clouds = Arc::new(Metered::new(Arc::new(sessions), metrics.clone()));
    let setup = Setup { client, clouds, options, metrics, readiness, clock };
    let overrun = async {
        ending.cancelled().await;
        sleep(shutdown::CONTROLLERS_GRACE).await;
    };
    tokio::select! {
        result = controllers::run(setup, ending.clone().cancelled_owned()) => result?,
        how = lost(leader.as_ref()) => {
            tracing::error!("leadership lost, ending: {how}");
            return Ok(ExitCode::FAILURE);
        }
        () = overrun => bail!("finish within {:?} what was begun; the lease is left to run out", shutdown::CONTROLLERS_GRACE),
    }
    if let Some(leader) = leader {
        timeout(shutdown::RELEASE_GRACE, leader.release()).await.context("give the lease back in time")??;
    }
    tracing::info!("ended");
    Ok(ExitCode::SUCCESS)
}

async fn lead(flags: &Flags, client: &kube::Client, clock: &Clock) -> Option<Leader> {
    if !flags.leader_elect {
        return None;
    }
    let settings = LeaseSettings {
        namespace: flags.leader_election_namespace.clone().unwrap_or_else(|| leader::own_namespace(client)),
        name: flags.leader_election_id.clone(),
        identity: leader::identity(clock),
        duration: flags.leader_elect_lease_duration,
        renew_deadline: flags.leader_elect_renew_deadline,
        retry_period: flags.leader_elect_retry_period,
    };
    Some(Leader::acquire(client.clone(), settings, clock).await)
}

async fn lost(leader: Option<&Leader>) -> leader::Lost {
    match leader {
        Some(leader) => leader.lost().await,
        None => pending().await,
    }
}
