//! Plain clients: they create, bind and release claims by the requests that the Cluster API IPAM provider contract asks for,
//! one after another, without a controller. How fast they are on the same servers is the limit.

use kube::api::{Patch, PatchParams};
use kube::core::DynamicObject;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::objects::{api, create, delete};
use crate::support::{Kind, Manifest, World, claim};

const FINALIZER: &str = "ipam.cluster.x-k8s.io/plain";

/// Claims of one namespace, by number.
pub struct PlainClients<'a> {
    pub world: &'a World,
    pub namespace: &'a str,
}

impl PlainClients<'_> {
    /// Creates a claim and binds it to the address that `allocate` returns.
    pub async fn bind(&self, number: usize, allocate: impl AsyncFnOnce() -> String) {
        let manifest: Manifest = plain_claim(number);
        let name = manifest.name();
        let claim = self.create(manifest).await;
        self.set_finalizers(Kind::Claim, &name, json!([FINALIZER])).await;
        let address = allocate().await;
        let owner = json!({
            "apiVersion": claim.types.as_ref().expect("it has a kind").api_version, "kind": "IPAddressClaim",
            "name": name, "uid": claim.uid(), "controller": true, "blockOwnerDeletion": true,
        });
        let ip_address = json!({
            "metadata": {
                "name": name, "ownerReferences": [owner], "finalizers": [FINALIZER],
                "annotations": {"plain/floating-ip-id": "5d2b7f5e-0000-4000-8000-000000000001", "plain/origin": "created"},
            },
            "spec": {
                "claimRef": {"name": name}, "poolRef": claim.data["spec"]["poolRef"], "address": address, "prefix": 32,
            },
        });
        self.create(Manifest::new(Kind::Address, ip_address)).await;
        let now = jiff::Timestamp::now();
        let condition = json!({
            "type": "Ready", "status": "True", "reason": "AddressAllocated", "message": "an address is allocated",
            "lastTransitionTime": now.to_string(),
        });
        let status = json!({"status": {"addressRef": {"name": name}, "conditions": [condition]}});
        self.api(Kind::Claim)
            .patch_status(&name, &PatchParams::default(), &Patch::Merge(&status))
            .await
            .expect("a claim takes a status");
        let regarding =
            json!({"kind": "IPAddressClaim", "name": name, "namespace": self.namespace, "uid": claim.uid()});
        let event = json!({
            "metadata": {"name": format!("{name}.event")}, "eventTime": format!("{now:.6}"), "action": "Bind",
            "reason": "AddressAllocated", "type": "Normal", "note": "an address is allocated", "regarding": regarding,
            "reportingController": "plain", "reportingInstance": "plain",
        });
        self.create(Manifest::new(Kind::Event, event)).await;
    }

    /// Deletes a claim, marks its address as released with `mark`, and lets both objects go.
    pub async fn release(&self, number: usize, mark: impl AsyncFnOnce()) {
        let name = plain_claim(number).name();
        self.delete(Kind::Claim, &name).await;
        mark().await;
        self.set_finalizers(Kind::Address, &name, Value::Null).await;
        self.delete(Kind::Address, &name).await;
        self.set_finalizers(Kind::Claim, &name, Value::Null).await;
    }

    async fn create(&self, manifest: Manifest) -> DynamicObject {
        create(self.world, self.namespace, manifest).await
    }

    async fn delete(&self, kind: Kind, name: &str) {
        delete(self.world, kind, self.namespace, name).await;
    }

    async fn set_finalizers(&self, kind: Kind, name: &str, finalizers: Value) {
        let change = json!({"metadata": {"finalizers": finalizers}});
        let changed = self.api(kind).patch(name, &PatchParams::default(), &Patch::Merge(&change)).await;
        changed.unwrap_or_else(|error| panic!("{kind:?} {name} cannot be changed: {error}"));
    }

    fn api(&self, kind: Kind) -> Api<DynamicObject> {
        api(self.world, kind, self.namespace)
    }
}

fn plain_claim(number: usize) -> Manifest {
    claim(&format!("plain-{number:05}")).without_capo_finalizer().from("plain").into()
}
