//! HTTPS with a self-signed certificate that is generated at start.
//!
//! As with other providers' default, clients cannot verify it: it protects tokens from eavesdroppers only.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::serve::Listener;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use rustls::crypto::ring;
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::{ServerConfig, SupportedCipherSuite};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::TlsOptions;
use crate::runtime::flags::TlsVersion;
use crate::runtime::listen::{BoundedListener, Connection};

const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Concurrent handshakes; further connections wait in the kernel's queue.
const MAX_HANDSHAKES: usize = 64;

#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("make a certificate")]
    Certificate(#[source] rcgen::Error),
    #[error("set up TLS")]
    Setup(#[source] rustls::Error),
}

/// As in Go, the suites of TLS 1.3 cannot be configured. Unknown names are ignored with a warning.
pub(super) fn server_config(options: &TlsOptions) -> Result<ServerConfig, TlsError> {
    let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()]).map_err(TlsError::Certificate)?;
    let key = PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
    let versions: &[_] = match options.min_version {
        TlsVersion::Tls12 => &[&rustls::version::TLS12, &rustls::version::TLS13],
        TlsVersion::Tls13 => &[&rustls::version::TLS13],
    };
    let mut provider = ring::default_provider();
    let names: Vec<_> = options.cipher_suites.iter().map(|name| name.trim()).collect();
    if !names.is_empty() {
        provider.cipher_suites.retain(|suite| suite.tls13().is_some() || names.contains(&iana_name(suite).as_str()));
    }
    for name in names {
        if !provider.cipher_suites.iter().any(|suite| iana_name(suite) == name) {
            tracing::warn!(suite = name, "--tls-cipher-suites names an unknown suite; ignored");
        }
    }
    ServerConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(versions)
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(vec![certified.cert.into()], key.into()))
        .map_err(TlsError::Setup)
}

/// rustls writes `TLS13_` where IANA and Go write `TLS_`.
fn iana_name(suite: &SupportedCipherSuite) -> String {
    format!("{:?}", suite.suite()).replace("TLS13_", "TLS_")
}

type Handshake = BoxFuture<'static, Option<(TlsStream<Connection>, SocketAddr)>>;

/// Runs TLS handshakes concurrently, so that a slow client does not block others.
pub(super) struct TlsListener {
    listener: BoundedListener,
    acceptor: TlsAcceptor,
    handshakes: FuturesUnordered<Handshake>,
}

impl TlsListener {
    pub(super) fn new(listener: BoundedListener, config: ServerConfig) -> Self {
        Self { listener, acceptor: Arc::new(config).into(), handshakes: FuturesUnordered::new() }
    }
}

impl Listener for TlsListener {
    type Io = TlsStream<Connection>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            tokio::select! {
                (stream, peer) = self.listener.accept(), if self.handshakes.len() < MAX_HANDSHAKES => {
                    let handshake = timeout(HANDSHAKE_TIMEOUT, self.acceptor.accept(stream));
                    self.handshakes.push(Box::pin(async move { Some((handshake.await.ok()?.ok()?, peer)) }));
                }
                Some(completed) = self.handshakes.next() => {
                    if let Some(connection) = completed {
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

    fn tls12_config(suites: &[&str]) -> ServerConfig {
        let cipher_suites = suites.iter().map(|&name| name.to_owned()).collect();
        let options = TlsOptions { min_version: TlsVersion::Tls12, cipher_suites };
        server_config(&options).expect("a valid configuration")
    }

    #[test]
    fn named_suites_limit_tls_12_and_leave_tls_13_alone() {
        let named = ["TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "TLS_RSA_WITH_RC4_128_SHA"];
        let config = tls12_config(&named);
        let suites = &config.crypto_provider().cipher_suites;
        assert_eq!(suites.iter().filter(|suite| suite.tls13().is_none()).count(), 1);
        assert_eq!(suites.iter().filter(|suite| suite.tls13().is_some()).count(), 3);
        let all = tls12_config(&[]);
        assert_eq!(all.crypto_provider().cipher_suites, ring::default_provider().cipher_suites);
    }
}
