//! What is wrong with credentials as they are written, in words for a user's condition.
//!
//! A message names the key or the field and says what to do. It never holds a value from the Secret but names that a
//! user must be able to see: keys, cloud names, kinds of authentication.

/// Why credentials cannot be used as they are written.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CredentialsError {
    /// The Secret lacks a key.
    #[error("the Secret has no key {key} ({}): add it", has(.present))]
    MissingKey {
        /// The key that must be there.
        key: &'static str,
        /// The keys that are.
        present: Vec<String>,
    },
    /// A key of the Secret is not text.
    #[error("key {key} of the Secret is not UTF-8 text: store the file as it is, encoded in base64 once")]
    NotText {
        /// Which key.
        key: &'static str,
    },
    /// Not YAML, or not of the shape of a `clouds.yaml`.
    #[error("clouds.yaml cannot be read{}: {problem}", at(.place))]
    Malformed {
        /// Line and column, both from 1.
        place: Option<(u64, u64)>,
        /// What is wrong, without quoting the file.
        problem: &'static str,
    },
    /// No such cloud in `clouds.yaml`.
    #[error("clouds.yaml has no cloud named {name:?} ({}): set identityRef.cloudName", has(.known))]
    NoSuchCloud {
        /// What was asked for.
        name: String,
        /// What is there.
        known: Vec<String>,
    },
    /// A field that must be there is not.
    #[error("{field} is missing in clouds.yaml: {remedy}")]
    MissingField {
        /// Its path in the cloud's entry, such as `auth.auth_url`.
        field: &'static str,
        /// What to do.
        remedy: &'static str,
    },
    /// A field that cannot be used.
    #[error("{field} in clouds.yaml cannot be used: {problem}")]
    BadField {
        /// Its path in the cloud's entry.
        field: &'static str,
        /// What is wrong and what to do, without the value.
        problem: &'static str,
    },
    /// A kind of authentication that we do not have.
    #[error(
        "auth_type {auth_type:?} in clouds.yaml is not supported: use v3password, v3applicationcredential or v3token"
    )]
    UnknownAuthType {
        /// What is written there.
        auth_type: String,
    },
    /// Something that points at a file, which a Secret cannot bring along.
    #[error("{field} in clouds.yaml points outside the Secret, which is not allowed: {remedy}")]
    OutsideTheSecret {
        /// The field.
        field: &'static str,
        /// What to do instead.
        remedy: &'static str,
    },
    /// Key `cacert` holds no usable certificate.
    #[error("key cacert of the Secret {problem}: store the CA certificates there as PEM")]
    BadCaCert {
        /// What is wrong.
        problem: &'static str,
    },
}

fn at(place: &Option<(u64, u64)>) -> String {
    place.map(|(line, column)| format!(" (line {line}, column {column})")).unwrap_or_default()
}

fn has(names: &[String]) -> String {
    match names {
        [] => "it has none".to_owned(),
        // Enough to find a slip of the pen, without filling a condition with a file of a hundred clouds.
        names => {
            format!("it has {}{}", names[..names.len().min(8)].join(", "), if names.len() > 8 { ", …" } else { "" })
        }
    }
}
