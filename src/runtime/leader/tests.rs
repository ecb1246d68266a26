//! Leader election against an API server that fails, with paused time.

use std::sync::Arc;

use http::{Method, Request, Response, StatusCode};
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};

use jiff::Timestamp;

use super::*;

/// How the server handles requests.
#[derive(Clone, Copy)]
enum Behavior {
    Answer,
    Fail,
    Hang,
}

/// An API server with one Lease.
#[derive(Clone)]
struct Server {
    lease: Arc<Mutex<Option<Value>>>,
    behavior: Arc<Mutex<Behavior>>,
}

impl Server {
    fn new() -> Self {
        Self { lease: Arc::default(), behavior: Arc::new(Mutex::new(Behavior::Answer)) }
    }

    fn set(&self, behavior: Behavior) {
        *self.behavior.lock() = behavior;
    }

    async fn answer(self, request: Request<Body>) -> Result<Response<Body>, tower::BoxError> {
        let behavior = *self.behavior.lock();
        let (parts, body) = request.into_parts();
        let sent = serde_json::from_slice::<Value>(&body.collect_bytes().await?).ok();
        let mut lease = self.lease.lock();
        let (status, body) = match behavior {
            Behavior::Fail => (StatusCode::INTERNAL_SERVER_ERROR, json!({"kind": "Status", "code": 500})),
            Behavior::Hang => {
                drop(lease);
                std::future::pending().await
            }
            Behavior::Answer if parts.method == Method::GET => match lease.clone() {
                Some(lease) => (StatusCode::OK, lease),
                None => (StatusCode::NOT_FOUND, json!({"kind": "Status", "code": 404, "reason": "NotFound"})),
            },
            Behavior::Answer => write(&mut lease, sent.unwrap_or_default()),
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

/// Stores the Lease if it is based on the stored version.
fn write(lease: &mut Option<Value>, mut sent: Value) -> (StatusCode, Value) {
    let version = |lease: &Value| lease["metadata"]["resourceVersion"].as_str().map(str::to_owned);
    let stored = lease.as_ref().and_then(version);
    if version(&sent) != stored {
        return (StatusCode::CONFLICT, json!({"kind": "Status", "code": 409, "reason": "Conflict"}));
    }
    let next = stored.map_or(1, |stored| stored.parse::<u64>().expect("a version is a number") + 1);
    sent["metadata"]["resourceVersion"] = next.to_string().into();
    (StatusCode::OK, lease.insert(sent).clone())
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_cannot_renew_gives_up_before_the_lease_expires() {
    for behavior in [Behavior::Fail, Behavior::Hang] {
        let server = Server::new();
        let leader = server.leader().await;
        let held = tokio::time::timeout(Duration::from_secs(60), leader.lost()).await;
        assert!(held.is_err(), "the Lease was not renewed");

        server.set(behavior);
        let begin = Instant::now();
        assert_eq!(leader.lost().await, Lost::NotRenewed(Duration::from_secs(10)));
        assert!(begin.elapsed() <= Duration::from_secs(10), "{:?}", begin.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_short_failure_of_the_api_server_does_not_cost_leadership() {
    let server = Server::new();
    let leader = server.leader().await;
    for behavior in [Behavior::Fail, Behavior::Hang] {
        server.set(behavior);
        assert!(tokio::time::timeout(Duration::from_secs(7), leader.lost()).await.is_err());
        server.set(Behavior::Answer);
        assert!(tokio::time::timeout(Duration::from_secs(60), leader.lost()).await.is_err());
    }
}

#[tokio::test(start_paused = true)]
async fn a_released_or_dropped_leader_stops_renewing() {
    let server = Server::new();
    let leader = server.leader().await;
    let lost = leader.lost();
    leader.release().await.expect("it can be given back");
    assert!(
        tokio::time::timeout(Duration::from_secs(60), lost).await.is_err(),
        "giving the Lease back is not losing it"
    );
    let record = || server.lease.lock().clone().expect("there is a lease")["spec"].clone();
    assert_eq!(record().get("holderIdentity"), None);

    drop(server.leader().await);
    let before = record();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!((&before["holderIdentity"], &before), (&json!("me"), &record()));
}

#[tokio::test(start_paused = true)]
async fn a_leader_keeps_a_lease_that_is_restored_from_a_backup_unless_that_names_another_holder() {
    for holder in [json!(null), json!("me"), json!("another")] {
        let server = Server::new();
        let leader = server.leader().await;
        let mut backup = server.lease.lock().clone().expect("there is a lease");
        backup["spec"]["holderIdentity"] = holder.clone();
        tokio::time::sleep(Duration::from_secs(30)).await;
        *server.lease.lock() = Some(backup);
        let lost = tokio::time::timeout(Duration::from_secs(60), leader.lost()).await.ok();
        let expected = holder.as_str().filter(|holder| *holder != "me");
        assert_eq!(lost, expected.map(|holder| Lost::TakenBy(holder.to_owned())));
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_loses_a_lease_that_is_emptied() {
    let server = Server::new();
    let leader = server.leader().await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    let emptied = server.lease.lock().clone().map(|lease| {
        let next = lease["metadata"]["resourceVersion"].as_str().and_then(|it| it.parse::<u64>().ok()).map(|it| it + 1);
        json!({"metadata": {"resourceVersion": next.expect("a version is a number").to_string()}, "spec": {}})
    });
    *server.lease.lock() = emptied;
    assert_eq!(leader.lost().await, Lost::Vacated);
}

/// For example by `kubectl delete lease`: until its next renewal, its holder goes on.
#[tokio::test(start_paused = true)]
async fn a_candidate_waits_for_the_holder_of_a_lease_that_is_deleted() {
    let server = Server::new();
    let held = json!({"holderIdentity": "another", "leaseDurationSeconds": 15});
    *server.lease.lock() = Some(json!({"metadata": {"name": "lease", "resourceVersion": "1"}, "spec": held}));
    let begin = Instant::now();
    let delete = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        *server.lease.lock() = None;
    };
    let (leader, ()) = tokio::join!(server.leader(), delete);
    assert!(begin.elapsed() >= Duration::from_secs(15), "{:?}", begin.elapsed());
    assert!(!leader.was_vacant());
}

#[tokio::test(start_paused = true)]
async fn a_leader_writes_its_version_into_the_lease() {
    let server = Server::new();
    let leader = server.leader().await;
    let published =
        || server.lease.lock().as_ref().map(|lease| lease["metadata"]["annotations"][VERSION_ANNOTATION].clone());
    assert_eq!(published(), Some(VERSION.as_str().into()));
    // What an older version left there is replaced by the next renewal.
    server.lease.lock().as_mut().unwrap()["metadata"]["annotations"][VERSION_ANNOTATION] = "0.0.1".into();
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(published(), Some(VERSION.as_str().into()));
    drop(leader);
}
