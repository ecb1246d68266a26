//! From a spec to something that can be worked with: session, network, subnets, tags.

use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;

use super::{adopt, network, secret};
use crate::allocation::policy::ReusePolicy;
use crate::allocation::{PoolId, PoolPolicy};
use crate::api::conditions::pool_reasons as reasons;
use crate::api::pool::{self, OrphanPolicy, ReclaimPolicy};
use crate::api::{OpenStackFloatingIPPool, OpenStackFloatingIPPoolSpec};
use crate::controllers::context::{Context, name_of};
use crate::controllers::explain::explain;
use crate::controllers::registry::{Problem, ResolutionInputs, ResolvedPool};
use crate::floating_ip::SubnetId;
use crate::openstack::session::REQUEST_TIMEOUT;
use crate::openstack::{self, Credentials, ErrorKind, Network, Neutron};

/// How long a network, once found, is taken for found; a refusal by Neutron ends it at once.
const RESOLVED_FOR: SignedDuration = SignedDuration::from_hours(1);

/// Why a pool cannot be resolved.
#[derive(Debug)]
pub(in crate::controllers) enum PoolFailure {
    /// Another pool stands in the way.
    Rival(Problem),
    /// The Secret, or what is in it.
    Credentials(Problem),
    /// Keystone, or the way to it.
    Session(openstack::Error),
    /// The network or a subnet.
    Network(Problem),
    /// A call to Neutron, with credentials that work.
    Look(openstack::Error),
}

impl PoolFailure {
    /// What the pool and its claims are told.
    pub(in crate::controllers) fn problem(&self) -> Problem {
        match self {
            Self::Rival(problem) | Self::Credentials(problem) | Self::Network(problem) => problem.clone(),
            Self::Session(error) | Self::Look(error) => {
                let reason = match error.kind {
                    ErrorKind::Unauthorized => reasons::AUTHENTICATION_FAILED,
                    ErrorKind::Credentials | ErrorKind::NoNetworkService => reasons::CREDENTIALS_INVALID,
                    ErrorKind::Forbidden | ErrorKind::Rejected | ErrorKind::NotFound => reasons::OPENSTACK_REFUSED,
                    _ => reasons::OPENSTACK_UNREACHABLE,
                };
                Problem { reason, message: explain(error) }
            }
        }
    }

    /// What the server asked for.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Session(error) | Self::Look(error) => error.retry_after,
            _ => None,
        }
    }
}

/// Resolves a pool. Reads, and changes nothing.
pub(in crate::controllers) async fn run(
    pool: &OpenStackFloatingIPPool,
    id: &PoolId,
    ctx: &Arc<Context>,
) -> Result<Arc<ResolvedPool>, PoolFailure> {
    with(pool, id, &secret::read(pool, ctx).await?, ctx).await
}

/// The same, with these credentials.
pub(in crate::controllers) async fn with(
    pool: &OpenStackFloatingIPPool,
    id: &PoolId,
    credentials: &Credentials,
    ctx: &Arc<Context>,
) -> Result<Arc<ResolvedPool>, PoolFailure> {
    let name = name_of(pool);
    let neutron = ctx.clouds.connect(credentials).await.map_err(PoolFailure::Session)?;
    require_project(pool, neutron.as_ref(), ctx)?;
    let resolved = ResolutionInputs {
        fingerprint: credentials.fingerprint(),
        network: pool.spec.floating_ip_network.clone(),
        subnets: pool.spec.subnets.clone(),
        at: ctx.clock.now(),
    };
    let known = ctx.registry.get(&name).unwrap_or_default();
    let same = known.served.filter(|old| {
        !known.is_stale
            && known.problem.is_none()
            && resolved.at.duration_since(old.resolved.at) < RESOLVED_FOR
            && ResolutionInputs { at: resolved.at, ..old.resolved.clone() } == resolved
            && old.network.is_none() == pool.spec.is_closed()
    });
    let (network, subnets, has_tags, resolved) = match same {
        Some(old) => (old.network.clone(), old.policy.subnets.clone(), old.policy.has_tags, old.resolved.clone()),
        None => {
            let network = network::find(&pool.spec, neutron.as_ref()).await?;
            let subnets = network::subnets(&pool.spec, network.as_ref(), neutron.as_ref()).await?;
            let has_tags = neutron.has_tags().await.map_err(PoolFailure::Look)?;
            (network, subnets, has_tags, resolved)
        }
    };
    if !has_tags && pool.spec.is_closed() {
        let message = "this Neutron has no tags on floating IPs (extension standard-attr-tag), so the addresses of spec.preAllocatedFloatingIPs cannot be marked: name a floatingIPNetwork instead";
        return Err(PoolFailure::Network(Problem { reason: reasons::TAGS_UNSUPPORTED, message: message.into() }));
    }
    let policy = policy(&pool.spec, id, network.as_ref(), subnets, has_tags, ctx);
    let project = ctx.projects.of(neutron.scope());
    Ok(Arc::new(ResolvedPool { name, policy, network, resolved, neutron, project }))
}

/// A session for the end of a pool: less than serving needs, so that a bad spec does not block it.
pub(super) async fn for_cleanup(
    pool: &OpenStackFloatingIPPool,
    id: &PoolId,
    ctx: &Arc<Context>,
) -> Result<Arc<ResolvedPool>, PoolFailure> {
    let credentials: Credentials = secret::read(pool, ctx).await?;
    let neutron = ctx.clouds.connect(&credentials).await.map_err(PoolFailure::Session)?;
    require_project(pool, neutron.as_ref(), ctx)?;
    let fingerprint = credentials.fingerprint();
    let resolved = ResolutionInputs { fingerprint, network: None, subnets: Vec::new(), at: ctx.clock.now() };
    let has_tags = neutron.has_tags().await.map_err(PoolFailure::Look)?;
    let policy = policy(&pool.spec, id, None, Vec::new(), has_tags, ctx);
    let project = ctx.projects.of(neutron.scope());
    Ok(Arc::new(ResolvedPool { name: name_of(pool), policy, network: None, resolved, neutron, project }))
}

/// Elsewhere nothing of the pool's would be found, and so be taken for gone.
fn require_project(pool: &OpenStackFloatingIPPool, neutron: &dyn Neutron, ctx: &Context) -> Result<(), PoolFailure> {
    let is = &neutron.scope().project;
    match adopt::project(pool, ctx).filter(|was| was != is) {
        None => Ok(()),
        Some(was) => {
            let message = format!(
                "the credentials are those of project {is}, but the pool's floating IPs are in project {was}: give it credentials of {was} again, or make another pool for {is}"
            );
            Err(PoolFailure::Credentials(Problem { reason: reasons::PROJECT_CHANGED, message }))
        }
    }
}

fn policy(
    spec: &OpenStackFloatingIPPoolSpec,
    id: &PoolId,
    network: Option<&Network>,
    subnets: Vec<SubnetId>,
    has_tags: bool,
    ctx: &Context,
) -> PoolPolicy {
    let seconds = |seconds: u32| SignedDuration::from_secs(i64::from(seconds));
    let reuse = spec.reuse.clone().unwrap_or_default();
    let idle = seconds(reuse.min_idle_seconds);
    let orphans = spec.orphans.clone().unwrap_or_default();
    let is_fenced = ctx.options.fence && !ctx.minted().contains(id);
    let fence = SignedDuration::try_from(REQUEST_TIMEOUT).unwrap_or_default();
    let reserved = spec.reservations.iter();
    PoolPolicy {
        id: id.clone(),
        listed: spec.listed(),
        network: network.map(|network| network.id.clone()),
        subnets,
        max_ips: spec.max_ips.map(|limit| limit as usize),
        deletes: spec.reclaim_policy == ReclaimPolicy::Delete,
        reuse: match reuse.policy {
            pool::ReusePolicy::Never => ReusePolicy::Never,
            pool::ReusePolicy::Unmarked => ReusePolicy::Unmarked { idle },
            pool::ReusePolicy::Tagged => ReusePolicy::Tagged { tags: reuse.tags.iter().cloned().collect(), idle },
        },
        excluded: spec.excluded_addresses.iter().filter_map(|range| parse_range(range)).collect(),
        reservations: reserved
            .filter_map(|reservation| Some((reservation.claim.clone(), reservation.address.parse().ok()?)))
            .collect(),
        preallocate: spec.preallocate as usize,
        grace: seconds(spec.reuse_grace_period_seconds),
        releases_orphans: orphans.policy == OrphanPolicy::Release,
        orphan_grace: seconds(orphans.grace_seconds),
        has_tags,
        fenced_until: is_fenced.then(|| ctx.started + fence),
    }
}

fn parse_range(text: &str) -> Option<ipnet::IpNet> {
    text.parse().ok().or_else(|| text.parse::<std::net::IpAddr>().ok().map(ipnet::IpNet::from))
}
