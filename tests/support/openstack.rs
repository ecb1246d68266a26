//! OpenStack as a user sees it: a thin client, independent of the program's, with what scenarios read and do.

mod floating_ips;
mod networks;

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::clouds::cloud_entry;
use super::world::install_crypto_provider;

pub use floating_ips::FloatingIp;
pub use networks::ExternalNetwork;

/// A session of one user. What is created through it is deleted by [`Cloud::clean_up`].
pub struct Cloud {
    http: reqwest::Client,
    token: String,
    keystone: String,
    neutron: String,
    project: String,
    // A plain mutex: held to add an entry, never across an await. In the order of creation.
    created: Mutex<Vec<String>>,
    // The same. Ids of floating IPs on which a mark like the program's was written.
    forged: Mutex<BTreeSet<String>>,
}

impl Cloud {
    /// Signs in to a cloud of `OS_CLIENT_CONFIG_FILE`: `demo`, the user of the pools; `admin`; `demo-app`.
    pub async fn named(cloud: &str) -> Self {
        Self::of(&cloud_entry(cloud)).await
    }

    /// Signs in as an entry of a `clouds.yaml` says.
    pub async fn of(entry: &Value) -> Self {
        install_crypto_provider();
        let auth = &entry["auth"];
        let keystone = auth["auth_url"].as_str().expect("a cloud has an auth_url").to_owned();
        let timeout = Duration::from_secs(60);
        let http = reqwest::Client::builder().timeout(timeout).build().expect("an HTTP client needs nothing");
        let response = http
            .post(format!("{keystone}/auth/tokens"))
            .json(&sign_in(auth))
            .send()
            .await
            .unwrap_or_else(|error| panic!("Keystone at {keystone} does not answer ({error}); run `make env-up`"));
        assert!(response.status().is_success(), "Keystone refuses {}: {}", auth["username"], response.status());
        let header = response.headers().get("x-subject-token").and_then(|token| token.to_str().ok());
        let token = header.expect("Keystone sends a token").to_owned();
        let body: Value = response.json().await.expect("Keystone answers in JSON");
        let neutron = network_endpoint(&body).expect("the catalogue has a public endpoint for `network`");
        let project = body["token"]["project"]["id"].as_str().expect("the token is for a project").to_owned();
        Self { http, token, keystone, neutron, project, created: Mutex::default(), forged: Mutex::default() }
    }

    pub fn token(&self) -> &str {
        &self.token
    }

    pub fn project(&self) -> &str {
        &self.project
    }

    /// The URL of Neutron.
    pub fn endpoint(&self) -> &str {
        &self.neutron
    }

    /// Any call to Neutron. `path` begins after `/v2.0/`.
    pub async fn call(&self, method: Method, path: &str, body: Option<Value>) -> (StatusCode, Value) {
        self.send(method, format!("{}/v2.0/{path}", self.neutron), body).await
    }

    /// A call to Keystone that succeeds; `path` begins after `/v3/`.
    pub async fn identity(&self, method: Method, path: &str, body: Option<Value>) -> Value {
        let (status, answer) = self.send(method.clone(), format!("{}/{path}", self.keystone), body).await;
        assert!(status.is_success(), "{method} {path}: {status} {answer}");
        answer
    }

    /// Repeats what a busy Neutron refuses before it does anything: it could not check the token in time.
    async fn send(&self, method: Method, url: String, body: Option<Value>) -> (StatusCode, Value) {
        for _ in 1..5 {
            let answer = self.send_once(method.clone(), url.clone(), body.clone()).await;
            if answer.0 != StatusCode::SERVICE_UNAVAILABLE {
                return answer;
            }
            tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        }
        self.send_once(method, url, body).await
    }

    async fn send_once(&self, method: Method, url: String, body: Option<Value>) -> (StatusCode, Value) {
        let mut request = self.http.request(method.clone(), &url).header("X-Auth-Token", &self.token);
        if let Some(body) = body {
            request = request.json(&body);
        }
        let response = request.send().await.unwrap_or_else(|error| panic!("{method} {url}: {error}"));
        let status = response.status();
        let text = response.text().await.unwrap_or_else(|error| panic!("{method} {url}: {error}"));
        (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }

    /// A call to Neutron that succeeds.
    async fn must(&self, method: Method, path: &str, body: Option<Value>) -> Value {
        let (status, answer) = self.call(method.clone(), path, body).await;
        assert!(status.is_success(), "{method} {path}: {status} {answer}");
        answer
    }

    /// Creates an object that [`Self::clean_up`] deletes.
    async fn make(&self, kind: &str, body: Value) -> Value {
        let answer = self.must(Method::POST, kind, Some(body)).await;
        let made = answer.as_object().and_then(|answer| answer.values().next()).expect("Neutron names what it made");
        let id = made["id"].as_str().expect("what Neutron makes has an id");
        self.created().push(format!("{kind}/{id}"));
        made.clone()
    }

    fn created(&self) -> MutexGuard<'_, Vec<String>> {
        self.created.lock().expect("no code panics while it holds the list")
    }

    /// Deletes what was created through this client, in reverse order; skips what is gone or in use.
    pub async fn clean_up(&self) {
        let created = std::mem::take(&mut *self.created());
        for path in created.iter().rev() {
            let (status, answer) = self.call(Method::DELETE, path, None).await;
            if !status.is_success() && status != StatusCode::NOT_FOUND {
                eprintln!("left in Neutron: {path}: {status} {answer}");
            }
        }
    }
}

fn sign_in(auth: &Value) -> Value {
    if let Some(id) = auth["application_credential_id"].as_str() {
        let credential = json!({"id": id, "secret": auth["application_credential_secret"]});
        return json!({"auth": {"identity": {
            "methods": ["application_credential"], "application_credential": credential
        }}});
    }
    let user = json!({
        "name": auth["username"], "password": auth["password"], "domain": {"id": auth["user_domain_id"]}
    });
    json!({"auth": {
        "identity": {"methods": ["password"], "password": {"user": user}},
        "scope": {"project": {"name": auth["project_name"], "domain": {"id": auth["project_domain_id"]}}}
    }})
}

fn network_endpoint(body: &Value) -> Option<String> {
    let services = body["token"]["catalog"].as_array()?;
    let network = services.iter().find(|service| service["type"] == "network")?;
    let endpoint = network["endpoints"].as_array()?.iter().find(|endpoint| endpoint["interface"] == "public")?;
    Some(endpoint["url"].as_str()?.trim_end_matches('/').to_owned())
}
