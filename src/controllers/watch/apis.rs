//! Which kinds the API server serves: waited for at the start, and looked at again for upgrades.

use std::time::Duration;

use kube::{Api, Client};

use super::within;
use crate::api::{IpamVersion, OpenStackFloatingIPPool};
use crate::controllers::Setup;

/// How long to wait before asking again for CRDs that are not there.
const CRD_RETRY: Duration = Duration::from_secs(5);

/// Waits until Cluster API's IPAM kinds and ours are served; says once what is missing. It looks where it is to work, since
/// it may be allowed to list pools there alone.
pub(in crate::controllers) async fn await_apis(Setup { client, options, .. }: &Setup) -> IpamVersion {
    let pools: Api<OpenStackFloatingIPPool> = within(client, options.namespace.as_deref());
    let mut said = None;
    loop {
        let missing = match IpamVersion::discover(client).await {
            Ok(Some(version)) => match pools.list(&kube::api::ListParams::default().limit(1)).await {
                Ok(_) => return version,
                Err(error) => format!("cannot list OpenStackFloatingIPPools (is crds/ applied?): {error}"),
            },
            Ok(None) => "Cluster API's IPAM kinds are not served: install Cluster API 1.9 or later".to_owned(),
            Err(error) => format!("cannot ask the API server what it serves: {error}"),
        };
        if said.as_ref() != Some(&missing) {
            tracing::warn!("waiting: {missing}");
            said = Some(missing);
        }
        tokio::time::sleep(CRD_RETRY).await;
    }
}

/// How often it is looked whether Cluster API was upgraded.
const VERSION_CHECK: Duration = Duration::from_secs(30);

/// Waits until another version is to be used than this one: it was said twice, since a CRD that is being changed may be
/// away for a moment.
pub(in crate::controllers) async fn another_version(client: &Client, used: IpamVersion) -> IpamVersion {
    let mut said = used;
    loop {
        tokio::time::sleep(if said == used { VERSION_CHECK } else { CRD_RETRY }).await;
        let found = IpamVersion::discover(client).await.ok().flatten().unwrap_or(used);
        if found != used && found == said {
            return found;
        }
        said = found;
    }
}
