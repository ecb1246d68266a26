//! A stand-in for Keystone and Neutron over HTTP, in a process of its own: it answers from memory what the real ones would
//! answer, after the time that they were measured to take or at once. The real Neutron's own processor time would hide the
//! controller's.
//!
//! Each user has a project of its name. A project whose name begins with [`FAILING`] has a Neutron that answers reads,
//! and fails slowly otherwise.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::Ipv4Addr;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::access_log::Calls;
use crate::support::call_name;

pub const FAILING: &str = "failing";
/// How long a Neutron that fails takes.
const FAILS_AFTER: Duration = Duration::from_secs(5);
/// Where the stand-in says which calls there were.
const CALLS_PATH: &str = "/calls";
const NETWORK: &str = "5d2b7f5e-0000-4000-8000-000000000001";
/// Later than any benchmark ends.
const EXPIRES_AT: &str = "2099-01-01T00:00:00.000000Z";

/// A running stand-in. Ends when it is dropped, and in any case when the benchmark does.
pub struct StandIn {
    child: Child,
    pub url: String,
}

impl StandIn {
    pub fn start(has_latency: bool) -> Self {
        let program = std::env::current_exe().expect("the benchmark knows where it is");
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]).arg(program).arg("--serve-stand-in");
        command.args(has_latency.then_some("--latency")).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("setpriv (util-linux) starts the stand-in");
        let mut url = String::new();
        let output = child.stdout.take().expect("its output is a pipe");
        BufReader::new(output).read_line(&mut url).expect("the stand-in says its URL");
        Self { child, url: url.trim().to_owned() }
    }

    /// A `clouds.yaml` for a project.
    pub fn clouds_yaml(&self, project: &str) -> String {
        let auth = json!({
            "auth_url": format!("{}/v3", self.url), "username": project, "password": "secret", "project_name": project,
            "user_domain_name": "Default", "project_domain_name": "Default",
        });
        json!({"clouds": {"openstack": {"auth": auth, "region_name": "RegionOne"}}}).to_string()
    }

    /// How many calls of each kind there were.
    pub async fn calls(&self) -> Calls {
        let answer = reqwest::get(format!("{}{CALLS_PATH}", self.url)).await.expect("the stand-in answers");
        answer.json().await.expect("it answers with its calls")
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ended_already = self.child.kill();
        let _status = self.child.wait();
    }
}

/// The program of the process: serves on a free port of the loopback interface, and prints its URL.
pub async fn serve(has_latency: bool) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("some port is free");
    let url = format!("http://{}", listener.local_addr().expect("it is bound"));
    println!("{url}");
    std::io::stdout().flush().expect("the benchmark reads it");
    let server = Arc::new(Server { url, has_latency, state: Mutex::default() });
    let app = Router::new().fallback(move |request: Request| {
        let server = server.clone();
        async move { server.answer(request).await }
    });
    axum::serve(listener, app).await.expect("the listener stays open");
}

struct Server {
    url: String,
    has_latency: bool,
    // A plain mutex: held for one step, never across an await.
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    projects: BTreeMap<String, BTreeMap<String, FloatingIp>>,
    created: u32,
    calls: Calls,
}

struct FloatingIp {
    address: Ipv4Addr,
    description: String,
    tags: BTreeSet<String>,
}

struct Answer(u16, Value);

impl Server {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no code panics while it holds the state")
    }

    async fn answer(&self, request: Request) -> Response {
        let (parts, body) = request.into_parts();
        let body = axum::body::to_bytes(body, 1 << 20).await.expect("a small body");
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let (method, path) = (parts.method.as_str(), parts.uri.path());
        if path == CALLS_PATH {
            return respond(Answer(200, json!(self.state().calls)), None);
        }
        let path = path.strip_prefix("/network").unwrap_or(path);
        let project = parts.headers.get("X-Auth-Token").and_then(|token| token.to_str().ok()).unwrap_or_default();
        // Not counted: nothing comes of it.
        if project.starts_with(FAILING) && method != "GET" {
            sleep(FAILS_AFTER).await;
            return respond(Answer(503, json!({})), None);
        }
        *self.state().calls.entry(call_name(method, path)).or_default() += 1;
        if path == "/v3/auth/tokens" {
            self.delay(77).await;
            let project = body["auth"]["scope"]["project"]["name"].as_str().unwrap_or_default();
            return respond(Answer(201, self.token(project)), Some(project));
        }
        let query: BTreeMap<_, _> =
            url::form_urlencoded::parse(parts.uri.query().unwrap_or_default().as_bytes()).collect();
        let page = Page {
            limit: query.get("limit").and_then(|limit| limit.parse().ok()).unwrap_or(usize::MAX),
            after: query.get("marker").map(|marker| marker.to_string()),
        };
        let path: Vec<&str> = path.trim_start_matches("/v2.0/").split('/').collect();
        let (answer, milliseconds) = self.state().answer(project, method, &path, &body, &page);
        self.delay(milliseconds).await;
        respond(answer, None)
    }

    async fn delay(&self, milliseconds: u64) {
        if self.has_latency {
            sleep(Duration::from_millis(milliseconds)).await;
        }
    }

    fn token(&self, project: &str) -> Value {
        let endpoint =
            json!({"id": "e", "interface": "public", "region": "RegionOne", "url": format!("{}/network", self.url)});
        json!({"token": {
            "issued_at": jiff::Timestamp::now().to_string(), "expires_at": EXPIRES_AT,
            "user": {"id": project, "name": project}, "project": {"id": project, "name": project},
            "catalog": [{"id": "s", "type": "network", "name": "neutron", "endpoints": [endpoint]}],
        }})
    }
}

struct Page {
    limit: usize,
    after: Option<String>,
}

impl State {
    /// The answer, and how many milliseconds the real Neutron takes for it.
    fn answer(&mut self, project: &str, method: &str, path: &[&str], body: &Value, page: &Page) -> (Answer, u64) {
        match (method, path) {
            ("GET", ["extensions"]) => (Answer(200, json!({"extensions": [{"alias": "standard-attr-tag"}]})), 12),
            ("GET", ["networks"]) => {
                let network = json!({"id": NETWORK, "name": "public", "router:external": true});
                (Answer(200, json!({"networks": [network]})), 12)
            }
            ("GET", ["quotas", ..]) => {
                let used = self.projects.get(project).map_or(0, BTreeMap::len);
                (Answer(200, json!({"quota": {"floatingip": {"limit": -1, "used": used, "reserved": 0}}})), 12)
            }
            ("GET", ["floatingips"]) => self.list(project, page),
            ("POST", ["floatingips"]) => (self.create(project, body), 252),
            ("GET", ["floatingips", id]) => (self.change(project, id, |_| {}), 10),
            ("PUT", ["floatingips", id]) => {
                let description = body["floatingip"]["description"].as_str().unwrap_or_default().to_owned();
                (self.change(project, id, |fip| fip.description = description), 35)
            }
            ("DELETE", ["floatingips", id]) => {
                let removed = self.projects.get_mut(project).and_then(|fips| fips.remove(*id));
                (removed.map_or_else(not_found, |_| Answer(204, Value::Null)), 86)
            }
            ("PUT", ["floatingips", id, "tags", tag]) => {
                let tag = (*tag).to_owned();
                (self.change(project, id, |fip| _ = fip.tags.insert(tag)), 29)
            }
            ("DELETE", ["floatingips", id, "tags", tag]) => {
                (self.change(project, id, |fip| _ = fip.tags.remove(*tag)), 29)
            }
            _ => (not_found(), 10),
        }
    }

    fn list(&self, project: &str, page: &Page) -> (Answer, u64) {
        let is_left = |id: &&String| page.after.as_ref().is_none_or(|after| *id > after);
        let all = self.projects.get(project).into_iter().flatten();
        let mut rows: Vec<Value> = all
            .filter(|(id, _)| is_left(id))
            .take(page.limit.saturating_add(1))
            .map(|(id, fip)| fip.row(project, id))
            .collect();
        let links = match rows.len() > page.limit {
            true => json!([{"rel": "next", "href": "next"}]),
            false => json!([]),
        };
        rows.truncate(page.limit);
        let milliseconds = 12 + rows.len() as u64 * 380 / 1000;
        (Answer(200, json!({"floatingips": rows, "floatingips_links": links})), milliseconds)
    }

    fn create(&mut self, project: &str, body: &Value) -> Answer {
        self.created += 1;
        // Like a UUID, and in no order.
        let mixed = u64::from(self.created).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let id = format!("{:08x}-0000-4000-8000-{:012x}", mixed >> 32, self.created);
        let fip = FloatingIp {
            address: Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 0, 0, 0)) + self.created),
            description: body["floatingip"]["description"].as_str().unwrap_or_default().to_owned(),
            tags: BTreeSet::new(),
        };
        let row = fip.row(project, &id);
        self.projects.entry(project.to_owned()).or_default().insert(id, fip);
        Answer(201, json!({"floatingip": row}))
    }

    fn change(&mut self, project: &str, id: &str, change: impl FnOnce(&mut FloatingIp)) -> Answer {
        let Some(fip) = self.projects.get_mut(project).and_then(|fips| fips.get_mut(id)) else { return not_found() };
        change(fip);
        Answer(200, json!({"floatingip": fip.row(project, id)}))
    }
}

impl FloatingIp {
    /// With every field that Neutron sends, since reading them costs time.
    fn row(&self, project: &str, id: &str) -> Value {
        json!({
            "id": id, "tenant_id": project, "project_id": project, "floating_ip_address": self.address,
            "floating_network_id": NETWORK, "router_id": null, "port_id": null, "fixed_ip_address": null,
            "status": "DOWN", "description": self.description, "port_details": null, "tags": self.tags,
            "dns_domain": "", "dns_name": "", "qos_policy_id": null, "qos_network_policy_id": null,
            "port_forwardings": [], "created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-01T00:00:00Z",
            "revision_number": 1,
        })
    }
}

fn not_found() -> Answer {
    Answer(
        404,
        json!({"NeutronError": {"type": "FloatingIPNotFound", "message": "it could not be found", "detail": ""}}),
    )
}

fn respond(Answer(status, body): Answer, token: Option<&str>) -> Response {
    let bytes = if body.is_null() { Vec::new() } else { serde_json::to_vec(&body).expect("JSON has a form") };
    let mut response = Response::builder().status(status).header("Content-Type", "application/json");
    if let Some(token) = token {
        response = response.header("X-Subject-Token", token);
    }
    response.body(Body::from(bytes)).expect("a good answer")
}
