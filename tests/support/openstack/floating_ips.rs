//! Floating IPs as a user creates, reads and changes them.

use std::collections::BTreeSet;

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::Cloud;

/// How many tags Neutron allows on one object.
const MAX_TAGS: usize = 50;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FloatingIp {
    pub id: String,
    pub address: String,
    /// The id of its network.
    pub network: String,
    /// The id of the port that it is attached to.
    pub port: Option<String>,
    pub description: String,
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

impl Cloud {
    /// All floating IPs that the user sees: a member sees those of the project.
    pub async fn floating_ips(&self) -> Vec<FloatingIp> {
        let answer = self.must(Method::GET, "floatingips", None).await;
        answer["floatingips"].as_array().into_iter().flatten().map(FloatingIp::read).collect()
    }

    /// The floating IP with this address.
    pub async fn find(&self, address: &str) -> Option<FloatingIp> {
        let answer = self.must(Method::GET, &format!("floatingips?floating_ip_address={address}"), None).await;
        answer["floatingips"].as_array().into_iter().flatten().map(FloatingIp::read).next()
    }

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
        self.remember_forgery(&made.id, description);
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

    /// Deletes a floating IP; `false` when there was none.
    pub async fn delete(&self, id: &str) -> bool {
        let is_it = |path: &String| path.strip_prefix("floatingips/") == Some(id);
        self.created().retain(|path| !is_it(path));
        let (status, answer) = self.call(Method::DELETE, &format!("floatingips/{id}"), None).await;
        assert!(status.is_success() || status == StatusCode::NOT_FOUND, "DELETE floatingips/{id}: {status} {answer}");
        status.is_success()
    }

    async fn put(&self, id: &str, change: Value) -> FloatingIp {
        let answer = self.must(Method::PUT, &format!("floatingips/{id}"), Some(json!({"floatingip": change}))).await;
        FloatingIp::read(&answer["floatingip"])
    }

    /// Attaches a floating IP to a port, also one that is attached to another port.
    pub async fn attach(&self, id: &str, port: &str) -> FloatingIp {
        self.put(id, json!({"port_id": port})).await
    }

    pub async fn detach(&self, id: &str) -> FloatingIp {
        self.put(id, json!({"port_id": null})).await
    }

    pub async fn describe(&self, id: &str, description: &str) -> FloatingIp {
        self.remember_forgery(id, description);
        self.put(id, json!({"description": description})).await
    }

    pub async fn tag(&self, id: &str, tag: &str) {
        self.remember_forgery(id, tag);
        self.must(Method::PUT, &format!("floatingips/{id}/tags/{tag}"), None).await;
    }

    /// Gives the floating IP this tag and no other, in one write: nobody sees it without a tag in between.
    pub async fn replace_tags(&self, id: &str, tag: &str) {
        self.remember_forgery(id, tag);
        self.must(Method::PUT, &format!("floatingips/{id}/tags"), Some(json!({"tags": [tag]}))).await;
    }

    /// Adds tags of a user until Neutron allows no more.
    pub async fn fill_with_tags(&self, id: &str) {
        let mut tags = self.get(id).await.expect("the floating IP is there").tags;
        tags.extend((tags.len()..MAX_TAGS).map(|number| format!("of-a-user-{number}")));
        self.must(Method::PUT, &format!("floatingips/{id}/tags"), Some(json!({"tags": tags}))).await;
    }

    /// Removes a tag; `false` when there was none.
    pub async fn untag(&self, id: &str, tag: &str) -> bool {
        let (status, answer) = self.call(Method::DELETE, &format!("floatingips/{id}/tags/{tag}"), None).await;
        assert!(status.is_success() || status == StatusCode::NOT_FOUND, "DELETE tag {tag}: {status} {answer}");
        status.is_success()
    }

    /// The ids of the floating IPs that were created through this client and not deleted through it.
    pub fn created_floating_ips(&self) -> Vec<String> {
        let created = self.created();
        created.iter().filter_map(|path| path.strip_prefix("floatingips/")).map(str::to_owned).collect()
    }

    /// The ids of the floating IPs on which a mark like the program's was written through this client.
    pub fn forged(&self) -> BTreeSet<String> {
        self.forged.lock().expect("no code panics while it holds the set").clone()
    }

    fn remember_forgery(&self, id: &str, text: &str) {
        if text.starts_with("caip") {
            self.forged.lock().expect("no code panics while it holds the set").insert(id.to_owned());
        }
    }
}
