//! The real world: for each test a project and a user of its own on the servers of `OS_CLIENT_CONFIG_FILE`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use caip_openstack::clock::Clock;
use caip_openstack::floating_ip::{FloatingIpId, NetworkId, SubnetId};
use caip_openstack::openstack::session::Sessions;
use caip_openstack::openstack::{Clouds, Credentials, Filter, Neutron};
use k8s_openapi::ByteString;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use super::World;
use crate::support::{SOON, eventually};

/// The administrator's hand, with plain requests: what our client cannot do and must not.
struct Operator {
    http: reqwest::Client,
    token: String,
    keystone: String,
    neutron: String,
}

pub(super) struct Real {
    operator: Operator,
    neutron: Arc<dyn Neutron>,
    stranger: Arc<dyn Neutron>,
    project: String,
    user: String,
    name: String,
    network: NetworkId,
    subnet: SubnetId,
    tiny: NetworkId,
    private: NetworkId,
    // Five calls, which only one test needs.
    plumbing: OnceCell<Plumbing>,
}

/// A router between a private network and the external one, and a port to attach to.
struct Plumbing {
    router: String,
    subnet: String,
    port: String,
}

/// The clouds that the environment names.
fn clouds_yaml() -> Vec<u8> {
    let path = std::env::var("OS_CLIENT_CONFIG_FILE").expect(
        "OS_CLIENT_CONFIG_FILE must name the clouds.yaml of a running OpenStack: run `make env-up`, or `make test`",
    );
    std::fs::read(&path).unwrap_or_else(|error| panic!("{path} cannot be read: {error}"))
}

pub(super) async fn world() -> Real {
    let yaml = clouds_yaml();
    let admin = Credentials::from_secret(&secret(yaml.clone()), "admin", None).expect("it has a cloud `admin`");
    let sessions = Sessions::new(Clock::system());
    let stranger = sessions.connect(&admin).await.expect("the administrator can log in");
    let operator = Operator::new(&yaml, &stranger.scope().endpoint).await;

    // As unlike any other as the clock and the process allow.
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970").subsec_nanos();
    let name = format!("contract-{}-{nanos}", std::process::id());
    let project = json!({"project": {"name": name, "domain_id": "default"}});
    let project = id(&operator.post("keystone", "projects", project).await["project"]);
    let user = json!({"user": {"name": name, "domain_id": "default", "password": "contract"}});
    let user = id(&operator.post("keystone", "users", user).await["user"]);
    let roles = operator.call("GET", "keystone", "roles?name=member", None).await;
    let grant = format!("projects/{project}/users/{user}/roles/{}", id(&roles["roles"][0]));
    operator.call("PUT", "keystone", &grant, None).await;

    let yaml = format!(
        "clouds:\n  ours:\n    region_name: RegionOne\n    auth: {{auth_url: \"{}\", username: {name}, \
         password: contract, project_id: {project}}}\n",
        operator.keystone
    );
    let ours = Credentials::from_secret(&secret(yaml.into_bytes()), "ours", None).expect("it is well formed");
    let neutron = sessions.connect(&ours).await.expect("the new user can log in");

    let find = async |name: &str| {
        let filter = Filter { name: Some(name.to_owned()), ..Filter::default() };
        neutron.find_networks(&filter).await.expect("it lists").pop().unwrap_or_else(|| panic!("no network {name}")).id
    };
    let (network, tiny) = (find("public-large").await, find("tiny").await);
    let subnets = Filter { network_id: Some(network.to_string()), ..Filter::default() };
    let subnet = neutron.find_subnets(&subnets).await.expect("it lists").remove(0).id;
    let private = json!({"network": {"name": name, "tenant_id": project}});
    let private = NetworkId::new(id(&operator.post("neutron", "networks", private).await["network"]));
    let plumbing = OnceCell::new();
    let world = Real { operator, neutron, stranger, project, user, name, network, subnet, tiny, private, plumbing };
    // Its own from the start, so that cleaning up finds one.
    world.set_quota(Some(50)).await;
    world
}

#[async_trait]
impl World for Real {
    fn neutron(&self) -> &Arc<dyn Neutron> {
        &self.neutron
    }
    fn stranger(&self) -> &Arc<dyn Neutron> {
        &self.stranger
    }
    fn network(&self) -> &NetworkId {
        &self.network
    }
    fn subnet(&self) -> &SubnetId {
        &self.subnet
    }
    fn tiny(&self) -> &NetworkId {
        &self.tiny
    }
    fn private(&self) -> &NetworkId {
        &self.private
    }
    async fn attach(&self, id: &FloatingIpId) {
        let plumbing = self.plumbing.get_or_init(|| self.plumb()).await;
        self.set_port(id, json!(plumbing.port)).await;
    }
    async fn detach(&self, id: &FloatingIpId) {
        self.set_port(id, Value::Null).await;
    }
    async fn set_quota(&self, limit: Option<u32>) {
        let limit = limit.map_or(-1, i64::from);
        let quota = json!({"quota": {"floatingip": limit}});
        self.operator.call("PUT", "neutron", &format!("quotas/{}", self.project), Some(quota)).await;
    }
    async fn clean(&self) {
        for ip in self.neutron.list_floating_ips().await.expect("it lists") {
            self.neutron.delete_floating_ip(&ip.id).await.expect("it deletes");
        }
        if let Some(Plumbing { router, subnet, port }) = self.plumbing.get() {
            let interface = Some(json!({"subnet_id": subnet}));
            self.operator.call("PUT", "neutron", &format!("routers/{router}/remove_router_interface"), interface).await;
            self.operator.delete("neutron", &format!("routers/{router}")).await;
            self.operator.delete("neutron", &format!("ports/{port}")).await;
        }
        self.operator.delete("neutron", &format!("networks/{}", self.private)).await;
        // Neutron made one for the project, and does not hear that the project goes.
        let groups = format!("security-groups?project_id={}", self.project);
        let groups = self.operator.call("GET", "neutron", &groups, None).await;
        for group in groups["security_groups"].as_array().into_iter().flatten() {
            self.operator.delete("neutron", &format!("security-groups/{}", id(group))).await;
        }
        self.operator.delete("neutron", &format!("quotas/{}", self.project)).await;
        self.operator.delete("keystone", &format!("users/{}", self.user)).await;
        self.operator.delete("keystone", &format!("projects/{}", self.project)).await;
    }
}

impl Real {
    pub(super) fn keystone(&self) -> &str {
        &self.operator.keystone
    }

    /// The user's id, its name, which the project has too, and the project's id.
    pub(super) fn user(&self) -> (&str, &str, &str) {
        (&self.user, &self.name, &self.project)
    }

    /// An application credential `contract` of the user, with the same word for a secret, and a token of the user.
    pub(super) async fn application_credential(&self) -> (String, String) {
        let user = json!({"id": self.user, "password": "contract"});
        let scope = json!({"project": {"id": self.project}});
        let operator = Operator::log_in(user, scope, &self.operator.keystone, &self.operator.neutron).await;
        let credential = json!({"application_credential": {"name": "contract", "secret": "contract"}});
        let path = format!("users/{}/application_credentials", self.user);
        // Keystone's cache of roles is at odds with its database now and then, and it answers 400.
        let credential =
            eventually(SOON, async || operator.try_call("POST", "keystone", &path, Some(credential.clone())).await)
                .await;
        (id(&credential["application_credential"]), operator.token)
    }

    async fn plumb(&self) -> Plumbing {
        let private = self.private.as_str();
        let subnet = json!({"subnet": {"network_id": private, "tenant_id": self.project, "ip_version": 4,
            "cidr": "10.77.0.0/24", "enable_dhcp": false}});
        let subnet = id(&self.operator.post("neutron", "subnets", subnet).await["subnet"]);
        let router = json!({"router": {"name": "contract", "tenant_id": self.project,
            "external_gateway_info": {"network_id": self.network.as_str()}}});
        let router = id(&self.operator.post("neutron", "routers", router).await["router"]);
        let interface = Some(json!({"subnet_id": subnet}));
        self.operator.call("PUT", "neutron", &format!("routers/{router}/add_router_interface"), interface).await;
        let port = json!({"port": {"network_id": private, "tenant_id": self.project}});
        let port = id(&self.operator.post("neutron", "ports", port).await["port"]);
        Plumbing { router, subnet, port }
    }

    async fn set_port(&self, id: &FloatingIpId, port: Value) {
        let body = json!({"floatingip": {"port_id": port}});
        self.operator.call("PUT", "neutron", &format!("floatingips/{id}"), Some(body)).await;
    }
}

impl Operator {
    async fn new(yaml: &[u8], neutron: &str) -> Self {
        let yaml = std::str::from_utf8(yaml).expect("it is text");
        let clouds: Value = serde_saphyr::from_str(yaml).expect("it is YAML");
        let auth = &clouds["clouds"]["admin"]["auth"];
        let keystone = auth["auth_url"].as_str().expect("it has an auth_url").trim_end_matches('/').to_owned();
        let domain = json!({"id": "default"});
        let user = json!({"name": auth["username"], "password": auth["password"], "domain": domain});
        let scope = json!({"project": {"name": auth["project_name"], "domain": domain}});
        Self::log_in(user, scope, &keystone, neutron).await
    }

    async fn log_in(user: Value, scope: Value, keystone: &str, neutron: &str) -> Self {
        let identity = json!({"methods": ["password"], "password": {"user": user}});
        let body = json!({"auth": {"identity": identity, "scope": scope}});
        // A test binary without TLS: the servers are on loopback.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder().no_proxy().build().expect("it builds");
        let url = format!("{keystone}/auth/tokens");
        let response = http.post(url).json(&body).send().await.expect("Keystone answers");
        let token = response.headers()["x-subject-token"].to_str().expect("it is text").to_owned();
        Self { http, token, keystone: keystone.to_owned(), neutron: neutron.trim_end_matches('/').to_owned() }
    }

    async fn call(&self, method: &str, service: &str, path: &str, body: Option<Value>) -> Value {
        self.try_call(method, service, path, body).await.unwrap_or_else(|refusal| panic!("{refusal}"))
    }

    async fn try_call(&self, method: &str, service: &str, path: &str, body: Option<Value>) -> Result<Value, String> {
        let root = if service == "keystone" { &self.keystone } else { &self.neutron };
        let method = method.parse().expect("a method");
        let mut request = self.http.request(method, format!("{root}/{path}")).header("X-Auth-Token", &self.token);
        if let Some(body) = body {
            request = request.json(&body);
        }
        let response = request.send().await.expect("it answers");
        let status = response.status();
        let text = response.text().await.expect("it answers in full");
        match status.is_success() {
            true => Ok(serde_json::from_str(&text).unwrap_or_default()),
            false => Err(format!("{path}: {status} {text}")),
        }
    }

    async fn post(&self, service: &str, path: &str, body: Value) -> Value {
        self.call("POST", service, path, Some(body)).await
    }

    async fn delete(&self, service: &str, path: &str) {
        self.call("DELETE", service, path, None).await;
    }
}

pub(super) fn secret(yaml: Vec<u8>) -> BTreeMap<String, ByteString> {
    BTreeMap::from([("clouds.yaml".to_owned(), ByteString(yaml))])
}

fn id(of: &Value) -> String {
    of["id"].as_str().unwrap_or_else(|| panic!("no id in {of}")).to_owned()
}
