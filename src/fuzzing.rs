//! The parsers of received data, for coverage-guided fuzzing (`make fuzz`): each function takes what others sent, and
//! panics if a law of the parser does not hold.
//!
//! An input of several parts has a line `===` between them.

#![expect(clippy::unwrap_used, reason = "a panic is a find")]

use std::net::IpAddr;
use std::sync::atomic::AtomicUsize;

use crate::allocation::mark::{Marks, Release, claim_in_description, claim_tag, release_tag};
use crate::allocation::{ClaimKey, PoolId};
use crate::api::IpAddress;
use crate::controllers::objects::read_published;
use crate::floating_ip::{FloatingIp, FloatingIpId, NetworkId, ProjectId};
use crate::openstack::fuzzing::assert_path_segment;
pub use crate::openstack::fuzzing::{clouds_yaml, floating_ips, hosts, networks, quota, refusal, token};
use crate::plugin::orphans::release::parse_report;
use crate::plugin::output::Report;
use crate::text::{on_terminal, one_line};

/// How many bytes are allocated, where the fuzzer's allocator counts them.
pub static ALLOCATED: AtomicUsize = AtomicUsize::new(0);

pub(crate) fn parts(data: &[u8]) -> impl Iterator<Item = &[u8]> {
    const SEPARATOR: &[u8] = b"\n===\n";
    let mut rest = Some(data);
    std::iter::from_fn(move || {
        let data = rest?;
        let end = data.windows(SEPARATOR.len()).position(|window| window == SEPARATOR);
        rest = end.map(|end| &data[end + SEPARATOR.len()..]);
        Some(&data[..end.unwrap_or(data.len())])
    })
}

pub(crate) fn text_parts(data: &[u8]) -> impl Iterator<Item = String> {
    parts(data).map(|part| String::from_utf8_lossy(part).into_owned())
}

/// Fit for a condition.
pub(crate) fn assert_one_line(text: &str, max: usize) {
    // One more for the sign that it was cut.
    assert!(text.chars().count() <= max + 1, "over {max} characters: {text:?}");
    assert!(!text.contains(obeyed_by_terminals), "not one line: {text:?}");
}

/// Controls, and what changes the direction of a text or cannot be seen.
fn obeyed_by_terminals(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{feff}')
        || matches!(character, '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
        || matches!(character, '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

fn floating_ip(description: String, tags: impl Iterator<Item = String>) -> FloatingIp {
    FloatingIp {
        id: FloatingIpId::new("f"),
        address: IpAddr::from([192, 0, 2, 1]),
        network: NetworkId::new("n"),
        project: ProjectId::new("p"),
        port: None,
        is_forwarded: false,
        description,
        tags: tags.collect(),
        dns_name: String::new(),
        changed_at: None,
        created_at: None,
    }
}

/// A description, and tags.
pub fn marks(data: &[u8]) {
    let mut parts = text_parts(data);
    let fip = floating_ip(parts.next().unwrap_or_default(), parts);
    let marks = Marks::read(&fip);
    let _ = claim_in_description(&fip.description);
    if let Some(mark) = &marks.created {
        for claim in [None, Some(("team", "web-0")), Some((&*"n".repeat(63), &*"m".repeat(253)))] {
            let text = mark.render(claim);
            assert!(text.len() <= 255, "{text}");
            let shown = claim_in_description(&text);
            assert!(claim.zip(shown).is_none_or(|(claim, shown)| claim.0 == shown.0 && claim.1.starts_with(shown.1)));
            assert_eq!(Marks::read(&floating_ip(text, [].into_iter())).created.as_ref(), Some(mark));
        }
    }
    for (pool, claim) in &marks.claims {
        assert!(fip.tags.contains(&claim_tag(pool, claim)));
    }
    for release in &marks.releases {
        let tag = release_tag(&release.owner.0, &release.owner.1, release.at);
        assert!(!release.is_tagged || fip.tags.contains(&tag));
        let again = Marks::read(&floating_ip(String::new(), [tag].into_iter()));
        assert_eq!(again.releases, [Release { is_tagged: true, ..release.clone() }]);
    }
    assert_eq!(marks.is_empty(), marks.pools().is_empty() && !marks.is_unreadable);
    assert!(marks.is_unreadable || !marks.is_newer);
    for pool in marks.pools().into_iter().chain(PoolId::parse("p").as_ref()) {
        let _ = marks.ownership(pool);
        assert!(marks.names(pool) || marks.claims_of(pool).is_empty());
    }
}

/// An IPAddress, in JSON.
pub fn published(data: &[u8]) {
    let Ok(object) = serde_json::from_slice::<IpAddress>(data) else { return };
    let Some(published) = read_published(&object) else { return };
    assert_eq!(object.spec.address.parse(), Ok(published.address));
    let Some(binding) = published.binding else { return };
    assert!(object.spec.pool_ref.is_ours());
    assert_eq!(object.metadata.name.as_ref(), Some(&object.spec.claim_ref.name));
    assert_eq!(PoolId::parse(binding.pool.as_str()).as_ref(), Some(&binding.pool));
    assert_eq!(ClaimKey::parse(binding.claim.as_str()).as_ref(), Some(&binding.claim));
    assert_path_segment(&binding.fip);
}

const CLUSTER: &str = "https://cluster.test:6443";

/// A file of `kubectl fippool orphans --report`.
pub fn report(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match parse_report(&text, CLUSTER) {
        Ok(report) => {
            let json = serde_json::to_string(&report).unwrap();
            assert_eq!(parse_report(&json, CLUSTER).as_ref(), Ok(&report));
            for is_wide in [false, true] {
                assert_for_terminals(&on_terminal(&report.text(is_wide)));
            }
        }
        Err(why) => assert_for_terminals(&on_terminal(&why)),
    }
}

/// What is shown on a terminal, or in a condition. The first byte is the limit.
pub fn text(data: &[u8]) {
    let (max, text) = data.split_first().map_or((0, data), |(max, text)| (usize::from(*max), text));
    let text = &*String::from_utf8_lossy(text);
    let line = one_line(text, max);
    assert_one_line(&line, max);
    assert_eq!(one_line(&line, max), line, "the second time changes nothing");
    assert_for_terminals(&on_terminal(text));
    assert_eq!(on_terminal(&on_terminal(text)), on_terminal(text));
    let is_plain = !text.contains(|character| character != '\n' && obeyed_by_terminals(character));
    assert!(!is_plain || on_terminal(text) == text, "a text without commands is not changed");
}

/// Has no commands but the styles that this program uses, which hide nothing.
fn assert_for_terminals(text: &str) {
    let styles = ["0", "1", "31", "32", "33", "36"].map(|style| format!("\u{1b}[{style}m"));
    let plain = styles.iter().fold(text.to_owned(), |text, style| text.replace(style, " "));
    assert!(!plain.contains(|character| character != '\n' && obeyed_by_terminals(character)), "{plain:?}");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With the name of its program and its seeds.
    type Target = (&'static str, fn(&[u8]));

    const TARGETS: [Target; 11] = [
        ("clouds_yaml", clouds_yaml),
        ("floating_ips", floating_ips),
        ("hosts", hosts),
        ("marks", marks),
        ("networks", networks),
        ("published", published),
        ("quota", quota),
        ("refusal", refusal),
        ("report", report),
        ("text", text),
        ("token", token),
    ];

    /// Without the fuzzer, only that the seeds are what they should be.
    #[test]
    fn every_target_accepts_its_seeds() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz");
        for (name, target) in TARGETS {
            let seeds = std::fs::read_dir(root.join("corpus").join(name)).unwrap();
            let mut count = 0;
            for seed in seeds {
                target(&std::fs::read(seed.unwrap().path()).unwrap());
                count += 1;
            }
            assert!(
                (2..=20).contains(&count),
                "{name} has {count} seeds: those that a fuzzer adds do not belong there"
            );
            assert!(root.join(format!("targets/{name}.rs")).exists(), "{name}");
        }
    }
}
