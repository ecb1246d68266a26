//! One watch: updates a store and reports each change. A malformed object never stops the rest.

use std::any::type_name;
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::hash::Hash;
use std::time::Duration;

use backon::ExponentialBuilder;
use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1::Secret;
use kube::core::PartialObjectMeta;
use kube::runtime::reflector::store::Writer;
use kube::runtime::utils::ResetTimerBackoff;
use kube::runtime::watcher::{self, ExponentialBackoff, watcher};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio::time::sleep;

use crate::api::guarded::{Guarded, Unreadable};
use crate::controllers::memory::Interruptions;
use crate::controllers::stores::{Stored, name_of, sorted};
use crate::object_name::ObjectName;
use crate::runtime::client::{PAGE_OBJECTS, WATCH_TIMEOUT_SECONDS};

/// The first pause before an interrupted watch begins again, as in client-go.
const FIRST_PAUSE: Duration = Duration::from_millis(800);
/// The longest one; a jitter adds up to as much. client-go's 30 s would be noticed by every claim that was created since
/// the API server came back.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// After this time without an interruption the pauses are short again: longer than any pause.
const PAUSES_RESET_AFTER: Duration = Duration::from_secs(30);

/// What happened to the objects of a kind.
pub(super) enum Change<'a, K> {
    /// It exists, new or not.
    Applied(&'a K),
    Deleted(&'a K),
    /// The watch began again: these are all that exist.
    Listed(&'a BTreeSet<ObjectName>),
}

/// Lists a kind once, like the beginning of a watch: without a resource version.
pub(super) async fn list<K>(
    api: Api<Guarded<K>>,
    writer: &mut Writer<K>,
    report: impl Fn(Change<'_, K>),
) -> Result<(), kube::Error>
where
    K: Stored + Clone + Debug + DeserializeOwned + Send + 'static,
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
///
/// Both this and [`list`] begin with a list without a resource version: a quorum read, which shows everything that was
/// written before it, by whichever API server. A list from an API server's cache (`resourceVersion=0`) could be older than
/// what the stores had, and a claim would look as if it had no IPAddress. A watch from the listed version on never
/// delivers anything older, so the stores never go back.
pub(super) async fn drive<K>(
    api: Api<Guarded<K>>,
    mut writer: Writer<K>,
    interruptions: &Interruptions,
    report: impl Fn(Change<'_, K>),
) where
    K: Stored + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let (kind, mut listed) = (type_name::<K>(), BTreeSet::new());
    let watch = || watcher(api.clone(), config()).boxed();
    let handle = |event| {
        let is_listed = matches!(event, watcher::Event::InitDone);
        apply(event, &mut writer, &mut listed, &report);
        if is_listed {
            interruptions.end(kind);
        }
    };
    repeat(kind, watch, || interruptions.begin(kind), handle).await;
}

fn config() -> watcher::Config {
    // Not `any_semantic`: its lists may be older than what was seen before.
    watcher::Config::default().timeout(WATCH_TIMEOUT_SECONDS).page_size(PAGE_OBJECTS)
}

/// Handles the events of a watch until the process ends. One that is interrupted begins again with a list, after a pause,
/// instead of where it was: if the API server's data were restored from a backup meanwhile, versions are lower than before,
/// and a watch that continues from a higher one delivers nothing and reports no error.
async fn repeat<K, S>(
    kind: &'static str,
    watch: impl Fn() -> S,
    interrupt: impl Fn(),
    mut handle: impl FnMut(watcher::Event<K>),
) where
    S: Stream<Item = watcher::Result<watcher::Event<K>>> + Unpin,
{
    let growing = ExponentialBuilder::new().with_min_delay(FIRST_PAUSE).with_max_delay(LONGEST_PAUSE);
    let growing = growing.with_factor(2.0).with_jitter().without_max_times();
    let mut pauses = ResetTimerBackoff::new(ExponentialBackoff::from(growing), PAUSES_RESET_AFTER);
    loop {
        let mut events = watch();
        let error = loop {
            match events.next().await {
                Some(Ok(event)) => handle(event),
                Some(Err(error)) => break error,
                None => return,
            }
        };
        interrupt();
        tracing::warn!(kind, "watch interrupted: {error}");
        sleep(pauses.next().unwrap_or_default()).await;
    }
}

/// Applies an event to the store, then reports it.
fn apply<K>(
    event: watcher::Event<Guarded<K>>,
    writer: &mut Writer<K>,
    listed: &mut BTreeSet<ObjectName>,
    report: &impl Fn(Change<'_, K>),
) where
    K: Stored + Clone + Debug + DeserializeOwned + Send + 'static,
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
            // Nothing needs the names any more.
            report(Change::Listed(&std::mem::take(listed)));
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
            let name = name_of(&guarded);
            // What was known of one that can no longer be read is gone all the same.
            let known = || writer.as_reader().find(|known| name_of(known) == name).map(|known| (*known).clone());
            if let Some(object) = parse(guarded).or_else(known) {
                apply_and_report(writer, watcher::Event::Delete(object), |object| report(Change::Deleted(object)));
            }
        }
    }
}

/// Watches only the metadata of Secrets: their changes and our finalizers. Their data is read when it is needed. The lists
/// are quorum reads, as in [`drive`].
pub(super) async fn drive_secrets(api: Api<Guarded<PartialObjectMeta<Secret>>>, report: impl Fn(SecretChange<'_>)) {
    let mut listed = BTreeSet::new();
    let watch = || watcher(api.clone(), config()).boxed();
    let applied = |secret| readable(secret).iter().for_each(|secret| report(Change::Applied(secret)));
    let handle = |event: watcher::Event<Guarded<PartialObjectMeta<Secret>>>| match event {
        watcher::Event::Init => listed.clear(),
        // A watch that begins again may have missed a change, so what it lists counts as changed.
        watcher::Event::InitApply(secret) => {
            listed.insert(name_of(&secret));
            applied(secret);
        }
        watcher::Event::InitDone => report(Change::Listed(&std::mem::take(&mut listed))),
        watcher::Event::Apply(secret) => applied(secret),
        watcher::Event::Delete(secret) => readable(secret).iter().for_each(|secret| report(Change::Deleted(secret))),
    };
    repeat("Secret", watch, || {}, handle).await;
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

/// None, and a line in the log, if it cannot be read.
pub(in crate::controllers) fn readable<K>(guarded: Guarded<K>) -> Option<K> {
    let unreadable = |Unreadable { error, metadata }: Unreadable| {
        let (namespace, name) = (metadata.namespace, metadata.name);
        tracing::warn!(?namespace, ?name, "object left out, it cannot be read: {error}");
    };
    guarded.0.map_err(unreadable).ok()
}

fn parse<K: Stored>(guarded: Guarded<K>) -> Option<K> {
    let mut object = readable(guarded)?;
    object.strip();
    Some(object)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use serde_json::json;

    use super::*;
    use kube::ResourceExt;

    use crate::api::names::{GROUP, POOL_KIND};
    use crate::api::{IpAddressClaim, OpenStackFloatingIPPool};

    fn pool(identity: &serde_json::Value) -> Guarded<OpenStackFloatingIPPool> {
        let meta = json!({"name": "p", "namespace": "n", "resourceVersion": "7"});
        let spec = json!({"identityRef": identity});
        let object = json!({"apiVersion": "v1alpha1", "kind": "Pool", "metadata": meta, "spec": spec});
        serde_json::from_str(&object.to_string()).expect("an object")
    }

    #[test]
    fn an_object_with_long_owners_loses_them() {
        let kept = |api_group: &str, length: usize| {
            let owner = json!({"apiVersion": "v1", "kind": "Owner", "name": "x".repeat(length), "uid": "1"});
            let meta = json!({"name": "c", "namespace": "n", "ownerReferences": [owner], "finalizers": ["a/b"]});
            let spec = json!({"poolRef": {"apiGroup": api_group, "kind": POOL_KIND, "name": "p"}});
            let claim = serde_json::from_str(&json!({"metadata": meta, "spec": spec}).to_string());
            let claim: Option<IpAddressClaim> = parse(claim.expect("an object"));
            claim.map(|claim| claim.owner_references().len())
        };
        assert_eq!([kept(GROUP, 253), kept(GROUP, 8_000), kept(GROUP, 8_192)], [Some(1), Some(1), Some(0)]);
        assert_eq!([kept("of.another", 253), kept("of.another", 16_384)], [Some(1), Some(0)]);
    }

    #[test]
    fn an_object_that_cannot_be_read_keeps_what_is_known_until_it_is_deleted() {
        let (mut writer, mut listed, deleted) = (Writer::new(()), BTreeSet::new(), RefCell::new(0));
        let report = |change: Change<'_, OpenStackFloatingIPPool>| {
            *deleted.borrow_mut() += usize::from(matches!(change, Change::Deleted(_)));
        };
        let readable = pool(&json!({"name": "cloud", "cloudName": "openstack"}));
        let mut apply = |event| {
            apply(event, &mut writer, &mut listed, &report);
            (writer.as_reader().state().len(), *deleted.borrow())
        };
        apply(watcher::Event::Init);
        apply(watcher::Event::InitApply(readable));
        assert_eq!(apply(watcher::Event::InitDone), (1, 0));
        assert_eq!(apply(watcher::Event::Apply(pool(&json!(7)))), (1, 0));
        assert_eq!(apply(watcher::Event::Delete(pool(&json!(7)))), (0, 1));
    }
}
