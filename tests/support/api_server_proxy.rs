//! A TCP proxy between a controller and its API server, which can disconnect, hold back data and work again.

use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch::{Receiver, Sender, channel};

use super::kubeconfig;
use super::namespace::Namespace;

/// Where a kubeconfig has the URL.
const SERVER: &str = "/clusters/0/cluster/server";

/// Ends with the test.
pub struct ApiServerProxy {
    kubeconfig: String,
    state: Sender<State>,
    // Bound, and never listens: the port stays ours while it is disconnected, and refuses connections.
    _port: TcpSocket,
}

#[derive(Clone, Copy, Default)]
struct State {
    flow: Flow,
    /// Connections with a lower number never deliver anything again.
    silent: usize,
    /// How many connections there were.
    connections: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Flow {
    #[default]
    Open,
    Held,
    Disconnected,
}

impl ApiServerProxy {
    /// A proxy to the API server of a namespace.
    pub async fn start(ns: &Namespace) -> Self {
        let original = kubeconfig::read(&ns.world.account);
        let url = original.pointer(SERVER).and_then(Value::as_str).expect("the kubeconfig names a server");
        let server = url.strip_prefix("https://").expect("it is reached by TLS");
        let server: SocketAddr = server.parse().expect("it has an address and a port");
        let port = bind(SocketAddr::new(server.ip(), 0));
        let here = port.local_addr().expect("it is bound");
        let (account, name, url) = (&ns.world.account, super::unique("proxy"), format!("https://{here}"));
        let kubeconfig = kubeconfig::write_changed(account, &name, SERVER, url.into());
        let (state, _) = channel(State::default());
        tokio::spawn(listen(here, server, state.clone()));
        Self { kubeconfig, state, _port: port }
    }

    /// A kubeconfig that leads through the proxy.
    pub fn kubeconfig(&self) -> &str {
        &self.kubeconfig
    }

    /// Resets all connections, and refuses new ones.
    pub fn disconnect(&self) {
        self.state.send_modify(|state| state.flow = Flow::Disconnected);
    }

    /// Accepts connections, and delivers nothing in either direction.
    pub fn hold(&self) {
        self.state.send_modify(|state| state.flow = Flow::Held);
    }

    /// Existing connections stay open and never deliver anything again; new ones work.
    pub fn silence_open_connections(&self) {
        self.state.send_modify(|state| state.silent = state.connections);
    }

    /// Works again, and delivers what was held back.
    pub fn restore(&self) {
        self.state.send_modify(|state| state.flow = Flow::Open);
    }
}

fn bind(address: SocketAddr) -> TcpSocket {
    let socket = TcpSocket::new_v4().expect("a socket needs nothing");
    // So that a listener can end and start while the port stays bound.
    socket.set_reuseport(true).expect("Linux can do that");
    socket.bind(address).expect("the port is free, or ours");
    socket
}

async fn listen(here: SocketAddr, server: SocketAddr, sender: Sender<State>) {
    let mut state = sender.subscribe();
    loop {
        await_state(&mut state, |state| state.flow != Flow::Disconnected).await;
        let listener: TcpListener = bind(here).listen(64).expect("the port is ours");
        loop {
            let client = tokio::select! {
                () = await_state(&mut state, |state| state.flow == Flow::Disconnected) => break,
                accepted = listener.accept() => accepted.map(|(client, _)| client),
            };
            if let Ok(client) = client {
                let number = sender.borrow().connections;
                sender.send_modify(|state| state.connections += 1);
                tokio::spawn(connect(client, server, number, sender.subscribe()));
            }
        }
    }
}

async fn connect(mut client: TcpStream, server: SocketAddr, number: usize, state: Receiver<State>) {
    let Ok(mut server) = TcpStream::connect(server).await else { return };
    {
        let (from_client, to_client) = client.split();
        let (from_server, to_server) = server.split();
        let both = async {
            tokio::try_join!(
                copy(from_client, to_server, number, state.clone()),
                copy(from_server, to_client, number, state.clone()),
            )
        };
        let mut state = state.clone();
        tokio::select! {
            // An error is a connection that broke at one end: the other end is closed too.
            _ended = both => return,
            () = await_state(&mut state, |state| state.flow == Flow::Disconnected) => {}
        }
    }
    // Closing it is a reset then.
    for end in [client, server] {
        let _closed_already = end.set_zero_linger();
    }
}

async fn copy(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    number: usize,
    mut state: Receiver<State>,
) -> std::io::Result<()> {
    let mut buffer = vec![0; 1 << 16];
    loop {
        let length = from.read(&mut buffer).await?;
        await_state(&mut state, |state| state.flow == Flow::Open && number >= state.silent).await;
        if length == 0 {
            return to.shutdown().await;
        }
        to.write_all(&buffer[..length]).await?;
    }
}

/// Waits for a state; for ever when the scenario has ended.
async fn await_state(state: &mut Receiver<State>, wanted: impl Fn(&State) -> bool) {
    if state.wait_for(wanted).await.is_err() {
        std::future::pending().await
    }
}
