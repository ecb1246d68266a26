//! What Neutron answers.

#![expect(clippy::unwrap_used, reason = "a panic is a find")]

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use http::Response;
use url::Url;

use super::body::{self, Extensions, QuotaDetails};
use super::pages::{Envelope, Limit, Listing, PageEnd, Row};
use super::{TAGS_EXTENSION, id_segment, tag_segment};
use crate::fuzzing::{ALLOCATED, parts};
use crate::openstack::{FloatingIp, FloatingIpId, Network, Quota, Subnet};

/// The pages of a listing of floating IPs. The first is also read as a single one.
pub fn floating_ips(data: &[u8]) {
    let rows = listing::<FloatingIp>("floatingips", data);
    let single = body::floating_ip(&Response::new(Bytes::copy_from_slice(data)));
    for ip in rows.iter().chain(&single) {
        assert!(ip.memory_size() >= size_of::<FloatingIp>() + ip.description.len());
        assert!(ip.description.chars().count() <= 4 * 255 && ip.tags.len() <= 64);
        assert!(ip.created_at.is_none() || ip.changed_at.is_some());
        assert_path_segment(&ip.id);
    }
}

/// The pages of a listing of networks, and of one of subnets.
pub fn networks(data: &[u8]) {
    listing::<Network>("networks", data);
    listing::<Subnet>("subnets", data);
}

/// The project's quota, or the extensions.
pub fn quota(data: &[u8]) {
    let response = Response::new(Bytes::copy_from_slice(data));
    let _ = body::parse::<QuotaDetails>(&response).map(Quota::from);
    if let Some(Extensions { extensions }) = body::parse(&response) {
        let _ = extensions.iter().any(|extension| extension.is(TAGS_EXTENSION));
    }
}

/// An id that is used in a URL names nothing else than a floating IP.
pub(crate) fn assert_path_segment(id: &FloatingIpId) {
    let base = Url::parse("https://n.test/v2.0/floatingips/").unwrap();
    for segment in [id_segment("", id), tag_segment("", id.as_str())].into_iter().flatten() {
        let path = format!("{}{segment}", base.path());
        assert_eq!(base.join(&format!("./{segment}")).unwrap().path(), path);
    }
}

/// As `read_pages` reads them. What is kept is within the limit, and takes as much memory as is counted.
fn listing<R: Row>(key: &'static str, data: &[u8]) -> Vec<R> {
    let limit = Limit { rows: 16, row_size: 512, remedy: "" };
    let before = ALLOCATED.load(Ordering::Relaxed);
    let (mut listing, mut seen) = (Listing::<R>::default(), BTreeSet::new());
    let mut end = Some(PageEnd::Complete);
    for page in parts(data) {
        let page = Envelope { operation: "list", key, listing: &mut listing, seen: &mut seen, limit }.read(page);
        end = page.ok().map(|page| page.end);
        if end != Some(PageEnd::Complete) {
            break;
        }
    }
    let kept = ALLOCATED.load(Ordering::Relaxed).saturating_sub(before);
    let rows = listing.rows.len() + listing.unreadable;
    assert!(kept <= 2 * listing.size + 2048, "{kept} bytes are allocated, but {} are counted", listing.size);
    assert!(rows <= limit.rows + 1 && listing.rows.iter().all(|row| row.id().len() <= 64));
    let last = listing.rows.last().map_or(0, |row| row.size() + row.id().len());
    assert!(listing.size <= limit.rows * limit.row_size + last.max(size_of::<R>() + 64));
    if end == Some(PageEnd::Complete) {
        let ids: BTreeSet<_> = listing.rows.iter().map(Row::id).collect();
        assert_eq!(ids.len(), listing.rows.len(), "no row twice");
    }
    listing.rows
}
