//! What operators do: credentials that change, a network that is renamed, a cloud that alters what is written to it.

use serde_json::json;

use crate::api::deletion::Deletion;
use crate::api::objects::Part;
use crate::api::{ApiServer, Kind};
use crate::memory::{Alteration, Elsewhere};
use crate::users::key;
use crate::world::{NAMESPACE, World};

/// The project's user whose credentials the usual Secret has.
pub const USER: &str = "ours";
/// Another user of the project, and the Secret with that one's credentials, which stay good. Nobody deletes or changes it.
pub const OTHER_USER: &str = "ours-too";
pub const OTHER_SECRET: &str = "cloud-too";

impl World {
    pub fn create_other_secret(&self, server: &ApiServer) {
        self.cloud.add_user(OTHER_USER, USER);
        let data = json!(self.cloud.secret(OTHER_USER));
        let metadata = json!({"name": OTHER_SECRET, "namespace": NAMESPACE});
        let _ = server.create(Kind::Secret, json!({"metadata": metadata, "data": data}));
    }

    pub fn toggle_secret(&self, server: &ApiServer) {
        let secret = key(Kind::Secret, "cloud");
        if server.get(&secret).is_some() {
            let _ = server.delete(&secret, &Deletion::default());
        } else {
            self.create_secret(server);
        }
    }

    /// The Secret gets the credentials that are good now.
    pub fn renew_secret(&self, server: &ApiServer) {
        self.create_secret(server);
        self.write_secret(server, self.cloud.secret("ours"));
    }

    pub fn misdirect_secret(&self, server: &ApiServer, is_project: bool) {
        self.witness.note_misdirection();
        let place = if is_project { Elsewhere::Project } else { Elsewhere::Region };
        self.write_secret(server, self.cloud.secret_elsewhere("ours", place));
    }

    /// Both URLs are of the same Keystone, and it accepts the credentials at both.
    pub fn move_keystone(&self, server: &ApiServer) {
        let usual = "http://keystone.memory/v3/";
        let is_usual = self.cloud.keystone() == usual;
        self.cloud.move_keystone(USER, if is_usual { "https://keystone.memory/v3/" } else { usual });
        self.cloud.accept_other_region(USER);
        self.write_secret(server, self.cloud.secret(USER));
    }

    fn write_secret(&self, server: &ApiServer, data: impl serde::Serialize) {
        let data = serde_json::to_value(data).expect("a Secret has a form");
        let _ = server.patch(&key(Kind::Secret, "cloud"), Part::Main, &json!({"data": data}));
    }

    /// The old password is refused from now on, also in open sessions.
    pub fn revoke(&self) {
        let password = format!("password-{}", self.clock.now().as_second());
        self.cloud.change_password("ours", &password);
        self.cloud.accept_other_region("ours");
    }

    pub fn rename_network(&self) {
        let name = if self.cloud.network_name(&self.network) == "public" { "renamed" } else { "public" };
        self.cloud.rename_network(&self.network, name);
    }

    pub fn alter(&self, how: u8) {
        use Alteration::*;
        let all = [
            None,
            None,
            DropsWhenCreated,
            KeepsOldDescription,
            RewritesDescription,
            HidesDescriptions,
            HidesTags,
            HidesPorts,
            HidesForwardings,
            RefusesCreations,
            RefusesDescriptions,
            RefusesTags,
            RefusesDeletions,
            IgnoresDeletions,
            FailsDeletions,
        ];
        self.users_interfered.set(true);
        let alteration = all[usize::from(how) % all.len()];
        self.witness.note_alteration(alteration);
        self.cloud.alter(alteration);
    }
}
