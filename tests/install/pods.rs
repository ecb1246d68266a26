//! The pods that the Deployments would make, in a namespace that admits only what keeps to the pod security level
//! `restricted`. There is no controller for Deployments here, so they are made from the template.

use serde_json::{Value, json};

use super::programs::{kustomize, one, render, said};
use super::scratch::Scratch;

fn pod(scratch: &Scratch, name: &str, objects: &[Value]) -> Value {
    let mut pod = one(objects, "Deployment", None)["spec"]["template"].clone();
    pod["apiVersion"] = json!("v1");
    pod["kind"] = json!("Pod");
    pod["metadata"]["name"] = json!(name);
    pod["metadata"]["namespace"] = json!(scratch.name);
    pod
}

async fn scratch_with_account() -> Scratch {
    let scratch = Scratch::new().await;
    let mut account = one(&render(&json!({})), "ServiceAccount", None).clone();
    account["metadata"]["namespace"] = json!(scratch.name);
    scratch.create(&account);
    scratch
}

#[tokio::test]
async fn pods_are_admitted_where_the_level_restricted_is_enforced() {
    let scratch = scratch_with_account().await;
    let mut pods = ["default", "namespaced", "plain-metrics", "prometheus"]
        .map(|overlay| pod(&scratch, overlay, &kustomize(overlay)))
        .to_vec();
    let more = json!({
        "priorityClassName": "system-cluster-critical", "replicaCount": 3, "imagePullSecrets": [{"name": "registry"}],
        "extraVolumes": [{"name": "ca", "secret": {"secretName": "ca"}}],
        "extraVolumeMounts": [{"name": "ca", "mountPath": "/etc/ssl/certs", "readOnly": true}],
        "extraEnv": [{"name": "NO_PROXY", "value": "10.0.0.0/8"}], "podLabels": {"a": "b"},
        "hostAliases": [{"ip": "192.0.2.10", "hostnames": ["keystone.example.com"]}],
        "dnsPolicy": "None", "dnsConfig": {"nameservers": ["192.0.2.53"], "options": [{"name": "ndots", "value": "1"}]},
        "livenessProbe": {"initialDelaySeconds": 5, "failureThreshold": 5}, "readinessProbe": {"timeoutSeconds": 2}
    });
    let cases = [json!({}), json!({"watchNamespace": "default"}), json!({"metrics": {"enabled": false}}), more];
    for (number, values) in cases.iter().enumerate() {
        pods.push(pod(&scratch, &format!("case-{number}"), &render(values)));
    }
    scratch.dry_run(&pods).unwrap_or_else(|error| panic!("{error}"));
}

#[tokio::test]
async fn pods_have_a_token_although_their_account_mounts_none() {
    let scratch = scratch_with_account().await;
    let create = ["create", "--dry-run=server", "--output", "json", "--filename", "-"];
    let pod = pod(&scratch, "one", &render(&json!({})));
    let made = said(&mut scratch.run("kubectl", &create), &pod.to_string());
    let made: Value = serde_json::from_str(&made).expect("kubectl writes JSON");
    let token = &made["spec"]["volumes"][0]["projected"]["sources"][0]["serviceAccountToken"];
    assert!(token["expirationSeconds"].is_u64(), "{made}");
}

#[tokio::test]
async fn pods_that_could_become_root_are_refused_there() {
    let scratch = scratch_with_account().await;
    let weak = json!({"securityContext": {"allowPrivilegeEscalation": true}});
    let said = scratch.dry_run(&[pod(&scratch, "weak", &render(&weak))]).expect_err("the level is enforced");
    assert!(said.contains(r#"violates PodSecurity "restricted:latest""#), "{said}");
}
