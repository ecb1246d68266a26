//! Errors as the API server answers them. The texts are not those of the real one; nothing reads them.

use serde_json::{Value, json};

use super::Key;

/// A refusal: code, reason (empty where the API server gives none) and message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    pub code: u16,
    pub reason: &'static str,
    pub message: String,
}

impl Refusal {
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into() }
    }

    pub fn missing(key: &Key) -> Self {
        Self::new(404, "NotFound", format!("{} \"{}\" not found", key.kind.names().2, key.name))
    }

    pub fn exists(key: &Key) -> Self {
        Self::new(409, "AlreadyExists", format!("{} \"{}\" already exists", key.kind.names().2, key.name))
    }

    pub fn conflict(key: &Key) -> Self {
        let message = format!("Operation cannot be fulfilled on {} \"{}\": changed", key.kind.names().2, key.name);
        Self::new(409, "Conflict", message)
    }

    pub fn invalid(key: &Key, why: &str) -> Self {
        Self::new(422, "Invalid", format!("{} \"{}\" is invalid: {why}", key.kind.names().3, key.name))
    }

    pub fn bad_request(why: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", why)
    }

    /// What a webhook refuses.
    pub fn denied(key: &Key, why: &str) -> Self {
        let webhook = format!("admission webhook for {} denied the request", key.kind.names().2);
        Self::new(403, "Forbidden", format!("{webhook}: {why}"))
    }

    /// The body of the answer.
    pub fn body(&self) -> Value {
        let mut body = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": self.message,
            "code": self.code,
        });
        if !self.reason.is_empty() {
            body["reason"] = self.reason.into();
        }
        body
    }
}
