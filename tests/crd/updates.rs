//! Defaults, updates and empty values.

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::unserved;
use crate::support::{Kind, Manifest, Namespace, pool, with_namespace};

#[tokio::test]
async fn defaults_are_written_where_the_documents_promise_them() {
    with_namespace(async |ns| {
        let spec = json!({
            "identityRef": {"name": "cloud", "cloudName": "openstack"}, "reuse": {}, "orphans": {},
            "floatingIPNetwork": {"filter": {"name": "public"}}
        });
        let made = ns.dry_run(Manifest::new(Kind::Pool, json!({"metadata": {"name": "p"}, "spec": spec}))).await;
        let made = made.expect("a small pool is accepted");
        assert_eq!(
            made.data["spec"],
            json!({
                "identityRef": {"type": "Secret", "name": "cloud", "cloudName": "openstack"},
                "floatingIPNetwork": {"filter": {"name": "public"}},
                "minFree": 0,
                "reclaimPolicy": "Delete",
                "reuseGracePeriodSeconds": 0,
                "reuse": {"policy": "Unmarked", "minIdleSeconds": 300},
                "orphans": {"policy": "Release", "graceSeconds": 3600}
            })
        );
    })
    .await;
}

#[tokio::test]
async fn null_means_the_same_as_a_field_that_is_not_there() {
    with_namespace(async |ns| {
        let mut nulls = pool("p").list(["203.0.113.10"]);
        for field in ["floatingIPNetwork", "maxIPs", "reclaimPolicy", "reuse", "orphans"] {
            nulls = nulls.with(field, Value::Null);
        }
        let made = ns.dry_run(nulls).await.expect("nulls are accepted");
        assert_eq!(made.data["spec"]["reclaimPolicy"], "Delete");
        let closed = ns.dry_run(pool("p").list(["203.0.113.10"]).with("floatingIPNetwork", Value::Null).min_free(1));
        assert!(refusal(closed.await).contains("minFree needs a floatingIPNetwork"));
        let unlimited = pool("p").network("public").with("maxIPs", Value::Null).min_free(1);
        ns.dry_run(unlimited).await.expect("null is no limit");
        let both = json!({"id": null, "filter": {"name": "public", "description": null}});
        ns.dry_run(pool("p").with("floatingIPNetwork", both)).await.expect("a filter and no id");
        let neither = json!({"id": null, "filter": null});
        assert!(refusal(ns.dry_run(pool("p").with("floatingIPNetwork", neither)).await).contains("exactly one"));
    })
    .await;
}

#[tokio::test]
async fn pool_id_is_neither_changed_nor_added_nor_removed() {
    with_namespace(async |ns| {
        ns.create(unserved("with").network("public").pool_id("prod-1")).await;
        ns.create(unserved("without").network("public")).await;
        let changed = change(ns, "with", json!({"poolID": "prod-2"})).await;
        assert!(refusal(changed).contains("spec.poolID: Invalid value: \"prod-2\": poolID cannot be changed"));
        let removed = change(ns, "with", json!({"poolID": null})).await;
        assert!(refusal(removed).contains("spec: Invalid value: poolID cannot be added or removed"));
        let added = change(ns, "without", json!({"poolID": "prod-2"})).await;
        assert!(refusal(added).contains("spec: Invalid value: poolID cannot be added or removed"));
        change(ns, "with", json!({"poolID": "prod-1", "maxIPs": 5})).await.expect("the rest may change");
        change(ns, "without", json!({"maxIPs": 5})).await.expect("the rest may change");
    })
    .await;
}

#[tokio::test]
async fn everything_but_the_pool_id_can_be_changed_and_taken_back() {
    with_namespace(async |ns| {
        ns.create(unserved("p").network("public")).await;
        for spec in [
            json!({"identityRef": {"name": "other", "cloudName": "other", "region": "RegionTwo"}}),
            json!({"floatingIPNetwork": {"filter": {"name": "other"}}, "subnets": [{"filter": {"name": "a"}}]}),
            json!({"preAllocatedFloatingIPs": ["203.0.113.10"], "excludedAddresses": ["203.0.113.11"]}),
            json!({"reservations": [{"claim": "a", "address": "203.0.113.12"}]}),
            json!({"reclaimPolicy": "Retain", "maxIPs": 1, "minFree": 1, "reuseGracePeriodSeconds": 60}),
            json!({"reuse": {"policy": "Tagged", "tags": ["a"]}, "orphans": {"policy": "Report"}}),
        ] {
            let back = spec.as_object().into_iter().flatten().map(|(field, _)| (field.clone(), Value::Null));
            let back: Value = back.filter(|(field, _)| field != "identityRef").collect();
            change(ns, "p", spec).await.expect("a pool can be changed");
            change(ns, "p", back).await.expect("a change can be reverted");
        }
    })
    .await;
}

#[tokio::test]
async fn pool_of_capo_is_taken_with_another_api_version() {
    // As CAPO's API server stores it, so with the default that CAPO's CRD writes into `identityRef`.
    let capo = "
apiVersion: infrastructure.cluster.x-k8s.io/v1alpha1
kind: OpenStackFloatingIPPool
metadata: {name: public}
spec:
  identityRef: {type: Secret, name: cloud, cloudName: openstack, region: RegionOne}
  preAllocatedFloatingIPs: [203.0.113.10, 203.0.113.11]
  maxIPs: 10
  floatingIPNetwork:
    filter: {name: public, description: outside, projectID: 0b1c, tags: [a], tagsAny: [b], notTags: [c], notTagsAny: [d]}
  reclaimPolicy: Retain
";
    with_namespace(async |ns| {
        let ours = capo.replace("infrastructure.cluster.x-k8s.io/v1alpha1", "ipam.cluster.x-k8s.io/v1alpha1");
        let mut object: Value = serde_saphyr::from_str(&ours).expect("the manifest is YAML");
        let mut spec = object["spec"].clone();
        spec.as_object_mut()
            .expect("an object")
            .extend([("minFree".to_owned(), json!(0)), ("reuseGracePeriodSeconds".to_owned(), json!(0))]);
        // Server-side apply refuses fields that the schema does not have, as `kubectl apply` does.
        let made = apply_strictly(ns, &object).await.expect("CAPO's pool is accepted");
        assert_eq!(made["spec"], spec, "and nothing of it is dropped, and only defaults are added");
        object["spec"]["floatingIPNetwork"] = json!({"id": "b146e3b3-b18e-4467-b997-c4d16ef37365"});
        apply_strictly(ns, &object).await.expect("CAPO's pool with an id is accepted");
        object["spec"]["availableIPs"] = json!([]);
        assert!(refusal(apply_strictly(ns, &object).await).contains("availableIPs"), "strict means strict");
    })
    .await;
}

async fn apply_strictly(ns: &Namespace, object: &Value) -> Result<Value, kube::Error> {
    let how = PatchParams::apply("kubectl").force().dry_run().validation_strict();
    let made = ns.api(Kind::Pool).patch("public", &how, &Patch::Apply(object)).await?;
    Ok(made.data)
}

async fn change(ns: &Namespace, name: &str, spec: Value) -> Result<(), kube::Error> {
    let change = Patch::Merge(json!({"spec": spec}));
    ns.api(Kind::Pool).patch(name, &PatchParams::default(), &change).await.map(drop)
}

fn refusal<T>(answer: Result<T, kube::Error>) -> String {
    match answer {
        Ok(_) => panic!("it is accepted"),
        Err(kube::Error::Api(status)) => status.message.clone(),
        Err(error) => error.to_string(),
    }
}
