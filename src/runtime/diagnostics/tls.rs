//! HTTPS with a certificate of our own, made at start.
//!
//! Nobody can check it, as with the other providers' default: it keeps tokens from being read on the way, no more.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::serve::Listener;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::PrivatePkcs8KeyDer;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::runtime::flags::TlsVersion;

/// How long a client may take to agree on TLS.
const PATIENCE: Duration = Duration::from_secs(10);

/// How many may be about to agree; the next ones wait in the kernel's queue.
const MOST_HANDSHAKES: usize = 64;

/// Why there can be no HTTPS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// No certificate could be made.
    #[error("make a certificate")]
    Certificate(#[source] rcgen::Error),
    /// TLS cannot be set up with it.
    #[error("set up TLS")]
    Setup(#[source] rustls::Error),
}

/// TLS of at least `least`, with the named suites where TLS 1.2 is spoken; all that are safe when none is named.
///
/// As in Go, TLS 1.3 is not to be configured, and names that mean nothing here are left out with a warning.
pub(super) fn server_config(least: TlsVersion, suites: &[String]) -> Result<ServerConfig, TlsError> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).map_err(TlsError::Certificate)?;
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let versions: &[_] = match least {
        TlsVersion::Tls12 => &[&rustls::version::TLS12, &rustls::version::TLS13],
        TlsVersion::Tls13 => &[&rustls::version::TLS13],
    };
    let mut provider = ring::default_provider();
    let is_named = |name: &str| suites.iter().any(|suite| suite.trim() == name);
    provider
        .cipher_suites
        .retain(|suite| suites.is_empty() || suite.tls13().is_some() || is_named(&format!("{:?}", suite.suite())));
    for suite in suites {
        // Go's names of TLS 1.3 suites begin with TLS_, those of rustls with TLS13_.
        let is_known = |known: &rustls::SupportedCipherSuite| {
            format!("{:?}", known.suite()).replace("TLS13_", "TLS_") == suite.trim()
        };
        if !provider.cipher_suites.iter().any(is_known) {
            tracing::warn!(suite, "--tls-cipher-suites names a suite that there is not; left out");
        }
    }
    ServerConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(versions)
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(vec![made.cert.into()], key.into()))
        .map_err(TlsError::Setup)
}

type Handshake = BoxFuture<'static, Option<(TlsStream<TcpStream>, SocketAddr)>>;

/// Accepts connections and agrees on TLS with several clients at a time, so that a slow one holds up nobody.
pub(super) struct TlsListener {
    listener: TcpListener,
    acceptor: TlsAcceptor,
    handshakes: FuturesUnordered<Handshake>,
}

impl TlsListener {
    pub(super) fn new(listener: TcpListener, config: ServerConfig) -> Self {
        Self { listener, acceptor: Arc::new(config).into(), handshakes: FuturesUnordered::new() }
    }
}

impl Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            tokio::select! {
                (stream, peer) = Listener::accept(&mut self.listener), if self.handshakes.len() < MOST_HANDSHAKES => {
                    let handshake = timeout(PATIENCE, self.acceptor.accept(stream));
                    self.handshakes.push(Box::pin(async move { Some((handshake.await.ok()?.ok()?, peer)) }));
                }
                Some(agreed) = self.handshakes.next() => {
                    if let Some(connection) = agreed {
                        return connection;
                    }
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_suites_limit_tls_12_and_leave_tls_13_alone() {
        let named = ["TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256".to_owned(), "TLS_RSA_WITH_RC4_128_SHA".to_owned()];
        let config = server_config(TlsVersion::Tls12, &named).expect("it is a good configuration");
        let suites = &config.crypto_provider().cipher_suites;
        assert_eq!(suites.iter().filter(|suite| suite.tls13().is_none()).count(), 1);
        assert_eq!(suites.iter().filter(|suite| suite.tls13().is_some()).count(), 3);
        let all = server_config(TlsVersion::Tls12, &[]).expect("it is a good configuration");
        assert_eq!(all.crypto_provider().cipher_suites, ring::default_provider().cipher_suites);
    }
}
