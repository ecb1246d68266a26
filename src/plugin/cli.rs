//! The command line, with the flags that kubectl's users know.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

use crate::runtime::flags::VERSION;
use crate::runtime::flags::values::duration;

/// Asks about pools of OpenStack floating IPs (caip-openstack), explains, and helps to mend.
#[derive(Parser, Clone, Debug)]
#[command(name = "kubectl-fippool", bin_name = "kubectl fippool", version = VERSION.as_str(), max_term_width = 120)]
#[command(after_help = EXIT_CODES)]
pub(super) struct Cli {
    #[command(flatten)]
    pub(super) global: Global,
    #[command(subcommand)]
    pub(super) command: Command,
}

const EXIT_CODES: &str = "Exit codes: 0 yes, or done; 1 no (not ready, nobody has it, no address, something stands in \
the way); 2 wrong command line; 3 what was named does not exist; 4 Kubernetes or OpenStack could not be asked; \
5 `check --wait` ran out of time.";

/// What every command takes.
#[derive(Args, Clone, Debug)]
pub(super) struct Global {
    /// The namespace; that of the context when absent.
    #[arg(short, long, global = true, value_name = "NAMESPACE", conflicts_with = "all_namespaces")]
    pub(super) namespace: Option<String>,

    /// All namespaces.
    #[arg(short = 'A', long, global = true)]
    pub(super) all_namespaces: bool,

    /// The context of the kubeconfig to use.
    #[arg(long, global = true, value_name = "CONTEXT")]
    pub(super) context: Option<String>,

    /// The kubeconfig to use, before KUBECONFIG and ~/.kube/config.
    #[arg(long, global = true, value_name = "FILE")]
    pub(super) kubeconfig: Option<PathBuf>,

    /// A table with more columns, or the data.
    #[arg(short, long, global = true, value_name = "FORMAT")]
    pub(super) output: Option<Format>,

    /// Ask OpenStack as this cloud of your own clouds.yaml (OS_CLIENT_CONFIG_FILE, ./clouds.yaml,
    /// ~/.config/openstack, /etc/openstack) instead of reading the pool's Secret.
    #[arg(long, global = true, value_name = "CLOUD")]
    pub(super) os_cloud: Option<String>,
}

/// How data is printed.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Format {
    /// A table with more columns.
    Wide,
    /// One JSON document.
    Json,
    /// One YAML document.
    Yaml,
}

#[derive(Subcommand, Clone, Debug)]
pub(super) enum Command {
    /// Is everything ready: CRDs, permissions, controller, credentials, network, quota.
    Check(Check),
    /// How full the pools are.
    Usage(Pools),
    /// Who has an address, and what Neutron says of it. Looks in all namespaces unless -n is given.
    WhoHas(WhoHas),
    /// Why a claim has its address, or none, and what would give it one.
    Explain(Explain),
    /// Floating IPs with a pool's mark that no claim holds.
    Orphans(Orphans),
    /// From CAPO's in-tree pool to one of ours: what to apply, what changes, what stands in the way.
    Migrate(Migrate),
    /// Prints a completion script.
    Completion {
        /// For which shell.
        shell: Shell,
    },
}

#[derive(Args, Clone, Debug)]
pub(super) struct Pools {
    /// These pools only.
    #[arg(value_name = "POOL")]
    pub(super) pools: Vec<String>,
}

#[derive(Args, Clone, Debug)]
pub(super) struct Check {
    #[command(flatten)]
    pub(super) pools: Pools,

    /// Look again until all is well, for as long as this.
    #[arg(long, value_name = "TIMEOUT", num_args = 0..=1, require_equals = true, default_missing_value = "5m")]
    #[arg(value_parser = duration)]
    pub(super) wait: Option<Duration>,

    /// Where the controller runs.
    #[arg(long, value_name = "NAMESPACE", default_value = "caip-openstack-system")]
    pub(super) controller_namespace: String,

    /// The controller's ServiceAccount; that of its Deployment when absent.
    #[arg(long, value_name = "NAME")]
    pub(super) service_account: Option<String>,

    /// The controller's Lease.
    #[arg(long, value_name = "NAME", default_value = "caip-openstack-leader-election")]
    pub(super) lease: String,
}

#[derive(Args, Clone, Debug)]
pub(super) struct WhoHas {
    /// The address.
    #[arg(value_name = "ADDRESS")]
    pub(super) address: IpAddr,
}

#[derive(Args, Clone, Debug)]
pub(super) struct Explain {
    /// The IPAddressClaim, or the OpenStackServer that it is for.
    #[arg(value_name = "CLAIM")]
    pub(super) claim: String,
}

#[derive(Args, Clone, Debug)]
#[command(subcommand_precedence_over_arg = true)]
pub(super) struct Orphans {
    #[command(flatten)]
    pub(super) pools: Pools,

    /// Write the report to this file, for `orphans release`. It must not exist.
    #[arg(long, value_name = "FILE")]
    pub(super) report: Option<PathBuf>,

    #[command(subcommand)]
    pub(super) command: Option<OrphansCommand>,
}

#[derive(Subcommand, Clone, Debug)]
pub(super) enum OrphansCommand {
    /// Releases those of a report that are orphans at a second look too; never one with a port.
    Release(Release),
}

#[derive(Args, Clone, Debug)]
pub(super) struct Release {
    /// What `orphans --report` wrote.
    #[arg(long, value_name = "FILE")]
    pub(super) from_report: PathBuf,

    /// Do not ask.
    #[arg(short, long)]
    pub(super) yes: bool,
}

#[derive(Args, Clone, Debug)]
pub(super) struct Migrate {
    /// CAPO's pool.
    #[arg(value_name = "POOL")]
    pub(super) pool: String,

    /// The name of ours: another one, since CAPO would serve the claims of its namesake too. POOL-ipam when absent.
    #[arg(long, value_name = "NAME")]
    pub(super) to: Option<String>,

    /// Create what is printed, unless something stands in the way. Machines are not touched.
    #[arg(long)]
    pub(super) apply: bool,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

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
    fn one_namespace_or_all_of_them() {
        assert!(Cli::try_parse_from(["x", "usage", "-A", "-n", "team-a"]).is_err());
        assert!(Cli::try_parse_from(["x", "-n", "team-a", "usage", "-o", "json"]).is_ok());
    }
}
