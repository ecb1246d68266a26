//! Deletions: Neutron also deletes what has a port, so each is decided when its request is about to be sent.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use caip_openstack::floating_ip::{FloatingIp, FloatingIpId, NetworkId};
use caip_openstack::metrics::{MeteredClouds, Metrics};
use caip_openstack::openstack::session::Sessions;
use caip_openstack::openstack::{Clouds, DeletionStep, ErrorKind, Neutron, NewFloatingIp};
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::connect;
use super::server::{ReceivedRequest, Reply, Server, clock, credentials, row};

fn id() -> FloatingIpId {
    FloatingIpId::new("f1")
}

/// Neutron, where every floating IP exists.
fn answer(request: &ReceivedRequest) -> Reply {
    match request.method.as_str() {
        "GET" => Reply::new(200, json!({"floatingip": row("f1")})),
        _ => Reply::new(204, json!(null)),
    }
}

/// The same, where the floating IP `slow` is read after so many seconds.
async fn start_with_slow_read(seconds: u64) -> Server {
    Server::start(move |request: &ReceivedRequest| match request.path.as_str() {
        "/network/v2.0/floatingips/slow" => Reply::later(async move {
            sleep(Duration::from_secs(seconds)).await;
            Reply::new(200, json!({"floatingip": row("slow")}))
        }),
        _ => answer(request),
    })
    .await
}

/// A session that has one call under way at most.
async fn connect_with_one_slot(server: &Server) -> Arc<dyn Neutron> {
    let sessions = Sessions::new(clock()).max_concurrent_calls(1);
    sessions.connect("team-a", &credentials(&server.url, "hunter2")).await.expect("it connects")
}

/// A check that reads the floating IP first, and then decides so.
fn after_read(then: DeletionStep) -> impl Fn(Option<FloatingIp>) -> DeletionStep {
    move |shown| if shown.is_some() { then } else { DeletionStep::Read }
}

/// The methods of the requests to Neutron.
fn methods(server: &Server) -> Vec<String> {
    let requests = server.requests().into_iter().filter(|request| request.path.starts_with("/network"));
    requests.map(|request| request.method).collect()
}

#[tokio::test(start_paused = true)]
async fn a_deletion_is_sent_once() {
    for trouble in [|| Reply::text(502, "<html>"), || Reply::Break, || Reply::refusal(503, "Unavailable"), Reply::never]
    {
        let server = Server::start(move |_: &ReceivedRequest| trouble()).await;
        let neutron = connect(&server).await;
        let error = neutron.delete_floating_ip(&id(), &mut |_| DeletionStep::Delete).await.expect_err("trouble");
        assert!(error.is_unknown(), "{error}");
        assert_eq!(methods(&server), ["DELETE"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_floating_ip_is_read_and_kept_as_its_check_says() {
    let server = Server::start(answer).await;
    let neutron = connect(&server).await;
    let mut keep = |_: Option<FloatingIp>| DeletionStep::Keep;
    assert!(!neutron.delete_floating_ip(&id(), &mut keep).await.expect("it is kept"));
    assert_eq!(methods(&server), [""; 0]);
    assert!(!neutron.delete_floating_ip(&id(), &mut after_read(DeletionStep::Keep)).await.expect("it is kept"));
    assert_eq!(methods(&server), ["GET"]);
    assert!(neutron.delete_floating_ip(&id(), &mut after_read(DeletionStep::Delete)).await.expect("it is deleted"));
    assert_eq!(methods(&server), ["GET", "GET", "DELETE"]);
}

#[tokio::test(start_paused = true)]
async fn a_read_that_fails_is_repeated_and_not_followed_by_a_delete() {
    let trouble: [(fn() -> Reply, _, _); 3] = [
        (|| Reply::refusal(503, "Unavailable"), ErrorKind::Server, 3),
        (|| Reply::Break, ErrorKind::NoAnswer, 3),
        (|| Reply::refusal(404, "FloatingIPNotFound"), ErrorKind::NotFound, 1),
    ];
    for (trouble, kind, times) in trouble {
        let server = Server::start(move |_: &ReceivedRequest| trouble()).await;
        let mut check = after_read(DeletionStep::Delete);
        let error = connect(&server).await.delete_floating_ip(&id(), &mut check).await.expect_err("it fails");
        assert_eq!((error.kind, error.operation), (kind, "read floating IP"));
        assert_eq!(methods(&server), vec!["GET"; times]);
    }
}

/// The floating IP may be attached while the deletion waits.
#[tokio::test(start_paused = true)]
async fn a_deletion_that_had_to_wait_is_decided_at_its_turn_and_then_sent() {
    let server = start_with_slow_read(20).await;
    let neutron = connect_with_one_slot(&server).await;
    let (begun, mut asked) = (Instant::now(), Vec::new());
    let slow = FloatingIpId::new("slow");
    let mut check = |shown: Option<FloatingIp>| {
        asked.push(begun.elapsed().as_secs());
        after_read(DeletionStep::Delete)(shown)
    };
    let after = |seconds| sleep(Duration::from_secs(seconds));
    let (_, deleted, _) = tokio::join!(
        neutron.get_floating_ip(&slow),
        async {
            after(1).await;
            neutron.delete_floating_ip(&id(), &mut check).await
        },
        async {
            after(2).await;
            neutron.describe_floating_ip(&id(), "after the deletion", &|| true).await
        },
    );
    assert!(deleted.expect("it is deleted"));
    assert_eq!(asked, [20, 20], "when it has its turn");
    assert_eq!(methods(&server), ["GET", "GET", "DELETE", "PUT"], "nothing comes in between");
}

/// For example because its pool's session ended meanwhile.
#[tokio::test(start_paused = true)]
async fn a_write_that_had_to_wait_is_sent_only_if_it_still_may() {
    let new = NewFloatingIp { network: NetworkId::new("n1"), subnet: None, description: "d".to_owned() };
    for (takes, sent) in [(5, 5), (20, 1)] {
        let (begun, slow) = (Instant::now(), FloatingIpId::new("slow"));
        let may_send = || begun.elapsed() < Duration::from_secs(10);
        let server = start_with_slow_read(takes).await;
        let neutron = connect_with_one_slot(&server).await;
        let id = id();
        let (_, created, described, tagged, untagged) = tokio::join!(
            neutron.get_floating_ip(&slow),
            neutron.create_floating_ip(&new, &may_send),
            neutron.describe_floating_ip(&id, "d", &may_send),
            neutron.add_tag(&id, "t", &may_send),
            neutron.remove_tag(&id, "t", &may_send),
        );
        let errors = [created.err(), described.err(), tagged.err(), untagged.err()];
        let unsent = errors.iter().flatten().filter(|error| error.kind == ErrorKind::Conflict && !error.is_unknown());
        assert_eq!((unsent.count(), methods(&server).len()), (5 - sent, sent), "{errors:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_deletion_is_repeated_with_a_new_token_only_if_that_comes_soon() {
    for (seconds, is_deleted) in [(1, true), (8, false)] {
        let server = Server::start(|request: &ReceivedRequest| match request.token.as_deref() {
            Some("token-1") => Reply::unauthorized(),
            _ => answer(request),
        })
        .await;
        let (url, issued) = (server.url.clone(), AtomicUsize::new(0));
        server.set_keystone(move |_| {
            let (url, number) = (url.clone(), issued.fetch_add(1, Ordering::SeqCst) + 1);
            Some(Reply::later(async move {
                sleep(Duration::from_secs(if number == 1 { 0 } else { seconds })).await;
                super::server::token(number, &url, "2026-11-21T10:00:00.000000Z")
            }))
        });
        let neutron = connect(&server).await;
        // A new token would be refused as well.
        sleep(Duration::from_secs(10)).await;
        let deleted = neutron.delete_floating_ip(&id(), &mut |_| DeletionStep::Delete).await;
        match is_deleted {
            true => assert!(deleted.expect("it is deleted")),
            false => {
                let error = deleted.expect_err("it is not sent again");
                assert!(!error.is_unknown());
                assert_eq!(
                    error.to_string(),
                    "delete floating IP: it had to wait, and was not sent: what was known when it was decided may have changed"
                );
            }
        }
        assert_eq!(methods(&server).len(), if is_deleted { 2 } else { 1 });
        neutron.get_floating_ip(&id()).await.expect("the new token is known");
    }
}

#[tokio::test(start_paused = true)]
async fn a_read_that_fails_keeps_no_other_call_out_until_it_is_repeated() {
    let reads = AtomicUsize::new(0);
    let server = Server::start(move |request: &ReceivedRequest| match request.method.as_str() {
        "GET" if reads.fetch_add(1, Ordering::SeqCst) == 0 => Reply::Break,
        _ => answer(request),
    })
    .await;
    let neutron = connect_with_one_slot(&server).await;
    let mut check = after_read(DeletionStep::Delete);
    let id = id();
    let (deleted, _) = tokio::join!(
        neutron.delete_floating_ip(&id, &mut check),
        neutron.describe_floating_ip(&id, "between the two reads", &|| true),
    );
    assert!(deleted.expect("it is deleted"));
    assert_eq!(methods(&server), ["GET", "PUT", "GET", "DELETE"]);
}

/// Otherwise Keystone would be asked between the decision and the DELETE.
#[tokio::test(start_paused = true)]
async fn a_deletion_whose_token_expires_while_it_waits_is_decided_with_a_new_one() {
    let server = start_with_slow_read(25).await;
    let (url, issued) = (server.url.clone(), AtomicUsize::new(0));
    server.set_keystone(move |_| {
        let (url, number) = (url.clone(), issued.fetch_add(1, Ordering::SeqCst) + 1);
        // The first one is valid for 20 s.
        let expires_at = if number == 1 { "2026-11-21T09:00:20.000000Z" } else { "2026-11-21T10:00:00.000000Z" };
        Some(Reply::later(async move {
            sleep(Duration::from_secs(if number == 1 { 0 } else { 5 })).await;
            super::server::token(number, &url, expires_at)
        }))
    });
    let neutron = connect_with_one_slot(&server).await;
    let (begun, mut asked) = (Instant::now(), 0);
    let mut check = |_: Option<FloatingIp>| {
        asked = begun.elapsed().as_secs();
        DeletionStep::Delete
    };
    let (id, slow) = (id(), FloatingIpId::new("slow"));
    let (_, deleted) = tokio::join!(neutron.get_floating_ip(&slow), neutron.delete_floating_ip(&id, &mut check));
    assert!(deleted.expect("it is deleted"));
    let sent = server.requests().into_iter().find(|request| request.method == "DELETE").expect("it was sent");
    assert_eq!((asked, (sent.at - begun).as_secs()), (30, 30), "after the new token, and at once");
}

#[tokio::test(start_paused = true)]
async fn the_read_and_the_delete_are_counted_each_as_what_it_is() {
    let server = Server::start(|request: &ReceivedRequest| match request.path.as_str() {
        "/network/v2.0/floatingips/gone" => Reply::refusal(404, "FloatingIPNotFound"),
        _ => answer(request),
    })
    .await;
    let metrics = Metrics::new();
    let clouds = MeteredClouds::new(Arc::new(Sessions::new(clock())), metrics.clone());
    let neutron = clouds.connect("team-a", &credentials(&server.url, "hunter2")).await.expect("it connects");
    let gone = FloatingIpId::new("gone");
    neutron.delete_floating_ip(&id(), &mut |_| DeletionStep::Keep).await.expect("it is kept");
    neutron.delete_floating_ip(&id(), &mut |_| DeletionStep::Delete).await.expect("it is deleted");
    neutron.delete_floating_ip(&id(), &mut after_read(DeletionStep::Keep)).await.expect("it is kept");
    neutron.delete_floating_ip(&id(), &mut after_read(DeletionStep::Delete)).await.expect("it is deleted");
    neutron.delete_floating_ip(&gone, &mut after_read(DeletionStep::Delete)).await.expect_err("it cannot be read");
    neutron.delete_floating_ip(&gone, &mut |_| DeletionStep::Delete).await.expect_err("it is gone");
    let text = metrics.to_text();
    let count = |operation: &str, result: &str| {
        let labels = [format!("operation=\"{operation}\""), format!("result=\"{result}\"")];
        let mut samples = text.lines().filter(|line| line.starts_with("caip_openstack_requests_total{"));
        let sample = samples.find(|line| labels.iter().all(|label| line.contains(label)));
        sample.and_then(|line| line.rsplit_once(' ')).map_or(0, |(_, count)| count.parse().expect("a number"))
    };
    assert_eq!((count("get_floating_ip", "ok"), count("delete_floating_ip", "ok")), (2, 2));
    assert_eq!((count("get_floating_ip", "not_found"), count("delete_floating_ip", "not_found")), (1, 1));
}
