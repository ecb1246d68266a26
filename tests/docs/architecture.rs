//! What docs/architecture.md names exists in the sources, and the documents list every origin of an address.

use caip_openstack::allocation::origin::Origin;

use super::{files, root};

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).expect("a document is text")
}

/// The texts in backticks.
fn code(text: &str) -> Vec<&str> {
    text.lines().flat_map(|line| line.split('`').skip(1).step_by(2)).collect()
}

fn is_identifier(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|char| char.is_ascii_alphanumeric() || char == '_')
}

#[test]
fn every_file_and_name_in_the_architecture_exists() {
    let text = read("docs/architecture.md");
    let sources: Vec<_> = ["src", "tests"].iter().flat_map(|folder| files(&root().join(folder), "rs")).collect();
    let contents: Vec<String> = sources.iter().map(|path| std::fs::read_to_string(path).expect("it is text")).collect();
    let words: std::collections::BTreeSet<&str> = contents
        .iter()
        .flat_map(|text| text.split(|char: char| !char.is_ascii_alphanumeric() && char != '_'))
        .collect();
    let mut checked = 0;
    for span in code(&text) {
        let exists = match span.rsplit("::").next().unwrap_or(span) {
            _ if span.ends_with(".rs") => sources.iter().any(|path| path.ends_with(span)),
            _ if span.contains('/') && !span.contains(' ') => root().join(span).exists(),
            name if is_identifier(name) => words.contains(name),
            _ => continue,
        };
        assert!(exists, "docs/architecture.md names `{span}`, which does not exist");
        checked += 1;
    }
    assert!(checked > 100, "only {checked} names were found");
}

#[test]
fn every_origin_of_an_address_is_documented() {
    for page in ["docs/pool.md", "docs/monitoring.md"] {
        let text = read(page);
        let words = code(&text);
        for origin in Origin::ALL {
            assert!(words.contains(&origin.as_str()), "{page} does not name the origin `{}`", origin.as_str());
        }
    }
}
