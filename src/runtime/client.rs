//! The connection to the management cluster.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http::header::USER_AGENT;
use http::{HeaderValue, Uri};
use kube::client::ClientBuilder;
use kube::config::{Config, InferConfigError, KubeConfigOptions, Kubeconfig, KubeconfigError};
use tokio::net::lookup_host;
use tokio::time::{Instant, sleep, timeout};

use super::telemetry::chain;

mod fair_limit;
mod measured;
mod page_limit;

use fair_limit::FairLimitLayer;
use measured::MeasuredLayer;
pub use measured::{RequestObserver, SentRequest};
pub(crate) use page_limit::PAGE_OBJECTS;
use page_limit::PageLimitLayer;

/// How long to wait for the API server at start; after that the process exits, to be restarted.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

const RETRY_PAUSE: Duration = Duration::from_secs(2);

const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(5);

/// The duration of a watch request in seconds; the server then ends it, and the client starts the next one. A healthy
/// watch may be silent for all that time, so a dead connection is only noticed afterwards: about as fast as client-go
/// does it. With kube's default of 290 s, claims would wait for minutes, without any message.
pub(crate) const WATCH_TIMEOUT_SECONDS: u32 = 40;

/// Longer than the silence of a healthy watch. Without it, a lost response would be awaited forever.
#[expect(clippy::as_conversions, reason = "a constant can be converted in no other way")]
const READ_TIMEOUT: Duration = Duration::from_secs(WATCH_TIMEOUT_SECONDS as u64 + 5);

/// Requests that await their response concurrently. kube uses HTTP/1, so each needs its own connection: a burst of
/// hundreds of claims would spend its time on TLS handshakes, and memory on their buffers.
const MAX_CONCURRENT_REQUESTS: usize = 16;

#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// A kubeconfig that the user named.
    #[error("use the kubeconfig {0}")]
    Kubeconfig(String, #[source] KubeconfigError),
    #[error("find a management cluster: neither --kubeconfig nor KUBECONFIG is set, and this is not a pod")]
    NoConfiguration,
    /// The default kubeconfig or the pod's ServiceAccount.
    #[error("find a management cluster")]
    DefaultConfiguration(#[source] Box<InferConfigError>),
    #[error("use the configuration of {0}")]
    Client(Uri, #[source] kube::Error),
    #[error("reach the API server at {0}")]
    Unreachable(Uri, #[source] kube::Error),
    #[error("reach the API server at {0}: no answer in time")]
    NoAnswer(Uri),
}

/// Connections to one API server.
pub struct Clients {
    /// For the controllers: a bounded number of requests at a time.
    pub work: kube::Client,
    /// For the Lease, health and metrics: these never wait behind the requests of the controllers.
    pub control: kube::Client,
    /// The API server's.
    pub addresses: BTreeSet<IpAddr>,
}

/// Connects to the cluster of `kubeconfig`, or else of KUBECONFIG, `~/.kube/config` or the pod's ServiceAccount. Waits for
/// the API server's first answer. `observer` gets every request of both clients.
pub async fn connect(kubeconfig: Option<&Path>, observer: RequestObserver) -> Result<Clients, ConnectError> {
    let mut config = configuration(kubeconfig).await?;
    let agent = concat!("caip-openstack/", env!("CARGO_PKG_VERSION"));
    config.headers.push((USER_AGENT, HeaderValue::from_static(agent)));
    config.read_timeout = Some(READ_TIMEOUT);
    config.reset_reader_on_write = true;
    // Every caller repeats what failed. A repetition within the request would send a POST again whose first try is late, and
    // would go on with a watch over a restore of the API server's data.
    config.default_retry = false;
    let url = config.cluster_url.clone();
    let work = ClientBuilder::try_from(config.clone()).map_err(|error| ConnectError::Client(url.clone(), error))?;
    let measured = MeasuredLayer { host: host_and_port(&url).into(), observer };
    let work = work.with_layer(&measured).with_layer(&FairLimitLayer::new(MAX_CONCURRENT_REQUESTS));
    let work = work.with_layer(&PageLimitLayer).build();
    let control = ClientBuilder::try_from(config).map_err(|error| ConnectError::Client(url.clone(), error))?;
    let control = control.with_layer(&measured).build();
    await_answer(&control, &url).await?;
    Ok(Clients { work, control, addresses: resolve(&url).await })
}

/// Without the user that a URL may name.
fn host_and_port(url: &Uri) -> &str {
    let authority = url.authority().map_or("", |authority| authority.as_str());
    authority.rsplit('@').next().unwrap_or_default()
}

/// The addresses of the API server, which has just answered.
async fn resolve(url: &Uri) -> BTreeSet<IpAddr> {
    let host = url.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
    match lookup_host((host.as_str(), 0)).await {
        Ok(found) => found.map(|address| address.ip()).collect(),
        Err(error) => {
            tracing::warn!("the API server's addresses are not known: {error}");
            BTreeSet::new()
        }
    }
}

async fn configuration(kubeconfig: Option<&Path>) -> Result<Config, ConnectError> {
    let named = kubeconfig.map(PathBuf::from);
    let variable = std::env::var_os("KUBECONFIG").filter(|value| !value.is_empty());
    // Not `Config::infer`: it falls back to the pod's ServiceAccount. A kubeconfig that the user named must work or fail.
    let loaded = match (&named, &variable) {
        (Some(path), _) => match Kubeconfig::read_from(path) {
            Ok(read) => Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await,
            Err(error) => Err(error),
        },
        (None, Some(_)) => Config::from_kubeconfig(&KubeConfigOptions::default()).await,
        (None, None) => return Config::infer().await.map_err(explain_inference),
    };
    let name = named.map(PathBuf::into_os_string).or(variable).unwrap_or_default();
    loaded.map_err(|error| ConnectError::Kubeconfig(name.to_string_lossy().into_owned(), error))
}

fn explain_inference(error: InferConfigError) -> ConnectError {
    let is_pod = std::env::var_os("KUBERNETES_SERVICE_HOST").is_some();
    let has_default = std::env::home_dir().is_some_and(|home| home.join(".kube/config").exists());
    if is_pod || has_default {
        ConnectError::DefaultConfiguration(Box::new(error))
    } else {
        ConnectError::NoConfiguration
    }
}

async fn await_answer(client: &kube::Client, url: &Uri) -> Result<(), ConnectError> {
    let begin = Instant::now();
    let mut logged = String::new();
    loop {
        let error = match timeout(ATTEMPT_TIMEOUT, client.apiserver_version()).await {
            Ok(Ok(version)) => {
                tracing::info!(url = %url, version = version.git_version, "connected to the API server");
                return Ok(());
            }
            // It answers; a missing permission is reported where it is needed.
            Ok(Err(kube::Error::Api(status))) if matches!(status.code, 401 | 403) => return Ok(()),
            Ok(Err(error)) => ConnectError::Unreachable(url.clone(), error),
            Err(_) => ConnectError::NoAnswer(url.clone()),
        };
        if begin.elapsed() >= CONNECT_TIMEOUT {
            return Err(error);
        }
        let cause = chain(&error);
        if cause != logged {
            tracing::warn!("the API server does not answer, retrying for {CONNECT_TIMEOUT:?}: {cause}");
            logged = cause;
        }
        sleep(RETRY_PAUSE).await;
    }
}
