//! Lists that are read page by page: what users write is not in memory as a whole.

use std::fmt::Debug;

use kube::Api;
use kube::api::ListParams;
use serde::de::DeserializeOwned;

use crate::runtime::client::PAGE_OBJECTS;

/// Lists a kind, and hands over each object as its page arrives. A quorum read, as every list: see
/// [`watch`](super::watch).
pub(super) async fn for_each<K>(api: &Api<K>, mut see: impl FnMut(K)) -> Result<(), kube::Error>
where
    K: Clone + Debug + DeserializeOwned,
{
    let mut page = ListParams::default().limit(PAGE_OBJECTS);
    loop {
        let list = api.list(&page).await?;
        list.items.into_iter().for_each(&mut see);
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => return Ok(()),
        }
    }
}
