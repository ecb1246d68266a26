//! Every message and reason that users can meet is in docs/troubleshooting.md; every line of the log in docs/logs.md.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::markdown::Page;
use super::source::{Kind, Text, texts};
use super::{files, one_line, root};

/// What no user meets, and why.
const UNSEEN: [(&str, &str); 4] = [
    ("metrics", "the help of the metrics, which are in docs/monitoring.md"),
    ("api/pool_schema.rs", "the messages of the CRD's rules, which are read from the CRD"),
    ("api/reservation.rs", "the same"),
    ("allocation/mark.rs", "writes marks, not messages"),
];

/// Single texts that no user meets, and why they are there.
const INTERNAL: [&str; 6] = [
    // An argument of `expect` by another name, a part of Neutron's own message, an error's text of a library, a span.
    "every field that the request needs is given",
    "external network",
    "dns error",
    "openstack call",
    "reconciling object",
    // The type of the metrics' page.
    "application/openmetrics-text; version=1.0.0; charset=utf-8",
];

#[test]
fn every_message_is_on_the_page_for_troubles() {
    let spans = spans("docs/troubleshooting.md");
    let texts = sources().into_iter().flat_map(|path| texts(&path, Kind::Messages));
    let texts: BTreeSet<Text> = texts.filter(|text| !INTERNAL.contains(&text.text.as_str())).collect();
    assert!(texts.len() > 150, "the messages are found: {}", texts.len());
    let missing: Vec<_> = texts.iter().filter(|text| !is_said(&spans, &text.text)).collect();
    let lines: Vec<_> = missing.iter().map(|Text { file, text }| format!("{file}: {}", gist(text))).collect();
    assert!(missing.is_empty(), "not as code on docs/troubleshooting.md:\n{}", lines.join("\n"));
}

#[test]
fn every_rule_of_the_crd_is_on_the_page_for_troubles() {
    let path = root().join("crds/ipam.cluster.x-k8s.io_openstackfloatingippools.yaml");
    let crd = std::fs::read_to_string(path).expect("the CRD is there");
    let crd: Value = serde_saphyr::from_str(&crd).expect("the CRD is YAML");
    let mut rules = BTreeSet::new();
    messages_of(&crd["spec"]["versions"][0]["schema"], &mut rules);
    assert!(rules.len() > 15, "the rules are found: {}", rules.len());
    let spans = spans("docs/troubleshooting.md");
    let missing: Vec<_> = rules.iter().filter(|rule| !is_said(&spans, rule)).collect();
    assert!(missing.is_empty(), "not as code on docs/troubleshooting.md: {missing:#?}");
}

#[test]
fn every_reason_is_on_the_page_for_troubles() {
    // Of conditions and events, and of the addresses in `status.failed`.
    let files = ["src/api/conditions.rs", "src/allocation/usage.rs"];
    let reasons = files.iter().flat_map(|file| texts(&root().join(file), Kind::Messages)).map(|text| text.text);
    let is_reason = |text: &String| {
        text.starts_with(|c: char| c.is_ascii_uppercase()) && text.chars().all(|c| c.is_ascii_alphanumeric())
    };
    // The severities of Cluster API's older conditions.
    let reasons: BTreeSet<String> =
        reasons.filter(is_reason).filter(|text| text != "Error" && text != "Info").collect();
    assert!(reasons.len() > 42, "the reasons are found: {reasons:?}");
    let page = Page::read(root(), Path::new("docs/troubleshooting.md"));
    let known = page.code_spans();
    let known: BTreeSet<&str> = known.iter().flat_map(|span| span.split(|c: char| !c.is_alphanumeric())).collect();
    let missing: Vec<_> = reasons.iter().filter(|reason| !known.contains(reason.as_str())).collect();
    assert!(missing.is_empty(), "not as code on docs/troubleshooting.md: {missing:?}");
}

#[test]
fn every_line_of_the_log_that_tells_of_a_change_is_on_the_page_for_logs() {
    let spans = spans("docs/logs.md");
    let texts: BTreeSet<Text> = sources().into_iter().flat_map(|path| texts(&path, Kind::Info)).collect();
    assert!(texts.len() > 10, "the lines are found: {}", texts.len());
    let is_said = |text: &&Text| spans.iter().any(|span| *span == text.text || span.contains(&gist(&text.text)));
    let missing: Vec<_> = texts.iter().filter(|text| !is_said(text)).collect();
    assert!(missing.is_empty(), "not as code on docs/logs.md: {missing:#?}");
}

/// The rooms of the controller.
fn sources() -> Vec<PathBuf> {
    let src = root().join("src");
    let rooms = ["allocation", "api", "controllers", "openstack", "runtime"];
    let mut all: Vec<PathBuf> = rooms.iter().flat_map(|room| files(&src.join(room), "rs")).collect();
    all.extend(rooms.iter().map(|room| src.join(room).with_extension("rs")));
    all.push(src.join("main.rs"));
    let is_seen = |path: &PathBuf| {
        let name = path.strip_prefix(&src).unwrap_or(path).to_string_lossy().into_owned();
        !name.ends_with("tests.rs")
            && !name.ends_with("fuzzing.rs")
            && !UNSEEN.iter().any(|(unseen, _)| name.starts_with(unseen))
    };
    all.retain(is_seen);
    all
}

/// All that is code on a page, each on one line.
fn spans(path: &str) -> Vec<String> {
    Page::read(root(), Path::new(path)).code_spans().iter().map(|span| one_line(span)).collect()
}

/// Whether what a message says first is there; the rest is what to do, which the page says in its own words.
fn is_said(spans: &[String], text: &str) -> bool {
    let gist = gist(text);
    gist.split_whitespace().count() < 2 || spans.iter().any(|span| span.contains(&gist))
}

/// The longest part of a message's first clause that is always the same.
fn gist(text: &str) -> String {
    let text = one_line(text);
    let clauses = text.split(": ").flat_map(|part| part.split("; ")).flat_map(|part| part.split(". "));
    let gists = clauses.map(|clause| {
        let parts = clause.split('{').flat_map(|part| part.rsplit('}'));
        let parts = parts.map(|part| part.trim_matches([' ', '(', ')', ',', '.', ':', ';', '=']));
        parts.max_by_key(|part| part.len()).unwrap_or_default().to_owned()
    });
    gists.into_iter().find(|gist| gist.split_whitespace().count() > 1).unwrap_or_default()
}

fn messages_of(schema: &Value, found: &mut BTreeSet<String>) {
    for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
        found.extend(rule["message"].as_str().map(str::to_owned));
    }
    match schema {
        Value::Object(fields) => fields.values().for_each(|field| messages_of(field, found)),
        Value::Array(items) => items.iter().for_each(|item| messages_of(item, found)),
        _ => {}
    }
}
