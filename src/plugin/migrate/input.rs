//! What a migration begins with: what is asked for, CAPO's pool, the templates that point to it, the users of those, and
//! the claims.

use kube::api::{Api, DynamicObject, ListParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::discovery::pinned_kind;
use kube::{Client, ResourceExt};
use serde_json::Value;

use crate::api::claim::PoolRef;
use crate::api::names::{CAPO_GROUP, CLUSTER_NAME_LABEL, GROUP, POOL_KIND};
use crate::api::{IpAddress, IpAddressClaim};
use crate::plugin::cli::Migrate;
use crate::plugin::deployment::uses_identities;
use crate::plugin::exit::Failure;
use crate::plugin::session::PluginSession;

/// On objects that a ClusterClass generated: Cluster API would revert a change.
const TOPOLOGY_LABEL: &str = "topology.cluster.x-k8s.io/owned";

#[derive(Default, Debug)]
pub(super) struct MigrationInput {
    pub(super) namespace: String,
    /// The flags by which the management cluster was found, for the commands of the plan; each with a space before it.
    pub(super) connection: String,
    /// Whether all addresses of CAPO's pool are to be kept.
    pub(super) keeps_addresses: bool,
    /// The Secret for the new pool, where it is not that of CAPO's pool.
    pub(super) secret: Option<String>,
    /// CAPO's pool.
    pub(super) pool: Value,
    /// The templates that point to CAPO's pool.
    pub(super) templates: Vec<MachineTemplate>,
    pub(super) users: Vec<TemplateUser>,
    /// The bastions that point to CAPO's pool.
    pub(super) bastions: Vec<Bastion>,
    /// The OpenStackServers that point to it and belong to no machine or bastion.
    pub(super) servers: Vec<String>,
    /// The claims on CAPO's pool.
    pub(super) claims: Vec<InTreeClaim>,
    /// What the IPAddresses of CAPO's pool name.
    pub(super) published: Vec<String>,
    /// An existing pool of ours with the new name.
    pub(super) our_pool: Option<Value>,
    /// Whether claims name that pool.
    pub(super) has_our_claims: bool,
    /// Whether the Secret of the new pool exists; none where the user may not know, or it has a cluster identity.
    pub(super) has_secret: Option<bool>,
    /// Whether the controller uses cluster identities; none where that is not known.
    pub(super) uses_identities: Option<bool>,
}

#[derive(Debug)]
pub(super) struct MachineTemplate {
    pub(super) object: Value,
    /// An existing template with the new name.
    pub(super) successor: Option<Value>,
    /// By a ClusterClass.
    pub(super) is_generated: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Bastion {
    /// The OpenStackCluster.
    pub(super) infrastructure: String,
    /// The Cluster, after which CAPO names the bastion.
    pub(super) cluster: String,
    pub(super) is_enabled: bool,
    /// By a ClusterClass.
    pub(super) is_generated: bool,
}

/// A MachineDeployment or control plane, and the template that it names.
#[derive(Clone, Debug)]
pub(super) struct TemplateUser {
    /// The plural and group, for kubectl.
    pub(super) resource: &'static str,
    pub(super) name: String,
    pub(super) template: String,
    /// The JSON pointer to the template's name.
    pub(super) path: &'static str,
    /// The JSON pointer to the numbers of a rolling update.
    pub(super) rolling_update: &'static str,
    pub(super) replicas: u64,
    pub(super) is_generated: bool,
}

#[derive(Clone, Debug)]
pub(super) struct InTreeClaim {
    pub(super) name: String,
    pub(super) address: Option<String>,
    pub(super) cluster: Option<String>,
    /// `Kind name` of its owner.
    pub(super) owner: Option<String>,
}

impl InTreeClaim {
    /// CAPO names the claim of a bastion after the Cluster.
    pub(super) fn is_of_bastion(&self) -> bool {
        self.cluster.as_ref().is_some_and(|cluster| self.name == format!("{cluster}-bastion-floating-ip-address"))
    }
}

pub(super) fn successor_name(template: &str) -> String {
    format!("{template}-ipam")
}

pub(super) async fn read_input(session: &PluginSession, args: &Migrate, to: &str) -> Result<MigrationInput, Failure> {
    let namespace = session.namespace.clone();
    let pool = args.pool.as_str();
    let Some(in_tree) = get(session, &resource(CAPO_GROUP, "v1alpha1", POOL_KIND), pool).await? else {
        return Err(Failure::NotFound(format!(
            "there is no {POOL_KIND} {pool} of {CAPO_GROUP} in namespace {namespace}: `kubectl get openstackfloatingippools.{CAPO_GROUP} -A` lists them"
        )));
    };
    let mut input = MigrationInput {
        namespace,
        connection: session.flags.clone(),
        keeps_addresses: args.keep_addresses,
        secret: args.secret.clone(),
        pool: value(in_tree),
        ..MigrationInput::default()
    };
    input.our_pool = get(session, &resource(GROUP, "v1alpha1", POOL_KIND), to).await?.map(value);
    match input.has_cluster_identity() {
        true => input.uses_identities = uses_identities(session).await,
        false => input.has_secret = has_secret(session, &input).await,
    }
    if let Some(templates) = newest_version(&session.client, CAPO_GROUP, "OpenStackMachineTemplate").await {
        let path = "/spec/template/spec/floatingIPPoolRef";
        for object in list(session, &templates).await?.into_iter().filter(|object| points_to(object, path, pool)) {
            input.templates.push(MachineTemplate {
                successor: get(session, &templates, &successor_name(&object.name_any())).await?.map(value),
                is_generated: object.labels().contains_key(TOPOLOGY_LABEL),
                object: value_with_kind(object, &templates),
            });
        }
    }
    input.users = list_users(session).await?;
    input.bastions = list_bastions(session, pool).await?;
    input.servers = list_servers(session, pool).await?;
    read_claims(session, pool, to, &mut input).await?;
    Ok(input)
}

impl TemplateUser {
    pub(super) fn is_control_plane(&self) -> bool {
        self.resource.starts_with("kubeadmcontrolplanes")
    }
}

impl MigrationInput {
    /// Whether the new pool has the cluster identity of CAPO's pool.
    pub(super) fn has_cluster_identity(&self) -> bool {
        self.secret.is_none()
            && self.pool.pointer("/spec/identityRef/type").and_then(Value::as_str) == Some("ClusterIdentity")
    }

    /// The Secret of the new pool.
    pub(super) fn secret_name(&self) -> Option<&str> {
        self.secret.as_deref().or_else(|| self.pool.pointer("/spec/identityRef/name")?.as_str())
    }

    /// What the condition of an existing pool of ours says, if it is not ready.
    pub(super) fn why_not_ready(&self) -> Option<&str> {
        let conditions = self.our_pool.as_ref()?.pointer("/status/conditions")?.as_array()?;
        let ready = conditions.iter().find(|condition| condition.get("type").is_some_and(|it| it == "Ready"))?;
        (ready.get("status")? == "False").then(|| ready.get("message").and_then(Value::as_str).unwrap_or_default())
    }

    /// CAPO's pool gives no address while it is being deleted. It remains until its last IPAddress is gone.
    pub(super) fn is_closed(&self) -> bool {
        self.pool.pointer("/metadata/deletionTimestamp").is_some()
    }
}

fn resource(group: &str, version: &str, kind: &str) -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
}

fn value(object: DynamicObject) -> Value {
    serde_json::to_value(object).unwrap_or_default()
}

/// The items of a list have no kind of their own.
#[expect(clippy::indexing_slicing, reason = "a Kubernetes object is a JSON object")]
fn value_with_kind(object: DynamicObject, resource: &ApiResource) -> Value {
    let mut value = value(object);
    value["apiVersion"] = resource.api_version.clone().into();
    value["kind"] = resource.kind.clone().into();
    value
}

async fn newest_version(client: &Client, group: &str, kind: &str) -> Option<ApiResource> {
    for version in ["v1beta2", "v1beta1", "v1alpha1"] {
        if let Ok((resource, _)) = pinned_kind(client, &GroupVersionKind::gvk(group, version, kind)).await {
            return Some(resource);
        }
    }
    None
}

fn api(session: &PluginSession, resource: &ApiResource) -> Api<DynamicObject> {
    Api::namespaced_with(session.client.clone(), &session.namespace, resource)
}

async fn get(session: &PluginSession, resource: &ApiResource, name: &str) -> Result<Option<DynamicObject>, Failure> {
    match api(session, resource).get_opt(name).await {
        // The kind is not served.
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        result => result.map_err(|error| Failure::kubernetes(&format!("read {} {name}", resource.kind), &error)),
    }
}

async fn list(session: &PluginSession, resource: &ApiResource) -> Result<Vec<DynamicObject>, Failure> {
    let listed = api(session, resource).list(&ListParams::default()).await;
    Ok(listed.map_err(|error| Failure::kubernetes(&format!("list {}s", resource.kind), &error))?.items)
}

async fn has_secret(session: &PluginSession, input: &MigrationInput) -> Option<bool> {
    let name = input.secret_name()?;
    let secrets: Api<k8s_openapi::api::core::v1::Secret> = Api::namespaced(session.client.clone(), &session.namespace);
    secrets.get_metadata_opt(name).await.ok().map(|found| found.is_some())
}

/// CAPO itself compares only kind and name; a reference with another group is not meant for CAPO's pool.
fn points_to(object: &DynamicObject, path: &str, pool: &str) -> bool {
    let Some(reference) = object.data.pointer(path) else { return false };
    let is_capos = reference.get("apiGroup").and_then(Value::as_str).is_none_or(|group| group == CAPO_GROUP);
    is_capos && reference["kind"] == POOL_KIND && reference["name"] == pool
}

async fn list_bastions(session: &PluginSession, pool: &str) -> Result<Vec<Bastion>, Failure> {
    let clusters = list_pointing(session, "OpenStackCluster", "/spec/bastion/spec/floatingIPPoolRef", pool).await?;
    let bastion = |infrastructure: &DynamicObject| {
        let name = infrastructure.name_any();
        let is_enabled = infrastructure.data.pointer("/spec/bastion/enabled").and_then(Value::as_bool);
        Bastion {
            cluster: infrastructure.labels().get(CLUSTER_NAME_LABEL).unwrap_or(&name).clone(),
            infrastructure: name,
            is_enabled: is_enabled.unwrap_or(true),
            is_generated: infrastructure.labels().contains_key(TOPOLOGY_LABEL),
        }
    };
    Ok(clusters.iter().map(bastion).collect())
}

async fn list_servers(session: &PluginSession, pool: &str) -> Result<Vec<String>, Failure> {
    let servers = list_pointing(session, "OpenStackServer", "/spec/floatingIPPoolRef", pool).await?;
    // Those of machines and bastions have an owner.
    let alone = servers.iter().filter(|server| server.owner_references().is_empty());
    Ok(alone.map(ResourceExt::name_any).collect())
}

/// The objects of a kind of CAPO that point to the pool; none if the kind is not served.
async fn list_pointing(
    session: &PluginSession,
    kind: &str,
    path: &str,
    pool: &str,
) -> Result<Vec<DynamicObject>, Failure> {
    let Some(resource) = newest_version(&session.client, CAPO_GROUP, kind).await else { return Ok(Vec::new()) };
    Ok(list(session, &resource).await?.into_iter().filter(|object| points_to(object, path, pool)).collect())
}

async fn list_users(session: &PluginSession) -> Result<Vec<TemplateUser>, Failure> {
    let sources = [
        ("cluster.x-k8s.io", "MachineDeployment", "machinedeployments.cluster.x-k8s.io"),
        ("controlplane.cluster.x-k8s.io", "KubeadmControlPlane", "kubeadmcontrolplanes.controlplane.cluster.x-k8s.io"),
    ];
    let paths = [
        "/spec/template/spec/infrastructureRef/name",
        "/spec/machineTemplate/spec/infrastructureRef/name",
        "/spec/machineTemplate/infrastructureRef/name",
    ];
    let mut users = Vec::new();
    for (group, kind, plural) in sources {
        let Some(found) = newest_version(&session.client, group, kind).await else { continue };
        let rolling_update = match (found.version.as_str(), kind) {
            ("v1beta1", "MachineDeployment") => "/spec/strategy/rollingUpdate",
            ("v1beta1", _) => "/spec/rolloutStrategy/rollingUpdate",
            _ => "/spec/rollout/strategy/rollingUpdate",
        };
        for object in list(session, &found).await? {
            let named = paths.iter().find_map(|path| Some((*path, object.data.pointer(path)?.as_str()?.to_owned())));
            users.extend(named.map(|(path, template)| TemplateUser {
                resource: plural,
                name: object.name_any(),
                template,
                path,
                rolling_update,
                replicas: object.data.pointer("/spec/replicas").and_then(Value::as_u64).unwrap_or(1),
                is_generated: object.labels().contains_key(TOPOLOGY_LABEL),
            }));
        }
    }
    Ok(users)
}

async fn read_claims(session: &PluginSession, pool: &str, to: &str, input: &mut MigrationInput) -> Result<(), Failure> {
    let version = session.version().await?;
    let failed = |error| Failure::kubernetes("list IPAddressClaims and IPAddresses", &error);
    let claims: Api<IpAddressClaim> = Api::namespaced_with(session.client.clone(), &session.namespace, &version);
    let addresses: Api<IpAddress> = Api::namespaced_with(session.client.clone(), &session.namespace, &version);
    let addresses = addresses.list(&ListParams::default()).await.map_err(failed)?.items;
    let address = |claim: &IpAddressClaim| {
        let name = &claim.status.as_ref()?.address_ref.as_ref()?.name;
        addresses.iter().find(|address| address.name_any() == *name).map(|address| address.spec.address.clone())
    };
    let claims = claims.list(&ListParams::default()).await.map_err(failed)?.items;
    let read = |claim: &IpAddressClaim| InTreeClaim {
        name: claim.name_any(),
        address: address(claim),
        cluster: claim.labels().get(CLUSTER_NAME_LABEL).cloned(),
        owner: claim.owner_references().first().map(|owner| format!("{} {}", owner.kind, owner.name)),
    };
    input.claims = claims.iter().filter(|claim| is_in_tree(&claim.spec.pool_ref, pool)).map(read).collect();
    input.has_our_claims = claims.iter().any(|claim| claim.spec.pool_ref.is_ours_named(to));
    let published = addresses.iter().filter(|address| is_in_tree(&address.spec.pool_ref, pool));
    input.published = published.map(|address| address.spec.address.clone()).collect();
    Ok(())
}

/// Whether it names CAPO's pool of this name.
fn is_in_tree(reference: &PoolRef, pool: &str) -> bool {
    reference.kind == POOL_KIND && reference.name == pool && !reference.is_ours()
}
