//! Traces: the spans of reconciles and of requests to OpenStack, exported with OTLP over HTTP.
//!
//! Configured by OpenTelemetry's environment variables; without an endpoint no span is recorded. If the collector does
//! not answer, its spans are lost and one warning is logged.

use std::env;

use opentelemetry::trace::TracerProvider as _;
use opentelemetry::{Key, KeyValue};
use opentelemetry_otlp::{ExporterBuildError, SpanExporter, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::filter::{FilterExt, LevelFilter, filter_fn};
use tracing_subscriber::layer::Layer;
use tracing_subscriber::registry::LookupSpan;

use super::super::flags::VERSION;
use super::super::shutdown::TRACES_GRACE;
use super::is_free_of_secrets;

mod sender;

use sender::Sender;

/// Either one enables traces.
const ENDPOINTS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];

/// The default `service.name`.
const SERVICE_NAME: &str = "caip-openstack";

#[derive(Debug, thiserror::Error)]
pub(super) enum TracesError {
    #[error("set up the sending of traces")]
    Sender(#[source] sender::SenderError),
    #[error("use the variables of OpenTelemetry")]
    Variables(#[source] ExporterBuildError),
}

/// Exports spans in batches, from a thread of its own.
pub(super) struct Traces {
    provider: SdkTracerProvider,
}

impl Traces {
    /// `None` unless the environment asks for traces.
    pub(super) fn from_environment() -> Result<Option<Self>, TracesError> {
        let is_off = is_set_to("OTEL_SDK_DISABLED", "true") || is_set_to("OTEL_TRACES_EXPORTER", "none");
        if is_off || ENDPOINTS.into_iter().all(|name| variable(name).is_none()) {
            return Ok(None);
        }
        let sender = Sender::new(sender::timeout()).map_err(TracesError::Sender)?;
        let exporter = SpanExporter::builder().with_http().with_http_client(sender).build();
        let exporter = exporter.map_err(TracesError::Variables)?;
        let provider = SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource());
        Ok(Some(Self { provider: provider.build() }))
    }

    pub(super) fn layer<S>(&self) -> impl Layer<S> + use<S>
    where
        S: Subscriber + for<'span> LookupSpan<'span>,
    {
        let filter = filter_fn(is_traced).with_max_level_hint(LevelFilter::DEBUG).and(filter_fn(is_free_of_secrets));
        tracing_opentelemetry::layer()
            .with_tracer(self.provider.tracer(SERVICE_NAME))
            .with_location(false)
            .with_target(false)
            .with_threads(false)
            .with_tracked_inactivity(false)
            .with_context_activation(false)
            .with_filter(filter)
    }

    /// Sends the remaining spans within [`TRACES_GRACE`].
    pub(super) fn end(self) {
        // Failures have been logged when they occurred, and spans that are not sent in time are lost.
        let _ = self.provider.shutdown_with_timeout(TRACES_GRACE);
    }
}

/// Only this crate's spans, and the log events within them.
fn is_traced(metadata: &Metadata<'_>) -> bool {
    let target = metadata.target();
    let is_ours = target == "caip_openstack" || target.starts_with("caip_openstack::");
    is_ours && *metadata.level() <= Level::DEBUG
}

/// OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES, with defaults for `service.name` and `service.version`.
fn resource() -> Resource {
    let given = Resource::builder().build();
    let mut ours = vec![];
    // The SDK's own default is `unknown_service:` and the program's file name.
    let name = given.get(&Key::new("service.name")).map(|name| name.to_string()).unwrap_or_default();
    if name.is_empty() || name.starts_with("unknown_service") {
        ours.push(KeyValue::new("service.name", SERVICE_NAME));
    }
    if given.get(&Key::new("service.version")).is_none() {
        ours.push(KeyValue::new("service.version", VERSION.as_str()));
    }
    Resource::builder().with_attributes(ours).build()
}

fn is_set_to(name: &str, value: &str) -> bool {
    variable(name).is_some_and(|given| given.eq_ignore_ascii_case(value))
}

/// By OpenTelemetry's rules an empty variable counts as unset.
fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.trim().is_empty())
}
