//! The HTTP client that sends traces to the collector.
//!
//! The SDK calls it from a thread of its own, outside tokio, so it has a small runtime. That also keeps the sending off
//! the controllers' runtime.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use reqwest::{Client, redirect};
use tokio::runtime::{Builder, Runtime};

use super::super::chain;
use super::variable;
use crate::tls;

/// OpenTelemetry's default.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug, thiserror::Error)]
pub(in super::super) enum SenderError {
    #[error("start a runtime")]
    Runtime(#[source] io::Error),
    #[error("set up TLS")]
    Tls(#[source] rustls::Error),
    #[error("build an HTTP client")]
    Client(#[source] reqwest::Error),
}

/// The timeout of one batch: `OTEL_EXPORTER_OTLP_TRACES_TIMEOUT` or `OTEL_EXPORTER_OTLP_TIMEOUT`, in
/// milliseconds.
pub(super) fn timeout() -> Duration {
    let names = ["OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT"];
    let given = names.into_iter().find_map(|name| variable(name)?.trim().parse().ok());
    given.map_or(DEFAULT_TIMEOUT, Duration::from_millis)
}

/// Sends batches, and logs only the first failure.
pub(super) struct Sender {
    client: Client,
    runtime: Runtime,
    has_warned: AtomicBool,
}

impl Sender {
    /// Uses no proxy and follows no redirect, because the headers may contain a token.
    pub(super) fn new(timeout: Duration) -> Result<Self, SenderError> {
        let config = tls::client_config(Some(tls::system_roots())).map_err(SenderError::Tls)?;
        let client = Client::builder()
            .user_agent(concat!("caip-openstack/", env!("CARGO_PKG_VERSION")))
            .redirect(redirect::Policy::none())
            .no_proxy()
            .timeout(timeout)
            // The runtime does not run between two batches, so it would not notice that an idle connection is closed.
            .pool_max_idle_per_host(0)
            .tls_backend_preconfigured(config)
            .build()
            .map_err(SenderError::Client)?;
        let runtime = Builder::new_current_thread().enable_all().build().map_err(SenderError::Runtime)?;
        Ok(Self { client, runtime, has_warned: AtomicBool::new(false) })
    }

    async fn send(&self, request: reqwest::Request) -> Result<Response<Bytes>, reqwest::Error> {
        let response = self.client.execute(request).await?;
        let mut answer = Response::new(Bytes::new());
        *answer.status_mut() = response.status();
        // The headers say when to retry. The body, with the number of rejected spans, is of no use here.
        *answer.headers_mut() = response.headers().clone();
        Ok(answer)
    }

    fn warn_once(&self, url: &reqwest::Url, reason: &dyn fmt::Display) {
        if !self.has_warned.swap(true, Ordering::Relaxed) {
            let host = url.host_str().unwrap_or_default();
            tracing::warn!(collector.host = host, "the collector does not accept traces, logged only once: {reason}");
        }
    }
}

#[async_trait]
impl HttpClient for Sender {
    /// Blocks: it runs on the SDK's own thread.
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let request = reqwest::Request::try_from(request)?;
        let url = request.url().clone();
        let result = self.runtime.block_on(self.send(request)).map_err(reqwest::Error::without_url);
        match &result {
            Ok(answer) if !answer.status().is_success() => self.warn_once(&url, &answer.status()),
            Ok(_) => {}
            Err(error) => self.warn_once(&url, &chain(error)),
        }
        Ok(result?)
    }
}

impl fmt::Debug for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sender")
    }
}
