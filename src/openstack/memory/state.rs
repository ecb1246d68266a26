//! What the in-memory Neutron holds, and its rules. Every function is one step that nothing else can come between.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

use jiff::{SignedDuration, Timestamp};
use sha2::{Digest, Sha256};

use super::super::session::answer::refusal;
use super::super::{Error, Network, NewFloatingIp, Quota, Subnet};
use crate::floating_ip::{FloatingIp, FloatingIpId, NetworkId, PortId, ProjectId, SubnetId};

/// Neutron's limits, as measured.
const LONGEST_TEXT: usize = 255;
const MOST_TAGS: usize = 50;

pub(super) struct State {
    pub(super) projects: BTreeMap<ProjectId, Option<u32>>,
    /// User and password, or credential and secret, to project.
    pub(super) logins: BTreeMap<(String, String), ProjectId>,
    pub(super) networks: Vec<NetworkRow>,
    pub(super) subnets: Vec<SubnetRow>,
    pub(super) floating_ips: BTreeMap<FloatingIpId, FloatingIp>,
    pub(super) has_tags: bool,
    pub(super) has_quotas: bool,
    ids: u64,
}

/// A network with what filters look at.
pub(super) struct NetworkRow {
    pub(super) network: Network,
    pub(super) tags: BTreeSet<String>,
    pub(super) description: String,
    pub(super) project: ProjectId,
}

/// A subnet with the addresses that floating IPs come from.
pub(super) struct SubnetRow {
    pub(super) subnet: Subnet,
    pub(super) addresses: RangeInclusive<IpAddr>,
}

impl Default for State {
    fn default() -> Self {
        Self {
            projects: BTreeMap::new(),
            logins: BTreeMap::new(),
            networks: Vec::new(),
            subnets: Vec::new(),
            floating_ips: BTreeMap::new(),
            has_tags: true,
            has_quotas: true,
            ids: 0,
        }
    }
}

impl State {
    /// An id as Neutron's look, in no order, and the same in each run.
    pub(super) fn new_id(&mut self) -> String {
        self.ids += 1;
        let hash = Sha256::digest(self.ids.to_be_bytes());
        let hex: String = hash[..16].iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{}-{}-4{}-8{}-{}", &hex[..8], &hex[8..12], &hex[13..16], &hex[17..20], &hex[20..])
    }

    pub(super) fn quota(&self, project: &ProjectId) -> Quota {
        let used = self.floating_ips.values().filter(|ip| &ip.project == project).count();
        let limit = self.projects.get(project).copied().flatten();
        Quota { limit, used: u32::try_from(used).unwrap_or(u32::MAX) }
    }

    /// The first half of a POST: everything that Neutron checks before it takes an address.
    pub(super) fn check_new(&self, project: &ProjectId, new: &NewFloatingIp) -> Result<(), Error> {
        check_description(&new.description)?;
        let id = new.network.as_str();
        let network = self.networks.iter().find(|row| row.network.id == new.network);
        let Some(network) = network else {
            // The real one looks at the form of an id first.
            return Err(if is_uuid(id) {
                refusal(404, "NetworkNotFound", &format!("Network {id} could not be found."))
            } else {
                let message = format!("Invalid input for floating_network_id. Reason: '{id}' is not a valid UUID.");
                refusal(400, "HTTPBadRequest", &message)
            });
        };
        if !network.network.is_external {
            let message = format!("Bad floatingip request: Network {id} is not a valid external network.");
            return Err(refusal(400, "BadRequest", &message));
        }
        if let Some(subnet) = &new.subnet {
            let row = self.subnets.iter().find(|row| &row.subnet.id == subnet);
            let row =
                row.ok_or_else(|| refusal(404, "SubnetNotFound", &format!("Subnet {subnet} could not be found.")))?;
            if row.subnet.network != new.network {
                let message = format!(
                    "Invalid input for operation: Failed to create port on network {id}, because fixed_ips included \
                     invalid subnet {subnet}."
                );
                return Err(refusal(400, "InvalidInput", &message));
            }
        }
        let quota = self.quota(project);
        if quota.limit.is_some_and(|limit| quota.used >= limit) {
            return Err(refusal(409, "OverQuota", "Quota exceeded for resources: ['floatingip']."));
        }
        Ok(())
    }

    /// The second half: takes an address. Between the halves others may have done the same, so that the quota is not
    /// strict and the addresses are.
    pub(super) fn create(
        &mut self,
        project: &ProjectId,
        new: &NewFloatingIp,
        now: Timestamp,
    ) -> Result<FloatingIp, Error> {
        let id = FloatingIpId::new(self.new_id());
        let address = self.free_address(&new.network, new.subnet.as_ref()).ok_or_else(|| {
            let message = format!("No more IP addresses available on network {}.", new.network);
            refusal(409, "IpAddressGenerationFailure", &message)
        })?;
        Ok(self.insert(id, project, &new.network, address, &new.description, now))
    }

    pub(super) fn insert(
        &mut self,
        id: FloatingIpId,
        project: &ProjectId,
        network: &NetworkId,
        address: IpAddr,
        description: &str,
        now: Timestamp,
    ) -> FloatingIp {
        let ip = FloatingIp {
            id: id.clone(),
            address,
            network: network.clone(),
            project: project.clone(),
            port: None,
            is_forwarded: false,
            description: description.to_owned(),
            tags: BTreeSet::new(),
            dns_name: String::new(),
            changed_at: Some(whole_seconds(now)),
        };
        self.floating_ips.insert(id, ip.clone());
        ip
    }

    /// Neutron takes one at random, and one that was just freed as well as any other.
    fn free_address(&self, network: &NetworkId, subnet: Option<&SubnetId>) -> Option<IpAddr> {
        let taken: BTreeSet<IpAddr> =
            self.floating_ips.values().filter(|ip| &ip.network == network).map(|ip| ip.address).collect();
        let mut subnets = self
            .subnets
            .iter()
            .filter(|row| &row.subnet.network == network && subnet.is_none_or(|wanted| wanted == &row.subnet.id));
        subnets.find_map(|row| {
            let (first, last) = (number(row.addresses.start()), number(row.addresses.end()));
            let size = (last - first).saturating_add(1);
            let hash = Sha256::digest((!self.ids).to_be_bytes());
            let start = hash[..8].iter().fold(0_u128, |sum, byte| sum << 8 | u128::from(*byte)) % size;
            // One more step than there are addresses taken finds a free one, if there is any.
            let steps = size.min(taken.len() as u128 + 1);
            (0..steps)
                .map(|step| address(row.addresses.start(), first + (start + step) % size))
                .find(|candidate| !taken.contains(candidate))
        })
    }

    /// The project's floating IP; another project's is as little there as none.
    pub(super) fn own(&mut self, project: &ProjectId, id: &FloatingIpId) -> Result<&mut FloatingIp, Error> {
        let gone = || refusal(404, "FloatingIPNotFound", &format!("Floating IP {id} could not be found"));
        self.floating_ips.get_mut(id).filter(|ip| &ip.project == project).ok_or_else(gone)
    }

    /// The floating IP that a tag call is about: here Neutron says more of another project's, and stumbles over none.
    pub(super) fn own_for_tags(
        &mut self,
        project: &ProjectId,
        id: &FloatingIpId,
        rule: &str,
    ) -> Result<&mut FloatingIp, Error> {
        if !self.has_tags {
            return Err(refusal(404, "HTTPNotFound", "The resource could not be found."));
        }
        match self.floating_ips.get_mut(id) {
            None => {
                let message = "Request Failed: internal server error while processing your request.";
                Err(refusal(500, "HTTPInternalServerError", message))
            }
            Some(ip) if &ip.project != project => {
                let message = format!("rule:{rule} is disallowed by policy");
                Err(refusal(403, "PolicyNotAuthorized", &message))
            }
            Some(ip) => Ok(ip),
        }
    }
}

/// What may be changed in place, with the time of the change.
pub(super) fn touch(ip: &mut FloatingIp, now: Timestamp) {
    ip.changed_at = Some(whole_seconds(now));
}

pub(super) fn tag(ip: &mut FloatingIp, tag: &str, now: Timestamp) -> Result<(), Error> {
    if tag.chars().count() > LONGEST_TEXT {
        let message = format!("Invalid input for operation: '{tag}' exceeds maximum length of 255.");
        return Err(refusal(400, "InvalidInput", &message));
    }
    if ip.tags.len() >= MOST_TAGS && !ip.tags.contains(tag) {
        let message = "Bad floatingips request: The number of tags exceed the per-resource limit of 50.";
        return Err(refusal(400, "BadRequest", message));
    }
    if ip.tags.insert(tag.to_owned()) {
        touch(ip, now);
    }
    Ok(())
}

pub(super) fn untag(ip: &mut FloatingIp, tag: &str, now: Timestamp) -> Result<(), Error> {
    if !ip.tags.remove(tag) {
        return Err(refusal(404, "TagNotFound", &format!("Tag {tag} could not be found.")));
    }
    touch(ip, now);
    Ok(())
}

pub(super) fn check_description(description: &str) -> Result<(), Error> {
    if description.chars().count() <= LONGEST_TEXT {
        return Ok(());
    }
    let message = format!("Invalid input for description. Reason: '{description}' exceeds maximum length of 255.");
    Err(refusal(400, "HTTPBadRequest", &message))
}

/// Attaching is the user's; a port that is given takes the floating IP from another without a word.
pub(super) fn set_port(ip: &mut FloatingIp, port: Option<PortId>, now: Timestamp) {
    ip.port = port;
    touch(ip, now);
}

/// Neutron's times have no fractions.
fn whole_seconds(now: Timestamp) -> Timestamp {
    now - SignedDuration::from_nanos(i64::from(now.subsec_nanosecond()))
}

fn is_uuid(id: &str) -> bool {
    id.len() == 36 && id.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
}

fn number(address: &IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u32::from(*address).into(),
        IpAddr::V6(address) => (*address).into(),
    }
}

fn address(like: &IpAddr, number: u128) -> IpAddr {
    match like {
        IpAddr::V4(_) => Ipv4Addr::from(u32::try_from(number).unwrap_or(u32::MAX)).into(),
        IpAddr::V6(_) => Ipv6Addr::from(number).into(),
    }
}
