//! Traces: the spans of reconciles and of calls to OpenStack, sent by OTLP over HTTP.
//!
//! Asked for by the environment variables of OpenTelemetry; without an endpoint nothing is made, sent or slowed down.
//! A collector that does not answer costs its spans and one line in the log, and nothing else.

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

/// Where the traces go to, of which one is enough.
const ENDPOINTS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];

/// Who we are to the collector, unless the environment says otherwise.
const NAME: &str = "caip-openstack";

/// Why there are no traces although they were asked for.
#[derive(Debug, thiserror::Error)]
pub(super) enum TracesError {
    /// There can be no client.
    #[error("set up the sending of traces")]
    Sender(#[source] sender::SetUpError),
    /// The variables do not make sense.
    #[error("use the variables of OpenTelemetry")]
    Variables(#[source] ExporterBuildError),
}

/// Traces that are being sent, in batches, by a thread of their own.
pub(super) struct Traces {
    provider: SdkTracerProvider,
}

impl Traces {
    /// As the environment asks for them; none where it does not.
    pub(super) fn from_environment() -> Result<Option<Self>, TracesError> {
        let is_off = is("OTEL_SDK_DISABLED", "true") || is("OTEL_TRACES_EXPORTER", "none");
        if is_off || ENDPOINTS.into_iter().all(|name| variable(name).is_none()) {
            return Ok(None);
        }
        let sender = Sender::new(sender::timeout()).map_err(TracesError::Sender)?;
        let exporter = SpanExporter::builder().with_http().with_http_client(sender).build();
        let exporter = exporter.map_err(TracesError::Variables)?;
        let provider = SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource());
        Ok(Some(Self { provider: provider.build() }))
    }

    /// What makes traces of spans.
    pub(super) fn layer<S>(&self) -> impl Layer<S> + use<S>
    where
        S: Subscriber + for<'span> LookupSpan<'span>,
    {
        let filter = filter_fn(is_traced).with_max_level_hint(LevelFilter::DEBUG).and(filter_fn(is_free_of_secrets));
        tracing_opentelemetry::layer()
            .with_tracer(self.provider.tracer(NAME))
            .with_location(false)
            .with_target(false)
            .with_threads(false)
            .with_tracked_inactivity(false)
            .with_context_activation(false)
            .with_filter(filter)
    }

    /// Sends what is left, as far as the time allows.
    pub(super) fn end(self) {
        // What failed was said when it was tried; what is not sent in time is lost, and nobody waits for it.
        let _ = self.provider.shutdown_with_timeout(TRACES_GRACE);
    }
}

/// The spans of reconciles, which kube opens, and all of ours, with what is logged in them.
fn is_traced(metadata: &Metadata<'_>) -> bool {
    let target = metadata.target();
    let is_ours = target == "caip_openstack" || target.starts_with("caip_openstack::");
    let is_reconcile = metadata.is_span() && target.starts_with("kube_runtime::controller");
    (is_ours || is_reconcile) && *metadata.level() <= Level::DEBUG
}

/// OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES, and what they leave open.
fn resource() -> Resource {
    let given = Resource::builder().build();
    let mut ours = vec![];
    // The SDK's own default, which holds the program's file name.
    let name = given.get(&Key::new("service.name")).map(|name| name.to_string()).unwrap_or_default();
    if name.is_empty() || name.starts_with("unknown_service") {
        ours.push(KeyValue::new("service.name", NAME));
    }
    if given.get(&Key::new("service.version")).is_none() {
        ours.push(KeyValue::new("service.version", VERSION.as_str()));
    }
    Resource::builder().with_attributes(ours).build()
}

fn is(name: &str, value: &str) -> bool {
    variable(name).is_some_and(|given| given.eq_ignore_ascii_case(value))
}

/// A variable that is empty is as good as none, by OpenTelemetry's rules.
fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.trim().is_empty())
}
