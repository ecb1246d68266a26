//! OpenStack as a person sees it: a thin client of its own, apart from the program's, with what scenarios ask and do.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::clouds::cloud_entry;
use super::world::trust_tls;

/// A user's view of OpenStack. What is created through it is deleted by [`Cloud::clean_up`].
pub struct Cloud {
    http: reqwest::Client,
    token: String,
    keystone: String,
    neutron: String,
    project: String,
    // A plain mutex: held to add an entry, never across an await. In the order of creation.
    created: Mutex<Vec<String>>,
    // The same. The ids of floating IPs.
    forged: Mutex<BTreeSet<String>>,
}

/// A floating IP.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FloatingIp {
    /// Its id.
    pub id: String,
    /// Its address.
    pub address: String,
    /// The id of its network.
    pub network: String,
    /// The id of the port that it is attached to.
    pub port: Option<String>,
    /// Its description.
    pub description: String,
    /// Its tags.
    pub tags: BTreeSet<String>,
}

impl FloatingIp {
    fn read(body: &Value) -> Self {
        let text = |field: &str| body[field].as_str().unwrap_or_default().to_owned();
        let tags = body["tags"].as_array().into_iter().flatten();
        Self {
            id: text("id"),
            address: text("floating_ip_address"),
            network: text("floating_network_id"),
            port: body["port_id"].as_str().map(str::to_owned),
            description: text("description"),
            tags: tags.filter_map(Value::as_str).map(str::to_owned).collect(),
        }
    }
}

/// An external network that only one scenario uses.
pub struct ExternalNetwork {
    /// Its name.
    pub name: String,
    range: String,
}

impl ExternalNetwork {
    /// All its addresses, and more.
    pub fn cidr(&self) -> String {
        format!("{}.0/24", self.range)
    }

    /// One of its addresses, from 0.
    pub fn address(&self, which: u8) -> String {
        format!("{}.{}", self.range, which + 2)
    }
}

impl Cloud {
    /// Signs in to a cloud of `OS_CLIENT_CONFIG_FILE`: `demo`, the user of the pools; `admin`; `demo-app`.
    pub async fn named(cloud: &str) -> Self {
        Self::of(&cloud_entry(cloud)).await
    }

    /// Signs in as an entry of a `clouds.yaml` says.
    pub async fn of(entry: &Value) -> Self {
        trust_tls();
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

    /// The token that Keystone gave.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// The id of the user's project.
    pub fn project(&self) -> &str {
        &self.project
    }

    /// Where Neutron is.
    pub fn endpoint(&self) -> &str {
        &self.neutron
    }

    /// Any call to Neutron; the answer as it is. `path` begins after `/v2.0/`.
    pub async fn call(&self, method: Method, path: &str, body: Option<Value>) -> (StatusCode, Value) {
        self.send(method, format!("{}/v2.0/{path}", self.neutron), body).await
    }

    /// A call to Keystone that succeeds; `path` begins after `/v3/`.
    pub async fn identity(&self, method: Method, path: &str, body: Option<Value>) -> Value {
        let (status, answer) = self.send(method.clone(), format!("{}/{path}", self.keystone), body).await;
        assert!(status.is_success(), "{method} {path}: {status} {answer}");
        answer
    }

    async fn send(&self, method: Method, url: String, body: Option<Value>) -> (StatusCode, Value) {
        let mut request = self.http.request(method.clone(), &url).header("X-Auth-Token", &self.token);
        if let Some(body) = body {
            request = request.json(&body);
        }
        let response = request.send().await.unwrap_or_else(|error| panic!("{method} {url}: {error}"));
        let status = response.status();
        let text = response.text().await.unwrap_or_else(|error| panic!("{method} {url}: {error}"));
        (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }

    async fn must(&self, method: Method, path: &str, body: Option<Value>) -> Value {
        let (status, answer) = self.call(method.clone(), path, body).await;
        assert!(status.is_success(), "{method} {path}: {status} {answer}");
        answer
    }

    async fn make(&self, kind: &str, body: Value) -> Value {
        let answer = self.must(Method::POST, kind, Some(body)).await;
        let made = answer.as_object().and_then(|answer| answer.values().next()).expect("Neutron names what it made");
        let id = made["id"].as_str().expect("what Neutron makes has an id");
        self.created.lock().expect("no code panics while it holds the list").push(format!("{kind}/{id}"));
        made.clone()
    }

    /// All floating IPs that the user sees; a member sees those of the project.
    pub async fn floating_ips(&self) -> Vec<FloatingIp> {
        let answer = self.must(Method::GET, "floatingips", None).await;
        answer["floatingips"].as_array().into_iter().flatten().map(FloatingIp::read).collect()
    }

    /// The floating IP of an address.
    pub async fn find(&self, address: &str) -> Option<FloatingIp> {
        let answer = self.must(Method::GET, &format!("floatingips?floating_ip_address={address}"), None).await;
        answer["floatingips"].as_array().into_iter().flatten().map(FloatingIp::read).next()
    }

    /// A floating IP by its id.
    pub async fn get(&self, id: &str) -> Option<FloatingIp> {
        let (status, answer) = self.call(Method::GET, &format!("floatingips/{id}"), None).await;
        assert!(status.is_success() || status == StatusCode::NOT_FOUND, "GET floatingips/{id}: {status} {answer}");
        status.is_success().then(|| FloatingIp::read(&answer["floatingip"]))
    }

    /// Creates a floating IP on the network of this name.
    pub async fn create(&self, network: &str, description: &str) -> FloatingIp {
        let network = self.network(network).await;
        let body = json!({"floatingip": {"floating_network_id": network, "description": description}});
        let made = FloatingIp::read(&self.make("floatingips", body).await);
        self.note_forgery(&made.id, description);
        made
    }

    /// Creates a floating IP of this address for another project; only an administrator may.
    pub async fn create_at(&self, network: &str, address: &str, project: &str) -> FloatingIp {
        let network = self.network(network).await;
        let body = json!({"floatingip": {
            "floating_network_id": network, "floating_ip_address": address, "project_id": project
        }});
        FloatingIp::read(&self.make("floatingips", body).await)
    }

    /// The ids of the floating IPs that were created through this client and not deleted through it.
    pub fn made_floating_ips(&self) -> Vec<String> {
        let created = self.created.lock().expect("no code panics while it holds the list");
        created.iter().filter_map(|path| path.strip_prefix("floatingips/")).map(str::to_owned).collect()
    }

    /// The ids of the floating IPs on which a mark like the program's was written through this client.
    pub fn forged(&self) -> BTreeSet<String> {
        self.forged.lock().expect("no code panics while it holds the set").clone()
    }

    fn note_forgery(&self, id: &str, text: &str) {
        if text.starts_with("caip") {
            self.forged.lock().expect("no code panics while it holds the set").insert(id.to_owned());
        }
    }

    /// Deletes a floating IP; `false` when there was none.
    pub async fn delete(&self, id: &str) -> bool {
        let is_it = |path: &String| path.strip_prefix("floatingips/") == Some(id);
        self.created.lock().expect("no code panics while it holds the list").retain(|path| !is_it(path));
        let (status, answer) = self.call(Method::DELETE, &format!("floatingips/{id}"), None).await;
        assert!(status.is_success() || status == StatusCode::NOT_FOUND, "DELETE floatingips/{id}: {status} {answer}");
        status.is_success()
    }

    async fn put(&self, id: &str, change: Value) -> FloatingIp {
        let answer = self.must(Method::PUT, &format!("floatingips/{id}"), Some(json!({"floatingip": change}))).await;
        FloatingIp::read(&answer["floatingip"])
    }

    /// Attaches a floating IP to a port; steals it from another, as Neutron does.
    pub async fn attach(&self, id: &str, port: &str) -> FloatingIp {
        self.put(id, json!({"port_id": port})).await
    }

    /// Detaches a floating IP.
    pub async fn detach(&self, id: &str) -> FloatingIp {
        self.put(id, json!({"port_id": null})).await
    }

    /// Rewrites a floating IP's description.
    pub async fn describe(&self, id: &str, description: &str) -> FloatingIp {
        self.note_forgery(id, description);
        self.put(id, json!({"description": description})).await
    }

    /// Adds a tag to a floating IP.
    pub async fn tag(&self, id: &str, tag: &str) {
        self.note_forgery(id, tag);
        self.must(Method::PUT, &format!("floatingips/{id}/tags/{tag}"), None).await;
    }

    /// Takes a tag off a floating IP; `false` when it had none such.
    pub async fn untag(&self, id: &str, tag: &str) -> bool {
        let (status, answer) = self.call(Method::DELETE, &format!("floatingips/{id}/tags/{tag}"), None).await;
        assert!(status.is_success() || status == StatusCode::NOT_FOUND, "DELETE tag {tag}: {status} {answer}");
        status.is_success()
    }

    /// The id of the network of this name.
    pub async fn network(&self, name: &str) -> String {
        let answer = self.must(Method::GET, &format!("networks?name={name}"), None).await;
        let id = answer["networks"][0]["id"].as_str();
        id.unwrap_or_else(|| panic!("Neutron has no network `{name}`")).to_owned()
    }

    /// A port on the network of this name; `private` is routed to `public`, so that floating IPs of `public` attach.
    pub async fn port(&self, network: &str) -> String {
        let network = self.network(network).await;
        let port = self.make("ports", json!({"port": {"network_id": network, "name": super::unique("t")}})).await;
        port["id"].as_str().expect("a port has an id").to_owned()
    }

    /// Deletes a port, as Nova does with a VM; its floating IP stays.
    pub async fn delete_port(&self, id: &str) {
        self.must(Method::DELETE, &format!("ports/{id}"), None).await;
    }

    /// Makes an external network of a scenario's own with `count` addresses. Only an administrator may. No router leads
    /// to it, so nothing can be attached.
    pub async fn external_network(&self, count: u8) -> ExternalNetwork {
        // Two networks of one project may have the same addresses, but a scenario could not tell whose it sees.
        static MADE: AtomicU8 = AtomicU8::new(0);
        let name = super::unique("t");
        let range = format!("198.19.{}", MADE.fetch_add(1, Ordering::Relaxed));
        let body = self.make("networks", json!({"network": {"name": name, "router:external": true}})).await;
        let network = ExternalNetwork { name, range };
        self.make(
            "subnets",
            json!({"subnet": {
                "network_id": body["id"], "ip_version": 4, "cidr": network.cidr(), "enable_dhcp": false,
                "allocation_pools": [{"start": network.address(0), "end": network.address(count - 1)}]
            }}),
        )
        .await;
        network
    }

    /// Deletes what was created through this client, last things first. What is gone already, or is held by somebody
    /// else, is passed over.
    pub async fn clean_up(&self) {
        let created = std::mem::take(&mut *self.created.lock().expect("no code panics while it holds the list"));
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
