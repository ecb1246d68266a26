//! Laws 2 and 5 at the moment of publication: nothing is attached to an address that is handed out, and a claim that had
//! an address gets the same one.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use serde_json::Value;

use crate::api::{ApiServer, Key, Kind};
use crate::laws::{self, Violation};
use crate::witness::Witness;

pub struct PublicationWatcher {
    pub witness: Witness,
    pub users_interfered: Rc<Cell<bool>>,
    pub violations: Rc<RefCell<Vec<Violation>>>,
}

impl PublicationWatcher {
    /// Checks each IPAddress as it is created, until the server is gone.
    pub async fn watch(self, site: usize, server: ApiServer) {
        let mut news = server.news();
        // By the claim's uid.
        let mut given: BTreeMap<String, String> = BTreeMap::new();
        let mut seen = server.version();
        while news.changed().await.is_ok() {
            let state = server.state();
            let begin = state.changes.partition_point(|change| change.version <= seen);
            let changes: Vec<_> = state.changes[begin..].to_vec();
            seen = state.version;
            let claims = |key: &Key| state.objects.get(&Key { kind: Kind::Claim, ..key.clone() }).cloned();
            for change in changes.iter().filter(|change| change.key.kind == Kind::Address && change.how == "ADDED") {
                let claim = claims(&change.key);
                let uid = claim.map(|claim| laws::text(&claim, "/metadata/uid").to_owned()).unwrap_or_default();
                self.check(site, &uid, &change.object, &mut given);
            }
        }
    }

    fn check(&self, site: usize, claim: &str, object: &Value, given: &mut BTreeMap<String, String>) {
        let Some(binding) = laws::binding(&[], object, site) else { return };
        let address = binding.address.to_string();
        // Without its claim, which a user deleted by force, there is nothing to compare with.
        let before = given.insert(claim.to_owned(), address.clone()).filter(|_| !claim.is_empty());
        let mut violations = self.violations.borrow_mut();
        match before {
            Some(before) if before == address => return,
            Some(before) if !self.users_interfered.get() => {
                violations.push(Violation::new(5, &binding.object, format!("had {before}, and now has {address}")));
            }
            _ => {}
        }
        if self.witness.was_attached_before(&binding.fip, &binding.pool, &binding.claim) {
            let how = format!("given to {}, although something is attached to it", binding.object);
            violations.push(Violation::new(2, binding.address, how));
        }
    }
}
