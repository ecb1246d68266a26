//! Nothing changed, so nothing is written.

use super::*;
use crate::support::{pool, stays, with_namespace};

#[tokio::test]
async fn nothing_is_written_when_nothing_changed() {
    with_namespace(async |ns| {
        let listed = ns.floating_ip("public").await;
        let spec = pool("public").list([&listed.address]).network("public").preallocate(1);
        let (_, wire) = served_by_wire(ns, spec).await;
        futures::future::join_all((0..8).map(|number| ns.create(claim(&format!("web-{number}"))))).await;
        await_bound_count(ns, 8).await;
        await_count(ns, "allocated", 8).await;
        await_count(ns, "free", 1).await;
        wire.forget();
        let before = versions(ns).await;
        stays(Duration::from_secs(30), async || {
            let (now, writes) = (versions(ns).await, wire.writes());
            match now == before && writes.is_empty() {
                true => Ok(()),
                false => Err(format!("objects {before:?} became {now:?}; Neutron saw {writes:?}")),
            }
        })
        .await;
        assert!(wire.count("GET floatingips") <= 1, "{:?}", wire.calls());
        assert_eq!(wire.calls().len(), wire.count("GET floatingips"));
    })
    .await;
}

async fn versions(ns: &Namespace) -> Vec<(String, Option<String>)> {
    let mut all = Vec::new();
    for kind in [Kind::Pool, Kind::Claim, Kind::Address, Kind::Secret] {
        let objects = ns.list(kind).await;
        all.extend(objects.iter().map(|object| (object.name_any(), object.resource_version())));
    }
    all
}
