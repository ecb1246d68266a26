//! The command line: the flags common to Cluster API providers, and a few of our own.
//!
//! The syntax is that of Go programs: `--flag=value` or `--flag value`, a boolean flag without a value is true, and the
//! last occurrence wins. Common flags without a meaning here are accepted and ignored, because operators set them on
//! every provider.

use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

use clap::error::{ContextKind, ErrorKind};
use clap::{Parser, ValueEnum};

mod ignored;
pub(crate) mod values;

use crate::openstack::hosts::HostList;

pub use ignored::Ignored;
pub use values::{Address, Namespaces, OptionalProxy, Servers};

/// The commit that was built, from the build's `CAIP_OPENSTACK_COMMIT`; empty if unset.
pub(crate) const COMMIT: &str = match option_env!("CAIP_OPENSTACK_COMMIT") {
    Some(commit) => commit,
    None => "",
};

/// The version and, if known, the commit: as in `--version` and the first log line.
pub static VERSION: LazyLock<String> = LazyLock::new(|| match COMMIT {
    "" => env!("CARGO_PKG_VERSION").to_owned(),
    commit => format!("{} ({commit})", env!("CARGO_PKG_VERSION")),
});

/// The longest that a Lease may last.
const LONGEST_LEASE: Duration = Duration::from_secs(300);

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum LoggingFormat {
    /// Human-readable lines
    Text,
    /// One JSON object per line
    Json,
}

/// A Cluster API IPAM provider for OpenStack floating IPs.
#[derive(Parser, Clone, Debug)]
#[command(name = "caip-openstack", version = VERSION.as_str(), args_override_self = true, max_term_width = 120)]
pub struct Flags {
    /// Namespace to watch; all namespaces if empty.
    #[arg(long, value_name = "NAMESPACE", default_value = "", hide_default_value = true)]
    pub namespace: String,

    /// Serve only pools whose label `cluster.x-k8s.io/watch-filter` has this value; all pools if empty.
    #[arg(long, value_name = "VALUE", default_value = "", hide_default_value = true)]
    pub watch_filter: String,

    /// Path to a kubeconfig; takes precedence over KUBECONFIG and the in-cluster configuration.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// Number of claims reconciled concurrently [default: --max-concurrent-reconciles, or no limit].
    #[arg(long, value_name = "N")]
    ipaddressclaim_concurrency: Option<NonZeroUsize>,

    /// Number of pools reconciled concurrently [default: --max-concurrent-reconciles, or no limit].
    #[arg(long, value_name = "N")]
    openstackfloatingippool_concurrency: Option<NonZeroUsize>,

    /// Default for the two concurrency flags above.
    #[arg(long, value_name = "N")]
    max_concurrent_reconciles: Option<NonZeroUsize>,

    /// Number of concurrent requests to one cloud.
    #[arg(long, value_name = "N", default_value = "8")]
    pub openstack_concurrency: NonZeroUsize,

    /// Maximum number of floating IPs that the pools of one namespace may list, in all projects together. Each may take 1 KiB
    /// of memory on average.
    #[arg(long, value_name = "N", default_value = "4000")]
    pub max_floating_ips: NonZeroUsize,

    /// Servers of OpenStack that Secrets and catalogues may name, separated by commas: host names, `*.domain`, addresses,
    /// CIDR ranges, or `*`; all but those of this machine, link-local ones and the API server if empty.
    #[arg(long, value_name = "HOSTS", default_value = "", hide_default_value = true)]
    pub openstack_hosts: HostList,

    /// URL of an HTTP proxy for servers of OpenStack with HTTPS, or `none`. HTTPS_PROXY is ignored.
    #[arg(long, value_name = "URL", default_value = "none", hide_default_value = true)]
    pub openstack_proxy: OptionalProxy,

    /// Servers of OpenStack to connect to without the proxy, separated by commas: host names, which stand for their
    /// subdomains too, addresses or CIDR ranges.
    #[arg(long, value_name = "HOSTS", default_value = "", hide_default_value = true)]
    pub openstack_no_proxy: Servers,

    /// Let pools use OpenStackClusterIdentities of CAPO whose Secrets are in these namespaces, separated by commas; `*` for
    /// all namespaces, none if empty.
    #[arg(long, value_name = "NAMESPACES", default_value = "", hide_default_value = true)]
    pub cluster_identity_namespaces: Namespaces,

    /// Write ConfigMaps with the addresses of pools that ask for one in `spec.addressConfigMap`.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false",
          default_missing_value = "true", value_parser = values::boolean, action = clap::ArgAction::Set)]
    pub address_config_maps: bool,

    /// Reconcile only while holding the leader election Lease. Required to run several replicas.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "true",
          default_missing_value = "true", value_parser = values::boolean, action = clap::ArgAction::Set)]
    pub leader_elect: bool,

    /// Name of the leader election Lease.
    #[arg(long, value_name = "NAME", default_value = "caip-openstack-leader-election")]
    pub leader_election_id: String,

    /// Namespace of the leader election Lease [default: POD_NAMESPACE, the pod's own, or the kubeconfig's].
    #[arg(long, value_name = "NAMESPACE")]
    pub leader_election_namespace: Option<String>,

    /// Time that other candidates wait after the last renewal before they acquire the Lease.
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = values::duration)]
    pub leader_elect_lease_duration: Duration,

    /// Time that the leader retries a failed renewal before it exits.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = values::duration)]
    pub leader_elect_renew_deadline: Duration,

    /// Interval between attempts to acquire or renew the Lease.
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = values::duration)]
    pub leader_elect_retry_period: Duration,

    /// Address of /healthz and /readyz; `0` disables them [default: :9440].
    #[arg(long, value_name = "ADDRESS")]
    pub health_addr: Option<Address>,

    /// Address of /metrics; `0` disables it [default: :8443].
    ///
    /// Served over HTTPS; callers must authenticate with a token and be allowed to `get` the non-resource URL /metrics.
    #[arg(long, value_name = "ADDRESS")]
    pub diagnostics_address: Option<Address>,

    /// Serve /metrics over plain HTTP, without authentication and authorization.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false",
          default_missing_value = "true", value_parser = values::boolean, action = clap::ArgAction::Set)]
    pub insecure_diagnostics: bool,

    /// Minimum TLS version of the diagnostics address.
    #[arg(long, value_name = "VERSION", default_value = "VersionTLS12")]
    pub tls_min_version: TlsVersion,

    /// TLS 1.2 cipher suites of the diagnostics address, by IANA name; all secure ones if empty.
    #[arg(long, value_name = "SUITES", value_delimiter = ',')]
    pub tls_cipher_suites: Vec<String>,

    /// Log format.
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub logging_format: LoggingFormat,

    /// Log verbosity: 0 for changes, 2 for decisions too, 4 for everything. RUST_LOG takes precedence.
    #[arg(short = 'v', long = "v", value_name = "LEVEL", default_value = "0")]
    pub verbosity: u8,

    #[command(flatten)]
    pub ignored: Ignored,
}

/// Named after Go's constants.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum TlsVersion {
    /// Also the value for older versions, which rustls does not support
    #[value(name = "VersionTLS12", aliases = ["VersionTLS10", "VersionTLS11"])]
    Tls12,
    #[value(name = "VersionTLS13")]
    Tls13,
}

/// Why the program ends after reading its command line, with the text to print.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum EarlyExit {
    /// `--help` or `--version`: to stdout, exit code 0.
    Info(String),
    /// An invalid command line, explained in one line: to stderr, exit code 2.
    Usage(String),
}

impl Flags {
    /// Parses a command line whose first argument is the program's name.
    pub fn read(args: impl IntoIterator<Item = impl Into<OsString> + Clone>) -> Result<Self, EarlyExit> {
        let flags = Self::try_parse_from(args).map_err(|error| match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => EarlyExit::Info(error.to_string()),
            ErrorKind::UnknownArgument => {
                let flag = error.get(ContextKind::InvalidArg).map(ToString::to_string).unwrap_or_default();
                EarlyExit::Usage(format!("unknown flag {flag}: --help lists all flags"))
            }
            _ => EarlyExit::Usage(first_line(&error.to_string())),
        })?;
        flags.validate_lease_times().map_err(EarlyExit::Usage)?;
        Ok(flags)
    }

    /// Another candidate must not acquire the Lease before the leader has given up.
    fn validate_lease_times(&self) -> Result<(), String> {
        let (lease, deadline, retry) =
            (self.leader_elect_lease_duration, self.leader_elect_renew_deadline, self.leader_elect_retry_period);
        if lease < Duration::from_secs(1) {
            return Err(format!("--leader-elect-lease-duration is {lease:?}, expected at least 1s"));
        }
        // After a crash of the leader, no replica serves until its Lease has expired.
        if lease > LONGEST_LEASE {
            return Err(format!("--leader-elect-lease-duration is {lease:?}, expected at most {LONGEST_LEASE:?}"));
        }
        if lease <= deadline {
            return Err(format!(
                "--leader-elect-lease-duration ({lease:?}) must be longer than --leader-elect-renew-deadline ({deadline:?})"
            ));
        }
        if deadline <= retry || retry.is_zero() {
            return Err(format!(
                "--leader-elect-renew-deadline ({deadline:?}) must be longer than --leader-elect-retry-period ({retry:?}), which must not be 0"
            ));
        }
        Ok(())
    }

    /// `None` for all namespaces.
    pub fn watched_namespace(&self) -> Option<String> {
        Some(self.namespace.clone()).filter(|name| !name.is_empty())
    }

    pub fn watched_label(&self) -> Option<String> {
        Some(self.watch_filter.clone()).filter(|value| !value.is_empty())
    }

    /// The maximum number of claims reconciled concurrently; 0 for no limit.
    pub fn claim_concurrency(&self) -> usize {
        self.ipaddressclaim_concurrency.or(self.max_concurrent_reconciles).map_or(0, NonZeroUsize::get)
    }

    /// The maximum number of pools reconciled concurrently; 0 for no limit, so that a slow pool delays no other.
    pub fn pool_concurrency(&self) -> usize {
        self.openstackfloatingippool_concurrency.or(self.max_concurrent_reconciles).map_or(0, NonZeroUsize::get)
    }
}

/// clap's errors start with `error: ` and end with usage and tips.
fn first_line(error: &str) -> String {
    let line = error.lines().next().unwrap_or_default();
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(args: &[&str]) -> Result<Flags, EarlyExit> {
        Flags::read(std::iter::once(&"caip-openstack").chain(args))
    }

    #[test]
    fn without_flags_everything_is_watched_by_an_elected_leader() {
        let flags = read(&[]).expect("it is valid");
        assert_eq!(flags.watched_namespace(), None);
        assert_eq!(flags.watched_label(), None);
        assert!(flags.leader_elect);
        assert_eq!(flags.leader_election_id, "caip-openstack-leader-election");
        assert_eq!(flags.leader_elect_lease_duration, Duration::from_secs(15));
        assert_eq!((flags.health_addr, flags.diagnostics_address), (None, None));
        assert_eq!(flags.openstack_concurrency.get(), 8);
        assert!(flags.cluster_identity_namespaces.is_empty() && !flags.address_config_maps);
    }

    #[test]
    fn flags_have_the_syntax_of_go_programs() {
        let flags = read(&[
            "--leader-elect=false",
            "--insecure-diagnostics",
            "--namespace",
            "one",
            "--leader-elect-lease-duration=1m30s",
            "--health-addr=:9999",
            "--diagnostics-address=",
            "--v=4",
            "--max-concurrent-reconciles=3",
            "--ipaddressclaim-concurrency=5",
            "--logging-format=json",
        ])
        .expect("it is valid");
        assert!(!flags.leader_elect);
        assert!(flags.insecure_diagnostics);
        assert_eq!(flags.watched_namespace().as_deref(), Some("one"));
        assert_eq!(flags.leader_elect_lease_duration, Duration::from_secs(90));
        assert_eq!(flags.health_addr, Some(Address::AnyHost(9999)));
        assert_eq!(flags.diagnostics_address, Some(Address::Off));
        assert_eq!(flags.verbosity, 4);
        assert_eq!((flags.claim_concurrency(), flags.pool_concurrency()), (5, 3));
        assert_eq!(flags.logging_format, LoggingFormat::Json);
        for short in [&["-v4"][..], &["-v=4"], &["-v", "4"]] {
            assert_eq!(read(short).expect("it is valid").verbosity, 4, "{short:?}");
        }
    }

    #[test]
    fn the_last_occurrence_wins() {
        assert!(!read(&["--leader-elect", "--leader-elect=false"]).expect("it is valid").leader_elect);
    }

    #[test]
    fn flags_of_other_providers_are_accepted() {
        read(&[
            "--sync-period=10m",
            "--webhook-port=9443",
            "--webhook-host=",
            "--webhook-cert-dir=/tmp/certs",
            "--feature-gates=MachinePool=true,ClusterTopology=true",
            "--kube-api-qps=20",
            "--kube-api-burst=30",
            "--metrics-bind-addr=localhost:8080",
            "--profiler-address=localhost:6060",
            "--contention-profiling",
            "--tls-min-version=VersionTLS13",
            "--tls-cipher-suites=TLS_AES_128_GCM_SHA256,TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
            "--openstackfloatingippool-concurrency=1",
        ])
        .expect("it is valid");
    }

    #[test]
    fn an_invalid_command_line_is_explained_in_one_line_that_names_the_flag() {
        for (args, part) in [
            (&["--no-such-flag=1"][..], "unknown flag --no-such-flag"),
            (&["--health-addr=9440"], "--health-addr"),
            (&["--leader-elect-retry-period=10"], "expected a duration such as"),
            (&["--leader-elect=maybe"], "--leader-elect"),
            (&["--openstack-concurrency=0"], "--openstack-concurrency"),
            (&["--leader-elect-lease-duration=10s"], "must be longer than --leader-elect-renew-deadline"),
            (&["--leader-elect-lease-duration=24h"], "--leader-elect-lease-duration is 86400s, expected at most 300s"),
            (&["--leader-elect-retry-period=10s"], "must be longer than --leader-elect-retry-period"),
            (&["--logging-format=xml"], "--logging-format"),
            (&["--cluster-identity-namespaces=capo-system,Team"], "is not the name of a namespace"),
            (&["--openstack-hosts=cloud.test,http://cloud.test"], "expected a host name"),
            (&["--openstack-proxy=proxy:3128"], "expected the URL of a proxy"),
        ] {
            let Err(EarlyExit::Usage(line)) = read(args) else { panic!("{args:?} was accepted") };
            assert!(line.contains(part) && !line.contains('\n'), "{args:?}: {line}");
        }
    }

    #[test]
    fn version_starts_with_the_program_name() {
        let Err(EarlyExit::Info(text)) = read(&["--version"]) else { panic!("--version does not exit") };
        assert!(text.starts_with("caip-openstack 0.1.0"), "{text}");
    }
}
