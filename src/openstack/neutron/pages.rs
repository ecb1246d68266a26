//! Listings page by page, each row once, and none lost when the listing changes meanwhile.

use std::collections::BTreeSet;

use openstack_sdk_core::api::RestEndpoint;
use serde_json::Value;

use super::super::session::{Repeat, Session};
use super::super::{Error, ErrorKind};
use super::answers::read;

/// Rows in a page. Neutron takes 0.4 s for as many floating IPs; a server with a lower maximum gives fewer.
pub(super) const PAGE: u32 = 1000;

/// Which part of a listing to ask for.
#[derive(Clone)]
pub(super) enum Page {
    /// At most [`PAGE`] rows, after the row with this id.
    After(Option<String>),
    /// All rows in one answer, as far as the server's maximum allows.
    Whole,
}

/// Every row of a listing.
///
/// Neutron answers a marker whose row was deleted with the first page again (measured), and so would lose the rest of
/// the listing. That shows in a row that came before: then all is asked for at once.
pub(super) async fn all<E>(
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
        let is_repeated = page.iter().any(|row| id(row).is_some_and(|id| seen.contains(id)));
        if is_repeated {
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
    // Safe: it reads.
    let response = session.call(operation, Repeat::Safe, request).await?;
    let mut body: Value = read(operation, &response)?;
    // `get_mut`, not an index, which panics where the answer is no object.
    let Some(Value::Array(rows)) = body.get_mut(key).map(Value::take) else {
        let message = "the answer is a success, but not what Neutron would say";
        return Err(Error::new(ErrorKind::Malformed, operation, message));
    };
    // A full last page has a link to a next one, which is empty. A server without links is believed by the count.
    let has_more = match &body[format!("{key}_links")] {
        Value::Array(links) => links.iter().any(|link| link["rel"] == "next"),
        _ => rows.len() >= PAGE as usize,
    };
    Ok((rows, has_more))
}

fn id(row: &Value) -> Option<&str> {
    row["id"].as_str()
}
