//! Authenticates a request by TokenReview and authorizes it by SubjectAccessReview.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, StatusCode, header};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1::{NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::api::{Api, PostParams};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use crate::clock::instant_after;
use crate::runtime::telemetry::chain;

/// How long an allowed request is cached: the longest time that a revoked permission still works.
const ALLOWED_TTL: Duration = Duration::from_secs(60);

/// How long a denied request is cached: long enough that invalid tokens cause little load, short enough that a new
/// permission soon works.
const DENIED_TTL: Duration = Duration::from_secs(10);

/// More callers than this are not scrapers.
const MAX_CACHED: usize = 256;

/// How many unknown tokens are reviewed at a time, so that callers with made-up tokens neither load the API server nor delay
/// callers whose tokens are known. Further ones get 503, and a scraper comes back.
const MAX_REVIEWS: usize = 4;

/// How long a token that was allowed is known: longer than the pause between two scrapes.
const KNOWN_TTL: Duration = Duration::from_secs(3600);

/// For both reviews together.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(5);

type Authorization = Result<(), StatusCode>;

/// A hash of token and path, so that no token stays in memory.
type Key = [u8; 32];

#[derive(Default)]
struct Cache {
    /// Each with its expiry.
    reviewed: HashMap<Key, (Instant, Authorization)>,
    /// What was allowed, and until when that is remembered.
    known: HashMap<Key, Instant>,
}

impl Cache {
    fn get(&mut self, key: &Key) -> Option<Authorization> {
        self.reviewed.retain(|_, (expiry, _)| *expiry > Instant::now());
        self.known.retain(|_, expiry| *expiry > Instant::now());
        self.reviewed.get(key).map(|(_, authorization)| *authorization)
    }

    fn insert(&mut self, key: Key, authorization: Authorization) {
        let now = Instant::now();
        let ttl = if authorization.is_ok() { ALLOWED_TTL } else { DENIED_TTL };
        if self.reviewed.len() < MAX_CACHED {
            self.reviewed.insert(key, (instant_after(now, ttl), authorization));
        }
        match authorization {
            Ok(()) if self.known.len() < MAX_CACHED => _ = self.known.insert(key, instant_after(now, KNOWN_TTL)),
            Ok(()) => {}
            Err(_) => _ = self.known.remove(&key),
        }
    }
}

#[derive(Clone)]
pub(super) struct Authorizer {
    client: kube::Client,
    // Never locked across an await.
    cache: Arc<Mutex<Cache>>,
    reviews: Arc<Semaphore>,
}

impl Authorizer {
    pub(super) fn new(client: kube::Client) -> Self {
        Self { client, cache: Arc::default(), reviews: Arc::new(Semaphore::new(MAX_REVIEWS)) }
    }

    /// Whether a request with these headers may `get` this path: 401, 403, or 503 if the API server does not answer.
    pub(super) async fn check(&self, headers: &HeaderMap, path: &str) -> Authorization {
        let token = bearer_token(headers).ok_or(StatusCode::UNAUTHORIZED)?;
        let key = Sha256::new().chain_update(token).chain_update([0]).chain_update(path).finalize().into();
        let is_known = {
            let mut cache = self.cache.lock();
            if let Some(authorization) = cache.get(&key) {
                return authorization;
            }
            cache.known.contains_key(&key)
        };
        let turn = (!is_known).then(|| self.reviews.try_acquire());
        let _turn = turn.transpose().map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?;
        let authorization = match timeout(REVIEW_TIMEOUT, self.review(token, path)).await {
            Ok(Ok(authorization)) => authorization,
            Ok(Err(error)) => {
                tracing::warn!(error = chain(&error), "cannot authorize access to the metrics");
                return Err(StatusCode::SERVICE_UNAVAILABLE);
            }
            Err(_) => return Err(StatusCode::SERVICE_UNAVAILABLE),
        };
        self.cache.lock().insert(key, authorization);
        authorization
    }

    async fn review(&self, token: &str, path: &str) -> Result<Authorization, kube::Error> {
        let Some(user) = self.authenticate(token).await? else { return Ok(Err(StatusCode::UNAUTHORIZED)) };
        Ok(if self.may_get(user, path).await? { Ok(()) } else { Err(StatusCode::FORBIDDEN) })
    }

    async fn authenticate(&self, token: &str) -> Result<Option<UserInfo>, kube::Error> {
        let spec = TokenReviewSpec { token: Some(token.to_owned()), ..TokenReviewSpec::default() };
        let review = TokenReview { spec, ..TokenReview::default() };
        let review = Api::all(self.client.clone()).create(&PostParams::default(), &review).await?;
        let status = review.status.unwrap_or_default();
        Ok(status.user.filter(|_| status.authenticated == Some(true)))
    }

    async fn may_get(&self, user: UserInfo, path: &str) -> Result<bool, kube::Error> {
        let attributes = NonResourceAttributes { path: Some(path.to_owned()), verb: Some("get".into()) };
        let spec = SubjectAccessReviewSpec {
            non_resource_attributes: Some(attributes),
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

fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    Some(token.trim()).filter(|token| scheme.eq_ignore_ascii_case("bearer") && !token.is_empty())
}

#[cfg(test)]
mod tests {
    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::json;
    use tokio::time::sleep;

    use super::*;

    /// An API server that knows the token `scraper`, and takes its time with every other one.
    async fn answer(request: Request<Body>) -> Result<Response<Body>, tower::BoxError> {
        let is_token = request.uri().path().ends_with("tokenreviews");
        let body = request.into_body().collect_bytes().await?;
        let body: serde_json::Value = serde_json::from_slice(&body)?;
        let mut status = json!({"allowed": true});
        if is_token {
            let is_scraper = body["spec"]["token"] == "scraper";
            if !is_scraper {
                sleep(Duration::from_secs(4)).await;
            }
            status = json!({"authenticated": is_scraper, "user": {"username": "scraper"}});
        }
        let review = json!({"metadata": {}, "spec": {}, "status": status});
        Ok(Response::new(Body::from(review.to_string().into_bytes())))
    }

    #[tokio::test(start_paused = true)]
    async fn unknown_tokens_do_not_keep_a_scraper_waiting() {
        let authorizer = Authorizer::new(kube::Client::new(tower::service_fn(answer), "default"));
        let check = async |token: String| {
            let value = format!("Bearer {token}").parse().expect("a valid header value");
            authorizer.check(&HeaderMap::from_iter([(header::AUTHORIZATION, value)]), "/metrics").await
        };
        assert_eq!(check("scraper".into()).await, Ok(()));
        for _ in 0..3 {
            sleep(ALLOWED_TTL + Duration::from_secs(1)).await;
            let begin = Instant::now();
            let strangers = futures::future::join_all((0..20).map(|number| check(format!("stranger-{number}"))));
            let scrape = async {
                sleep(Duration::from_secs(1)).await;
                (check("scraper".into()).await, begin.elapsed())
            };
            let (refused, (scraped, after)) = tokio::join!(strangers, scrape);
            assert_eq!((scraped, after), (Ok(()), Duration::from_secs(1)));
            let reviewed = refused.iter().filter(|it| **it == Err(StatusCode::UNAUTHORIZED)).count();
            assert_eq!(reviewed, MAX_REVIEWS, "{refused:?}");
            assert!(begin.elapsed() < REVIEW_TIMEOUT);
        }
    }

    #[test]
    fn only_a_bearer_token_authenticates() {
        for (header, expected) in [
            ("Bearer abc", Some("abc")),
            ("bearer  abc", Some("abc")),
            ("Basic abc", None),
            ("Bearer ", None),
            ("abc", None),
        ] {
            let value = header.parse().expect("a valid header value");
            assert_eq!(bearer_token(&HeaderMap::from_iter([(header::AUTHORIZATION, value)])), expected, "{header}");
        }
        assert_eq!(bearer_token(&HeaderMap::new()), None);
    }
}
