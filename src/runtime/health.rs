//! `/healthz`: the process answers. `/readyz`: the API server answers and all registered checks pass.
//!
//! The controllers register a check for their caches when they start: it fails while a watch is interrupted. A replica
//! that waits for the Lease has registered none, so it is ready: ready to take over.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::routing::get;
use http::StatusCode;
use parking_lot::Mutex;
use tokio::time::Instant;

/// Below the kubelet's default probe timeout of 1 s.
const API_SERVER_TIMEOUT: Duration = Duration::from_millis(900);

/// How long the API server's answer is cached, to limit the load from probes.
const CACHE_TTL: Duration = Duration::from_secs(5);

/// The registered checks and their latest results. Cheap to clone; clones share the checks.
#[derive(Clone, Debug, Default)]
pub struct Readiness {
    // Not an async mutex: it is never held across an await.
    checks: Arc<Mutex<BTreeMap<&'static str, bool>>>,
}

impl Readiness {
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers or updates the check `name`. Register a check that needs time to pass with `false`.
    pub fn set(&self, name: &'static str, passes: bool) {
        self.checks.lock().insert(name, passes);
    }

    pub fn is_ready(&self) -> bool {
        self.checks.lock().values().all(|passes| *passes)
    }
}

#[derive(Clone)]
struct Probes {
    client: kube::Client,
    readiness: Readiness,
    // An async mutex, held during the request: concurrent probes send only one.
    answered: Arc<tokio::sync::Mutex<Option<(Instant, bool)>>>,
}

pub fn router(client: kube::Client, readiness: Readiness) -> Router {
    let probes = Probes { client, readiness, answered: Arc::default() };
    Router::new().route("/healthz", get(|| async { "ok" })).route("/readyz", get(readyz)).with_state(probes)
}

async fn readyz(State(probes): State<Probes>) -> (StatusCode, String) {
    let mut checks = probes.readiness.checks.lock().clone();
    checks.insert("api-server", probes.api_server_answers().await);
    let mut text = String::new();
    for (name, passes) in &checks {
        text += &format!("[{}] {name}\n", if *passes { '+' } else { '-' });
    }
    let is_ready = checks.values().all(|passes| *passes);
    (if is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, text)
}

impl Probes {
    async fn api_server_answers(&self) -> bool {
        let mut answered = self.answered.lock().await;
        if let Some((at, answer)) = *answered
            && at.elapsed() < CACHE_TTL
        {
            return answer;
        }
        let answer =
            matches!(tokio::time::timeout(API_SERVER_TIMEOUT, self.client.apiserver_version()).await, Ok(Ok(_)));
        *answered = Some((Instant::now(), answer));
        answer
    }
}
