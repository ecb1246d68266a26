//! docs/failure-modes.md names only tests that exist.

use std::fs;
use std::path::Path;

const DOCUMENT: &str = include_str!("../docs/failure-modes.md");

#[test]
fn every_test_named_in_the_table_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut source = String::new();
    read(&root.join("src"), &mut source);
    read(&root.join("tests"), &mut source);
    // Long words with underscores are names of tests; the rest are fields, reasons and messages.
    let is_name = |text: &&str| {
        text.len() > 24 && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
    };
    let names: Vec<&str> = DOCUMENT.split('`').skip(1).step_by(2).filter(is_name).collect();
    assert!(names.len() > 60, "the names are found: {}", names.len());
    let missing: Vec<_> = names.iter().filter(|name| !source.contains(&format!("fn {name}("))).collect();
    assert!(missing.is_empty(), "there is no test {missing:?}");
    for number in 1..=27 {
        assert!(DOCUMENT.contains(&format!("\n| F{number} |")), "F{number} is missing");
    }
}

fn read(directory: &Path, source: &mut String) {
    for entry in fs::read_dir(directory).expect("it can be listed") {
        let path = entry.expect("it can be listed").path();
        if path.is_dir() {
            read(&path, source);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            source.push_str(&fs::read_to_string(&path).expect("it can be read"));
        }
    }
}
