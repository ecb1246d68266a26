//! What OpenStack can answer when it does not do what was asked, told apart by what the caller must do about it.

use std::time::Duration;

/// Why a call failed, by what follows from it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ErrorKind {
    /// 404 `FloatingIPNotFound` and the like: an answer, not a failure.
    NotFound,
    /// 404 `NetworkNotFound`, or 400 for a network that is not external: the pool's network does not serve.
    BadNetwork,
    /// 409 `OverQuota`: the project's quota of floating IPs is used up.
    OverQuota,
    /// 409 `IpAddressGenerationFailure` or 400 `ExternalIpAddressExhausted`: no address left on the network or subnet.
    NoMoreAddresses,
    /// Any other 409, and 412: somebody else changed it; read again.
    Conflict,
    /// 401 after one new authentication, or Keystone refused the credentials.
    Unauthorized,
    /// 403: the credentials are good but the policy forbids this call.
    Forbidden,
    /// 429.
    TooManyRequests,
    /// Any other 4xx: the request is wrong, and will be wrong again.
    Rejected,
    /// 5xx.
    Server,
    /// No answer within the call's time, or the connection broke after the request was sent.
    NoAnswer,
    /// Never sent: refused, unresolvable, unreachable, TLS not agreed.
    Unreachable,
    /// The server's certificate is not trusted.
    Untrusted,
    /// An answer that is not what Neutron or Keystone would say, or a redirect, which is never followed.
    Malformed,
    /// The credentials cannot be used as they are written.
    Credentials,
    /// The catalogue has no Neutron in the region and interface asked for.
    NoNetworkService,
}

impl ErrorKind {
    /// The one word for metrics and traces.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotFound => "not_found",
            Self::BadNetwork => "bad_network",
            Self::OverQuota => "over_quota",
            Self::NoMoreAddresses => "no_more_addresses",
            Self::Conflict => "conflict",
            Self::Unauthorized => "unauthorized",
            Self::Forbidden => "forbidden",
            Self::TooManyRequests => "too_many_requests",
            Self::Rejected => "rejected",
            Self::Server => "server",
            Self::NoAnswer => "no_answer",
            Self::Unreachable => "unreachable",
            Self::Untrusted => "untrusted",
            Self::Malformed => "malformed",
            Self::Credentials => "credentials",
            Self::NoNetworkService => "no_network_service",
        }
    }
}

/// A failed call.
///
/// `Display` is one line for a condition: what was asked and what came back, without request ids, tokens, passwords or
/// anything else that changes from one attempt to the next.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{operation}: {message}")]
pub struct Error {
    /// What follows from it.
    pub kind: ErrorKind,
    /// What was asked, as a fragment: `create floating IP`.
    pub operation: &'static str,
    /// What came back, in words for the user; Neutron's own message where there is one, trimmed.
    pub message: String,
    /// The HTTP status, when there was one.
    pub status: Option<u16>,
    /// Neutron's own type, such as `OverQuota`.
    pub error_type: Option<String>,
    /// `x-openstack-request-id`: for logs, never for conditions.
    pub request_id: Option<String>,
    /// What the server asked for with `Retry-After`.
    pub retry_after: Option<Duration>,
}

impl Error {
    /// A failure that no HTTP answer explains.
    pub fn new(kind: ErrorKind, operation: &'static str, message: impl Into<String>) -> Self {
        Self {
            kind,
            operation,
            message: message.into(),
            status: None,
            error_type: None,
            request_id: None,
            retry_after: None,
        }
    }

    /// Whether a write that failed so may have been done all the same, so that it must be settled by reading.
    ///
    /// A 5xx counts: a proxy's 502 or 504 says nothing of what Neutron went on to do.
    pub fn is_unknown(&self) -> bool {
        matches!(self.kind, ErrorKind::NoAnswer | ErrorKind::Server | ErrorKind::Malformed)
    }

    /// Whether the same call may succeed later without anybody mending anything here.
    pub fn is_retryable(&self) -> bool {
        matches!(
            self.kind,
            ErrorKind::Conflict
                | ErrorKind::TooManyRequests
                | ErrorKind::Server
                | ErrorKind::NoAnswer
                | ErrorKind::Unreachable
                | ErrorKind::Malformed
        )
    }
}
