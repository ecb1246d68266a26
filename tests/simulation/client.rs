//! The connection to the API server: what kube's client sends, over the wire of its process.

use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use http::{Method, Request, Response};
use kube::client::Body as KubeBody;
use serde_json::{Value, json};
use tower::Service;

use crate::api::http::{answer, query, target};
use crate::api::{ApiServer, Kind};
use crate::wire::{Call, CallFailure, Rejection, Side, Wire};

/// kube's client of one process.
pub fn client(server: &ApiServer, wire: &Wire) -> kube::Client {
    kube::Client::new(Connection { server: server.clone(), wire: wire.clone() }, "default")
}

#[derive(Clone)]
struct Connection {
    server: ApiServer,
    wire: Wire,
}

/// A call without an answer, as kube's client sees it.
#[derive(Debug)]
struct Silence;

impl std::fmt::Display for Silence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("no answer in time")
    }
}

impl std::error::Error for Silence {}

type Answered = Result<Response<Body>, Silence>;

impl Service<Request<KubeBody>> for Connection {
    type Response = Response<Body>;
    type Error = Box<dyn std::error::Error + Send + Sync>;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<KubeBody>) -> Self::Future {
        let Self { server, wire } = self.clone();
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect_bytes().await.map_err(Box::new)?.to_vec();
            let request = Arc::new(Request::from_parts(parts, body));
            Ok(send(server, wire, request).await.map_err(Box::new)?)
        }
        .boxed()
    }
}

async fn send(server: ApiServer, wire: Wire, request: Arc<Request<Vec<u8>>>) -> Answered {
    let is_watch = query(request.uri()).contains_key("watch");
    let meant = target(request.uri().path());
    let is_event = meant.as_ref().is_some_and(|target| target.kind == Kind::Event);
    // The names of events have the real time in them.
    let path = if is_event { "an event" } else { request.uri().path() };
    let plural = meant.as_ref().map_or("discovery", |target| target.kind.names().2);
    let call = Call {
        side: Side::Kubernetes,
        kind: format!("{}{} {plural}", request.method(), if is_watch { " watch" } else { "" }),
        what: format!("{} {path}{}", request.method(), if is_watch { " watch" } else { "" }),
        is_write: !is_watch && *request.method() != Method::GET,
    };
    let lags = wire.clone();
    let make = move || {
        let (server, request, lags) = (server.clone(), request.clone(), lags.clone());
        async move {
            Ok(match is_watch {
                true => skipping(
                    server.watch(&request, {
                        let lags = lags.clone();
                        move || lags.lag(plural)
                    }),
                    lags,
                ),
                false => server.serve(&request),
            })
        }
        .boxed()
    };
    wire.send(
        call,
        make,
        |failure| failed(&failure),
        |answer: &Answered| match answer {
            Ok(answer) => answer.status().as_u16().to_string(),
            Err(_) => "silence".to_owned(),
        },
    )
    .await
}

/// A watch that leaves out states while its connection [skips](Wire::skip_states) them.
fn skipping(watch: Response<Body>, wire: Wire) -> Response<Body> {
    watch.map(|body| {
        Body::from_stream(body.into_data_stream().map(move |lines| match wire.skips_states() {
            true => lines.map(|lines| latest_states(&lines)),
            false => lines,
        }))
    })
}

/// Of the events that arrive at once, the last one of each object.
fn latest_states(lines: &[u8]) -> Bytes {
    let lines: Vec<&[u8]> = lines.split_inclusive(|byte| *byte == b'\n').collect();
    let name = |line: &[u8]| {
        let event: Value = serde_json::from_slice(line).unwrap_or_default();
        let meta = &event["object"]["metadata"];
        (meta["namespace"].to_string(), meta["name"].to_string())
    };
    let names: Vec<_> = lines.iter().map(|line| name(line)).collect();
    let is_last = |index: &usize| !names[index + 1..].contains(&names[*index]);
    (0..lines.len()).filter(is_last).flat_map(|index| lines[index].iter().copied()).collect()
}

fn failed(failure: &CallFailure) -> Answered {
    let status = |code: u16, reason: &str| {
        let body = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": "trouble", "reason": reason, "code": code});
        Ok(answer(code, &body))
    };
    match failure {
        CallFailure::NoAnswer | CallFailure::Refused(Rejection::Unreachable) => Err(Silence),
        CallFailure::Refused(Rejection::Server) => status(500, "InternalError"),
        CallFailure::Refused(Rejection::TooMany | Rejection::Later) => status(429, "TooManyRequests"),
        CallFailure::Refused(Rejection::Conflict) => status(409, "Conflict"),
        CallFailure::Refused(Rejection::Forbidden) => status(403, "Forbidden"),
        CallFailure::Refused(Rejection::Page) => {
            Ok(Response::builder().status(404).body(Body::from("404 page not found")).expect("a good answer"))
        }
    }
}
