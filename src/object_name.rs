//! The namespace and name of a Kubernetes object.

/// Identifies a namespaced object of a kind that the context tells.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ObjectName {
    pub namespace: String,
    pub name: String,
}

impl ObjectName {
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

impl std::fmt::Display for ObjectName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Whether an object can have this name: a DNS subdomain, as the API server demands of our kinds and of Secrets. A reference
/// in a spec can say anything, and the client would put it into a URL as it is.
pub fn is_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_label = |label: &str| {
        !label.is_empty() && !label.starts_with('-') && !label.ends_with('-') && label.bytes().all(is_allowed)
    };
    name.len() <= 253 && name.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::is_name;

    #[test]
    fn a_name_is_a_dns_subdomain() {
        for name in ["web", "web-0", "0.example.com", &"a".repeat(253)] {
            assert!(is_name(name), "{name}");
        }
        let bad = [
            "",
            ".",
            "a..b",
            "-a",
            "a-",
            "a.-b",
            "Web",
            "a/b",
            "../../other/secrets/cloud",
            "a?b",
            "a%2fb",
            "a b",
            "ä",
        ];
        for name in bad.into_iter().chain([&*"a".repeat(254)]) {
            assert!(!is_name(name), "{name}");
        }
    }
}
