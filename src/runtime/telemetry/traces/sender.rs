//! The HTTP client that takes traces to the collector.
//!
//! The SDK sends from a plain thread of its own, without tokio; so the client brings a small runtime along, which also
//! keeps the sending apart from the work.

use std::error::Error;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use reqwest::{Client, redirect};
use rustls::{ClientConfig, RootCertStore};
use tokio::runtime::{Builder, Runtime};

use super::super::chain;
use super::variable;

/// What OpenTelemetry says where no variable does.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub(in super::super) enum SetUpError {
    /// No runtime.
    #[error("start a runtime")]
    Runtime(#[source] io::Error),
    /// No TLS.
    #[error("set up TLS")]
    Tls(#[source] rustls::Error),
    /// No client.
    #[error("build an HTTP client")]
    Client(#[source] reqwest::Error),
}

/// How long sending one batch may take: `OTEL_EXPORTER_OTLP_TRACES_TIMEOUT` or `OTEL_EXPORTER_OTLP_TIMEOUT`, in
/// milliseconds.
pub(super) fn timeout() -> Duration {
    let names = ["OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT"];
    let given = names.into_iter().find_map(|name| variable(name)?.trim().parse().ok());
    given.map_or(TIMEOUT, Duration::from_millis)
}

/// Sends batches, and complains once.
pub(super) struct Sender {
    client: Client,
    runtime: Runtime,
    has_complained: AtomicBool,
}

impl Sender {
    /// Trusts the system's CAs, follows no redirect, since headers may carry a token, and uses no proxy.
    pub(super) fn new(timeout: Duration) -> Result<Self, SetUpError> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.map_err(SetUpError::Tls)?.with_root_certificates(roots).with_no_client_auth();
        let client = Client::builder()
            .user_agent(concat!("caip-openstack/", env!("CARGO_PKG_VERSION")))
            .redirect(redirect::Policy::none())
            .no_proxy()
            .timeout(timeout)
            // Nobody would notice that an idle connection is closed: the runtime stands still between two batches.
            .pool_max_idle_per_host(0)
            .tls_backend_preconfigured(config)
            .build()
            .map_err(SetUpError::Client)?;
        let runtime = Builder::new_current_thread().enable_all().build().map_err(SetUpError::Runtime)?;
        Ok(Self { client, runtime, has_complained: AtomicBool::new(false) })
    }

    async fn send(&self, request: reqwest::Request) -> Result<Response<Bytes>, reqwest::Error> {
        let response = self.client.execute(request).await?;
        let mut answer = Response::new(Bytes::new());
        *answer.status_mut() = response.status();
        // When to try again. The body would say how many spans the collector did not like, which nobody here can mend.
        *answer.headers_mut() = response.headers().clone();
        Ok(answer)
    }

    fn complain(&self, url: &reqwest::Url, why: &dyn fmt::Display) {
        if !self.has_complained.swap(true, Ordering::Relaxed) {
            let host = url.host_str().unwrap_or_default();
            tracing::warn!(collector.host = host, "the collector does not take traces, which is said once: {why}");
        }
    }
}

#[async_trait]
impl HttpClient for Sender {
    /// Blocks, which the thread is there for.
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let request = reqwest::Request::try_from(request)?;
        let url = request.url().clone();
        let result = self.runtime.block_on(self.send(request)).map_err(reqwest::Error::without_url);
        match &result {
            Ok(answer) if !answer.status().is_success() => self.complain(&url, &answer.status()),
            Ok(_) => {}
            Err(error) => self.complain(&url, &chain(error as &(dyn Error + 'static))),
        }
        Ok(result?)
    }
}

impl fmt::Debug for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sender")
    }
}
