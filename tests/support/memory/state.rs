//! What the Neutron in memory holds, and its rules. Every function is one atomic step.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

use caip_openstack::floating_ip::{FloatingIp, FloatingIpId, NetworkId, ProjectId, SubnetId};
use caip_openstack::openstack::credentials::Fingerprint;
use caip_openstack::openstack::{Error, ErrorKind, Network, NewFloatingIp, Quota, Subnet};
use jiff::{SignedDuration, Timestamp};
use sha2::{Digest, Sha256};

/// Neutron's limits, as measured.
const LONGEST_TEXT: usize = 255;
const MOST_TAGS: usize = 50;

#[derive(Default)]
pub(super) struct State {
    pub(super) quotas: BTreeMap<ProjectId, Option<u32>>,
    pub(super) has_been_limited: bool,
    pub(super) logins: BTreeMap<Fingerprint, Login>,
    pub(super) passwords: BTreeMap<String, String>,
    /// Those whose role may see no floating IP.
    pub(super) blind: BTreeSet<Fingerprint>,
    pub(super) networks: Vec<NetworkRow>,
    pub(super) subnets: Vec<SubnetRow>,
    pub(super) floating_ips: BTreeMap<FloatingIpId, FloatingIp>,
    pub(super) region: String,
    /// Keystone's URL in Secrets that are written from now on; empty for the usual one.
    pub(super) keystone: String,
    /// How often Neutron got another URL.
    pub(super) neutron_moves: u32,
    pub(super) alteration: Alteration,
    ids: u64,
}

/// Where credentials lead.
#[derive(Clone)]
pub(super) struct Login {
    pub(super) project: ProjectId,
    /// Another region than the cloud's usual one, or a project of nobody's: nothing is there.
    pub(super) elsewhere: Option<Elsewhere>,
}

/// A place in which no floating IP is. A region or a project elsewhere has no network and no tags either.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Elsewhere {
    Region,
    Project,
    /// A tenant's own Keystone, whose answers make the code that reads them panic.
    Panic,
    /// A tenant's own Keystone, which says that the token is for the project, and names the same Neutron.
    Keystone,
}

impl Elsewhere {
    pub const REGION: &'static str = "RegionElsewhere";
}

/// What the cloud's policy, or a proxy before it, does to the fields in which marks are written, or to those that show what
/// is attached; or which writes it refuses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Alteration {
    #[default]
    None,
    /// Creates without the description that was asked for.
    DropsWhenCreated,
    /// Ignores a new description, and answers with the old one.
    KeepsOldDescription,
    /// Stores every description in another form.
    RewritesDescription,
    /// Stores descriptions, and shows none.
    HidesDescriptions,
    /// Stores tags, and shows none.
    HidesTags,
    /// Shows no port of a floating IP.
    HidesPorts,
    /// Shows no port forwardings.
    HidesForwardings,
    /// Shows no floating IP at all, as where the user's role does not allow to see them.
    HidesFloatingIps,
    RefusesCreations,
    RefusesDescriptions,
    /// To add a tag, or to remove one.
    RefusesTags,
    RefusesDeletions,
    /// Answers them with 500, and deletes nothing.
    FailsDeletions,
    /// Accepts them, and deletes nothing.
    IgnoresDeletions,
}

impl Alteration {
    /// Whether marks are written and shown as they should be.
    pub fn spares_marks(self) -> bool {
        use Alteration::*;
        match self {
            DropsWhenCreated | KeepsOldDescription | RewritesDescription | HidesDescriptions | HidesTags => false,
            None | HidesPorts | HidesForwardings | HidesFloatingIps | RefusesCreations | RefusesDescriptions
            | RefusesTags | RefusesDeletions | FailsDeletions | IgnoresDeletions => true,
        }
    }

    /// Whether marks are stored and not shown.
    pub fn hides_marks(self) -> bool {
        matches!(self, Self::HidesDescriptions | Self::HidesTags)
    }
}

pub(super) struct NetworkRow {
    pub(super) network: Network,
    pub(super) project: ProjectId,
}

/// A subnet with the addresses that floating IPs come from.
pub(super) struct SubnetRow {
    pub(super) subnet: Subnet,
    pub(super) addresses: RangeInclusive<IpAddr>,
}

impl State {
    /// An id as Neutron's look, in no order, and the same in each run.
    pub(super) fn new_id(&mut self) -> String {
        self.ids += 1;
        let hash = Sha256::digest(self.ids.to_be_bytes());
        let hex: String = hash[..16].iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{}-{}-4{}-8{}-{}", &hex[..8], &hex[8..12], &hex[13..16], &hex[17..20], &hex[20..])
    }

    /// The project of these credentials, while they are valid.
    pub(super) fn log_in(&self, login: &Fingerprint) -> Result<Login, Error> {
        self.logins.get(login).cloned().ok_or_else(|| {
            let message = "Keystone refuses the credentials";
            Error { status: Some(401), ..Error::new(ErrorKind::Unauthorized, "authenticate", message) }
        })
    }

    pub(super) fn replace_login(&mut self, old: &Fingerprint, new: Fingerprint) {
        if let Some(login) = self.logins.remove(old) {
            self.logins.insert(new, login);
        }
    }

    /// A floating IP as the cloud shows it.
    pub(super) fn show(&self, ip: &FloatingIp) -> FloatingIp {
        let mut shown = ip.clone();
        match self.alteration {
            Alteration::HidesDescriptions => shown.description.clear(),
            Alteration::HidesTags => shown.tags.clear(),
            Alteration::HidesPorts => shown.port = None,
            Alteration::HidesForwardings => shown.is_forwarded = false,
            _ => {}
        }
        shown
    }

    /// The cloud's policy may refuse a write.
    pub(super) fn permit(&self, refusing: Alteration, rule: &str) -> Result<(), Error> {
        if self.alteration != refusing {
            return Ok(());
        }
        let message = format!("rule:{rule} is disallowed by policy");
        Err(refusal(ErrorKind::Forbidden, 403, "PolicyNotAuthorized", &message))
    }

    /// What the cloud stores where this description is written over another.
    pub(super) fn stored(&self, description: &str, old: &str) -> String {
        match self.alteration {
            Alteration::KeepsOldDescription => old.to_owned(),
            Alteration::RewritesDescription => format!("Managed by the cloud. {description}"),
            _ => description.to_owned(),
        }
    }

    pub(super) fn quota(&self, project: &ProjectId) -> Quota {
        let used = self.floating_ips.values().filter(|ip| &ip.project == project).count();
        let limit = self.quotas.get(project).copied().flatten();
        Quota { limit, used: u32::try_from(used).unwrap_or(u32::MAX) }
    }

    pub(super) fn is_quota_used_up(&self, project: &ProjectId) -> bool {
        let quota = self.quota(project);
        quota.limit.is_some_and(|limit| quota.used >= limit)
    }

    /// The first half of a POST: everything that Neutron checks before it takes an address.
    pub(super) fn check_new(&self, project: &ProjectId, new: &NewFloatingIp, is_elsewhere: bool) -> Result<(), Error> {
        check_description(&new.description)?;
        self.permit(Alteration::RefusesCreations, "create_floatingip")?;
        let id = &new.network;
        let bad_network =
            |status, error_type, message: String| Err(refusal(ErrorKind::BadNetwork, status, error_type, &message));
        match self.networks.iter().find(|row| &row.network.id == id && !is_elsewhere) {
            None => return bad_network(404, "NetworkNotFound", format!("Network {id} could not be found.")),
            Some(row) if !row.network.is_external => {
                let message = format!("Bad floatingip request: Network {id} is not a valid external network.");
                return bad_network(400, "BadRequest", message);
            }
            Some(_) => {}
        }
        if let Some(subnet) = &new.subnet {
            match self.subnets.iter().find(|row| &row.subnet.id == subnet) {
                None => return bad_network(404, "SubnetNotFound", format!("Subnet {subnet} could not be found.")),
                Some(row) if row.subnet.network != *id => {
                    return bad_network(400, "InvalidInput", format!("subnet {subnet} is not of network {id}"));
                }
                Some(_) => {}
            }
        }
        if self.is_quota_used_up(project) {
            let message = "Quota exceeded for resources: ['floatingip'].";
            return Err(refusal(ErrorKind::OverQuota, 409, "OverQuota", message));
        }
        Ok(())
    }

    /// The second half: takes an address. Other requests may come between the halves, so the quota is not strict, but
    /// addresses are unique.
    pub(super) fn create(
        &mut self,
        project: &ProjectId,
        new: &NewFloatingIp,
        now: Timestamp,
    ) -> Result<FloatingIp, Error> {
        let id = FloatingIpId::new(self.new_id());
        let address = self.free_address(&new.network, new.subnet.as_ref()).ok_or_else(|| {
            let message = format!("No more IP addresses available on network {}.", new.network);
            refusal(ErrorKind::NoMoreAddresses, 409, "IpAddressGenerationFailure", &message)
        })?;
        let description = match self.alteration {
            Alteration::DropsWhenCreated => String::new(),
            Alteration::RewritesDescription => self.stored(&new.description, ""),
            _ => new.description.clone(),
        };
        let ip = self.insert(id, project, &new.network, address, &description, now);
        Ok(self.show(&ip))
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
            created_at: Some(whole_seconds(now)),
        };
        self.floating_ips.insert(id, ip.clone());
        ip
    }

    /// Pseudo-random, as Neutron's choice is: an address that has just been freed is as likely as any other.
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

    /// The project's floating IP; those of other projects are not found.
    pub(super) fn own(&mut self, project: &ProjectId, id: &FloatingIpId) -> Result<&mut FloatingIp, Error> {
        self.floating_ips.get_mut(id).filter(|ip| &ip.project == project).ok_or_else(|| not_found(id))
    }

    /// The floating IP that a tag call is about. Here Neutron does tell that another project's exists.
    pub(super) fn own_for_tags(
        &mut self,
        project: &ProjectId,
        id: &FloatingIpId,
        rule: &str,
    ) -> Result<&mut FloatingIp, Error> {
        let ip = self.floating_ips.get_mut(id).ok_or_else(|| not_found(id))?;
        if &ip.project == project {
            return Ok(ip);
        }
        let message = format!("rule:{rule} is disallowed by policy");
        Err(refusal(ErrorKind::Forbidden, 403, "PolicyNotAuthorized", &message))
    }
}

/// A refusal as the client reports it.
pub(super) fn refusal(kind: ErrorKind, status: u16, error_type: &str, message: &str) -> Error {
    Error { status: Some(status), error_type: Some(error_type.to_owned()), ..Error::new(kind, "", message) }
}

fn not_found(id: &FloatingIpId) -> Error {
    let message = format!("Floating IP {id} could not be found");
    refusal(ErrorKind::NotFound, 404, "FloatingIPNotFound", &message)
}

/// Sets the time of the last change.
pub(super) fn touch(ip: &mut FloatingIp, now: Timestamp) {
    ip.changed_at = Some(whole_seconds(now));
}

pub(super) fn tag(ip: &mut FloatingIp, tag: &str, now: Timestamp) -> Result<(), Error> {
    if tag.chars().count() > LONGEST_TEXT {
        let message = format!("Invalid input for operation: '{tag}' exceeds maximum length of 255.");
        return Err(refusal(ErrorKind::Rejected, 400, "InvalidInput", &message));
    }
    if ip.tags.len() >= MOST_TAGS && !ip.tags.contains(tag) {
        let message = "Bad floatingips request: The number of tags exceed the per-resource limit of 50.";
        return Err(refusal(ErrorKind::Rejected, 400, "BadRequest", message));
    }
    if ip.tags.insert(tag.to_owned()) {
        touch(ip, now);
    }
    Ok(())
}

pub(super) fn check_description(description: &str) -> Result<(), Error> {
    if description.chars().count() <= LONGEST_TEXT {
        return Ok(());
    }
    let message = format!("Invalid input for description. Reason: '{description}' exceeds maximum length of 255.");
    Err(refusal(ErrorKind::Rejected, 400, "HTTPBadRequest", &message))
}

/// Neutron's times have no fractions.
fn whole_seconds(now: Timestamp) -> Timestamp {
    now - SignedDuration::from_nanos(i64::from(now.subsec_nanosecond()))
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
