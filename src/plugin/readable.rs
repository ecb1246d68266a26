//! Objects that may not be readable: a user wrote what this version does not know, with an older CRD for example.

use std::fmt::Debug;
use std::sync::Arc;

use kube::api::ListParams;
use kube::{Api, Resource};
use serde::de::DeserializeOwned;

use super::exit::Failure;
use super::output;
use crate::api::guarded::{Guarded, Unreadable};

/// Lists a kind. An object that cannot be read is noted, and left out.
pub(super) async fn list_readable<K>(
    api: Api<Guarded<K>>,
    params: &ListParams,
    what: &str,
) -> Result<Vec<Arc<K>>, Failure>
where
    K: Debug,
    Guarded<K>: Resource + Clone + DeserializeOwned,
{
    let objects = api.list(params).await.map_err(|error| Failure::kubernetes(what, &error))?;
    Ok(objects.items.into_iter().filter_map(read_or_note).map(Arc::new).collect())
}

pub(super) fn read_or_note<K>(guarded: Guarded<K>) -> Option<K> {
    let unreadable = |Unreadable { error, metadata }: &Unreadable| {
        let name = metadata.name.as_deref().unwrap_or_default();
        output::note(&format!("{name} is left out, it cannot be read: {error}"));
    };
    guarded.0.inspect_err(unreadable).ok()
}
