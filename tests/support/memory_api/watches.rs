//! Watches, from a resource version on. A watch never delivers what was before it: nor does a real API server whose cache
//! is behind another one's.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use futures::stream;
use http::{Request, Response};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::http::{Target, answer, is_for_metadata, metadata_of, query, target};
use super::refusal::Refusal;
use super::{ApiServer, Change, Kind};

/// How long a watch lasts before the server ends it, where the client does not say.
const WATCH_LASTS: u64 = 290;

impl ApiServer {
    /// A watch, as its stream of lines. Each change comes `lag` after it happened; then it ends after its time, or when
    /// watches are cut off.
    pub fn watch(&self, request: &Request<Vec<u8>>, lag: impl FnMut() -> Duration + Send + 'static) -> Response<Body> {
        let Some(Target { kind, namespace, .. }) = target(request.uri().path()) else {
            return answer(404, &Refusal::new(404, "NotFound", "the server could not find it").body());
        };
        let query = query(request.uri());
        let Some(from) = query.get("resourceVersion").and_then(|version| version.parse::<u64>().ok()) else {
            return answer(400, &Refusal::bad_request("only watches from a resource version are known here").body());
        };
        let lasts = query.get("timeoutSeconds").and_then(|time| time.parse().ok()).unwrap_or(WATCH_LASTS);
        if from < self.state().forgotten {
            // As the real one does: the watch begins, and says so in its first event.
            let gone = Refusal::new(410, "Expired", "too old resource version").body();
            return answer(200, &json!({"type": "ERROR", "object": gone}));
        }
        let cut = self.state().cut;
        let ends = Instant::now() + Duration::from_secs(lasts);
        let is_metadata = is_for_metadata(request);
        let watcher = Watcher { server: self.clone(), kind, namespace, is_metadata, from, cut, ends };
        let lines = stream::unfold((watcher, lag), |(mut watcher, mut lag)| async move {
            let lines = watcher.next(&mut lag).await?;
            Some((Ok::<_, Infallible>(lines), (watcher, lag)))
        });
        Response::builder().status(200).body(Body::from_stream(lines)).expect("a good answer")
    }
}

struct Watcher {
    server: ApiServer,
    kind: Kind,
    namespace: String,
    is_metadata: bool,
    from: u64,
    cut: u64,
    ends: Instant,
}

impl Watcher {
    /// The next lines; none when the watch ends.
    async fn next(&mut self, lag: &mut impl FnMut() -> Duration) -> Option<String> {
        let mut news = self.server.news.subscribe();
        loop {
            if self.server.state().cut != self.cut {
                return None;
            }
            if self.is_news() {
                tokio::time::sleep(lag()).await;
                let is_cut = self.server.state().cut != self.cut;
                return if is_cut { None } else { Some(self.take()) };
            }
            // Nothing of what happened was meant: it need not be looked through again.
            self.from = self.from.max(self.server.version());
            let ends = self.ends;
            tokio::select! {
                biased;
                _ = news.changed() => {}
                () = tokio::time::sleep_until(ends) => return None,
            }
        }
    }

    fn is_meant(&self, change: &Change) -> bool {
        change.version > self.from
            && change.key.kind == self.kind
            && (self.namespace.is_empty() || change.key.namespace == self.namespace)
    }

    fn is_news(&self) -> bool {
        self.server
            .state()
            .changes
            .iter()
            .rev()
            .take_while(|change| change.version > self.from)
            .any(|change| self.is_meant(change))
    }

    fn take(&mut self) -> String {
        let state = self.server.state();
        let begin = state.changes.partition_point(|change| change.version <= self.from);
        let lines = state.changes[begin..].iter().filter(|change| self.is_meant(change));
        let lines = lines.map(|change| self.line(change)).collect();
        self.from = self.from.max(state.version);
        lines
    }

    fn line(&self, change: &Change) -> String {
        let object: Value = match self.is_metadata {
            true => metadata_of(&change.object),
            false => (*change.object).clone(),
        };
        format!("{{\"type\":{},\"object\":{object}}}\n", json!(change.how))
    }
}
