//! `/metrics`: by HTTPS and to those who may, or by plain HTTP and to everybody where that was asked for.

use std::io;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::get;
use http::{StatusCode, header};
use tokio::net::TcpListener;

use super::flags::TlsVersion;

mod access;
mod tls;

use access::Access;
pub use tls::TlsError;

/// The media type of what prometheus-client writes.
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Returns the current metrics in the OpenMetrics text format; called once per request.
pub type Exposition = Arc<dyn Fn() -> String + Send + Sync>;

/// Serves the metrics over plain HTTP, without authentication.
pub async fn serve_plain(listener: TcpListener, metrics: Exposition) -> io::Result<()> {
    axum::serve(listener, router(metrics)).await
}

/// How HTTPS is spoken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tls {
    /// The least version.
    pub least: TlsVersion,
    /// The suites of TLS 1.2; all that are safe when empty.
    pub suites: Vec<String>,
}

/// Serves those who may, by HTTPS; fails before it listens when there can be no HTTPS.
pub fn serve_secure(
    listener: TcpListener,
    metrics: Exposition,
    client: kube::Client,
    tls: &Tls,
) -> Result<impl Future<Output = io::Result<()>> + Send + use<>, TlsError> {
    let config = tls::server_config(tls.least, &tls.suites)?;
    let guarded = router(metrics).layer(middleware::from_fn_with_state(Access::new(client), admit));
    let listener = tls::TlsListener::new(listener, config);
    Ok(async move { axum::serve(listener, guarded).await })
}

fn router(metrics: Exposition) -> Router {
    Router::new().route("/metrics", get(async move || ([(header::CONTENT_TYPE, OPENMETRICS)], metrics())))
}

async fn admit(State(access): State<Access>, request: Request, next: Next) -> Result<Response, StatusCode> {
    access.check(request.headers(), request.uri().path()).await?;
    Ok(next.run(request).await)
}
