//! Which version of Cluster API's IPAM kinds the API server serves. The version is data: one set of types serves both.

use kube::Client;
use kube::discovery::{ApiResource, pinned_kind};

use super::names::GROUP;

/// A version of `IPAddressClaim` and `IPAddress` (contract, part A.1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum IpamVersion {
    /// Cluster API 1.9 and 1.10.
    V1Beta1,
    /// Cluster API 1.11 and later.
    #[default]
    V1Beta2,
}

impl IpamVersion {
    /// As the API server writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V1Beta1 => "v1beta1",
            Self::V1Beta2 => "v1beta2",
        }
    }

    /// The resource of a kind of this version.
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

    /// The newest version that is served, or `None` where Cluster API's IPAM kinds are not installed (yet).
    pub async fn discover(client: &Client) -> Result<Option<Self>, kube::Error> {
        for version in [Self::V1Beta2, Self::V1Beta1] {
            let kind = kube::core::GroupVersionKind::gvk(GROUP, version.as_str(), "IPAddressClaim");
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
