//! Which kinds the API server serves: waited for at the start, and checked again for upgrades.

use std::time::Duration;

use kube::{Api, Client};

use super::within;
use crate::api::guarded::Guarded;
use crate::api::{IpamVersion, OpenStackFloatingIPPool};
use crate::controllers::Setup;

/// How long to wait before checking again for missing CRDs.
const CRD_RETRY: Duration = Duration::from_secs(5);

/// Waits until Cluster API's IPAM kinds and ours are served; logs once what is missing. It lists pools in the watched
/// namespace, since it may have permission only there.
pub(in crate::controllers) async fn await_apis(Setup { client, options, .. }: &Setup) -> IpamVersion {
    let pools: Api<Guarded<OpenStackFloatingIPPool>> = within(client, options.namespace.as_deref());
    let mut logged = None;
    loop {
        let missing = match IpamVersion::discover(client).await {
            Ok(Some(version)) => match pools.list(&kube::api::ListParams::default().limit(1)).await {
                Ok(_) => return version,
                Err(error) => format!("cannot list OpenStackFloatingIPPools (is crds/ applied?): {error}"),
            },
            Ok(None) => "Cluster API's IPAM kinds are not served: install Cluster API 1.9 or later".to_owned(),
            Err(error) => format!("cannot ask the API server what it serves: {error}"),
        };
        if logged.as_ref() != Some(&missing) {
            tracing::warn!("waiting: {missing}");
            logged = Some(missing);
        }
        tokio::time::sleep(CRD_RETRY).await;
    }
}

/// How often to check whether Cluster API was upgraded.
const VERSION_CHECK: Duration = Duration::from_secs(30);

/// Waits until another version is served. It must be seen twice, since a CRD that is being changed may be unavailable for
/// a moment.
pub(in crate::controllers) async fn another_version(client: &Client, used: IpamVersion) -> IpamVersion {
    let mut seen = used;
    loop {
        tokio::time::sleep(if seen == used { VERSION_CHECK } else { CRD_RETRY }).await;
        let found = IpamVersion::discover(client).await.ok().flatten().unwrap_or(used);
        if found != used && found == seen {
            return found;
        }
        seen = found;
    }
}
