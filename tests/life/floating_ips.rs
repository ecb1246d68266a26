//! Floating IPs as scenarios find them in Neutron.

use super::*;

/// The floating IP with this address, as Neutron has it.
pub(super) async fn floating_ip_of(cloud: &Cloud, address: &str) -> FloatingIp {
    cloud.find(address).await.unwrap_or_else(|| panic!("{address} is not in Neutron"))
}

/// Waits until the floating IP with this address is as wanted.
pub(super) async fn await_floating_ip(
    cloud: &Cloud,
    address: &str,
    what: &str,
    is_wanted: impl Fn(&FloatingIp) -> bool,
) -> FloatingIp {
    eventually(RESYNC, async || match cloud.find(address).await {
        Some(found) if is_wanted(&found) => Ok(found),
        found => Err(format!("{address} is not {what}: {found:?}")),
    })
    .await
}

pub(super) async fn await_unmarked(cloud: &Cloud, address: &str) -> FloatingIp {
    await_floating_ip(cloud, address, "unmarked", |found| !is_marked(found)).await
}

pub(super) async fn await_floating_ip_deleted(cloud: &Cloud, address: &str, within: Duration) {
    eventually(within, async || match cloud.find(address).await {
        None => Ok(()),
        Some(found) => Err(format!("{address} is still there: {found:?}")),
    })
    .await;
}

/// The floating IPs with a pool's mark.
pub(super) async fn marked_floating_ips(cloud: &Cloud, pool_id: &str) -> Vec<FloatingIp> {
    let mut all = cloud.floating_ips().await;
    all.retain(|fip| fip.description.contains(pool_id) || fip.tags.iter().any(|tag| tag.contains(pool_id)));
    all
}

/// Their addresses.
pub(super) async fn marked_addresses(cloud: &Cloud, pool_id: &str) -> BTreeSet<String> {
    marked_floating_ips(cloud, pool_id).await.into_iter().map(|fip| fip.address).collect()
}

/// Waits until exactly the addresses of the claims have the pool's mark.
pub(super) async fn await_marks_of_bound_claims_alone(ns: &Namespace, pool_id: &str, within: Duration) {
    let given = bound_addresses(ns).await;
    assert_distinct(&given);
    let given: BTreeSet<String> = given.into_iter().map(|(_, address)| address).collect();
    let cloud = ns.cloud().await;
    eventually(within, async || match marked_addresses(cloud, pool_id).await {
        marked if marked == given => Ok(()),
        marked => Err(format!("given {given:?}, marked {marked:?}")),
    })
    .await;
}

/// Whether a floating IP has a mark of any pool.
pub(super) fn is_marked(fip: &FloatingIp) -> bool {
    fip.description.starts_with("caip-openstack ") || fip.tags.iter().any(|tag| tag.starts_with("caip"))
}

pub(super) fn is_released(fip: &FloatingIp) -> bool {
    fip.tags.iter().any(|tag| tag.starts_with("caip-out."))
}
