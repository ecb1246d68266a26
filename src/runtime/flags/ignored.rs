//! Common flags of Cluster API providers that have no effect here.

use clap::Args;

/// Accepted, so that a Deployment written for any provider starts, and never read.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Accepted and ignored")]
pub struct Ignored {
    /// The resync intervals are fixed.
    #[arg(long, value_name = "DURATION")]
    sync_period: Option<String>,

    /// There are no webhooks: the CRD has the validation rules.
    #[arg(long, value_name = "PORT")]
    webhook_port: Option<String>,

    /// There are no webhooks: the CRD has the validation rules.
    #[arg(long, value_name = "HOST")]
    webhook_host: Option<String>,

    /// There are no webhooks: the CRD has the validation rules.
    #[arg(long, value_name = "DIR")]
    webhook_cert_dir: Option<String>,

    /// There are no webhooks: the CRD has the validation rules.
    #[arg(long, value_name = "FILE", hide = true)]
    webhook_cert_name: Option<String>,

    /// There are no webhooks: the CRD has the validation rules.
    #[arg(long, value_name = "FILE", hide = true)]
    webhook_key_name: Option<String>,

    /// There are no feature gates.
    #[arg(long, value_name = "GATES")]
    feature_gates: Option<String>,

    /// There is no client-side rate limit: the API server's priority and fairness applies.
    #[arg(long, value_name = "QPS")]
    kube_api_qps: Option<String>,

    /// There is no client-side rate limit: the API server's priority and fairness applies.
    #[arg(long, value_name = "N")]
    kube_api_burst: Option<String>,

    /// Use --diagnostics-address.
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

    /// Use RUST_LOG.
    #[arg(long, value_name = "PATTERNS", hide = true)]
    vmodule: Option<String>,
}
