//! The span of one call to OpenStack: what was asked and how it ended; never a URL, a body or a token.
//!
//! At the level of debugging: where neither traces nor such logs are asked for, a call costs one comparison more.

use tracing::Instrument;
use tracing::field::Empty;

use super::super::Error;

/// Makes a call in a span of its own, what it waits for and its repetitions included.
///
/// The result is `ok` or the kind of the error. `request_id` finds, in an answer of success, the id that OpenStack's own
/// logs have; an error has its own.
pub(super) async fn call<T>(
    operation: &'static str,
    call: impl Future<Output = Result<T, Error>>,
    request_id: impl FnOnce(&T) -> Option<String>,
) -> Result<T, Error> {
    let span = tracing::debug_span!(
        "openstack call",
        otel.name = operation,
        otel.kind = "client",
        otel.status_code = Empty,
        operation,
        result = Empty,
        status = Empty,
        request.id = Empty,
    );
    let result = call.instrument(span.clone()).await;
    if span.is_disabled() {
        return result;
    }
    let (how, id) = match &result {
        Ok(answer) => ("ok", request_id(answer)),
        Err(error) => (error.kind.as_str(), error.request_id.clone()),
    };
    span.record("result", how);
    if let Some(id) = id {
        span.record("request.id", id);
    }
    if let Err(error) = &result {
        span.record("otel.status_code", "error");
        if let Some(status) = error.status {
            span.record("status", status);
        }
    }
    result
}
