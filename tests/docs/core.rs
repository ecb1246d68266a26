//! The allocation core imports nothing but plain types, and is synchronous.

use std::path::Path;

const ALLOWED: [&str; 13] = [
    "super",
    "std::cell::OnceCell",
    "std::collections",
    "std::fmt",
    "std::net::IpAddr",
    "std::sync::Arc",
    "ipnet",
    "jiff",
    "sha2",
    "crate::allocation",
    "crate::floating_ip",
    "crate::object_name",
    "crate::time",
];

fn check(folder: &Path) -> usize {
    let mut count = 0;
    for file in std::fs::read_dir(folder).expect("the sources are there").flatten() {
        let path = file.path();
        if path.is_dir() {
            count += check(&path);
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("a source is text");
        assert!(!text.contains(".await") && !text.contains("async fn"), "{} is not synchronous", path.display());
        for import in text.lines().filter_map(|line| line.strip_prefix("use ")) {
            let module =
                import.split("::").next().map(|module| path.with_extension("").join(module).with_extension("rs"));
            let is_allowed = ALLOWED.iter().any(|allowed| import.starts_with(allowed));
            assert!(is_allowed || module.is_some_and(|file| file.exists()), "{}: {import}", path.display());
            count += 1;
        }
    }
    count
}

#[test]
fn the_core_imports_nothing_but_plain_types() {
    let imports = check(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/allocation"));
    assert!(imports > 50, "only {imports} imports were found");
}
