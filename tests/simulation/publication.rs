//! Laws 2, 4 and 5 at the moment at which a claim's objects change: nothing is attached to an address that is handed out, a
//! claim that had an address gets the same one, and a claim that goes leaves its release in Neutron.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

use caip_openstack::api::names::{ABANDON_ANNOTATION, ORIGIN_ANNOTATION};
use caip_openstack::openstack::{Credentials, KeystoneId};
use serde_json::Value;

use crate::api::metadata::is_deleting;
use crate::api::{ApiServer, Change, Key, Kind};
use crate::claims::Uid;
use crate::laws::{self, Violation};
use crate::told::{self, pool_of};
use crate::witness::Witness;

pub struct PublicationWatcher {
    pub witness: Witness,
    pub users_interfered: Rc<Cell<bool>>,
    pub violations: Rc<RefCell<Vec<Violation>>>,
    /// The IPAddresses that users made.
    pub copied: RefCell<BTreeSet<Key>>,
}

impl PublicationWatcher {
    /// Checks each change as it is made, until the server is gone.
    pub async fn watch(self, site: usize, server: ApiServer) {
        let mut news = server.news();
        let mut seen = server.version();
        while news.changed().await.is_ok() {
            let changes: Vec<Change> = {
                let state = server.state();
                let begin = state.changes.partition_point(|change| change.version <= seen);
                seen = state.version;
                state.changes[begin..].to_vec()
            };
            for change in &changes {
                match (change.key.kind, change.how) {
                    (Kind::Address, "ADDED") => self.check_published(site, &server, change),
                    (Kind::Claim, "MODIFIED") => {
                        self.violations.borrow_mut().extend(told::check(&server, &self.witness, &change.object));
                    }
                    (Kind::Claim, "DELETED") => self.check_released(&server, change),
                    _ => {}
                }
            }
        }
    }

    fn check_published(&self, site: usize, server: &ApiServer, change: &Change) {
        let Some(binding) = laws::binding(&[], &change.object, site) else { return };
        // A user's own is nothing that was given.
        if binding.is_edited {
            self.copied.borrow_mut().insert(change.key.clone());
            return;
        }
        let claim = server.get(&Key { kind: Kind::Claim, ..change.key.clone() });
        // A process that is gone may have sent it before its claim was deleted and released.
        let is_late = claim.as_deref().is_some_and(is_deleting) && self.witness.rates().interruptions() > 0;
        // Without its claim, which a user deleted by force, there is nothing to compare with.
        let before = claim.and_then(|claim| {
            let uid = Uid::of(server, &claim);
            self.witness.claims().bind(&uid, binding.clone());
            self.witness.claims().give(&uid, binding.address)
        });
        let mut violations = self.violations.borrow_mut();
        match before {
            Some(before) if before == binding.address => return,
            // Of two addresses that a claim was given, a new process cannot know which was published.
            Some(before) if !self.users_interfered.get() && self.witness.late_changes() == 0 => {
                let how = format!("had {before}, and now has {}", binding.address);
                violations.push(Violation::new(5, &binding.object, how));
            }
            _ => {}
        }
        let is_copied = self.copied.borrow().contains(&change.key);
        let keystone = keystone_of_pool(server, &change.object);
        if !is_late && self.witness.was_attached_before(&binding, keystone, is_copied) {
            let how = format!("given to {}, although something is attached to it", binding.object);
            violations.push(Violation::new(2, binding.address, how));
        }
        let is_reused = origin(&change.object) == "reuse";
        if is_reused && self.witness.was_named_before(site, &binding.fip, &binding.pool, &binding.claim) {
            let how = format!("given to {}, although an object of CAPO names it", binding.object);
            violations.push(Violation::new(2, binding.address, how));
        }
        let takes_only_unmarked = is_reused && reuses_unmarked(server, &change.object);
        if takes_only_unmarked && self.witness.was_described_before(&binding.fip, &binding.pool, &binding.claim) {
            let how = format!("given to {}, although somebody has described it", binding.object);
            violations.push(Violation::new(2, binding.address, how));
        }
    }

    /// A claim whose finalizer is gone has been released in Neutron, unless nobody could.
    fn check_released(&self, server: &ApiServer, change: &Change) {
        // One that was removed by force was not being deleted when it lost its finalizer. A cloud may hide its mark.
        if !is_deleting(&change.object) || self.witness.was_altered() {
            return;
        }
        let (claims, uid) = (self.witness.claims(), Uid::of(server, &change.object));
        let Some(binding) = claims.binding(&uid).filter(|_| !claims.is_forced(&uid)) else { return };
        let Some(pool) = pool_of(server, &change.object) else { return };
        let is_abandoned = |object: &Value| object["metadata"]["annotations"].get(ABANDON_ANNOTATION).is_some();
        if is_abandoned(&change.object) || is_abandoned(&pool) || laws::pool_id(&pool) != Some(binding.pool.clone()) {
            return;
        }
        if self.witness.is_held(&binding.fip, &binding.pool, &binding.claim) {
            let how = format!("gone, and {} is still marked for it", binding.address);
            self.violations.borrow_mut().push(Violation::new(4, &binding.object, how));
        }
    }
}

fn origin(address: &Arc<Value>) -> &str {
    address["metadata"]["annotations"][ORIGIN_ANNOTATION].as_str().unwrap_or_default()
}

/// The Keystone that the Secret of the IPAddress' pool names, unless it is that of a cluster identity.
fn keystone_of_pool(server: &ApiServer, address: &Value) -> Option<KeystoneId> {
    let pool = pool_of(server, address).filter(|pool| pool["spec"]["identityRef"]["type"] == "Secret")?;
    let [namespace, name] = ["/metadata/namespace", "/spec/identityRef/name"].map(|path| laws::text(&pool, path));
    let secret = server.get(&Key::new(Kind::Secret, namespace, name))?;
    let data = serde_json::from_value(secret["data"].clone()).ok()?;
    let cloud = pool["spec"]["identityRef"]["cloudName"].as_str().unwrap_or("openstack");
    Credentials::from_secret(&data, cloud, None).ok().map(|credentials| credentials.keystone())
}

/// Whether the IPAddress' pool takes only floating IPs that nobody has marked, and the controllers know that.
fn reuses_unmarked(server: &ApiServer, address: &Value) -> bool {
    pool_of(server, address).is_some_and(|pool| {
        laws::text(&pool, "/spec/reuse/policy") == "Unmarked"
            && pool["status"]["observedGeneration"] == pool["metadata"]["generation"]
    })
}
