//! A watch of claims.

use futures::StreamExt;
use futures::stream::BoxStream;
use kube::core::DynamicObject;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, ResourceExt};

use crate::support::{Kind, Namespace};

pub type ClaimEvents = BoxStream<'static, watcher::Result<Event<DynamicObject>>>;

/// Watches the claims of a namespace; returns once the watch has begun.
pub async fn watch_claims(ns: &Namespace) -> ClaimEvents {
    watch_claims_in(ns.api(Kind::Claim)).await
}

/// The same for the claims of one namespace or of all.
pub async fn watch_claims_in(claims: Api<DynamicObject>) -> ClaimEvents {
    let mut events = watcher(claims, watcher::Config::default()).boxed();
    while !matches!(events.next().await, Some(Ok(Event::InitDone))) {}
    events
}

pub fn bound_claim(event: Event<DynamicObject>) -> Option<String> {
    let (Event::Apply(claim) | Event::InitApply(claim)) = event else { return None };
    claim.data["status"]["addressRef"]["name"].is_string().then(|| claim.name_any())
}

pub fn deleted_claim(event: Event<DynamicObject>) -> Option<String> {
    if let Event::Delete(claim) = event { Some(claim.name_any()) } else { None }
}
