//! Sessions in trouble: what is repeated and what never is, how an outage is bounded, and that no secret gets out.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use caip_openstack::floating_ip::{FloatingIpId, NetworkId};
use caip_openstack::openstack::session::Sessions;
use caip_openstack::openstack::{Clouds, Credentials, Error, ErrorKind, Neutron, NewFloatingIp};
use futures::future::join_all;
use k8s_openapi::ByteString;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep};

use super::connect;
use super::server::{Reply, Seen, Server, clock, credentials, listing, secret, token, token_with_catalog};
use crate::support::Tls;

/// What to do about a Keystone that cannot be reached.
const CHECK: &str = ": check auth_url in clouds.yaml, and whether Keystone is up";

fn id() -> FloatingIpId {
    FloatingIpId::new("f1")
}

/// What a user and a log would see of an error, without secrets by the test's own choice of them.
#[track_caller]
fn shown(error: &Error) -> String {
    let shown = format!("{error} {error:?}");
    assert!(!shown.contains("hunter2") && !shown.contains("token-"), "{shown}");
    error.to_string()
}

async fn fails_to_connect(credentials: &Credentials) -> Error {
    match Sessions::new(clock()).connect(credentials).await {
        Ok(_) => panic!("it connects"),
        Err(error) => {
            shown(&error);
            error
        }
    }
}

#[tokio::test(start_paused = true)]
async fn writes_that_must_not_happen_twice_are_sent_once() {
    for trouble in [|| Reply::text(502, "<html>"), || Reply::Break, || Reply::refusal(503, "Unavailable"), Reply::never]
    {
        let server = Server::start(move |_: &Seen| trouble()).await;
        let neutron = connect(&server).await;
        let new = NewFloatingIp { network: NetworkId::new("n1"), subnet: None, description: "d".to_owned() };
        let error = neutron.create_floating_ip(&new).await.expect_err("trouble");
        assert!(error.is_unknown(), "{}", shown(&error));
        let error = neutron.describe_floating_ip(&id(), "d").await.expect_err("trouble");
        assert!(error.is_unknown(), "{}", shown(&error));
        assert_eq!((server.count("POST /network"), server.count("PUT /network")), (1, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn what_may_be_repeated_is_tried_three_times() {
    for trouble in [|| Reply::text(502, "<html>"), || Reply::Break, || Reply::new(429, json!({}))] {
        let server = Server::start(move |_: &Seen| trouble()).await;
        let neutron = connect(&server).await;
        neutron.get_floating_ip(&id()).await.expect_err("trouble");
        assert_eq!(server.count("GET /network"), 3);
        let calls = AtomicUsize::new(0);
        let server = Server::start(move |_: &Seen| match calls.fetch_add(1, Ordering::SeqCst) {
            0 | 1 => trouble(),
            _ => Reply::new(201, json!(null)),
        })
        .await;
        let neutron = connect(&server).await;
        neutron.add_tag(&id(), "t").await.expect("the third attempt");
        assert_eq!(server.count("PUT /network/v2.0/floatingips/f1/tags/t"), 3);
    }
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_finds_nothing_after_a_lost_reply_is_done() {
    let calls = AtomicUsize::new(0);
    let server = Server::start(move |_: &Seen| match calls.fetch_add(1, Ordering::SeqCst) {
        0 => Reply::Break,
        _ => Reply::refusal(404, "FloatingIPNotFound"),
    })
    .await;
    let neutron = connect(&server).await;
    neutron.delete_floating_ip(&id()).await.expect("the first one did it");
    let error = neutron.delete_floating_ip(&id()).await.expect_err("it was gone before");
    assert_eq!((error.kind, server.count("DELETE /network")), (ErrorKind::NotFound, 3));
}

#[tokio::test(start_paused = true)]
async fn a_500_to_a_tag_is_seen_through_and_only_for_what_is_gone() {
    let server = Server::start(|seen: &Seen| match seen.method.as_str() {
        "GET" => Reply::refusal(404, "FloatingIPNotFound"),
        _ => Reply::refusal(500, "HTTPInternalServerError"),
    })
    .await;
    let neutron = connect(&server).await;
    assert_eq!(neutron.add_tag(&id(), "t").await.expect_err("it is gone").kind, ErrorKind::NotFound);
    neutron.remove_tag(&id(), "t").await.expect("it is gone with its tags");
    assert_eq!(
        (server.count("PUT /network"), server.count("DELETE /network"), server.count("GET /network")),
        (1, 1, 2)
    );
    server.set_neutron(|seen: &Seen| match seen.method.as_str() {
        "GET" => Reply::new(200, json!({"floatingip": super::row("f1")})),
        _ => Reply::refusal(500, "HTTPInternalServerError"),
    });
    assert_eq!(neutron.add_tag(&id(), "t").await.expect_err("it is real").kind, ErrorKind::Server);
    // Such a 500 is one floating IP's trouble, and no sign of an outage.
    for _ in 0..20 {
        neutron.add_tag(&id(), "t").await.expect_err("it is real");
    }
    neutron.get_floating_ip(&id()).await.expect("the cloud is well");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_not_neutrons_is_malformed_and_nothing_is_taken_for_gone() {
    for (status, body) in [
        (200, "<html>login</html>"),
        (200, "{\"floatingip"),
        (200, "{}"),
        (200, "[]"),
        (200, "\"ok\""),
        (404, "<html>nothing</html>"),
    ] {
        let server = Server::start(move |_: &Seen| Reply::text(status, body)).await;
        let neutron = connect(&server).await;
        for error in [
            neutron.get_floating_ip(&id()).await.expect_err("no floating IP"),
            neutron.list_floating_ips().await.expect_err("no listing"),
            neutron.has_tags().await.expect_err("no extensions"),
        ] {
            assert_eq!(error.kind, ErrorKind::Malformed, "{}", shown(&error));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_outage_costs_few_calls_however_many_callers_wait_and_heals_soon() {
    let server = Server::start(|_: &Seen| Reply::refusal(503, "Unavailable")).await;
    let neutron = connect(&server).await;
    let callers = (0..100).map(|_| async {
        let end = Instant::now() + Duration::from_secs(120);
        while Instant::now() < end {
            let error = neutron.list_floating_ips().await.expect_err("it is down");
            shown(&error);
            sleep(Duration::from_millis(500)).await;
        }
    });
    join_all(callers).await;
    let sent = server.count("GET /network");
    assert!(sent < 40, "{sent} requests in 120 s");

    server.set_neutron(|_: &Seen| listing(&[]));
    let mended = Instant::now();
    while neutron.list_floating_ips().await.is_err() {
        sleep(Duration::from_millis(500)).await;
    }
    assert!(mended.elapsed() < Duration::from_secs(16), "{:?}", mended.elapsed());
}

#[tokio::test(start_paused = true)]
async fn an_extreme_retry_after_is_clamped() {
    for (header, clamped) in [("18446744073709551615", 300), ("0", 1)] {
        let server =
            Server::start(move |_: &Seen| Reply::refusal(403, "PolicyNotAuthorized").header("Retry-After", header));
        let error = connect(&server.await).await.get_floating_ip(&id()).await.expect_err("it is refused");
        assert_eq!(error.retry_after, Some(Duration::from_secs(clamped)), "{header}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_with_an_extreme_expiry_can_be_used() {
    for (expires_at, authentications) in [("9999-12-31T23:59:59.000000Z", 1), ("0001-01-01T00:00:00.000000Z", 2)] {
        let server = Server::start(|_: &Seen| listing(&[])).await;
        let url = server.url.clone();
        server.set_keystone(move |_| Some(token(1, &url, expires_at)));
        connect(&server).await.list_floating_ips().await.expect("the token is accepted");
        assert_eq!(server.count("POST /v3/auth/tokens"), authentications, "{expires_at}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_redirect_is_refused_and_carries_nothing_away() {
    let elsewhere = Server::start(|_: &Seen| listing(&[])).await;
    let target = elsewhere.url.clone();
    let redirect = move || Reply::text(307, "").header("Location", &format!("{target}/v3/auth/tokens"));
    let server = Server::start({
        let redirect = redirect.clone();
        move |_: &Seen| redirect()
    })
    .await;
    let error = connect(&server).await.list_floating_ips().await.expect_err("it redirects");
    assert_eq!(error.kind, ErrorKind::Malformed);
    let host = elsewhere.url.trim_start_matches("http://");
    assert!(shown(&error).contains(&format!("redirects to {host}, which is not followed")), "{error}");
    server.set_keystone(move |_| Some(redirect()));
    let error = fails_to_connect(&credentials(&server.url, "hunter2")).await;
    assert_eq!(error.kind, ErrorKind::Malformed);
    assert!(elsewhere.seen().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_slow_keystone_is_told_of_within_15_seconds() {
    let server = Server::start(|_: &Seen| listing(&[])).await;
    server.set_keystone(|_| Some(Reply::never()));
    let begin = Instant::now();
    let error = fails_to_connect(&credentials(&server.url, "hunter2")).await;
    assert!(begin.elapsed() < Duration::from_secs(15));
    assert_eq!(error.kind, ErrorKind::NoAnswer);
    let host = server.url.trim_start_matches("http://");
    assert_eq!(error.to_string(), format!("authenticate: Keystone: {host} does not answer in time{CHECK}"));
}

#[tokio::test]
async fn a_keystone_that_is_not_there_is_told_apart() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let closed = listener.local_addr().expect("an address");
    drop(listener);
    let error = fails_to_connect(&credentials(&format!("http://{closed}"), "hunter2")).await;
    assert_eq!(
        (error.kind, error.to_string()),
        (ErrorKind::Unreachable, format!("authenticate: Keystone: {closed} refuses connections{CHECK}"))
    );
    let error = fails_to_connect(&credentials("http://keystone.invalid:5000", "hunter2")).await;
    assert_eq!(
        (error.kind, error.to_string()),
        (
            ErrorKind::Unreachable,
            format!("authenticate: Keystone: the name of keystone.invalid:5000 cannot be resolved{CHECK}")
        )
    );
}

#[tokio::test(start_paused = true)]
async fn what_keystone_says_is_put_into_words_that_name_the_remedy() {
    let server = Server::start(|_: &Seen| listing(&[])).await;
    let endpoint =
        |region: &str, interface: &str| json!({"id": "e", "interface": interface, "region": region, "url": "http://n"});
    let catalog = move |endpoints: serde_json::Value| {
        move |_: &Seen| {
            Some(token_with_catalog(json!([{"type": "network", "name": "neutron", "endpoints": endpoints}])))
        }
    };
    let tell = async |more: &str| {
        let credentials = Credentials::from_secret(&secret(&server.url, "hunter2", more), "openstack", None);
        fails_to_connect(&credentials.expect("they are well formed")).await
    };

    server.set_keystone(catalog(json!([
        endpoint("One", "public"),
        endpoint("Two", "public"),
        endpoint("Three", "internal")
    ])));
    let error = tell("region_name: Three").await;
    assert_eq!(error.kind, ErrorKind::NoNetworkService);
    assert!(
        error.to_string().ends_with("region Three has none at its public interface, but these have: One, Two; set identityRef.region to one of them"),
        "{error}"
    );
    let error = tell("").await;
    assert_eq!(error.kind, ErrorKind::Credentials);
    assert!(error.to_string().ends_with("in each of the regions One, Two: set identityRef.region"), "{error}");
    server.set_keystone(catalog(json!([])));
    assert_eq!(tell("").await.kind, ErrorKind::NoNetworkService);

    server.set_keystone(|_| Some(Reply::text(200, "<html>welcome</html>")));
    assert_eq!(tell("").await.kind, ErrorKind::Malformed);
    server.set_keystone(|_| Some(Reply::new(400, json!({"error": {"message": "'hunter2' is too short"}}))));
    let error = tell("").await;
    assert_eq!((error.kind, error.message.as_str()), (ErrorKind::Rejected, "'…' is too short"));
    server.set_keystone(|_| Some(Reply::text(404, "<h1>Not Found</h1>")));
    assert!(tell("").await.to_string().ends_with("has no Keystone v3: check auth_url"));
    server.set_keystone(|_| Some(Reply::new(404, json!({"error": {"message": "Could not find it."}}))));
    assert_eq!(tell("").await.kind, ErrorKind::Unauthorized);
}

#[tokio::test]
async fn an_unknown_ca_is_refused_until_the_secret_brings_it() {
    let (tls, certificate) = Tls::listen().await;
    let address = tls.address();
    let url = format!("https://{address}");
    let server = Server::serve(tls, url.clone(), |_: &Seen| listing(&[]));

    let error = fails_to_connect(&credentials(&url, "hunter2")).await;
    let message = format!(
        "authenticate: Keystone: the certificate of {address} is not trusted: put its CA into key cacert of the Secret"
    );
    assert_eq!((error.kind, error.to_string()), (ErrorKind::Untrusted, message));
    assert!(server.seen().is_empty(), "no password without trust");
    let error = fails_to_connect(&credentials(&url.replace("127.0.0.1", "localhost"), "hunter2")).await;
    assert_eq!(error.kind, ErrorKind::Untrusted);
    let error = fails_to_connect(&credentials(&url.replace("https", "http"), "hunter2")).await;
    assert!(matches!(error.kind, ErrorKind::NoAnswer | ErrorKind::Malformed), "{error:?}");

    let mut data = secret(&url, "hunter2", "");
    data.insert("cacert".to_owned(), ByteString(certificate.into_bytes()));
    let trusted = Credentials::from_secret(&data, "openstack", None).expect("they are well formed");
    let neutron: Arc<dyn Neutron> = Sessions::new(clock()).connect(&trusted).await.expect("its CA is known");
    neutron.list_floating_ips().await.expect("it lists");
    let careless = Credentials::from_secret(&secret(&url, "hunter2", "verify: false"), "openstack", None);
    Sessions::new(clock()).connect(&careless.expect("they are well formed")).await.expect("nothing is checked");
}
