//! Small patches, never a whole object, so that fields of other writers and unknown fields survive.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Patch, PatchParams};
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::stores::with_all_references;

pub(super) async fn merge<K>(api: &Api<K>, name: &str, change: Value) -> Result<K, kube::Error>
where
    K: Resource + Clone + DeserializeOwned + std::fmt::Debug,
{
    api.patch(name, &PatchParams::default(), &Patch::Merge(change)).await
}

/// Adds the finalizer; `None` when it is there already. The patch replaces the whole list, so it names the version that
/// was read: a conflict is an error, and the object is reconciled again.
pub(super) fn with_finalizer(meta: &ObjectMeta, finalizer: &str) -> Option<Value> {
    let mut all = meta.finalizers.clone().unwrap_or_default();
    (!all.iter().any(|other| other == finalizer)).then(|| {
        all.push(finalizer.to_owned());
        json!({"metadata": {"resourceVersion": meta.resource_version, "finalizers": all}})
    })
}

/// Removes the finalizer; `None` when it is not there.
pub(super) fn without_finalizer(meta: &ObjectMeta, finalizer: &str) -> Option<Value> {
    without_finalizers(meta, |other| other == finalizer)
}

/// Removes the finalizer from an object of the stores; `None` when it is not there.
pub(super) async fn remove_finalizer<A, K>(api: &Api<A>, object: &K, finalizer: &str) -> Result<Option<A>, kube::Error>
where
    A: Resource + Clone + DeserializeOwned + std::fmt::Debug,
    K: Resource + Clone,
{
    if !has_finalizer(object.meta(), finalizer) {
        return Ok(None);
    }
    let whole = with_all_references(api, object).await?;
    match without_finalizers(whole.meta(), |other| other == finalizer) {
        Some(change) => merge(api, &object.name_any(), change).await.map(Some),
        None => Ok(None),
    }
}

/// Removes these finalizers; `None` when none of them is there.
pub(super) fn without_finalizers(meta: &ObjectMeta, is_removed: impl Fn(&str) -> bool) -> Option<Value> {
    let all = meta.finalizers.as_ref()?;
    let rest: Vec<&String> = all.iter().filter(|finalizer| !is_removed(finalizer)).collect();
    let change = || json!({"metadata": {"resourceVersion": meta.resource_version, "finalizers": rest}});
    (rest.len() < all.len()).then(change)
}

/// Adds a field to the metadata of a patch.
#[expect(clippy::indexing_slicing, reason = "a patch and its metadata are objects, or are made so here")]
pub(super) fn set_metadata(change: &mut Value, field: &str, value: Value) {
    change["metadata"][field] = value;
}

pub(super) fn has_finalizer(meta: &ObjectMeta, finalizer: &str) -> bool {
    meta.finalizers.iter().flatten().any(|other| other == finalizer)
}

/// Any answer of 404: the object does not exist, its kind is not served, or a proxy answered.
pub(super) fn is_not_found(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

/// Whether the object does not exist. A kind that is not served, or a proxy in front of the API server, also answers 404.
pub(super) fn is_gone(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404 && status.reason == "NotFound")
}

pub(super) fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409)
}

/// Whether a person must change something: a role, a policy, a quota or a webhook. Everything else passes.
pub(super) fn is_lasting_refusal(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if match status.code {
        400 | 403 | 422 => true,
        500 => status.message.contains("webhook"),
        _ => false,
    })
}

/// The API server's own message, without the client's additions.
pub(super) fn reply(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}

/// Whether a write that failed like this may have taken effect, or may still do so.
pub(super) fn is_unknown(error: &kube::Error) -> bool {
    !matches!(error, kube::Error::Api(status) if status.code < 500)
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn only_an_answer_about_the_object_says_that_it_is_gone() {
        let error = |reason: &str| kube::Error::Api(Status::failure("not found", reason).with_code(404).boxed());
        assert!(is_gone(&error("NotFound")) && is_not_found(&error("NotFound")));
        // As kube reads an answer that is text.
        assert!(!is_gone(&error("Failed to parse error data")) && is_not_found(&error("Failed to parse error data")));
    }

    #[test]
    fn what_a_person_must_change_is_told_from_what_passes() {
        let error = |code, message: &str| kube::Error::Api(Status::failure(message, "").with_code(code).boxed());
        for (code, message, is_lasting) in [
            (403, "ipaddresses is forbidden", true),
            (422, "denied by a policy", true),
            (400, "admission webhook denied the request", true),
            (500, "failed calling webhook", true),
            (500, "etcdserver: request timed out", false),
            (404, "not found", false),
            (409, "conflict", false),
            (429, "too many requests", false),
            (504, "timeout of a webhook", false),
        ] {
            assert_eq!(is_lasting_refusal(&error(code, message)), is_lasting, "{code}: {message}");
        }
    }
}
