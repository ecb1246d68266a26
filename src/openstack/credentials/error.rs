//! Errors in credentials, for the condition of a pool.
//!
//! A message names the key or field and what to do. It quotes no values of the Secret except keys, cloud names and the
//! authentication type.

use super::cloud::NAMED;

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CredentialsError {
    #[error("the Secret has no key {key} ({}): add it", list(.present))]
    MissingKey { key: &'static str, present: Vec<String> },
    #[error("key {key} of the Secret has {size} bytes, and {max} are allowed: leave only what the pools need")]
    TooLarge { key: &'static str, size: usize, max: usize },
    #[error("key {key} of the Secret is not UTF-8 text: store the file as it is, encoded in base64 once")]
    NotText { key: &'static str },
    #[error("clouds.yaml cannot be read{}: {problem}", location(.place))]
    Malformed {
        /// Line and column, both starting at 1.
        place: Option<(u64, u64)>,
        problem: &'static str,
    },
    #[error("clouds.yaml has no cloud named {name:?} ({}): set identityRef.cloudName", list(.known))]
    NoSuchCloud { name: String, known: Vec<String> },
    #[error("{field} is missing in clouds.yaml: {remedy}")]
    MissingField {
        /// A path such as `auth.auth_url`.
        field: &'static str,
        remedy: &'static str,
    },
    #[error("{field} in clouds.yaml cannot be used: {problem}")]
    BadField { field: &'static str, problem: &'static str },
    #[error(
        "auth_type {auth_type:?} in clouds.yaml is not supported: use v3password, v3applicationcredential or v3token"
    )]
    UnknownAuthType { auth_type: String },
    /// A file or a profile, which a Secret cannot contain.
    #[error("{field} in clouds.yaml points outside the Secret, which is not allowed: {remedy}")]
    ExternalReference { field: &'static str, remedy: &'static str },
    #[error("key cacert of the Secret {problem}: store the CA certificates there as PEM")]
    BadCaCert { problem: &'static str },
}

fn location(place: &Option<(u64, u64)>) -> String {
    place.map(|(line, column)| format!(" (line {line}, column {column})")).unwrap_or_default()
}

fn list(names: &[String]) -> String {
    match names {
        [] => "it has none".to_owned(),
        // Enough to find a typing error; a file may have hundreds of clouds.
        names => {
            let first = names.get(..NAMED).unwrap_or(names);
            format!("it has {}{}", first.join(", "), if names.len() > NAMED { ", …" } else { "" })
        }
    }
}
