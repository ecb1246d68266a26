//! Why a claim has no address: one variant for each limit, with what to do about it.

use std::net::IpAddr;

/// Why a claim waits. `Display` is the condition's message: what, why, what to do; nothing that changes by itself.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refusal {
    /// A closed list has nothing left.
    #[error(
        "every address of spec.preAllocatedFloatingIPs is in use, resting, or cannot be given: add addresses to the list, name a floatingIPNetwork, or release a claim"
    )]
    ListUsedUp,
    /// `maxIPs` is reached.
    #[error("the pool has reached spec.maxIPs ({0}): raise it, or release a claim")]
    LimitReached(usize),
    /// Neutron said `OverQuota`.
    #[error(
        "the project's quota of floating IPs is used up: raise the quota, or delete floating IPs of the project that nobody uses"
    )]
    QuotaReached,
    /// Neutron has no address left.
    #[error(
        "the network has no address left (in the pool's subnets): add an allocation range or subnet, or release a claim"
    )]
    NetworkExhausted,
    /// Neutron offered nothing but addresses that the pool may not give.
    #[error(
        "the network offered only addresses that are excluded or reserved: add an allocation range, or shorten spec.excludedAddresses"
    )]
    OnlyUnwanted,
    /// The reserved address is not the project's.
    #[error(
        "{0}, reserved for this claim in spec.reservations, is not a floating IP of the project: create it, or change the reservation"
    )]
    ReservationMissing(IpAddr),
    /// The reserved address is in use.
    #[error("{0}, reserved for this claim in spec.reservations, is in use: free it, or change the reservation")]
    ReservationInUse(IpAddr),
    /// The reserved address is excluded.
    #[error(
        "{0}, reserved for this claim in spec.reservations, is also in spec.excludedAddresses: take it out of one of them"
    )]
    ReservationExcluded(IpAddr),
    /// A list needs tags.
    #[error(
        "this Neutron has no tags on floating IPs (extension standard-attr-tag), so listed addresses cannot be marked: name a floatingIPNetwork instead of a list"
    )]
    NoTags,
}
