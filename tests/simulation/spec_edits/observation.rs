//! What a user sees of a pool after an edit: its status, its claims, its floating IPs, and what it decides next.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use caip_openstack::allocation::ClaimKey;
use caip_openstack::allocation::mark::{Marks, Ownership};
use caip_openstack::api::names::ORIGIN_ANNOTATION;
use caip_openstack::floating_ip::{FloatingIp, FloatingIpId};
use serde_json::Value;

use super::setting::{BOUND, POOL, RESERVING, Setting};
use crate::api::Kind;
use crate::api::objects::finalizers;
use crate::laws::text;
use crate::users::key;
use crate::world::NAMESPACE;

/// A claim that asks for any address.
const ASKING: &str = "asking";
/// How long new and released claims have.
const DECIDES_WITHIN: Duration = Duration::from_secs(20);

/// What is seen, by what is looked at.
pub type Facts = BTreeMap<String, String>;

pub struct Observer<'a> {
    setting: &'a Setting<'a>,
    /// The floating IPs before the last step. Others are new: Neutron chooses their addresses at random.
    before: BTreeSet<FloatingIpId>,
    pub facts: Facts,
}

impl<'a> Observer<'a> {
    pub fn new(setting: &'a Setting<'a>) -> Self {
        let before = setting.world.cloud.floating_ips().into_iter().map(|fip| fip.id).collect();
        Self { setting, before, facts: Facts::new() }
    }

    fn note(&mut self, what: impl Into<String>, value: impl Into<String>) {
        self.facts.insert(what.into(), value.into());
    }

    /// Observes what there is now.
    pub fn look(&mut self) {
        self.look_at_pool();
        self.look_at_neutron("then");
        self.look_at_config_maps();
        for secret in ["cloud", super::setting::OTHER_SECRET] {
            let object = self.setting.site().server.get(&key(Kind::Secret, secret));
            let has_finalizer = object.is_some_and(|secret| !finalizers(&secret).is_empty());
            self.note(format!("Secret {secret} is kept"), has_finalizer.to_string());
        }
        for claim in BOUND {
            let (address, fip) = self.setting.bound[claim].clone();
            let kept = self.setting.site().address_of(claim) == Some((address, fip));
            self.setting.world.expect(5, claim, "left with its address", kept);
            let condition = self.condition_of(claim);
            self.note(format!("claim {claim}"), condition);
        }
    }

    fn look_at_config_maps(&mut self) {
        let fips = self.setting.world.cloud.floating_ips();
        for found in self.setting.site().server.all(Kind::ConfigMap) {
            let describe = |line: &str| {
                let fip = fips.iter().find(|fip| fip.address.to_string() == line);
                fip.map_or_else(|| format!("{line}, which is gone"), |fip| self.name_address(fip.address, &fip.id))
            };
            let mut lines: Vec<String> = text(&found, "/data/addresses").lines().map(describe).collect();
            lines.sort();
            self.note(format!("ConfigMap {}", text(&found, "/metadata/name")), lines.join(", "));
        }
    }

    fn look_at_pool(&mut self) {
        let pool = self.setting.pool();
        let status = &pool["status"];
        for condition in status["conditions"].as_array().into_iter().flatten() {
            let what = format!("condition {}", text(condition, "/type"));
            self.note(what, describe_condition(condition));
        }
        self.note("addresses", status["addresses"].to_string());
        self.note("claims", status["claims"].to_string());
        self.note("network", status["network"].to_string());
        self.note("failed", status["failed"].to_string());
        self.note("poolID", status["poolID"].to_string());
        let is_current = status["observedGeneration"] == pool["metadata"]["generation"];
        self.note("the status is of this spec", is_current.to_string());
    }

    /// Creates two claims, one after the other. An edit may have reserved an address for the second.
    pub async fn ask(&mut self) {
        let site = self.setting.site();
        for claim in [ASKING, RESERVING] {
            site.create_claim(claim, POOL);
            self.setting.world.advance(DECIDES_WITHIN).await;
        }
        for claim in [ASKING, RESERVING] {
            let given = site.server.get(&key(Kind::Address, claim)).map(|object| {
                let annotations = &object["metadata"]["annotations"];
                let origin = annotations[ORIGIN_ANNOTATION].as_str().unwrap_or_default().to_owned();
                let (address, id) = site.address_of(claim).unwrap();
                format!("{} ({origin})", self.name_address(address, &id))
            });
            let what = given.unwrap_or_else(|| self.condition_of(claim));
            self.note(format!("a further claim, {claim}"), what);
        }
    }

    /// Deletes a claim whose address was reused and one whose address was created.
    pub async fn release(&mut self) {
        self.setting.site().delete(Kind::Claim, "web-1");
        self.setting.site().delete(Kind::Claim, "web-2");
        self.setting.world.advance(DECIDES_WITHIN).await;
        for claim in ["web-1", "web-2"] {
            let is_gone = self.setting.site().server.get(&key(Kind::Claim, claim)).is_none();
            self.note(format!("claim {claim} is gone"), is_gone.to_string());
        }
        self.look_at_neutron("released");
    }

    fn look_at_neutron(&mut self, when: &str) {
        let fips = self.setting.world.cloud.floating_ips();
        let mut new: Vec<String> = Vec::new();
        for fip in &fips {
            let what = self.describe(fip);
            match self.before.contains(&fip.id) {
                true => self.note(format!("{when} {}", fip.address), what),
                false => new.push(format!("{}: {what}", range(fip.address))),
            }
        }
        new.sort();
        self.note(format!("{when} new"), new.join(", "));
    }

    /// A floating IP without what differs in each run: nonces and times.
    fn describe(&self, fip: &FloatingIp) -> String {
        let (id, marks) = (self.setting.pool_id(), Marks::read(fip));
        let names = BOUND.iter().copied().chain([ASKING, RESERVING, "orphan", "cooling"]);
        let names: BTreeMap<ClaimKey, &str> = names.map(|name| (ClaimKey::of(NAMESPACE, name), name)).collect();
        let name = |claim: &ClaimKey| names.get(claim).copied().unwrap_or("an unknown claim").to_owned();
        let ownership = match marks.ownership(&id) {
            Ownership::Claimed(claim) => format!("of {}", name(&claim)),
            Ownership::Released { claim, .. } => format!("released by {}", name(&claim)),
            other => format!("{other:?}"),
        };
        let kept = if marks.created.as_ref().is_some_and(|mark| mark.is_retained) { ", retained" } else { "" };
        let port = if fip.is_attached() { ", attached" } else { "" };
        format!("{ownership}{kept}{port}")
    }

    fn name_address(&self, address: IpAddr, fip: &FloatingIpId) -> String {
        if self.before.contains(fip) { address.to_string() } else { format!("a new one of {}", range(address)) }
    }

    fn condition_of(&self, claim: &str) -> String {
        let object = self.setting.site().server.get(&key(Kind::Claim, claim));
        let object = object.map(|object| (*object).clone()).unwrap_or_default();
        let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.iter().map(describe_condition).collect::<Vec<_>>().join("; ")
    }
}

fn describe_condition(condition: &Value) -> String {
    let part = |field: &str| text(condition, &format!("/{field}")).to_owned();
    format!("{} {}: {}", part("status"), part("reason"), part("message"))
}

/// The subnet that an address is in.
fn range(address: IpAddr) -> String {
    let text = address.to_string();
    let (range, _) = text.rsplit_once('.').unwrap();
    format!("{range}.0/24")
}
