//! The span of one call to OpenStack: operation and result; never a URL, a body or a token.
//!
//! At level debug: without traces or debug logs, a call costs one more comparison.

use tracing::Instrument;
use tracing::field::Empty;

use super::super::Error;

/// Awaits a call, including its waits and retries, in a span of its own.
///
/// The field `result` is `ok` or the kind of the error. `request_id` reads the id from a successful answer.
pub(super) async fn record<T>(
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
    let (label, id) = match &result {
        Ok(answer) => ("ok", request_id(answer)),
        Err(error) => (error.kind.as_str(), error.request_id.clone()),
    };
    span.record("result", label);
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
