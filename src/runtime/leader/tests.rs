//! What takes a server that fails in a given way, on a paused clock.

use std::sync::{Arc, Mutex};

use http::{Method, Request, Response, StatusCode};
use kube::client::Body;
use serde_json::{Value, json};

use super::*;

/// What the server does with everything that is asked of it after the lease was created.
#[derive(Clone, Copy)]
enum Then {
    Answer,
    Fail,
    Hang,
}

/// A server of one lease, and how it behaves.
#[derive(Clone)]
struct Server {
    lease: Arc<Mutex<Option<Value>>>,
    then: Arc<Mutex<Then>>,
}

impl Server {
    fn new() -> Self {
        Self { lease: Arc::default(), then: Arc::new(Mutex::new(Then::Answer)) }
    }

    fn will(&self, then: Then) {
        *self.then.lock().expect("no test panics here") = then;
    }

    async fn answer(self, request: Request<Body>) -> Result<Response<Body>, tower::BoxError> {
        let then = *self.then.lock().expect("no test panics here");
        let (parts, body) = request.into_parts();
        let sent = serde_json::from_slice::<Value>(&body.collect_bytes().await?).ok();
        let mut lease = self.lease.lock().expect("no test panics here");
        let (status, body) = match then {
            Then::Fail => (StatusCode::INTERNAL_SERVER_ERROR, json!({"kind": "Status", "code": 500})),
            Then::Hang => {
                drop(lease);
                std::future::pending().await
            }
            Then::Answer if parts.method == Method::GET => match lease.clone() {
                Some(lease) => (StatusCode::OK, lease),
                None => (StatusCode::NOT_FOUND, json!({"kind": "Status", "code": 404, "reason": "NotFound"})),
            },
            Then::Answer => (StatusCode::OK, lease.insert(sent.unwrap_or_default()).clone()),
        };
        Ok(Response::builder().status(status).body(Body::from(serde_json::to_vec(&body)?))?)
    }

    async fn leader(&self) -> Leader {
        let server = self.clone();
        let service = tower::service_fn(move |request| server.clone().answer(request));
        let settings = LeaseSettings {
            namespace: "one".into(),
            name: "lease".into(),
            identity: "me".into(),
            duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        };
        let clock = Clock::simulated(Timestamp::UNIX_EPOCH, 1);
        Leader::acquire(kube::Client::new(service, "one"), settings, &clock).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_cannot_renew_is_told_before_anybody_else_can_lead() {
    for then in [Then::Fail, Then::Hang] {
        let server = Server::new();
        let leader = server.leader().await;
        let held = tokio::time::timeout(Duration::from_secs(60), leader.lost()).await;
        assert!(held.is_err(), "it was renewed all along");

        server.will(then);
        let begin = Instant::now();
        assert_eq!(leader.lost().await, Lost::NotRenewed(Duration::from_secs(10)));
        assert!(begin.elapsed() <= Duration::from_secs(10), "{:?}", begin.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_fails_for_a_while_costs_no_leadership() {
    let server = Server::new();
    let leader = server.leader().await;
    for then in [Then::Fail, Then::Hang] {
        server.will(then);
        assert!(tokio::time::timeout(Duration::from_secs(7), leader.lost()).await.is_err());
        server.will(Then::Answer);
        assert!(tokio::time::timeout(Duration::from_secs(60), leader.lost()).await.is_err());
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_released_or_dropped_renews_no_more() {
    let server = Server::new();
    let leader = server.leader().await;
    let lost = leader.lost();
    leader.release().await.expect("it can be given back");
    assert!(tokio::time::timeout(Duration::from_secs(60), lost).await.is_err(), "given away is not lost");
    let record =
        || server.lease.lock().expect("no test panics here").clone().expect("there is a lease")["spec"].clone();
    assert_eq!(record().get("holderIdentity"), None);

    drop(server.leader().await);
    let before = record();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!((&before["holderIdentity"], &before), (&json!("me"), &record()));
}
