//! Authenticates a request by TokenReview and authorizes it by SubjectAccessReview.

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

/// How long an allowed request is cached: the longest time that a revoked permission still works.
const ALLOWED_TTL: Duration = Duration::from_secs(60);

/// How long a denied request is cached: long enough that invalid tokens cause little load, short enough that a new
/// permission soon works.
const DENIED_TTL: Duration = Duration::from_secs(10);

/// More callers than this are not scrapers.
const MAX_CACHED: usize = 256;

/// For both reviews together.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(5);

type Authorization = Result<(), StatusCode>;

/// By the hash of token and path, so that no token stays in memory; each with its expiry.
type Cache = HashMap<[u8; 32], (Instant, Authorization)>;

#[derive(Clone)]
pub(super) struct Authorizer {
    client: kube::Client,
    // An async mutex, held during the reviews: concurrent requests cause only one. There are few scrapers.
    cache: Arc<Mutex<Cache>>,
}

impl Authorizer {
    pub(super) fn new(client: kube::Client) -> Self {
        Self { client, cache: Arc::default() }
    }

    /// Whether a request with these headers may `get` this path: 401, 403, or 503 if the API server does not answer.
    pub(super) async fn check(&self, headers: &HeaderMap, path: &str) -> Authorization {
        let token = bearer_token(headers).ok_or(StatusCode::UNAUTHORIZED)?;
        let key = Sha256::new().chain_update(token).chain_update([0]).chain_update(path).finalize().into();
        let mut cache = self.cache.lock().await;
        cache.retain(|_, (expiry, _)| *expiry > Instant::now());
        if let Some((_, authorization)) = cache.get(&key) {
            return *authorization;
        }
        let authorization = match timeout(REVIEW_TIMEOUT, self.review(token, path)).await {
            Ok(Ok(authorization)) => authorization,
            Ok(Err(error)) => {
                tracing::warn!(error = chain(&error), "cannot authorize access to the metrics");
                return Err(StatusCode::SERVICE_UNAVAILABLE);
            }
            Err(_) => return Err(StatusCode::SERVICE_UNAVAILABLE),
        };
        if cache.len() < MAX_CACHED {
            let ttl = if authorization.is_ok() { ALLOWED_TTL } else { DENIED_TTL };
            cache.insert(key, (Instant::now() + ttl, authorization));
        }
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
    use super::*;

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
