//! The real Neutron: the typed requests of `openstack-sdk-network` over a session, and what its answers mean.

mod answers;
mod pages;

use async_trait::async_trait;
use openstack_sdk_network::v2::extension::list as extensions;
use openstack_sdk_network::v2::floatingip::tag::{delete as delete_tag, set as put_tag};
use openstack_sdk_network::v2::floatingip::{create, delete, get, list, set};
use openstack_sdk_network::v2::quota::details as quota_details;
use openstack_sdk_network::v2::{network, subnet};

use super::session::{Repeat, Session};
use super::{
    Error, ErrorKind, Filter, FloatingIp, FloatingIpId, Network, Neutron, NewFloatingIp, Quota, Scope, Subnet,
};
use answers::{Extensions, One, QuotaDetails, read};
use pages::{PAGE, Page};

/// What lets floating IPs carry tags, in Neutron since 2018.
const TAGS_EXTENSION: &str = "standard-attr-tag";

/// One project's Neutron, over HTTP.
pub(super) struct NeutronClient {
    session: Session,
}

impl NeutronClient {
    pub(super) fn new(session: Session) -> Self {
        Self { session }
    }
}

/// The SDK's builders fail when a field without a default is missing, and all of ours are given.
const COMPLETE: &str = "every field that the request needs is given";

/// Limit, marker and order. A macro, since the SDK's builders share no trait.
macro_rules! paged {
    ($request:ident, $page:ident) => {
        if let Page::After(after) = $page {
            $request.limit(PAGE);
            if let Some(after) = after {
                $request.marker(after);
            }
        }
        // Neutron wants a direction for each key.
        $request.sort_key(["id"].into_iter()).sort_dir(["asc"].into_iter());
    };
}

/// The parts of a filter that networks and subnets share; a macro likewise.
macro_rules! fill {
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
    fn scope(&self) -> &Scope {
        self.session.scope()
    }

    async fn list_floating_ips(&self) -> Result<Vec<FloatingIp>, Error> {
        let operation = "list floating IPs";
        let project = self.scope().project.as_str();
        let page = |page: Page| {
            let mut request = list::Request::builder();
            // `tenant_id` is the older name of `project_id`; every release takes it as a filter.
            request.tenant_id(project);
            paged!(request, page);
            request.build().expect(COMPLETE)
        };
        let rows = pages::all(&self.session, operation, "floatingips", page).await?;
        let ours = rows.into_iter().filter_map(answers::listed_floating_ip);
        // An administrator's token sees every project; what the filter let through all the same is not ours.
        Ok(ours.filter(|ip| &ip.project == self.project()).collect())
    }

    async fn get_floating_ip(&self, id: &FloatingIpId) -> Result<FloatingIp, Error> {
        let operation = "read floating IP";
        let request = get::Request::builder().id(path(operation, id)?).build().expect(COMPLETE);
        // Safe: it reads.
        let response = self.session.call(operation, Repeat::Safe, request).await?;
        answers::floating_ip(read::<One>(operation, &response)?.floatingip, operation)
    }

    async fn create_floating_ip(&self, new: &NewFloatingIp) -> Result<FloatingIp, Error> {
        let operation = "create floating IP";
        let mut body = create::FloatingipBuilder::default();
        body.floating_network_id(new.network.as_str()).description(new.description.as_str());
        if let Some(subnet) = &new.subnet {
            body.subnet_id(Some(subnet.as_str().into()));
        }
        let request = create::Request::builder().floatingip(body.build().expect(COMPLETE)).build().expect(COMPLETE);
        // Never: a second one would be a second address.
        let response = self.session.call(operation, Repeat::Never, request).await.map_err(about_the_network)?;
        answers::floating_ip(read::<One>(operation, &response)?.floatingip, operation)
    }

    async fn describe_floating_ip(&self, id: &FloatingIpId, description: &str) -> Result<FloatingIp, Error> {
        let operation = "describe floating IP";
        let body = set::FloatingipBuilder::default().description(description).build().expect(COMPLETE);
        let request = set::Request::builder().id(path(operation, id)?).floatingip(body).build().expect(COMPLETE);
        // Never: a late second write would land on top of somebody else's.
        let response = self.session.call(operation, Repeat::Never, request).await?;
        answers::floating_ip(read::<One>(operation, &response)?.floatingip, operation)
    }

    async fn delete_floating_ip(&self, id: &FloatingIpId) -> Result<(), Error> {
        let operation = "delete floating IP";
        let request = || Ok(delete::Request::builder().id(path(operation, id)?).build().expect(COMPLETE));
        // Safe: an id is never used twice. Repeated here and not by the session, since "not found" means "gone already"
        // to the first attempt, and "done" to one after an attempt that nobody saw the end of.
        let first = self.session.call(operation, Repeat::Never, request()?).await;
        match first {
            Err(first) if first.is_unknown() && first.status != Some(500) => {
                match self.session.call(operation, Repeat::SafeWrite, request()?).await {
                    Err(error) if error.kind == ErrorKind::NotFound => Ok(()),
                    // Whatever the second is told, the first may still be done.
                    Err(error) if !error.is_unknown() => Err(first),
                    other => other.map(drop),
                }
            }
            other => other.map(drop),
        }
    }

    async fn add_tag(&self, id: &FloatingIpId, tag: &str) -> Result<(), Error> {
        let operation = "tag floating IP";
        let (id_path, tag) = (path(operation, id)?, tag_path(operation, tag)?);
        let request = put_tag::Request::builder().floatingip_id(id_path).id(tag).build().expect(COMPLETE);
        // Safe: measured as idempotent, and it touches no other tag.
        match self.session.call(operation, Repeat::SafeWrite, request).await {
            Err(error) if error.status == Some(500) => Err(self.explain_500(id, error).await),
            other => other.map(drop),
        }
    }

    async fn remove_tag(&self, id: &FloatingIpId, tag: &str) -> Result<(), Error> {
        let operation = "untag floating IP";
        let (id_path, tag) = (path(operation, id)?, tag_path(operation, tag)?);
        let request = delete_tag::Request::builder().floatingip_id(id_path).id(tag).build().expect(COMPLETE);
        // Never: when a second one was answered, the first could still come, and would take off a mark put on since.
        let result = match self.session.call(operation, Repeat::Never, request).await {
            Err(error) if error.status == Some(500) => Err(self.explain_500(id, error).await),
            other => other.map(drop),
        };
        result.or_else(|error| if error.kind == ErrorKind::NotFound { Ok(()) } else { Err(error) })
    }

    async fn find_networks(&self, filter: &Filter) -> Result<Vec<Network>, Error> {
        let operation = "find networks";
        filter_tags(operation, filter)?;
        let page = |page: Page| {
            let mut request = network::list::Request::builder();
            fill!(request, filter);
            if let Some(is_external) = filter.is_external {
                request.router_external(is_external);
            }
            paged!(request, page);
            request.build().expect(COMPLETE)
        };
        let rows = pages::all(&self.session, operation, "networks", page).await?;
        rows.into_iter().map(|row| answers::network(row, operation)).collect()
    }

    async fn find_subnets(&self, filter: &Filter) -> Result<Vec<Subnet>, Error> {
        let operation = "find subnets";
        filter_tags(operation, filter)?;
        let page = |page: Page| {
            let mut request = subnet::list::Request::builder();
            fill!(request, filter);
            if let Some(network) = &filter.network_id {
                request.network_id(network.as_str());
            }
            if let Some(version) = filter.ip_version {
                request.ip_version(i32::from(version));
            }
            if let Some(cidr) = &filter.cidr {
                request.cidr(cidr.as_str());
            }
            paged!(request, page);
            request.build().expect(COMPLETE)
        };
        let rows = pages::all(&self.session, operation, "subnets", page).await?;
        rows.into_iter().map(|row| answers::subnet(row, operation)).collect()
    }

    async fn has_tags(&self) -> Result<bool, Error> {
        let operation = "list extensions";
        // The list, not the one: a 404 for the one may come from anybody on the way.
        let request = extensions::Request::builder().build().expect(COMPLETE);
        // Safe: it reads.
        let response = self.session.call(operation, Repeat::Safe, request).await?;
        let extensions = read::<Extensions>(operation, &response)?.extensions;
        Ok(extensions.iter().any(|extension| extension.alias == TAGS_EXTENSION))
    }

    async fn quota(&self) -> Result<Option<Quota>, Error> {
        let operation = "read quota";
        let request = quota_details::Request::builder().id(self.project().as_str()).build().expect(COMPLETE);
        // Safe: it reads.
        match self.session.call(operation, Repeat::Safe, request).await {
            Ok(response) => Ok(Some(read::<QuotaDetails>(operation, &response)?.into())),
            Err(error) if matches!(error.status, Some(403 | 404)) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl NeutronClient {
    fn project(&self) -> &crate::floating_ip::ProjectId {
        &self.scope().project
    }

    /// Neutron answers 500 to a tag of a floating IP that is gone (a bug of all releases so far): a look tells.
    async fn explain_500(&self, id: &FloatingIpId, error: Error) -> Error {
        match self.get_floating_ip(id).await {
            Err(gone) if gone.kind == ErrorKind::NotFound => Error { operation: error.operation, ..gone },
            _ => error,
        }
    }
}

/// An id as a part of a path. Ids come from annotations too, which anybody can write: one with a slash or dots would
/// name something else, so what cannot be an id is not found.
fn path<'a>(operation: &'static str, id: &'a FloatingIpId) -> Result<&'a str, Error> {
    let id = id.as_str();
    if !id.is_empty() && id.len() <= 64 && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
        return Ok(id);
    }
    Err(Error::new(ErrorKind::NotFound, operation, "this cannot be the id of a floating IP"))
}

/// A tag as a part of a path: letters, digits and what a URL leaves alone. Neutron's endpoints for one tag take no
/// slash, and its filters no comma; our tags have neither.
fn tag_path<'a>(operation: &'static str, tag: &'a str) -> Result<&'a str, Error> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~:=@+".contains(&byte);
    if !matches!(tag, "" | "." | "..") && tag.len() <= 255 && tag.bytes().all(is_plain) {
        return Ok(tag);
    }
    Err(Error::new(ErrorKind::Rejected, operation, "the tag has characters that a tag of ours never has"))
}

/// Neutron's filters separate tags by commas.
fn filter_tags(operation: &'static str, filter: &Filter) -> Result<(), Error> {
    let mut tags = [&filter.tags, &filter.tags_any, &filter.not_tags, &filter.not_tags_any].into_iter().flatten();
    if tags.any(|tag| tag.contains(',') || tag.is_empty()) {
        let message = "Neutron cannot filter by a tag that is empty or has a comma";
        return Err(Error::new(ErrorKind::Rejected, operation, message));
    }
    Ok(())
}

/// A POST that is refused for its network or subnet says so in several ways (measured): 404 for one that is not there,
/// 400 for one that is not external, not an id, or not of that network.
fn about_the_network(error: Error) -> Error {
    let is_bad_network = match error.kind {
        ErrorKind::NotFound => true,
        ErrorKind::Rejected if error.status == Some(400) => {
            ["external network", "floating_network_id", "subnet"].iter().any(|part| error.message.contains(part))
        }
        _ => false,
    };
    if is_bad_network { Error { kind: ErrorKind::BadNetwork, ..error } } else { error }
}
