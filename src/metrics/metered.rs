//! Counts and times every call to OpenStack.

use std::sync::{Arc, Weak};

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::Metrics;
use super::clouds::CloudLabel;
use crate::floating_ip::{FloatingIp, FloatingIpId};
use crate::openstack::{
    Clouds, Credentials, DeletionCheck, DeletionStep, Error, Filter, MaySend, Network, Neutron, NewFloatingIp,
    ProjectScope, Quota, Subnet,
};

/// Delegates to another [`Clouds`].
pub struct MeteredClouds {
    clouds: Arc<dyn Clouds>,
    metrics: Metrics,
    // The wrappers in use, to recognize a session that is already connected.
    sessions: Mutex<Vec<Weak<MeteredNeutron>>>,
}

impl MeteredClouds {
    pub fn new(clouds: Arc<dyn Clouds>, metrics: Metrics) -> Self {
        Self { clouds, metrics, sessions: Mutex::default() }
    }

    /// The session in its wrapper, and whether the wrapper is new.
    fn wrap(&self, neutron: Arc<dyn Neutron>, cloud: &CloudLabel) -> (Arc<MeteredNeutron>, bool) {
        let mut sessions = self.sessions.lock();
        sessions.retain(|session| session.strong_count() > 0);
        let known = sessions.iter().filter_map(Weak::upgrade).find(|session| Arc::ptr_eq(&session.neutron, &neutron));
        if let Some(session) = known {
            return (session, false);
        }
        let (cloud, metrics) = (cloud.clone(), self.metrics.clone());
        let session = Arc::new(MeteredNeutron { neutron, cloud, metrics });
        sessions.push(Arc::downgrade(&session));
        (session, true)
    }
}

#[async_trait]
impl Clouds for MeteredClouds {
    async fn connect(&self, namespace: &str, credentials: &Credentials) -> Result<Arc<dyn Neutron>, Error> {
        let cloud = self.metrics.admit_cloud(namespace, &credentials.cloud());
        let begin = Instant::now();
        let result = self.clouds.connect(namespace, credentials).await.map(|neutron| self.wrap(neutron, &cloud));
        // An existing session caused no request.
        if !matches!(result, Ok((_, false))) {
            self.metrics.openstack_call(&cloud, "connect", &result, begin.elapsed());
        }
        let (session, _) = result?;
        Ok(session)
    }
}

struct MeteredNeutron {
    neutron: Arc<dyn Neutron>,
    cloud: CloudLabel,
    metrics: Metrics,
}

impl MeteredNeutron {
    async fn measure<T>(
        &self,
        operation: &'static str,
        call: impl Future<Output = Result<T, Error>> + Send,
    ) -> Result<T, Error> {
        let begin = Instant::now();
        let result = call.await;
        self.metrics.openstack_call(&self.cloud, operation, &result, begin.elapsed());
        result
    }
}

#[async_trait]
impl Neutron for MeteredNeutron {
    fn scope(&self) -> &ProjectScope {
        self.neutron.scope()
    }

    fn is_current(&self) -> bool {
        self.neutron.is_current()
    }

    async fn list_floating_ips(&self) -> Result<Vec<FloatingIp>, Error> {
        self.measure("list_floating_ips", self.neutron.list_floating_ips()).await
    }

    async fn get_floating_ip(&self, id: &FloatingIpId) -> Result<FloatingIp, Error> {
        self.measure("get_floating_ip", self.neutron.get_floating_ip(id)).await
    }

    async fn create_floating_ip(&self, new: &NewFloatingIp, may_send: &MaySend<'_>) -> Result<FloatingIp, Error> {
        self.measure("create_floating_ip", self.neutron.create_floating_ip(new, may_send)).await
    }

    async fn describe_floating_ip(
        &self,
        id: &FloatingIpId,
        description: &str,
        may_send: &MaySend<'_>,
    ) -> Result<FloatingIp, Error> {
        self.measure("describe_floating_ip", self.neutron.describe_floating_ip(id, description, may_send)).await
    }

    /// It may consist of a read and a DELETE.
    async fn delete_floating_ip(&self, id: &FloatingIpId, check: &mut DeletionCheck<'_>) -> Result<bool, Error> {
        let (mut operation, mut begin) = ("delete_floating_ip", Instant::now());
        let mut metered = |shown: Option<FloatingIp>| {
            if shown.is_some() {
                self.metrics.openstack_call(&self.cloud, operation, &Ok::<_, Error>(()), begin.elapsed());
                begin = Instant::now();
            }
            let step = check(shown);
            operation = if step == DeletionStep::Read { "get_floating_ip" } else { "delete_floating_ip" };
            step
        };
        let result = self.neutron.delete_floating_ip(id, &mut metered).await;
        if !matches!(result, Ok(false)) {
            self.metrics.openstack_call(&self.cloud, operation, &result, begin.elapsed());
        }
        result
    }

    async fn add_tag(&self, id: &FloatingIpId, tag: &str, may_send: &MaySend<'_>) -> Result<(), Error> {
        self.measure("add_tag", self.neutron.add_tag(id, tag, may_send)).await
    }

    async fn remove_tag(&self, id: &FloatingIpId, tag: &str, may_send: &MaySend<'_>) -> Result<(), Error> {
        self.measure("remove_tag", self.neutron.remove_tag(id, tag, may_send)).await
    }

    async fn find_networks(&self, filter: &Filter) -> Result<Vec<Network>, Error> {
        self.measure("find_networks", self.neutron.find_networks(filter)).await
    }

    async fn find_subnets(&self, filter: &Filter) -> Result<Vec<Subnet>, Error> {
        self.measure("find_subnets", self.neutron.find_subnets(filter)).await
    }

    async fn has_tags(&self) -> Result<bool, Error> {
        self.measure("has_tags", self.neutron.has_tags()).await
    }

    async fn quota(&self) -> Result<Option<Quota>, Error> {
        self.measure("quota", self.neutron.quota()).await
    }
}
