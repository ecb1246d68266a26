//! A model of Neutron: a map of floating IPs, the five calls that we make, and when each thing came to be so.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use caip_openstack::allocation::mark::Marks;
use caip_openstack::allocation::{ClaimKey, PoolId};
use caip_openstack::floating_ip::{FloatingIp, FloatingIpId, NetworkId, PortId, ProjectId};
use jiff::Timestamp;

/// How many addresses the network has: few, so that Neutron soon gives one again.
pub const ADDRESSES: u8 = 9;

/// A write as it is sent.
#[derive(Clone, Debug)]
pub enum Call {
    Post { description: String },
    Describe(FloatingIpId, String),
    AddTag(FloatingIpId, String),
    RemoveTag(FloatingIpId, String),
    Delete(FloatingIpId),
}

/// What Neutron answers to a write.
#[expect(clippy::large_enum_variant, reason = "a few at a time, in a test")]
#[derive(Clone, Debug)]
pub enum Answer {
    Fip(FloatingIp),
    Done,
    NotFound,
    OverQuota,
    NoMoreAddresses,
}

/// A floating IP as it really is.
#[derive(Clone, Debug)]
pub struct Real {
    pub fip: FloatingIp,
    /// A POST of ours made it.
    pub is_ours: bool,
    /// Somebody wrote on it by hand what only we should: what follows from that is not our doing.
    pub is_forged: bool,
    /// When the port came.
    pub attached: u64,
    /// When we last wrote to it.
    pub written: u64,
    /// When each mark of a claim came.
    pub marked: BTreeMap<(PoolId, ClaimKey), u64>,
}

#[derive(Default, Debug)]
pub struct Neutron {
    pub fips: BTreeMap<FloatingIpId, Real>,
    pub quota: Option<usize>,
    /// Counts everything that happens.
    pub moment: u64,
    made: u32,
}

pub fn network() -> NetworkId {
    NetworkId::new("public")
}

pub fn address(index: u8) -> IpAddr {
    IpAddr::from([203, 0, 113, 10 + index % ADDRESSES])
}

impl Neutron {
    /// Does what a write of ours asks for.
    pub fn perform(&mut self, call: &Call, now: Timestamp) -> Answer {
        match call {
            Call::Post { description } => self.create(description, true, now),
            Call::Describe(id, text) => self.change(id, now, |fip| fip.description = text.clone()),
            Call::AddTag(id, tag) => self.change(id, now, |fip| _ = fip.tags.insert(tag.clone())),
            Call::RemoveTag(id, tag) => self.change(id, now, |fip| _ = fip.tags.remove(tag)),
            Call::Delete(id) => self.fips.remove(id).map_or(Answer::NotFound, |_| Answer::Done),
        }
    }

    pub fn create(&mut self, description: &str, is_ours: bool, now: Timestamp) -> Answer {
        if self.quota.is_some_and(|quota| self.fips.len() >= quota) {
            return Answer::OverQuota;
        }
        let taken: BTreeSet<IpAddr> = self.fips.values().map(|real| real.fip.address).collect();
        let Some(address) = (0..ADDRESSES).map(address).find(|address| !taken.contains(address)) else {
            return Answer::NoMoreAddresses;
        };
        self.made += 1;
        let fip = FloatingIp {
            id: FloatingIpId::new(format!("fip{:03}", self.made)),
            address,
            network: network(),
            project: ProjectId::new("project"),
            port: None,
            is_forwarded: false,
            description: description.into(),
            tags: BTreeSet::new(),
            dns_name: String::new(),
            changed_at: Some(now),
        };
        let real =
            Real { fip: fip.clone(), is_ours, is_forged: false, attached: 0, written: 0, marked: BTreeMap::new() };
        self.fips.insert(fip.id.clone(), real);
        self.note(&fip.id, true);
        Answer::Fip(fip)
    }

    /// A write of ours to one that may be there.
    fn change(&mut self, id: &FloatingIpId, now: Timestamp, change: impl FnOnce(&mut FloatingIp)) -> Answer {
        let Some(real) = self.fips.get_mut(id) else { return Answer::NotFound };
        change(&mut real.fip);
        real.fip.changed_at = Some(now);
        self.note(id, true);
        Answer::Fip(self.fips[id].fip.clone())
    }

    /// Somebody else's write.
    pub fn tamper(&mut self, id: &FloatingIpId, now: Timestamp, change: impl FnOnce(&mut Real)) {
        let Some(real) = self.fips.get_mut(id) else { return };
        let was = Marks::read(&real.fip);
        change(real);
        real.fip.changed_at = Some(now);
        let is = Marks::read(&real.fip);
        real.is_forged |= is != was;
        self.note(id, false);
    }

    pub fn attach(&mut self, id: &FloatingIpId, port: &str, now: Timestamp) {
        self.moment += 1;
        let Some(real) = self.fips.get_mut(id) else { return };
        real.fip.port = Some(PortId::new(port));
        real.fip.changed_at = Some(now);
        real.attached = self.moment;
    }

    fn note(&mut self, id: &FloatingIpId, is_ours: bool) {
        self.moment += 1;
        let Some(real) = self.fips.get_mut(id) else { return };
        if is_ours {
            real.written = self.moment;
        }
        let marks = Marks::read(&real.fip);
        let mut now_there = BTreeMap::new();
        for pool in marks.pools() {
            for claim in marks.claims_of(pool) {
                let mark = (pool.clone(), claim.clone());
                let since = real.marked.get(&mark).copied().unwrap_or(self.moment);
                now_there.insert(mark, since);
            }
        }
        real.marked = now_there;
    }
}
