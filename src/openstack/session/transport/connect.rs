//! Connections to the servers that are allowed: directly, or through the proxy.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt, TryFutureExt};
use http::{HeaderMap, HeaderValue, Uri, header};
use hyper_rustls::{HttpsConnector, MaybeHttpsStream};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::Name;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tower::util::BoxCloneSyncService;
use tower::{BoxError, ServiceExt, service_fn};

use super::super::super::HttpsProxy;
use super::super::super::hosts::AllowedResolver;

/// For a TCP connection and the TLS handshake, through the proxy if there is one.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// For bytes that the server does not acknowledge. Otherwise the kernel would go on sending them for minutes, also after the
/// process has ended, and a write would reach OpenStack when a new leader expects none any more. They are written once
/// there is a connection.
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED_TIMEOUT: Duration = super::REQUEST_TIMEOUT.saturating_sub(CONNECT_TIMEOUT);

pub(super) const USER_AGENT: &str = concat!("caip-openstack/", env!("CARGO_PKG_VERSION"));

pub(super) type Connector = BoxCloneSyncService<Uri, Stream, BoxError>;

/// Through a proxy: the outer TLS is the server's, the inner one the proxy's, if it has an `https` URL. Otherwise the inner
/// one is the server's.
type Stream = MaybeHttpsStream<MaybeHttpsStream<TokioIo<TcpStream>>>;

/// Connects to the server of a URL.
pub(super) fn connector(resolver: AllowedResolver, tls: ClientConfig, proxy: Option<&HttpsProxy>) -> Connector {
    let resolver = Arc::new(resolver);
    let mut http = HttpConnector::new_with_resolver(service_fn(move |name: Name| {
        let resolver = resolver.clone();
        async move { resolver.resolve(name.as_str()).await }
    }));
    http.enforce_http(false);
    http.set_nodelay(true);
    // The addresses of a name share it, so that one that does not answer leaves time for the others.
    http.set_connect_timeout(Some(CONNECT_TIMEOUT));
    #[cfg(target_os = "linux")]
    http.set_tcp_user_timeout(Some(UNACKNOWLEDGED_TIMEOUT));
    let tls = Arc::new(tls);
    let direct = HttpsConnector::from((http, tls.clone()));
    let proxy = proxy.map(|proxy| Arc::new(proxy.matcher()));
    BoxCloneSyncService::new(service_fn(move |server: Uri| {
        let direct = direct.clone();
        let connection = match proxy.as_ref().and_then(|proxy| proxy.intercept(&server)) {
            Some(proxy) => {
                let mut tunnel = Tunnel::new(proxy.uri().clone(), direct)
                    .with_headers(HeaderMap::from_iter([(header::USER_AGENT, HeaderValue::from_static(USER_AGENT))]));
                if let Some(credentials) = proxy.basic_auth() {
                    tunnel = tunnel.with_auth(credentials.clone());
                }
                HttpsConnector::from((tunnel, tls.clone())).oneshot(server).boxed()
            }
            None => direct.oneshot(server).map_ok(MaybeHttpsStream::Http).boxed(),
        };
        async move { timeout(CONNECT_TIMEOUT, connection).await.map_err(io::Error::from)? }
    }))
}
