//! The words that can follow on a command line, in the protocol in which kubectl asks `kubectl_complete-fippool`: one a
//! line, with its help after a tab, and at last what the shell is to do
//! (<https://github.com/spf13/cobra/blob/main/site/content/completions/_index.md>).
//!
//! The flags and commands come from clap's definition. The engine of clap_complete is behind an unstable feature, and its
//! completers do not know the rest of the line, such as `-n`.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::time::Duration;

use clap::{Arg, ArgAction, Command, CommandFactory, FromArgMatches};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::ListParams;
use kube::{Api, ResourceExt};

use super::cli::{Cli, Global};
use super::exit::Failure;
use super::session::{PluginSession, kubeconfig};
use crate::api::{IpAddress, IpAddressClaim, OpenStackFloatingIPPool};

/// What kubectl puts first.
pub(super) const REQUEST: &str = "__complete";

/// Longer would hang the shell.
const TIMEOUT: Duration = Duration::from_secs(3);

// Cobra's directives.
const FILES: u8 = 0;
const NO_SPACE: u8 = 2;
const NO_FILES: u8 = 4;

/// Names that are not in the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Names {
    Pools,
    Claims,
    Addresses,
    Namespaces,
    Contexts,
    Clusters,
    Users,
}

#[derive(PartialEq, Eq, Debug)]
struct Candidates {
    /// Each with its help.
    words: Vec<(String, String)>,
    directive: u8,
}

/// Answers for the words of the command line; the last one is to be completed.
pub(super) fn answer(words: impl Iterator<Item = OsString>) -> String {
    let words: Vec<String> = words.map(|word| word.to_string_lossy().into_owned()).collect();
    let candidates = complete(&words, |names| list_names(names, &words));
    let mut text = String::new();
    for (word, help) in candidates.words {
        let help = help.lines().next().unwrap_or_default();
        text += &if help.is_empty() { format!("{word}\n") } else { format!("{word}\t{help}\n") };
    }
    text + &format!(":{}\n", candidates.directive)
}

fn complete(words: &[String], names: impl Fn(Names) -> BTreeSet<String>) -> Candidates {
    let mut root = Cli::command();
    // Global flags are then flags of every command.
    root.build();
    let (last, before) = words.split_last().map_or(("", &[][..]), |(last, before)| (last.as_str(), before));
    let position = Position::after(&root, before);
    if let Some(arg) = position.awaits {
        return values(arg, position.command, last, "", names);
    }
    if let Some((flag, value)) = last.split_once('=').filter(|_| last.starts_with("--")) {
        let arg = position.command.get_arguments().find(|arg| arg.get_long() == flag.strip_prefix("--"));
        let nothing = Candidates { words: Vec::new(), directive: NO_FILES };
        return arg.map_or(nothing, |arg| values(arg, position.command, value, &format!("{flag}="), names));
    }
    if last.starts_with('-') {
        return Candidates { words: flags(position.command, last), directive: NO_FILES };
    }
    let subcommands = position.command.get_subcommands().filter(|command| !command.is_hide_set());
    let mut words: Vec<_> = subcommands
        .filter(|command| command.get_name().starts_with(last))
        .map(|command| (command.get_name().to_owned(), help(command.get_about())))
        .collect();
    let mut directive = NO_FILES;
    if let Some(arg) = position.positional() {
        let candidates = values(arg, position.command, last, "", names);
        words.extend(candidates.words);
        directive = candidates.directive;
    }
    Candidates { words, directive }
}

/// Where a command line has come to.
struct Position<'a> {
    command: &'a Command,
    /// The flag whose value is next.
    awaits: Option<&'a Arg>,
    /// How many positional values the command has.
    values: usize,
}

impl<'a> Position<'a> {
    fn after(root: &'a Command, words: &[String]) -> Self {
        let mut position = Self { command: root, awaits: None, values: 0 };
        for word in words {
            position.advance(word);
        }
        position
    }

    fn advance(&mut self, word: &str) {
        if self.awaits.take().is_some() {
            return;
        }
        let flag = match (word.strip_prefix("--"), word.strip_prefix('-')) {
            (Some(long), _) => self.command.get_arguments().find(|arg| arg.get_long() == Some(long)),
            // The value may follow in the same word.
            (None, Some(short)) if short.chars().count() == 1 => {
                self.command.get_arguments().find(|arg| arg.get_short() == short.chars().next())
            }
            (None, Some(_)) => None,
            (None, None) => {
                match self.command.find_subcommand(word) {
                    Some(command) => (self.command, self.values) = (command, 0),
                    None => self.values = self.values.saturating_add(1),
                }
                None
            }
        };
        self.awaits = flag.filter(|arg| arg.get_action().takes_values() && !arg.is_require_equals_set());
    }

    /// The next positional argument; the last one may have several values.
    fn positional(&self) -> Option<&'a Arg> {
        let mut all = self.command.get_positionals();
        let is_repeated = |arg: &&Arg| matches!(arg.get_action(), ArgAction::Append);
        all.nth(self.values).or_else(|| self.command.get_positionals().last().filter(is_repeated))
    }
}

fn flags(command: &Command, prefix: &str) -> Vec<(String, String)> {
    let visible = command.get_arguments().filter(|arg| !arg.is_hide_set());
    let named = visible.filter_map(|arg| Some((format!("--{}", arg.get_long()?), help(arg.get_help()))));
    named.filter(|(flag, _)| flag.starts_with(prefix)).collect()
}

fn help(text: Option<&clap::builder::StyledStr>) -> String {
    text.map(ToString::to_string).unwrap_or_default()
}

/// The values of an argument that begin with `typed`. `prefix` is what the word has before the value.
fn values(
    arg: &Arg,
    command: &Command,
    typed: &str,
    prefix: &str,
    names: impl Fn(Names) -> BTreeSet<String>,
) -> Candidates {
    if arg.get_value_names().is_some_and(|names| names.iter().any(|name| name.as_str() == "FILE")) {
        return Candidates { words: Vec::new(), directive: FILES };
    }
    // Of a list, the last value.
    let (listed, typed) = match arg.get_value_delimiter().and_then(|delimiter| typed.rsplit_once(delimiter)) {
        Some((listed, typed)) => (format!("{listed},"), typed),
        None => (String::new(), typed),
    };
    let all: Vec<(String, String)> = match names_of(arg, command) {
        Some(kind) => names(kind).into_iter().map(|name| (name, String::new())).collect(),
        None => {
            let possible = arg.get_possible_values();
            possible.iter().map(|value| (value.get_name().to_owned(), help(value.get_help()))).collect()
        }
    };
    // Of `jsonpath=TEMPLATE`, the template is the user's.
    let until_template = |(word, help): (String, String)| match word.split_once('=') {
        Some((format, _)) => (format!("{format}="), help),
        None => (word, help),
    };
    let matching = all.into_iter().map(until_template).filter(|(word, _)| word.starts_with(typed));
    let words: Vec<_> = matching.map(|(word, help)| (format!("{prefix}{listed}{word}"), help)).collect();
    let needs_more = matches!(words.as_slice(), [(word, _)] if word.ends_with('='));
    Candidates { words, directive: if needs_more { NO_FILES | NO_SPACE } else { NO_FILES } }
}

/// By the name of the value in the help.
fn names_of(arg: &Arg, command: &Command) -> Option<Names> {
    let name = arg.get_value_names()?.first()?.as_str();
    Some(match (name, arg.get_long()) {
        // CAPO's pools have another kind.
        ("POOL", _) if command.get_name() != "migrate" => Names::Pools,
        ("CLAIM", _) => Names::Claims,
        ("ADDRESS", _) => Names::Addresses,
        ("NAMESPACE", _) => Names::Namespaces,
        ("CONTEXT", _) => Names::Contexts,
        ("CLUSTER", _) => Names::Clusters,
        ("USER", Some("user")) => Names::Users,
        _ => return None,
    })
}

/// Nothing if they cannot be listed soon: a completion has no place for errors.
fn list_names(names: Names, words: &[String]) -> BTreeSet<String> {
    let Some(global) = typed_flags(words) else { return BTreeSet::new() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let listed = runtime
        .map(|runtime| runtime.block_on(async { tokio::time::timeout(TIMEOUT, read_names(names, &global)).await }));
    listed.ok().and_then(Result::ok).and_then(Result::ok).unwrap_or_default()
}

/// The global flags before the last word, as far as they can be read.
fn typed_flags(words: &[String]) -> Option<Global> {
    let before = words.split_last().map_or(&[][..], |(_, before)| before);
    let line = std::iter::once("kubectl-fippool").chain(before.iter().map(String::as_str));
    let matches = Cli::command().ignore_errors(true).try_get_matches_from(line).ok()?;
    Global::from_arg_matches(&matches).ok()
}

async fn read_names(names: Names, global: &Global) -> Result<BTreeSet<String>, Failure> {
    if matches!(names, Names::Contexts | Names::Clusters | Names::Users) {
        let config = kubeconfig::read_kubeconfig(global)?;
        return Ok(match names {
            Names::Contexts => config.contexts.into_iter().map(|context| context.name).collect(),
            Names::Clusters => config.clusters.into_iter().map(|cluster| cluster.name).collect(),
            _ => config.auth_infos.into_iter().map(|user| user.name).collect(),
        });
    }
    let session = PluginSession::open(global).await?;
    list_objects(names, &session).await.map_err(|error| Failure::kubernetes("list names", &error))
}

async fn list_objects(names: Names, session: &PluginSession) -> Result<BTreeSet<String>, kube::Error> {
    let all = ListParams::default();
    let scoped = || (session.client.clone(), session.namespace.as_str());
    Ok(match names {
        Names::Namespaces => {
            let namespaces: Api<Namespace> = Api::all(session.client.clone());
            namespaces.list_metadata(&all).await?.iter().map(ResourceExt::name_any).collect()
        }
        Names::Claims => {
            let version = crate::api::IpamVersion::discover(&session.client).await?.unwrap_or_default();
            let claims = session.ipam_objects::<IpAddressClaim>(version).list(&all).await?.items.into_iter();
            let ours = claims.filter_map(|claim| claim.0.ok()).filter(|claim| claim.spec.pool_ref.is_ours());
            ours.map(|claim| claim.name_any()).collect()
        }
        Names::Addresses => {
            let version = crate::api::IpamVersion::discover(&session.client).await?.unwrap_or_default();
            let addresses = session.ipam_objects::<IpAddress>(version).list(&all).await?.items.into_iter();
            addresses.filter_map(|address| address.0.ok()).map(|address| address.spec.address).collect()
        }
        _ => {
            let (client, namespace) = scoped();
            let pools: Api<OpenStackFloatingIPPool> =
                if session.is_all { Api::all(client) } else { Api::namespaced(client, namespace) };
            pools.list_metadata(&all).await?.iter().map(ResourceExt::name_any).collect()
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completed(line: &str) -> (Vec<String>, u8) {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let names = |names: Names| match names {
            Names::Pools => ["edge", "public"].map(str::to_owned).into(),
            other => [format!("{other:?}")].into(),
        };
        let Candidates { words, directive } = complete(&words, names);
        (words.into_iter().map(|(word, _)| word).collect(), directive)
    }

    #[test]
    fn commands_flags_values_and_names_are_completed() {
        for (line, expected) in [
            ("us", vec!["usage"]),
            ("orphans rel", vec!["release"]),
            ("usage ", vec!["edge", "public"]),
            ("usage pub", vec!["public"]),
            ("usage edge p", vec!["public"]),
            ("-n team usage p", vec!["public"]),
            ("usage -n ", vec!["Namespaces"]),
            ("usage --namespace=N", vec!["--namespace=Namespaces"]),
            ("check --controller-namespace ", vec!["Namespaces"]),
            ("list --request-t", vec!["--request-timeout"]),
            ("list --state Al", vec!["Allocated"]),
            ("list --state Allocated,L", vec!["Allocated,Listed"]),
            ("list -o c", vec!["cidr", "csv"]),
            ("explain ", vec!["Claims"]),
            ("explain a ", vec![]),
            ("who-has ", vec!["Addresses"]),
            ("usage --context ", vec!["Contexts"]),
            ("usage --cluster ", vec!["Clusters"]),
            ("usage --user ", vec!["Users"]),
            ("usage --as ", vec![]),
            ("migrate ", vec![]),
            ("completion b", vec!["bash"]),
            ("no-such-command ", completed("").0.iter().map(String::as_str).collect()),
        ] {
            let (words, directive) = completed(line);
            assert_eq!(
                (words.iter().map(String::as_str).collect::<Vec<_>>(), directive),
                (expected, NO_FILES),
                "{line}"
            );
        }
    }

    #[test]
    fn files_are_left_to_the_shell_and_a_template_to_the_user() {
        assert_eq!(completed("orphans --report "), (vec![], FILES));
        assert_eq!(completed("list -o jsonp"), (vec!["jsonpath=".to_owned()], NO_FILES | NO_SPACE));
    }

    #[test]
    fn a_value_of_its_own_is_only_behind_an_equals_sign() {
        assert_eq!(completed("check --wait p").0, ["public"]);
    }

    #[test]
    fn names_are_looked_for_where_the_line_says() {
        let words: Vec<String> = "usage -n team --context there p".split(' ').map(str::to_owned).collect();
        let global = typed_flags(&words).unwrap();
        assert_eq!((global.namespace.as_deref(), global.context.as_deref()), (Some("team"), Some("there")));
        assert_eq!(typed_flags(&["usa".into()]).map(|global| global.namespace), Some(None));
    }

    #[test]
    fn the_answer_is_what_kubectl_reads() {
        let text = answer(["us"].map(OsString::from).into_iter());
        assert_eq!(text, "usage\tShow how full the pools are\n:4\n");
    }
}
