//! Neutron's URL: the entry of the catalogue that fits region and interface.

use openstack_sdk_auth_core::types::ServiceEndpoints;
use openstack_sdk_core::catalog::ServiceEndpoint;
use openstack_sdk_core::types::ApiVersion;
use url::Url;

use super::super::{Credentials, Error, ErrorKind};

const OPERATION: &str = "find Neutron in the catalogue";

/// Keystone's limit on a region's id. It becomes an annotation.
const MAX_REGION: usize = 255;

/// In bytes. Longer URLs are not accepted by servers either.
const MAX_URL: usize = 2048;

/// Where Neutron is.
#[derive(Clone)]
pub(super) struct NeutronEndpoint {
    /// Its URL ends in `/v2.0/`.
    pub(super) service: ServiceEndpoint,
    pub(super) region: String,
}

/// The version is added, not discovered: there is no other, and discovery would cost a call for each session.
pub(super) fn neutron_endpoint(
    catalog: &[ServiceEndpoints],
    credentials: &Credentials,
) -> Result<NeutronEndpoint, Error> {
    let fail = |kind, message: String| Error::new(kind, OPERATION, message);
    let interface = credentials.interface;
    let mut offers: Vec<(&str, &str)> = catalog
        .iter()
        .filter(|service| service.service_type == "network")
        .flat_map(|service| &service.endpoints)
        .filter(|endpoint| endpoint.interface.trim_end_matches("URL") == interface)
        .map(|endpoint| (endpoint.region.as_deref().unwrap_or("none"), endpoint.url.as_str()))
        .collect();
    offers.sort_unstable();
    offers.dedup();
    let mut regions: Vec<&str> = offers.iter().map(|(region, _)| *region).collect();
    regions.dedup();
    let regions = regions.join(", ");

    let mut fitting =
        offers.iter().filter(|(region, _)| credentials.region.as_deref().is_none_or(|want| want == *region));
    let (region, url) = match (fitting.next(), fitting.next(), &credentials.region) {
        (Some(only), None, _) => only,
        // Two entries in one region: the first, as other clients do.
        (Some(first), Some(_), Some(_)) => first,
        (Some(first), Some(second), None) if first.0 == second.0 => first,
        (Some(_), Some(_), None) => {
            let message = format!("several regions have one: {regions}; set identityRef.region");
            return Err(fail(ErrorKind::Credentials, message));
        }
        (None, _, Some(region)) if !offers.is_empty() => {
            let message = format!(
                "region {region} has no {interface} endpoint; these have one: {regions}; set identityRef.region to one of them"
            );
            return Err(fail(ErrorKind::NoNetworkService, message));
        }
        (None, ..) => {
            let message = format!("no region has an {interface} endpoint: is interface in clouds.yaml right?");
            return Err(fail(ErrorKind::NoNetworkService, message));
        }
    };
    let malformed = || fail(ErrorKind::Malformed, format!("the URL of region {region} cannot be used"));
    let is_short = region.len() <= MAX_REGION && url.len() <= MAX_URL;
    let url = versioned(url).filter(|_| is_short).ok_or_else(malformed)?;
    Ok(NeutronEndpoint { service: ServiceEndpoint::new(url, ApiVersion::new(2, 0)), region: (*region).to_owned() })
}

fn versioned(url: &str) -> Option<Url> {
    let mut url = Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https"))?;
    let path = url.path().trim_end_matches('/').to_owned();
    let last = path.rsplit('/').next().unwrap_or_default();
    url.set_path(&if last == "v2.0" { format!("{path}/") } else { format!("{path}/v2.0/") });
    url.set_query(None);
    Some(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_added_unless_the_catalogue_has_it() {
        for (catalogue, expected) in [
            ("http://n:9696", "http://n:9696/v2.0/"),
            ("http://n:9696/", "http://n:9696/v2.0/"),
            ("https://n/networking", "https://n/networking/v2.0/"),
            ("https://n/network/v2.0", "https://n/network/v2.0/"),
            ("https://n/network/v2.0/", "https://n/network/v2.0/"),
        ] {
            assert_eq!(versioned(catalogue).unwrap().as_str(), expected);
        }
        assert!(versioned("n:9696").is_none());
    }
}
