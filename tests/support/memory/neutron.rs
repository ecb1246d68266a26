//! A session with the cloud in memory: the same answers as the real one, from [`State`].

use async_trait::async_trait;
use caip_openstack::floating_ip::{FloatingIp, FloatingIpId, ProjectId};
use caip_openstack::openstack::credentials::Fingerprint;
use caip_openstack::openstack::{
    DeletionCheck, Error, ErrorKind, Filter, MaySend, Network, Neutron, NewFloatingIp, ProjectScope, Quota, Subnet,
};

use super::state::{self, Alteration, NetworkRow, State, SubnetRow};
use super::{MemoryCloud, may_delete};

/// A session.
#[derive(Clone)]
pub struct MemoryNeutron {
    pub(super) cloud: MemoryCloud,
    pub(super) login: Fingerprint,
    pub(super) scope: ProjectScope,
    /// What a login's project was when the session began.
    pub(super) project: ProjectId,
    /// Whether nothing is where it leads.
    pub(super) is_elsewhere: bool,
    /// How often Neutron had moved when the session began; none for calls that were sent before it moved.
    pub(super) moves: Option<u32>,
}

impl MemoryNeutron {
    /// The session of calls that have been sent: they reach Neutron although it moves meanwhile.
    pub fn of_sent_calls(&self) -> Self {
        Self { moves: None, ..self.clone() }
    }

    /// Makes one call, whose work is done in one step.
    async fn call<T>(
        &self,
        operation: &'static str,
        step: impl FnOnce(&mut State, &ProjectId) -> Result<T, Error> + Send,
    ) -> Result<T, Error> {
        // Other tasks get a turn at each call, as they would on a network.
        tokio::task::yield_now().await;
        let mut state = self.cloud.state();
        if self.moves.is_some_and(|moves| moves != state.neutron_moves) {
            return Err(Error::new(ErrorKind::Unreachable, operation, "Neutron is elsewhere"));
        }
        let login = state.log_in(&self.login).map_err(|error| Error { operation, ..error })?;
        if self.moves.is_some() && login.project != self.project {
            let message = "the token is for another project";
            return Err(Error::new(ErrorKind::Credentials, "authenticate", message));
        }
        step(&mut state, &self.project).map_err(|error| Error { operation, ..error })
    }
}

#[async_trait]
impl Neutron for MemoryNeutron {
    fn scope(&self) -> &ProjectScope {
        &self.scope
    }

    fn is_current(&self) -> bool {
        let state = self.cloud.state();
        let login = state.log_in(&self.login).ok();
        self.moves == Some(state.neutron_moves) && login.is_none_or(|login| login.project == self.project)
    }

    async fn list_floating_ips(&self) -> Result<Vec<FloatingIp>, Error> {
        self.call("list floating IPs", |state, project| {
            if state.alteration == Alteration::HidesFloatingIps || state.blind.contains(&self.login) {
                return Ok(Vec::new());
            }
            Ok(state.floating_ips.values().filter(|ip| &ip.project == project).map(|ip| state.show(ip)).collect())
        })
        .await
    }

    async fn get_floating_ip(&self, id: &FloatingIpId) -> Result<FloatingIp, Error> {
        self.call("read floating IP", |state, project| {
            let ip = state.own(project, id)?.clone();
            if state.alteration == Alteration::HidesFloatingIps || state.blind.contains(&self.login) {
                let message = "404: The resource could not be found.";
                return Err(state::refusal(ErrorKind::Rejected, 404, "HTTPNotFound", message));
            }
            Ok(state.show(&ip))
        })
        .await
    }

    async fn create_floating_ip(&self, new: &NewFloatingIp, _: &MaySend<'_>) -> Result<FloatingIp, Error> {
        let operation = "create floating IP";
        let checked = self.cloud.state().check_new(&self.scope.project, new, self.is_elsewhere);
        // Other requests may come between the check of the quota and the choice of an address, as in Neutron.
        self.call(operation, |state, project| checked.and_then(|()| state.create(project, new, self.cloud.clock.now())))
            .await
    }

    async fn describe_floating_ip(
        &self,
        id: &FloatingIpId,
        description: &str,
        _: &MaySend<'_>,
    ) -> Result<FloatingIp, Error> {
        self.call("describe floating IP", |state, project| {
            state::check_description(description)?;
            state.permit(Alteration::RefusesDescriptions, "update_floatingip")?;
            let old = state.own(project, id)?.description.clone();
            let stored = state.stored(description, &old);
            let ip = state.own(project, id)?;
            if ip.description != stored {
                ip.description = stored;
                state::touch(ip, self.cloud.clock.now());
            }
            let ip = ip.clone();
            Ok(state.show(&ip))
        })
        .await
    }

    async fn delete_floating_ip(&self, id: &FloatingIpId, check: &mut DeletionCheck<'_>) -> Result<bool, Error> {
        if !may_delete(self, id, check).await? {
            return Ok(false);
        }
        self.call("delete floating IP", |state, project| {
            // Even an attached one.
            state.own(project, id)?;
            state.permit(Alteration::RefusesDeletions, "delete_floatingip")?;
            match state.alteration {
                Alteration::FailsDeletions => {
                    return Err(Error::new(ErrorKind::Server, "delete floating IP", "500: the server has a bug"));
                }
                Alteration::IgnoresDeletions => {}
                _ => drop(state.floating_ips.remove(id)),
            }
            Ok(true)
        })
        .await
    }

    async fn add_tag(&self, id: &FloatingIpId, tag: &str, _: &MaySend<'_>) -> Result<(), Error> {
        self.call("tag floating IP", |state, project| {
            state.permit(Alteration::RefusesTags, "update_floatingip:tags")?;
            let ip = state.own_for_tags(project, id, "update_floatingip:tags")?;
            state::tag(ip, tag, self.cloud.clock.now())
        })
        .await
    }

    async fn remove_tag(&self, id: &FloatingIpId, tag: &str, _: &MaySend<'_>) -> Result<(), Error> {
        let result = self.call("untag floating IP", |state, project| {
            state.permit(Alteration::RefusesTags, "delete_floatingip:tags")?;
            let ip = state.own_for_tags(project, id, "delete_floatingip:tags")?;
            if ip.tags.remove(tag) {
                state::touch(ip, self.cloud.clock.now());
            }
            Ok(())
        });
        result.await.or_else(|error| if error.kind == ErrorKind::NotFound { Ok(()) } else { Err(error) })
    }

    async fn find_networks(&self, filter: &Filter) -> Result<Vec<Network>, Error> {
        let is_elsewhere = self.is_elsewhere;
        self.call("find networks", |state, project| {
            let is_match = |NetworkRow { network, project: owner }: &&NetworkRow| {
                // A project sees its own networks and the external ones.
                !is_elsewhere
                    && (network.is_external || owner == project)
                    && matches(filter, network.id.as_str(), &network.name)
                    && is(&filter.project_id, owner.as_str())
                    && filter.is_external.is_none_or(|wanted| wanted == network.is_external)
            };
            Ok(state.networks.iter().filter(is_match).map(|row| row.network.clone()).collect())
        })
        .await
    }

    async fn find_subnets(&self, filter: &Filter) -> Result<Vec<Subnet>, Error> {
        self.call("find subnets", |state, _| {
            let is_match = |SubnetRow { subnet, addresses }: &&SubnetRow| {
                let version = if addresses.start().is_ipv4() { 4 } else { 6 };
                matches(filter, subnet.id.as_str(), &subnet.name)
                    && is(&filter.network_id, subnet.network.as_str())
                    && filter.ip_version.is_none_or(|wanted| wanted == version)
                    // The subnets here have no CIDR.
                    && is(&filter.cidr, "")
            };
            Ok(state.subnets.iter().filter(is_match).map(|row| row.subnet.clone()).collect())
        })
        .await
    }

    async fn has_tags(&self) -> Result<bool, Error> {
        self.call("list extensions", |_, _| Ok(!self.is_elsewhere)).await
    }

    async fn quota(&self) -> Result<Option<Quota>, Error> {
        self.call("read quota", |state, project| Ok(Some(state.quota(project)))).await
    }
}

/// The part of a filter that networks and subnets share. Neither has tags or a description here.
fn matches(filter: &Filter, id: &str, name: &str) -> bool {
    is(&filter.id, id)
        && is(&filter.name, name)
        && is(&filter.description, "")
        && filter.tags.is_empty()
        && filter.tags_any.is_empty()
}

fn is(wanted: &Option<String>, value: &str) -> bool {
    wanted.as_deref().is_none_or(|wanted| wanted == value)
}
