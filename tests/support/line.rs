//! A line between a controller and its API server: TCP as it is, with the TLS in it. It can be cut, held up and mended.

use std::net::SocketAddr;
use std::path::Path;

use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch::{Receiver, Sender, channel};

use super::namespace::Namespace;

/// A scenario's own way to the API server, until the test ends.
pub struct Line {
    kubeconfig: String,
    state: Sender<State>,
    // Bound, and never listens: the port stays ours while the line is cut, and refuses.
    _port: TcpSocket,
}

#[derive(Clone, Copy, Default)]
struct State {
    flow: Flow,
    /// Connections with a lower number never hear anything again.
    deaf: usize,
    /// How many connections there were.
    connections: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Flow {
    #[default]
    Whole,
    Held,
    Cut,
}

impl Line {
    /// To the API server of a namespace, for a controller.
    pub async fn to(ns: &Namespace) -> Self {
        let kubeconfig = std::fs::read_to_string(&ns.world.account).expect("the kubeconfig can be read");
        let mut kubeconfig: Value = serde_saphyr::from_str(&kubeconfig).expect("the kubeconfig is YAML");
        let url = kubeconfig.pointer_mut("/clusters/0/cluster/server").expect("the kubeconfig names a server");
        let server = url.as_str().and_then(|url| url.strip_prefix("https://")).expect("it is reached by TLS");
        let server: SocketAddr = server.parse().expect("it has an address and a port");
        let port = bound(SocketAddr::new(server.ip(), 0));
        let here = port.local_addr().expect("it is bound");
        *url = format!("https://{here}").into();
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}.kubeconfig", super::unique("line")));
        // JSON is YAML.
        std::fs::write(&path, kubeconfig.to_string()).expect("a file can be written");
        let kubeconfig = path.to_str().expect("a directory of the tests has a name in UTF-8").to_owned();
        let (state, _) = channel(State::default());
        tokio::spawn(listen(here, server, state.clone()));
        Self { kubeconfig, state, _port: port }
    }

    /// The kubeconfig that leads through the line.
    pub fn kubeconfig(&self) -> &str {
        &self.kubeconfig
    }

    /// From now on all connections are reset, and new ones refused.
    pub fn cut(&self) {
        self.state.send_modify(|state| state.flow = Flow::Cut);
    }

    /// From now on connections are accepted and nothing is delivered, in neither direction.
    pub fn hold(&self) {
        self.state.send_modify(|state| state.flow = Flow::Held);
    }

    /// The connections that there are stay, and never deliver anything again; new ones are well.
    pub fn lose_connections(&self) {
        self.state.send_modify(|state| state.deaf = state.connections);
    }

    /// All is well again, and what was held up is delivered.
    pub fn mend(&self) {
        self.state.send_modify(|state| state.flow = Flow::Whole);
    }
}

fn bound(address: SocketAddr) -> TcpSocket {
    let socket = TcpSocket::new_v4().expect("a socket needs nothing");
    // So that what listens can go and come while the port stays bound.
    socket.set_reuseport(true).expect("Linux can do that");
    socket.bind(address).expect("the port is free, or ours");
    socket
}

async fn listen(here: SocketAddr, server: SocketAddr, sender: Sender<State>) {
    let mut state = sender.subscribe();
    loop {
        until(&mut state, |state| state.flow != Flow::Cut).await;
        let listener: TcpListener = bound(here).listen(64).expect("the port is ours");
        loop {
            let client = tokio::select! {
                () = until(&mut state, |state| state.flow == Flow::Cut) => break,
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
                carry(from_client, to_server, number, state.clone()),
                carry(from_server, to_client, number, state.clone()),
            )
        };
        let mut state = state.clone();
        tokio::select! {
            // An error is a connection that broke at one end: it ends at the other end too.
            _ended = both => return,
            () = until(&mut state, |state| state.flow == Flow::Cut) => {}
        }
    }
    // Closing it then is a reset.
    for end in [client, server] {
        let _closed_already = end.set_zero_linger();
    }
}

async fn carry(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    number: usize,
    mut state: Receiver<State>,
) -> std::io::Result<()> {
    let mut buffer = vec![0; 1 << 16];
    loop {
        let length = from.read(&mut buffer).await?;
        until(&mut state, |state| state.flow == Flow::Whole && number >= state.deaf).await;
        if length == 0 {
            return to.shutdown().await;
        }
        to.write_all(&buffer[..length]).await?;
    }
}

/// Waits until the line is in such a state; for ever when the scenario has ended.
async fn until(state: &mut Receiver<State>, wanted: impl Fn(&State) -> bool) {
    if state.wait_for(wanted).await.is_err() {
        std::future::pending().await
    }
}
