//! Neutron by plain HTTP: what the baseline is measured with, and what prepares and removes addresses.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

/// A parameter that only our own listings have: the access log's reader leaves them out.
pub const OURS: &str = "limit=4321";

/// What is written on floating IPs of the baseline, so that nobody takes them for free ones.
pub const NOTE: &str = "baseline of the benchmark";

/// A session of one user. Remembers what it creates.
pub struct Neutron {
    http: reqwest::Client,
    token: String,
    url: String,
    /// The entry of `clouds.yaml` that was used.
    pub cloud: Value,
    // A plain mutex: held to add or remove an entry, never across an await.
    created: Mutex<BTreeSet<String>>,
    // Likewise.
    pools: Mutex<Vec<String>>,
}

/// What is asked of a floating IP.
#[derive(Clone, Debug)]
pub struct FloatingIp {
    pub id: String,
    pub address: String,
    pub description: String,
    pub tags: Vec<String>,
}

impl Neutron {
    /// Signs in to a cloud of `OS_CLIENT_CONFIG_FILE` by password.
    pub async fn sign_in(name: &str) -> Result<Self> {
        // An error means that it was chosen before.
        let _chosen_before = rustls::crypto::ring::default_provider().install_default();
        let path =
            std::env::var("OS_CLIENT_CONFIG_FILE").context("OS_CLIENT_CONFIG_FILE is not set: see `make env-up`")?;
        let text = std::fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
        let file: Value = serde_saphyr::from_str(&text).with_context(|| format!("understand {path}"))?;
        let cloud = file["clouds"][name].clone();
        let auth = &cloud["auth"];
        let keystone = auth["auth_url"].as_str().with_context(|| format!("{path} has no cloud `{name}`"))?;
        // As many idle connections as there are clients at most; kept alive as far as the server allows.
        let http = reqwest::Client::builder().timeout(Duration::from_secs(120)).pool_max_idle_per_host(32).build()?;
        let user =
            json!({"name": auth["username"], "password": auth["password"], "domain": {"id": auth["user_domain_id"]}});
        let body = json!({"auth": {
            "identity": {"methods": ["password"], "password": {"user": user}},
            "scope": {"project": {"name": auth["project_name"], "domain": {"id": auth["project_domain_id"]}}}
        }});
        let answer = http.post(format!("{keystone}/auth/tokens")).json(&body).send().await?.error_for_status()?;
        let token = answer.headers().get("x-subject-token").context("Keystone sent no token")?.to_str()?.to_owned();
        let body: Value = answer.json().await?;
        let endpoints = body["token"]["catalog"].as_array().into_iter().flatten();
        let url = endpoints
            .filter(|service| service["type"] == "network")
            .flat_map(|service| service["endpoints"].as_array().into_iter().flatten())
            .find(|endpoint| endpoint["interface"] == "public")
            .and_then(|endpoint| endpoint["url"].as_str())
            .context("the catalogue has no public endpoint for `network`")?;
        let url = url.trim_end_matches('/').to_owned();
        Ok(Self { http, token, url, cloud, created: Mutex::default(), pools: Mutex::default() })
    }

    async fn call(&self, method: Method, path: &str, body: Option<Value>) -> Result<Value> {
        let (status, answer) = self.call_any(method.clone(), path, body).await?;
        ensure!(status.is_success(), "{method} {path}: {status} {answer}");
        Ok(answer)
    }

    async fn call_any(&self, method: Method, path: &str, body: Option<Value>) -> Result<(StatusCode, Value)> {
        let request =
            self.http.request(method, format!("{}/v2.0/{path}", self.url)).header("X-Auth-Token", &self.token);
        let request = match body {
            Some(body) => request.json(&body),
            None => request,
        };
        let answer = request.send().await?;
        let status = answer.status();
        let text = answer.text().await?;
        Ok((status, serde_json::from_str(&text).unwrap_or(Value::String(text))))
    }

    /// The id of a network.
    pub async fn network(&self, name: &str) -> Result<String> {
        let answer = self.call(Method::GET, &format!("networks?name={name}"), None).await?;
        let id = answer["networks"][0]["id"].as_str();
        Ok(id.with_context(|| format!("Neutron has no network `{name}`"))?.to_owned())
    }

    /// The project's floating IPs on a network.
    pub async fn floating_ips(&self, network: &str) -> Result<Vec<FloatingIp>> {
        let path = format!("floatingips?floating_network_id={network}&{OURS}");
        let answer = self.call(Method::GET, &path, None).await?;
        Ok(answer["floatingips"].as_array().into_iter().flatten().map(read).collect())
    }

    /// Creates a floating IP.
    pub async fn create(&self, network: &str, description: &str) -> Result<FloatingIp> {
        let body = json!({"floatingip": {"floating_network_id": network, "description": description}});
        let answer = self.call(Method::POST, "floatingips", Some(body)).await?;
        let made = read(&answer["floatingip"]);
        self.remembered().insert(made.id.clone());
        Ok(made)
    }

    /// Creates many, eight at a time.
    pub async fn create_many(&self, network: &str, description: &str, count: usize) -> Result<Vec<FloatingIp>> {
        let creations = (0..count).map(|_| self.create(network, description));
        stream::iter(creations).buffer_unordered(8).try_collect().await
    }

    /// Puts one tag on.
    pub async fn tag(&self, id: &str, tag: &str) -> Result<()> {
        self.call(Method::PUT, &format!("floatingips/{id}/tags/{tag}"), None).await.map(drop)
    }

    /// Takes one tag off.
    pub async fn untag(&self, id: &str, tag: &str) -> Result<()> {
        self.call(Method::DELETE, &format!("floatingips/{id}/tags/{tag}"), None).await.map(drop)
    }

    /// Rewrites the description.
    pub async fn describe(&self, id: &str, description: &str) -> Result<()> {
        let body = json!({"floatingip": {"description": description}});
        self.call(Method::PUT, &format!("floatingips/{id}"), Some(body)).await.map(drop)
    }

    /// Deletes one; one that is gone already is well.
    pub async fn delete(&self, id: &str) -> Result<()> {
        let (status, answer) = self.call_any(Method::DELETE, &format!("floatingips/{id}"), None).await?;
        let is_gone = status.is_success() || status == StatusCode::NOT_FOUND;
        ensure!(is_gone, "DELETE floatingips/{id}: {status} {answer}");
        self.remembered().remove(id);
        Ok(())
    }

    /// Deletes many, eight at a time.
    pub async fn delete_many(&self, ids: impl IntoIterator<Item = String>) -> Result<()> {
        let ids: Vec<String> = ids.into_iter().collect();
        stream::iter(&ids).map(|id| self.delete(id)).buffer_unordered(8).try_collect().await
    }

    /// Remembers a pool by its identity in marks, to remove what it may leave.
    pub fn remember_pool(&self, id: &str) {
        self.pools.lock().expect("no code panics while it holds the list").push(id.to_owned());
    }

    /// Deletes whatever was created, here or by a pool, and is still there.
    pub async fn clean_up(&self, network: &str) {
        if let Err(error) = self.try_clean_up(network).await {
            eprintln!("left in Neutron: {error:#}");
        }
    }

    async fn try_clean_up(&self, network: &str) -> Result<()> {
        let pools = std::mem::take(&mut *self.pools.lock().expect("no code panics while it holds the list"));
        let left = if pools.is_empty() { Vec::new() } else { self.floating_ips(network).await? };
        // A description with our mark is on what a pool created; what it only used is tagged, and among our own.
        let is_left = |left: &FloatingIp| pools.iter().any(|id| left.description.contains(id));
        let left: Vec<_> = left.into_iter().filter(is_left).map(|left| left.id).collect();
        if !left.is_empty() {
            eprintln!("{} floating IPs of the pools were left; they are deleted", left.len());
        }
        let created = std::mem::take(&mut *self.remembered());
        self.delete_many(left.into_iter().chain(created)).await
    }

    fn remembered(&self) -> std::sync::MutexGuard<'_, BTreeSet<String>> {
        self.created.lock().expect("no code panics while it holds the set")
    }
}

fn read(body: &Value) -> FloatingIp {
    let text = |field: &str| body[field].as_str().unwrap_or_default().to_owned();
    let tags = body["tags"].as_array().into_iter().flatten();
    FloatingIp {
        id: text("id"),
        address: text("floating_ip_address"),
        description: text("description"),
        tags: tags.filter_map(Value::as_str).map(str::to_owned).collect(),
    }
}
