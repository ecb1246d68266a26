//! Servers that send more than anybody can use: what is received is bounded, and the error names the bound.

use std::iter;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use caip_openstack::floating_ip::NetworkId;
use caip_openstack::openstack::session::Sessions;
use caip_openstack::openstack::{Clouds, Error, ErrorKind, Filter, Neutron, NewFloatingIp};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::connect;
use super::server::{ReceivedRequest, Reply, Server, clock, credentials, row};

async fn connect_with_limit(server: &Server, max_floating_ips: usize) -> Arc<dyn Neutron> {
    let sessions = Sessions::new(clock()).max_floating_ips(max_floating_ips);
    sessions.connect("team-a", &credentials(&server.url, "hunter2")).await.expect("it connects")
}

/// How a listing of these rows ends where a project may have three.
async fn list(rows: Vec<Value>) -> Result<usize, Error> {
    let server = Server::start(move |_: &ReceivedRequest| Reply::new(200, json!({"floatingips": rows}))).await;
    connect_with_limit(&server, 3).await.list_floating_ips().await.map(|listed| listed.len())
}

fn rows(count: usize) -> Vec<Value> {
    (0..count).map(|number| row(&format!("f{number}"))).collect()
}

#[tokio::test(start_paused = true)]
async fn more_floating_ips_than_a_project_may_have_are_an_error() {
    assert_eq!(list(rows(3)).await.expect("they are as many as may be"), 3);
    let nothing = iter::repeat_n(json!(0), 4).collect();
    for beyond in [rows(4), nothing] {
        let error = list(beyond).await.expect_err("it is one too many");
        let expected = "list floating IPs: the answer has more than 3 rows, or takes more than 3 KiB of memory: if that is right, raise --max-floating-ips and the controller's memory";
        assert_eq!((error.kind, error.to_string().as_str()), (ErrorKind::Malformed, expected));
    }
}

#[tokio::test(start_paused = true)]
async fn what_floating_ips_carry_counts_as_well() {
    let with_tags = |count: usize| {
        let tags: Vec<_> = (0..count).map(|number| format!("t{number}")).collect();
        rows(3).into_iter().map(|row| row_with(row, "tags", json!(tags))).collect()
    };
    assert_eq!(list(with_tags(5)).await.expect("they are few"), 3);
    assert_eq!(list(with_tags(60)).await.expect_err("they are many").kind, ErrorKind::Malformed);
}

fn row_with(mut row: Value, field: &str, value: Value) -> Value {
    row[field] = value;
    row
}

/// Otherwise the limits would start again with each list.
#[tokio::test(start_paused = true)]
async fn a_page_with_several_lists_is_refused() {
    let server = Server::start(|_: &ReceivedRequest| {
        let (one, two) = (row("a"), row("b"));
        Reply::text(200, &format!(r#"{{"floatingips": [{one}], "floatingips": [{two}]}}"#))
    })
    .await;
    let error = connect(&server).await.list_floating_ips().await.expect_err("Neutron never sends it");
    assert_eq!(error.kind, ErrorKind::Malformed);
}

#[tokio::test(start_paused = true)]
async fn a_listing_without_an_end_ends() {
    let number = AtomicUsize::new(0);
    let server = Server::start(move |_: &ReceivedRequest| {
        let id = format!("f{}", number.fetch_add(1, Ordering::Relaxed));
        Reply::new(200, json!({"floatingips": [row(&id)], "floatingips_links": [{"rel": "next"}]}))
    })
    .await;
    let error = connect_with_limit(&server, 20).await.list_floating_ips().await.expect_err("it has no end");
    assert_eq!((error.kind, server.count("GET /network")), (ErrorKind::Malformed, 21));
}

#[tokio::test(start_paused = true)]
async fn a_listing_that_changes_with_each_page_is_given_up() {
    let again = || Reply::new(200, json!({"floatingips": [row("a")], "floatingips_links": [{"rel": "next"}]}));
    let server = Server::start(move |_: &ReceivedRequest| again()).await;
    let error = connect(&server).await.list_floating_ips().await.expect_err("it never ends");
    assert_eq!((error.kind, server.count("GET /network")), (ErrorKind::Conflict, 6));
}

#[tokio::test(start_paused = true)]
async fn a_listing_whose_pages_are_slow_ends_in_time() {
    let number = AtomicUsize::new(0);
    let server = Server::start(move |_: &ReceivedRequest| {
        let id = format!("f{}", number.fetch_add(1, Ordering::Relaxed));
        Reply::later(async move {
            sleep(Duration::from_secs(9)).await;
            Reply::new(200, json!({"floatingips": [row(&id)], "floatingips_links": [{"rel": "next"}]}))
        })
    })
    .await;
    let neutron = connect(&server).await;
    let begin = Instant::now();
    let error = neutron.list_floating_ips().await.expect_err("it takes too long");
    assert_eq!(error.to_string(), "list floating IPs: not all pages arrived within 60 s");
    assert_eq!((error.kind, begin.elapsed().as_secs()), (ErrorKind::NoAnswer, 60));
}

/// An empty listing of this many bytes.
fn listing_of(bytes: usize) -> Reply {
    let empty = json!({"floatingips": [], "more": ""}).to_string().len();
    Reply::new(200, json!({"floatingips": [], "more": "x".repeat(bytes - empty)}))
}

#[tokio::test(start_paused = true)]
async fn a_body_has_at_most_the_size_that_a_page_needs() {
    let list = async |bytes: usize| {
        let server = Server::start(move |_: &ReceivedRequest| listing_of(bytes)).await;
        connect(&server).await.list_floating_ips().await.map(|listed| listed.len())
    };
    assert_eq!(list(2 << 20).await.expect("it is as long as may be"), 0);
    let error = list((2 << 20) + 1).await.expect_err("it is a byte longer");
    assert_eq!(error.kind, ErrorKind::Malformed);
    assert!(error.message.ends_with("answers with more than 2048 KiB"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn the_reply_to_a_write_is_short_and_otherwise_its_outcome_is_unknown() {
    let create = async |bytes: usize| {
        let body = json!({"floatingip": row("f1"), "more": "x".repeat(bytes)});
        let server = Server::start(move |_: &ReceivedRequest| Reply::new(201, body.clone())).await;
        let new = NewFloatingIp { network: NetworkId::new("n1"), subnet: None, description: "d".to_owned() };
        connect(&server).await.create_floating_ip(&new, &|| true).await
    };
    create(100 << 10).await.expect("it is short enough");
    let error = create(128 << 10).await.expect_err("it is too long");
    assert!(error.is_unknown() && error.message.ends_with("answers with more than 128 KiB"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn headers_are_short_and_otherwise_the_outcome_of_a_write_is_unknown() {
    let create = async |bytes: usize| {
        let reply = move || Reply::new(201, json!({"floatingip": row("f1")})).header("X-Long", &"x".repeat(bytes));
        let server = Server::start(move |_: &ReceivedRequest| reply()).await;
        let new = NewFloatingIp { network: NetworkId::new("n1"), subnet: None, description: "d".to_owned() };
        connect(&server).await.create_floating_ip(&new, &|| true).await
    };
    create(15 << 10).await.expect("they are short enough");
    for bytes in [16 << 10, 300 << 10] {
        let error = create(bytes).await.expect_err("they are too long");
        let expected = "answers with too many headers, or with more than 16 KiB of them";
        assert!(error.is_unknown() && error.message.ends_with(expected), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_counts_however_long_it_is() {
    for status in [409, 503] {
        let server = Server::start(move |_: &ReceivedRequest| Reply::text(status, &"<p>".repeat(4 << 20))).await;
        let error = connect(&server).await.list_floating_ips().await.expect_err("it is refused");
        assert_eq!(error.status, Some(status));
        assert!(error.message.ends_with("and not from OpenStack by its form"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn json_that_is_nested_too_deep_is_an_error() {
    for open in ["[", "{\"floatingips\":", "{\"floatingips\":[{\"id\":"] {
        let server = Server::start(move |_: &ReceivedRequest| Reply::text(200, &open.repeat(100_000))).await;
        let neutron = connect(&server).await;
        assert_eq!(neutron.list_floating_ips().await.expect_err("it is no listing").kind, ErrorKind::Malformed);
        assert_eq!(neutron.quota().await.expect_err("it is no quota").kind, ErrorKind::Malformed);
        let networks = neutron.find_networks(&Filter::default()).await;
        assert_eq!(networks.expect_err("it is no listing").kind, ErrorKind::Malformed);
    }
}

#[tokio::test(start_paused = true)]
async fn a_catalogue_has_at_most_the_size_that_a_large_cloud_needs() {
    let server = Server::start(|_: &ReceivedRequest| Reply::never()).await;
    server.set_keystone(|_| {
        let service = json!({"type": "compute", "name": "x".repeat(1000), "endpoints": []});
        let body = json!({"token": {"expires_at": "2026-11-21T10:00:00Z", "issued_at": "2026-11-21T09:00:00Z",
            "user": {"id": "u"}, "project": {"id": "p1"}, "catalog": vec![service; 300]}});
        Some(Reply::new(201, body).header("X-Subject-Token", "token-1"))
    });
    let result = Sessions::new(clock()).connect("team-a", &credentials(&server.url, "hunter2")).await;
    let error = result.err().expect("it is too long");
    assert!(error.message.ends_with("answers with more than 128 KiB"), "{error}");
}
