//! Neutron over HTTP: the typed requests of `openstack-sdk-network`, sent by a session.

mod body;
mod each;
#[cfg(any(fuzzing, test))]
pub(crate) mod fuzzing;
mod pages;

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::Response;
use openstack_sdk_network::v2::extension::list as extensions;
use openstack_sdk_network::v2::floatingip::tag::{delete as delete_tag, set as put_tag};
use openstack_sdk_network::v2::floatingip::{create, delete, get, list, set};
use openstack_sdk_network::v2::quota::details as quota_details;
use openstack_sdk_network::v2::{network, subnet};
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::session::{CallKind, Retries, Session, Turn};
use super::{
    DeletionCheck, DeletionStep, Error, ErrorKind, Filter, FloatingIp, FloatingIpId, MaySend, Network, Neutron,
    NewFloatingIp, ProjectScope, Quota, Subnet,
};
use crate::clock::instant_after;
use body::{Extensions, QuotaDetails};
use pages::{Limit, PAGE_SIZE};

/// In Neutron since 2018.
const TAGS_EXTENSION: &str = "standard-attr-tag";

/// How many floating IPs a project may have at most, unless a flag says more. They take 4 MiB of the controller's memory.
pub(super) const MAX_FLOATING_IPS: usize = 4000;
/// In bytes of memory, on average. A floating IP with our mark and five tags takes nine tenths of it.
pub const ROW_SIZE: usize = 1024;
/// Networks or subnets that a filter selects. A pool needs one network and a few subnets.
const FOUND: Limit = Limit { rows: 1000, row_size: ROW_SIZE, remedy: "narrow the filter of the pool" };

const READ: &str = "read floating IP";
const DELETE: &str = "delete floating IP";
/// How long a deletion that was decided may wait for a new token.
const MAX_TOKEN_WAIT: Duration = Duration::from_secs(2);

pub(super) struct NeutronClient {
    session: Session,
    max_floating_ips: usize,
}

impl NeutronClient {
    pub(super) fn new(session: Session, max_floating_ips: usize) -> Self {
        Self { session, max_floating_ips }
    }
}

/// The SDK's builders fail only when a field without a default is missing.
#[expect(clippy::expect_used, reason = "each caller gives every field without a default")]
fn complete<T>(request: Result<T, impl std::fmt::Debug>) -> T {
    request.expect("every field that the request needs is given")
}

/// Sets limit, marker and order. A macro, because the SDK's builders share no trait.
macro_rules! set_page {
    ($request:ident, $page:ident) => {
        $request.limit(PAGE_SIZE);
        if let Some(after) = $page {
            $request.marker(after);
        }
        // Neutron requires a direction for each key.
        $request.sort_key(["id"].into_iter()).sort_dir(["asc"].into_iter());
    };
}

/// Sets the part of a filter that networks and subnets share; a macro for the same reason.
macro_rules! set_filter {
    ($request:ident, $filter:ident) => {
        if let Some(id) = &$filter.id {
            $request.id(id.as_str());
        }
        if let Some(name) = &$filter.name {
            $request.name(name.as_str());
        }
        if let Some(description) = &$filter.description {
            $request.description(description.as_str());
        }
        if let Some(project) = &$filter.project_id {
            $request.tenant_id(project.as_str());
        }
        // An empty list would be sent as a tag without a name.
        if !$filter.tags.is_empty() {
            $request.tags($filter.tags.iter().map(String::as_str));
        }
        if !$filter.tags_any.is_empty() {
            $request.tags_any($filter.tags_any.iter().map(String::as_str));
        }
        if !$filter.not_tags.is_empty() {
            $request.not_tags($filter.not_tags.iter().map(String::as_str));
        }
        if !$filter.not_tags_any.is_empty() {
            $request.not_tags_any($filter.not_tags_any.iter().map(String::as_str));
        }
    };
}

#[async_trait]
impl Neutron for NeutronClient {
    fn scope(&self) -> &ProjectScope {
        self.session.scope()
    }

    fn is_current(&self) -> bool {
        self.session.is_current()
    }

    async fn list_floating_ips(&self) -> Result<Vec<FloatingIp>, Error> {
        let operation = "list floating IPs";
        let project = self.scope().project.as_str();
        let page = |page: Option<String>| {
            let mut request = list::Request::builder();
            // `tenant_id` is the older name of `project_id`; every release takes it as a filter.
            request.tenant_id(project);
            set_page!(request, page);
            complete(request.build())
        };
        let limit = Limit {
            rows: self.max_floating_ips,
            row_size: ROW_SIZE,
            remedy: "if that is right, raise --max-floating-ips and the controller's memory",
        };
        // A floating IP that cannot be read does not hide the others. Without id, address and network it cannot be assigned,
        // so no address is assigned twice. If it carries a mark, it is reported as an orphan once it can be read.
        let listing = pages::list::<_, FloatingIp>(&self.session, operation, "floatingips", limit, page).await?;
        // The filter alone is not enough: an administrator's token sees every project.
        Ok(listing.rows.into_iter().filter(|ip| &ip.project == self.project()).collect())
    }

    async fn get_floating_ip(&self, id: &FloatingIpId) -> Result<FloatingIp, Error> {
        let request = complete(get::Request::builder().id(id_segment(READ, id)?).build());
        self.floating_ip(READ, &self.session.call(READ, CallKind::Read, request).await?)
    }

    async fn create_floating_ip(&self, new: &NewFloatingIp, may_send: &MaySend<'_>) -> Result<FloatingIp, Error> {
        let operation = "create floating IP";
        let mut body = create::FloatingipBuilder::default();
        body.floating_network_id(new.network.as_str()).description(new.description.as_str());
        if let Some(subnet) = &new.subnet {
            body.subnet_id(Some(subnet.as_str().into()));
        }
        let request = complete(create::Request::builder().floatingip(complete(body.build())).build());
        // Not repeated: a second request would create a second floating IP.
        let response =
            self.session.call(operation, CallKind::Write(may_send), request).await.map_err(classify_bad_network)?;
        self.floating_ip(operation, &response)
    }

    async fn describe_floating_ip(
        &self,
        id: &FloatingIpId,
        description: &str,
        may_send: &MaySend<'_>,
    ) -> Result<FloatingIp, Error> {
        let operation = "describe floating IP";
        let body = complete(set::FloatingipBuilder::default().description(description).build());
        let request = complete(set::Request::builder().id(id_segment(operation, id)?).floatingip(body).build());
        // Not repeated: a late second request could overwrite another client's change.
        let response = self.session.call(operation, CallKind::Write(may_send), request).await?;
        self.floating_ip(operation, &response)
    }

    async fn delete_floating_ip(&self, id: &FloatingIpId, check: &mut DeletionCheck<'_>) -> Result<bool, Error> {
        let id = id_segment(DELETE, id)?;
        let deletion = async {
            let mut retries = Retries::begin();
            let decided = loop {
                match self.decide_deletion(id, check).await {
                    Err(error) => retries.wait_after(error).await?,
                    Ok(decided) => break decided,
                }
            };
            let Some(mut turn) = decided else { return Ok(None) };
            let request = complete(delete::Request::builder().id(id).build());
            // Not repeated: the floating IP may be attached by then.
            let latest = instant_after(Instant::now(), MAX_TOKEN_WAIT);
            turn.call(DELETE, Some(&|| Instant::now() <= latest), request).await.map(Some)
        };
        Ok(Session::record(DELETE, deletion).await?.is_some())
    }

    async fn add_tag(&self, id: &FloatingIpId, tag: &str, may_send: &MaySend<'_>) -> Result<(), Error> {
        let operation = "tag floating IP";
        let (id_path, tag) = (id_segment(operation, id)?, tag_segment(operation, tag)?);
        let request = complete(put_tag::Request::builder().floatingip_id(id_path).id(tag).build());
        // Measured: idempotent, and other tags are kept.
        match self.session.call(operation, CallKind::IdempotentWrite(may_send), request).await {
            Err(error) if error.status == Some(500) => Err(self.explain_500(id, error).await),
            other => other.map(drop),
        }
    }

    async fn remove_tag(&self, id: &FloatingIpId, tag: &str, may_send: &MaySend<'_>) -> Result<(), Error> {
        let operation = "untag floating IP";
        let (id_path, tag) = (id_segment(operation, id)?, tag_segment(operation, tag)?);
        let request = complete(delete_tag::Request::builder().floatingip_id(id_path).id(tag).build());
        // Not repeated: after a second request is answered, a late first one could remove a mark that was added in between.
        let result = match self.session.call(operation, CallKind::Write(may_send), request).await {
            Err(error) if error.status == Some(500) => Err(self.explain_500(id, error).await),
            other => other.map(drop),
        };
        result.or_else(|error| if error.kind == ErrorKind::NotFound { Ok(()) } else { Err(error) })
    }

    async fn find_networks(&self, filter: &Filter) -> Result<Vec<Network>, Error> {
        let operation = "find networks";
        check_tags(operation, filter)?;
        let page = |page: Option<String>| {
            let mut request = network::list::Request::builder();
            set_filter!(request, filter);
            if let Some(is_external) = filter.is_external {
                request.router_external(is_external);
            }
            set_page!(request, page);
            complete(request.build())
        };
        let listing = pages::list(&self.session, operation, "networks", FOUND, page).await?;
        self.all_read(operation, listing)
    }

    async fn find_subnets(&self, filter: &Filter) -> Result<Vec<Subnet>, Error> {
        let operation = "find subnets";
        check_tags(operation, filter)?;
        let page = |page: Option<String>| {
            let mut request = subnet::list::Request::builder();
            set_filter!(request, filter);
            if let Some(network) = &filter.network_id {
                request.network_id(network.as_str());
            }
            if let Some(version) = filter.ip_version {
                request.ip_version(i32::from(version));
            }
            if let Some(cidr) = &filter.cidr {
                request.cidr(cidr.as_str());
            }
            set_page!(request, page);
            complete(request.build())
        };
        let listing = pages::list(&self.session, operation, "subnets", FOUND, page).await?;
        self.all_read(operation, listing)
    }

    async fn has_tags(&self) -> Result<bool, Error> {
        let operation = "list extensions";
        // Reads the list, because a 404 for a single extension could come from a proxy.
        let request = complete(extensions::Request::builder().build());
        let response = self.session.call(operation, CallKind::ReadLarge(&self.session.large_answer()), request).await?;
        let extensions = self.parse::<Extensions>(operation, &response)?.extensions;
        Ok(extensions.iter().any(|extension| extension.is(TAGS_EXTENSION)))
    }

    async fn quota(&self) -> Result<Option<Quota>, Error> {
        let operation = "read quota";
        let request = complete(quota_details::Request::builder().id(self.project().as_str()).build());
        match self.session.call(operation, CallKind::Read, request).await {
            Ok(response) => Ok(Some(self.parse::<QuotaDetails>(operation, &response)?.into())),
            Err(error) if matches!(error.status, Some(403 | 404)) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl NeutronClient {
    /// The turn of a deletion, once it has come and the floating IP is to be deleted; none if it is to be kept.
    async fn decide_deletion(&self, id: &str, check: &mut DeletionCheck<'_>) -> Result<Option<Turn<'_>>, Error> {
        let mut turn = self.session.begin_turn(DELETE).await?;
        let mut step = check(None);
        if step == DeletionStep::Read {
            let request = complete(get::Request::builder().id(id).build());
            step = check(Some(self.floating_ip(READ, &turn.call(READ, None, request).await?)?));
        }
        Ok((step == DeletionStep::Delete).then_some(turn))
    }

    fn project(&self) -> &crate::floating_ip::ProjectId {
        &self.scope().project
    }

    /// Neutron answers 500 to a tag request if the floating IP does not exist (a bug of all releases so far).
    async fn explain_500(&self, id: &FloatingIpId, error: Error) -> Error {
        match self.get_floating_ip(id).await {
            Err(gone) if gone.kind == ErrorKind::NotFound => Error { operation: error.operation, ..gone },
            _ => error,
        }
    }

    fn parse<T: DeserializeOwned>(&self, operation: &'static str, response: &Response<Bytes>) -> Result<T, Error> {
        body::parse(response).ok_or_else(|| self.session.malformed(operation))
    }

    fn floating_ip(&self, operation: &'static str, response: &Response<Bytes>) -> Result<FloatingIp, Error> {
        body::floating_ip(response).ok_or_else(|| self.session.malformed(operation))
    }

    /// A network that cannot be read may be the one that is searched.
    fn all_read<R>(&self, operation: &'static str, listing: pages::Listing<R>) -> Result<Vec<R>, Error> {
        match listing.unreadable {
            0 => Ok(listing.rows),
            _ => Err(self.session.malformed(operation)),
        }
    }
}

/// An id as a path segment. Ids also come from annotations, which users can write: one with a slash or dots would refer to
/// another resource.
fn id_segment<'a>(operation: &'static str, id: &'a FloatingIpId) -> Result<&'a str, Error> {
    let id = id.as_str();
    if !id.is_empty() && id.len() <= 64 && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
        return Ok(id);
    }
    Err(Error::new(ErrorKind::NotFound, operation, "this cannot be the id of a floating IP"))
}

/// A tag as a path segment: only characters that a URL does not encode. Neutron's endpoints for single tags do not accept
/// a slash, and its filters do not accept a comma.
fn tag_segment<'a>(operation: &'static str, tag: &'a str) -> Result<&'a str, Error> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~:=@+".contains(&byte);
    if !matches!(tag, "" | "." | "..") && tag.len() <= 255 && tag.bytes().all(is_plain) {
        return Ok(tag);
    }
    Err(Error::new(ErrorKind::Rejected, operation, "the tag has characters that a tag of ours never has"))
}

/// Neutron's filters separate tags by commas.
fn check_tags(operation: &'static str, filter: &Filter) -> Result<(), Error> {
    let mut tags = [&filter.tags, &filter.tags_any, &filter.not_tags, &filter.not_tags_any].into_iter().flatten();
    if tags.any(|tag| tag.contains(',') || tag.is_empty()) {
        let message = "Neutron cannot filter by a tag that is empty or has a comma";
        return Err(Error::new(ErrorKind::Rejected, operation, message));
    }
    Ok(())
}

/// Neutron refuses a creation for its network or subnet in several ways (measured): 404 for an unknown one, 400 for one that
/// is not external, not an id, or not of that network.
fn classify_bad_network(error: Error) -> Error {
    let is_bad_network = match error.kind {
        ErrorKind::NotFound => true,
        ErrorKind::Rejected if error.status == Some(400) => {
            ["external network", "floating_network_id", "subnet"].iter().any(|part| error.message.contains(part))
        }
        _ => false,
    };
    if is_bad_network { Error { kind: ErrorKind::BadNetwork, ..error } } else { error }
}
