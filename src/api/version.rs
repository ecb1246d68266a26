//! The version of Cluster API's IPAM kinds that the API server serves. Both versions share one set of types.

use kube::Client;
use kube::discovery::{ApiResource, pinned_kind};

use super::names::{CLAIM_KIND, GROUP};

/// A version of `IPAddressClaim` and `IPAddress`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum IpamVersion {
    /// Cluster API 1.9 and 1.10.
    V1Beta1,
    /// Cluster API 1.11 and later.
    #[default]
    V1Beta2,
}

impl IpamVersion {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V1Beta1 => "v1beta1",
            Self::V1Beta2 => "v1beta2",
        }
    }

    pub fn resource(self, kind: &str, plural: &str) -> ApiResource {
        let version = self.as_str();
        ApiResource {
            group: GROUP.into(),
            version: version.into(),
            api_version: format!("{GROUP}/{version}"),
            kind: kind.into(),
            plural: plural.into(),
        }
    }

    /// The newest served version; `None` if Cluster API's IPAM kinds are not installed.
    pub async fn discover(client: &Client) -> Result<Option<Self>, kube::Error> {
        for version in [Self::V1Beta2, Self::V1Beta1] {
            let kind = kube::core::GroupVersionKind::gvk(GROUP, version.as_str(), CLAIM_KIND);
            match pinned_kind(client, &kind).await {
                Ok(_) => return Ok(Some(version)),
                Err(kube::Error::Discovery(_)) => {}
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }
}
