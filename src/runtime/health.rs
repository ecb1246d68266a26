//! `/healthz`: the process answers. `/readyz`: it does what it is there for.
//!
//! Ready means that the API server answers and that everything which has reported itself is well: the controllers report
//! their caches once they start. A replica that waits for the lease has started none, and is ready to take over.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::routing::get;
use http::StatusCode;
use tokio::time::Instant;

/// A kubelet waits 1 s for a probe by default; an API server that takes longer does not answer as far as it can see.
const PATIENCE: Duration = Duration::from_millis(900);

/// How long an answer of the API server counts, so that probes do not become load.
const KEEP: Duration = Duration::from_secs(5);

/// Who is well. Cheap to clone; clones share what they know.
#[derive(Clone, Debug, Default)]
pub struct Readiness {
    // A plain mutex: held for a look or a change, never across an await.
    checks: Arc<Mutex<BTreeMap<&'static str, bool>>>,
}

impl Readiness {
    /// Nobody has reported yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reports `name` as well, or not. Report `false` first where being well takes time.
    pub fn set(&self, name: &'static str, is_well: bool) {
        self.lock().insert(name, is_well);
    }

    /// Whether all who reported are well.
    pub fn is_ready(&self) -> bool {
        self.lock().values().all(|is_well| *is_well)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<&'static str, bool>> {
        self.checks.lock().expect("no code panics while it holds the checks")
    }
}

#[derive(Clone)]
struct Probes {
    client: kube::Client,
    readiness: Readiness,
    // tokio's mutex: held while the API server is asked, so that probes at the same time ask it once.
    answered: Arc<tokio::sync::Mutex<Option<(Instant, bool)>>>,
}

/// The pages of the health address.
pub fn router(client: kube::Client, readiness: Readiness) -> Router {
    let probes = Probes { client, readiness, answered: Arc::default() };
    Router::new().route("/healthz", get(|| async { "ok" })).route("/readyz", get(ready)).with_state(probes)
}

async fn ready(State(probes): State<Probes>) -> (StatusCode, String) {
    let mut checks = probes.readiness.lock().clone();
    checks.insert("api-server", probes.api_server_answers().await);
    let mut text = String::new();
    for (name, is_well) in &checks {
        writeln!(text, "[{}] {name}", if *is_well { '+' } else { '-' }).expect("a String takes any text");
    }
    let all = checks.values().all(|is_well| *is_well);
    (if all { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, text)
}

impl Probes {
    async fn api_server_answers(&self) -> bool {
        let mut answered = self.answered.lock().await;
        if let Some((at, answer)) = *answered
            && at.elapsed() < KEEP
        {
            return answer;
        }
        let answer = matches!(tokio::time::timeout(PATIENCE, self.client.apiserver_version()).await, Ok(Ok(_)));
        *answered = Some((Instant::now(), answer));
        answer
    }
}
