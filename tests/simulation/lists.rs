//! What the controllers list is never older than what they have seen or written, and never in memory as a whole.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::json;

use crate::api::Kind;
use crate::simulate;
use crate::world::{Start, World};

const SOON: Duration = Duration::from_secs(60);

/// A list without a resource version is read from etcd, or from a cache that is as new. With one, an API server may answer
/// from its cache: after the controllers have connected to another API server, they would see older objects. A watch from
/// what such a list showed never goes back: `tests/contract/kubernetes/watched.rs`.
#[test]
fn every_list_is_a_quorum_read_in_pages() {
    let start = Start { seed: 11, sites: 1, replicas: 2, slowest: 20, is_logged: true };
    let outcome = simulate(&start, async |world: &World| {
        let site = &world.sites[0];
        let reuse = json!({"policy": "Unmarked", "minIdleSeconds": 60});
        site.create_pool("public", &json!({"floatingIPNetwork": {"filter": {"name": "public"}}, "reuse": reuse}));
        site.create_claim("web-0", "public");
        world.wait_until(SOON, || site.is_bound("web-0")).await;
        // The watches begin again.
        site.server.expire_watches();
        world.advance(SOON).await;
        site.delete(Kind::Claim, "web-0");
        world.advance(SOON).await;
        let ours = [Kind::Secret, Kind::Cluster, Kind::Claim, Kind::Address, Kind::Pool];
        let kinds = ours.into_iter().chain([Kind::InTreePool, Kind::OpenStackCluster]);
        let expected: BTreeSet<Kind> = kinds.collect();
        let listed = site.server.state().listed.clone();
        let kinds: BTreeSet<Kind> = listed.iter().map(|(kind, ..)| *kind).collect();
        let are_current = listed.iter().all(|(_, has_version, _)| !has_version);
        world.expect(
            1,
            &format!("{listed:?}"),
            "lists of all kinds, without a version",
            kinds == expected && are_current,
        );
        // What any tenant writes, CAPO's objects too, would otherwise fill the memory of all.
        let are_paged = listed.iter().all(|(_, _, page)| page.is_some_and(|size| size <= 50));
        world.expect(10, &format!("{listed:?}"), "pages", are_paged);
    });
    outcome.assert_lawful();
}
