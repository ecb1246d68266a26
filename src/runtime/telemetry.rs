//! Logs: text or JSON, one line an event, to stderr. And traces, where the program is built with the feature `otel`.
//!
//! The OpenStack SDK's debug events carry whole bodies and catalogues, so nothing, RUST_LOG included, turns them on.

use std::error::Error;

use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::filter::{EnvFilter, FilterExt, LevelFilter, filter_fn};
use tracing_subscriber::layer::{Layer, SubscriberExt};
#[cfg(feature = "otel")]
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{Registry, fmt};

use super::flags::LoggingFormat;

#[cfg(feature = "otel")]
mod traces;

/// What is to be ended with the program.
#[must_use = "the last traces are sent by `end`"]
pub struct Telemetry {
    #[cfg(feature = "otel")]
    traces: Option<traces::Traces>,
}

impl Telemetry {
    /// Sends the traces that are not sent yet, as far as [`TRACES_GRACE`](super::shutdown::TRACES_GRACE) allows. Called
    /// once, last thing, and not from a task: it blocks.
    pub fn end(self) {
        #[cfg(feature = "otel")]
        self.traces.into_iter().for_each(traces::Traces::end);
    }
}

/// Starts logs and traces for the whole process. Called once, first thing.
///
/// `directives` are RUST_LOG's; where there are none, `verbosity` (the flag `-v`) decides. They are about logs only. What
/// is wrong with the variables of traces is said in the log, and is no reason not to start.
pub fn start(format: LoggingFormat, verbosity: u8, directives: Option<&str>) -> Result<Telemetry, StartError> {
    let directives = directives.filter(|text| !text.is_empty());
    let chosen = match directives {
        Some(directives) => EnvFilter::try_new(directives).map_err(StartError::Directives)?,
        None => EnvFilter::new(levels(verbosity)),
    };
    let filter = chosen.and(filter_fn(is_free_of_secrets));
    let lines = fmt::layer().with_ansi(false).with_writer(std::io::stderr);
    let lines = match format {
        LoggingFormat::Text => lines.with_filter(filter).boxed(),
        LoggingFormat::Json => lines.json().flatten_event(true).with_span_list(false).with_filter(filter).boxed(),
    };
    set(Registry::default().with(lines))
}

#[cfg(not(feature = "otel"))]
fn set(logs: impl Subscriber + Send + Sync) -> Result<Telemetry, StartError> {
    tracing::subscriber::set_global_default(logs).map_err(StartError::Twice)?;
    Ok(Telemetry {})
}

#[cfg(feature = "otel")]
fn set(logs: impl Subscriber + Send + Sync + for<'span> LookupSpan<'span>) -> Result<Telemetry, StartError> {
    let (traces, error) = match traces::Traces::from_environment() {
        Ok(traces) => (traces, None),
        Err(error) => (None, Some(error)),
    };
    // Not one subscriber with an optional layer: one that is not there has no filter, and every span would be made.
    match &traces {
        Some(traces) => tracing::subscriber::set_global_default(logs.with(traces.layer())),
        None => tracing::subscriber::set_global_default(logs),
    }
    .map_err(StartError::Twice)?;
    if let Some(error) = error {
        tracing::warn!("no traces are sent, failed to {}", chain(&error));
    }
    Ok(Telemetry { traces })
}

/// An error and its causes in one line, each said once: some libraries repeat the cause in their own message.
pub fn chain(error: &(dyn Error + 'static)) -> String {
    let mut line = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let text = cause.to_string();
        next = cause.source();
        if !line.contains(&text) {
            line.push_str(": ");
            line.push_str(&text);
        }
    }
    line
}

/// Why logging cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// RUST_LOG is not a list of directives.
    #[error("read RUST_LOG")]
    Directives(#[source] tracing_subscriber::filter::ParseError),
    /// It had started already.
    #[error("start logging a second time")]
    Twice(#[source] tracing::subscriber::SetGlobalDefaultError),
}

/// Ours at the level asked for; the libraries' only when they complain, or when very much is asked for.
fn levels(verbosity: u8) -> String {
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
    // kube's client reports as an error of its own what it returns to us as one.
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
    fn a_cause_is_said_once() {
        #[derive(Debug, thiserror::Error)]
        #[error("{0}")]
        struct Said(String, #[source] Option<Box<Said>>);
        let said = |text: &str, source| Said(text.into(), source);
        let repeats = said("read it: not there", Some(Box::new(said("not there", None))));
        assert_eq!(chain(&said("start", Some(Box::new(repeats)))), "start: read it: not there");
    }

    #[test]
    fn more_is_logged_as_more_is_asked_for() {
        for (verbosity, expected) in [
            (0, "warn,caip_openstack=info,kube_client=off"),
            (2, "warn,caip_openstack=debug,kube_client=off"),
            (4, "warn,caip_openstack=trace,kube_client=off"),
            (8, "debug,caip_openstack=trace"),
        ] {
            assert_eq!(levels(verbosity), expected);
            EnvFilter::try_new(levels(verbosity)).expect("it is valid");
        }
    }
}
