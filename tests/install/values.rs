//! The chart's values: what is wrong is refused and named, what is right is taken by the API server.

use serde_json::{Value, json};

use super::content::flags;
use super::programs::{CHART, NAME, SYSTEM, has, one, program, render, said, try_render};
use super::scratch::Scratch;

/// What helm says to values that it refuses.
fn refusal(values: &Value) -> String {
    try_render(NAME, SYSTEM, values).expect_err(&format!("{values} is taken"))
}

fn defaults() -> Value {
    serde_saphyr::from_str(include_str!("../../config/chart/values.yaml")).expect("values.yaml is YAML")
}

/// Groups of values are maps with keys; every other value is one that users set.
fn for_each(values: &mut Value, path: &str, change: &mut impl FnMut(&str, &mut Value)) {
    let Some(fields) = values.as_object_mut().filter(|_| is_group(path)) else { return change(path, values) };
    for (name, value) in fields {
        for_each(value, &format!("{path}/{name}"), change);
    }
}

/// A key without a comment above it, as `hack/chart-values.awk` has it.
fn is_group(path: &str) -> bool {
    let row = format!("| `{}` |", path.trim_start_matches('/').replace('/', "."));
    !include_str!("../../docs/install.md").contains(&row)
}

#[test]
fn every_value_of_a_wrong_type_is_refused_by_its_name() {
    let (mut values, mut paths) = (defaults(), Vec::new());
    for_each(&mut values, "", &mut |path, value| {
        paths.push(path.to_owned());
        *value = if value.is_string() { json!(7) } else { json!("?!") };
    });
    assert!(paths.len() > 50, "the values are found: {paths:?}");
    let said = refusal(&values);
    let unnamed: Vec<_> = paths.iter().filter(|path| !said.contains(&format!("- at '{path}': "))).collect();
    assert!(unnamed.is_empty(), "{unnamed:?} not in {said}");
}

#[test]
fn a_value_that_does_not_exist_is_refused_by_its_name() {
    for values in [
        json!({"replica": 3}),
        json!({"image": {"name": "x"}}),
        json!({"metrics": {"service": {"port": 1}}}),
        json!({"metrics": {"podMonitor": {"tokenSecret": {"secret": "x"}}}}),
        json!({"resources": {"request": {}}}),
        json!({"readinessProbe": {"period": 5}}),
        json!({"hostAliases": [{"ip": "192.0.2.10", "hostnames": ["a"], "name": "a"}]}),
        json!({"networkPolicy": {"ingress": []}}),
    ] {
        let said = refusal(&values);
        assert!(said.contains("additional properties '") && said.contains("' not allowed"), "{said}");
    }
}

#[test]
fn values_that_cannot_be_are_refused_and_say_what_can() {
    for (values, part) in [
        (json!({"image": {"digest": "sha256:12"}}), "at '/image/digest': 'sha256:12' does not match"),
        (json!({"image": {"registry": "r/"}}), "at '/image/registry': 'r/' does not match"),
        (json!({"image": {"repository": ""}}), "at '/image/repository': '' does not match"),
        (json!({"image": {"repository": "r/x:v1"}}), "at '/image/repository': 'r/x:v1' does not match"),
        (json!({"metrics": {"port": 80}}), "at '/metrics/port': minimum: got 80, want 1,024"),
        (json!({"metrics": {"port": 9440}}), "at '/metrics/port': 'not' failed"),
        (json!({"metrics": {"readers": [{"name": "x"}]}}), "at '/metrics/readers/0': missing property 'namespace'"),
        (json!({"logging": {"format": "xml"}}), "at '/logging/format': value must be one of 'json', 'text'"),
        (json!({"livenessProbe": {"timeoutSeconds": 0}}), "at '/livenessProbe/timeoutSeconds': minimum: got 0"),
        (json!({"hostAliases": [{"ip": "192.0.2.10"}]}), "at '/hostAliases/0': missing property 'hostnames'"),
        (json!({"hostAliases": [{"ip": "x", "hostnames": ["x"]}]}), "at '/hostAliases/0/ip': 'x' does not match"),
        (json!({"dnsPolicy": "Cluster"}), "at '/dnsPolicy': value must be one of '', 'ClusterFirst'"),
        (json!({"extraContainers": [{"name": "x"}]}), "at '/extraContainers/0': missing property 'image'"),
        (json!({"extraObjects": [{"kind": "Secret"}]}), "at '/extraObjects/0': missing property 'apiVersion'"),
        (json!({"extraArgs": ["v=1"]}), "at '/extraArgs/0': 'v=1' does not match"),
        (
            json!({"clusterIdentities": {"secretNamespaces": ["a.b"]}}),
            "at '/clusterIdentities/secretNamespaces/0': 'a.b' does not match",
        ),
        (
            json!({"clusterIdentities": {"secretNamespaces": ["*"]}, "watchNamespace": "team-a"}),
            "clusterIdentities.secretNamespaces: name the namespaces with watchNamespace",
        ),
        (json!({"addressConfigMaps": true}), "at '/addressConfigMaps': got boolean, want object"),
        (json!({"leaderElection": false}), "leaderElection: must be true with more than one replica"),
        (
            json!({"metrics": {"serviceMonitor": {"enabled": true}, "service": {"enabled": false}}}),
            "metrics.serviceMonitor.enabled: needs metrics.enabled and metrics.service.enabled",
        ),
        (
            json!({"metrics": {"podMonitor": {"enabled": true}, "enabled": false}}),
            "metrics.podMonitor.enabled: needs metrics.enabled",
        ),
        (json!({"metrics": {"podMonitor": {"enabled": true}}}), "metrics.podMonitor.tokenSecret: required if"),
        (
            json!({"metrics": {"secure": false, "podMonitor": {"enabled": true}, "serviceMonitor": {"enabled": true}}}),
            "metrics.podMonitor.enabled: enable this or metrics.serviceMonitor",
        ),
    ] {
        let said = refusal(&values);
        assert!(said.contains(part), "{values}: {said}");
    }
}

/// Values by what they are for. Together they change every value that there is.
fn cases() -> Vec<Value> {
    let monitor = json!({
        "enabled": true, "namespace": "default", "labels": {"release": "prometheus"}, "annotations": {"a": "b"},
        "tokenSecret": {"name": "prometheus-token", "key": "token"}, "interval": "30s", "scrapeTimeout": "10s",
        "relabelings": [{"action": "labeldrop", "regex": "pod"}],
        "metricRelabelings": [{"action": "labeldrop", "regex": "instance"}]
    });
    vec![
        json!({}),
        json!({"replicaCount": 1, "leaderElection": false, "metrics": {"enabled": false}, "crds": {"enabled": false}}),
        json!({"metrics": {"secure": false, "port": 9090, "service": {"enabled": false}}, "resources": {}}),
        json!({"addressConfigMaps": {"enabled": true}}),
        json!({"rbac": {"aggregateClusterRoles": false}, "clusterIdentities": {"secretNamespaces": ["*"]}}),
        json!({"watchNamespace": "default", "watchFilter": "blue", "crds": {"keep": false},
            "clusterIdentities": {"secretNamespaces": ["default", "kube-system"]}}),
        json!({"serviceAccount": {"create": false, "name": "mine"}, "rbac": {"create": false},
            "podDisruptionBudget": {"enabled": false}, "admissionPolicy": {"create": false},
            "affinity": {"nodeAffinity": {}}}),
        json!({
            "replicaCount": 3, "podDisruptionBudget": {"maxUnavailable": "50%"}, "strategy": {"type": "Recreate"},
            "revisionHistoryLimit": 3, "terminationGracePeriodSeconds": 60, "runtimeClassName": "gvisor",
            "priorityClassName": "system-cluster-critical", "podLabels": {"a": "b"}, "podAnnotations": {"c": "d"},
            "nodeSelector": {"kubernetes.io/os": "linux"}, "tolerations": [{"operator": "Exists"}],
            "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"a": "b"}}}]}},
            "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone",
                "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"own": "one"}}}],
            "resources": {"limits": {"cpu": "1", "memory": "256Mi"}},
            "podSecurityContext": {"runAsNonRoot": true}, "securityContext": {"privileged": false},
            "livenessProbe": {"initialDelaySeconds": 5, "periodSeconds": 20, "timeoutSeconds": 2,
                "failureThreshold": 5}, "readinessProbe": {"periodSeconds": 5},
            "hostAliases": [{"ip": "192.0.2.10", "hostnames": ["keystone.example.com", "neutron.example.com"]}],
            "dnsPolicy": "None", "dnsConfig": {"nameservers": ["192.0.2.53"], "searches": ["example.com"],
                "options": [{"name": "ndots", "value": "1"}]},
            "extraArgs": ["--leader-elect-lease-duration=30s"], "extraEnv": [{"name": "SSL_CERT_FILE", "value": "x"}],
            "extraContainers": [{"name": "proxy", "image": "registry.example.com/proxy:v1"}],
            "extraVolumes": [{"name": "ca", "configMap": {"name": "ca"}}],
            "extraVolumeMounts": [{"name": "ca", "mountPath": "/etc/ssl/certs", "readOnly": true}]
        }),
        json!({
            "fullnameOverride": "other", "commonLabels": {"team": "a"}, "commonAnnotations": {"note": "b"},
            "image": {"registry": "registry.example.com:5000", "repository": "fip/caip-openstack",
                "pullPolicy": "Always",
                "digest": "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"},
            "global": {"imageRegistry": "mirror.example.com", "imagePullSecrets": [{"name": "mirror"}]},
            "imagePullSecrets": [{"name": "registry"}],
            "serviceAccount": {"annotations": {"three": "e"}, "automountServiceAccountToken": true},
            "extraObjects": [{"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": "more", "namespace": "{{ .Release.Namespace }}"}}],
            "openstackConcurrency": 4, "logging": {"format": "text", "verbosity": 4},
            "metrics": {"tlsMinVersion": "VersionTLS13", "readers": [{"name": "prometheus", "namespace": "monitoring"}],
                "service": {"annotations": {"four": "f"}}},
            "networkPolicy": {"enabled": true,
                "metricsFrom": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}],
                "egress": [{"ports": [{"port": 443, "protocol": "TCP"}]}]}
        }),
        json!({"metrics": {"podMonitor": monitor}, "openstackHosts": ["*.example.com"],
            "openstackProxy": "http://proxy.example.com:3128", "openstackNoProxy": ["keystone.example.com"]}),
        json!({
            "nameOverride": "fip", "maxFloatingIPs": 100, "image": {"tag": "edge"},
            "metrics": {"serviceMonitor": monitor},
            "monitoring": {
                "prometheusRule": {"enabled": true, "namespace": "default", "labels": {"release": "prometheus"},
                    "annotations": {"a": "b"}, "alertLabels": {"team": "platform"}, "selector": "job=\"ours\"",
                    "excludePools": ["static"], "runbookURL": "https://example.com/runbooks",
                    "alerts": {"claimsWaiting": {"threshold": 300}},
                    "extraRules": [{"record": "pools", "expr": "count(caip_openstack_pool_size)"}]},
                "dashboard": {"enabled": true, "namespace": "default", "labels": {"a": "b"}, "annotations": {"c": "d"}}
            }
        }),
    ]
}

#[test]
fn every_value_is_changed_in_a_case() {
    let (cases, mut unchanged) = (cases(), Vec::new());
    for_each(&mut defaults(), "", &mut |path, default| {
        if !cases.iter().any(|case| case.pointer(path).is_some_and(|value| value != default)) {
            unchanged.push(path.to_owned());
        }
    });
    assert!(unchanged.is_empty(), "{unchanged:?}");
}

#[tokio::test]
async fn what_the_chart_makes_of_any_values_is_taken_by_the_api_server() {
    let scratch = Scratch::new().await;
    let mut all = Vec::new();
    for (number, values) in cases().into_iter().enumerate() {
        // An error names the release.
        let objects = try_render(&format!("case-{number}"), &scratch.name, &values);
        let objects = objects.unwrap_or_else(|error| panic!("{values}: {error}"));
        flags(&one(&objects, "Deployment", None)["spec"]["template"]["spec"]["containers"][0]["args"]);
        all.extend(objects);
    }
    scratch.dry_run(&all).unwrap_or_else(|error| panic!("{error}"));
    // Strictly: a field that there is not is refused.
    let mut wrong = render(&json!({}));
    wrong.retain(|object| object["kind"] == "Deployment");
    wrong[0]["metadata"]["namespace"] = json!(scratch.name);
    wrong[0]["spec"]["replica"] = json!(1);
    let said = scratch.dry_run(&wrong).expect_err("a field that there is not");
    assert!(said.contains(r#"unknown field "replica""#), "{said}");
}

#[test]
fn helm_lint_has_nothing_to_say() {
    for values in cases() {
        let said = said(&mut program("helm", &["lint", "--strict", CHART, "--values", "-"]), &values.to_string());
        assert!(said.contains("1 chart(s) linted, 0 chart(s) failed") && !said.contains("[WARNING]"), "{said}");
    }
}

#[test]
fn nothing_that_few_need_is_made_by_default() {
    let objects = render(&json!({}));
    for kind in ["ServiceMonitor", "PodMonitor", "NetworkPolicy", "PrometheusRule", "ConfigMap"] {
        assert!(!has(&objects, kind), "{kind}");
    }
    for kind in ["PodDisruptionBudget", "Service", "CustomResourceDefinition"] {
        assert!(has(&objects, kind), "{kind}");
    }
    assert!(!has(&render(&json!({"replicaCount": 1})), "PodDisruptionBudget"));
}
