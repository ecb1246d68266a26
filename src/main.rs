//! Assembles the program: flags, logs, the API server connection, HTTP servers, leader election, and then the controllers
//! until a signal.

use std::future::pending;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use caip_openstack::clock::Clock;
use caip_openstack::controllers::{self, Options, RecordCount, Setup};
use caip_openstack::metrics::{MeteredClouds, Metrics, OperationResult};
use caip_openstack::openstack::AllowedHosts;
use caip_openstack::openstack::session::Sessions;
use caip_openstack::runtime::client::{self, Clients, SentRequest};
use caip_openstack::runtime::diagnostics::{self, TlsOptions};
use caip_openstack::runtime::flags::{EarlyExit, Flags, VERSION};
use caip_openstack::runtime::health::{self, Readiness};
use caip_openstack::runtime::leader::{self, Leader, LeaseSettings};
use caip_openstack::runtime::listen::{BoundedListener, ListenAddress};
use caip_openstack::runtime::{shutdown, telemetry};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

fn main() -> ExitCode {
    let flags = match Flags::read(std::env::args_os()) {
        Ok(flags) => flags,
        Err(EarlyExit::Info(text)) => {
            print!("{text}");
            return ExitCode::SUCCESS;
        }
        Err(EarlyExit::Usage(line)) => {
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
    let code = block_on_serve(flags).unwrap_or_else(|error| {
        tracing::error!("failed to {}", telemetry::chain(error.as_ref()));
        ExitCode::FAILURE
    });
    telemetry.end();
    code
}

fn block_on_serve(flags: Flags) -> anyhow::Result<ExitCode> {
    // The default for TLS clients that choose no provider. It fails only if one is installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    // One thread: all waiting is asynchronous and the work in between is short, so handing it to another thread would
    // cost more than doing it.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("start the runtime")?;
    let result = runtime.block_on(serve(flags));
    // Unfinished tasks must not keep a process alive that no longer leads.
    runtime.shutdown_background();
    result
}

async fn serve(flags: Flags) -> anyhow::Result<ExitCode> {
    tracing::info!(version = VERSION.as_str(), "starting");
    let stop = CancellationToken::new();
    let second_signal = shutdown::on_signals(stop.clone()).context("handle signals")?;
    let health = ListenAddress { flag: "--health-addr", given: flags.health_addr.clone(), default_port: 9440 };
    let health = health.open().await?;
    let given = flags.diagnostics_address.clone();
    let diagnostics = ListenAddress { flag: "--diagnostics-address", given, default_port: 8443 }.open().await?;
    let metrics = Metrics::new();
    let readiness = Readiness::new();
    let request_metrics = metrics.clone();
    let observer = Arc::new(move |sent: SentRequest<'_>| {
        request_metrics.api_request(sent.host, sent.method, sent.status, sent.duration);
    });
    let connected = async {
        let clients = tokio::select! {
            clients = client::connect(flags.kubeconfig.as_deref(), observer) => clients?,
            () = stop.cancelled() => return Ok(ExitCode::SUCCESS),
        };
        let health = serve_health(health, clients.control.clone(), readiness.clone());
        let diagnostics = serve_diagnostics(&flags, diagnostics, clients.control.clone(), metrics.clone());
        tokio::select! {
            code = lead_and_reconcile(&flags, clients, metrics, readiness, &stop) => code,
            result = health => result.context("serve --health-addr").map(|()| ExitCode::FAILURE),
            result = diagnostics => result.context("serve --diagnostics-address").map(|()| ExitCode::FAILURE),
        }
    };
    tokio::select! {
        code = connected => code,
        () = second_signal => Ok(ExitCode::FAILURE),
    }
}

async fn serve_health(
    listener: Option<BoundedListener>,
    client: kube::Client,
    readiness: Readiness,
) -> anyhow::Result<()> {
    let Some(listener) = listener else { return pending().await };
    Ok(axum::serve(listener, health::router(client, readiness)).await?)
}

async fn serve_diagnostics(
    flags: &Flags,
    listener: Option<BoundedListener>,
    client: kube::Client,
    metrics: Metrics,
) -> anyhow::Result<()> {
    let Some(listener) = listener else { return pending().await };
    let metrics = Arc::new(move || metrics.to_text());
    if flags.insecure_diagnostics {
        return Ok(diagnostics::serve_plain(listener, metrics).await?);
    }
    let tls = TlsOptions { min_version: flags.tls_min_version, cipher_suites: flags.tls_cipher_suites.clone() };
    Ok(diagnostics::serve_secure(listener, metrics, client, &tls)?.await?)
}

/// Acquires the Lease and reconciles until `stop`. Gives the Lease back only when no work is in progress any more, and no
/// call may still take effect.
async fn lead_and_reconcile(
    flags: &Flags,
    clients: Clients,
    metrics: Metrics,
    readiness: Readiness,
    stop: &CancellationToken,
) -> anyhow::Result<ExitCode> {
    let clock = Clock::system();
    let leader = tokio::select! {
        leader = acquire_lease(flags, &clients.control, &clock) => leader,
        () = stop.cancelled() => return Ok(ExitCode::SUCCESS),
    };
    metrics.leads(true);
    let hosts = AllowedHosts::new(flags.openstack_hosts.0.clone(), clients.addresses);
    let clouds = metered_clouds(flags, hosts, &clock, &metrics);
    let options = options(flags, leader.as_ref());
    let setup =
        Setup { client: clients.work, clouds, options, metrics, readiness, clock, records: RecordCount::default() };
    let grace_exceeded = async {
        stop.cancelled().await;
        sleep(shutdown::CONTROLLERS_GRACE).await;
    };
    let work = async {
        tokio::select! {
            result = controllers::run(setup, stop.clone().cancelled_owned()) => Ok(result?),
            () = grace_exceeded => bail!("finish the work in progress within {:?}; the Lease is left to expire", shutdown::CONTROLLERS_GRACE),
        }
    };
    let ended = match leader::while_leading(leader.as_ref(), work).await {
        Ok(ended) => ended?,
        Err(reason) => {
            tracing::error!("leadership lost, exiting: {reason}");
            return Ok(ExitCode::FAILURE);
        }
    };
    if let Some(leader) = leader {
        timeout(shutdown::RELEASE_GRACE, ended.give_back(leader)).await.context("give the Lease back in time")??;
    }
    tracing::info!("ended");
    Ok(ExitCode::SUCCESS)
}

fn metered_clouds(flags: &Flags, hosts: AllowedHosts, clock: &Clock, metrics: &Metrics) -> Arc<MeteredClouds> {
    let token_metrics = metrics.clone();
    let sessions = Sessions::new(clock.clone())
        .max_concurrent_calls(flags.openstack_concurrency.get())
        .max_floating_ips(flags.max_floating_ips.get())
        .allowed_hosts(hosts)
        .proxy(flags.openstack_proxy.0.clone().map(|proxy| proxy.except(&flags.openstack_no_proxy.0)))
        .on_authentication(move |cloud, error| {
            token_metrics.token_refreshed(cloud, OperationResult::from(&error.map_or(Ok(()), Err)));
        });
    Arc::new(MeteredClouds::new(Arc::new(sessions), metrics.clone()))
}

fn options(flags: &Flags, leader: Option<&Leader>) -> Options {
    Options {
        namespace: flags.watched_namespace(),
        watch_filter: flags.watched_label(),
        claim_concurrency: flags.claim_concurrency(),
        pool_concurrency: flags.pool_concurrency(),
        max_floating_ips: flags.max_floating_ips.get(),
        identity_namespaces: flags.cluster_identity_namespaces.clone(),
        address_config_maps: flags.address_config_maps,
        fence: leader::may_have_predecessor(leader),
    }
}

async fn acquire_lease(flags: &Flags, client: &kube::Client, clock: &Clock) -> Option<Leader> {
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
