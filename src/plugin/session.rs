//! The management cluster and the namespaces in scope, found as kubectl finds them; and the user's own cloud.

use std::sync::Arc;

use http::HeaderValue;
use http::header::USER_AGENT;
use kube::core::DynamicResourceScope;
use kube::{Api, Client, Resource, ResourceExt};

use super::cli::Global;
use super::exit::Failure;
use super::output::{self, Progress};
use crate::api::guarded::Guarded;
use crate::api::{IpamVersion, OpenStackFloatingIPPool};
use crate::clock::Clock;
use crate::controllers::inspect::{ConnectionProblem, Inspection, View};
use crate::object_name::ObjectName;
use crate::openstack::session::Sessions;
use crate::openstack::{Credentials, HttpsProxy};

pub(super) mod kubeconfig;
mod own_cloud;
pub(super) mod owners;

/// Of one project. The plugin has the memory of the user's machine.
const MAX_FLOATING_IPS: usize = 100_000;

/// A management cluster, and the scope of the command.
pub(super) struct PluginSession {
    pub(super) client: Client,
    /// The URL of the API server.
    pub(super) url: String,
    /// The flags of the command line by which the API server was found, without a token.
    pub(super) flags: String,
    /// From the command line, or else from the kubeconfig.
    pub(super) namespace: String,
    /// Whether the namespace is from the command line.
    pub(super) is_given: bool,
    /// All namespaces are in scope.
    pub(super) is_all: bool,
    /// How long one request of a watch may last: it may be silent for all that time.
    pub(super) watch_seconds: u32,
    /// The user's own credentials (`--os-cloud`), used instead of the pools' Secrets.
    own_credentials: Option<Credentials>,
}

impl PluginSession {
    /// Reads the kubeconfig, and sends no request yet.
    pub(super) async fn open(global: &Global) -> Result<Self, Failure> {
        let mut config = kubeconfig::read_config(global).await?;
        let agent = concat!("kubectl-fippool/", env!("CARGO_PKG_VERSION"));
        config.headers.push((USER_AGENT, HeaderValue::from_static(agent)));
        let url = config.cluster_url.to_string();
        let default = config.default_namespace.clone();
        let client = Client::try_from(config).map_err(|error| Failure::kubernetes("use the kubeconfig", &error))?;
        Ok(Self {
            client,
            url,
            flags: global.connection_flags(),
            namespace: global.namespace.clone().unwrap_or(default),
            is_given: global.namespace.is_some(),
            is_all: global.all_namespaces,
            watch_seconds: kubeconfig::watch_seconds(global.request_timeout),
            own_credentials: global.os_cloud.as_deref().map(own_cloud::read_credentials).transpose()?,
        })
    }

    /// The version in which Cluster API's IPAM kinds are used.
    pub(super) async fn version(&self) -> Result<IpamVersion, Failure> {
        let found = IpamVersion::discover(&self.client).await;
        found.map_err(|error| self.unreachable(&error))?.ok_or_else(|| {
            Failure::NotFound("Cluster API's IPAM kinds are not served: install Cluster API 1.9 or later".into())
        })
    }

    /// The pools in scope.
    pub(super) fn pools(&self) -> Api<Guarded<OpenStackFloatingIPPool>> {
        match self.is_all {
            true => Api::all(self.client.clone()),
            false => Api::namespaced(self.client.clone(), &self.namespace),
        }
    }

    /// Claims or IPAddresses in scope.
    pub(super) fn ipam_objects<K>(&self, version: IpamVersion) -> Api<Guarded<K>>
    where
        Guarded<K>: Resource<DynamicType = IpamVersion, Scope = DynamicResourceScope>,
    {
        match self.is_all {
            true => Api::all_with(self.client.clone(), &version),
            false => Api::namespaced_with(self.client.clone(), &self.namespace, &version),
        }
    }

    /// Lists what the controllers watch. All namespaces, since pools of several namespaces may share one project; only the
    /// session's own where the user may not list the others.
    pub(super) async fn inspect(&self) -> Result<Inspection, Failure> {
        let version = self.version().await?;
        let open = async |namespace| {
            let clouds = Sessions::new(Clock::system()).max_floating_ips(MAX_FLOATING_IPS);
            let clouds = Arc::new(clouds.proxy(HttpsProxy::from_environment()));
            Inspection::open(self.client.clone(), clouds, namespace, version).await
        };
        match open(None).await {
            Err(kube::Error::Api(status)) if status.code == 403 && !self.is_all => {
                output::note(&format!("only namespace {} is listed: {}", self.namespace, status.message));
                open(Some(self.namespace.clone())).await.map_err(|error| self.listing_failed(&error))
            }
            result => result.map_err(|error| self.listing_failed(&error)),
        }
    }

    fn listing_failed(&self, error: &kube::Error) -> Failure {
        match error {
            kube::Error::Api(status) if status.code == 404 => Failure::NotFound(
                "the CRD of OpenStackFloatingIPPool is missing: apply crds/, or install the chart".into(),
            ),
            kube::Error::Api(_) => Failure::kubernetes("list pools, claims, addresses and Clusters", error),
            error => self.unreachable(error),
        }
    }

    /// Lists again, after Neutron was listed: a floating IP that was marked by then had its claim by then.
    pub(super) async fn refresh(&self, inspection: &Inspection) -> Result<(), Failure> {
        inspection.refresh().await.map_err(|error| Failure::kubernetes("list pools and claims again", &error))
    }

    /// As [`PluginSession::inspect_pool`]; a pool that cannot be used is noted on stderr, and left out.
    pub(super) async fn inspect_usable_pool(
        &self,
        inspection: &Inspection,
        pool: &OpenStackFloatingIPPool,
        progress: &Progress,
    ) -> Result<Option<View>, Failure> {
        let result = self.inspect_pool(inspection, pool, progress).await?;
        let note = |problem: &ConnectionProblem| {
            output::note(&format!("the project of pool {} is not searched: {problem}", object_name(pool)));
        };
        Ok(result.inspect_err(note).ok())
    }

    /// Resolves a pool and lists its project. A [`ConnectionProblem`] would stop the controller too; a failure is what
    /// only this user may not do.
    pub(super) async fn inspect_pool(
        &self,
        inspection: &Inspection,
        pool: &OpenStackFloatingIPPool,
        progress: &Progress,
    ) -> Result<Result<View, ConnectionProblem>, Failure> {
        progress.step(&format!("listing the project of pool {}", object_name(pool)));
        if self.own_credentials.is_none()
            && let Some(message) = inspection.find_forbidden(pool).await
        {
            return Err(Failure::Request(format!(
                "read the credentials of pool {}: {message}; request permission to `get` that object, or use a cloud of your own with --os-cloud",
                object_name(pool)
            )));
        }
        Ok(inspection.inspect_pool(pool, self.own_credentials.as_ref()).await)
    }

    pub(super) fn unreachable(&self, error: &kube::Error) -> Failure {
        Failure::kubernetes(&format!("reach the API server at {}", self.url), error)
    }

    /// The pools in scope, only the `named` ones if there are any; an error if one of those does not exist.
    pub(super) fn select(
        &self,
        all: Vec<Arc<OpenStackFloatingIPPool>>,
        named: &[String],
    ) -> Result<Vec<Arc<OpenStackFloatingIPPool>>, Failure> {
        let is_in_scope =
            |pool: &Arc<OpenStackFloatingIPPool>| self.is_all || object_name(pool.as_ref()).namespace == self.namespace;
        let all: Vec<_> = all.into_iter().filter(is_in_scope).collect();
        if let Some(missing) = named.iter().find(|name| all.iter().all(|pool| pool.name_any() != **name)) {
            return Err(Failure::NotFound(format!("there is no OpenStackFloatingIPPool {missing} {}", self.place())));
        }
        Ok(all.into_iter().filter(|pool| named.is_empty() || named.contains(&pool.name_any())).collect())
    }

    /// The namespaces in scope, for messages.
    pub(super) fn place(&self) -> String {
        if self.is_all { "in any namespace".into() } else { format!("in namespace {}", self.namespace) }
    }
}

pub(super) fn object_name(object: &impl ResourceExt) -> ObjectName {
    ObjectName::new(object.namespace().unwrap_or_default(), object.name_any())
}

pub(super) fn find_pool(inspection: &Inspection, name: &ObjectName) -> Option<Arc<OpenStackFloatingIPPool>> {
    inspection.pools().into_iter().find(|pool| object_name(pool.as_ref()) == *name)
}
