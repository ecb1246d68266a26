//! What the controllers read from the labels, annotations and specs of claims, pools and IPAddresses.

use jiff::Timestamp;
use kube::ResourceExt;

use crate::allocation::published::{Binding, PublishedAddress};
use crate::allocation::{ClaimKey, PoolId};
use crate::api::names::{
    ABANDON_ANNOTATION, CLUSTER_NAME_LABEL, FLOATING_IP_ID_ANNOTATION, NETWORK_ID_ANNOTATION, POOL_ID_ANNOTATION,
    WATCH_FILTER_LABEL,
};
use crate::api::{IpAddress, IpAddressClaim, OpenStackFloatingIPPool};
use crate::floating_ip::{FloatingIpId, NetworkId};

/// Whether a controller with this `--watch-filter` serves the pool.
pub(super) fn is_watched(pool: &OpenStackFloatingIPPool, watch_filter: Option<&str>) -> bool {
    watch_filter.is_none_or(|filter| pool.labels().get(WATCH_FILTER_LABEL).is_some_and(|label| label == filter))
}

/// Whether its floating IPs are to be left behind in OpenStack when the object is deleted.
pub(super) fn is_abandoned(object: &impl ResourceExt) -> bool {
    object.annotations().get(ABANDON_ANNOTATION).is_some_and(|value| value == "true")
}

/// Whether the pool, not an earlier one with its name, is an owner of the IPAddress.
pub(super) fn is_owned_by(address: &IpAddress, pool: &OpenStackFloatingIPPool) -> bool {
    pool.metadata.uid.as_ref().is_some_and(|uid| address.has_owner(uid))
}

/// The Cluster that a claim belongs to: by its spec or, for CAPO's claims, by the label.
pub(super) fn cluster_of(claim: &IpAddressClaim) -> Option<&str> {
    let by_label = || claim.labels().get(CLUSTER_NAME_LABEL).map(String::as_str);
    claim.spec.cluster_name.as_deref().or_else(by_label).filter(|name| !name.is_empty())
}

/// What an IPAddress names. Ours have annotations with the ids of the pool and the floating IP.
pub(crate) fn read_published(object: &IpAddress) -> Option<PublishedAddress> {
    let address = object.spec.address.parse().ok()?;
    Some(PublishedAddress { address, binding: read_binding(object) })
}

/// None for one that is not named like its claim, as ours are: with it, a user could bind a claim to anything.
fn read_binding(object: &IpAddress) -> Option<Binding> {
    let is_named_like_its_claim = object.metadata.name.as_ref() == Some(&object.spec.claim_ref.name);
    let pool = PoolId::parse(object.annotation(POOL_ID_ANNOTATION)?)?;
    let fip = FloatingIpId::new(object.annotation(FLOATING_IP_ID_ANNOTATION)?);
    let claim = ClaimKey::of(&object.namespace()?, &object.spec.claim_ref.name);
    let network = object.annotation(NETWORK_ID_ANNOTATION).map(NetworkId::new);
    let since = object.metadata.creation_timestamp.as_ref().map_or(Timestamp::MAX, |created| created.0);
    (is_named_like_its_claim && object.spec.pool_ref.is_ours()).then_some(Binding { pool, claim, fip, network, since })
}
