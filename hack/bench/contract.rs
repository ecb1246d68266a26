//! The same by plain clients that keep Cluster API's contract too: claim, finalizer, the write in Neutron, IPAddress,
//! status. Kubernetes and Neutron share the machine, so nobody who binds claims can be faster than this here.

use std::time::Instant;

use anyhow::Result;
use futures::{StreamExt, TryStreamExt, stream};
use kube::ResourceExt;
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::DynamicObject;
use serde_json::json;

use crate::Bench;
use crate::baseline::Write;
use crate::cluster::Place;
use crate::neutron::{FloatingIp, NOTE};

/// How many claims are bound side by side: twice what Neutron gains from, since half of each is Kubernetes.
const AT_ONCE: usize = 16;
const TAG: &str = "bench-contract";

/// Seconds until so many claims are bound, in a namespace of its own, by this kind of write.
pub async fn measure(bench: &Bench, write: Write, claims: usize) -> Result<f64> {
    let place = bench.cluster.place(&bench.neutron.cloud).await?;
    let stock = match write {
        Write::Create => Vec::new(),
        _ => bench.neutron.create_many(&bench.network, NOTE, claims).await?,
    };
    let begun = Instant::now();
    let binding = (0..claims).map(|number| bind(bench, &place, write, number, stock.get(number)));
    let bound: Vec<FloatingIp> = stream::iter(binding).buffer_unordered(AT_ONCE).try_collect().await?;
    let seconds = begun.elapsed().as_secs_f64();
    bench.neutron.delete_many(bound.into_iter().map(|bound| bound.id)).await?;
    bench.cluster.clean_up().await;
    Ok(seconds)
}

async fn bind(
    bench: &Bench,
    place: &Place,
    write: Write,
    number: usize,
    stock: Option<&FloatingIp>,
) -> Result<FloatingIp> {
    let mut claim = bench.cluster.claim(number)?;
    // Of nobody: no controller may serve it.
    claim.data["spec"]["poolRef"]["kind"] = "BenchmarkPool".into();
    let name = claim.name_any();
    place.claims.create(&PostParams::default(), &claim).await?;
    let how = PatchParams::default();
    let finalizer = json!({"metadata": {"finalizers": ["benchmark.example.org/claim"]}});
    place.claims.patch(&name, &how, &Patch::Merge(finalizer)).await?;
    let bound = match (write, stock) {
        (Write::Tag, Some(stock)) => {
            bench.neutron.tag(&stock.id, TAG).await?;
            stock.clone()
        }
        (_, Some(stock)) => {
            bench.neutron.describe(&stock.id, &format!("{NOTE}, claim {number}")).await?;
            stock.clone()
        }
        (_, None) => bench.neutron.create(&bench.network, NOTE).await?,
    };
    place.addresses.create(&PostParams::default(), &address(bench, &claim, &bound)?).await?;
    let ready = json!({"type": "Ready", "status": "True", "reason": "AddressAllocated", "message": "bound",
        "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let status = json!({"status": {"addressRef": {"name": name}, "conditions": [ready]}});
    place.claims.patch_status(&name, &how, &Patch::Merge(status)).await?;
    Ok(bound)
}

fn address(bench: &Bench, claim: &DynamicObject, bound: &FloatingIp) -> Result<DynamicObject> {
    Ok(serde_json::from_value(json!({
        "apiVersion": bench.cluster.address_kind().api_version, "kind": "IPAddress",
        "metadata": {"name": claim.name_any(), "finalizers": ["benchmark.example.org/address"]},
        "spec": {"claimRef": {"name": claim.name_any()}, "poolRef": claim.data["spec"]["poolRef"],
            "address": bound.address, "prefix": 32}
    }))?)
}
