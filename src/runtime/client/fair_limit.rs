//! A limit of the requests that await their response concurrently, shared fairly by namespace.
//!
//! As tower's `ConcurrencyLimit`, but that one serves requests in the order in which they come: a namespace whose
//! admission webhook is slow, or that has a thousand claims, would make all others wait.
//!
//! A request keeps its slot until the response's body is complete: an object's author decides how large it is, and without
//! that, the bodies of all requests would be in memory at the same time. Not so that of a watch, which does not end, and
//! that of a page of a list, which [`PageLimitLayer`](super::PageLimitLayer) bounds.

use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Request, Response, Uri};
use http_body_util::{BodyExt, Either, Full};
use hyper::body::Body;
use tokio::sync::Mutex;
use tower::{BoxError, Layer, Service, ServiceExt};
use url::form_urlencoded;

use super::page_limit::page_objects;
use crate::fair::FairSlots;

/// A request's namespace; none for requests that concern the whole cluster, which have a share like a namespace's.
type Tenant = Option<String>;

pub(super) struct FairLimitLayer(Arc<FairSlots<Tenant>>);

impl FairLimitLayer {
    pub(super) fn new(limit: usize) -> Self {
        Self(Arc::new(FairSlots::new(limit)))
    }
}

impl<S> Layer<S> for FairLimitLayer {
    type Service = FairLimit<S>;

    fn layer(&self, inner: S) -> FairLimit<S> {
        FairLimit { slots: self.0.clone(), inner: Arc::new(Mutex::new(inner)) }
    }
}

pub(super) struct FairLimit<S> {
    slots: Arc<FairSlots<Tenant>>,
    /// Called by the futures of the requests, when each has its slot. Locked until it is ready, so that requests are sent
    /// one after the other, but answered concurrently.
    inner: Arc<Mutex<S>>,
}

impl<S> Clone for FairLimit<S> {
    fn clone(&self) -> Self {
        Self { slots: self.slots.clone(), inner: self.inner.clone() }
    }
}

impl<S, B, R> Service<Request<B>> for FairLimit<S>
where
    S: Service<Request<B>, Response = Response<R>> + Send + 'static,
    S::Future: Send,
    S::Error: Into<BoxError> + Send,
    B: Send + 'static,
    R: Body<Data = Bytes> + Send + 'static,
    R::Error: Into<BoxError>,
{
    type Response = Response<Either<R, Full<Bytes>>>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    /// Always: a request waits in its future, since its namespace is not known before.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let tenant = namespace(request.uri().path()).map(str::to_owned);
        let needs_no_slot_for_body = is_watch(request.uri()) || page_objects(&request).is_some();
        let (slots, inner) = (self.slots.clone(), self.inner.clone());
        async move {
            let _slot = slots.acquire(tenant).await;
            let response = inner.lock().await.ready().await.map_err(Into::into)?.call(request);
            let response = response.await.map_err(Into::into)?;
            if needs_no_slot_for_body {
                return Ok(response.map(Either::Left));
            }
            let (head, body) = response.into_parts();
            let body = body.collect().await.map_err(Into::into)?.to_bytes();
            Ok(Response::from_parts(head, Either::Right(Full::new(body))))
        }
        .boxed()
    }
}

fn is_watch(uri: &Uri) -> bool {
    form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes()).any(|(name, _)| name == "watch")
}

/// The namespace in the path of a request to the API server: `/api/v1/namespaces/NAME/…`, `/apis/GROUP/VERSION/…`.
fn namespace(path: &str) -> Option<&str> {
    let mut parts = path.split('/').skip_while(|part| *part != "namespaces").skip(1);
    parts.next().filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::future::ready;
    use std::sync::Mutex as PlainMutex;

    use http_body_util::StreamBody;
    use hyper::body::Frame;
    use tokio::sync::oneshot;

    use super::*;

    #[test]
    fn a_namespace_is_read_from_the_path() {
        for (path, expected) in [
            ("/api/v1/namespaces/team-a/secrets/cloud", Some("team-a")),
            ("/apis/ipam.cluster.x-k8s.io/v1beta2/namespaces/b/ipaddressclaims/c/status", Some("b")),
            ("/api/v1/namespaces/team-a", Some("team-a")),
            ("/api/v1/namespaces", None),
            ("/api/v1/namespaces/", None),
            ("/apis/ipam.cluster.x-k8s.io/v1beta2/ipaddressclaims", None),
            ("/version", None),
        ] {
            assert_eq!(namespace(path), expected, "{path}");
        }
    }

    /// The paths of the requests that were received, in this order, with what ends each.
    type Received = Arc<PlainMutex<Vec<(String, oneshot::Sender<()>)>>>;

    /// A client with two slots, and the requests that it sent. The head of each response comes at once, and the test sends
    /// the body.
    fn server() -> (Received, impl Service<Request<()>, Response: Send, Future: Send + 'static>) {
        let received = Received::default();
        let all = received.clone();
        let service = tower::service_fn(move |request: Request<()>| {
            let path = request.uri().path().to_owned();
            let (sender, end) = oneshot::channel();
            all.lock().expect("no test panicked").push((path, sender));
            let body = end.map(|_| Ok::<_, Infallible>(Frame::data(Bytes::from("{}"))));
            ready(Ok::<_, Infallible>(Response::new(StreamBody::new(body.into_stream()))))
        });
        (received, FairLimitLayer::new(2).layer(service))
    }

    fn paths(received: &Received) -> Vec<String> {
        received.lock().expect("no test panicked").iter().map(|(path, _)| path.clone()).collect()
    }

    async fn end_first(received: &Received) {
        let (_, end) = received.lock().expect("no test panicked").remove(0);
        end.send(()).expect("it is awaited");
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_namespace_with_many_requests_lets_others_pass() {
        let (received, mut client) = server();
        let mut send = |path: &str| {
            let request = Request::get(path).body(()).expect("it is a request");
            tokio::spawn(client.call(request).map(|_| ()));
        };
        for number in 0..100 {
            send(&format!("/api/v1/namespaces/loud/secrets/{number}"));
        }
        send("/api/v1/namespaces/quiet/secrets/0");
        send("/version");
        tokio::task::yield_now().await;
        assert_eq!(paths(&received), ["/api/v1/namespaces/loud/secrets/0", "/api/v1/namespaces/loud/secrets/1"]);
        end_first(&received).await;
        assert_eq!(paths(&received), ["/api/v1/namespaces/loud/secrets/1", "/api/v1/namespaces/quiet/secrets/0"]);
        end_first(&received).await;
        assert_eq!(paths(&received), ["/api/v1/namespaces/quiet/secrets/0", "/version"]);
    }

    #[tokio::test]
    async fn a_watch_and_a_page_of_a_list_keep_no_slot_once_they_are_answered() {
        let (received, mut client) = server();
        for path in ["/pools?watch=true", "/pools?limit=50", "/pools?watchful=a", "/a", "/b"] {
            let request = Request::get(path).body(()).expect("it is a request");
            tokio::spawn(client.call(request).map(|_| ()));
            tokio::task::yield_now().await;
        }
        assert_eq!(paths(&received), ["/pools", "/pools", "/pools", "/a"]);
    }

    #[tokio::test]
    async fn a_request_that_is_dropped_frees_its_slot() {
        let (received, mut client) = server();
        let mut send = |path: &str| {
            let request = Request::get(path).body(()).expect("it is a request");
            tokio::spawn(client.call(request).map(|_| ()))
        };
        let begun = [send("/a"), send("/b"), send("/c")];
        tokio::task::yield_now().await;
        assert_eq!(paths(&received), ["/a", "/b"]);
        for task in begun {
            task.abort();
        }
        send("/d");
        send("/e");
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        assert_eq!(paths(&received), ["/a", "/b", "/d", "/e"]);
    }
}
