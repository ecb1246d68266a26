//! Passwords, secrets and tokens that scenarios use, and the proof that nobody else gets to see them.

use std::collections::BTreeSet;
use std::sync::Mutex;

use crate::support::{Kind, Namespace, controller, unique};

// A plain mutex: held to add or copy, never across an await.
static KNOWN: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// A password that nobody else has, so that it is found wherever it is shown.
pub(super) fn password() -> String {
    keep(&unique("password"))
}

/// Remembers a secret.
pub(super) fn keep(secret: &str) -> String {
    assert!(secret.len() >= 8, "too short to be found by chance alone");
    KNOWN.lock().expect("no code panics while it holds the list").insert(secret.to_owned());
    secret.to_owned()
}

/// None of the secrets is in a text.
pub(super) fn are_not_in(what: &str, text: &str) {
    let known = KNOWN.lock().expect("no code panics while it holds the list").clone();
    for secret in known {
        if let Some(line) = text.lines().find(|line| line.contains(&secret)) {
            panic!("{what} shows a secret: {line}");
        }
    }
}

/// None of the secrets is in the shared controller's log, or in any object of the namespace but Secrets.
pub(super) async fn are_not_shown(ns: &Namespace) {
    are_not_in("the log", &controller().log());
    for kind in [Kind::Pool, Kind::Claim, Kind::Address, Kind::Event] {
        for object in ns.list(kind).await {
            let text = serde_json::to_string(&object).expect("an object is JSON");
            are_not_in(&format!("{kind:?}"), &text);
        }
    }
}
