//! Traces, with the feature `otel`: what is sent to a collector, and when nothing is sent.
//!
//! Environment variables and the subscriber are global to a process, so each test starts this binary again: [`program`]
//! makes the calls, to an OpenStack and a collector that the test provides.

#![allow(clippy::restriction, reason = "a panic fails the test")]
#![warn(clippy::dbg_macro, clippy::todo, clippy::unwrap_used)]

#[allow(dead_code, reason = "shared with tests/session.rs: not every word is used here")]
#[path = "session/server.rs"]
mod server;

use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::Request;
use caip_openstack::floating_ip::FloatingIpId;
use caip_openstack::openstack::session::Sessions;
use caip_openstack::openstack::{Clouds, DeletionStep, ErrorKind};
use caip_openstack::runtime::flags::LoggingFormat;
use caip_openstack::runtime::shutdown::TRACES_GRACE;
use caip_openstack::runtime::telemetry;
use http::StatusCode;
use parking_lot::Mutex;
use server::{ReceivedRequest, Reply, Server, listing};
use tracing::Instrument;

/// The URL of OpenStack, for [`program`].
const OPENSTACK: &str = "TEST_OPENSTACK";

/// Three calls in the span of a reconcile; the second one fails with not found.
#[test]
#[ignore = "started by the other tests"]
fn program() {
    let Ok(url) = std::env::var(OPENSTACK) else { return };
    let telemetry = telemetry::start(LoggingFormat::Text, 0, None).expect("it starts");
    let span = tracing::debug_span!(target: "caip_openstack::probe", "probe");
    println!("spans are {}", if span.is_disabled() { "disabled" } else { "enabled" });
    drop(span);
    tracing::debug_span!(target: "openstack_sdk_core::api", "sdk", body = "hunter2").in_scope(|| ());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let reconcile = telemetry::reconcile_span(&"pool/web");
    let work = async {
        let sessions = Sessions::new(server::clock());
        let neutron = sessions.connect("team-a", &server::credentials(&url, "hunter2")).await.expect("it connects");
        neutron.list_floating_ips().await.expect("it lists");
        // Time for a batch, and for the next one.
        tokio::time::sleep(Duration::from_millis(200)).await;
        let missing = neutron.get_floating_ip(&FloatingIpId::new("missing")).await;
        assert_eq!(missing.expect_err("it is not there").kind, ErrorKind::NotFound);
        let deleted = neutron.delete_floating_ip(&FloatingIpId::new("a"), &mut |_| DeletionStep::Delete).await;
        assert!(deleted.expect("it deletes"));
    };
    runtime.block_on(work.instrument(reconcile));
    let begin = Instant::now();
    telemetry.end();
    assert!(begin.elapsed() < TRACES_GRACE + Duration::from_secs(1), "it ended after {:?}", begin.elapsed());
}

/// Runs [`program`] with these variables and returns its output.
async fn run(variables: &[(&str, &str)]) -> String {
    let neutron = |request: &ReceivedRequest| match request.path.contains("missing") {
        true => Reply::refusal(404, "FloatingIPNotFound"),
        false => listing(&["a"]),
    };
    let server =
        Server::start(move |request: &ReceivedRequest| neutron(request).header("x-openstack-request-id", "req-7"))
            .await;
    let mut command = Command::new(std::env::current_exe().expect("it was started from a file"));
    command.args(["--exact", "program", "--ignored", "--nocapture"]);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("OTEL_")) {
        command.env_remove(name);
    }
    // Batches come sooner than every 5 s.
    command.env(OPENSTACK, &server.url).env("OTEL_BSP_SCHEDULE_DELAY", "20").envs(variables.iter().copied());
    let ran = tokio::task::spawn_blocking(move || command.output()).await.expect("it does not panic");
    let output = ran.expect("it starts again");
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert!(output.status.success(), "{text}");
    text
}

/// The received requests: request line and content type, and the body as lossy text.
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Vec<(String, String)>>>);

impl Collector {
    /// Answers with `status`; also returns the URL.
    async fn start(status: StatusCode) -> (Self, String) {
        let (collector, listener) = (Self::default(), tokio::net::TcpListener::bind("127.0.0.1:0").await);
        let listener = listener.expect("some port is free");
        let url = format!("http://{}", listener.local_addr().expect("it is bound"));
        let requests = collector.clone();
        let app = Router::new().fallback(move |request: Request| async move {
            let (parts, body) = request.into_parts();
            let body = axum::body::to_bytes(body, 1 << 20).await.expect("a small body");
            let kind = parts.headers.get("content-type").and_then(|kind| kind.to_str().ok()).unwrap_or_default();
            let line = format!("{} {} {kind}", parts.method, parts.uri);
            // Protocol buffers contain strings verbatim.
            requests.0.lock().push((line, String::from_utf8_lossy(&body).into_owned()));
            status
        });
        tokio::spawn(async move { axum::serve(listener, app).await });
        (collector, url)
    }

    fn requests(&self) -> Vec<(String, String)> {
        self.0.lock().clone()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn spans_of_reconciles_and_calls_are_sent_without_secrets() {
    let (collector, url) = Collector::start(StatusCode::OK).await;
    let said = run(&[("OTEL_EXPORTER_OTLP_ENDPOINT", &url), ("OTEL_RESOURCE_ATTRIBUTES", "lab=north")]).await;
    assert!(said.contains("spans are enabled") && !said.contains("WARN"), "{said}");
    let requests = collector.requests();
    assert!(requests.iter().all(|(line, _)| line == "POST /v1/traces application/x-protobuf"), "{requests:?}");
    let spans: String = requests.into_iter().map(|(_, spans)| spans).collect();
    let names = [
        "reconciling object",
        "pool/web",
        "authenticate",
        "list floating IPs",
        "read floating IP",
        "delete floating IP",
    ];
    let facts = ["ok", "not_found", "req-7", "caip-openstack", "service.version", "lab", "north"];
    for part in names.into_iter().chain(facts) {
        assert!(spans.contains(part), "no {part:?} in {spans:?}");
    }
    for part in ["hunter2", "token-1", "203.0.113.5", "floatingips"] {
        assert!(!spans.contains(part), "{part:?} in {spans:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_for_traces_and_a_service_name_are_used_verbatim() {
    let (collector, url) = Collector::start(StatusCode::OK).await;
    let url = format!("{url}/from/here");
    run(&[("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", &url), ("OTEL_SERVICE_NAME", "addresses")]).await;
    let requests = collector.requests();
    assert!(
        !requests.is_empty() && requests.iter().all(|(line, _)| line.starts_with("POST /from/here ")),
        "{requests:?}"
    );
    assert!(requests.iter().all(|(_, spans)| spans.contains("addresses")), "{requests:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_sent_by_default() {
    let (collector, url) = Collector::start(StatusCode::OK).await;
    let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", url.as_str());
    for variables in [
        &[("OTEL_SERVICE_NAME", "no endpoint")][..],
        &[("OTEL_EXPORTER_OTLP_ENDPOINT", "")],
        &[endpoint, ("OTEL_SDK_DISABLED", "true")],
        &[endpoint, ("OTEL_TRACES_EXPORTER", "none")],
    ] {
        let said = run(variables).await;
        assert!(said.contains("spans are disabled"), "{variables:?}: {said}");
    }
    run(&[endpoint, ("OTEL_TRACES_SAMPLER", "always_off")]).await;
    assert_eq!(collector.requests(), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failing_collector_causes_one_warning_and_a_bounded_delay() {
    let (refusing, refused) = Collector::start(StatusCode::FORBIDDEN).await;
    // The first one accepts connections and never answers; the second one is closed.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("some port is free");
    let away = std::net::TcpListener::bind("127.0.0.1:0").expect("some port is free").local_addr();
    let silent_url = format!("http://{}", silent.local_addr().expect("it is bound"));
    let away = format!("http://{}", away.expect("it is bound"));
    for (url, warnings) in [(refused.as_str(), 1), (&away, 1), (&silent_url, 0), ("not a URL", 1)] {
        let said = run(&[("OTEL_EXPORTER_OTLP_ENDPOINT", url)]).await;
        assert_eq!(said.matches("WARN").count(), warnings, "{url}: {said}");
    }
    assert!(refusing.requests().len() > 1, "it is retried: {:?}", refusing.requests());
}
