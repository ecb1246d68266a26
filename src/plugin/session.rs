//! The management cluster and the namespaces that are meant, as kubectl finds them; and the user's own cloud.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use http::header::USER_AGENT;
use k8s_openapi::api::core::v1::Secret;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, ResourceExt};

use super::cli::Global;
use super::exit::Failure;
use super::output;
use crate::api::{IpamVersion, OpenStackFloatingIPPool};
use crate::clock::Clock;
use crate::controllers::inspect::{Inspection, Trouble, View};
use crate::object_name::ObjectName;
use crate::openstack::Credentials;
use crate::openstack::session::Sessions;
use crate::runtime::telemetry::chain;

mod own_cloud;
pub(super) mod owners;

/// How long to wait for a connection: a person sits before it.
const CONNECT: Duration = Duration::from_secs(10);
/// How long to wait for an answer.
const READ: Duration = Duration::from_secs(60);

/// A management cluster, and what of it is meant.
pub(super) struct Session {
    pub(super) client: Client,
    /// Where the API server is.
    pub(super) url: String,
    /// The namespace meant where a command needs one.
    pub(super) namespace: String,
    /// Whether a namespace was given on the command line.
    pub(super) is_given: bool,
    /// All namespaces.
    pub(super) is_all: bool,
    /// The user's own credentials.
    pub(super) own: Option<Credentials>,
}

impl Session {
    /// Reads the kubeconfig; nothing is asked of the cluster yet.
    pub(super) async fn open(global: &Global) -> Result<Self, Failure> {
        let mut config = configuration(global).await?;
        let agent = concat!("kubectl-fippool/", env!("CARGO_PKG_VERSION"));
        config.headers.push((USER_AGENT, HeaderValue::from_static(agent)));
        (config.connect_timeout, config.read_timeout) = (Some(CONNECT), Some(READ));
        let url = config.cluster_url.to_string();
        let default = config.default_namespace.clone();
        let client = Client::try_from(config).map_err(|error| Failure::kubernetes("use the kubeconfig", &error))?;
        Ok(Self {
            client,
            url,
            namespace: global.namespace.clone().unwrap_or(default),
            is_given: global.namespace.is_some(),
            is_all: global.all_namespaces,
            own: global.os_cloud.as_deref().map(own_cloud::read).transpose()?,
        })
    }

    /// The version of Cluster API's kinds.
    pub(super) async fn version(&self) -> Result<IpamVersion, Failure> {
        let found = IpamVersion::discover(&self.client).await;
        found.map_err(|error| self.unreachable(&error))?.ok_or_else(|| {
            Failure::NotFound("Cluster API's IPAM kinds are not served: install Cluster API 1.9 or later".into())
        })
    }

    /// Lists what the controllers see: in all namespaces, since pools of different ones may meet in one project; in the
    /// one that is meant where the user may not list more.
    pub(super) async fn inspect(&self) -> Result<Inspection, Failure> {
        let version = self.version().await?;
        let open = async |namespace| {
            let clouds = Arc::new(Sessions::new(Clock::system()));
            Inspection::open(self.client.clone(), clouds, namespace, version).await
        };
        match open(None).await {
            Err(kube::Error::Api(status)) if status.code == 403 && !self.is_all => {
                output::note(&format!("only namespace {} is looked at: {}", self.namespace, status.message));
                open(Some(self.namespace.clone())).await.map_err(|error| self.unlisted(&error))
            }
            result => result.map_err(|error| self.unlisted(&error)),
        }
    }

    fn unlisted(&self, error: &kube::Error) -> Failure {
        match error {
            kube::Error::Api(status) if status.code == 404 => Failure::NotFound(
                "the CRD of OpenStackFloatingIPPool is not there: apply crds/, or install the chart".into(),
            ),
            kube::Error::Api(_) => Failure::kubernetes("list pools, claims, addresses and Clusters", error),
            error => self.unreachable(error),
        }
    }

    /// Looks at a pool in OpenStack. What the controller could not do either is [`Trouble`]; what only this user may not
    /// do is a failure.
    pub(super) async fn look(
        &self,
        inspection: &Inspection,
        pool: &OpenStackFloatingIPPool,
    ) -> Result<Result<View, Trouble>, Failure> {
        if self.own.is_none() {
            let (namespace, name) = (pool.namespace().unwrap_or_default(), &pool.spec.identity_ref.name);
            let secrets: Api<Secret> = Api::namespaced(self.client.clone(), &namespace);
            if let Err(kube::Error::Api(status)) = secrets.get_metadata(name).await
                && matches!(status.code, 401 | 403)
            {
                return Err(Failure::Asked(format!(
                    "read the credentials of pool {namespace}/{}: {}; ask for `get` on that Secret, or name a cloud of your own by --os-cloud",
                    pool.name_any(),
                    status.message
                )));
            }
        }
        Ok(inspection.look(pool, self.own.as_ref()).await)
    }

    /// The API server does not answer as it should.
    pub(super) fn unreachable(&self, error: &kube::Error) -> Failure {
        Failure::kubernetes(&format!("ask the API server at {}", self.url), error)
    }

    /// Those of the pools that are meant; an error for one that is named and not there.
    pub(super) fn select(
        &self,
        all: Vec<Arc<OpenStackFloatingIPPool>>,
        named: &[String],
    ) -> Result<Vec<Arc<OpenStackFloatingIPPool>>, Failure> {
        let in_scope = |pool: &Arc<OpenStackFloatingIPPool>| {
            self.is_all || pool.namespace().as_deref() == Some(self.namespace.as_str())
        };
        let all: Vec<_> = all.into_iter().filter(in_scope).collect();
        let is_there = |name: &&String| all.iter().any(|pool| pool.name_any() == **name);
        if let Some(missing) = named.iter().find(|name| !is_there(name)) {
            return Err(Failure::NotFound(format!("there is no OpenStackFloatingIPPool {missing} {}", self.place())));
        }
        Ok(all.into_iter().filter(|pool| named.is_empty() || named.contains(&pool.name_any())).collect())
    }

    /// Where is looked, for messages.
    pub(super) fn place(&self) -> String {
        if self.is_all { "in any namespace".into() } else { format!("in namespace {}", self.namespace) }
    }

    /// An object of the namespace that is meant.
    pub(super) fn object(&self, name: &str) -> ObjectName {
        ObjectName::new(&self.namespace, name)
    }
}

async fn configuration(global: &Global) -> Result<Config, Failure> {
    let options = KubeConfigOptions { context: global.context.clone(), ..KubeConfigOptions::default() };
    let loaded = match &global.kubeconfig {
        Some(path) => match Kubeconfig::read_from(path) {
            Ok(kubeconfig) => Config::from_custom_kubeconfig(kubeconfig, &options).await,
            Err(error) => Err(error),
        },
        None => Config::from_kubeconfig(&options).await,
    };
    loaded.map_err(|error| {
        let path = global.kubeconfig.clone().or_else(|| std::env::var_os("KUBECONFIG").map(PathBuf::from));
        let path = path.map_or("~/.kube/config".into(), |path| path.display().to_string());
        Failure::Asked(format!("use the kubeconfig {path} (--kubeconfig, KUBECONFIG): {}", chain(&error)))
    })
}
