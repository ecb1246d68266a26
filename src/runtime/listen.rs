//! Opens the ports of the two servers.
//!
//! On a developer's machine another process, such as another provider's manager, often uses a default port. So if a
//! default port is unavailable, the program logs a warning and runs without that server; in a cluster the probes then
//! fail. If a port given by flag is unavailable, the program exits.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};

use tokio::net::TcpListener;

use super::flags::Address;

mod bounded;

pub use bounded::{BoundedListener, Connection};

pub struct ListenAddress {
    /// For messages.
    pub flag: &'static str,
    /// The flag's value, if set.
    pub given: Option<Address>,
    /// Used on every interface if the flag is not set.
    pub default_port: u16,
}

#[derive(Debug, thiserror::Error)]
#[error("listen on {address}, which {flag} asks for")]
pub struct ListenError {
    flag: &'static str,
    address: Address,
    source: io::Error,
}

impl ListenAddress {
    /// `None` if the server is switched off, or if its default port is unavailable.
    pub async fn open(self) -> Result<Option<BoundedListener>, ListenError> {
        let Self { flag, given, default_port } = self;
        let is_default = given.is_none();
        let address = given.unwrap_or(Address::AnyHost(default_port));
        let opened = match &address {
            Address::Off => return Ok(None),
            Address::AnyHost(port) => any_host(*port).await,
            Address::Host(address) => TcpListener::bind(address.as_str()).await,
        };
        match opened {
            Ok(listener) => {
                let bound = listener.local_addr().map_or_else(|_| address.to_string(), |bound| bound.to_string());
                tracing::info!(flag, address = bound, "listening");
                Ok(Some(BoundedListener::new(listener)))
            }
            Err(error) if is_default => {
                tracing::warn!(
                    flag,
                    address = %address,
                    %error,
                    "the default address is not available; continuing without this server"
                );
                Ok(None)
            }
            Err(source) => Err(ListenError { flag, address, source }),
        }
    }
}

/// Both IP versions on one socket, as in Go; IPv4 only if the machine has no IPv6.
async fn any_host(port: u16) -> io::Result<TcpListener> {
    match TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).await {
        Err(error) if error.kind() != io::ErrorKind::AddrInUse => {
            TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).await
        }
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use axum::serve::Listener;

    use super::*;

    const FLAG: &str = "--health-addr";

    #[tokio::test]
    async fn an_unavailable_default_port_disables_only_its_server() {
        let taken = any_host(0).await.expect("some port is free");
        let port = taken.local_addr().expect("it is bound").port();
        let opened = ListenAddress { flag: FLAG, given: None, default_port: port }.open().await;
        assert!(opened.expect("no reason to end").is_none());
    }

    #[tokio::test]
    async fn an_unavailable_port_given_by_flag_is_an_error_that_names_the_flag() {
        let taken = any_host(0).await.expect("some port is free");
        let port = taken.local_addr().expect("it is bound").port();
        let opened = ListenAddress { flag: FLAG, given: Some(Address::AnyHost(port)), default_port: 1 }.open().await;
        let error = opened.expect_err("the port is taken").to_string();
        assert!(error.contains(FLAG) && error.contains(&port.to_string()), "{error}");
    }

    #[tokio::test]
    async fn a_server_can_be_switched_off_or_use_any_free_port() {
        let open = |given| ListenAddress { flag: FLAG, given: Some(given), default_port: 1 }.open();
        assert!(open(Address::Off).await.expect("nothing to fail").is_none());
        let listener = open(Address::Host("127.0.0.1:0".into())).await.expect("some port is free");
        assert_ne!(Listener::local_addr(&listener.expect("it was asked for")).expect("it is bound").port(), 0);
    }
}
