//! The connection to the management cluster.

use std::path::{Path, PathBuf};
use std::time::Duration;

use http::header::USER_AGENT;
use http::{HeaderValue, Uri};
use kube::client::ClientBuilder;
use kube::config::{Config, InferConfigError, KubeConfigOptions, Kubeconfig, KubeconfigError};
use tokio::time::{Instant, sleep, timeout};
use tower::limit::ConcurrencyLimitLayer;

use super::telemetry::chain;

/// How long an API server may be away when we start; after this whoever started us may try again.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long between two tries.
const PAUSE: Duration = Duration::from_secs(2);

/// How long one try may take.
const TRY: Duration = Duration::from_secs(5);

/// How long a watch lasts, in seconds; the server ends it then, and it goes on as another. A healthy watch may be silent
/// all that time, so this is what it takes to notice one that will never say anything again: about as long as client-go
/// does. kube's default is 290 s, minutes in which claims would wait and nobody would be told.
pub const WATCH_LASTS: u32 = 40;

/// Longer than the longest silence of a healthy watch. A request whose answer got lost would otherwise be waited for
/// forever.
const LONGEST_SILENCE: Duration = Duration::from_secs(WATCH_LASTS as u64 + 5);

/// How many requests wait for the head of their answer at a time. kube speaks HTTP/1, so each would have a connection of its
/// own: a burst of hundreds of claims would spend its time on TLS handshakes and its memory on their buffers.
const SIDE_BY_SIDE: usize = 16;

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The kubeconfig that was named cannot be used.
    #[error("use the kubeconfig {0}")]
    Kubeconfig(String, #[source] KubeconfigError),
    /// Nothing was named, and there is nothing to be found.
    #[error("find a management cluster: neither --kubeconfig nor KUBECONFIG is set, and this is not a pod")]
    Nowhere,
    /// Nothing was named, and what was found instead cannot be used.
    #[error("find a management cluster")]
    Default(#[source] Box<InferConfigError>),
    /// A client cannot be made of the configuration.
    #[error("use the configuration of {0}")]
    Configuration(Uri, #[source] kube::Error),
    /// The API server does not answer.
    #[error("reach the API server at {0}")]
    Unreachable(Uri, #[source] kube::Error),
    /// The API server does not answer in time.
    #[error("reach the API server at {0}: no answer in time")]
    Silent(Uri),
}

/// A client for the cluster of `kubeconfig`, else of KUBECONFIG or `~/.kube/config`, else of the pod that we are; the API
/// server has answered it once.
pub async fn connect(kubeconfig: Option<&Path>) -> Result<kube::Client, ConnectError> {
    let mut config = configuration(kubeconfig).await?;
    let agent = concat!("caip-openstack/", env!("CARGO_PKG_VERSION"));
    config.headers.push((USER_AGENT, HeaderValue::from_static(agent)));
    config.read_timeout = Some(LONGEST_SILENCE);
    config.reset_reader_on_write = true;
    let url = config.cluster_url.clone();
    let unusable = |error| ConnectError::Configuration(url.clone(), error);
    let builder = ClientBuilder::try_from(config).map_err(unusable)?;
    let client = builder.with_layer(&ConcurrencyLimitLayer::new(SIDE_BY_SIDE)).build();
    await_answer(&client, &url).await?;
    Ok(client)
}

async fn configuration(kubeconfig: Option<&Path>) -> Result<Config, ConnectError> {
    let named = kubeconfig.map(PathBuf::from);
    let variable = std::env::var_os("KUBECONFIG").filter(|value| !value.is_empty());
    // `Config::infer` would try the pod's own next and report that too; what was named should work or be reported.
    let loaded = match (&named, &variable) {
        (Some(path), _) => match Kubeconfig::read_from(path) {
            Ok(read) => Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await,
            Err(error) => Err(error),
        },
        (None, Some(_)) => Config::from_kubeconfig(&KubeConfigOptions::default()).await,
        (None, None) => return Config::infer().await.map_err(unfound),
    };
    let name = named.map(PathBuf::into_os_string).or(variable).unwrap_or_default();
    loaded.map_err(|error| ConnectError::Kubeconfig(name.to_string_lossy().into_owned(), error))
}

fn unfound(error: InferConfigError) -> ConnectError {
    let is_pod = std::env::var_os("KUBERNETES_SERVICE_HOST").is_some();
    let has_default = std::env::home_dir().is_some_and(|home| home.join(".kube/config").exists());
    if is_pod || has_default { ConnectError::Default(Box::new(error)) } else { ConnectError::Nowhere }
}

async fn await_answer(client: &kube::Client, url: &Uri) -> Result<(), ConnectError> {
    let begin = Instant::now();
    let mut said = String::new();
    loop {
        let error = match timeout(TRY, client.apiserver_version()).await {
            Ok(Ok(version)) => {
                tracing::info!(url = %url, version = version.git_version, "connected to the API server");
                return Ok(());
            }
            // It does answer. What it does not allow shows where it is needed.
            Ok(Err(kube::Error::Api(status))) if matches!(status.code, 401 | 403) => return Ok(()),
            Ok(Err(error)) => ConnectError::Unreachable(url.clone(), error),
            Err(_) => ConnectError::Silent(url.clone()),
        };
        if begin.elapsed() >= PATIENCE {
            return Err(error);
        }
        let now_said = chain(&error);
        if now_said != said {
            tracing::warn!("the API server does not answer, trying for {PATIENCE:?}: {now_said}");
            said = now_said;
        }
        sleep(PAUSE).await;
    }
}
