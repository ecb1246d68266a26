//! The command line, with the flags that kubectl's users know.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use http::Uri;
use secrecy::SecretString;
use serde::Serialize;

use super::output::format::{Format, FormatParser};
use crate::runtime::flags::VERSION;
use crate::runtime::flags::values::duration;

/// Inspect, explain and repair pools of OpenStack floating IPs (caip-openstack).
#[derive(Parser, Clone, Debug)]
#[command(name = "kubectl-fippool", bin_name = "kubectl fippool", version = VERSION.as_str(), max_term_width = 120)]
#[command(after_help = EXIT_CODES)]
pub(super) struct Cli {
    #[command(flatten)]
    pub(super) global: Global,
    #[command(subcommand)]
    pub(super) command: Command,
}

const EXIT_CODES: &str = "Exit codes: 0 yes, or done; 1 no (not ready, no holder, no address, orphans, obstacles); \
    2 invalid command line; 3 object not found; 4 a request to Kubernetes or OpenStack failed; 5 `check --wait` timed out.";

/// The flags of every command.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Options of every command")]
pub(super) struct Global {
    /// Namespace to use; the default is that of the kubeconfig's context.
    #[arg(short, long, global = true, value_name = "NAMESPACE", conflicts_with = "all_namespaces")]
    pub(super) namespace: Option<String>,

    /// Use all namespaces.
    #[arg(short = 'A', long, global = true)]
    pub(super) all_namespaces: bool,

    /// Kubeconfig context to use.
    #[arg(long, global = true, value_name = "CONTEXT")]
    pub(super) context: Option<String>,

    /// Kubeconfig file to use instead of KUBECONFIG and ~/.kube/config.
    #[arg(long, global = true, value_name = "FILE")]
    pub(super) kubeconfig: Option<PathBuf>,

    /// Cluster of the kubeconfig to use.
    #[arg(long, global = true, value_name = "CLUSTER")]
    pub(super) cluster: Option<String>,

    /// User of the kubeconfig to use.
    #[arg(long, global = true, value_name = "USER")]
    pub(super) user: Option<String>,

    /// URL of the API server, instead of the cluster's.
    #[arg(short = 's', long, global = true, value_name = "URL")]
    pub(super) server: Option<Uri>,

    /// Bearer token for the API server, instead of the user's credentials.
    #[arg(long, global = true, value_name = "TOKEN")]
    pub(super) token: Option<SecretString>,

    /// User to impersonate, such as system:serviceaccount:NAMESPACE:NAME.
    #[arg(long = "as", global = true, value_name = "USER")]
    pub(super) as_user: Option<String>,

    /// Group to impersonate; may be repeated. Needs --as.
    #[arg(long, global = true, value_name = "GROUP")]
    pub(super) as_group: Vec<String>,

    /// UID to impersonate. Needs --as.
    #[arg(long, global = true, value_name = "UID")]
    pub(super) as_uid: Option<String>,

    /// How long to wait for the API server, such as 30s; 0 is without a limit [default: 60s].
    #[arg(long, global = true, value_name = "TIMEOUT", value_parser = request_timeout)]
    pub(super) request_timeout: Option<Duration>,

    /// Print a table with more columns, or the data. A jsonpath template is as in kubectl.
    #[arg(short, long, global = true, value_name = "FORMAT", value_parser = FormatParser)]
    pub(super) output: Option<Format>,

    /// Use this cloud of your own clouds.yaml (OS_CLIENT_CONFIG_FILE, ./clouds.yaml, ~/.config/openstack,
    /// /etc/openstack) instead of the pool's Secret.
    #[arg(long, global = true, value_name = "CLOUD")]
    pub(super) os_cloud: Option<String>,
}

impl Global {
    /// The flags that lead kubectl to the same API server as the same user, each with a space before it, for a shell. A token
    /// is left out: it is a secret.
    pub(super) fn connection_flags(&self) -> String {
        let (kubeconfig, server) =
            (self.kubeconfig.as_ref().map(|path| path.display().to_string()), self.server.as_ref().map(Uri::to_string));
        let once = [
            ("--kubeconfig", &kubeconfig),
            ("--context", &self.context),
            ("--cluster", &self.cluster),
            ("--user", &self.user),
            ("--server", &server),
            ("--as", &self.as_user),
            ("--as-uid", &self.as_uid),
        ];
        let once = once.into_iter().filter_map(|(flag, value)| Some((flag, value.as_ref()?)));
        let all = once.chain(self.as_group.iter().map(|group| ("--as-group", group)));
        all.map(|(flag, value)| format!(" {flag} {}", quoted(value))).collect()
    }
}

/// As one word of a shell.
pub(super) fn quoted(text: &str) -> String {
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "-_./:@=+,".contains(character);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// As kubectl: a number without a unit is in seconds.
fn request_timeout(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(seconds) => Ok(Duration::from_secs(seconds)),
        Err(_) => duration(text),
    }
}

#[derive(Subcommand, Clone, Debug)]
pub(super) enum Command {
    /// Check that everything is ready: CRDs, permissions, controller, credentials, network, quota.
    Check(Check),
    /// List the addresses of the pools: state, claim, machine, cluster. As a table, or as an allow-list for a firewall.
    #[command(after_help = LIST_HELP)]
    List(List),
    /// Show how full the pools are.
    Usage(Pools),
    /// Find the holder of an address, and its floating IP in Neutron. Searches all namespaces unless -n is given.
    WhoHas(WhoHas),
    /// Explain why a claim has its address or none, and what would give it one.
    Explain(Explain),
    /// List floating IPs marked for a claim that does not exist or has another address.
    Orphans(Orphans),
    /// Plan the migration from CAPO's in-tree pool to one of this provider: objects to apply, changes, obstacles.
    Migrate(Migrate),
    /// Print the versions of the plugin and of the controller.
    Version(Version),
    /// Print a shell completion script.
    Completion {
        /// Shell to complete for.
        shell: Shell,
    },
}

#[derive(Args, Clone, Debug)]
pub(super) struct Pools {
    /// Only these pools.
    #[arg(value_name = "POOL")]
    pub(super) pools: Vec<String>,
}

const LIST_HELP: &str = "\
What is shown comes from Kubernetes alone, without any request to OpenStack: the IPAddresses of the pools with their \
claims, and the addresses that the pools list or reserve. With --neutron, Neutron is asked too: for the port of each \
address, for the addresses that a pool owns without a claim, and for those that are missing.

-o name prints the IPAddresses, for other commands of kubectl. -o cidr and -o nft print an allow-list: without the \
addresses that may be someone else's (Cooling, Orphan, Failed, Stray, Missing), unless --state names them.";

#[derive(Args, Clone, Debug)]
pub(super) struct List {
    #[command(flatten)]
    pub(super) pools: Pools,

    /// Only addresses of claims with these labels, such as cluster.x-k8s.io/cluster-name=demo. Addresses without a claim
    /// are left out.
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    pub(super) selector: Option<String>,

    /// Only addresses in these states.
    #[arg(long, value_name = "STATE", value_delimiter = ',', ignore_case = true)]
    pub(super) state: Vec<AddressState>,

    /// Print the addresses, and then each change, until interrupted.
    #[arg(short, long, conflicts_with = "neutron")]
    pub(super) watch: bool,

    /// Ask Neutron too, with the credentials of the pool's Secret or of --os-cloud.
    #[arg(long)]
    pub(super) neutron: bool,

    /// Do not print the header of the table or of -o csv.
    #[arg(long)]
    pub(super) no_headers: bool,
}

/// The state of an address, as `list` prints it.
#[derive(ValueEnum, Serialize, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[value(rename_all = "PascalCase")]
pub(super) enum AddressState {
    /// A claim has it.
    Allocated,
    /// Its claim is being deleted; a machine may still use it.
    Releasing,
    /// It is reserved for a claim that does not have it.
    Reserved,
    /// It is in the pool's list, and no claim has it.
    Listed,
    /// No claim has it, and the pool may give it (--neutron).
    Free,
    /// A claim released it, and it is not free or deleted yet (--neutron).
    Cooling,
    /// It carries the mark of a claim that does not have it (--neutron).
    Orphan,
    /// It cannot be allocated: see -o wide.
    Failed,
    /// An IPAddress without a claim names it.
    Stray,
    /// A claim has it, but Neutron does not (--neutron).
    Missing,
    /// It is no longer an address of the pool (--watch).
    #[value(skip)]
    Gone,
}

#[derive(Args, Clone, Debug)]
pub(super) struct Check {
    #[command(flatten)]
    pub(super) pools: Pools,

    /// Check again until everything is ready, for at most this long.
    #[arg(long, value_name = "TIMEOUT", num_args = 0..=1, require_equals = true, default_missing_value = "5m")]
    #[arg(value_parser = duration)]
    pub(super) wait: Option<Duration>,

    #[command(flatten)]
    pub(super) controller: ControllerPlace,

    /// ServiceAccount of the controller; the default is that of its Deployment.
    #[arg(long, value_name = "NAME")]
    pub(super) service_account: Option<String>,
}

/// Where the controller is.
#[derive(Args, Clone, Debug)]
pub(super) struct ControllerPlace {
    /// Namespace of the controller.
    #[arg(long, value_name = "NAMESPACE", default_value = "caip-openstack-system")]
    pub(super) controller_namespace: String,

    /// Leader election Lease of the controller.
    #[arg(long, value_name = "NAME", default_value = "caip-openstack-leader-election")]
    pub(super) lease: String,
}

#[derive(Args, Clone, Debug)]
pub(super) struct Version {
    #[command(flatten)]
    pub(super) controller: ControllerPlace,

    /// Print the version of the plugin only, without a request.
    #[arg(long)]
    pub(super) client: bool,
}

#[derive(Args, Clone, Debug)]
pub(super) struct WhoHas {
    /// IP address to find.
    #[arg(value_name = "ADDRESS")]
    pub(super) address: IpAddr,
}

#[derive(Args, Clone, Debug)]
pub(super) struct Explain {
    /// Name of the IPAddressClaim, or of its OpenStackServer.
    #[arg(value_name = "CLAIM")]
    pub(super) claim: String,
}

#[derive(Args, Clone, Debug)]
#[command(subcommand_precedence_over_arg = true)]
pub(super) struct Orphans {
    #[command(flatten)]
    pub(super) pools: Pools,

    /// Write the report to this new file, for `orphans release`.
    #[arg(long, value_name = "FILE")]
    pub(super) report: Option<PathBuf>,

    #[command(subcommand)]
    pub(super) command: Option<OrphansCommand>,
}

#[derive(Subcommand, Clone, Debug)]
pub(super) enum OrphansCommand {
    /// Release the orphans of a report after checking each again. One with a port is never released.
    Release(Release),
}

#[derive(Args, Clone, Debug)]
pub(super) struct Release {
    /// Report written by `orphans --report`.
    #[arg(long, value_name = "FILE")]
    pub(super) from_report: PathBuf,

    /// Do not ask for confirmation.
    #[arg(short, long)]
    pub(super) yes: bool,
}

#[derive(Args, Clone, Debug)]
pub(super) struct Migrate {
    /// Name of CAPO's pool.
    #[arg(value_name = "POOL")]
    pub(super) pool: String,

    /// Name of the new pool; the default is POOL-ipam. It cannot be that of CAPO's pool: CAPO would serve its claims too.
    #[arg(long, value_name = "NAME")]
    pub(super) to: Option<String>,

    /// Keep the addresses of CAPO's pool. Both pools list them, so that the new pool gives them to the machines that
    /// replace the old ones. CAPO deletes some in any case, such as that of a bastion: the plan says which.
    #[arg(long)]
    pub(super) keep_addresses: bool,

    /// Secret with the clouds.yaml of the new pool; the default is the Secret or the ClusterIdentity of CAPO's pool.
    #[arg(long, value_name = "NAME")]
    pub(super) secret: Option<String>,

    /// Create the printed objects and complete the printed lists, unless there are obstacles. Machines are not touched.
    #[arg(long)]
    pub(super) apply: bool,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_flags_of_a_connection_are_repeated_for_a_shell() {
        let flags = |args: &[&str]| {
            let line = [&["kubectl-fippool", "usage"], args].concat();
            Cli::try_parse_from(line).map(|cli| cli.global.connection_flags()).map_err(|error| error.to_string())
        };
        assert_eq!(flags(&[]), Ok(String::new()));
        let given = ["--context", "it's b", "--as=me", "--as-group", "a", "--as-group", "b", "--token", "secret"];
        let expected = r" --context 'it'\''s b' --as me --as-group a --as-group b";
        assert_eq!(flags(&given), Ok(expected.to_owned()));
        let given = ["-s", "https://h:6443/", "--kubeconfig", "k b.yaml"];
        assert_eq!(flags(&given), Ok(" --kubeconfig 'k b.yaml' --server https://h:6443/".to_owned()));
    }

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn wait_takes_a_time_only_behind_an_equals_sign() {
        let wait = |args: &[&str]| match Cli::try_parse_from(args).map(|cli| cli.command) {
            Ok(Command::Check(check)) => (check.wait, check.pools.pools),
            other => panic!("{other:?}"),
        };
        assert_eq!(wait(&["x", "check"]), (None, vec![]));
        assert_eq!(wait(&["x", "check", "--wait", "public"]), (Some(Duration::from_secs(300)), vec!["public".into()]));
        assert_eq!(wait(&["x", "check", "--wait=90s"]), (Some(Duration::from_secs(90)), vec![]));
    }

    #[test]
    fn release_is_a_command_wherever_the_flags_are() {
        for line in [
            "x -n a orphans release --from-report f",
            "x orphans -n a release --from-report f",
            "x orphans release -n a --from-report f --yes",
        ] {
            match Cli::try_parse_from(line.split(' ')).map(|cli| cli.command) {
                Ok(Command::Orphans(Orphans { command: Some(OrphansCommand::Release(_)), .. })) => {}
                other => panic!("{line}: {other:?}"),
            }
        }
    }

    #[test]
    fn a_request_timeout_may_be_in_seconds() {
        let timeout = |text: &str| {
            Cli::try_parse_from(["x", "usage", "--request-timeout", text]).map(|cli| cli.global.request_timeout)
        };
        assert_eq!(timeout("30").unwrap(), Some(Duration::from_secs(30)));
        assert_eq!(timeout("1m30s").unwrap(), Some(Duration::from_secs(90)));
        assert_eq!(timeout("0").unwrap(), Some(Duration::ZERO));
        assert!(timeout("soon").unwrap_err().to_string().contains("--request-timeout"));
    }

    #[test]
    fn a_token_is_never_printed() {
        let cli = Cli::try_parse_from(["x", "usage", "--token", "t0p-secret"]).unwrap();
        assert!(!format!("{cli:?}").contains("t0p-secret"));
    }

    #[test]
    fn a_wrong_format_names_the_flag_and_the_formats() {
        let error = Cli::try_parse_from(["x", "list", "-o", "table"]).unwrap_err().to_string();
        assert!(error.contains("--output") && error.contains("jsonpath=TEMPLATE"), "{error}");
        let error = Cli::try_parse_from(["x", "list", "-o", "jsonpath={.items"]).unwrap_err().to_string();
        assert!(error.contains("--output") && error.contains("not closed"), "{error}");
    }

    #[test]
    fn states_are_a_list() {
        let states = |text: &str| match Cli::try_parse_from(["x", "list", "--state", text]).map(|cli| cli.command) {
            Ok(Command::List(list)) => Some(list.state),
            _ => None,
        };
        assert_eq!(states("Allocated,free"), Some(vec![AddressState::Allocated, AddressState::Free]));
        assert_eq!(states("Gone"), None, "it is not a state that can be listed");
    }

    #[test]
    fn one_namespace_or_all_of_them() {
        assert!(Cli::try_parse_from(["x", "usage", "-A", "-n", "team-a"]).is_err());
        assert!(Cli::try_parse_from(["x", "-n", "team-a", "usage", "-o", "json"]).is_ok());
    }
}
