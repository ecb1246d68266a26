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
        let made = |answer: Value, kind: &str| answer[kind]["id"].as_str().expect("what is made has an id").to_owned();
        let project = json!({"project": {"name": name, "domain_id": "default"}});
        let id = made(admin.identity(Method::POST, "projects", Some(project)).await, "project");
        let user = json!({"user": {"name": name, "password": name, "domain_id": "default"}});
        let user = made(admin.identity(Method::POST, "users", Some(user)).await, "user");
        let roles = admin.identity(Method::GET, "roles?name=member", None).await;
        let role = roles["roles"][0]["id"].as_str().expect("there is the role `member`");
        admin.identity(Method::PUT, &format!("projects/{id}/users/{user}/roles/{role}"), None).await;
        let mut entry = cloud_entry("demo");
        for field in ["username", "password", "project_name"] {
            entry["auth"][field] = name.clone().into();
        }
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
        let create = async |path: &str, kind: &str, body: Value| {
            let answer = self.admin.identity(Method::POST, path, Some(json!({ kind: body }))).await;
            answer[kind]["id"].as_str().expect("what is made has an id").to_owned()
        };
        let user = create("users", "user", json!({"name": name, "password": name, "domain_id": "default"})).await;
        let role = create("roles", "role", json!({"name": name})).await;
        let assignment = format!("projects/{}/users/{user}/roles/{role}", self.id);
        self.admin.identity(Method::PUT, &assignment, None).await;
        let mut entry = self.entry.clone();
        for field in ["username", "password"] {
            entry["auth"][field] = name.clone().into();
        }
        scenario(&entry).await;
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
