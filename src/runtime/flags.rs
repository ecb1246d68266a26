//! The command line: what every Cluster API provider takes, and a few flags of our own.
//!
//! Written as Go programs take it: `--flag=value` or `--flag value`, a boolean alone is true, the last of two wins.
//! Flags that mean nothing here are taken and ignored, since operators set them on every provider alike.

use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

use clap::error::{ContextKind, ErrorKind};
use clap::{Parser, ValueEnum};

mod ignored;
pub mod values;

pub use ignored::Ignored;
pub use values::Address;

/// The commit that was built, as the build was told by `CAIP_OPENSTACK_COMMIT`; empty where it was not.
pub const COMMIT: &str = match option_env!("CAIP_OPENSTACK_COMMIT") {
    Some(commit) => commit,
    None => "",
};

/// The version, and the commit where it is known: what `--version` and the log's first line say.
pub static VERSION: LazyLock<String> = LazyLock::new(|| match COMMIT {
    "" => env!("CARGO_PKG_VERSION").to_owned(),
    commit => format!("{} ({commit})", env!("CARGO_PKG_VERSION")),
});

/// How log lines are written.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum LoggingFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// A Cluster API IPAM provider for OpenStack floating IPs.
#[derive(Parser, Clone, Debug)]
#[command(name = "caip-openstack", version = VERSION.as_str(), args_override_self = true, max_term_width = 120)]
pub struct Flags {
    /// Watch this namespace only; all of them when empty.
    #[arg(long, value_name = "NAMESPACE", default_value = "", hide_default_value = true)]
    pub namespace: String,

    /// Serve only pools with the label `cluster.x-k8s.io/watch-filter` of this value; all pools when empty.
    #[arg(long, value_name = "VALUE", default_value = "", hide_default_value = true)]
    pub watch_filter: String,

    /// The kubeconfig to use, before the variable KUBECONFIG and before the cluster that we run in.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// How many claims are worked on side by side [default: --max-concurrent-reconciles, else no limit].
    #[arg(long, value_name = "N")]
    ipaddressclaim_concurrency: Option<NonZeroUsize>,

    /// How many pools are worked on side by side [default: --max-concurrent-reconciles, else no limit].
    #[arg(long, value_name = "N")]
    openstackfloatingippool_concurrency: Option<NonZeroUsize>,

    /// Both of the above, where they are not given.
    #[arg(long, value_name = "N")]
    max_concurrent_reconciles: Option<NonZeroUsize>,

    /// How many calls run side by side in one cloud.
    #[arg(long, value_name = "N", default_value = "8")]
    pub openstack_concurrency: NonZeroUsize,

    /// Work only while holding the lease, so that several replicas can run.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "true",
          default_missing_value = "true", value_parser = values::boolean, action = clap::ArgAction::Set)]
    pub leader_elect: bool,

    /// The name of the lease.
    #[arg(long, value_name = "NAME", default_value = "caip-openstack-leader-election")]
    pub leader_election_id: String,

    /// The namespace of the lease [default: POD_NAMESPACE, the pod's own, or the kubeconfig's].
    #[arg(long, value_name = "NAMESPACE")]
    pub leader_election_namespace: Option<String>,

    /// How long others wait for a leader that went silent.
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = values::duration)]
    pub leader_elect_lease_duration: Duration,

    /// How long the leader goes on trying to renew before it gives up and ends.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = values::duration)]
    pub leader_elect_renew_deadline: Duration,

    /// How long between two tries, to renew or to become the leader.
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = values::duration)]
    pub leader_elect_retry_period: Duration,

    /// Where /healthz and /readyz are served, `0` for nowhere [default: :9440].
    #[arg(long, value_name = "ADDRESS")]
    pub health_addr: Option<Address>,

    /// Where /metrics is served, `0` for nowhere [default: :8443].
    ///
    /// By HTTPS, to those whom the API server knows and lets `get` the non-resource URL /metrics.
    #[arg(long, value_name = "ADDRESS")]
    pub diagnostics_address: Option<Address>,

    /// Serve the diagnostics address by plain HTTP, to everybody.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false",
          default_missing_value = "true", value_parser = values::boolean, action = clap::ArgAction::Set)]
    pub insecure_diagnostics: bool,

    /// The least TLS version of the diagnostics address: VersionTLS12 or VersionTLS13.
    #[arg(long, value_name = "VERSION", default_value = "VersionTLS12")]
    pub tls_min_version: TlsVersion,

    /// Cipher suites of TLS 1.2 for the diagnostics address, by their IANA names; all that are safe when empty.
    #[arg(long, value_name = "SUITES", value_delimiter = ',')]
    pub tls_cipher_suites: Vec<String>,

    /// How logs are written.
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub logging_format: LoggingFormat,

    /// How much is logged: 0 changes made, 2 also decisions, 4 everything; RUST_LOG goes before.
    #[arg(short = 'v', long = "v", value_name = "LEVEL", default_value = "0")]
    pub verbosity: u8,

    /// Flags of other providers.
    #[command(flatten)]
    pub ignored: Ignored,
}

/// A version of TLS, as Go's constants are called.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum TlsVersion {
    /// TLS 1.2; the older ones are taken and mean this too, since there is nothing below it here.
    #[value(name = "VersionTLS12", aliases = ["VersionTLS10", "VersionTLS11"])]
    Tls12,
    /// TLS 1.3.
    #[value(name = "VersionTLS13")]
    Tls13,
}

/// What to print instead of running, and the exit code.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Stop {
    /// `--help`, `--version`: to stdout, exit code 0.
    Asked(String),
    /// What is wrong with the command line, in one line: to stderr, exit code 2.
    Wrong(String),
}

impl Flags {
    /// Reads a command line, its program's name first.
    pub fn read(args: impl IntoIterator<Item = impl Into<OsString> + Clone>) -> Result<Self, Stop> {
        let flags = Self::try_parse_from(args).map_err(|error| match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Stop::Asked(error.to_string()),
            ErrorKind::UnknownArgument => {
                let flag = error.get(ContextKind::InvalidArg).map(ToString::to_string).unwrap_or_default();
                Stop::Wrong(format!("unknown flag {flag}: --help lists those that there are"))
            }
            _ => Stop::Wrong(first_line(&error.to_string())),
        })?;
        flags.check().map_err(Stop::Wrong)?;
        Ok(flags)
    }

    /// What single values cannot say: others may take the lease only when the leader has long given up.
    fn check(&self) -> Result<(), String> {
        let (lease, deadline, retry) =
            (self.leader_elect_lease_duration, self.leader_elect_renew_deadline, self.leader_elect_retry_period);
        if lease < Duration::from_secs(1) {
            return Err(format!("--leader-elect-lease-duration is {lease:?}, expected at least 1s"));
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

    /// The namespace to watch; `None` for all of them.
    pub fn watched_namespace(&self) -> Option<String> {
        Some(self.namespace.clone()).filter(|name| !name.is_empty())
    }

    /// The value of the watch filter; `None` without one.
    pub fn watched_label(&self) -> Option<String> {
        Some(self.watch_filter.clone()).filter(|value| !value.is_empty())
    }

    /// How many claims are worked on side by side. More than OpenStack takes at once, since most wait for it.
    pub fn claim_concurrency(&self) -> usize {
        self.ipaddressclaim_concurrency.or(self.max_concurrent_reconciles).map_or(0, NonZeroUsize::get)
    }

    /// How many pools are worked on side by side; 0 for no limit, so that one that is slow holds up no other.
    pub fn pool_concurrency(&self) -> usize {
        self.openstackfloatingippool_concurrency.or(self.max_concurrent_reconciles).map_or(0, NonZeroUsize::get)
    }
}

/// clap's errors begin `error: ` and go on with usage and tips.
fn first_line(error: &str) -> String {
    let line = error.lines().next().unwrap_or_default();
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(args: &[&str]) -> Result<Flags, Stop> {
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
    }

    #[test]
    fn flags_are_written_as_for_go_programs() {
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
    fn the_last_of_two_wins() {
        assert!(!read(&["--leader-elect", "--leader-elect=false"]).expect("it is valid").leader_elect);
    }

    #[test]
    fn flags_of_other_providers_are_taken() {
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
    fn a_wrong_command_line_is_one_line_that_names_the_flag() {
        for (args, part) in [
            (&["--no-such-flag=1"][..], "unknown flag --no-such-flag"),
            (&["--health-addr=9440"], "--health-addr"),
            (&["--leader-elect-retry-period=10"], "expected a duration such as"),
            (&["--leader-elect=maybe"], "--leader-elect"),
            (&["--openstack-concurrency=0"], "--openstack-concurrency"),
            (&["--leader-elect-lease-duration=10s"], "must be longer than --leader-elect-renew-deadline"),
            (&["--leader-elect-retry-period=10s"], "must be longer than --leader-elect-retry-period"),
            (&["--logging-format=xml"], "--logging-format"),
        ] {
            let Err(Stop::Wrong(line)) = read(args) else { panic!("{args:?} was taken") };
            assert!(line.contains(part) && !line.contains('\n'), "{args:?}: {line}");
        }
    }

    #[test]
    fn the_version_is_said_as_others_count_on() {
        let Err(Stop::Asked(text)) = read(&["--version"]) else { panic!("--version ran") };
        assert!(text.starts_with("caip-openstack 0.1.0"), "{text}");
    }
}
