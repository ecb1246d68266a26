//! Why a claim has no address: one variant for each limit, with what to do about it.

use std::net::IpAddr;

/// Why a claim waits. `Display` is the condition's message: what, why and what to do, without anything that changes.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refusal {
    #[error(
        "every address of spec.preAllocatedFloatingIPs is in use, cooling down, or cannot be allocated: add addresses to the list, name a floatingIPNetwork, or delete a claim"
    )]
    ListUsedUp,
    #[error("the pool has reached spec.maxIPs ({0}): raise it, or delete a claim")]
    LimitReached(usize),
    /// Neutron said `OverQuota`.
    #[error(
        "the project's quota of floating IPs is used up: raise the quota, or delete unused floating IPs of the project"
    )]
    QuotaReached,
    #[error(
        "the network has no address left (in the pool's subnets): add an allocation pool or a subnet, or delete a claim"
    )]
    NetworkExhausted,
    #[error(
        "the network offered only addresses that are excluded, reserved, or named by another IPAddress: add an allocation pool, or shorten spec.excludedAddresses"
    )]
    OnlyUnwanted,
    /// The mark of what the pool creates is its description.
    #[error(
        "Neutron did not store the description of a new floating IP, in which the pool marks what it creates: allow the project to set descriptions, or use a list"
    )]
    DescriptionDropped,
    #[error(
        "{0}, reserved for this claim in spec.reservations, is not a floating IP of the project: create it, or change the reservation"
    )]
    ReservationMissing(IpAddr),
    #[error(
        "{0}, reserved for this claim in spec.reservations, is not on the pool's network: create it there, or change the reservation"
    )]
    ReservationOnOtherNetwork(IpAddr),
    #[error(
        "{0}, reserved for this claim in spec.reservations, is not free: it is attached, marked for another claim or pool, in its grace period, or named by another IPAddress; wait until it is free, or change the reservation"
    )]
    ReservationTaken(IpAddr),
    #[error(
        "{0}, reserved for this claim in spec.reservations, has as many tags as Neutron allows, and the pool's tag would be one more: remove one"
    )]
    ReservationFullOfTags(IpAddr),
    #[error(
        "{0}, reserved for this claim in spec.reservations, is also in spec.excludedAddresses: remove it from one of them"
    )]
    ReservationExcluded(IpAddr),
    #[error(
        "this Neutron has no tags on floating IPs (extension standard-attr-tag), so listed addresses cannot be marked: name a floatingIPNetwork instead of a list"
    )]
    NoTags,
}

impl Refusal {
    /// Whether a released address or another spec may change what Neutron answers.
    pub(super) fn may_end_early(&self) -> bool {
        *self != Self::DescriptionDropped
    }
}
