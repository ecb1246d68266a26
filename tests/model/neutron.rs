//! Neutron in the model: a few floating IPs that no pool created, with tags that are added and removed one at a time.
//! Small numbers keep a state at a few bytes; the product gets real floating IPs with real tags.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;

use caip_openstack::allocation::mark::{claim_tag, release_tag};
use caip_openstack::allocation::{ClaimKey, PoolId};
use caip_openstack::floating_ip::{FloatingIp, FloatingIpId, NetworkId, PortId, ProjectId};
use jiff::Timestamp;

/// The most claims of one owner.
pub const CLAIMS: usize = 2;
const TAGS_OF_OWNER: usize = CLAIMS * 2;

/// Where an owner stands among the others: it sees itself as owner 0, and they are numbered from itself on. The product
/// sees pools whose ids have an order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Seat {
    /// 0 for every owner where their ids do not matter: then each has the first id, to itself.
    pub at: u8,
    pub owners: u8,
}

impl Seat {
    /// The id of the pool of an owner, as numbered from this one on.
    pub fn pool_id(self, owner: usize) -> PoolId {
        let seat = (owner + usize::from(self.at)) % usize::from(self.owners);
        PoolId::parse(&format!("pool-{seat}")).expect("of the form of an id")
    }
}

/// A claim tag or release tag, numbered by owner and claim.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(pub u8);

impl Tag {
    pub fn new(owner: usize, claim: usize, is_release: bool) -> Self {
        Self((owner * TAGS_OF_OWNER + claim * 2 + usize::from(is_release)) as u8)
    }
    pub fn owner(self) -> usize {
        usize::from(self.0) / TAGS_OF_OWNER
    }
    pub fn claim(self) -> usize {
        usize::from(self.0) % TAGS_OF_OWNER / 2
    }
    pub fn is_release(self) -> bool {
        self.0 % 2 == 1
    }
    /// The tag of the same claim of the owner `by` places on.
    pub fn rotated(self, by: usize, owners: usize) -> Self {
        Self::new((self.owner() + by) % owners, self.claim(), self.is_release())
    }
    /// As the product writes it. The grace period is zero, so the time of a release does not matter.
    pub fn format(self, seat: Seat) -> String {
        let (pool, claim) = (seat.pool_id(self.owner()), claim_key(self.claim()));
        if self.is_release() { release_tag(&pool, &claim, noon()) } else { claim_tag(&pool, &claim) }
    }
    /// Ignores the time of a release.
    pub fn parse(text: &str, seat: Seat) -> Self {
        let all = (0..seat.owners * TAGS_OF_OWNER as u8).map(Self);
        let begins = |tag: &Self| text.starts_with(tag.format(seat).rsplit_once('.').expect("a tag has parts").0);
        let is_same = |tag: &Self| if tag.is_release() { begins(tag) } else { tag.format(seat) == text };
        all.into_iter().find(is_same).unwrap_or_else(|| panic!("the product wrote {text}"))
    }
}

impl fmt::Debug for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.is_release() { "release" } else { "claim" };
        write!(f, "{what} {}{}", owner_name(self.owner()), self.claim())
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Tags(u16);

impl Tags {
    pub fn has(self, tag: Tag) -> bool {
        self.0 & (1 << tag.0) != 0
    }
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
    pub fn set(&mut self, tag: Tag, is_set: bool) {
        if is_set { self.0 |= 1 << tag.0 } else { self.0 &= !(1 << tag.0) }
    }
    pub fn iter(self) -> impl Iterator<Item = Tag> {
        (0..16).map(Tag).filter(move |tag| self.has(*tag))
    }
    pub fn rotated(self, by: usize, owners: usize) -> Self {
        let (all, by) = ((1u32 << (owners * TAGS_OF_OWNER)) - 1, by % owners * TAGS_OF_OWNER);
        let bits = u32::from(self.0) << by;
        Self(((bits | bits >> (owners * TAGS_OF_OWNER)) & all) as u16)
    }
}

impl fmt::Debug for Tags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Fip {
    pub tags: Tags,
    pub has_port: bool,
    /// The tags that were added after the port. Only the laws read it.
    pub tags_after_port: Tags,
}

impl Fip {
    pub fn set_port(&mut self, has_port: bool) {
        (self.has_port, self.tags_after_port) = (has_port, Tags::default());
    }
    pub fn set_tag(&mut self, tag: Tag, is_set: bool) {
        let is_new = is_set && !self.tags.has(tag);
        self.tags.set(tag, is_set);
        self.tags_after_port.set(tag, self.has_port && (is_new || is_set && self.tags_after_port.has(tag)));
    }
    pub fn as_listed(self) -> ListedFip {
        ListedFip { tags: self.tags, has_port: self.has_port }
    }
}

/// A floating IP as a listing shows it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct ListedFip {
    pub tags: Tags,
    pub has_port: bool,
}

impl ListedFip {
    /// It last changed long ago, so that `minIdleSeconds` never prevents its reuse.
    pub fn to_product(self, index: usize, seat: Seat) -> FloatingIp {
        FloatingIp {
            id: fip_id(index),
            address: address(index),
            network: network(),
            project: ProjectId::new("project"),
            port: self.has_port.then(|| PortId::new("port")),
            is_forwarded: false,
            description: String::new(),
            tags: self.tags.iter().map(|tag| tag.format(seat)).collect(),
            dns_name: String::new(),
            changed_at: Some(Timestamp::UNIX_EPOCH),
            created_at: None,
        }
    }
    pub fn from_product(fip: &FloatingIp, seat: Seat) -> Self {
        let mut tags = Tags::default();
        fip.tags.iter().for_each(|text| tags.set(Tag::parse(text, seat), true));
        Self { tags, has_port: fip.is_attached() }
    }
    pub fn rotated(self, by: usize, owners: usize) -> Self {
        Self { tags: self.tags.rotated(by, owners), ..self }
    }
}

/// A write: a PUT or DELETE of one tag.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Call {
    pub fip: u8,
    pub tag: Tag,
    pub adds: bool,
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?} on {}", if self.adds { "PUT" } else { "DELETE" }, self.tag, self.fip)
    }
}

pub fn noon() -> Timestamp {
    Timestamp::from_second(1_800_000_000).expect("in range")
}

pub fn owner_name(owner: usize) -> char {
    char::from(b'A' + owner as u8)
}

/// The same names in every management cluster.
pub fn claim_key(claim: usize) -> ClaimKey {
    ClaimKey::of("team", &format!("claim-{claim}"))
}

pub fn fip_id(index: usize) -> FloatingIpId {
    FloatingIpId::new(format!("fip-{index}"))
}

pub fn fip_index(id: &FloatingIpId) -> usize {
    (0..4).find(|index| fip_id(*index) == *id).expect("one of the model's")
}

pub fn address(index: usize) -> IpAddr {
    IpAddr::from([203, 0, 113, 10 + index as u8])
}

pub fn network() -> NetworkId {
    NetworkId::new("public")
}

/// The addresses of the first `count` floating IPs.
pub fn addresses(count: usize) -> BTreeSet<IpAddr> {
    (0..count).map(address).collect()
}
