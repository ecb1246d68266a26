//! The in-memory session: the same answers as the real one, from [`State`], with faults in between.

use std::sync::Arc;

use async_trait::async_trait;

use super::super::neutron::about_the_network;
use super::super::{
    Error, ErrorKind, Filter, FloatingIp, FloatingIpId, Network, Neutron, NewFloatingIp, Quota, Scope, Subnet,
};
use super::cloud::Cloud;
use super::faults::{Call, Moment, strike};
use super::state::{self, State};
use crate::floating_ip::ProjectId;

/// A session with the in-memory cloud.
pub(super) struct MemoryNeutron {
    pub(super) cloud: Arc<Cloud>,
    pub(super) scope: Scope,
    /// What it logged in with, looked up at each call: a session ends when its login is taken away.
    pub(super) login: (String, String),
}

/// A call that does not name a floating IP or a text.
const PLAIN: (Option<&FloatingIpId>, Option<&str>) = (None, None);

impl MemoryNeutron {
    /// One call: logged, with faults before and after, and done in one step in between.
    async fn call<T>(
        &self,
        method: &'static str,
        operation: &'static str,
        (id, text): (Option<&FloatingIpId>, Option<&str>),
        step: impl FnOnce(&mut State, &ProjectId) -> Result<T, Error> + Send,
    ) -> Result<T, Error>
    where
        T: Send,
    {
        let named = |error: Error| Error { operation, ..error };
        let call = self.cloud.log(Call {
            number: 0,
            operation: method,
            project: Some(self.scope.project.clone()),
            id: id.cloned(),
            text: text.map(str::to_owned),
        });
        strike(self.cloud.fault(Moment::Before, &call), &call).await.map_err(named)?;
        // Others get their turn at each call, as they would on a network.
        tokio::task::yield_now().await;
        let result = self.admitted().and_then(|()| step(&mut self.cloud.state(), &self.scope.project));
        strike(self.cloud.fault(Moment::After, &call), &call).await.map_err(named)?;
        result.map_err(named)
    }

    fn admitted(&self) -> Result<(), Error> {
        if self.cloud.state().logins.contains_key(&self.login) {
            return Ok(());
        }
        Err(Error { status: Some(401), ..super::cloud::refused() })
    }

    /// See the real one: a 500 to a tag call means a look.
    async fn explain_500(&self, id: &FloatingIpId, error: Error) -> Error {
        match self.get_floating_ip(id).await {
            Err(gone) if gone.kind == ErrorKind::NotFound => Error { operation: error.operation, ..gone },
            _ => error,
        }
    }
}

#[async_trait]
impl Neutron for MemoryNeutron {
    fn scope(&self) -> &Scope {
        &self.scope
    }

    async fn list_floating_ips(&self) -> Result<Vec<FloatingIp>, Error> {
        self.call("list_floating_ips", "list floating IPs", PLAIN, |state, project| {
            Ok(state.floating_ips.values().filter(|ip| &ip.project == project).map(|ip| shown(state, ip)).collect())
        })
        .await
    }

    async fn get_floating_ip(&self, id: &FloatingIpId) -> Result<FloatingIp, Error> {
        self.call("get_floating_ip", "read floating IP", (Some(id), None), |state, project| {
            let ip = state.own(project, id)?.clone();
            Ok(shown(state, &ip))
        })
        .await
    }

    async fn create_floating_ip(&self, new: &NewFloatingIp) -> Result<FloatingIp, Error> {
        let (method, operation) = ("create_floating_ip", "create floating IP");
        let call = self.cloud.log(Call {
            number: 0,
            operation: method,
            project: Some(self.scope.project.clone()),
            id: None,
            text: Some(new.description.clone()),
        });
        let named = |error: Error| Error { operation, ..error };
        strike(self.cloud.fault(Moment::Before, &call), &call).await.map_err(named)?;
        let checked = self.admitted().and_then(|()| self.cloud.state().check_new(&self.scope.project, new));
        // Between the look at the quota and the address others do the same: Neutron's quota is not strict.
        tokio::task::yield_now().await;
        let result = checked.and_then(|()| {
            let now = self.cloud.clock.now();
            let mut state = self.cloud.state();
            state.create(&self.scope.project, new, now).map(|ip| shown(&state, &ip))
        });
        strike(self.cloud.fault(Moment::After, &call), &call).await.map_err(named)?;
        result.map_err(|error| about_the_network(named(error)))
    }

    async fn describe_floating_ip(&self, id: &FloatingIpId, description: &str) -> Result<FloatingIp, Error> {
        let about = (Some(id), Some(description));
        self.call("describe_floating_ip", "describe floating IP", about, |state, project| {
            state::check_description(description)?;
            let ip = state.own(project, id)?;
            if ip.description != description {
                ip.description = description.to_owned();
                state::touch(ip, self.cloud.clock.now());
            }
            let ip = ip.clone();
            Ok(shown(state, &ip))
        })
        .await
    }

    async fn delete_floating_ip(&self, id: &FloatingIpId) -> Result<(), Error> {
        self.call("delete_floating_ip", "delete floating IP", (Some(id), None), |state, project| {
            // With a port or without.
            state.own(project, id)?;
            state.floating_ips.remove(id);
            Ok(())
        })
        .await
    }

    async fn add_tag(&self, id: &FloatingIpId, tag: &str) -> Result<(), Error> {
        let now = self.cloud.clock.now();
        let result = self
            .call("add_tag", "tag floating IP", (Some(id), Some(tag)), |state, project| {
                state::tag(state.own_for_tags(project, id, "update_floatingip:tags")?, tag, now)
            })
            .await;
        match result {
            Err(error) if error.status == Some(500) => Err(self.explain_500(id, error).await),
            other => other,
        }
    }

    async fn remove_tag(&self, id: &FloatingIpId, tag: &str) -> Result<(), Error> {
        let now = self.cloud.clock.now();
        let result = self
            .call("remove_tag", "untag floating IP", (Some(id), Some(tag)), |state, project| {
                state::untag(state.own_for_tags(project, id, "delete_floatingip:tags")?, tag, now)
            })
            .await;
        let result = match result {
            Err(error) if error.status == Some(500) => Err(self.explain_500(id, error).await),
            other => other,
        };
        result.or_else(|error| if error.kind == ErrorKind::NotFound { Ok(()) } else { Err(error) })
    }

    async fn find_networks(&self, filter: &Filter) -> Result<Vec<Network>, Error> {
        self.call("find_networks", "find networks", PLAIN, |state, project| {
            let is_match = |row: &&state::NetworkRow| {
                // A project sees its own networks and the external ones.
                let is_visible = row.network.is_external || &row.project == project;
                let none = |tags: &[String], is_there: bool| tags.is_empty() || !is_there;
                let all = |tags: &[String]| tags.iter().all(|tag| row.tags.contains(tag));
                let any = |tags: &[String]| tags.iter().any(|tag| row.tags.contains(tag));
                is_visible
                    && is(&filter.id, row.network.id.as_str())
                    && is(&filter.name, &row.network.name)
                    && is(&filter.description, &row.description)
                    && is(&filter.project_id, row.project.as_str())
                    && filter.is_external.is_none_or(|wanted| wanted == row.network.is_external)
                    && all(&filter.tags)
                    && (filter.tags_any.is_empty() || any(&filter.tags_any))
                    && none(&filter.not_tags, all(&filter.not_tags))
                    && none(&filter.not_tags_any, any(&filter.not_tags_any))
            };
            Ok(state.networks.iter().filter(is_match).map(|row| row.network.clone()).collect())
        })
        .await
    }

    async fn find_subnets(&self, filter: &Filter) -> Result<Vec<Subnet>, Error> {
        self.call("find_subnets", "find subnets", PLAIN, |state, _| {
            let is_match = |row: &&state::SubnetRow| {
                let version = if row.addresses.start().is_ipv4() { 4 } else { 6 };
                is(&filter.id, row.subnet.id.as_str())
                    && is(&filter.name, &row.subnet.name)
                    && is(&filter.network_id, row.subnet.network.as_str())
                    && filter.ip_version.is_none_or(|wanted| wanted == version)
                    // The subnets here have no tags, descriptions or ranges.
                    && filter.tags.is_empty() && filter.tags_any.is_empty()
                    && is(&filter.description, "") && is(&filter.cidr, "")
            };
            Ok(state.subnets.iter().filter(is_match).map(|row| row.subnet.clone()).collect())
        })
        .await
    }

    async fn has_tags(&self) -> Result<bool, Error> {
        self.call("has_tags", "list extensions", PLAIN, |state, _| Ok(state.has_tags)).await
    }

    async fn quota(&self) -> Result<Option<Quota>, Error> {
        self.call("quota", "read quota", PLAIN, |state, project| Ok(state.has_quotas.then(|| state.quota(project))))
            .await
    }
}

/// As a listing shows it: without the extension there are no tags to see.
fn shown(state: &State, ip: &FloatingIp) -> FloatingIp {
    let mut ip = ip.clone();
    if !state.has_tags {
        ip.tags.clear();
    }
    ip
}

fn is(wanted: &Option<String>, value: &str) -> bool {
    wanted.as_deref().is_none_or(|wanted| wanted == value)
}
