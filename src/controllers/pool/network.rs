//! Finds the pool's network and subnets in Neutron, or why they cannot be used.

use super::failure::PoolFailure;
use crate::api::OpenStackFloatingIPPoolSpec;
use crate::api::conditions::pool_reasons as reasons;
use crate::api::pool_network::{NetworkParam, SubnetParam};
use crate::controllers::memory::Problem;
use crate::floating_ip::SubnetId;
use crate::openstack::{Filter, Network, Neutron};

/// How many networks a message names. A cloud may have thousands.
const NAMED: usize = 8;

/// The one external network that the spec means; none for a closed list.
pub(super) async fn find_network(
    spec: &OpenStackFloatingIPPoolSpec,
    neutron: &dyn Neutron,
) -> Result<Option<Network>, PoolFailure> {
    if spec.is_closed() {
        return Ok(None);
    }
    let field = "spec.floatingIPNetwork";
    let found = neutron.find_networks(&network_filter(spec)).await.map_err(PoolFailure::Neutron)?;
    let external: Vec<&Network> = found.iter().filter(|network| network.is_external).collect();
    let is_published = spec.floating_ip_network.is_some();
    let (reason, message) = match (external.as_slice(), found.as_slice()) {
        ([network], _) => return Ok(Some((*network).clone())),
        ([], []) if is_published => {
            (reasons::NETWORK_NOT_FOUND, format!("no network of the cloud matches {field}: check its id or filter"))
        }
        ([], []) => (
            reasons::NETWORK_NOT_FOUND,
            format!("the cloud has no external network that this project can see: create one, or name one in {field}"),
        ),
        ([], inner) => (
            reasons::NETWORK_NOT_EXTERNAL,
            format!(
                "{field} matches {}, which is not external and so has no floating IPs: name an external network",
                names(inner.iter())
            ),
        ),
        (several, _) if is_published => (
            reasons::NETWORK_AMBIGUOUS,
            format!("several external networks match {field}, name one by its id: {}", names(several.iter().copied())),
        ),
        (several, _) => (
            reasons::NETWORK_AMBIGUOUS,
            format!(
                "the cloud has several external networks, name one of them in {field}: {}",
                names(several.iter().copied())
            ),
        ),
    };
    Err(PoolFailure::Network(Problem { reason, message }))
}

fn names<'a>(networks: impl Iterator<Item = &'a Network>) -> String {
    let mut names: Vec<String> = networks.map(|network| format!("{} ({})", network.name, network.id)).collect();
    names.sort();
    let more = if names.len() > NAMED { ", …" } else { "" };
    names.truncate(NAMED);
    names.join(", ") + more
}

fn network_filter(spec: &OpenStackFloatingIPPoolSpec) -> Filter {
    match &spec.floating_ip_network {
        None => Filter { is_external: Some(true), ..Filter::default() },
        Some(NetworkParam { id: Some(id), .. }) => Filter { id: Some(id.clone()), ..Filter::default() },
        Some(NetworkParam { filter, .. }) => {
            let filter = filter.clone().unwrap_or_default();
            Filter {
                name: filter.name,
                description: filter.description,
                project_id: filter.project_id,
                tags: filter.tags,
                tags_any: filter.tags_any,
                not_tags: filter.not_tags,
                not_tags_any: filter.not_tags_any,
                ..Filter::default()
            }
        }
    }
}

/// The subnets that the spec means, in its order.
pub(super) async fn find_subnets(
    spec: &OpenStackFloatingIPPoolSpec,
    network: Option<&Network>,
    neutron: &dyn Neutron,
) -> Result<Vec<SubnetId>, PoolFailure> {
    let Some(network) = network else { return Ok(Vec::new()) };
    let mut subnets = Vec::new();
    for (index, wanted) in spec.subnets.iter().enumerate() {
        // A project may not be allowed to list external subnets, so an id is taken as it is.
        if let Some(id) = &wanted.id {
            subnets.push(SubnetId::new(id));
            continue;
        }
        let found = neutron.find_subnets(&subnet_filter(wanted, network)).await.map_err(PoolFailure::Neutron)?;
        let message = match found.as_slice() {
            [subnet] => {
                subnets.push(subnet.id.clone());
                continue;
            }
            [] => format!(
                "no subnet of network {} that this project can see matches spec.subnets[{index}].filter: check the filter, or give the subnet's id",
                network.name
            ),
            _ => format!(
                "several subnets of network {} match spec.subnets[{index}].filter: give the subnet's id",
                network.name
            ),
        };
        return Err(PoolFailure::Network(Problem { reason: reasons::SUBNET_NOT_FOUND, message }));
    }
    Ok(subnets)
}

fn subnet_filter(wanted: &SubnetParam, network: &Network) -> Filter {
    let filter = wanted.filter.clone().unwrap_or_default();
    Filter {
        name: filter.name,
        description: filter.description,
        project_id: filter.project_id,
        cidr: filter.cidr,
        ip_version: filter.ip_version,
        tags: filter.tags,
        tags_any: filter.tags_any,
        not_tags: filter.not_tags,
        not_tags_any: filter.not_tags_any,
        network_id: Some(network.id.to_string()),
        ..Filter::default()
    }
}
