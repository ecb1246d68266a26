//! Which servers may be connected to for OpenStack. A tenant's Secret names Keystone, and that Keystone names Neutron: both
//! can be any server that the controller can reach, the API server and the node's own services included.

mod lookups;

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;
use std::vec;

use ipnet::IpNet;
use tower::BoxError;
use url::{Host, Url};

use super::Error;

pub(super) use lookups::{ClientLookups, LOOKUP_TIMEOUT, Lookups, SlowLookup};

/// One entry of `--openstack-hosts`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HostPattern {
    /// `*`: every server whose address is not reserved, as without a list.
    Any,
    Name(String),
    /// `*.example.com`: every name below this one.
    Below(String),
    /// An address or a CIDR range.
    Range(IpNet),
}

impl FromStr for HostPattern {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let expected = "expected a host name, *.domain, an IP address, a CIDR range, or *";
        if let Ok(range) = text.parse::<IpNet>().or_else(|_| text.parse::<IpAddr>().map(IpNet::from)) {
            return Ok(Self::Range(range.trunc()));
        }
        // As in a URL, so that both are written in the same way.
        let name = |name: &str| match Host::parse(name) {
            Ok(Host::Domain(name))
                if !name.contains('*') && without_dot(&name).split('.').all(|part| !part.is_empty()) =>
            {
                Ok(without_dot(&name).to_owned())
            }
            _ => Err(expected),
        };
        match text.strip_prefix('*') {
            Some("") => Ok(Self::Any),
            Some(below) => name(below.strip_prefix('.').ok_or(expected)?).map(Self::Below),
            None => name(text).map(Self::Name),
        }
    }
}

/// The value of `--openstack-hosts`: entries separated by commas.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostList(pub Vec<HostPattern>);

impl FromStr for HostList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let entries = text.split(',').map(str::trim).filter(|entry| !entry.is_empty());
        let parse = |entry: &str| entry.parse().map_err(|expected| format!("{entry:?}: {expected}"));
        entries.map(parse).collect::<Result<_, _>>().map(Self)
    }
}

impl HostPattern {
    fn has_name(&self, host: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Name(name) => name == host,
            Self::Below(domain) => host.strip_suffix(domain.as_str()).is_some_and(|rest| rest.ends_with('.')),
            Self::Range(_) => false,
        }
    }
}

/// The servers that may be connected to.
#[derive(Clone, Debug)]
pub struct AllowedHosts {
    /// None: every server.
    patterns: Option<Vec<HostPattern>>,
    api_server: BTreeSet<IpAddr>,
    conceals: bool,
}

impl AllowedHosts {
    /// Every server, for a program that acts for the owner of the credentials alone.
    pub const fn all() -> Self {
        Self { patterns: None, api_server: BTreeSet::new(), conceals: false }
    }

    /// Those that match, or all without patterns. An address that is reserved must be in a range of the patterns: loopback,
    /// link-local, multicast, unspecified, and the management cluster's API server.
    pub fn new(patterns: Vec<HostPattern>, api_server: BTreeSet<IpAddr>) -> Self {
        let conceals = patterns.is_empty() || patterns.contains(&HostPattern::Any);
        Self { patterns: Some(patterns), api_server, conceals }
    }

    /// The same servers, but what they answer is for the log only, as without patterns.
    pub fn concealed(self) -> Self {
        Self { conceals: true, ..self }
    }

    /// Marks the details of an error as not to be shown, unless there is a list of servers. They say whether a server that
    /// the tenant chose exists, and what answers there.
    pub(super) fn conceal(&self, error: Error) -> Error {
        Error { is_concealed: self.conceals, ..error }
    }

    /// Whether a URL may be used, as far as it shows that. The addresses of a name are checked when it is resolved.
    pub(super) fn check(&self, url: &Url) -> Result<(), NotAllowed> {
        let is_allowed = match url.host() {
            Some(Host::Ipv4(address)) => self.allows_address(address.into(), self.names_any()),
            Some(Host::Ipv6(address)) => self.allows_address(address.into(), self.names_any()),
            Some(Host::Domain(name)) => self.allows_name(name) || self.ranges().next().is_some(),
            None => false,
        };
        if is_allowed { Ok(()) } else { Err(NotAllowed) }
    }

    /// Whether the name is written in the list, or everything is allowed.
    pub(super) fn lists(&self, url: &Url) -> bool {
        let has_it = |patterns: &Vec<HostPattern>| {
            let name = url.host_str().map(without_dot).unwrap_or_default();
            patterns.iter().any(|pattern| *pattern != HostPattern::Any && pattern.has_name(name))
        };
        self.patterns.as_ref().is_none_or(has_it)
    }

    /// Of the addresses that a name has, those that may be connected to.
    fn select(&self, name: &str, addresses: impl Iterator<Item = SocketAddr>) -> Vec<SocketAddr> {
        let is_named = self.allows_name(name);
        addresses.filter(|address| self.allows_address(address.ip(), is_named)).collect()
    }

    fn allows_name(&self, name: &str) -> bool {
        let name = without_dot(name);
        self.patterns().is_none_or(|patterns| patterns.iter().any(|pattern| pattern.has_name(name)))
    }

    fn names_any(&self) -> bool {
        self.patterns().is_none_or(|patterns| patterns.contains(&HostPattern::Any))
    }

    fn allows_address(&self, address: IpAddr, is_named: bool) -> bool {
        let address = canonical(address);
        self.patterns.is_none()
            || self.ranges().any(|range| range.contains(&address))
            || is_named && !self.is_reserved(address)
    }

    /// None if every name is allowed.
    fn patterns(&self) -> Option<&Vec<HostPattern>> {
        self.patterns.as_ref().filter(|patterns| !patterns.is_empty())
    }

    fn ranges(&self) -> impl Iterator<Item = &IpNet> {
        self.patterns.iter().flatten().filter_map(|pattern| match pattern {
            HostPattern::Range(range) => Some(range),
            _ => None,
        })
    }

    fn is_reserved(&self, address: IpAddr) -> bool {
        let is_local = match address {
            // Where 0.0.0.0/8 is routed at all, it reaches this host.
            IpAddr::V4(v4) => v4.is_link_local() || v4.is_broadcast() || v4.octets()[0] == 0,
            IpAddr::V6(v6) => v6.is_unicast_link_local(),
        };
        is_local
            || address.is_loopback()
            || address.is_unspecified()
            || address.is_multicast()
            || METADATA_SERVICES.contains(&address)
            || self.api_server.contains(&address)
    }
}

/// Of clouds that do not use a link-local address: AWS, Google, Alibaba, Azure.
const METADATA_SERVICES: [IpAddr; 4] = [
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
    IpAddr::V6(Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)),
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)),
];

/// The IPv4 address that an IPv6 address is mapped to, or translated to by NAT64.
fn canonical(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) if v6.octets().starts_with(&NAT64_PREFIX) => {
            let [.., a, b, c, d] = v6.octets();
            IpAddr::from([a, b, c, d])
        }
        address => address,
    }
}

/// `64:ff9b::/96`.
const NAT64_PREFIX: [u8; 12] = [0, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0];

/// Names are compared without the dot that ends them in the DNS.
fn without_dot(name: &str) -> &str {
    name.strip_suffix('.').unwrap_or(name)
}

/// The server may not be connected to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("is not a server that this controller may connect to")]
pub(super) struct NotAllowed;

/// Resolves names to the addresses that may be connected to. The connection uses these, so that a name that is resolved
/// again to another address is of no use.
pub(super) struct AllowedResolver {
    pub(super) hosts: Arc<AllowedHosts>,
    /// The platform's proxy may be anywhere.
    pub(super) proxy: Option<String>,
    pub(super) lookups: ClientLookups,
}

impl AllowedResolver {
    /// Returns at least one address.
    pub(super) async fn resolve(&self, name: &str) -> Result<vec::IntoIter<SocketAddr>, BoxError> {
        let Self { hosts, lookups, .. } = self;
        let is_proxy = self.proxy.as_deref() == Some(name);
        let found = match lookups.find(name).await? {
            Ok(found) => found,
            // Whether a name exists that is not listed is not told.
            Err(_) if !is_proxy && !hosts.allows_name(name) => return Err(NotAllowed.into()),
            Err(error) => return Err(error.into()),
        };
        let selected = if is_proxy { found.clone() } else { hosts.select(name, found.iter().copied()) };
        match (found.is_empty(), selected.is_empty()) {
            (true, _) => Err(io::Error::from(io::ErrorKind::NotFound).into()),
            (false, true) => Err(NotAllowed.into()),
            (false, false) => Ok(selected.into_iter()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(patterns: &[&str]) -> AllowedHosts {
        let patterns = patterns.iter().map(|pattern| pattern.parse().unwrap()).collect();
        AllowedHosts::new(patterns, ["10.96.0.1".parse().unwrap()].into())
    }

    fn allows(hosts: &AllowedHosts, url: &str) -> bool {
        hosts.check(&url.parse().unwrap()).is_ok()
    }

    fn selects(hosts: &AllowedHosts, name: &str, address: &str) -> bool {
        !hosts.select(name, std::iter::once(SocketAddr::new(address.parse().unwrap(), 0))).is_empty()
    }

    #[test]
    fn reserved_addresses_are_allowed_only_by_a_range() {
        let written = [
            "127.0.0.1",
            "127.8.9.1",
            "2130706433",
            "0x7f.1",
            "[::1]",
            "[::ffff:127.0.0.1]",
            "0.0.0.0",
            "0.1.2.3",
            "[::]",
            "169.254.169.254",
            "[fe80::1]",
            "224.0.0.1",
            "[ff02::1]",
            "255.255.255.255",
            "10.96.0.1",
            "[fd00:ec2::254]",
            "100.100.100.200",
            "[64:ff9b::7f00:1]",
            "[::ffff:a60:1]",
        ];
        for host in written {
            let url = format!("http://{host}:6443/v3");
            assert!(!allows(&hosts(&[]), &url) && !allows(&hosts(&["*", "cloud.test"]), &url), "{url}");
            assert!(allows(&hosts(&["0.0.0.0/0", "::/0"]), &url) && allows(&AllowedHosts::all(), &url), "{url}");
        }
        for host in ["10.1.2.3", "203.0.113.1", "[2001:db8::1]", "cloud.test"] {
            assert!(allows(&hosts(&[]), &format!("https://{host}/v3")), "{host}");
        }
        assert!(!selects(&hosts(&[]), "localhost", "127.0.0.1"), "the resolved address counts");
        assert!(!selects(&hosts(&["cloud.test"]), "cloud.test", "::1"), "also for a name of the list");
        assert!(selects(&hosts(&["cloud.test", "127.0.0.0/8"]), "cloud.test", "127.0.0.1"));
        assert!(selects(&hosts(&[]), "cloud.test", "10.1.2.3"));
    }

    #[test]
    fn a_list_allows_its_names_and_ranges_and_nothing_else() {
        let list = hosts(&["Keystone.Test.", "*.cloud.test", "10.1.0.0/16"]);
        for host in ["keystone.test", "keystone.test.", "KEYSTONE.test", "neutron.cloud.test", "a.b.cloud.test"] {
            assert!(
                selects(&list, Url::parse(&format!("http://{host}")).unwrap().host_str().unwrap(), "192.0.2.1"),
                "{host}"
            );
        }
        for host in ["test", "xkeystone.test", "cloud.test", "xcloud.test", "keystone.test.evil"] {
            assert!(!selects(&list, host, "192.0.2.1"), "{host}");
            assert!(selects(&list, host, "10.1.2.3"), "{host}: its address is in a range");
        }
        assert!(allows(&list, "http://10.1.2.3") && !allows(&list, "http://10.2.0.1"));
        assert!(!allows(&hosts(&["keystone.test"]), "http://other.test"), "without a range, the name decides");
        assert!(allows(&hosts(&["*"]), "http://10.2.0.1"));
    }

    #[test]
    fn an_entry_that_is_no_host_is_refused() {
        for bad in [
            "",
            ".",
            "*cloud.test",
            "*.",
            "*..",
            "cloud.test..",
            "cloud..test",
            "a b",
            "http://cloud.test",
            "cloud.test:5000",
            "10.0.0.0/33",
            "*.*.test",
        ] {
            assert!(bad.parse::<HostPattern>().is_err(), "{bad}");
        }
        assert_eq!("10.1.2.3/8".parse(), Ok(HostPattern::Range("10.0.0.0/8".parse().unwrap())));
        assert_eq!("::1".parse(), Ok(HostPattern::Range("::1/128".parse().unwrap())));
        for empty in ["", ","] {
            assert_eq!(empty.parse::<HostList>().unwrap().0, []);
        }
        assert_eq!("*, ::1".parse::<HostList>().unwrap().0.len(), 2);
        let refused = "cloud.test,a b".parse::<HostList>().unwrap_err();
        assert!(refused.starts_with("\"a b\": expected a host name"), "{refused}");
    }
}
