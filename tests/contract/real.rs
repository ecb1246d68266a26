//! Real servers, those of `OS_CLIENT_CONFIG_FILE`: for each check a project and a user of its own.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use caip_openstack::clock::Clock;
use caip_openstack::floating_ip::{FloatingIpId, NetworkId};
use caip_openstack::openstack::session::Sessions;
use caip_openstack::openstack::{Clouds, Credentials, Filter, Neutron};
use k8s_openapi::ByteString;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use super::{Operator, World, always};
use crate::support::{SOON, eventually};

/// Plain requests, for what the product's client cannot do.
struct HttpClient {
    http: reqwest::Client,
    token: String,
    keystone: String,
    neutron: String,
}

pub(super) struct RealOperator {
    admin: HttpClient,
    neutron: Arc<dyn Neutron>,
    project: String,
    user: String,
    /// Of both the user and the project.
    name: String,
    network: NetworkId,
    private: NetworkId,
    // Costs five calls, and only one check needs it.
    route: OnceCell<Route>,
}

/// A router between the private network and the external one, and a port to attach to.
struct Route {
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

pub(super) async fn world() -> (World, Arc<RealOperator>) {
    let yaml = clouds_yaml();
    let admin = Credentials::from_secret(&secret(yaml.clone()), "admin", None).expect("it has a cloud `admin`");
    let sessions = Sessions::new(Clock::system());
    let stranger = sessions.connect("team-a", &admin).await.expect("the administrator can log in");
    let admin_client = HttpClient::for_admin(&yaml, &stranger.scope().endpoint).await;

    // Unique among concurrent and repeated runs.
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970").subsec_nanos();
    let name = format!("contract-{}-{nanos}", std::process::id());
    let project = json!({"project": {"name": name, "domain_id": "default"}});
    let project = id(&admin_client.post("keystone", "projects", project).await["project"]);
    let user = json!({"user": {"name": name, "domain_id": "default", "password": "contract"}});
    let user = id(&admin_client.post("keystone", "users", user).await["user"]);
    let roles = admin_client.call("GET", "keystone", "roles?name=member", None).await;
    let grant = format!("projects/{project}/users/{user}/roles/{}", id(&roles["roles"][0]));
    admin_client.call("PUT", "keystone", &grant, None).await;

    let yaml = format!(
        "clouds:\n  ours:\n    region_name: RegionOne\n    auth: {{auth_url: \"{}\", username: {name}, \
         password: contract, project_id: {project}}}\n",
        admin_client.keystone
    );
    let ours = Credentials::from_secret(&secret(yaml.into_bytes()), "ours", None).expect("it is well formed");
    let neutron = sessions.connect("team-a", &ours).await.expect("the new user can log in");

    let find = async |name: &str| {
        let filter = Filter { name: Some(name.to_owned()), ..Filter::default() };
        neutron.find_networks(&filter).await.expect("it lists").pop().unwrap_or_else(|| panic!("no network {name}")).id
    };
    let (network, tiny) = (find("public-large").await, find("tiny").await);
    let subnets = Filter { network_id: Some(network.to_string()), ..Filter::default() };
    let subnet = neutron.find_subnets(&subnets).await.expect("it lists").remove(0).id;
    let private = json!({"network": {"name": name, "tenant_id": project}});
    let private = NetworkId::new(id(&admin_client.post("neutron", "networks", private).await["network"]));
    let operator = Arc::new(RealOperator {
        admin: admin_client,
        neutron: neutron.clone(),
        project,
        user,
        name,
        network: network.clone(),
        private: private.clone(),
        route: OnceCell::new(),
    });
    // So that cleaning up finds a quota of the project's own.
    operator.set_quota(Some(50)).await;
    let world = World { neutron, stranger, network, subnet, tiny, private, operator: Box::new(operator.clone()) };
    (world, operator)
}

#[async_trait]
impl Operator for Arc<RealOperator> {
    async fn attach(&self, id: &FloatingIpId) {
        let route = self.route.get_or_init(|| self.create_route()).await;
        self.set_port(id, json!(route.port)).await;
    }
    async fn detach(&self, id: &FloatingIpId) {
        self.set_port(id, Value::Null).await;
    }
    async fn set_quota(&self, limit: Option<u32>) {
        let limit = limit.map_or(-1, i64::from);
        let quota = json!({"quota": {"floatingip": limit}});
        self.admin.call("PUT", "neutron", &format!("quotas/{}", self.project), Some(quota)).await;
    }
    async fn clean_up(&self) {
        for ip in self.neutron.list_floating_ips().await.expect("it lists") {
            self.neutron.delete_floating_ip(&ip.id, &mut always).await.expect("it deletes");
        }
        if let Some(Route { router, subnet, port }) = self.route.get() {
            let interface = Some(json!({"subnet_id": subnet}));
            self.admin.call("PUT", "neutron", &format!("routers/{router}/remove_router_interface"), interface).await;
            self.admin.delete("neutron", &format!("routers/{router}")).await;
            self.admin.delete("neutron", &format!("ports/{port}")).await;
        }
        self.admin.delete("neutron", &format!("networks/{}", self.private)).await;
        // Neutron created one for the project, and keeps it when the project is deleted.
        let groups = format!("security-groups?project_id={}", self.project);
        let groups = self.admin.call("GET", "neutron", &groups, None).await;
        for group in groups["security_groups"].as_array().into_iter().flatten() {
            self.admin.delete("neutron", &format!("security-groups/{}", id(group))).await;
        }
        self.admin.delete("neutron", &format!("quotas/{}", self.project)).await;
        self.admin.delete("keystone", &format!("users/{}", self.user)).await;
        self.admin.delete("keystone", &format!("projects/{}", self.project)).await;
    }
}

impl RealOperator {
    pub(super) fn keystone(&self) -> &str {
        &self.admin.keystone
    }

    /// The user's id, the name of both the user and the project, and the project's id.
    pub(super) fn user(&self) -> (&str, &str, &str) {
        (&self.user, &self.name, &self.project)
    }

    /// The id of an application credential of the user, with name and secret `contract`, and a token of the user.
    pub(super) async fn application_credential(&self) -> (String, String) {
        let user = json!({"id": self.user, "password": "contract"});
        let scope = json!({"project": {"id": self.project}});
        let client = HttpClient::log_in(user, scope, &self.admin.keystone, &self.admin.neutron).await;
        let credential = json!({"application_credential": {"name": "contract", "secret": "contract"}});
        let path = format!("users/{}/application_credentials", self.user);
        // Keystone answers 400 while its cache of roles differs from its database.
        let credential =
            eventually(SOON, async || client.try_call("POST", "keystone", &path, Some(credential.clone())).await).await;
        (id(&credential["application_credential"]), client.token)
    }

    async fn create_route(&self) -> Route {
        let private = self.private.as_str();
        let subnet = json!({"subnet": {"network_id": private, "tenant_id": self.project, "ip_version": 4,
            "cidr": "10.77.0.0/24", "enable_dhcp": false}});
        let subnet = id(&self.admin.post("neutron", "subnets", subnet).await["subnet"]);
        let router = json!({"router": {"name": "contract", "tenant_id": self.project,
            "external_gateway_info": {"network_id": self.network.as_str()}}});
        let router = id(&self.admin.post("neutron", "routers", router).await["router"]);
        let interface = Some(json!({"subnet_id": subnet}));
        self.admin.call("PUT", "neutron", &format!("routers/{router}/add_router_interface"), interface).await;
        let port = json!({"port": {"network_id": private, "tenant_id": self.project}});
        let port = id(&self.admin.post("neutron", "ports", port).await["port"]);
        Route { router, subnet, port }
    }

    async fn set_port(&self, id: &FloatingIpId, port: Value) {
        let body = json!({"floatingip": {"port_id": port}});
        self.admin.call("PUT", "neutron", &format!("floatingips/{id}"), Some(body)).await;
    }
}

impl HttpClient {
    async fn for_admin(yaml: &[u8], neutron: &str) -> Self {
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
        // reqwest needs a provider, although the servers are on loopback without TLS.
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
