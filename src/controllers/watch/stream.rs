//! One watch: updates a store and reports each change. A malformed object never stops the rest.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::hash::Hash;

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Secret;
use kube::core::{DeserializeGuard, PartialObjectMeta};
use kube::runtime::reflector::store::Writer;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;

use crate::controllers::stores::{name_of, sorted};
use crate::object_name::ObjectName;
use crate::runtime::client::WATCH_TIMEOUT_SECONDS;

/// What happened to the objects of a kind.
pub(super) enum Change<'a, K> {
    /// It exists, new or not.
    Applied(&'a K),
    Deleted(&'a K),
    /// The watch began again: these are all that exist.
    Listed(&'a BTreeSet<ObjectName>),
}

/// Lists a kind once, like the beginning of a watch.
pub(super) async fn list<K>(
    api: Api<DeserializeGuard<K>>,
    writer: &mut Writer<K>,
    report: impl Fn(Change<'_, K>),
) -> Result<(), kube::Error>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
    K::DynamicType: Eq + Hash + Clone,
{
    let objects = api.list(&kube::api::ListParams::default()).await?.items;
    let mut listed = BTreeSet::new();
    let events = objects.into_iter().map(watcher::Event::InitApply);
    for event in [watcher::Event::Init].into_iter().chain(events).chain([watcher::Event::InitDone]) {
        apply(event, writer, &mut listed, &report);
    }
    Ok(())
}

/// Watches a kind until the process ends.
pub(super) async fn drive<K>(api: Api<DeserializeGuard<K>>, mut writer: Writer<K>, report: impl Fn(Change<'_, K>))
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
    K::DynamicType: Eq + Hash + Clone,
{
    let mut events = watcher(api, watcher::Config::default().timeout(WATCH_TIMEOUT_SECONDS)).default_backoff().boxed();
    let mut listed = BTreeSet::new();
    loop {
        let event = match events.try_next().await {
            Ok(Some(event)) => event,
            Ok(None) => return,
            Err(error) => {
                tracing::warn!(kind = std::any::type_name::<K>(), "watch interrupted: {error}");
                continue;
            }
        };
        apply(event, &mut writer, &mut listed, &report);
    }
}

/// Applies an event to the store, then reports it.
fn apply<K>(
    event: watcher::Event<DeserializeGuard<K>>,
    writer: &mut Writer<K>,
    listed: &mut BTreeSet<ObjectName>,
    report: &impl Fn(Change<'_, K>),
) where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
    K::DynamicType: Eq + Hash + Clone,
{
    match event {
        watcher::Event::Init => {
            listed.clear();
            writer.apply_watcher_event(&watcher::Event::Init);
        }
        watcher::Event::InitApply(guarded) => {
            if let Some(object) = parse(guarded) {
                listed.insert(name_of(&object));
                apply_and_report(writer, watcher::Event::InitApply(object), |object| report(Change::Applied(object)));
            }
        }
        watcher::Event::InitDone => {
            writer.apply_watcher_event(&watcher::Event::InitDone);
            report(Change::Listed(listed));
            // They were reported before the store was complete, so they are reported again.
            let store = writer.as_reader();
            sorted(&store, |_| true).iter().for_each(|object| report(Change::Applied(object)));
        }
        watcher::Event::Apply(guarded) => {
            if let Some(object) = parse(guarded) {
                apply_and_report(writer, watcher::Event::Apply(object), |object| report(Change::Applied(object)));
            }
        }
        watcher::Event::Delete(guarded) => {
            if let Some(object) = parse(guarded) {
                apply_and_report(writer, watcher::Event::Delete(object), |object| report(Change::Deleted(object)));
            }
        }
    }
}

/// Watches only the metadata of Secrets: their changes and our finalizers. Their data is read when it is needed.
pub(super) async fn drive_secrets(api: Api<PartialObjectMeta<Secret>>, report: impl Fn(SecretChange<'_>)) {
    let mut events = watcher(api, watcher::Config::default().timeout(WATCH_TIMEOUT_SECONDS)).default_backoff().boxed();
    let mut listed = BTreeSet::new();
    loop {
        match events.try_next().await {
            Ok(Some(watcher::Event::Init)) => listed.clear(),
            // A watch that begins again may have missed a change, so what it lists counts as changed.
            Ok(Some(watcher::Event::InitApply(secret))) => {
                listed.insert(name_of(&secret));
                report(Change::Applied(&secret));
            }
            Ok(Some(watcher::Event::InitDone)) => report(Change::Listed(&listed)),
            Ok(Some(watcher::Event::Apply(secret))) => report(Change::Applied(&secret)),
            Ok(Some(watcher::Event::Delete(secret))) => report(Change::Deleted(&secret)),
            Ok(None) => return,
            Err(error) => tracing::warn!(kind = "Secret", "watch interrupted: {error}"),
        }
    }
}

pub(super) type SecretChange<'a> = Change<'a, PartialObjectMeta<Secret>>;

fn apply_and_report<K>(writer: &mut Writer<K>, event: watcher::Event<K>, report: impl FnOnce(&K))
where
    K: Resource + Clone,
    K::DynamicType: Eq + Hash + Clone,
{
    writer.apply_watcher_event(&event);
    if let watcher::Event::InitApply(object) | watcher::Event::Apply(object) | watcher::Event::Delete(object) = &event {
        report(object);
    }
}

fn parse<K: Resource>(guarded: DeserializeGuard<K>) -> Option<K> {
    match guarded.0 {
        Ok(mut object) => {
            // Never read, and often larger than the rest.
            object.meta_mut().managed_fields = None;
            Some(object)
        }
        Err(invalid) => {
            let (namespace, name) = (invalid.metadata.namespace, invalid.metadata.name);
            tracing::warn!(?namespace, ?name, "object left out, it cannot be read: {}", invalid.error);
            None
        }
    }
}
