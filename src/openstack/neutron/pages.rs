//! Listings page by page, with every row exactly once, even if the listing changes in between.
//!
//! A listing is bounded in bytes, memory and time: a tenant chooses the server that answers.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use openstack_sdk_core::api::RestEndpoint;
use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use tokio::time::timeout;

use super::super::session::{CallKind, Session};
use super::super::{Error, ErrorKind};
use super::body::RowId;
use super::each::Each;

/// In rows. Neutron takes 0.4 s to list as many floating IPs; a server with a lower maximum returns fewer.
pub(super) const PAGE_SIZE: u32 = 1000;
/// For all pages. A listing of 10,000 floating IPs takes 4 s.
const LISTING_TIMEOUT: Duration = Duration::from_secs(60);
/// How many rows of a listing are logged that cannot be read.
const MAX_LOGGED: usize = 5;
/// How often a listing begins if it changes while it is read.
const MAX_ATTEMPTS: usize = 3;

/// What the rows of a listing may take at most.
#[derive(Clone, Copy)]
pub(super) struct Limit {
    pub(super) rows: usize,
    /// In bytes of memory, on average.
    pub(super) row_size: usize,
    /// For the error: what to do about it.
    pub(super) remedy: &'static str,
}

impl Limit {
    /// In bytes of memory.
    fn size(&self) -> usize {
        self.rows.saturating_mul(self.row_size)
    }
}

/// A row of a listing.
pub(super) trait Row: Sized {
    /// As Neutron sends it.
    type Json: DeserializeOwned + Into<Self>;

    fn id(&self) -> &str;

    /// In bytes of memory.
    fn size(&self) -> usize;

    /// Shares texts with earlier rows.
    fn share_texts(&mut self, _earlier: &[Self]) {}
}

/// Every row of a listing that can be read. The others are counted and logged with their ids.
///
/// If the marker's row was deleted, Neutron returns the first page again (measured). A repeated row shows that; then the
/// listing begins again.
pub(super) async fn list<E, R>(
    session: &Session,
    operation: &'static str,
    key: &'static str,
    limit: Limit,
    request: impl Fn(Option<String>) -> E,
) -> Result<Listing<R>, Error>
where
    E: RestEndpoint + Send + Sync,
    R: Row,
{
    let read = async {
        for _ in 0..MAX_ATTEMPTS {
            if let Some(rows) = read_pages(session, operation, key, limit, &request).await? {
                return Ok(rows);
            }
        }
        Err(Error::new(ErrorKind::Conflict, operation, "the listing changed while it was read"))
    };
    let slow = || Error::new(ErrorKind::NoAnswer, operation, "not all pages arrived within 60 s");
    timeout(LISTING_TIMEOUT, read).await.unwrap_or_else(|_| Err(slow()))
}

/// None if a row was repeated.
async fn read_pages<E, R>(
    session: &Session,
    operation: &'static str,
    key: &'static str,
    limit: Limit,
    request: impl Fn(Option<String>) -> E,
) -> Result<Option<Listing<R>>, Error>
where
    E: RestEndpoint + Send + Sync,
    R: Row,
{
    let (mut listing, mut seen, mut marker) = (Listing::default(), BTreeSet::new(), None);
    let large = session.large_answer();
    loop {
        let response = session.call(operation, CallKind::ReadLarge(&large), request(marker)).await?;
        let page = Envelope { operation, key, listing: &mut listing, seen: &mut seen, limit }.read(response.body());
        let page = page.map_err(|_| session.malformed(operation))?;
        match page.end {
            PageEnd::Complete => {}
            PageEnd::Repeated => return Ok(None),
            PageEnd::TooLarge => return Err(too_large(operation, limit)),
        }
        // A full last page links to an empty one. If a server sends no links, a full page means that there may be more.
        let has_more = page.has_next.unwrap_or(page.rows >= PAGE_SIZE);
        marker = page.last;
        if !has_more || marker.is_none() {
            return Ok(Some(listing));
        }
        // The rows of several pages take as much memory as a large one. Nothing of it is kept while others are read.
        if !large.try_acquire() {
            (listing, seen, marker) = Default::default();
            drop(response);
            large.acquire().await;
        }
    }
}

fn too_large(operation: &'static str, limit: Limit) -> Error {
    let (rows, kib, remedy) = (limit.rows, limit.size() >> 10, limit.remedy);
    let message = format!("the answer has more than {rows} rows, or takes more than {kib} KiB of memory: {remedy}");
    Error::new(ErrorKind::Malformed, operation, message)
}

pub(super) struct Listing<R> {
    pub(super) rows: Vec<R>,
    /// How many rows could not be read.
    pub(super) unreadable: usize,
    /// In bytes of memory.
    pub(super) size: usize,
}

impl<R> Default for Listing<R> {
    fn default() -> Self {
        Self { rows: Vec::new(), unreadable: 0, size: 0 }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum PageEnd {
    Complete,
    /// A row had been listed before.
    Repeated,
    TooLarge,
}

pub(super) struct Page {
    rows: u32,
    /// The id of the last row that has one.
    last: Option<String>,
    /// None without links.
    has_next: Option<bool>,
    pub(super) end: PageEnd,
}

/// Reads `{"floatingips": [...], "floatingips_links": [...]}` row by row, so that nothing is built from what is not used.
pub(super) struct Envelope<'a, R> {
    pub(super) operation: &'static str,
    pub(super) key: &'static str,
    pub(super) listing: &'a mut Listing<R>,
    pub(super) seen: &'a mut BTreeSet<String>,
    pub(super) limit: Limit,
}

impl<'de, R: Row> DeserializeSeed<'de> for Envelope<'_, R> {
    type Value = Page;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Page, D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de, R: Row> Visitor<'de> for Envelope<'_, R> {
    type Value = Page;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.key)
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Page, A::Error> {
        let (mut page, mut has_next) = (None, None);
        while let Some(name) = map.next_key::<String>()? {
            if name == self.key && page.is_some() {
                return Err(serde::de::Error::duplicate_field(self.key));
            } else if name == self.key {
                let mut rows = Page { rows: 0, last: None, has_next: None, end: PageEnd::Complete };
                map.next_value_seed(Each::new(|row: &RawValue| self.read_row(row, &mut rows)))?;
                page = Some(rows);
            } else if name.strip_prefix(self.key) == Some("_links") {
                let mut is_next = false;
                map.next_value_seed(Each::new(|link: Link| is_next |= link.rel.as_deref() == Some("next")))?;
                has_next = Some(is_next);
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        let page = page.ok_or_else(|| serde::de::Error::missing_field(self.key))?;
        Ok(Page { has_next, ..page })
    }
}

impl<R: Row> Envelope<'_, R> {
    pub(super) fn read(self, body: &[u8]) -> serde_json::Result<Page> {
        let mut json = serde_json::Deserializer::from_slice(body);
        let page = self.deserialize(&mut json)?;
        json.end().map(|()| page)
    }

    #[expect(clippy::arithmetic_side_effects, reason = "it counts what is in memory, and its size")]
    fn read_row(&mut self, raw: &RawValue, page: &mut Page) {
        page.rows += 1;
        if page.end != PageEnd::Complete {
            return;
        }
        let (listing, operation) = (&mut *self.listing, self.operation);
        let mut row: Option<R> = serde_json::from_str::<R::Json>(raw.get()).ok().map(Into::into);
        let id = match &row {
            Some(row) => Some(row.id().to_owned()),
            None => serde_json::from_str::<RowId>(raw.get()).ok().map(RowId::into_string),
        };
        if row.is_none() {
            listing.unreadable += 1;
        }
        if row.is_none() && listing.unreadable <= MAX_LOGGED {
            tracing::warn!(operation, id, "a row of Neutron's answer cannot be read and is left out");
        }
        listing.size += row.as_ref().map_or(size_of::<R>(), Row::size) + id.as_ref().map_or(0, String::len);
        if let Some(row) = &mut row {
            row.share_texts(&listing.rows);
        }
        listing.rows.extend(row);
        if id.as_ref().is_some_and(|id| !self.seen.insert(id.clone())) {
            page.end = PageEnd::Repeated;
        }
        if listing.rows.len() + listing.unreadable > self.limit.rows || listing.size > self.limit.size() {
            page.end = PageEnd::TooLarge;
        }
        page.last = id.or(page.last.take());
    }
}

#[derive(serde::Deserialize)]
struct Link {
    rel: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_number_of_rows_may_be_allowed() {
        let limit = Limit { rows: usize::MAX, row_size: 1024, remedy: "" };
        assert_eq!(limit.size(), usize::MAX);
    }
}
