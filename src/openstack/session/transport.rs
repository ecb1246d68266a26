//! The HTTP client for one set of credentials, and the classification of its failures.
//!
//! It never follows a redirect, which would leak the token. It trusts the system's CAs and those of the Secret. Every
//! request ends in bounded time, and what is kept of its answer is bounded.

mod connect;

use std::error::Error as StdError;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy::{self, Client};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::{CertificateError, RootCertStore};
use tokio::time::timeout;
use url::Url;

use super::super::hosts::{AllowedResolver, ClientLookups, LOOKUP_TIMEOUT, NotAllowed, SlowLookup};
use super::super::{AllowedHosts, Credentials, Error, ErrorKind, HttpsProxy};
use super::invalid_request;
use super::large_answer::LargeAnswer;
use crate::tls;
use connect::{CONNECT_TIMEOUT, Connector, USER_AGENT};

/// For sending a request and reading its answer. No write reaches OpenStack later than this after it was sent, so a new
/// leader that waits as long is safe from those of the previous one. Neutron's slowest call was measured at 3 s under
/// load; a proxy in front of it gives up after 30 to 60 s.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// The same by [our clock](crate::clock::Clock), which runs a tenth faster while it catches up with the machine's.
pub const LANDS_WITHIN: Duration = REQUEST_TIMEOUT.saturating_add(Duration::from_secs(3));

/// Keystone answers in 80 ms. The pool's condition should report within 15 s that it does not.
pub const KEYSTONE_TIMEOUT: Duration = Duration::from_secs(10);

/// Less than Apache's default of 5 s: the outcome of a request on a connection that the server is closing is unknown.
const IDLE_TIMEOUT: Duration = Duration::from_secs(4);

/// In bytes: of an answer's headers. A token, which is one of them, may have half of it. hyper's default would let each
/// call whose server stalls keep 408 KiB.
const MAX_HEADER_SIZE: usize = 16 << 10;
/// In bytes. A page of 1,000 floating IPs has half a megabyte.
const MAX_LARGE: usize = 2 << 20;
/// In bytes: of any other answer. A token's catalogue has 20 KiB in a large cloud, a floating IP with 50 long tags 76 KiB.
const MAX_SMALL: usize = 128 << 10;
/// In bytes. What is longer is no refusal by OpenStack, and its text is not read.
const MAX_REFUSAL: usize = 64 << 10;

/// How much of a successful answer is read.
#[derive(Clone, Copy)]
pub(super) enum AnswerLimit<'a> {
    /// 128 KiB.
    Small,
    /// 2 MiB, but more than 128 KiB only with permission. Without, the error is not for anybody to see: the request is sent
    /// again.
    Large(&'a LargeAnswer),
}

impl AnswerLimit<'_> {
    fn bytes(self) -> usize {
        match self {
            Self::Small => MAX_SMALL,
            Self::Large(_) => MAX_LARGE,
        }
    }

    fn allows(self, size: usize) -> bool {
        let may_be_large = match self {
            Self::Small => false,
            Self::Large(permission) => size <= MAX_LARGE && permission.try_acquire(),
        };
        size <= MAX_SMALL || may_be_large
    }
}

/// Connects to the servers that are allowed.
#[derive(Clone)]
pub(super) struct HttpClient {
    client: Client<Connector, Full<Bytes>>,
    /// None if certificates are not checked.
    pub(super) roots: Option<Arc<RootCertStore>>,
    pub(super) hosts: Arc<AllowedHosts>,
    proxy: Option<HttpsProxy>,
    pub(super) lookups: ClientLookups,
}

impl HttpClient {
    pub(super) fn new(
        credentials: &Credentials,
        hosts: Arc<AllowedHosts>,
        proxy: Option<HttpsProxy>,
        lookups: ClientLookups,
    ) -> Result<Self, Error> {
        let roots = credentials.verify.then(|| tls::roots(&credentials.ca_certificates));
        if roots.is_none() {
            let url = &credentials.auth_url;
            tracing::warn!(auth.url = %url, "clouds.yaml says verify: false: certificates are not checked");
        }
        let tls = tls::client_config(roots.clone()).map_err(|_| {
            Error::new(ErrorKind::Credentials, "set up TLS", "no TLS version in common with the library")
        })?;
        let proxy_name = proxy.as_ref().and_then(HttpsProxy::host).map(str::to_owned);
        let resolver = AllowedResolver { hosts: hosts.clone(), proxy: proxy_name, lookups: lookups.clone() };
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .http1_max_buf_size(MAX_HEADER_SIZE)
            .build(connect::connector(resolver, tls, proxy.as_ref()));
        Ok(Self { client, roots, hosts, proxy, lookups })
    }

    /// Returns the whole answer, whatever its status, or an error after this time.
    pub(super) async fn send(
        &self,
        request: Request<Vec<u8>>,
        limit: AnswerLimit<'_>,
        time: Duration,
    ) -> Result<Response<Bytes>, Error> {
        // Normalised, so that what is checked is what is sent: `127.1` becomes `127.0.0.1`.
        let mut url = Url::parse(&request.uri().to_string()).map_err(|_| invalid_request())?;
        // `openstack_sdk_core` appends a query without parameters as `?`.
        if url.query() == Some("") {
            url.set_query(None);
        }
        let host = host_and_port(&url);
        // The proxy's name is resolved without a check.
        let proxy = self.proxy.as_ref().and_then(HttpsProxy::host);
        let is_proxy = proxy.is_some() && url.host_str() == proxy;
        if self.hosts.check(&url).is_err() || is_proxy && !self.hosts.lists(&url) {
            return Err(not_allowed(&host));
        }
        let answer = timeout(time, exchange(&self.client, request, &url, limit)).await;
        answer.map_err(|_| no_answer_in_time(&host)).flatten().map_err(|error| match error.kind {
            // It says no more than the list of allowed hosts.
            ErrorKind::Credentials => error,
            _ => self.hosts.conceal(error),
        })
    }
}

fn not_allowed(host: &str) -> Error {
    let message = format!("{host} {NotAllowed}: check the URL, or have it added to --openstack-hosts");
    Error::new(ErrorKind::Credentials, "", message)
}

async fn exchange(
    client: &Client<Connector, Full<Bytes>>,
    mut request: Request<Vec<u8>>,
    url: &Url,
    limit: AnswerLimit<'_>,
) -> Result<Response<Bytes>, Error> {
    let host = host_and_port(url);
    let invalid = |_| Error::new(ErrorKind::Rejected, "", format!("the request to {host} cannot be built"));
    *request.uri_mut() = url.as_str().parse().map_err(invalid)?;
    for (name, value) in [(header::ACCEPT, "*/*"), (header::USER_AGENT, USER_AGENT)] {
        request.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
    // hyper repeats a request only if it did not begin to write it, since the connection was closed. So even a POST may be
    // repeated.
    let response = client.request(request.map(Full::from)).await.map_err(|error| classify(&error, &host))?;
    let (head, body) = response.into_parts();
    if head.status.is_redirection() {
        return Err(redirection(url, &head.headers, head.status));
    }
    let body = read_body(body, head.status, &host, limit).await?;
    Ok(Response::from_parts(head, body))
}

fn redirection(url: &Url, headers: &HeaderMap, status: StatusCode) -> Error {
    let target = headers
        .get(header::LOCATION)
        .and_then(|target| target.to_str().ok())
        .and_then(|target| url.join(target).ok())
        .map_or_else(|| "somewhere else".to_owned(), |target| host_and_port(&target));
    let host = host_and_port(url);
    let message = format!("{host} redirects to {target}, which is not followed: use the URL that it redirects to");
    Error { status: Some(status.as_u16()), ..Error::new(ErrorKind::Malformed, "", message) }
}

/// Of a refusal only the beginning.
async fn read_body(mut body: Incoming, status: StatusCode, host: &str, limit: AnswerLimit<'_>) -> Result<Bytes, Error> {
    let mut whole = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| classify(&error, host))?;
        // Trailers are not used.
        let Ok(chunk) = frame.into_data() else { continue };
        let size = whole.len().saturating_add(chunk.len());
        if !status.is_success() && size > MAX_REFUSAL {
            break;
        } else if status.is_success() && !limit.allows(size) {
            let message = format!("{host} answers with more than {} KiB", limit.bytes() >> 10);
            return Err(Error::new(ErrorKind::Malformed, "", message));
        }
        whole.extend_from_slice(&chunk);
    }
    Ok(whole.freeze())
}

pub(in crate::openstack) fn host_and_port(url: &Url) -> String {
    let host = url.host_str().unwrap_or("an unknown host");
    url.port_or_known_default().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// The error for a request without an answer. The caller adds the operation.
fn classify(error: &(dyn StdError + 'static), host: &str) -> Error {
    if find::<legacy::Error>(error).is_some_and(legacy::Error::is_connect) {
        return classify_unconnected(error, host);
    }
    // Whatever else the cause, TLS among them, the request may have been sent.
    if find::<hyper::Error>(error).is_some_and(hyper::Error::is_parse_too_large) {
        let kib = MAX_HEADER_SIZE >> 10;
        let message = format!("{host} answers with too many headers, or with more than {kib} KiB of them");
        return Error::new(ErrorKind::Malformed, "", message);
    }
    if has_io_kind(error, io::ErrorKind::TimedOut) {
        return no_answer_in_time(host);
    }
    let message = format!("the connection to {host} broke before the answer was complete");
    Error::new(ErrorKind::NoAnswer, "", message)
}

/// The error for a request that was not sent, since there is no connection.
fn classify_unconnected(error: &(dyn StdError + 'static), host: &str) -> Error {
    let new = |kind, message: String| Error::new(kind, "", message);
    if find::<NotAllowed>(error).is_some() {
        return not_allowed(host);
    }
    if find::<SlowLookup>(error).is_some() {
        let seconds = LOOKUP_TIMEOUT.as_secs();
        let message = format!(
            "the name of {host} is not resolved within {seconds} s: host names resolve slowly, perhaps because of other hosts"
        );
        return new(ErrorKind::SlowLookup, message);
    }
    if let Some(tls) = find::<rustls::Error>(error) {
        return match tls {
            // A bad signature: the trusted CA has the same name as the one that signed, as after a cloud replaced its CA.
            rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::BadSignature) => new(
                ErrorKind::Untrusted,
                format!("the certificate of {host} is not trusted: put its CA into key cacert of the Secret"),
            ),
            rustls::Error::InvalidCertificate(why) => new(
                ErrorKind::Untrusted,
                format!("the certificate of {host} cannot be accepted: {}", certificate_problem(why)),
            ),
            _ => new(
                ErrorKind::Unreachable,
                format!("the TLS handshake with {host} failed: is it http instead of https?"),
            ),
        };
    }
    let message = match causes(error).find_map(io_kind) {
        Some(io::ErrorKind::ConnectionRefused) => format!("{host} refuses connections"),
        _ if has_io_kind(error, io::ErrorKind::TimedOut) => {
            format!("{host} accepts no connection within {} s", CONNECT_TIMEOUT.as_secs())
        }
        _ if is_name_error(error) => format!("the name of {host} cannot be resolved"),
        _ => format!("{host} cannot be reached"),
    };
    new(ErrorKind::Unreachable, message)
}

fn no_answer_in_time(host: &str) -> Error {
    Error::new(ErrorKind::NoAnswer, "", format!("{host} does not answer in time"))
}

/// Without the certificate's times, which would change the message each day.
fn certificate_problem(error: &CertificateError) -> &'static str {
    match error {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "it has expired",
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => "it is not valid yet",
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "it is for another host name"
        }
        CertificateError::Revoked => "it is revoked",
        _ => "it is not a valid server certificate",
    }
}

/// The error and its chain of sources, including those that an I/O error wraps without returning them as its source.
fn causes<'a>(error: &'a (dyn StdError + 'static)) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |&cause| {
        let wrapped = cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        wrapped.map_or_else(|| cause.source(), |wrapped| Some(wrapped))
    })
}

fn find<'a, E: StdError + 'static>(error: &'a (dyn StdError + 'static)) -> Option<&'a E> {
    causes(error).find_map(|cause| cause.downcast_ref())
}

fn has_io_kind(error: &(dyn StdError + 'static), kind: io::ErrorKind) -> bool {
    causes(error).any(|cause| io_kind(cause) == Some(kind))
}

fn io_kind(cause: &(dyn StdError + 'static)) -> Option<io::ErrorKind> {
    cause.downcast_ref().map(io::Error::kind)
}

/// By text, because hyper's error type for it is private. Only our message depends on it.
fn is_name_error(error: &(dyn StdError + 'static)) -> bool {
    causes(error).any(|cause| cause.to_string().contains("dns error"))
}
