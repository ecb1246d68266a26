//! The laws of docs/laws.md, judged from outside: a snapshot of Kubernetes' objects (as JSON) and of Neutron's floating
//! IPs in, violations out, each naming the object. The simulation and the scenarios on real servers both end with it.
//!
//! | file | what it judges |
//! |---|---|
//! | [`checker`] | laws 1 to 6: addresses, marks, limits |
//! | [`refusals`] | law 7: a claim without an address was refused with reason, as [`oracle`] sees it |
//! | [`deletions`] | law 9: deletions end |
//! | [`address_lists`] | law 11: ConfigMaps with the addresses of pools |
//! | [`objects`], [`spec`] | read the JSON by hand, so that a field that the controllers misread is not misread here too |

mod address_lists;
mod checker;
mod deletions;
mod objects;
pub mod oracle;
mod refusals;
mod spec;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use caip_openstack::allocation::PoolId;
use caip_openstack::floating_ip::{FloatingIp, FloatingIpId, NetworkId};
use jiff::Timestamp;
use serde_json::Value;

#[allow(unused_imports, reason = "the scenarios on real servers only judge at the end")]
pub use checker::copied;
#[allow(unused_imports, reason = "the scenarios on real servers only judge at the end")]
pub use refusals::creatable_for;

#[allow(unused_imports, reason = "the scenarios on real servers only judge at the end")]
pub use objects::is_left_alone;
pub use objects::{Binding, FORGED_LABEL, binding, claim_key, condition, pool_id, text};

/// Everything that is visible from outside, of all management clusters that share a project.
#[derive(Default)]
pub struct Snapshot {
    /// For each management cluster, every object that the controllers may read or write.
    pub clusters: Vec<Vec<Arc<Value>>>,
    /// Every floating IP of the project.
    pub fips: Vec<FloatingIp>,
    /// The network of the pools that have no list, or name a network beside it.
    pub network: Option<NetworkId>,
    /// The addresses that Neutron would create now.
    pub creatable: BTreeSet<IpAddr>,
    /// The addresses of subnets, by the subnet's name and by its id. A pool that names another one may use all.
    pub subnets: BTreeMap<String, BTreeSet<IpAddr>>,
    /// The most addresses that each pool may have: its `maxIPs`, or what it had when that was lowered.
    pub limits: BTreeMap<PoolId, usize>,
    /// What users created and did not delete.
    pub others: BTreeSet<FloatingIpId>,
    /// What users wrote a mark on, or wiped one from, by hand: laws that cannot hold then are not judged.
    pub forged: BTreeSet<FloatingIpId>,
    /// Whether the cloud has ever hidden or changed marks.
    pub was_altered: bool,
    /// Whether the cloud has ever hidden marks.
    pub has_hidden: bool,
    /// Whether everything has been left alone long enough to come to rest.
    pub is_quiet: bool,
    pub now: Timestamp,
}

/// A law that does not hold, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    pub law: u8,
    pub object: String,
    pub how: String,
}

impl Violation {
    pub fn new(law: u8, object: impl fmt::Display, how: impl fmt::Display) -> Self {
        Self { law, object: object.to_string(), how: how.to_string() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "law {}: {}: {}", self.law, self.object, self.how)
    }
}

/// Every law that does not hold.
pub fn judge(snapshot: &Snapshot) -> Vec<Violation> {
    let mut violations = checker::check(snapshot);
    if snapshot.is_quiet {
        for site in 0..snapshot.clusters.len() {
            violations.extend(deletions::check(snapshot, site));
            violations.extend(refusals::check(snapshot, site));
            violations.extend(address_lists::check(snapshot, site));
        }
    }
    violations
}
