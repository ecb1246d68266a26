//! Once trouble stops, everything settles within [`LIMIT`] and stays so, and the laws hold. Settled means that nothing is
//! written to Kubernetes or Neutron any more, that each claim has an address or a justified condition, and that everything
//! deleted is gone.
//!
//! What a user told a pool to wait for counts on top: `reuseGracePeriodSeconds`, `orphans.graceSeconds` and
//! `reuse.minIdleSeconds`. Two timers go on for ever without a write: listings (an audit each minute, or every 12 s while
//! claims wait), and creations after a refusal of Neutron, of which one claim sends one every 12 s. A third writes: after
//! offers of unwanted addresses a pool asks again, at most every 15 minutes in the end, and deletes what it gets. And that
//! a quota was raised is noticed when it is read again.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use caip_openstack::allocation::ledger::UNWANTED_LIMIT;
use caip_openstack::floating_ip::FloatingIp;
use serde_json::Value;
use tokio::time::Instant;

use crate::api::Kind;
use crate::laws::{Violation, text};
use crate::world::World;

/// Everything settles within this time.
pub const LIMIT: Duration = Duration::from_secs(10 * 60);
/// How exactly it is measured.
const STEP: Duration = Duration::from_secs(5);
/// Time without a write after which everything has come to rest: longer than any timer of a pool here, by its clock. A tag
/// that was refused is tried again in the first sweep after five minutes. Two pools that are offered unwanted addresses ask
/// every seven minutes or so.
const QUIET: Duration = Duration::from_secs(6 * 60 + 30);
/// For how long nothing may be written then.
const SILENCE: Duration = Duration::from_secs(10 * 60);
/// The quota is read so often.
const QUOTA_READ_WITHIN: Duration = Duration::from_secs(12 * 60);
/// The longest pause between two requests for what may be offered unwanted.
const OFFER_PAUSE: Duration = Duration::from_secs(15 * 60);
/// The most subnets that a pool names.
const SUBNETS: usize = 2;
/// Longer than a POST and the DELETE after it.
const OFFER_TIME: Duration = Duration::from_secs(20);

/// How long a world took to settle after the last trouble.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Settled {
    pub after: Duration,
    /// What was written last.
    pub last: String,
}

impl World {
    /// Ends all trouble, and judges the laws once everything has settled.
    pub async fn settle(&self) {
        self.trace.record(|| "--- rest".to_owned());
        self.unblock();
        // A new name is noticed within an hour, which may be within the longer time that offers, or a quota, take.
        if self.witness.offers() > 0 || self.quota_has_changed.get() {
            self.cloud.rename_network(&self.network, "public");
        }
        // By how much a clock that is right now was ahead.
        let mut ahead = Duration::ZERO;
        for replica in self.sites.iter().flat_map(|site| &site.replicas) {
            replica.plans.borrow_mut().clear();
            let skew = replica.skew.swap(0, Relaxed);
            ahead = ahead.max(Duration::from_secs(skew.try_into().unwrap_or_default()));
            if let Some(wire) = replica.wire() {
                wire.clear_faults();
            }
        }
        let (mut writes, begin, offers) = (LastWrite::now(self), Instant::now(), self.witness.offers());
        while writes.at.elapsed() < QUIET + ahead {
            self.advance(STEP).await;
            let offering = if self.witness.offers() == offers { Duration::ZERO } else { OFFER_PAUSE };
            let is_late = writes.update(self) && begin.elapsed() > LIMIT + self.timers() + offering;
            if is_late {
                self.report(format!("still at work after {:?}: {}", begin.elapsed(), writes.what));
            }
            if self.has_violations() {
                return;
            }
        }
        // Otherwise the third timer is at work.
        if self.witness.offers() == offers {
            self.settled.replace(Some(Settled { after: writes.at - begin, last: writes.what }));
        }
        self.judge(true);
        // A waiting claim keeps its reason until its pool asks Neutron again. Another claim may have got the address by then.
        if self.witness.offers() > 0 && self.cloud.network_name(&self.network) == "public" {
            self.advance(OFFER_PAUSE).await;
        }
        // Until then a pool without waiting claims says that it is used up.
        if self.quota_has_changed.get() {
            self.advance(QUOTA_READ_WITHIN).await;
        }
        self.stay_silent().await;
    }

    /// Nothing is written while nothing changes, but for what Neutron offers.
    async fn stay_silent(&self) {
        let (before, offers) = (self.fingerprint(), self.witness.offers());
        self.advance(SILENCE).await;
        if self.fingerprint() != before {
            // The last offer may not be deleted yet.
            self.advance(OFFER_TIME).await;
        }
        if self.fingerprint() != before {
            self.report("at work again although nothing changed".to_owned());
        }
        let pools: usize = self.sites.iter().map(|site| site.server.all(Kind::Pool).len()).sum();
        if self.witness.offers() - offers > pools * 2 * SUBNETS * UNWANTED_LIMIT {
            self.report("a network is asked again and again for what may not be given".to_owned());
        }
    }

    fn report(&self, how: String) {
        self.violations.borrow_mut().push(Violation::new(8, "everything", how));
    }

    /// The longest time for which the spec of a pool lets the controllers wait. The times may follow one another.
    fn timers(&self) -> Duration {
        let seconds =
            |spec: &Value, path: &str, default: u64| spec.pointer(path).and_then(Value::as_u64).unwrap_or(default);
        let of_pool = |pool: &Value| {
            let spec = &pool["spec"];
            seconds(spec, "/reuseGracePeriodSeconds", 0)
                + seconds(spec, "/orphans/graceSeconds", 3600)
                + seconds(spec, "/reuse/minIdleSeconds", 300)
        };
        let pools = self.sites.iter().flat_map(|site| site.server.all(Kind::Pool));
        Duration::from_secs(pools.map(|pool| of_pool(&pool)).max().unwrap_or_default())
    }

    /// Changes with every write that changes anything.
    fn fingerprint(&self) -> (Vec<u64>, usize) {
        let versions = self.sites.iter().map(|site| site.server.writes()).collect();
        (versions, self.witness.changes())
    }
}

/// The last write to Kubernetes or Neutron.
struct LastWrite {
    at: Instant,
    what: String,
    fingerprint: (Vec<u64>, usize),
    versions: Vec<u64>,
    fips: Vec<FloatingIp>,
}

impl LastWrite {
    fn now(world: &World) -> Self {
        Self {
            at: Instant::now(),
            what: "nothing".to_owned(),
            fingerprint: world.fingerprint(),
            versions: world.sites.iter().map(|site| site.server.version()).collect(),
            fips: world.cloud.floating_ips(),
        }
    }

    /// True if there was another one.
    fn update(&mut self, world: &World) -> bool {
        if world.fingerprint() == self.fingerprint {
            return false;
        }
        let objects = world.sites.iter().zip(&self.versions).flat_map(|(site, version)| {
            let state = site.server.state();
            let new = state.changes.iter().filter(|change| change.version > *version && change.key.kind != Kind::Lease);
            let name = |name: &str| format!("{:?} {name}", site.server.id());
            new.map(|change| format!("{:?} {}", change.key.kind, name(text(&change.object, "/metadata/name"))))
                .collect::<Vec<_>>()
        });
        let is_new = |fip: &&FloatingIp| !self.fips.contains(fip);
        let fips = world.cloud.floating_ips();
        let changed = fips.iter().filter(is_new).map(|fip| format!("floating IP {}", fip.address));
        let mut what: Vec<String> = objects.chain(changed).filter(|what| !what.starts_with("Event")).collect();
        what.dedup();
        *self = Self { what: what.join(", "), ..Self::now(world) };
        true
    }
}
