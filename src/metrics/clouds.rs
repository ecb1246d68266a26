//! The label `cloud`: which cloud a call or an allocation concerned, so that a slow or failing one does not hide behind the
//! others. Every tenant can name clouds in its Secrets, so the number of values is bounded.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::labels::foreign_label;
use crate::openstack::CloudName;

/// How many clouds have a label value of their own. Each has about 230 series, so that a scrape stays below 1 MB.
const MAX_CLOUDS: usize = 32;
/// How many of them the pools of one namespace may have been the first to use, so that one tenant cannot take them all.
const MAX_CLOUDS_OF_NAMESPACE: usize = 8;
/// The value for all further clouds. It cannot be the name of a cloud, which has a port.
const OTHER: &str = "other";

/// A value of the label.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CloudLabel(Arc<str>);

impl CloudLabel {
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    fn of(cloud: &CloudName) -> Self {
        Self(foreign_label(cloud.as_str()).into())
    }

    fn other() -> Self {
        Self(OTHER.into())
    }
}

/// The values in use, each with the namespace whose pools were the first to use it. They are kept until the process ends,
/// as counters are.
#[derive(Clone, Default, Debug)]
pub(super) struct CloudLabels(Arc<Mutex<BTreeMap<CloudLabel, String>>>);

impl CloudLabels {
    /// The label of a cloud that pools of the namespace use, and whether it is new: then its series start at 0.
    pub(super) fn admit(&self, namespace: &str, cloud: &CloudName) -> (CloudLabel, bool) {
        let (mut known, label) = (self.0.lock(), CloudLabel::of(cloud));
        if known.contains_key(&label) {
            return (label, false);
        }
        let own = known.iter().filter(|(label, _)| label.as_str() != OTHER);
        let of_namespace = own.clone().filter(|(_, first)| *first == namespace).count();
        let label = match own.count() < MAX_CLOUDS && of_namespace < MAX_CLOUDS_OF_NAMESPACE {
            true => label,
            false => CloudLabel::other(),
        };
        let is_new = known.insert(label.clone(), namespace.to_owned()).is_none();
        (label, is_new)
    }

    /// The label of a cloud that was admitted.
    pub(super) fn find(&self, cloud: &CloudName) -> CloudLabel {
        let label = CloudLabel::of(cloud);
        if self.0.lock().contains_key(&label) { label } else { CloudLabel::other() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(auth_url: &str, region: Option<&str>) -> CloudName {
        CloudName::new(&auth_url.parse().unwrap(), region)
    }

    fn cloud(number: usize) -> CloudName {
        named(&format!("https://keystone-{number}.example.com:5000"), None)
    }

    fn admitted(labels: &CloudLabels, namespace: &str, number: usize) -> String {
        labels.admit(namespace, &cloud(number)).0.as_str().to_owned()
    }

    #[test]
    fn a_cloud_is_named_by_its_keystone_and_its_region() {
        let label = |url, region| CloudLabel::of(&named(url, region)).as_str().to_owned();
        assert_eq!(label("https://Keystone.example.com/identity", None), "keystone.example.com:443");
        assert_eq!(label("http://keystone:5000/v3", Some("RegionOne")), "keystone:5000/RegionOne");
        let long = label("http://keystone:5000", Some(&format!("a\n\u{1b}{}", "b".repeat(1000))));
        assert!(long.starts_with(r"keystone:5000/a \u{1b}b") && long.chars().count() < 150, "{long}");
    }

    #[test]
    fn one_namespace_cannot_take_the_labels_of_all() {
        let labels = CloudLabels::default();
        let own: Vec<_> = (0..=MAX_CLOUDS_OF_NAMESPACE).map(|number| admitted(&labels, "loud", number)).collect();
        assert_eq!(own.last().map(String::as_str), Some(OTHER));
        assert!(!own.iter().rev().skip(1).any(|label| label == OTHER), "{own:?}");
        assert_eq!(admitted(&labels, "quiet", 0), "keystone-0.example.com:5000", "it is known already");
        assert_eq!(admitted(&labels, "quiet", 1000), "keystone-1000.example.com:5000");
    }

    #[test]
    fn the_number_of_labels_is_bounded() {
        let labels = CloudLabels::default();
        let all: Vec<_> = (0..100).map(|number| admitted(&labels, &format!("team-{number}"), number)).collect();
        assert_eq!(all.iter().filter(|label| *label != OTHER).count(), MAX_CLOUDS);
        assert_eq!(labels.0.lock().len(), MAX_CLOUDS + 1, "and the one for all others");
        assert_eq!(labels.find(&cloud(0)).as_str(), all[0]);
        assert_eq!(labels.find(&cloud(99)).as_str(), OTHER);
    }

    #[test]
    fn a_label_is_new_once() {
        let labels = CloudLabels::default();
        assert_eq!([0, 0].map(|number| labels.admit("team", &cloud(number)).1), [true, false]);
        let others =
            (0..100).map(|number| labels.admit("team", &cloud(number))).filter(|(label, _)| label.as_str() == OTHER);
        assert_eq!(others.filter(|(_, is_new)| *is_new).count(), 1);
    }
}
