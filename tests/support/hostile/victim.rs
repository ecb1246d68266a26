//! What hostile tenants know of the honest one: all that Neutron says of its project, as if they could read it.

use reqwest::Method;
use serde_json::Value;

use crate::support::openstack::Cloud;

#[derive(Clone)]
pub struct Victim {
    pub project: String,
    /// The URL of the real Neutron.
    pub neutron: String,
    /// The network of its floating IPs.
    pub network: String,
    /// The id of its pool in marks.
    pub pool_id: String,
    /// Its floating IPs, as Neutron lists them.
    pub rows: Vec<Value>,
}

/// How many floating IPs are copied.
const COPIED: usize = 20;

impl Victim {
    /// Copies what the user of `cloud` sees.
    pub async fn copy(cloud: &Cloud, network: &str, pool_id: &str) -> Self {
        let mut rows = rows(cloud).await;
        rows.truncate(COPIED);
        Self {
            project: cloud.project().to_owned(),
            neutron: cloud.endpoint().to_owned(),
            network: cloud.network(network).await,
            pool_id: pool_id.to_owned(),
            rows,
        }
    }
}

/// The floating IPs of a project, with every field.
pub async fn rows(cloud: &Cloud) -> Vec<Value> {
    let project = cloud.project();
    let (status, mut answer) = cloud.call(Method::GET, &format!("floatingips?project_id={project}"), None).await;
    assert!(status.is_success(), "GET floatingips: {status} {answer}");
    let Value::Array(rows) = answer["floatingips"].take() else { panic!("Neutron lists floating IPs") };
    rows
}
