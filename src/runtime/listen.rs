//! Opening the ports of the two servers.
//!
//! Outside a cluster somebody else often holds a default port: a second instance, or the manager of another provider.
//! A port that nobody asked for is not worth ending for, so a default that is taken costs a warning and that server;
//! one that was asked for ends the program. In a cluster the probes then fail, and the log says why.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};

use tokio::net::TcpListener;

use super::flags::Address;

/// A flag's address: the one that was given, or its default.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wish {
    /// The flag, for messages.
    pub flag: &'static str,
    /// What was given.
    pub given: Option<Address>,
    /// The port on every interface where nothing was.
    pub default_port: u16,
}

/// An address that was asked for cannot be had.
#[derive(Debug, thiserror::Error)]
#[error("listen on {address}, which {flag} asks for")]
pub struct ListenError {
    flag: &'static str,
    address: Address,
    source: io::Error,
}

impl Wish {
    /// Opens the port; `None` where no server is wanted, or where a default is taken.
    pub async fn open(self) -> Result<Option<TcpListener>, ListenError> {
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
                Ok(Some(listener))
            }
            Err(error) if is_default => {
                tracing::warn!(
                    flag,
                    address = %address,
                    %error,
                    "the default address is not to be had; going on without this server"
                );
                Ok(None)
            }
            Err(source) => Err(ListenError { flag, address, source }),
        }
    }
}

/// Both IP versions by one socket, as in Go; IPv4 alone where the machine has no IPv6.
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
    use super::*;

    const FLAG: &str = "--health-addr";

    #[tokio::test]
    async fn a_default_port_that_is_taken_costs_only_its_server() {
        let taken = any_host(0).await.expect("some port is free");
        let port = taken.local_addr().expect("it is bound").port();
        let opened = Wish { flag: FLAG, given: None, default_port: port }.open().await;
        assert!(opened.expect("no reason to end").is_none());
    }

    #[tokio::test]
    async fn a_port_that_was_asked_for_and_is_taken_is_an_error_that_names_the_flag() {
        let taken = any_host(0).await.expect("some port is free");
        let port = taken.local_addr().expect("it is bound").port();
        let opened = Wish { flag: FLAG, given: Some(Address::AnyHost(port)), default_port: 1 }.open().await;
        let error = opened.expect_err("the port is taken").to_string();
        assert!(error.contains(FLAG) && error.contains(&port.to_string()), "{error}");
    }

    #[tokio::test]
    async fn a_server_can_be_switched_off_and_take_any_port() {
        let open = |given| Wish { flag: FLAG, given: Some(given), default_port: 1 }.open();
        assert!(open(Address::Off).await.expect("nothing to fail").is_none());
        let listener = open(Address::Host("127.0.0.1:0".into())).await.expect("some port is free");
        assert_ne!(listener.expect("it was asked for").local_addr().expect("it is bound").port(), 0);
    }
}
