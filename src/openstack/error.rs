//! Failures of calls to OpenStack, classified by what the caller must do about them.

use std::time::Duration;

use crate::text::one_line;

/// In characters. Our own messages are shorter, unless they quote the cloud.
const MAX_MESSAGE: usize = 1000;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ErrorKind {
    /// 404 `FloatingIPNotFound` and the like: an answer, not a failure.
    NotFound,
    /// 404 `NetworkNotFound`, or 400 for a network that is not external: the pool's network cannot be used.
    BadNetwork,
    /// 409 `OverQuota`: the project's quota of floating IPs is used up.
    OverQuota,
    /// 409 `IpAddressGenerationFailure` or 400 `ExternalIpAddressExhausted`: no address left on the network or subnet.
    NoMoreAddresses,
    /// Any other 409, and 412: a concurrent change; read again.
    Conflict,
    /// 401 even with a new token, or Keystone refused the credentials.
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
    /// The request was not sent: connection refused, name not resolved, TLS handshake failed.
    Unreachable,
    /// The request was not sent: names resolve slowly, perhaps because of other servers. Says nothing about this one.
    SlowLookup,
    /// The server's certificate is not trusted.
    Untrusted,
    /// An answer that neither Neutron nor Keystone gives, or a redirect, which is never followed.
    Malformed,
    /// The credentials cannot be used as they are written.
    Credentials,
    /// The catalogue has no Neutron in the region and interface asked for.
    NoNetworkService,
    /// A floating IP was created without the description that was requested.
    DescriptionDropped,
}

impl ErrorKind {
    /// The label in metrics and traces.
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
            Self::SlowLookup => "slow_lookup",
            Self::Untrusted => "untrusted",
            Self::Malformed => "malformed",
            Self::Credentials => "credentials",
            Self::NoNetworkService => "no_network_service",
            Self::DescriptionDropped => "description_dropped",
        }
    }
}

/// A failed call.
///
/// `Display` is one line for a condition: the operation and the cause, without secrets, request ids or anything else
/// that changes between attempts.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{operation}: {message}")]
pub struct Error {
    pub kind: ErrorKind,
    /// A fragment such as `create floating IP`.
    pub operation: &'static str,
    /// For the user: Neutron's own message where there is one, truncated.
    pub message: String,
    /// None when no HTTP answer arrived.
    pub status: Option<u16>,
    /// Neutron's own, such as `OverQuota`.
    pub error_type: Option<String>,
    /// `x-openstack-request-id`: for logs, never for conditions.
    pub request_id: Option<String>,
    /// From the header `Retry-After`, clamped.
    pub retry_after: Option<Duration>,
    /// The details are for the log only: in a condition, they would tell the tenant who chose the server what answers there.
    pub is_concealed: bool,
}

const UNSENT: &str = "it had to wait, and was not sent: what was known when it was decided may have changed";

impl Error {
    /// A failure without an HTTP answer. The message may quote the cloud.
    pub fn new(kind: ErrorKind, operation: &'static str, message: impl AsRef<str>) -> Self {
        Self {
            kind,
            operation,
            message: one_line(message.as_ref(), MAX_MESSAGE),
            status: None,
            error_type: None,
            request_id: None,
            retry_after: None,
            is_concealed: false,
        }
    }

    /// The write had to wait, and then it was [no longer to be sent](super::MaySend).
    pub fn unsent(operation: &'static str) -> Self {
        Self::new(ErrorKind::Conflict, operation, UNSENT)
    }

    /// Whether it is [such a write](Self::unsent).
    pub fn is_unsent(&self) -> bool {
        self.kind == ErrorKind::Conflict && self.status.is_none() && self.message == UNSENT
    }

    /// Whether a write that failed like this may have taken effect, so that the caller has to read the result.
    ///
    /// This includes every 5xx: after a proxy's 502 or 504, Neutron may still complete the request.
    pub fn is_unknown(&self) -> bool {
        matches!(self.kind, ErrorKind::NoAnswer | ErrorKind::Server | ErrorKind::Malformed)
    }
}
