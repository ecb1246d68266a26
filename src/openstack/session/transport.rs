//! The HTTP client for one set of credentials, and the classification of its failures.
//!
//! It never follows a redirect, which would leak the token. It trusts the system's CAs and those of the Secret. Every
//! request ends in bounded time.

use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use reqwest::{Client, Request, RequestBuilder, Response, redirect};
use rustls::{CertificateError, RootCertStore};
use url::Url;

use super::super::hosts::{AllowedResolver, ClientLookups, LOOKUP_TIMEOUT, NotAllowed, SlowLookup};
use super::super::{AllowedHosts, Credentials, Error, ErrorKind, HttpsProxy};
use super::large_answer::LargeAnswer;
use crate::tls;

/// For sending a request and reading its answer. No write reaches OpenStack later than this after it was sent, so a new
/// leader that waits as long is safe from those of the previous one. Neutron's slowest call was measured at 3 s under
/// load; a proxy in front of it gives up after 30 to 60 s.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Keystone answers in 80 ms. The pool's condition should report within 15 s that it does not.
pub const KEYSTONE_TIMEOUT: Duration = Duration::from_secs(10);

/// For a TCP connection and the TLS handshake.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Less than Apache's default of 5 s: the outcome of a request on a connection that the server is closing is unknown.
const IDLE_TIMEOUT: Duration = Duration::from_secs(4);

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
    client: Client,
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
        let resolver = AllowedResolver { hosts: hosts.clone(), proxy: None, lookups: lookups.clone() };
        let client = client(credentials, roots.clone(), resolver, proxy.as_ref())?;
        Ok(Self { client, roots, hosts, proxy, lookups })
    }

    pub(super) fn post(&self, url: Url) -> RequestBuilder {
        self.client.post(url)
    }

    /// Returns the whole answer, whatever its status.
    pub(super) async fn send(
        &self,
        mut request: Request,
        limit: AnswerLimit<'_>,
    ) -> Result<http::Response<Bytes>, Error> {
        // `openstack_sdk_core` appends a query without parameters as `?`.
        if request.url().query() == Some("") {
            request.url_mut().set_query(None);
        }
        let host = host_and_port(request.url());
        // The proxy's name is resolved without a check.
        let proxy = self.proxy.as_ref().and_then(HttpsProxy::host);
        let is_proxy = proxy.is_some() && request.url().host_str() == proxy;
        if self.hosts.check(request.url()).is_err() || is_proxy && !self.hosts.lists(request.url()) {
            return Err(not_allowed(&host));
        }
        send(&self.client, request, &host, limit).await.map_err(|error| match error.kind {
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

fn client(
    credentials: &Credentials,
    roots: Option<Arc<RootCertStore>>,
    mut resolver: AllowedResolver,
    proxy: Option<&HttpsProxy>,
) -> Result<Client, Error> {
    let failed = |what: &str| Error::new(ErrorKind::Credentials, "set up TLS", what);
    let mut builder = Client::builder()
        .user_agent(concat!("caip-openstack/", env!("CARGO_PKG_VERSION")))
        .redirect(redirect::Policy::none())
        .connect_timeout(CONNECT_TIMEOUT)
        .timeout(REQUEST_TIMEOUT)
        .pool_idle_timeout(IDLE_TIMEOUT)
        .no_proxy();
    if let Some(proxy) = proxy {
        let through = proxy.to_reqwest().ok_or_else(|| failed("the proxy cannot be used"))?;
        builder = builder.proxy(through);
        resolver.proxy = proxy.host().map(str::to_owned);
    }
    builder = builder.dns_resolver(resolver);
    if roots.is_none() {
        tracing::warn!(auth.url = %credentials.auth_url, "clouds.yaml says verify: false: certificates are not checked");
    }
    let config = tls::client_config(roots).map_err(|_| failed("no TLS version in common with the library"))?;
    builder = builder.tls_backend_preconfigured(config);
    builder.build().map_err(|_| failed("the HTTP client cannot be built"))
}

async fn send(
    client: &Client,
    request: Request,
    host: &str,
    limit: AnswerLimit<'_>,
) -> Result<http::Response<Bytes>, Error> {
    // hyper repeats a request only if it could not write its first byte to a dead connection. Then nothing was sent, so
    // that even a POST may be repeated.
    let mut response = client.execute(request).await.map_err(|error| classify(&error, host))?;
    if response.status().is_redirection() {
        return Err(redirection(&response, host));
    }
    let body = read_body(&mut response, host, limit).await?;
    let mut whole = http::Response::new(body);
    *whole.status_mut() = response.status();
    *whole.headers_mut() = std::mem::take(response.headers_mut());
    Ok(whole)
}

fn redirection(response: &Response, host: &str) -> Error {
    let target = response
        .headers()
        .get(http::header::LOCATION)
        .and_then(|target| target.to_str().ok())
        .and_then(|target| response.url().join(target).ok())
        .map_or_else(|| "somewhere else".to_owned(), |target| host_and_port(&target));
    let message = format!("{host} redirects to {target}, which is not followed: use the URL that it redirects to");
    Error { status: Some(response.status().as_u16()), ..Error::new(ErrorKind::Malformed, "", message) }
}

/// Of a refusal only the beginning.
async fn read_body(response: &mut Response, host: &str, limit: AnswerLimit<'_>) -> Result<Bytes, Error> {
    let is_success = response.status().is_success();
    let mut body = BytesMut::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| classify(&error, host))? {
        let size = body.len().saturating_add(chunk.len());
        if !is_success && size > MAX_REFUSAL {
            break;
        } else if is_success && !limit.allows(size) {
            let message = format!("{host} answers with more than {} KiB", limit.bytes() >> 10);
            return Err(Error::new(ErrorKind::Malformed, "", message));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body.freeze())
}

pub(in crate::openstack) fn host_and_port(url: &Url) -> String {
    let host = url.host_str().unwrap_or("an unknown host");
    url.port_or_known_default().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// The error for a request without an answer. The caller adds the operation.
fn classify(error: &reqwest::Error, host: &str) -> Error {
    let new = |kind, message: String| Error::new(kind, "", message);
    if causes(error).any(|cause| cause.is::<NotAllowed>()) {
        return not_allowed(host);
    }
    if causes(error).any(|cause| cause.is::<SlowLookup>()) {
        let seconds = LOOKUP_TIMEOUT.as_secs();
        let message = format!(
            "the name of {host} is not resolved within {seconds} s: host names resolve slowly, perhaps because of other hosts"
        );
        return new(ErrorKind::SlowLookup, message);
    }
    if let Some(tls) = tls_error(error) {
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
    if error.is_builder() {
        return new(ErrorKind::Rejected, format!("the request to {host} cannot be built"));
    }
    if error.is_connect() {
        let message = match io_kind(error) {
            Some(std::io::ErrorKind::ConnectionRefused) => format!("{host} refuses connections"),
            _ if error.is_timeout() => {
                format!("{host} accepts no connection within {} s", CONNECT_TIMEOUT.as_secs())
            }
            _ if is_name_error(error) => format!("the name of {host} cannot be resolved"),
            _ => format!("{host} cannot be reached"),
        };
        return new(ErrorKind::Unreachable, message);
    }
    if error.is_timeout() {
        return new(ErrorKind::NoAnswer, format!("{host} does not answer in time"));
    }
    new(ErrorKind::NoAnswer, format!("the connection to {host} broke before the answer was complete"))
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

/// The chain of sources, including those that an I/O error wraps without returning them as its source.
fn causes(error: &reqwest::Error) -> impl Iterator<Item = &(dyn std::error::Error + 'static)> {
    std::iter::successors(error.source(), |&cause| {
        let wrapped = cause.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        wrapped.map_or_else(|| cause.source(), |wrapped| Some(wrapped))
    })
}

fn tls_error(error: &reqwest::Error) -> Option<&rustls::Error> {
    causes(error).find_map(|cause| cause.downcast_ref())
}

fn io_kind(error: &reqwest::Error) -> Option<std::io::ErrorKind> {
    causes(error).find_map(|cause| cause.downcast_ref::<std::io::Error>()).map(std::io::Error::kind)
}

/// By text, because hyper's error type for it is private. Only our message depends on it.
fn is_name_error(error: &reqwest::Error) -> bool {
    causes(error).any(|cause| cause.to_string().contains("dns error"))
}
