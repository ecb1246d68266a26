//! Every manifest in the documents is taken by the real API server as it is: schema, CEL rules, admission.

use std::path::Path;

use kube::Error;
use kube::api::PatchParams;
use kube::core::DynamicObject;
use serde_json::Value;

use super::markdown::Page;
use crate::support::{Namespace, with_namespace};

#[tokio::test]
async fn manifests_of_the_documents_are_taken_as_they_are() {
    with_namespace(async |ns| {
        let mut count = 0;
        for page in Page::all(Path::new(env!("CARGO_MANIFEST_DIR"))) {
            for block in page.blocks().into_iter().filter(|block| block.language.as_deref() == Some("yaml")) {
                let at = format!("{}:{}", page.path.display(), block.line);
                let documents = documents(&block.code).unwrap_or_else(|error| panic!("{at}: {error}"));
                for manifest in documents.iter().filter(|one| is_for_the_api_server(one)) {
                    taken(ns, manifest).await.unwrap_or_else(|error| panic!("{at}: {error}"));
                    count += 1;
                }
            }
        }
        assert!(count >= 1, "the manifests are found: {count}");
    })
    .await;
}

/// A Kustomization is for kubectl: `tests/install` builds the overlays.
fn is_for_the_api_server(document: &Value) -> bool {
    document["apiVersion"].as_str().is_some_and(|version| !version.starts_with("kustomize.config.k8s.io/"))
}

/// What a YAML text holds: one document, or several.
pub fn documents(yaml: &str) -> Result<Vec<Value>, serde_saphyr::Error> {
    serde_saphyr::from_multiple(yaml)
}

/// Asks the API server whether it takes a manifest in the namespace, strictly, as `kubectl apply` does: a field that the
/// schema does not have is refused. Nothing is kept.
pub async fn taken(ns: &Namespace, manifest: &Value) -> Result<DynamicObject, Error> {
    ns.apply_any(manifest, &PatchParams::apply("kubectl").force().dry_run().validation_strict()).await
}

/// Applies a manifest of any kind in the namespace.
pub async fn made(ns: &Namespace, manifest: &Value) -> DynamicObject {
    ns.apply_any(manifest, &PatchParams::apply("scenario").force())
        .await
        .unwrap_or_else(|error| panic!("{manifest}: {error}"))
}
