//! OpenStack with a counter in front: every call, how it ended and how long it took.

use std::sync::{Arc, Mutex, Weak};

use async_trait::async_trait;
use tokio::time::Instant;

use super::Metrics;
use crate::floating_ip::{FloatingIp, FloatingIpId};
use crate::openstack::{Clouds, Credentials, Error, Filter, Network, Neutron, NewFloatingIp, Quota, Scope, Subnet};

/// Counts the calls that go to another [`Clouds`] and to its sessions.
pub struct Metered {
    clouds: Arc<dyn Clouds>,
    metrics: Metrics,
    // What was handed out, so that the same session stays the same. A plain mutex, never held across an await.
    sessions: Mutex<Vec<Weak<Session>>>,
}

impl Metered {
    /// `clouds`, counted in `metrics`.
    pub fn new(clouds: Arc<dyn Clouds>, metrics: Metrics) -> Self {
        Self { clouds, metrics, sessions: Mutex::default() }
    }

    /// The session in its wrapper, and whether the wrapper is new.
    fn wrap(&self, neutron: Arc<dyn Neutron>) -> (Arc<Session>, bool) {
        let mut sessions = self.sessions.lock().expect("no code panics while it holds the sessions");
        sessions.retain(|session| session.strong_count() > 0);
        let known = sessions.iter().filter_map(Weak::upgrade).find(|session| Arc::ptr_eq(&session.neutron, &neutron));
        if let Some(session) = known {
            return (session, false);
        }
        let session = Arc::new(Session { neutron, metrics: self.metrics.clone() });
        sessions.push(Arc::downgrade(&session));
        (session, true)
    }
}

#[async_trait]
impl Clouds for Metered {
    async fn connect(&self, credentials: &Credentials) -> Result<Arc<dyn Neutron>, Error> {
        let begin = Instant::now();
        let result = self.clouds.connect(credentials).await.map(|neutron| self.wrap(neutron));
        // A session that was there already was not asked of OpenStack.
        if !matches!(result, Ok((_, false))) {
            self.metrics.openstack_call("connect", &result, begin.elapsed());
        }
        result.map(|(session, _)| session as Arc<dyn Neutron>)
    }
}

struct Session {
    neutron: Arc<dyn Neutron>,
    metrics: Metrics,
}

impl Session {
    async fn count<T>(
        &self,
        operation: &'static str,
        call: impl Future<Output = Result<T, Error>> + Send,
    ) -> Result<T, Error> {
        let begin = Instant::now();
        let result = call.await;
        self.metrics.openstack_call(operation, &result, begin.elapsed());
        result
    }
}

#[async_trait]
impl Neutron for Session {
    fn scope(&self) -> &Scope {
        self.neutron.scope()
    }

    async fn list_floating_ips(&self) -> Result<Vec<FloatingIp>, Error> {
        self.count("list_floating_ips", self.neutron.list_floating_ips()).await
    }

    async fn get_floating_ip(&self, id: &FloatingIpId) -> Result<FloatingIp, Error> {
        self.count("get_floating_ip", self.neutron.get_floating_ip(id)).await
    }

    async fn create_floating_ip(&self, new: &NewFloatingIp) -> Result<FloatingIp, Error> {
        self.count("create_floating_ip", self.neutron.create_floating_ip(new)).await
    }

    async fn describe_floating_ip(&self, id: &FloatingIpId, description: &str) -> Result<FloatingIp, Error> {
        self.count("describe_floating_ip", self.neutron.describe_floating_ip(id, description)).await
    }

    async fn delete_floating_ip(&self, id: &FloatingIpId) -> Result<(), Error> {
        self.count("delete_floating_ip", self.neutron.delete_floating_ip(id)).await
    }

    async fn add_tag(&self, id: &FloatingIpId, tag: &str) -> Result<(), Error> {
        self.count("add_tag", self.neutron.add_tag(id, tag)).await
    }

    async fn remove_tag(&self, id: &FloatingIpId, tag: &str) -> Result<(), Error> {
        self.count("remove_tag", self.neutron.remove_tag(id, tag)).await
    }

    async fn find_networks(&self, filter: &Filter) -> Result<Vec<Network>, Error> {
        self.count("find_networks", self.neutron.find_networks(filter)).await
    }

    async fn find_subnets(&self, filter: &Filter) -> Result<Vec<Subnet>, Error> {
        self.count("find_subnets", self.neutron.find_subnets(filter)).await
    }

    async fn has_tags(&self) -> Result<bool, Error> {
        self.count("has_tags", self.neutron.has_tags()).await
    }

    async fn quota(&self) -> Result<Option<Quota>, Error> {
        self.count("quota", self.neutron.quota()).await
    }
}
