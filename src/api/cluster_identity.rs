//! CAPO's `OpenStackClusterIdentity`: a Secret with credentials, and the namespaces that may use it. Only what decides
//! that is read.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use kube::core::{ApiResource, Selector, SelectorExt};
use serde::Deserialize;

use crate::object_name::is_name;

pub const CLUSTER_IDENTITY_KIND: &str = "OpenStackClusterIdentity";

/// Cluster-wide, in the version that CAPO serves since 0.14.
pub fn cluster_identities() -> ApiResource {
    let (group, version) = ("infrastructure.cluster.x-k8s.io", "v1alpha1");
    ApiResource {
        group: group.into(),
        version: version.into(),
        api_version: format!("{group}/{version}"),
        kind: CLUSTER_IDENTITY_KIND.into(),
        plural: "openstackclusteridentities".into(),
    }
}

#[derive(Deserialize, Clone, PartialEq, Debug)]
#[serde(rename_all = "camelCase")]
pub struct ClusterIdentitySpec {
    pub secret_ref: CredentialsSecretRef,
    /// None for all namespaces.
    #[serde(default)]
    pub namespace_selector: Option<LabelSelector>,
}

#[derive(Deserialize, Clone, PartialEq, Eq, Debug)]
pub struct CredentialsSecretRef {
    pub name: String,
    pub namespace: String,
}

/// Why a selector cannot be evaluated. It then matches nothing, as in CAPO.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SelectorError {
    #[error("{0:?} is not a label")]
    Key(String),
    #[error("the label {key} cannot have the value {value:?}")]
    Value { key: String, value: String },
    #[error("the operator {0:?} is not one of In, NotIn, Exists and DoesNotExist")]
    Operator(String),
    #[error("the operator {operator} of the label {key} needs {needs}")]
    Values { operator: String, key: String, needs: &'static str },
}

impl ClusterIdentitySpec {
    /// Whether a namespace with these labels may use it. An empty selector allows all, like none.
    pub fn allows(&self, labels: &BTreeMap<String, String>) -> Result<bool, SelectorError> {
        match &self.namespace_selector {
            None => Ok(true),
            Some(selector) => Ok(parse(selector)?.matches(labels)),
        }
    }
}

/// `kube` evaluates a selector, and takes more than Kubernetes' own library does: `NotIn` without values, for example,
/// would match every namespace.
fn parse(selector: &LabelSelector) -> Result<Selector, SelectorError> {
    for (key, value) in selector.match_labels.iter().flatten() {
        check_key(key)?;
        check_value(key, value)?;
    }
    for requirement in selector.match_expressions.iter().flatten() {
        check(requirement)?;
    }
    let operator = |_| SelectorError::Operator(String::new());
    Selector::try_from(selector.clone()).map_err(operator)
}

fn check(requirement: &LabelSelectorRequirement) -> Result<(), SelectorError> {
    let LabelSelectorRequirement { key, operator, values } = requirement;
    check_key(key)?;
    let values = values.as_deref().unwrap_or_default();
    let fails = |needs| Err(SelectorError::Values { operator: operator.clone(), key: key.clone(), needs });
    match operator.as_str() {
        "In" | "NotIn" if values.is_empty() => fails("values"),
        "In" | "NotIn" => values.iter().try_for_each(|value| check_value(key, value)),
        "Exists" | "DoesNotExist" if values.is_empty() => Ok(()),
        "Exists" | "DoesNotExist" => fails("no values"),
        other => Err(SelectorError::Operator(other.into())),
    }
}

fn check_key(key: &str) -> Result<(), SelectorError> {
    let (is_prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (is_name(prefix), name),
        None => (true, key),
    };
    if is_prefix && !name.is_empty() && is_label_text(name) { Ok(()) } else { Err(SelectorError::Key(key.into())) }
}

fn check_value(key: &str, value: &str) -> Result<(), SelectorError> {
    if is_label_text(value) {
        return Ok(());
    }
    Err(SelectorError::Value { key: key.into(), value: value.into() })
}

/// A label's value, which may be empty, or the name in its key.
fn is_label_text(text: &str) -> bool {
    let is_end = |end: Option<char>| end.is_none_or(|end| end.is_ascii_alphanumeric());
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    text.len() <= 63 && is_end(text.chars().next()) && is_end(text.chars().next_back()) && text.bytes().all(is_allowed)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn allows(selector: Value, labels: &[(&str, &str)]) -> Result<bool, SelectorError> {
        let spec = json!({"secretRef": {"name": "cloud", "namespace": "capo-system"}, "namespaceSelector": selector});
        let spec: ClusterIdentitySpec = serde_json::from_value(spec).expect("it is as CAPO's schema says");
        spec.allows(&labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect())
    }

    fn expression(operator: &str, values: &[&str]) -> Value {
        json!({"matchExpressions": [{"key": "team", "operator": operator, "values": values}]})
    }

    #[test]
    fn no_selector_and_an_empty_one_allow_every_namespace() {
        for selector in [json!(null), json!({}), json!({"matchLabels": {}, "matchExpressions": []})] {
            assert_eq!(allows(selector.clone(), &[]), Ok(true), "{selector}");
            assert_eq!(allows(selector.clone(), &[("team", "a")]), Ok(true), "{selector}");
        }
        let spec = json!({"secretRef": {"name": "cloud", "namespace": "capo-system"}});
        let spec: ClusterIdentitySpec = serde_json::from_value(spec).expect("it is as CAPO's schema says");
        assert_eq!(spec.allows(&BTreeMap::new()), Ok(true));
    }

    /// What `metav1.LabelSelectorAsSelector`, which CAPO asks, says of the same selectors.
    #[test]
    fn a_selector_matches_as_in_kubernetes() {
        let labels = json!({"matchLabels": {"team": "a", "env": "prod"}});
        assert_eq!(allows(labels.clone(), &[("team", "a"), ("env", "prod"), ("more", "")]), Ok(true));
        assert_eq!(allows(labels.clone(), &[("team", "a")]), Ok(false));
        assert_eq!(allows(labels, &[("team", "a"), ("env", "Prod")]), Ok(false));
        for (operator, values, on_a, on_c, without) in [
            ("In", &["a", "b"][..], true, false, false),
            ("NotIn", &["a", "b"], false, true, true),
            ("Exists", &[], true, true, false),
            ("DoesNotExist", &[], false, false, true),
        ] {
            let selector = expression(operator, values);
            assert_eq!(allows(selector.clone(), &[("team", "a")]), Ok(on_a), "{operator}");
            assert_eq!(allows(selector.clone(), &[("team", "c")]), Ok(on_c), "{operator}");
            assert_eq!(allows(selector, &[("other", "a")]), Ok(without), "{operator}");
        }
        let both = json!({
            "matchLabels": {"env": "prod"}, "matchExpressions": [{"key": "team", "operator": "Exists"}]
        });
        assert_eq!(allows(both.clone(), &[("env", "prod"), ("team", "x")]), Ok(true));
        assert_eq!(allows(both, &[("env", "prod")]), Ok(false));
    }

    #[test]
    fn a_selector_that_kubernetes_refuses_allows_nothing() {
        for selector in [
            expression("In", &[]),
            expression("NotIn", &[]),
            expression("Exists", &["a"]),
            expression("DoesNotExist", &["a"]),
            expression("notin", &["a"]),
            expression("NotIn", &["not a value"]),
            json!({"matchExpressions": [{"key": "", "operator": "DoesNotExist"}]}),
            json!({"matchExpressions": [{"key": "a/b/c", "operator": "DoesNotExist"}]}),
            json!({"matchLabels": {"-team": "a"}}),
            json!({"matchLabels": {"team": "a".repeat(64)}}),
        ] {
            assert!(allows(selector.clone(), &[("team", "a")]).is_err(), "{selector}");
        }
        let prefixed = json!({"matchLabels": {"kubernetes.io/metadata.name": "team-a"}});
        assert_eq!(allows(prefixed, &[("kubernetes.io/metadata.name", "team-a")]), Ok(true));
    }

    #[test]
    fn what_is_wrong_with_a_selector_is_named() {
        let message = |selector| allows(selector, &[]).expect_err("it is not valid").to_string();
        assert_eq!(message(expression("NotIn", &[])), "the operator NotIn of the label team needs values");
        assert!(message(expression("Equals", &["a"])).starts_with("the operator \"Equals\" is not one of"));
    }
}
