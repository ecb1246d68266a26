//! Who may read the metrics: whom the API server knows (TokenReview) and allows (SubjectAccessReview).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, StatusCode, header};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1::{NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::api::{Api, PostParams};
use sha2::{Digest, Sha256};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use crate::runtime::telemetry::chain;

/// How long a yes counts: a scraper that loses its permission is out after this.
const KEEP_YES: Duration = Duration::from_secs(60);

/// How long a no counts: enough that wrong tokens are no load, short enough for a permission that was just given.
const KEEP_NO: Duration = Duration::from_secs(10);

/// How many answers are kept; more callers than this are not scrapers.
const MOST: usize = 256;

/// How long the API server may take for one question.
const PATIENCE: Duration = Duration::from_secs(5);

type Answer = Result<(), StatusCode>;

/// By the token's hash, so that no token stays in memory; each with the end of its time.
type Answers = HashMap<[u8; 32], (Instant, Answer)>;

/// Asks the API server, and remembers what it said for a short time.
#[derive(Clone)]
pub(super) struct Access {
    client: kube::Client,
    // tokio's mutex: held while asking, so that requests at the same time ask once; a scraper or two come in a minute.
    answers: Arc<Mutex<Answers>>,
}

impl Access {
    pub(super) fn new(client: kube::Client) -> Self {
        Self { client, answers: Arc::default() }
    }

    /// Whether a request with these headers may `get` this path: 401, 403, or 503 when the API server cannot be asked.
    pub(super) async fn check(&self, headers: &HeaderMap, path: &str) -> Answer {
        let token = bearer(headers).ok_or(StatusCode::UNAUTHORIZED)?;
        let key = Sha256::new().chain_update(token).chain_update([0]).chain_update(path).finalize().into();
        let mut answers = self.answers.lock().await;
        answers.retain(|_, (until, _)| *until > Instant::now());
        if let Some((_, answer)) = answers.get(&key) {
            return *answer;
        }
        let answer = match timeout(PATIENCE, self.ask(token, path)).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => {
                tracing::warn!(error = chain(&error), "cannot ask who may read the metrics");
                return Err(StatusCode::SERVICE_UNAVAILABLE);
            }
            Err(_) => return Err(StatusCode::SERVICE_UNAVAILABLE),
        };
        if answers.len() < MOST {
            answers.insert(key, (Instant::now() + if answer.is_ok() { KEEP_YES } else { KEEP_NO }, answer));
        }
        answer
    }

    async fn ask(&self, token: &str, path: &str) -> Result<Answer, kube::Error> {
        let Some(user) = self.who(token).await? else { return Ok(Err(StatusCode::UNAUTHORIZED)) };
        Ok(if self.may_get(user, path).await? { Ok(()) } else { Err(StatusCode::FORBIDDEN) })
    }

    async fn who(&self, token: &str) -> Result<Option<UserInfo>, kube::Error> {
        let spec = TokenReviewSpec { token: Some(token.to_owned()), ..TokenReviewSpec::default() };
        let review = TokenReview { spec, ..TokenReview::default() };
        let review = Api::all(self.client.clone()).create(&PostParams::default(), &review).await?;
        let status = review.status.unwrap_or_default();
        Ok(status.user.filter(|_| status.authenticated == Some(true)))
    }

    async fn may_get(&self, user: UserInfo, path: &str) -> Result<bool, kube::Error> {
        let wanted = NonResourceAttributes { path: Some(path.to_owned()), verb: Some("get".into()) };
        let spec = SubjectAccessReviewSpec {
            non_resource_attributes: Some(wanted),
            user: user.username,
            uid: user.uid,
            groups: user.groups,
            extra: user.extra,
            ..SubjectAccessReviewSpec::default()
        };
        let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
        let review = Api::all(self.client.clone()).create(&PostParams::default(), &review).await?;
        Ok(review.status.is_some_and(|status| status.allowed && status.denied != Some(true)))
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    Some(token.trim()).filter(|token| scheme.eq_ignore_ascii_case("bearer") && !token.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_bearer_token_says_who_asks() {
        for (header, expected) in [
            ("Bearer abc", Some("abc")),
            ("bearer  abc", Some("abc")),
            ("Basic abc", None),
            ("Bearer ", None),
            ("abc", None),
        ] {
            let value = header.parse().expect("it is a header value");
            assert_eq!(bearer(&HeaderMap::from_iter([(header::AUTHORIZATION, value)])), expected, "{header}");
        }
        assert_eq!(bearer(&HeaderMap::new()), None);
    }
}
