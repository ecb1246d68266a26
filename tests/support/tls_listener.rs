//! A TLS listener with a self-signed certificate.

use std::sync::Arc;

use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

pub struct Tls {
    listener: TcpListener,
    acceptor: TlsAcceptor,
}

impl Tls {
    /// A listener, and the PEM of its certificate for `127.0.0.1`.
    pub async fn listen() -> (Self, String) {
        let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).expect("a certificate");
        let key = rustls::pki_types::PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
        let config = rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(vec![made.cert.der().clone()], key))
            .expect("a TLS set-up");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        (Self { listener, acceptor: TlsAcceptor::from(Arc::new(config)) }, made.cert.pem())
    }

    pub fn address(&self) -> std::net::SocketAddr {
        self.listener.local_addr().expect("a listener has an address")
    }
}

impl axum::serve::Listener for Tls {
    type Io = TlsStream<TcpStream>;
    type Addr = std::net::SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let Ok((stream, peer)) = self.listener.accept().await else { continue };
            if let Ok(stream) = self.acceptor.accept(stream).await {
                return (stream, peer);
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}
