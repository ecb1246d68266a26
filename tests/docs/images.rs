//! The build, the chart and the documents name the image by the same tag: otherwise an image that was pushed as one page
//! says cannot be pulled as another one does.

use std::process::Command;

use serde_json::Value;

use super::{files, root};

/// What a reference to the image begins with.
const NAME: &str = "caip-openstack:";

/// The tag that `hack/image` gives to what it builds.
fn tag_of_the_build() -> String {
    let output = Command::new("bash")
        .args(["-c", ". hack/image/lib.sh && echo \"$TAG\""])
        .current_dir(root())
        .envs([("CAIP_OPENSTACK_COMMIT", "0000000"), ("SOURCE_DATE_EPOCH", "0")])
        .output()
        .expect("bash is there");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// The tags that a text gives to the image.
fn tags(text: &str) -> impl Iterator<Item = &str> {
    let is_of_a_tag = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let rests = text.match_indices(NAME).map(|(at, _)| &text[at + NAME.len()..]);
    let tags = rests.map(move |rest| &rest[..rest.find(|c| !is_of_a_tag(c)).unwrap_or(rest.len())]);
    // A colon that ends a word, as in `IMAGE is caip-openstack: ...`.
    tags.filter(|tag| !tag.is_empty()).map(|tag| tag.trim_end_matches('.'))
}

#[test]
fn image_has_the_same_tag_in_the_build_the_chart_and_the_documents() {
    let tag = tag_of_the_build();
    assert_eq!(tag, format!("v{}", env!("CARGO_PKG_VERSION")));
    let chart: Value =
        serde_saphyr::from_str(include_str!("../../config/chart/Chart.yaml")).expect("Chart.yaml is YAML");
    assert_eq!(chart["appVersion"], tag.as_str(), "the chart's default tag");

    // `vVERSION` is how a page writes the tag of any version; `dev` is replaced by hack/manifests.sh.
    let known = [tag.as_str(), "vVERSION", "tag", "dev"];
    let texts = [files(root(), "md"), files(&root().join("config"), "yaml")].concat();
    let mut count = 0;
    for path in texts {
        let text = std::fs::read_to_string(&path).expect("a file that is listed can be read");
        for other in tags(&text) {
            assert!(known.contains(&other), "{}: {NAME}{other}, expected one of {known:?}", path.display());
            count += 1;
        }
    }
    assert!(count > 5, "the references are found: {count}");
}
