//! `list`: the addresses of the pools, one row each, from Kubernetes alone or with what Neutron says; also as an allow-list.

mod formats;
mod neutron;
mod rows;
mod watch;

use std::collections::BTreeSet;
use std::sync::Arc;

use kube::api::ListParams;
use serde::Serialize;

use super::cli::{AddressState, List};
use super::exit::{Answer, Failure};
use super::output::format::Format;
use super::output::{self, Progress};
use super::readable::list_readable;
use super::session::{PluginSession, object_name};
use crate::api::{IpAddress, IpAddressClaim, IpamVersion, OpenStackFloatingIPPool};
use crate::object_name::ObjectName;
use rows::{AddressRow, address_rows};

/// The rows, as `items`: the form of what `kubectl get` prints, in which fields can be added beside them.
#[derive(Serialize, Clone, PartialEq, Debug)]
struct AddressList {
    items: Vec<AddressRow>,
    /// Whether the table names the namespaces.
    #[serde(skip)]
    is_all: bool,
    /// Whether the table has the ports.
    #[serde(skip)]
    has_ports: bool,
}

/// What the rows are made from.
struct Objects {
    pools: Vec<Arc<OpenStackFloatingIPPool>>,
    claims: Vec<Arc<IpAddressClaim>>,
    addresses: Vec<Arc<IpAddress>>,
}

pub(super) async fn list_addresses(
    session: &PluginSession,
    args: &List,
    format: Option<&Format>,
) -> Result<Answer, Failure> {
    if args.watch && matches!(format, Some(Format::Cidr | Format::Nft)) {
        return Err(Failure::Usage(
            "--watch prints changes, and -o cidr and -o nft whole lists: use one of them".into(),
        ));
    }
    let rows = match args.neutron {
        true => neutron::list_with_neutron(session, args).await?,
        false => objects_in_scope(session, args).await.and_then(|objects| rows_of(session, args, objects))?,
    };
    let list = select(session, args, format, rows);
    if list.items.is_empty() && !format.is_some_and(Format::is_for_programs) {
        output::note(&format!("no address found {}", session.place()));
    }
    if args.watch {
        return watch::print_changes(session, args, format, list).await;
    }
    output::write(&formats::render(&list, format, !args.no_headers)?)?;
    Ok(Answer::Yes)
}

/// Lists what is in scope; of the claims, only the selected ones.
async fn objects_in_scope(session: &PluginSession, args: &List) -> Result<Objects, Failure> {
    let _progress = Progress::start("listing pools, claims and addresses");
    let version = session.version().await?;
    let everything = ListParams::default();
    Ok(Objects {
        pools: list_readable(session.pools(), &everything, "list pools").await?,
        claims: selected_claims(session, args, version).await?,
        addresses: list_readable(session.ipam_objects(version), &everything, "list IPAddresses").await?,
    })
}

async fn selected_claims(
    session: &PluginSession,
    args: &List,
    version: IpamVersion,
) -> Result<Vec<Arc<IpAddressClaim>>, Failure> {
    let what = match &args.selector {
        Some(selector) => format!("list IPAddressClaims with the labels {selector} (--selector)"),
        None => "list IPAddressClaims".into(),
    };
    let selected = ListParams { label_selector: args.selector.clone(), ..ListParams::default() };
    list_readable(session.ipam_objects(version), &selected, &what).await
}

fn rows_of(session: &PluginSession, args: &List, objects: Objects) -> Result<Vec<AddressRow>, Failure> {
    let mut pools = session.select(objects.pools, &args.pools.pools)?;
    pools.sort_by_key(|pool| object_name(pool.as_ref()));
    let mut rows = address_rows(&pools, &objects.claims, &objects.addresses);
    if args.selector.is_some() {
        retain_claims(&mut rows, &objects.claims);
    }
    Ok(rows)
}

/// Leaves out the addresses without a claim, and those of other claims.
fn retain_claims(rows: &mut Vec<AddressRow>, selected: &[Arc<IpAddressClaim>]) {
    let selected: BTreeSet<ObjectName> = selected.iter().map(|claim| object_name(claim.as_ref())).collect();
    rows.retain(|row| row.claim_name().is_some_and(|claim| selected.contains(&claim)));
}

/// The rows in the states that are asked for. An allow-list has those that can be the pool's only.
fn select(session: &PluginSession, args: &List, format: Option<&Format>, mut rows: Vec<AddressRow>) -> AddressList {
    let is_allow_list = matches!(format, Some(Format::Cidr | Format::Nft));
    rows.retain(|row| match args.state.as_slice() {
        [] => !is_allow_list || row.state.is_of_pool(),
        states => states.contains(&row.state),
    });
    AddressList { items: rows, is_all: session.is_all, has_ports: args.neutron }
}

impl AddressState {
    /// Whether only the pool and its machines use an address in this state. A cooling address or an orphan is
    /// released, and then anyone may get it. What an IPAddress without a claim names, or a list that Neutron does not
    /// confirm, may be anyone's.
    fn is_of_pool(self) -> bool {
        match self {
            Self::Allocated | Self::Releasing | Self::Reserved | Self::Listed | Self::Free => true,
            Self::Cooling | Self::Orphan | Self::Failed | Self::Stray | Self::Missing | Self::Gone => false,
        }
    }
}
