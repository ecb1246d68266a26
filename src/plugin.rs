//! `kubectl fippool`: is everything ready, who has this address, why has this machine none, what was left behind.
//!
//! Each command is a file: it gathers, says what it found as data, and that is printed as a table, JSON or YAML. What is
//! decided about a claim, an orphan or a pool is asked of the controllers' own code
//! ([`controllers::inspect`](crate::controllers::inspect)). Only `orphans release` and `migrate --apply` change anything.
//!
//! | file | what it does |
//! |---|---|
//! | [`cli`] | the command line |
//! | [`exit`] | how it ends: every exit code |
//! | [`session`] | the management cluster, the namespaces meant, and the user's own cloud |
//! | [`output`] | tables, JSON, YAML, colours, progress |
//! | [`check`] | is everything ready |
//! | [`ownership`] | how a floating IP stands towards a pool, in words |
//! | [`usage`] | a bar for each pool |
//! | [`who_has`] | who has an address |
//! | [`explain`] | why a claim has its address, or none |
//! | [`orphans`] | what belongs to nobody |
//! | [`migrate`] | from CAPO's in-tree pool to ours |

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};

mod check;
mod cli;
mod exit;
mod explain;
mod migrate;
mod orphans;
mod output;
mod ownership;
mod session;
mod usage;
mod who_has;

use cli::{Cli, Command};
use exit::{Answer, Failure};
use session::Session;

/// Runs the plugin, and says how it ended.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        // Help and the version are answers; the rest is a wrong command line, which clap ends with 2 too.
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { exit::USAGE } else { exit::YES });
        }
    };
    // Whoever asks for TLS without naming a provider gets this one. It can be set once, and this is once.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let ended = match runtime {
        Ok(runtime) => runtime.block_on(run(cli)),
        Err(error) => Err(Failure::Asked(format!("start: {error}"))),
    };
    match ended {
        Ok(answer) => answer.into(),
        Err(failure) => {
            output::complain(&failure.to_string());
            failure.code()
        }
    }
}

async fn run(cli: Cli) -> Result<Answer, Failure> {
    let Cli { global, command } = cli;
    let session = async || Session::open(&global).await;
    match command {
        Command::Completion { shell } => {
            clap_complete::generate(shell, &mut Cli::command(), "kubectl-fippool", &mut std::io::stdout());
            Ok(Answer::Yes)
        }
        Command::Check(args) => check::run(&session().await?, &args, global.output).await,
        Command::Usage(args) => usage::run(&session().await?, &args, global.output).await,
        Command::WhoHas(args) => who_has::run(&session().await?, &args, global.output).await,
        Command::Explain(args) => explain::run(&session().await?, &args, global.output).await,
        Command::Orphans(args) => orphans::run(&session().await?, &args, global.output).await,
        Command::Migrate(args) => migrate::run(&session().await?, &args, global.output).await,
    }
}
