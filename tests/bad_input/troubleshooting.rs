//! docs/troubleshooting.md has every reason and every message that the program has.

const DOCUMENT: &str = include_str!("../../docs/troubleshooting.md");

#[test]
fn every_reason_is_explained() {
    let source = include_str!("../../src/api/conditions.rs");
    let constants = source.lines().filter_map(|line| line.trim().strip_prefix("pub const "));
    let reasons: Vec<&str> = constants.filter_map(|line| line.split('"').nth(1)).collect();
    assert!(reasons.len() > 25, "the constants are found: {reasons:?}");
    let unexplained: Vec<_> = reasons.iter().filter(|reason| !DOCUMENT.contains(&format!("`{reason}"))).collect();
    assert!(unexplained.is_empty(), "not in docs/troubleshooting.md: {unexplained:?}");
}

#[test]
fn every_message_is_explained() {
    let sources = [
        include_str!("../../src/allocation/refusal.rs"),
        include_str!("../../src/allocation/usage.rs"),
        include_str!("../../src/allocation/claim.rs"),
        include_str!("../../src/openstack/credentials/error.rs"),
    ];
    let mut count = 0;
    for source in sources {
        for message in source.split("#[error(").skip(1).filter_map(|rest| rest.split('"').nth(1)) {
            // What is wrong stands before the colon, what to do after it; what is fixed stands around the braces.
            let wrong = message.rsplit_once(": ").map_or(message, |(wrong, _)| wrong);
            let parts = wrong.split(['{', '}']).map(|part| part.trim_matches([' ', ',', '(', ')']));
            let longest = parts.max_by_key(|part| part.len()).expect("a message has a part");
            assert!(DOCUMENT.contains(longest), "docs/troubleshooting.md does not have {longest:?}");
            count += 1;
        }
    }
    assert!(count >= 24, "the messages are found: {count}");
}
