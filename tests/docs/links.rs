//! Every link within the repository points to an existing file and heading.

use std::path::Path;

use super::markdown::Page;
use super::root;

#[test]
fn every_link_leads_somewhere() {
    let pages = Page::all(root());
    let mut dead = Vec::new();
    for page in &pages {
        for link in page.links().iter().filter(|link| !link.contains("://")) {
            if let Some(why) = is_dead(&pages, &page.path, link) {
                dead.push(format!("{}: {link}: {why}", page.path.display()));
            }
        }
    }
    assert!(dead.is_empty(), "links that lead nowhere:\n{}", dead.join("\n"));
    assert!(pages.len() > 15, "the pages are found");
}

fn is_dead(pages: &[Page], from: &Path, link: &str) -> Option<String> {
    let (path, anchor) = link.split_once('#').map_or((link, None), |(path, anchor)| (path, Some(anchor)));
    let mut target = from.to_owned();
    if !path.is_empty() {
        target.pop();
        for part in path.split('/').filter(|part| !matches!(*part, "" | ".")) {
            match part {
                ".." => assert!(target.pop(), "{link} leads out of the repository"),
                part => target.push(part),
            }
        }
    }
    if !root().join(&target).exists() {
        return Some("there is no such file".to_owned());
    }
    let anchor = anchor?;
    let page = pages.iter().find(|page| page.path == target);
    let anchors = page.map(Page::anchors).unwrap_or_default();
    (!anchors.iter().any(|known| known == anchor)).then(|| format!("it has only {anchors:?}"))
}

#[test]
fn lines_of_text_are_short_enough_for_a_terminal() {
    // A table has no other way to break a line, and an address none at all.
    let is_long = |line: &str| line.chars().count() > 120 && !line.starts_with('|') && !line.contains("://");
    let mut long = Vec::new();
    for page in Page::all(root()) {
        // What a program prints is shown as it is.
        let shown: Vec<_> = page.blocks().into_iter().filter(|block| block.language.as_deref() != Some("sh")).collect();
        let is_shown = |number: usize| {
            shown.iter().any(|block| (block.line..=block.line + block.code.lines().count()).contains(&number))
        };
        let lines = page.lines().filter(|(number, line)| is_long(line) && !is_shown(*number));
        long.extend(lines.map(|(number, _)| format!("{}:{number}", page.path.display())));
    }
    assert!(long.is_empty(), "longer than 120 characters: {long:?}");
}
