//! Tokens that are long, with a long catalogue, that have expired or never do, and a Neutron that refuses them.

use serde_json::{Value, json};

use super::answers::{Place, token};
use super::fields::pick;
use super::liar::LONGEST_HEADERS;
use super::wire::{Answer, Request, Response};

/// In bytes: a catalogue that is still accepted has this many, with the rest of the token.
const CATALOGUE: usize = 120 << 10;

/// In bytes: what the program accepts.
const LONGEST_TOKEN: usize = 8 << 10;

const URLS: [&str; 8] = [
    "",
    "file:///etc/passwd",
    "http://",
    "http://user:password@127.0.0.1:1/",
    "http://169.254.169.254/",
    "http://[::ffff:169.254.169.254]:80/",
    "http://0x7f.1/",
    "http://127.0.0.1:1/%00/../?x#y",
];

pub(super) fn answer(request: &Request, right: Response, place: &Place<'_>, random: &mut fastrand::Rng) -> Answer {
    if !request.path.ends_with("/auth/tokens") {
        let refusal = json!({"error": {"code": 401, "title": "Unauthorized", "message": "again"}});
        let is_refused = random.u8(0..5) == 0;
        return if is_refused { Response::new(401, refusal.to_string()).whole() } else { right.whole() };
    }
    let mut body = place.token(&format!("{}/{}", place.url, place.name));
    let info = &mut body["token"];
    let mut id = format!("token-{:x}", random.u64(..));
    match random.u8(0..16) {
        0 => set_times(info, "2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z"),
        1 => set_times(info, "9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z"),
        2 => set_times(info, "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"),
        3 => info["expires_at"] = json!("9999-12-31T23:59:59Z"),
        4 => info["catalog"] = regions(place),
        5 => info["catalog"][0]["endpoints"][0]["url"] = pick(random, URLS).into(),
        6 => info["catalog"][0]["endpoints"][0]["url"] = format!("http://127.0.0.1/{}", "x".repeat(100_000)).into(),
        7 => info["project"] = pick(random, [Value::Null, json!({}), json!({"id": ""}), json!({"id": "../x"})]),
        8 => id = pick(random, [String::new(), "\u{e9}".into(), "a b".into(), "t".repeat(70_000)]),
        // All that a session keeps, as large as it may be.
        _ => {
            add_services(info);
            id = "t".repeat(pick(random, [LONGEST_TOKEN, LONGEST_HEADERS]));
        }
    }
    token(body, id).whole()
}

fn set_times(token: &mut Value, issued: &str, expires: &str) {
    (token["issued_at"], token["expires_at"]) = (issued.into(), expires.into());
}

/// A catalogue with a Neutron in very many regions.
fn regions(place: &Place<'_>) -> Value {
    let endpoint = |number: usize| {
        let url = format!("{}/{}", place.url, place.name);
        json!({"id": "e", "interface": "public", "region": format!("Region-{number}"), "url": url})
    };
    let endpoints: Vec<Value> = (0..1000).map(endpoint).collect();
    json!([{"id": "s", "type": "network", "name": "neutron", "endpoints": endpoints}])
}

/// Services with as little text, and so with as much memory for a byte of it, as may be.
fn add_services(token: &mut Value) {
    let endpoint = json!({"id": "", "interface": "", "url": ""});
    let count = CATALOGUE / (endpoint.to_string().len() + 1);
    let services = json!({"type": "", "name": "", "endpoints": vec![endpoint; count]});
    if let Value::Array(catalog) = &mut token["catalog"] {
        catalog.push(services);
    }
}
