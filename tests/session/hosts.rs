//! Which servers are connected to, and what is said of those that a tenant chose.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use caip_openstack::openstack::hosts::HostList;
use caip_openstack::openstack::session::Sessions;
use caip_openstack::openstack::{AllowedHosts, Clouds, Credentials, Error, ErrorKind, HttpsProxy, Neutron};
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};

use super::server::secret;
use super::*;
use crate::support::Tls;

fn allowed(list: &str) -> AllowedHosts {
    AllowedHosts::new(list.parse::<HostList>().expect("a list").0, BTreeSet::new())
}

async fn connect_to(url: &str, hosts: AllowedHosts) -> Result<Arc<dyn Neutron>, Error> {
    Sessions::new(clock()).allowed_hosts(hosts).connect("team-a", &credentials(url, "hunter2")).await
}

#[tokio::test]
async fn a_server_that_is_not_allowed_is_not_connected_to() {
    let server = Server::start(|_: &ReceivedRequest| listing(&[])).await;
    let port = server.url.rsplit(':').next().expect("a port").to_owned();
    let by_name = format!("http://localhost:{port}");
    for (url, list) in [
        (&server.url, ""),
        (&by_name, ""),
        (&server.url, "*"),
        (&format!("http://no-such-host.invalid:{port}"), "10.0.0.0/8"),
        (&by_name, "localhost"),
        (&server.url, "cloud.test"),
        (&by_name, "cloud.test"),
    ] {
        let error = connect_to(url, allowed(list)).await.err().expect("it is refused");
        assert_eq!(error.kind, ErrorKind::Credentials, "{url} with {list:?}: {error}");
        assert!(error.message.contains("is not a server that this controller may connect to"), "{error}");
        assert!(!error.is_concealed && error.to_string().contains("--openstack-hosts"), "{error}");
    }
    assert_eq!(server.requests().len(), 0);
    for (url, list) in [(&server.url, "127.0.0.0/8"), (&by_name, "127.0.0.1,::1"), (&by_name, "localhost,127.0.0.1")] {
        assert!(connect_to(url, allowed(list)).await.is_ok(), "{url} with {list:?}");
    }
}

#[tokio::test]
async fn a_neutron_that_is_not_allowed_is_not_connected_to() {
    let server = Server::start(|_: &ReceivedRequest| listing(&[])).await;
    let port = server.url.rsplit(':').next().expect("a port").to_owned();
    server.set_keystone(move |_| Some(token(1, &format!("http://127.0.0.2:{port}"), "2026-11-21T10:00:00Z")));
    let neutron = connect_to(&server.url, allowed("127.0.0.1")).await.expect("Keystone is allowed");
    let error = neutron.list_floating_ips().await.expect_err("Neutron is not");
    assert_eq!(error.kind, ErrorKind::Credentials, "{error}");
    assert!(error.message.contains("127.0.0.2:"), "{error}");
    assert_eq!(server.count("GET"), 0);
}

#[tokio::test(start_paused = true)]
async fn what_a_server_answers_is_concealed_unless_it_is_openstack() {
    let server = Server::start(|_: &ReceivedRequest| Reply::text(200, "SSH-2.0")).await;
    let hosts = || AllowedHosts::all().concealed();
    for (reply, is_concealed) in [
        (Reply::text(200, "hello") as Reply, true),
        (Reply::text(401, "who are you?"), true),
        (Reply::text(404, "<html>"), true),
        (Reply::text(503, "later"), true),
        (Reply::text(302, "").header("Location", "http://10.0.0.1/"), true),
        (Reply::Break, true),
        (Reply::unauthorized(), false),
    ] {
        let reply = std::sync::Mutex::new(Some(reply));
        server.set_keystone(move |_| reply.lock().expect("no panic").take());
        let error = connect_to(&server.url, hosts()).await.err().expect("it is refused");
        assert_eq!(error.is_concealed, is_concealed, "{error}");
    }
    let gone = connect_to("http://127.0.0.1:1", hosts()).await.err().expect("nothing listens there");
    assert!(gone.is_concealed && gone.message.contains("refuses connections"), "{gone}");

    server.set_keystone(|_| None);
    let neutron = connect_to(&server.url, hosts()).await.expect("it connects");
    for (reply, is_concealed) in [
        ((200, "SSH-2.0"), true),
        ((403, "<html>"), true),
        ((401, "who are you?"), true),
        ((503, "later"), true),
        ((401, r#"{"error": {"code": 401, "message": "no"}}"#), true),
        ((401, r#"{"error": {"code": 401, "title": "Unauthorized", "message": "no"}}"#), false),
        ((403, r#"{"NeutronError": {"type": "PolicyNotAuthorized", "message": "no"}}"#), false),
    ] {
        // With a wait that a later call refuses at once.
        let after = if reply.0 == 503 { "60" } else { "1" };
        server.set_neutron(move |_: &ReceivedRequest| Reply::text(reply.0, reply.1).header("Retry-After", after));
        let errors = [
            neutron.list_floating_ips().await.expect_err("it fails"),
            neutron.has_tags().await.expect_err("it fails"),
            neutron.get_floating_ip(&FloatingIpId::new("f1")).await.expect_err("it fails"),
        ];
        for error in errors {
            assert_eq!(error.is_concealed, is_concealed, "{error}");
        }
        sleep(Duration::from_secs(90)).await;
    }
}

/// A proxy that refuses everything; returns its URL and the first line of each request.
async fn refusing_proxy() -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let record = seen.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = [0; 1024];
            let length = stream.read(&mut head).await.unwrap_or(0);
            let text = String::from_utf8_lossy(&head[..length]).into_owned();
            record.lock().push(text.lines().next().unwrap_or_default().to_owned());
            let _closed_by_client = stream.write_all(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n").await;
        }
    });
    (url, seen)
}

#[tokio::test]
async fn a_proxy_is_for_https_alone_and_not_for_its_exceptions() {
    let server = Server::start(|_: &ReceivedRequest| listing(&[])).await;
    let (url, seen) = refusing_proxy().await;
    let proxy: HttpsProxy = url.parse().expect("a proxy");
    for (keystone, exceptions, is_used) in [
        ("https://keystone.example.com/v3", "", true),
        ("https://keystone.example.com/v3", "other.example.com,192.0.2.0/24", true),
        ("https://keystone.invalid/v3", "invalid", false),
        ("https://localhost:1/v3", "", false),
        (&*server.url, "", false),
    ] {
        let sessions = Sessions::new(clock()).proxy(Some(proxy.clone().except(exceptions)));
        let result = sessions.connect("team-a", &credentials(keystone, "hunter2")).await;
        assert_eq!(result.is_ok(), keystone == server.url, "{keystone} without {exceptions}: {:?}", result.err());
        let requests = std::mem::take(&mut *seen.lock());
        let tunnel = "CONNECT keystone.example.com:443 HTTP/1.1";
        assert!(requests.iter().all(|request| request == tunnel), "{requests:?}");
        assert_eq!(!requests.is_empty(), is_used, "{keystone} without {exceptions}: {requests:?}");
    }
}

/// Serves a proxy that tunnels to one server, whichever it is asked for; returns the requests for a tunnel.
fn tunnel_to<L: axum::serve::Listener>(server: SocketAddr, mut proxy: L) -> Arc<Mutex<Vec<String>>> {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let record = seen.clone();
    tokio::spawn(async move {
        loop {
            let (mut client, _) = proxy.accept().await;
            let mut head = [0; 1024];
            let length = client.read(&mut head).await.expect("a request");
            record.lock().push(String::from_utf8_lossy(&head[..length]).to_lowercase());
            client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.expect("it is awaited");
            let mut server = TcpStream::connect(server).await.expect("it listens");
            tokio::spawn(async move { copy_bidirectional(&mut client, &mut server).await });
        }
    });
    seen
}

#[tokio::test]
async fn a_proxy_gets_its_own_password_and_tunnels_the_rest() {
    for scheme in ["http", "https"] {
        let (tls, _) = Tls::listen().await;
        let address = tls.address();
        let url = "https://keystone.example.com";
        let server = Server::serve(tls, url.to_owned(), |_: &ReceivedRequest| listing(&[]));
        let (proxy, seen) = if scheme == "https" {
            let (listener, _) = Tls::listen().await;
            (listener.address(), tunnel_to(address, listener))
        } else {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
            (listener.local_addr().expect("an address"), tunnel_to(address, listener))
        };
        let proxy = format!("{scheme}://user:pass%20word@{proxy}").parse().expect("a proxy");
        let credentials = Credentials::from_secret(&secret(url, "hunter2", "verify: false"), "openstack", None);
        let sessions = Sessions::new(clock()).proxy(Some(proxy));
        let session = sessions.connect("team-a", &credentials.expect("they are well formed")).await;
        session.expect("it connects").list_floating_ips().await.expect("it lists");
        assert_eq!(server.requests().len(), 2);
        let tunnels = seen.lock();
        assert_eq!(tunnels.len(), 1, "{tunnels:?}");
        for line in [
            "connect keystone.example.com:443 http/1.1\r\n",
            "proxy-authorization: basic dxnlcjpwyxnzihdvcmq=\r\n",
            "user-agent: caip-openstack/",
        ] {
            assert!(tunnels[0].contains(line), "{line} in {tunnels:?}");
        }
    }
}
