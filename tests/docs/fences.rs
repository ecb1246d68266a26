//! Every command block of every page is run by a test, or says why it is not.

use super::markdown::Page;
use super::pages::{NOT_RUN, RUN};
use super::root;

#[test]
fn every_command_block_is_run_or_says_why_not() {
    let mut silent = Vec::new();
    for page in Page::all(root()) {
        let path = page.path.to_string_lossy().into_owned();
        let is_run = RUN.contains(&path.as_str());
        let is_excused = NOT_RUN.iter().any(|(other, why)| *other == path && !why.is_empty());
        assert!(!(is_run && is_excused), "{path} is run, or it is not");
        for block in page.blocks() {
            let at = format!("{path}:{}", block.line);
            match (block.language.as_deref(), &block.not_run) {
                (None, _) => silent.push(format!("{at}: an indented block: fence it, and say what it is")),
                (Some(""), _) if block.code.lines().any(|line| line.trim_start().starts_with("$ ")) => {
                    silent.push(format!("{at}: commands in a block that is not `sh`"));
                }
                (Some("console"), _) if is_excused => {}
                (Some("bash" | "shell" | "console"), _) => silent.push(format!("{at}: call it `sh`")),
                (Some("sh"), Some(why)) if why.is_empty() => silent.push(format!("{at}: say why it is not run")),
                (Some("sh"), None) if !is_run && !is_excused => {
                    silent.push(format!(
                        "{at}: run the page (tests/docs/pages.rs), or write <!-- not run: why --> above"
                    ));
                }
                _ => {}
            }
        }
    }
    assert!(silent.is_empty(), "{}", silent.join("\n"));
}

#[test]
fn pages_of_the_lists_are_there() {
    for path in RUN.iter().chain(NOT_RUN.iter().map(|(path, _)| path)) {
        assert!(root().join(path).is_file(), "there is no {path}");
    }
}
