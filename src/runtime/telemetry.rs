//! Logs: text or JSON, one line per event, on stderr. Traces too, if built with the feature `otel`.
//!
//! The OpenStack SDK's debug events contain request bodies and catalogues. They are always filtered out, whatever RUST_LOG
//! says.

use std::error::Error;
use std::fmt::Display;
use std::panic::PanicHookInfo;

use tracing::{Level, Metadata, Span, Subscriber};
use tracing_subscriber::filter::{EnvFilter, FilterExt, LevelFilter, filter_fn};
use tracing_subscriber::layer::{Layer, SubscriberExt};
#[cfg(feature = "otel")]
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{Registry, fmt};

use super::flags::LoggingFormat;
use crate::text::one_line;

#[cfg(feature = "otel")]
mod traces;

#[must_use = "the last traces are sent by `end`"]
pub struct Telemetry {
    #[cfg(feature = "otel")]
    traces: Option<traces::Traces>,
}

impl Telemetry {
    /// Sends the remaining traces within [`TRACES_GRACE`](super::shutdown::TRACES_GRACE). To be called last, and outside
    /// the async runtime: it blocks.
    pub fn end(self) {
        #[cfg(feature = "otel")]
        self.traces.into_iter().for_each(traces::Traces::end);
    }
}

/// Starts logs and traces for the whole process. To be called once.
///
/// The log level is set by `directives`, the value of RUST_LOG, or else by `verbosity`, the flag `--v`. Neither affects
/// traces. Invalid variables for traces are logged and do not prevent the start.
pub fn start(format: LoggingFormat, verbosity: u8, directives: Option<&str>) -> Result<Telemetry, TelemetryError> {
    let directives = directives.filter(|text| !text.is_empty());
    let chosen = match directives {
        Some(directives) => EnvFilter::try_new(directives).map_err(TelemetryError::Directives)?,
        None => EnvFilter::new(default_directives(verbosity)),
    };
    let filter = chosen.and(filter_fn(is_free_of_secrets));
    let lines = fmt::layer().with_ansi(false).with_writer(std::io::stderr);
    let lines = match format {
        LoggingFormat::Text => lines.with_filter(filter).boxed(),
        LoggingFormat::Json => lines.json().flatten_event(true).with_span_list(false).with_filter(filter).boxed(),
    };
    let telemetry = install(Registry::default().with(lines))?;
    std::panic::set_hook(Box::new(log_panic));
    Ok(telemetry)
}

/// How much of a panic's message is logged, in characters: it may quote what a server sent.
const LONGEST_PANIC: usize = 500;

/// In one line, and with the span of the reconcile in which it happened.
fn log_panic(panic: &PanicHookInfo<'_>) {
    let location = panic.location().map(ToString::to_string);
    let message = one_line(panic.payload_as_str().unwrap_or("without a message"), LONGEST_PANIC);
    tracing::error!(location, "panicked: {message}");
}

#[cfg(not(feature = "otel"))]
fn install(logs: impl Subscriber + Send + Sync) -> Result<Telemetry, TelemetryError> {
    tracing::subscriber::set_global_default(logs).map_err(TelemetryError::Twice)?;
    Ok(Telemetry {})
}

#[cfg(feature = "otel")]
fn install(logs: impl Subscriber + Send + Sync + for<'span> LookupSpan<'span>) -> Result<Telemetry, TelemetryError> {
    let (traces, error) = match traces::Traces::from_environment() {
        Ok(traces) => (traces, None),
        Err(error) => (None, Some(error)),
    };
    // Not one subscriber with an `Option` layer: a `None` layer has no filter, so every span would be recorded.
    match &traces {
        Some(traces) => tracing::subscriber::set_global_default(logs.with(traces.layer())),
        None => tracing::subscriber::set_global_default(logs),
    }
    .map_err(TelemetryError::Twice)?;
    if let Some(error) = error {
        tracing::warn!("no traces are sent, failed to {}", chain(&error));
    }
    Ok(Telemetry { traces })
}

/// An error and its causes in one line. A cause that is part of the line already is left out: some libraries repeat it in
/// their own message.
pub fn chain(error: &(dyn Error + 'static)) -> String {
    let mut line = error.to_string();
    for cause in std::iter::successors(error.source(), |&cause| cause.source()) {
        let text = cause.to_string();
        if !line.contains(&text) {
            line.push_str(": ");
            line.push_str(&text);
        }
    }
    line
}

/// The span of one reconcile: the root of a trace, and `object.ref` on every log line within it.
pub fn reconcile_span(object: &impl Display) -> Span {
    tracing::info_span!("reconciling object", "object.ref" = %object)
}

#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    #[error("read RUST_LOG")]
    Directives(#[source] tracing_subscriber::filter::ParseError),
    #[error("start logging a second time")]
    Twice(#[source] tracing::subscriber::SetGlobalDefaultError),
}

/// This crate logs at the given level; libraries log warnings only, except at the highest verbosities.
fn default_directives(verbosity: u8) -> String {
    let ours = match verbosity {
        0..=1 => LevelFilter::INFO,
        2..=3 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    let others = match verbosity {
        0..=5 => LevelFilter::WARN,
        6..=7 => LevelFilter::INFO,
        _ => LevelFilter::DEBUG,
    };
    // kube's client logs the errors that it also returns.
    let client = if verbosity < 6 { ",kube_client=off" } else { "" };
    format!("{others},caip_openstack={ours}{client}")
}

fn is_free_of_secrets(metadata: &Metadata<'_>) -> bool {
    let is_sdk = metadata.target().starts_with("openstack_sdk");
    !is_sdk || *metadata.level() <= Level::INFO
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_cause_is_left_out() {
        #[derive(Debug, thiserror::Error)]
        #[error("{0}")]
        struct TestError(String, #[source] Option<Box<TestError>>);
        let failure = |text: &str, source| TestError(text.into(), source);
        let repeats = failure("read it: not there", Some(Box::new(failure("not there", None))));
        assert_eq!(chain(&failure("start", Some(Box::new(repeats)))), "start: read it: not there");
    }

    #[test]
    fn verbosity_raises_the_log_level() {
        for (verbosity, expected) in [
            (0, "warn,caip_openstack=info,kube_client=off"),
            (2, "warn,caip_openstack=debug,kube_client=off"),
            (4, "warn,caip_openstack=trace,kube_client=off"),
            (8, "debug,caip_openstack=trace"),
        ] {
            assert_eq!(default_directives(verbosity), expected);
            EnvFilter::try_new(default_directives(verbosity)).expect("valid directives");
        }
    }
}
