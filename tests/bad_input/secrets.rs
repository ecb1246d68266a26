//! Passwords, secrets and tokens that scenarios use, and checks that they are not shown.

use std::collections::BTreeSet;
use std::sync::Mutex;

use crate::support::{Kind, Namespace, controller, unique};

// A plain mutex: held to add or copy, never across an await.
static KNOWN: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// A unique password, so that it is found wherever it is shown.
pub(super) fn new_password() -> String {
    remember(&unique("password"))
}

/// Remembers a secret that must not be shown.
pub(super) fn remember(secret: &str) -> String {
    assert!(secret.len() >= 8, "too short to be found by chance alone");
    KNOWN.lock().expect("no code panics while it holds the list").insert(secret.to_owned());
    secret.to_owned()
}

/// Fails when a text has one of the secrets.
pub(super) fn assert_not_in(what: &str, text: &str) {
    let known = KNOWN.lock().expect("no code panics while it holds the list").clone();
    for secret in known {
        if let Some(line) = text.lines().find(|line| line.contains(&secret)) {
            panic!("{what} shows a secret: {line}");
        }
    }
}

/// Fails when the shared controller's log, or an object of the namespace that is no Secret, has one of the secrets.
pub(super) async fn assert_not_shown(ns: &Namespace) {
    assert_not_in("the log", &controller().log());
    for kind in [Kind::Pool, Kind::Claim, Kind::Address, Kind::Event] {
        for object in ns.list(kind).await {
            let text = serde_json::to_string(&object).expect("an object is JSON");
            assert_not_in(&format!("{kind:?}"), &text);
        }
    }
}
