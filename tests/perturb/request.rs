//! A request to the API server, as the trace names it.

use http::Method;
use serde_json::Value;

/// The kinds whose objects have generated names, so that two runs cannot be compared by them.
const UNNAMED: [&str; 1] = ["events"];

pub struct Target {
    /// The plural name of the kind, after `to:` in the second management cluster.
    pub resource: String,
    name: Option<String>,
    subresource: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verb {
    Watch,
    List,
    Get,
    Write,
}

impl Target {
    /// Of an object in a namespace, or all of them; none where the path names something else.
    pub fn of(side: usize, path: &str) -> Option<Self> {
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        let rest = match parts.as_slice() {
            ["api", _, "namespaces", _, rest @ ..] | ["apis", _, _, "namespaces", _, rest @ ..] => rest,
            _ => return None,
        };
        let (resource, rest) = rest.split_first()?;
        let text = |at: usize| rest.get(at).map(|part| (*part).to_owned());
        let prefix = if side == 0 { "" } else { "to:" };
        Some(Self { resource: format!("{prefix}{resource}"), name: text(0), subresource: text(1) })
    }

    pub fn verb(&self, method: &Method, query: &str) -> Verb {
        let is_watch = query.split('&').any(|part| matches!(part, "watch=true" | "watch=1"));
        match (method, &self.name) {
            (&Method::GET, _) if is_watch => Verb::Watch,
            (&Method::GET, None) => Verb::List,
            (&Method::GET, Some(_)) => Verb::Get,
            _ => Verb::Write,
        }
    }

    /// The object's name in the trace, from the path or else from what the API server answers.
    pub fn object(&self, answer: &Value) -> String {
        let answered = || answer.pointer("/metadata/name").and_then(Value::as_str).map(str::to_owned);
        short_name(&self.name.clone().or_else(answered).unwrap_or_default())
    }

    /// A write in the trace, such as `PATCH ipaddressclaims/web-0/status`.
    pub fn call(&self, method: &Method, answer: &Value) -> String {
        if UNNAMED.contains(&self.resource.trim_start_matches("to:")) {
            return format!("{method} {}", self.resource);
        }
        let subresource = self.subresource.as_ref().map_or(String::new(), |name| format!("/{name}"));
        format!("{method} {}/{}{subresource}", self.resource, self.object(answer))
    }
}

/// A claim, and its IPAddress, have the name of their server.
pub fn short_name(name: &str) -> String {
    name.trim_end_matches("-floating-ip-address").to_owned()
}
