//! What the servers of one namespace may take, whatever they do: sessions, and answers that are read.

use std::sync::Arc;
use std::time::Duration;

use caip_openstack::openstack::session::Sessions;
use caip_openstack::openstack::{Clouds, Credentials, ErrorKind, Neutron};
use futures::future::join_all;
use k8s_openapi::ByteString;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::server::{ReceivedRequest, Reply, Server, clock, credentials, listing, row, secret};

/// Sessions of one namespace with several servers.
async fn connect_all(sessions: &Sessions, namespace: &str, servers: &[Server]) -> Vec<Arc<dyn Neutron>> {
    let connect = async |server: &Server| {
        sessions.connect(namespace, &credentials(&server.url, "hunter2")).await.expect("it connects")
    };
    join_all(servers.iter().map(connect)).await
}

#[tokio::test(start_paused = true)]
async fn a_namespace_has_a_limited_number_of_sessions() {
    let server = Server::start(|_: &ReceivedRequest| listing(&[])).await;
    let sessions = Sessions::new(clock());
    let connect = |namespace: &'static str, number: usize| {
        let (sessions, credentials) = (&sessions, credentials(&server.url, &format!("password-{number}")));
        async move { sessions.connect(namespace, &credentials).await }
    };
    let mut open = Vec::new();
    let error = loop {
        match connect("team-a", open.len()).await {
            Ok(session) => open.push(session),
            Err(error) => break error,
        }
    };
    // Some of their memory is what the credentials say.
    assert!((190..205).contains(&open.len()), "{} sessions", open.len());
    assert_eq!(
        (error.kind, error.to_string().as_str()),
        (
            ErrorKind::Credentials,
            "authenticate: the pools of namespace team-a have so many different credentials and CAs that they take more than 2048 KiB of memory: let pools share a Secret, shorten cacert, or use more namespaces"
        )
    );
    connect("team-a", 0).await.expect("it is open");
    connect("team-b", 999).await.expect("it is another namespace");
    open.pop();
    connect("team-a", 999).await.expect("another one ended");
}

/// As where all pools of a namespace trust one private CA, in addition to the system's.
#[tokio::test(start_paused = true)]
async fn sessions_that_trust_the_same_cas_share_them() {
    let server = Server::start(|_: &ReceivedRequest| listing(&[])).await;
    let sessions = Sessions::new(clock());
    let count = async |namespace: &str, ca: &dyn Fn(usize) -> String| {
        let mut open = Vec::new();
        while open.len() < 50 {
            let mut data = secret(&server.url, &format!("password-{}", open.len()), "");
            data.insert("cacert".to_owned(), ByteString(ca(open.len()).into_bytes()));
            let credentials = Credentials::from_secret(&data, "openstack", None).expect("they are well formed");
            match sessions.connect(namespace, &credentials).await {
                Ok(session) => open.push(session),
                Err(_) => break,
            }
        }
        open.len()
    };
    let shared = ca_certificate("shared");
    assert_eq!(count("team-a", &|_| shared.clone()).await, 50);
    let large = |number: usize| (0..20).map(|each| ca_certificate(&format!("{number}-{each}"))).collect::<String>();
    assert!(count("team-b", &large).await < 50);
}

fn ca_certificate(name: &str) -> String {
    let mut parameters = rcgen::CertificateParams::new(Vec::new()).expect("no names");
    parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    parameters.distinguished_name.push(rcgen::DnType::CommonName, name);
    let key = rcgen::KeyPair::generate().expect("a key");
    parameters.self_signed(&key).expect("a certificate").pem()
}

/// A listing of 300 KiB: 200 at once, the rest when it is wanted.
fn large_listing(is_complete: watch::Receiver<bool>) -> Reply {
    let begin = format!(r#"{{"floatingips": [], "more": "{}"#, "x".repeat(200 << 10));
    Reply::in_two_parts(begin, async move {
        let mut is_complete = is_complete;
        is_complete.wait_for(|is_complete| *is_complete).await.expect("the test lasts longer");
        format!(r#"{}"}}"#, "x".repeat(100 << 10))
    })
}

#[tokio::test(start_paused = true)]
async fn a_namespace_reads_one_large_answer_at_a_time() {
    let (complete, is_complete) = watch::channel(false);
    let slow = Server::start(move |_: &ReceivedRequest| large_listing(is_complete.clone())).await;
    let quick = Server::start(|_: &ReceivedRequest| large_listing(watch::channel(true).1)).await;
    let small = Server::start(|_: &ReceivedRequest| listing(&["f1"])).await;
    let sessions = Sessions::new(clock());
    let own = connect_all(&sessions, "team-a", &[slow, quick.clone(), small]).await;
    let other = connect_all(&sessions, "team-b", &[quick]).await;
    let second = Duration::from_secs(1);
    let stalled = own[0].list_floating_ips();
    let others = async {
        sleep(second).await;
        assert_eq!(own[2].list_floating_ips().await.expect("it is small").len(), 1);
        timeout(second, other[0].list_floating_ips()).await.expect("another namespace").expect("it is complete");
        timeout(second, own[1].list_floating_ips()).await.expect_err("it is the second large one");
        complete.send(true).expect("it is awaited");
        timeout(second, own[1].list_floating_ips()).await.expect("none is read").expect("it is complete");
    };
    let (stalled, ()) = tokio::join!(stalled, others);
    stalled.expect("it is complete");
}

/// Each waits for the others while it has pages left to read.
#[tokio::test(start_paused = true)]
async fn many_large_listings_of_a_namespace_all_end() {
    let mut servers = Vec::new();
    for _ in 0..12 {
        let page = |request: &ReceivedRequest| {
            let number = ["marker=f1", "marker=f0"].iter().position(|marker| request.path.contains(marker));
            let id = format!("f{}", 2 - number.unwrap_or(2));
            let links: &[_] = if number == Some(0) { &[] } else { &[json!({"rel": "next"})] };
            let body = json!({"floatingips": [row(&id)], "floatingips_links": links, "more": "x".repeat(150 << 10)});
            Reply::later(async move {
                sleep(Duration::from_millis(200)).await;
                Reply::new(200, body)
            })
        };
        servers.push(Server::start(page).await);
    }
    let sessions = Sessions::new(clock());
    let listings = connect_all(&sessions, "team-a", &servers).await;
    for listed in join_all(listings.iter().map(|neutron| neutron.list_floating_ips())).await {
        assert_eq!(listed.expect("it is listed").len(), 3);
    }
}
