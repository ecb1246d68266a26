//! One HTTP client for one set of credentials, and what its failures mean.
//!
//! It never follows a redirect (the token would go along), trusts the system's CAs and those of the Secret, and gives
//! up in bounded time.

use std::error::Error as _;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use reqwest::{Client, NoProxy, Proxy, Request, redirect};
use rustls::CertificateError;

use super::super::{Credentials, Error, ErrorKind};
use crate::tls;

/// From the moment a request is sent until its answer is read. No write of ours reaches OpenStack later than this after
/// it was sent, so a new leader that waits as long sees no late ones. Neutron's slowest call was measured at 3 s under
/// load; a proxy in front of it gives up after 30 to 60 s.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Keystone answers in 80 ms. A user should read that it does not within 15 s, so it gets less time than Neutron.
pub const KEYSTONE_TIMEOUT: Duration = Duration::from_secs(10);

/// For a TCP connection and the TLS handshake.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Below the 5 s after which Apache closes an idle connection by default: a request that is sent into a closing
/// connection is one whose outcome is not known.
const IDLE_TIMEOUT: Duration = Duration::from_secs(4);

/// A page of 1,000 floating IPs is half a megabyte. What is larger than this is not an answer of Neutron.
const MAX_BODY: usize = 32 << 20;

/// Builds the client.
pub(super) fn client(credentials: &Credentials) -> Result<Client, Error> {
    let failed = |what: &str| Error::new(ErrorKind::Credentials, "set up TLS", what.to_owned());
    let mut builder = Client::builder()
        .user_agent(concat!("caip-openstack/", env!("CARGO_PKG_VERSION")))
        .redirect(redirect::Policy::none())
        .connect_timeout(CONNECT_TIMEOUT)
        .timeout(REQUEST_TIMEOUT)
        .pool_idle_timeout(IDLE_TIMEOUT)
        .no_proxy();
    if let Some(proxy) = proxy() {
        builder = builder.proxy(proxy);
    }
    builder = if credentials.verify {
        let config = tls::client_config(credentials.authorities.iter().cloned());
        let config = config.map_err(|_| failed("no TLS version in common with the library"))?;
        builder.tls_backend_preconfigured(config)
    } else {
        tracing::warn!(auth.url = %credentials.auth_url, "clouds.yaml says verify: false: certificates are not checked");
        // Only this branch lets reqwest build the TLS set-up, which takes the provider of the process. Somebody else may
        // have installed one, which serves as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
        builder.tls_danger_accept_invalid_certs(true)
    };
    builder.build().map_err(|_| failed("the HTTP client cannot be built"))
}

/// The environment's proxy, but only where it cannot read the token: for https, and never for this machine.
///
/// `HTTP_PROXY` is ignored on purpose: it would see every token in the clear.
fn proxy() -> Option<Proxy> {
    let from_environment = |names: [&str; 2]| names.into_iter().find_map(|name| std::env::var(name).ok());
    let url = from_environment(["HTTPS_PROXY", "https_proxy"]).filter(|url| !url.is_empty())?;
    let exceptions = from_environment(["NO_PROXY", "no_proxy"]).unwrap_or_default();
    match Proxy::https(url) {
        Ok(proxy) => Some(proxy.no_proxy(NoProxy::from_string(&format!("{exceptions},localhost,127.0.0.0/8,::1")))),
        Err(_) => {
            tracing::warn!("HTTPS_PROXY is not a URL and is ignored");
            None
        }
    }
}

/// Sends one request and reads the whole answer, whatever its status.
pub(super) async fn exchange(client: &Client, request: Request) -> Result<http::Response<Bytes>, Error> {
    let host = authority(request.url());
    // hyper repeats a request only when it could not write the first byte of it into a connection that had just died:
    // then nothing was sent, and even a POST may be repeated.
    let mut response = client.execute(request).await.map_err(|error| explain(&error, &host))?;
    if response.status().is_redirection() {
        let target = response
            .headers()
            .get(http::header::LOCATION)
            .and_then(|target| target.to_str().ok())
            .and_then(|target| response.url().join(target).ok())
            .map_or_else(|| "somewhere else".to_owned(), |target| authority(&target));
        let message = format!("{host} redirects to {target}, which is not followed: use the URL that it redirects to");
        return Err(Error {
            status: Some(response.status().as_u16()),
            ..Error::new(ErrorKind::Malformed, "", message)
        });
    }
    let mut body = BytesMut::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| explain(&error, &host))? {
        if body.len() + chunk.len() > MAX_BODY {
            let message = format!("{host} answers with more than {} MiB", MAX_BODY >> 20);
            return Err(Error::new(ErrorKind::Malformed, "", message));
        }
        body.extend_from_slice(&chunk);
    }
    let mut whole = http::Response::new(body.freeze());
    *whole.status_mut() = response.status();
    *whole.headers_mut() = std::mem::take(response.headers_mut());
    Ok(whole)
}

/// Host and port, for messages.
pub(super) fn authority(url: &url::Url) -> String {
    let host = url.host_str().unwrap_or("an unknown host");
    url.port_or_known_default().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// What a request without an answer means. The operation is filled in by whoever knows it.
fn explain(error: &reqwest::Error, host: &str) -> Error {
    let new = |kind, message: String| Error::new(kind, "", message);
    if let Some(tls) = tls_error(error) {
        return match tls {
            // A bad signature: a CA of the same name signed it, as when a cloud's CA was made anew.
            rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::BadSignature) => new(
                ErrorKind::Untrusted,
                format!("the certificate of {host} is not trusted: put its CA into key cacert of the Secret"),
            ),
            rustls::Error::InvalidCertificate(why) => {
                new(ErrorKind::Untrusted, format!("the certificate of {host} cannot be accepted: {}", fault(why)))
            }
            _ => new(ErrorKind::Unreachable, format!("{host} and we agree on no TLS: is it http instead of https?")),
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

/// What is wrong with a certificate, without its times, which would change the message from day to day.
fn fault(error: &CertificateError) -> &'static str {
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

/// The errors below this one, also those that an I/O error wraps without naming them as its source.
fn causes(error: &reqwest::Error) -> impl Iterator<Item = &(dyn std::error::Error + 'static)> {
    std::iter::successors(error.source(), |&cause| {
        let wrapped = cause.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        wrapped.map(|wrapped| wrapped as &(dyn std::error::Error + 'static)).or_else(move || cause.source())
    })
}

fn tls_error(error: &reqwest::Error) -> Option<&rustls::Error> {
    causes(error).find_map(|cause| cause.downcast_ref())
}

fn io_kind(error: &reqwest::Error) -> Option<std::io::ErrorKind> {
    causes(error).find_map(|cause| cause.downcast_ref::<std::io::Error>()).map(std::io::Error::kind)
}

/// hyper's error for it is private, so its text decides; only the wording of our message hangs on it.
fn is_name_error(error: &reqwest::Error) -> bool {
    causes(error).any(|cause| cause.to_string().contains("dns error"))
}
