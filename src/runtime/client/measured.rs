//! Reports each request to the API server: its method, the status of its answer, and its duration.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Method, Request, Response, StatusCode};
use tokio::time::Instant;
use tower::{Layer, Service};

/// A request whose response's head has arrived, or that failed.
#[derive(Clone, Copy, Debug)]
pub struct SentRequest<'a> {
    /// The API server's, with the port if the kubeconfig names one.
    pub host: &'a str,
    pub method: &'a Method,
    /// None if there was no response.
    pub status: Option<StatusCode>,
    /// Without the wait for a slot, and with kube's retries.
    pub duration: Duration,
}

pub type RequestObserver = Arc<dyn Fn(SentRequest<'_>) + Send + Sync>;

pub(super) struct MeasuredLayer {
    pub(super) host: Arc<str>,
    pub(super) observer: RequestObserver,
}

impl<S> Layer<S> for MeasuredLayer {
    type Service = Measured<S>;

    fn layer(&self, inner: S) -> Measured<S> {
        Measured { host: self.host.clone(), observer: self.observer.clone(), inner }
    }
}

pub(super) struct Measured<S> {
    host: Arc<str>,
    observer: RequestObserver,
    inner: S,
}

impl<S, B, R> Service<Request<B>> for Measured<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (host, observer, method) = (self.host.clone(), self.observer.clone(), request.method().clone());
        let (begin, response) = (Instant::now(), self.inner.call(request));
        async move {
            let result = response.await;
            let status = result.as_ref().ok().map(Response::status);
            observer(SentRequest { host: &host, method: &method, status, duration: begin.elapsed() });
            result
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_request_is_reported_with_its_status_and_duration() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let sink = seen.clone();
        let observer: RequestObserver = Arc::new(move |sent| {
            sink.lock().push((sent.host.to_owned(), sent.method.clone(), sent.status, sent.duration.as_secs()));
        });
        let answer = tower::service_fn(|request: Request<()>| async move {
            tokio::time::sleep(Duration::from_secs(2)).await;
            match request.uri().path() {
                "/none" => Err("closed"),
                _ => Ok(Response::builder().status(404).body(()).unwrap()),
            }
        });
        let mut client = MeasuredLayer { host: "api:6443".into(), observer }.layer(answer);
        assert_eq!(client.call(Request::get("/any").body(()).unwrap()).await.unwrap().status(), 404);
        assert!(client.call(Request::patch("/none").body(()).unwrap()).await.is_err());
        let host = || "api:6443".to_owned();
        let expected = [(host(), Method::GET, Some(StatusCode::NOT_FOUND), 2), (host(), Method::PATCH, None, 2)];
        assert_eq!(*seen.lock(), expected);
    }
}
