//! Listings page by page, with every row exactly once, even if the listing changes in between.

use std::collections::BTreeSet;

use openstack_sdk_core::api::RestEndpoint;
use serde_json::Value;

use super::super::session::{Retry, Session};
use super::super::{Error, ErrorKind};
use super::body;

/// In rows. Neutron takes 0.4 s to list as many floating IPs; a server with a lower maximum returns fewer.
pub(super) const PAGE_SIZE: u32 = 1000;

#[derive(Clone)]
pub(super) enum Page {
    /// At most [`PAGE_SIZE`] rows, after the row with this id.
    After(Option<String>),
    /// As many rows as the server's maximum allows.
    Whole,
}

/// Every row of a listing.
///
/// If the marker's row was deleted, Neutron returns the first page again (measured). A repeated row shows that; then the
/// listing is read again in one request.
pub(super) async fn list<E>(
    session: &Session,
    operation: &'static str,
    key: &'static str,
    request: impl Fn(Page) -> E,
) -> Result<Vec<Value>, Error>
where
    E: RestEndpoint + Send + Sync,
{
    let mut rows = Vec::new();
    let mut seen = BTreeSet::new();
    let mut marker = None;
    loop {
        let (page, has_more) = fetch(session, operation, key, request(Page::After(marker))).await?;
        if page.iter().any(|row| id(row).is_some_and(|id| seen.contains(id))) {
            break;
        }
        marker = page.last().and_then(id).map(str::to_owned);
        seen.extend(page.iter().filter_map(id).map(str::to_owned));
        rows.extend(page);
        if !has_more || marker.is_none() {
            return Ok(rows);
        }
    }
    let (mut whole, has_more) = fetch(session, operation, key, request(Page::Whole)).await?;
    if has_more {
        let message = "the listing changed while it was read";
        return Err(Error::new(ErrorKind::Conflict, operation, message));
    }
    let mut seen = BTreeSet::new();
    whole.retain(|row| id(row).is_none_or(|id| seen.insert(id.to_owned())));
    Ok(whole)
}

/// One page, and whether there may be more.
async fn fetch<E>(
    session: &Session,
    operation: &'static str,
    key: &'static str,
    request: E,
) -> Result<(Vec<Value>, bool), Error>
where
    E: RestEndpoint + Send + Sync,
{
    let response = session.call(operation, Retry::Read, request).await?;
    let mut listing: Value = body::parse(operation, &response)?;
    // A mutable index would panic if the answer is not an object.
    let Some(Value::Array(rows)) = listing.get_mut(key).map(Value::take) else {
        return Err(body::malformed(operation));
    };
    // A full last page links to an empty one. If a server sends no links, a full page means that there may be more.
    let has_more = match &listing[format!("{key}_links")] {
        Value::Array(links) => links.iter().any(|link| link["rel"] == "next"),
        _ => rows.len() >= PAGE_SIZE as usize,
    };
    Ok((rows, has_more))
}

fn id(row: &Value) -> Option<&str> {
    row["id"].as_str()
}
