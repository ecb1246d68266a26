//! A limit for the pages of lists, in bytes. An object's author decides how large it is, up to etcd's limit of 1.5 MiB, and
//! a whole page is in memory several times while it is read.
//!
//! A page that is larger is asked for again with fewer objects. The caller sees a short page, as a server may send one, and
//! a token with which the list continues. The next page has as many objects of that size as fit: each large object takes
//! one request, not several.

use std::collections::BTreeMap;
use std::mem::replace;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Method, Request, Response, Uri};
use http_body_util::{BodyExt, Either, Full, LengthLimitError, Limited};
use hyper::body::Body;
use parking_lot::Mutex;
use tower::{BoxError, Layer, Service, ServiceExt};
use url::form_urlencoded::{self, Serializer};

/// In objects, where they are not large.
pub(crate) const PAGE_OBJECTS: u32 = 50;
/// In bytes. The controller reads up to eight lists at the same time, each with such a page three times: as it came, as
/// text, and parsed.
const MAX_PAGE_SIZE: usize = 2 << 20;
/// What the next page is expected to have. Less, since objects differ.
const USUAL_PAGE_SIZE: u64 = 3 << 19;
/// By how much the next try is smaller: 50, 10, 2, 1 objects.
const SMALLER: u32 = 5;
/// The parameter with the number of objects.
const LIMIT: &str = "limit";

/// How many objects the next page has, by the path of the list: of those lists that have large objects.
type NextPages = Arc<Mutex<BTreeMap<String, u32>>>;

pub(super) struct PageLimitLayer;

impl<S> Layer<S> for PageLimitLayer {
    type Service = PageLimit<S>;

    fn layer(&self, inner: S) -> PageLimit<S> {
        PageLimit { inner, next: NextPages::default() }
    }
}

pub(super) struct PageLimit<S> {
    inner: S,
    next: NextPages,
}

impl<S, B, R> Service<Request<B>> for PageLimit<S>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
    B: From<Vec<u8>> + Send + 'static,
    R: Body<Data = Bytes> + Send + 'static,
    R::Error: Into<BoxError>,
{
    type Response = Response<Either<R, Full<Bytes>>>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // The one that is ready.
        let other = self.inner.clone();
        let mut inner = replace(&mut self.inner, other);
        let next = self.next.clone();
        async move {
            let Some(objects) = page_objects(&request) else {
                return Ok(inner.call(request).await.map_err(Into::into)?.map(Either::Left));
            };
            let (response, page) = read_page(&mut inner, request, objects, &next).await?.into_parts();
            Ok(Response::from_parts(response, Either::Right(Full::new(page))))
        }
        .boxed()
    }
}

/// Sends a request for a page of at most so many objects, and the same for fewer as long as the page is too large. One
/// object is read whatever its size.
async fn read_page<S, B, R>(
    inner: &mut S,
    request: Request<B>,
    most: u32,
    next: &NextPages,
) -> Result<Response<Bytes>, BoxError>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Error: Into<BoxError>,
    B: From<Vec<u8>>,
    R: Body<Data = Bytes>,
    R::Error: Into<BoxError>,
{
    let (head, _) = request.into_parts();
    let mut objects = next.lock().get(head.uri.path()).map_or(most, |next| most.min(*next));
    loop {
        let mut request = Request::from_parts(head.clone(), B::from(Vec::new()));
        *request.uri_mut() = with_page_objects(&head.uri, objects)?;
        let ready = inner.ready().await.map_err(Into::into)?;
        let (response, body) = ready.call(request).await.map_err(Into::into)?.into_parts();
        let limit = if objects > 1 { MAX_PAGE_SIZE } else { usize::MAX };
        match Limited::new(body, limit).collect().await {
            Ok(page) => {
                let page = page.to_bytes();
                set_next(next, head.uri.path(), most, objects_that_fit(objects, page.len()));
                return Ok(Response::from_parts(response, page));
            }
            Err(error) if error.is::<LengthLimitError>() => objects = objects.div_ceil(SMALLER),
            Err(error) => return Err(error),
        }
    }
}

/// How many objects a page should have if so many took so many bytes.
fn objects_that_fit(objects: u32, size: usize) -> u32 {
    let size = u64::try_from(size).unwrap_or(u64::MAX).max(1);
    let fit = u64::from(objects).saturating_mul(USUAL_PAGE_SIZE).checked_div(size).unwrap_or_default();
    u32::try_from(fit).unwrap_or(u32::MAX).max(1)
}

fn set_next(next: &NextPages, path: &str, most: u32, objects: u32) {
    let mut next = next.lock();
    if objects < most {
        next.insert(path.to_owned(), objects);
    } else {
        next.remove(path);
    }
}

/// How many objects a page may have, in a request for a list that is read page by page.
pub(super) fn page_objects<B>(request: &Request<B>) -> Option<u32> {
    let mut parameters = form_urlencoded::parse(request.uri().query()?.as_bytes());
    let limit = parameters.find(|(name, _)| name == LIMIT)?.1.parse().ok();
    limit.filter(|_| request.method() == Method::GET)
}

fn with_page_objects(uri: &Uri, objects: u32) -> Result<Uri, http::Error> {
    let mut query = Serializer::new(String::new());
    for (name, value) in form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes()) {
        match name == LIMIT {
            true => query.append_pair(LIMIT, &objects.to_string()),
            false => query.append_pair(&name, &value),
        };
    }
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(format!("{}?{}", uri.path(), query.finish()).parse()?);
    Ok(Uri::from_parts(parts)?)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::api::ListParams;
    use kube::{Api, ResourceExt};
    use parking_lot::Mutex;
    use serde_json::json;

    use super::*;

    /// How many objects the list has.
    const OBJECTS: u32 = 120;

    fn name(index: u32) -> String {
        format!("object-{index}")
    }

    /// An API server on which some objects are large; and the numbers of objects for which it was asked.
    fn client(sizes: impl Fn(u32) -> usize + Clone + Send + 'static) -> (kube::Client, Arc<Mutex<Vec<u32>>>) {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let seen = asked.clone();
        let answer = tower::service_fn(move |request: Request<kube::client::Body>| {
            let query: Vec<_> = form_urlencoded::parse(request.uri().query().unwrap().as_bytes()).collect();
            let number = |name| query.iter().find(|(key, _)| key == name)?.1.parse::<u32>().ok();
            let (limit, first) = (number("limit").unwrap_or(OBJECTS), number("continue").unwrap_or_default());
            seen.lock().push(limit);
            let end = (first + limit).min(OBJECTS);
            let object =
                |index| json!({"metadata": {"name": name(index)}, "data": {"large": "x".repeat(sizes(index))}});
            let items: Vec<_> = (first..end).map(object).collect();
            let metadata = json!({"continue": (end < OBJECTS).then(|| end.to_string())});
            let list = json!({"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": items});
            async move { Ok::<_, BoxError>(Response::new(Full::<Bytes>::from(list.to_string()))) }
        });
        (kube::Client::new(PageLimitLayer.layer(answer), "default"), asked)
    }

    async fn names(client: kube::Client) -> Vec<String> {
        let (api, mut names) = (Api::<ConfigMap>::all(client), Vec::new());
        let mut page = ListParams::default().limit(PAGE_OBJECTS);
        loop {
            let list = api.list(&page).await.expect("there is a page that is small enough");
            names.extend(list.items.iter().map(ResourceExt::name_any));
            match list.metadata.continue_ {
                Some(token) => page = page.continue_token(&token),
                None => return names,
            }
        }
    }

    #[tokio::test]
    async fn pages_without_large_objects_are_read_as_they_are() {
        let (client, asked) = client(|_| MAX_PAGE_SIZE / 100);
        assert_eq!(names(client).await, (0..OBJECTS).map(name).collect::<Vec<_>>());
        assert_eq!(*asked.lock(), [50, 50, 50]);
    }

    #[tokio::test]
    async fn a_page_that_is_too_large_is_read_again_with_fewer_objects() {
        let (client, asked) = client(|index| if index == 1 || index == 2 { 2 * MAX_PAGE_SIZE } else { 0 });
        assert_eq!(names(client).await, (0..OBJECTS).map(name).collect::<Vec<_>>());
        assert_eq!(*asked.lock(), [50, 10, 2, 1, 50, 10, 2, 1, 1, 1, 50, 50, 50]);
    }

    /// Otherwise a tenant with many would make the list so slow that its token expires, and no list would ever end.
    #[tokio::test]
    async fn a_large_object_among_others_takes_one_request() {
        for (size, requests) in [(MAX_PAGE_SIZE * 3 / 4, 123), (MAX_PAGE_SIZE / 8, 28)] {
            let (client, asked) = client(move |_| size);
            assert_eq!(names(client).await, (0..OBJECTS).map(name).collect::<Vec<_>>());
            assert!(asked.lock().len() <= requests, "{size}: {:?}", asked.lock());
        }
    }

    #[tokio::test]
    async fn what_is_no_page_has_no_limit() {
        let (client, asked) = client(|_| MAX_PAGE_SIZE / 10);
        let list = Api::<ConfigMap>::all(client).list(&ListParams::default()).await;
        assert_eq!(list.map(|list| list.items.len()).ok(), usize::try_from(OBJECTS).ok());
        assert_eq!(asked.lock().len(), 1);
    }
}
