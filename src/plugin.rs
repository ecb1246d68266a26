//! `kubectl fippool`: inspects, explains and repairs pools.
//!
//! Each command has a file, which collects data and returns a report; [`output`] prints it as a table, JSON or YAML. The
//! controllers' own code ([`controllers::inspect`](crate::controllers::inspect)) decides about claims, orphans and pools.
//! Only `orphans release` and `migrate --apply` change anything.
//!
//! | file | what it does |
//! |---|---|
//! | [`cli`] | the command line |
//! | [`completion`] | the words that can follow, for kubectl |
//! | [`exit`] | exit codes and errors |
//! | [`session`] | the management cluster, the namespaces in scope, and the user's own cloud |
//! | [`output`] | tables, JSON, YAML, jsonpath, colours, progress |
//! | [`figures`] | the counts of a pool |
//! | [`ownership`] | what the marks on a floating IP say, in words |
//! | [`check`] | is everything ready |
//! | [`list`] | the addresses of the pools |
//! | [`usage`] | how full each pool is |
//! | [`version`] | the versions of the plugin and of the controller |
//! | [`who_has`] | who has an address |
//! | [`explain`] | why a claim has its address, or none |
//! | [`orphans`] | floating IPs marked for a claim that does not exist or has another address |
//! | [`migrate`] | from CAPO's in-tree pool to ours |

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};

mod check;
mod cli;
mod completion;
mod deployment;
mod exit;
mod explain;
mod figures;
mod list;
mod migrate;
pub(crate) mod orphans;
pub(crate) mod output;
mod ownership;
mod readable;
mod session;
mod usage;
mod version;
mod who_has;

use cli::{Cli, Command, Orphans, OrphansCommand};
use exit::{Answer, Failure};
use output::format::Format;
use session::PluginSession;

/// Runs the plugin with these command line arguments, and returns its exit code.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args: Vec<OsString> = args.into_iter().collect();
    // The default for TLS clients that name no provider. It fails only if one is installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    // Before clap: what follows is not a valid command line yet.
    if args.get(1).is_some_and(|word| word == completion::REQUEST) {
        return match output::write(&completion::answer(args.into_iter().skip(2))) {
            Ok(_) => ExitCode::from(exit::YES),
            Err(failure) => failure.code(),
        };
    }
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        // clap reports help and the version as errors too.
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { exit::USAGE } else { exit::YES });
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let result = match runtime {
        Ok(runtime) => runtime.block_on(execute(cli)),
        Err(error) => Err(Failure::Request(format!("start: {error}"))),
    };
    match result {
        Ok(answer) => answer.into(),
        Err(failure) => {
            output::print_error(&failure.to_string());
            failure.code()
        }
    }
}

async fn execute(Cli { global, command }: Cli) -> Result<Answer, Failure> {
    let format = global.output.as_ref();
    if let Some(name) = format.and_then(Format::only_in_list).filter(|_| !matches!(command, Command::List(_))) {
        return Err(Failure::Usage(format!("-o {name} is a format of `kubectl fippool list` only")));
    }
    // Completions need no cluster.
    let session = async || PluginSession::open(&global).await;
    match command {
        Command::Completion { shell } => {
            clap_complete::generate(shell, &mut Cli::command(), "kubectl-fippool", &mut std::io::stdout());
            Ok(Answer::Yes)
        }
        Command::Check(args) => check::check_installation(&session().await?, &args, format).await,
        Command::List(args) => list::list_addresses(&session().await?, &args, format).await,
        Command::Usage(args) => usage::show_usage(&session().await?, &args.pools, format).await,
        Command::Version(args) => version::show_versions(&global, &args, format).await,
        Command::WhoHas(args) => who_has::trace_address(&session().await?, args.address, format).await,
        Command::Explain(args) => explain::explain_claim(&session().await?, &args.claim, format).await,
        Command::Orphans(Orphans { command: Some(OrphansCommand::Release(args)), .. }) => {
            orphans::release_orphans(&session().await?, &args, format).await
        }
        Command::Orphans(args) => orphans::list_orphans(&session().await?, &args, format).await,
        Command::Migrate(args) => migrate::migrate_pool(&session().await?, &args, format).await,
    }
}
