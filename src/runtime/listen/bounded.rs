//! Bounds what clients hold open. Everybody in the cluster's network can connect, and no connection may keep the kubelet or
//! a scraper out, or take memory for ever.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::serve::Listener;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio_io_timeout::TimeoutStream;

/// A scraper needs one connection, the kubelet two.
const MAX_CONNECTIONS_OF_PEER: usize = 16;
/// In all. With TLS, a connection takes up to 50 KiB of memory.
const MAX_CONNECTIONS: usize = 128;
/// How long a connection may be silent, or accept no byte of an answer. A scraper that comes less often connects again.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// Accepts connections as long as neither their address nor all of them together have too many.
#[derive(Debug)]
pub struct BoundedListener {
    listener: TcpListener,
    open: Arc<OpenConnections>,
}

#[derive(Default, Debug)]
struct OpenConnections(Mutex<BTreeMap<IpAddr, usize>>);

impl BoundedListener {
    pub fn new(listener: TcpListener) -> Self {
        Self { listener, open: Arc::default() }
    }
}

impl Listener for BoundedListener {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        loop {
            let (stream, peer) = Listener::accept(&mut self.listener).await;
            match Place::take(&self.open, peer.ip().to_canonical()) {
                Some(place) => return (Connection::new(stream, place), peer),
                // Closed.
                None => tracing::debug!(%peer, "too many connections"),
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// One of the connections of an address, until it is dropped.
struct Place {
    open: Arc<OpenConnections>,
    peer: IpAddr,
}

impl Place {
    fn take(open: &Arc<OpenConnections>, peer: IpAddr) -> Option<Self> {
        let mut counts = open.0.lock();
        let (all, own) = (counts.values().sum::<usize>(), counts.get(&peer).copied().unwrap_or_default());
        if all >= MAX_CONNECTIONS || own >= MAX_CONNECTIONS_OF_PEER {
            return None;
        }
        counts.insert(peer, own.saturating_add(1));
        Some(Self { open: open.clone(), peer })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = self.open.0.lock();
        if let Some(own) = counts.remove(&self.peer).filter(|own| *own > 1) {
            counts.insert(self.peer, own.saturating_sub(1));
        }
    }
}

/// A connection that ends when nothing moves on it.
pub struct Connection {
    stream: Pin<Box<TimeoutStream<TcpStream>>>,
    _place: Place,
}

impl Connection {
    fn new(stream: TcpStream, place: Place) -> Self {
        let mut stream = TimeoutStream::new(stream);
        stream.set_read_timeout(Some(IDLE_TIMEOUT));
        stream.set_write_timeout(Some(IDLE_TIMEOUT));
        Self { stream: Box::pin(stream), _place: place }
    }
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.stream.as_mut().poll_read(cx, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.stream.as_mut().poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.as_mut().poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.as_mut().poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpSocket;

    use super::*;

    /// A server that answers each byte, and its port.
    async fn serve() -> u16 {
        let mut listener = BoundedListener::new(TcpListener::bind("127.0.0.1:0").await.unwrap());
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            loop {
                let (mut connection, _) = listener.accept().await;
                tokio::spawn(async move {
                    while let Ok(byte) = connection.read_u8().await {
                        let _ = connection.write_u8(byte).await;
                    }
                });
            }
        });
        port
    }

    async fn connect(from: &str, port: u16) -> TcpStream {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(format!("{from}:0").parse().unwrap()).unwrap();
        socket.connect(SocketAddr::from(([127, 0, 0, 1], port))).await.unwrap()
    }

    async fn is_served(stream: &mut TcpStream) -> bool {
        stream.write_u8(7).await.is_ok() && stream.read_u8().await.is_ok()
    }

    #[tokio::test]
    async fn an_address_with_too_many_connections_keeps_no_other_out() {
        let port = serve().await;
        let mut open = Vec::new();
        for number in 0..MAX_CONNECTIONS_OF_PEER + 4 {
            let mut stream = connect("127.0.0.1", port).await;
            assert_eq!(is_served(&mut stream).await, number < MAX_CONNECTIONS_OF_PEER, "{number}");
            open.push(stream);
        }
        assert!(is_served(&mut connect("127.0.0.2", port).await).await);
        open.remove(0);
        let mut again = connect("127.0.0.1", port).await;
        while !is_served(&mut again).await {
            again = connect("127.0.0.1", port).await;
        }
    }

    #[tokio::test]
    async fn all_addresses_together_have_a_limit() {
        let open = Arc::default();
        let peers = (1..=u8::MAX).map(|last| IpAddr::from([127, 0, 0, last]));
        let places: Vec<_> = peers.filter_map(|peer| Place::take(&open, peer)).collect();
        assert_eq!(places.len(), MAX_CONNECTIONS);
        drop(places);
        assert!(open.0.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_connection_is_closed() {
        let port = serve().await;
        let mut silent = connect("127.0.0.1", port).await;
        assert!(is_served(&mut silent).await);
        assert!(silent.read_u8().await.is_err());
    }
}
