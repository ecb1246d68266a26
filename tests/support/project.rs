//! A project in OpenStack for one scenario, with a user and a quota.

use reqwest::Method;
use serde_json::{Value, json};

use super::clouds::cloud_entry;
use super::openstack::Cloud;

pub struct Project {
    admin: Cloud,
    entry: Value,
    id: String,
    user: String,
}

impl Project {
    /// Creates a project, and a user who is a member of it.
    pub async fn new() -> Self {
        let admin = Cloud::named("admin").await;
        let name = super::unique("t");
        let id = create(&admin, "project", json!({"name": name, "domain_id": "default"})).await;
        let roles = admin.identity(Method::GET, "roles?name=member", None).await;
        let role = roles["roles"][0]["id"].as_str().expect("there is the role `member`");
        let user = create_user(&admin, &name, &id, role).await;
        let mut entry = entry_of(&cloud_entry("demo"), &name);
        entry["auth"]["project_name"] = name.into();
        Self { admin, entry, id, user }
    }

    /// Its entry in a `clouds.yaml`.
    pub fn entry(&self) -> &Value {
        &self.entry
    }

    pub async fn cloud(&self) -> Cloud {
        Cloud::of(&self.entry).await
    }

    /// Runs a scenario with the entry of a user who has no other role in the project than one that allows nothing: Neutron
    /// shows no floating IPs to it.
    pub async fn with_powerless_user(&self, scenario: impl AsyncFnOnce(&Value)) {
        let name = super::unique("p");
        let role = create(&self.admin, "role", json!({"name": name})).await;
        let user = create_user(&self.admin, &name, &self.id, &role).await;
        scenario(&entry_of(&self.entry, &name)).await;
        self.admin.identity(Method::DELETE, &format!("users/{user}"), None).await;
        self.admin.identity(Method::DELETE, &format!("roles/{role}"), None).await;
    }

    /// Limits its floating IPs.
    pub async fn set_quota(&self, limit: usize) {
        let path = format!("quotas/{}", self.id);
        let (status, answer) = self.admin.call(Method::PUT, &path, Some(json!({"quota": {"floatingip": limit}}))).await;
        assert!(status.is_success(), "{answer}");
    }

    /// Removes it; fails when it still has a floating IP.
    pub async fn end(self) {
        assert_eq!(self.cloud().await.floating_ips().await, [], "left in the project");
        self.admin.identity(Method::DELETE, &format!("users/{}", self.user), None).await;
        self.admin.identity(Method::DELETE, &format!("projects/{}", self.id), None).await;
    }
}

/// Creates something in Keystone, and returns its id.
async fn create(admin: &Cloud, kind: &str, fields: Value) -> String {
    let answer = admin.identity(Method::POST, &format!("{kind}s"), Some(json!({ kind: fields }))).await;
    answer[kind]["id"].as_str().expect("what is created has an id").to_owned()
}

/// Creates a user with a role in a project, and with its name as password.
async fn create_user(admin: &Cloud, name: &str, project: &str, role: &str) -> String {
    let user = create(admin, "user", json!({"name": name, "password": name, "domain_id": "default"})).await;
    admin.identity(Method::PUT, &format!("projects/{project}/users/{user}/roles/{role}"), None).await;
    user
}

/// An entry of a `clouds.yaml` with such a user instead.
fn entry_of(entry: &Value, user: &str) -> Value {
    let mut entry = entry.clone();
    for field in ["username", "password"] {
        entry["auth"][field] = user.into();
    }
    entry
}
