//! One watch: keeps the store as it is told, and tells of each change. One malformed object never stops the rest.

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

use crate::controllers::context::{all, name_of};
use crate::object_name::ObjectName;
use crate::runtime::client::WATCH_TIMEOUT_SECONDS;

/// What happened to an object.
pub(super) enum Change<'a, K> {
    /// It is there, new or not.
    Seen(&'a K),
    /// It went.
    Gone(&'a K),
    /// The watch started anew: these are all that there are.
    All(&'a BTreeSet<ObjectName>),
}

/// Lists a kind once, and tells of all that there is, as a watch that begins does.
pub(super) async fn list<K>(
    api: Api<DeserializeGuard<K>>,
    writer: &mut Writer<K>,
    tell: impl Fn(Change<'_, K>),
) -> Result<(), kube::Error>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
    K::DynamicType: Eq + Hash + Clone,
{
    let objects = api.list(&kube::api::ListParams::default()).await?.items;
    let mut listed = BTreeSet::new();
    let events = objects.into_iter().map(watcher::Event::InitApply);
    for event in [watcher::Event::Init].into_iter().chain(events).chain([watcher::Event::InitDone]) {
        apply(event, writer, &mut listed, &tell);
    }
    Ok(())
}

/// Watches a kind until the process ends.
pub(super) async fn drive<K>(api: Api<DeserializeGuard<K>>, mut writer: Writer<K>, tell: impl Fn(Change<'_, K>))
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
        apply(event, &mut writer, &mut listed, &tell);
    }
}

/// Keeps the store as the watch brings it, and tells of it.
fn apply<K>(
    event: watcher::Event<DeserializeGuard<K>>,
    writer: &mut Writer<K>,
    listed: &mut BTreeSet<ObjectName>,
    tell: &impl Fn(Change<'_, K>),
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
                tell_after(writer, watcher::Event::InitApply(object), |object| tell(Change::Seen(object)));
            }
        }
        watcher::Event::InitDone => {
            writer.apply_watcher_event(&watcher::Event::InitDone);
            tell(Change::All(listed));
            // Woken before the store had them: they are woken again now that it has.
            let store = writer.as_reader();
            all(&store, |_| true).iter().for_each(|object| tell(Change::Seen(object)));
        }
        watcher::Event::Apply(guarded) => {
            if let Some(object) = parse(guarded) {
                tell_after(writer, watcher::Event::Apply(object), |object| tell(Change::Seen(object)));
            }
        }
        watcher::Event::Delete(guarded) => {
            if let Some(object) = parse(guarded) {
                tell_after(writer, watcher::Event::Delete(object), |object| tell(Change::Gone(object)));
            }
        }
    }
}

/// Secrets are only watched for the moment at which one changes, and for our finalizers: their metadata is asked for, and
/// what is in them is read by whoever needs it.
pub(super) async fn drive_secrets(api: Api<PartialObjectMeta<Secret>>, tell: impl Fn(SecretChange<'_>)) {
    let mut events = watcher(api, watcher::Config::default().timeout(WATCH_TIMEOUT_SECONDS)).default_backoff().boxed();
    loop {
        match events.try_next().await {
            // A restarted watch may have missed a change, so that what it lists counts too.
            Ok(Some(watcher::Event::Apply(secret) | watcher::Event::InitApply(secret))) => tell(Change::Seen(&secret)),
            Ok(Some(watcher::Event::Delete(secret))) => tell(Change::Gone(&secret)),
            Ok(Some(watcher::Event::Init | watcher::Event::InitDone)) => {}
            Ok(None) => return,
            Err(error) => tracing::warn!(kind = "Secret", "watch interrupted: {error}"),
        }
    }
}

/// What happened to a Secret.
pub(super) type SecretChange<'a> = Change<'a, PartialObjectMeta<Secret>>;

fn tell_after<K>(writer: &mut Writer<K>, event: watcher::Event<K>, tell: impl FnOnce(&K))
where
    K: Resource + Clone,
    K::DynamicType: Eq + Hash + Clone,
{
    writer.apply_watcher_event(&event);
    if let watcher::Event::InitApply(object) | watcher::Event::Apply(object) | watcher::Event::Delete(object) = &event {
        tell(object);
    }
}

fn parse<K: Resource>(guarded: DeserializeGuard<K>) -> Option<K> {
    match guarded.0 {
        Ok(mut object) => {
            // Never read, and larger than all the rest.
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
