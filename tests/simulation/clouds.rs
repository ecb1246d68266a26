//! The connection to OpenStack: the in-memory cloud's sessions, over the wire of one process.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use caip_openstack::floating_ip::{FloatingIp, FloatingIpId};
use caip_openstack::openstack::{
    Clouds, Credentials, DeletionCheck, DeletionStep, Error, ErrorKind, Filter, MaySend, Network, Neutron,
    NewFloatingIp, ProjectScope, Quota, Subnet,
};
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::time::Instant;

use crate::api::ApiServer;
use crate::liar::Liars;
use crate::memory::{MemoryCloud, may_delete};
use crate::reserved::check_deletion;
use crate::wire::{Call, CallFailure, Rejection, Side, Wire};
use crate::witness::{Witness, Writer};

/// The clouds as one process reaches them.
pub struct WiredClouds {
    pub cloud: MemoryCloud,
    /// Of the process' management cluster, to judge what it does.
    pub server: ApiServer,
    pub wire: Wire,
    pub witness: Witness,
    pub liars: Liars,
}

#[async_trait]
impl Clouds for WiredClouds {
    async fn connect(&self, _: &str, credentials: &Credentials) -> Result<Arc<dyn Neutron>, Error> {
        if let Some(session) = self.liars.connect(credentials, &self.cloud).await {
            return session;
        }
        let (cloud, credentials) = (self.cloud.clone(), Arc::new(credentials.clone()));
        let make = move || {
            let (cloud, credentials) = (cloud.clone(), credentials.clone());
            async move { cloud.open(&credentials) }.boxed()
        };
        let call = Call { side: Side::OpenStack, kind: "connect".into(), what: "connect".into(), is_write: false };
        let session = self.wire.send(call, make, |failure| Err(error("connect", failure)), describe).await?;
        Ok(Arc::new(WiredNeutron {
            sent: Arc::new(session.of_sent_calls()),
            inner: Arc::new(session),
            server: self.server.clone(),
            wire: self.wire.clone(),
            witness: self.witness.clone(),
        }))
    }
}

struct WiredNeutron {
    inner: Arc<dyn Neutron>,
    /// The same session, for calls that are under way while Neutron gets another URL, or the user another project.
    sent: Arc<dyn Neutron>,
    server: ApiServer,
    wire: Wire,
    witness: Witness,
}

fn describe<T>(answer: &Result<T, Error>) -> String {
    match answer {
        Ok(_) => "ok".to_owned(),
        Err(error) => format!("{:?}", error.kind),
    }
}

fn error(operation: &'static str, failure: CallFailure) -> Error {
    let (kind, message) = match failure {
        CallFailure::NoAnswer => (ErrorKind::NoAnswer, "the cloud does not answer in time"),
        CallFailure::Refused(Rejection::Server) => (ErrorKind::Server, "the cloud has an internal error"),
        CallFailure::Refused(Rejection::TooMany | Rejection::Later) => {
            (ErrorKind::TooManyRequests, "too many requests")
        }
        CallFailure::Refused(Rejection::Conflict) => (ErrorKind::Conflict, "another request changed it"),
        CallFailure::Refused(Rejection::Forbidden) => (ErrorKind::Forbidden, "the cloud's policy forbids it"),
        CallFailure::Refused(Rejection::Page) => (ErrorKind::Rejected, "404 page not found"),
        CallFailure::Refused(Rejection::Unreachable) => (ErrorKind::Unreachable, "the cloud refuses connections"),
    };
    let is_later = matches!(failure, CallFailure::Refused(Rejection::Later));
    Error { retry_after: is_later.then_some(Duration::from_secs(300)), ..Error::new(kind, operation, message) }
}

impl WiredNeutron {
    /// The session of a call that is sent now.
    fn session(&self) -> Arc<dyn Neutron> {
        if self.inner.is_current() {
            return self.sent.clone();
        }
        self.wire.count_interruption();
        self.inner.clone()
    }

    /// Waits until a write may be sent.
    async fn await_turn(&self, operation: &'static str, may_send: &MaySend<'_>) -> Result<(), Error> {
        self.wire.await_turn().await;
        if may_send() { Ok(()) } else { Err(Error::unsent(operation)) }
    }

    async fn read<T: Send + 'static>(
        &self,
        operation: &'static str,
        make: impl Fn(Arc<dyn Neutron>) -> BoxFuture<'static, Result<T, Error>> + Send + 'static,
    ) -> Result<T, Error> {
        let inner = self.session();
        let call = Call { side: Side::OpenStack, kind: operation.into(), what: operation.into(), is_write: false };
        self.wire.send(call, move || make(inner.clone()), |failure| Err(error(operation, failure)), describe).await
    }

    /// A write: the witness records it at the moment at which it lands.
    async fn write<T: Send + 'static>(
        &self,
        operation: &'static str,
        about: String,
        make: impl Fn(Arc<dyn Neutron>) -> BoxFuture<'static, Result<T, Error>> + Send + Sync + 'static,
    ) -> Result<T, Error> {
        let (inner, witness, wire) = (self.session(), self.witness.clone(), self.wire.clone());
        let (make, keystone, sent) = (Arc::new(make), self.scope().keystone, Instant::now());
        let landing = move || {
            let (inner, witness, wire, make) = (inner.clone(), witness.clone(), wire.clone(), make.clone());
            async move {
                let answer = make(inner).await;
                if answer.is_ok() {
                    witness.count_write();
                }
                witness.record_write(operation, &Writer::new(wire, keystone, &witness.cloud()), sent);
                answer
            }
            .boxed()
        };
        let what = format!("{operation} {about}");
        let call = Call { side: Side::OpenStack, kind: operation.into(), what, is_write: true };
        self.wire.send(call, landing, |failure| Err(error(operation, failure)), describe).await
    }
}

#[async_trait]
impl Neutron for WiredNeutron {
    fn scope(&self) -> &ProjectScope {
        self.inner.scope()
    }

    fn is_current(&self) -> bool {
        self.inner.is_current()
    }

    async fn list_floating_ips(&self) -> Result<Vec<FloatingIp>, Error> {
        self.read("list floating IPs", |inner| async move { inner.list_floating_ips().await }.boxed()).await
    }

    async fn get_floating_ip(&self, id: &FloatingIpId) -> Result<FloatingIp, Error> {
        let id = id.clone();
        self.read("read floating IP", move |inner| {
            let id = id.clone();
            async move { inner.get_floating_ip(&id).await }.boxed()
        })
        .await
    }

    async fn create_floating_ip(&self, new: &NewFloatingIp, may_send: &MaySend<'_>) -> Result<FloatingIp, Error> {
        let new = new.clone();
        self.await_turn("create floating IP", may_send).await?;
        self.write("create floating IP", new.description.clone(), move |inner| {
            let new = new.clone();
            async move { inner.create_floating_ip(&new, &|| true).await }.boxed()
        })
        .await
    }

    async fn describe_floating_ip(
        &self,
        id: &FloatingIpId,
        description: &str,
        may_send: &MaySend<'_>,
    ) -> Result<FloatingIp, Error> {
        let (id, description) = (id.clone(), description.to_owned());
        self.await_turn("describe floating IP", may_send).await?;
        self.write("describe floating IP", format!("{id} {description}"), move |inner| {
            let (id, description) = (id.clone(), description.clone());
            async move { inner.describe_floating_ip(&id, &description, &|| true).await }.boxed()
        })
        .await
    }

    async fn delete_floating_ip(&self, id: &FloatingIpId, check: &mut DeletionCheck<'_>) -> Result<bool, Error> {
        self.wire.await_turn().await;
        if !may_delete(self, id, check).await? {
            return Ok(false);
        }
        let (id, server, witness, sent) = (id.clone(), self.server.clone(), self.witness.clone(), Instant::now());
        self.write("delete floating IP", id.to_string(), move |inner| {
            let (id, server, witness) = (id.clone(), server.clone(), witness.clone());
            async move {
                let deleted = witness.floating_ip(&id);
                inner.delete_floating_ip(&id, &mut |_| DeletionStep::Delete).await?;
                deleted.iter().for_each(|fip| check_deletion(&server, &witness, fip, sent));
                witness.note_deleted(&id);
                Ok(true)
            }
            .boxed()
        })
        .await
    }

    async fn add_tag(&self, id: &FloatingIpId, tag: &str, may_send: &MaySend<'_>) -> Result<(), Error> {
        let (id, tag) = (id.clone(), tag.to_owned());
        self.await_turn("tag floating IP", may_send).await?;
        self.write("tag floating IP", format!("{id} {tag}"), move |inner| {
            let (id, tag) = (id.clone(), tag.clone());
            async move { inner.add_tag(&id, &tag, &|| true).await }.boxed()
        })
        .await
    }

    async fn remove_tag(&self, id: &FloatingIpId, tag: &str, may_send: &MaySend<'_>) -> Result<(), Error> {
        let (id, tag) = (id.clone(), tag.to_owned());
        self.await_turn("untag floating IP", may_send).await?;
        self.write("untag floating IP", format!("{id} {tag}"), move |inner| {
            let (id, tag) = (id.clone(), tag.clone());
            async move { inner.remove_tag(&id, &tag, &|| true).await }.boxed()
        })
        .await
    }

    async fn find_networks(&self, filter: &Filter) -> Result<Vec<Network>, Error> {
        let filter = filter.clone();
        self.read("find networks", move |inner| {
            let filter = filter.clone();
            async move { inner.find_networks(&filter).await }.boxed()
        })
        .await
    }

    async fn find_subnets(&self, filter: &Filter) -> Result<Vec<Subnet>, Error> {
        let filter = filter.clone();
        self.read("find subnets", move |inner| {
            let filter = filter.clone();
            async move { inner.find_subnets(&filter).await }.boxed()
        })
        .await
    }

    async fn has_tags(&self) -> Result<bool, Error> {
        self.read("list extensions", |inner| async move { inner.has_tags().await }.boxed()).await
    }

    async fn quota(&self) -> Result<Option<Quota>, Error> {
        self.read("read quota", |inner| async move { inner.quota().await }.boxed()).await
    }
}
