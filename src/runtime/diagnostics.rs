//! Serves `/metrics`: over HTTPS with authentication and authorization, or over plain HTTP without.

use std::io;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::get;
use http::{StatusCode, header};

use super::flags::TlsVersion;
use super::listen::BoundedListener;

mod access;
mod tls;

use access::Authorizer;
pub use tls::TlsError;

/// The format that prometheus-client writes.
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Returns the current metrics in the OpenMetrics text format; called once per request.
pub type Exposition = Arc<dyn Fn() -> String + Send + Sync>;

/// Serves the metrics over plain HTTP, without authentication.
pub async fn serve_plain(listener: BoundedListener, metrics: Exposition) -> io::Result<()> {
    axum::serve(listener, router(metrics)).await
}

pub struct TlsOptions {
    pub min_version: TlsVersion,
    /// IANA names of TLS 1.2 suites; all secure ones if empty.
    pub cipher_suites: Vec<String>,
}

/// Serves the metrics over HTTPS to authorized callers. Fails before it accepts connections if TLS cannot be set up.
pub fn serve_secure(
    listener: BoundedListener,
    metrics: Exposition,
    client: kube::Client,
    tls: &TlsOptions,
) -> Result<impl Future<Output = io::Result<()>> + Send + use<>, TlsError> {
    let config = tls::server_config(tls)?;
    let guarded = router(metrics).layer(middleware::from_fn_with_state(Authorizer::new(client), authorize));
    let listener = tls::TlsListener::new(listener, config);
    Ok(async move { axum::serve(listener, guarded).await })
}

fn router(metrics: Exposition) -> Router {
    Router::new().route("/metrics", get(async move || ([(header::CONTENT_TYPE, OPENMETRICS)], metrics())))
}

async fn authorize(State(authorizer): State<Authorizer>, request: Request, next: Next) -> Result<Response, StatusCode> {
    authorizer.check(request.headers(), request.uri().path()).await?;
    Ok(next.run(request).await)
}
