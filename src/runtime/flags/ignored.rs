//! Flags of other providers that mean nothing here.

use clap::Args;

/// Taken so that a Deployment written for any provider starts, and never read.
///
/// No webhooks (the rules are in the CRD), no feature gates, no profiler, no client-side limit (the API server's own
/// fairness does that).
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Accepted and ignored")]
pub struct Ignored {
    /// Changes come from watches, and the intervals of the periodic checks are fixed.
    #[arg(long, value_name = "DURATION")]
    sync_period: Option<String>,

    /// There are no webhooks.
    #[arg(long, value_name = "PORT")]
    webhook_port: Option<String>,

    /// There are no webhooks.
    #[arg(long, value_name = "HOST")]
    webhook_host: Option<String>,

    /// There are no webhooks.
    #[arg(long, value_name = "DIR")]
    webhook_cert_dir: Option<String>,

    /// There are no webhooks.
    #[arg(long, value_name = "FILE", hide = true)]
    webhook_cert_name: Option<String>,

    /// There are no webhooks.
    #[arg(long, value_name = "FILE", hide = true)]
    webhook_key_name: Option<String>,

    /// There are no feature gates.
    #[arg(long, value_name = "GATES")]
    feature_gates: Option<String>,

    /// The API server's own fairness limits us.
    #[arg(long, value_name = "QPS")]
    kube_api_qps: Option<String>,

    /// The API server's own fairness limits us.
    #[arg(long, value_name = "N")]
    kube_api_burst: Option<String>,

    /// Metrics are served on the diagnostics address.
    #[arg(long, value_name = "ADDRESS")]
    metrics_bind_addr: Option<String>,

    /// There is no profiler.
    #[arg(long, value_name = "ADDRESS")]
    profiler_address: Option<String>,

    /// There is no profiler.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", hide = true)]
    contention_profiling: Option<String>,

    /// Logs are not buffered.
    #[arg(long, value_name = "DURATION", hide = true)]
    log_flush_frequency: Option<String>,

    /// RUST_LOG does this.
    #[arg(long, value_name = "PATTERNS", hide = true)]
    vmodule: Option<String>,
}
