//! Sessions with a failing server: which calls are retried, what an outage costs, and that no error contains a secret.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::serve::Listener as _;
use caip_openstack::floating_ip::{FloatingIpId, NetworkId};
use caip_openstack::openstack::session::Sessions;
use caip_openstack::openstack::{Clouds, Credentials, Error, ErrorKind, Neutron, NewFloatingIp};
use futures::future::join_all;
use k8s_openapi::ByteString;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep};

use super::connect;
use super::server::{ReceivedRequest, Reply, Server, clock, credentials, listing, secret, token, token_with_catalog};
use crate::support::Tls;

/// How the message for an unreachable Keystone ends.
const CHECK: &str = ": check auth_url in clouds.yaml, and whether Keystone is up";

fn id() -> FloatingIpId {
    FloatingIpId::new("f1")
}

/// The message of an error, which must not contain a secret.
#[track_caller]
fn message(error: &Error) -> String {
    let printed = format!("{error} {error:?}");
    assert!(!printed.contains("hunter2") && !printed.contains("token-"), "{printed}");
    error.to_string()
}

async fn fails_to_connect(credentials: &Credentials) -> Error {
    match Sessions::new(clock()).connect("team-a", credentials).await {
        Ok(_) => panic!("it connects"),
        Err(error) => {
            message(&error);
            error
        }
    }
}

#[tokio::test(start_paused = true)]
async fn creations_and_descriptions_are_sent_once() {
    for trouble in [|| Reply::text(502, "<html>"), || Reply::Break, || Reply::refusal(503, "Unavailable"), Reply::never]
    {
        let server = Server::start(move |_: &ReceivedRequest| trouble()).await;
        let neutron = connect(&server).await;
        let new = NewFloatingIp { network: NetworkId::new("n1"), subnet: None, description: "d".to_owned() };
        let error = neutron.create_floating_ip(&new, &|| true).await.expect_err("trouble");
        assert!(error.is_unknown(), "{}", message(&error));
        let error = neutron.describe_floating_ip(&id(), "d", &|| true).await.expect_err("trouble");
        assert!(error.is_unknown(), "{}", message(&error));
        assert_eq!((server.count("POST /network"), server.count("PUT /network")), (1, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn other_calls_are_tried_three_times() {
    for trouble in [|| Reply::text(502, "<html>"), || Reply::Break, || Reply::new(429, json!({}))] {
        let server = Server::start(move |_: &ReceivedRequest| trouble()).await;
        let neutron = connect(&server).await;
        neutron.get_floating_ip(&id()).await.expect_err("trouble");
        assert_eq!(server.count("GET /network"), 3);
        let calls = AtomicUsize::new(0);
        let server = Server::start(move |_: &ReceivedRequest| match calls.fetch_add(1, Ordering::SeqCst) {
            0 | 1 => trouble(),
            _ => Reply::new(201, json!(null)),
        })
        .await;
        let neutron = connect(&server).await;
        neutron.add_tag(&id(), "t", &|| true).await.expect("the third attempt");
        assert_eq!(server.count("PUT /network/v2.0/floatingips/f1/tags/t"), 3);
    }
}

#[tokio::test(start_paused = true)]
async fn a_500_to_a_tag_means_not_found_only_if_the_floating_ip_is_gone() {
    let server = Server::start(|request: &ReceivedRequest| match request.method.as_str() {
        "GET" => Reply::refusal(404, "FloatingIPNotFound"),
        _ => Reply::refusal(500, "HTTPInternalServerError"),
    })
    .await;
    let neutron = connect(&server).await;
    assert_eq!(neutron.add_tag(&id(), "t", &|| true).await.expect_err("it is gone").kind, ErrorKind::NotFound);
    neutron.remove_tag(&id(), "t", &|| true).await.expect("it is gone with its tags");
    assert_eq!(
        (server.count("PUT /network"), server.count("DELETE /network"), server.count("GET /network")),
        (1, 1, 2)
    );
    server.set_neutron(|request: &ReceivedRequest| match request.method.as_str() {
        "GET" => Reply::new(200, json!({"floatingip": super::row("f1")})),
        _ => Reply::refusal(500, "HTTPInternalServerError"),
    });
    assert_eq!(neutron.add_tag(&id(), "t", &|| true).await.expect_err("it is real").kind, ErrorKind::Server);
    // Such a 500 concerns one floating IP, and does not open the circuit breaker.
    for _ in 0..20 {
        neutron.add_tag(&id(), "t", &|| true).await.expect_err("it is real");
    }
    neutron.get_floating_ip(&id()).await.expect("the cloud answers");
}

#[tokio::test(start_paused = true)]
async fn an_answer_from_something_else_than_neutron_is_malformed() {
    for (status, body) in [
        (200, "<html>login</html>"),
        (200, "{\"floatingip"),
        (200, "{}"),
        (200, "[]"),
        (200, "\"ok\""),
        (404, "<html>nothing</html>"),
    ] {
        let server = Server::start(move |_: &ReceivedRequest| Reply::text(status, body)).await;
        let neutron = connect(&server).await;
        for error in [
            neutron.get_floating_ip(&id()).await.expect_err("no floating IP"),
            neutron.list_floating_ips().await.expect_err("no listing"),
            neutron.has_tags().await.expect_err("no extensions"),
        ] {
            assert_eq!(error.kind, ErrorKind::Malformed, "{}", message(&error));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_outage_costs_few_calls_and_its_end_is_noticed_soon() {
    let server = Server::start(|_: &ReceivedRequest| Reply::refusal(503, "Unavailable")).await;
    let neutron = connect(&server).await;
    let callers = (0..100).map(|_| async {
        let end = Instant::now() + Duration::from_secs(120);
        while Instant::now() < end {
            let error = neutron.list_floating_ips().await.expect_err("it is down");
            message(&error);
            sleep(Duration::from_millis(500)).await;
        }
    });
    join_all(callers).await;
    let sent = server.count("GET /network");
    assert!(sent < 40, "{sent} requests in 120 s");

    server.set_neutron(|_: &ReceivedRequest| listing(&[]));
    let recovered = Instant::now();
    while neutron.list_floating_ips().await.is_err() {
        sleep(Duration::from_millis(500)).await;
    }
    assert!(recovered.elapsed() < Duration::from_secs(16), "{:?}", recovered.elapsed());
}

#[tokio::test(start_paused = true)]
async fn an_extreme_retry_after_is_clamped() {
    for (header, clamped) in [("18446744073709551615", 300), ("0", 1)] {
        let server = Server::start(move |_: &ReceivedRequest| {
            Reply::refusal(403, "PolicyNotAuthorized").header("Retry-After", header)
        });
        let error = connect(&server.await).await.get_floating_ip(&id()).await.expect_err("it is refused");
        assert_eq!(error.retry_after, Some(Duration::from_secs(clamped)), "{header}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_with_an_extreme_expiry_can_be_used() {
    for expires_at in ["9999-12-31T23:59:59.000000Z", "0001-01-01T00:00:00.000000Z"] {
        let server = Server::start(|_: &ReceivedRequest| listing(&[])).await;
        let url = server.url.clone();
        server.set_keystone(move |_| Some(token(1, &url, expires_at)));
        let neutron = connect(&server).await;
        for _ in 0..20 {
            neutron.list_floating_ips().await.expect("the token is accepted");
        }
        assert_eq!(server.count("POST /v3/auth/tokens"), 1, "{expires_at}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_redirect_is_not_followed() {
    let elsewhere = Server::start(|_: &ReceivedRequest| listing(&[])).await;
    let target = elsewhere.url.clone();
    let redirect = move || Reply::text(307, "").header("Location", &format!("{target}/v3/auth/tokens"));
    let server = Server::start({
        let redirect = redirect.clone();
        move |_: &ReceivedRequest| redirect()
    })
    .await;
    let error = connect(&server).await.list_floating_ips().await.expect_err("it redirects");
    assert_eq!(error.kind, ErrorKind::Malformed);
    let host = elsewhere.url.trim_start_matches("http://");
    assert!(message(&error).contains(&format!("redirects to {host}, which is not followed")), "{error}");
    server.set_keystone(move |_| Some(redirect()));
    let error = fails_to_connect(&credentials(&server.url, "hunter2")).await;
    assert_eq!(error.kind, ErrorKind::Malformed);
    assert!(elsewhere.requests().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_slow_keystone_is_reported_within_15_seconds() {
    let server = Server::start(|_: &ReceivedRequest| listing(&[])).await;
    server.set_keystone(|_| Some(Reply::never()));
    let begin = Instant::now();
    let error = fails_to_connect(&credentials(&server.url, "hunter2")).await;
    assert!(begin.elapsed() < Duration::from_secs(15));
    assert_eq!(error.kind, ErrorKind::NoAnswer);
    let host = server.url.trim_start_matches("http://");
    assert_eq!(error.to_string(), format!("authenticate: Keystone: {host} does not answer in time{CHECK}"));
}

#[tokio::test]
async fn a_missing_keystone_is_reported_as_such() {
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
async fn what_is_wrong_with_a_connection_is_reported() {
    let server = Server::start(|_: &ReceivedRequest| listing(&[])).await;
    server.set_keystone(|_| Some(Reply::Break));
    let host = server.url.trim_start_matches("http://");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let silent = listener.local_addr().expect("an address");
    for (url, kind, problem) in [
        (
            server.url.clone(),
            ErrorKind::NoAnswer,
            format!("the connection to {host} broke before the answer was complete{CHECK}"),
        ),
        (
            format!("https://{host}"),
            ErrorKind::Unreachable,
            format!("the TLS handshake with {host} failed: is it http instead of https?"),
        ),
        (
            format!("https://{silent}"),
            ErrorKind::Unreachable,
            format!("{silent} accepts no connection within 5 s{CHECK}"),
        ),
    ] {
        let error = fails_to_connect(&credentials(&url, "hunter2")).await;
        assert_eq!((error.kind, error.to_string()), (kind, format!("authenticate: Keystone: {problem}")));
    }
}

/// Not that TLS fails: the request has been sent.
#[tokio::test]
async fn a_tls_connection_that_breaks_after_the_request_is_no_answer() {
    let (mut tls, _) = Tls::listen().await;
    let host = tls.address();
    tokio::spawn(async move {
        let (mut client, _) = tls.accept().await;
        assert_ne!(client.read(&mut [0; 4096]).await.expect("a request"), 0);
        client.get_mut().0.write_all(b"no TLS record").await.expect("it is awaited");
        client.read(&mut [0; 4096]).await
    });
    let secret = secret(&format!("https://{host}"), "hunter2", "verify: false");
    let credentials = Credentials::from_secret(&secret, "openstack", None).expect("they are well formed");
    let error = fails_to_connect(&credentials).await;
    let problem = format!("the connection to {host} broke before the answer was complete{CHECK}");
    assert_eq!((error.kind, error.to_string()), (ErrorKind::NoAnswer, format!("authenticate: Keystone: {problem}")));
}

#[tokio::test(start_paused = true)]
async fn errors_of_keystone_name_the_remedy() {
    let server = Server::start(|_: &ReceivedRequest| listing(&[])).await;
    let endpoint =
        |region: &str, interface: &str| json!({"id": "e", "interface": interface, "region": region, "url": "http://n"});
    let catalog = move |endpoints: serde_json::Value| {
        move |_: &ReceivedRequest| {
            Some(token_with_catalog(json!([{"type": "network", "name": "neutron", "endpoints": endpoints}])))
        }
    };
    let error_with = async |more: &str| {
        let credentials = Credentials::from_secret(&secret(&server.url, "hunter2", more), "openstack", None);
        fails_to_connect(&credentials.expect("they are well formed")).await
    };

    server.set_keystone(catalog(json!([
        endpoint("One", "public"),
        endpoint("Two", "public"),
        endpoint("Three", "internal")
    ])));
    let error = error_with("region_name: Three").await;
    assert_eq!(error.kind, ErrorKind::NoNetworkService);
    assert!(
        error.to_string().ends_with(
            "region Three has no public endpoint; these have one: One, Two; set identityRef.region to one of them"
        ),
        "{error}"
    );
    let error = error_with("").await;
    assert_eq!(error.kind, ErrorKind::Credentials);
    assert!(error.to_string().ends_with("several regions have one: One, Two; set identityRef.region"), "{error}");
    server.set_keystone(catalog(json!([])));
    assert_eq!(error_with("").await.kind, ErrorKind::NoNetworkService);

    server.set_keystone(|_| Some(Reply::text(200, "<html>welcome</html>")));
    assert_eq!(error_with("").await.kind, ErrorKind::Malformed);
    server.set_keystone(|_| Some(Reply::new(400, json!({"error": {"message": "'hunter2' is too short"}}))));
    let error = error_with("").await;
    assert_eq!((error.kind, error.message.as_str()), (ErrorKind::Rejected, "'…' is too short"));
    server.set_keystone(|_| Some(Reply::text(404, "<h1>Not Found</h1>")));
    assert!(error_with("").await.to_string().ends_with("has no Keystone v3: check auth_url"));
    server.set_keystone(|_| {
        Some(Reply::new(404, json!({"error": {"message": "Could not find it.", "title": "Not Found"}})))
    });
    assert_eq!(error_with("").await.kind, ErrorKind::Unauthorized);
}

#[tokio::test]
async fn an_unknown_ca_is_refused_unless_the_secret_contains_it() {
    let (tls, certificate) = Tls::listen().await;
    let address = tls.address();
    let url = format!("https://{address}");
    let server = Server::serve(tls, url.clone(), |_: &ReceivedRequest| listing(&[]));

    let error = fails_to_connect(&credentials(&url, "hunter2")).await;
    let message = format!(
        "authenticate: Keystone: the certificate of {address} is not trusted: put its CA into key cacert of the Secret"
    );
    assert_eq!((error.kind, error.to_string()), (ErrorKind::Untrusted, message));
    assert!(server.requests().is_empty(), "no password is sent to an untrusted server");
    let error = fails_to_connect(&credentials(&url.replace("127.0.0.1", "localhost"), "hunter2")).await;
    assert_eq!(error.kind, ErrorKind::Untrusted);
    let error = fails_to_connect(&credentials(&url.replace("https", "http"), "hunter2")).await;
    assert!(matches!(error.kind, ErrorKind::NoAnswer | ErrorKind::Malformed), "{error:?}");

    let mut data = secret(&url, "hunter2", "");
    data.insert("cacert".to_owned(), ByteString(certificate.into_bytes()));
    let trusted = Credentials::from_secret(&data, "openstack", None).expect("they are well formed");
    let neutron: Arc<dyn Neutron> =
        Sessions::new(clock()).connect("team-a", &trusted).await.expect("its CA is trusted");
    neutron.list_floating_ips().await.expect("it lists");
    let unverified = Credentials::from_secret(&secret(&url, "hunter2", "verify: false"), "openstack", None);
    Sessions::new(clock())
        .connect("team-a", &unverified.expect("they are well formed"))
        .await
        .expect("certificates are not checked");
}
