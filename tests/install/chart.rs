//! What the chart makes of its values.

use serde_json::{Value, json};

use super::content::{assert_same, content, flags};
use super::programs::{CHART, NAME, SYSTEM, documents, has, one, program, render, run, try_render};
use crate::support::CRD_YAML;

fn container(values: &Value) -> Value {
    one(&render(values), "Deployment", None)["spec"]["template"]["spec"]["containers"][0].clone()
}

fn rules(object: &Value) -> Vec<Value> {
    object["rules"].as_array().expect("a role has rules").clone()
}

/// The rules of config/rbac/role.yaml: those of its ClusterRole.
fn written() -> Vec<Value> {
    rules(one(&documents(include_str!("../../config/rbac/role.yaml")), "ClusterRole", None))
}

#[test]
fn version_of_the_chart_is_the_programs() {
    let chart: Value = serde_saphyr::from_str(include_str!("../../config/chart/Chart.yaml")).expect("it is YAML");
    assert_eq!(chart["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(chart["appVersion"], format!("v{}", env!("CARGO_PKG_VERSION")));
}

#[test]
fn a_kubernetes_that_cannot_serve_the_crd_is_refused() {
    let template = |version| run(&mut program("helm", &["template", NAME, CHART, "--kube-version", version]), "");
    for version in ["v1.31.0", "v1.31.4-gke.1200"] {
        template(version).unwrap_or_else(|error| panic!("{version}: {error}"));
    }
    let refused = template("v1.30.9").expect_err("Kubernetes 1.30 is refused");
    assert!(refused.contains("requires kubeVersion: >=1.31.0-0"), "{refused}");
}

#[test]
fn crd_of_the_chart_is_the_generated_one_and_kept_unless_told_otherwise() {
    let mut generated = content(documents(CRD_YAML));
    let keep = |objects: &[Value]| {
        one(objects, "CustomResourceDefinition", None)["metadata"]["annotations"]["helm.sh/resource-policy"].clone()
    };
    let objects = render(&json!({}));
    assert_eq!(keep(&objects), "keep");
    let labels = &one(&objects, "CustomResourceDefinition", None)["metadata"]["labels"];
    for label in ["clusterctl.cluster.x-k8s.io", "clusterctl.cluster.x-k8s.io/move-hierarchy"] {
        assert_eq!(labels[label], "", "clusterctl move leaves pools behind without {label}");
    }
    generated.values_mut().for_each(|crd| {
        crd["metadata"]["labels"]["cluster.x-k8s.io/provider"] = json!("ipam-openstack");
    });
    let mut made = content(objects);
    made.retain(|name, _| generated.contains_key(name));
    assert_same(&made, &generated);
    assert_eq!(keep(&render(&json!({"crds": {"keep": false}}))), Value::Null);
    assert!(!has(&render(&json!({"crds": {"enabled": false}})), "CustomResourceDefinition"));
}

#[test]
fn roles_alone_are_made_for_one_namespace() {
    let plain = render(&json!({"watchNamespace": "team-a", "metrics": {"secure": false}}));
    assert!(!has(&plain, "ClusterRole") && !has(&plain, "ClusterRoleBinding"));
    let role = one(&plain, "Role", Some("caip-openstack"));
    let binding = one(&plain, "RoleBinding", Some("caip-openstack"));
    assert_eq!([&role["metadata"]["namespace"], &binding["metadata"]["namespace"]], ["team-a", "team-a"]);
    assert_eq!(binding["subjects"][0]["namespace"], "caip-openstack-system");
    assert_eq!(binding["roleRef"]["kind"], "Role");

    // Who may read the metrics is asked of the whole cluster, and that is all there is for it.
    let secure = render(&json!({"watchNamespace": "team-a"}));
    let reviews = one(&secure, "ClusterRole", Some("caip-openstack-metrics"));
    assert_eq!(one(&secure, "Role", Some("caip-openstack")), role);
    assert_eq!([rules(role), rules(reviews)].concat(), written());
}

#[test]
fn permissions_for_metrics_are_made_where_they_are_asked_for() {
    let cluster_role = |values: Value| rules(one(&render(&values), "ClusterRole", Some("caip-openstack")));
    assert_eq!(cluster_role(json!({})), written());
    let without = cluster_role(json!({"metrics": {"secure": false}}));
    assert_eq!(cluster_role(json!({"metrics": {"enabled": false}})), without);
    let left_out: Vec<_> = written().into_iter().filter(|rule| !without.contains(rule)).collect();
    assert_eq!(left_out.len(), 2, "{left_out:?}");

    let readers = render(&json!({"metrics": {"readers": [{"name": "prometheus", "namespace": "monitoring"}]}}));
    let role = one(&readers, "ClusterRole", Some("caip-openstack-metrics-reader"));
    assert_eq!(rules(role), [json!({"nonResourceURLs": ["/metrics"], "verbs": ["get"]})]);
    let binding = one(&readers, "ClusterRoleBinding", Some("caip-openstack-metrics-reader"));
    let prometheus = json!({"kind": "ServiceAccount", "name": "prometheus", "namespace": "monitoring"});
    assert_eq!(binding["subjects"], json!([prometheus]));
    assert!(!has(&render(&json!({"rbac": {"create": false}})), "ClusterRole"));
}

#[test]
fn cluster_identities_are_granted_where_they_are_switched_on_and_no_more_than_reading() {
    let identities = |values: Value| {
        let name = |object: &Value| object["metadata"]["name"].as_str().map(str::to_owned);
        let mut objects = render(&values);
        objects.retain(|object| name(object).is_some_and(|name| name.ends_with("-cluster-identities")));
        objects
    };
    for off in [json!({}), json!({"watchNamespace": "team-a"}), json!({"clusterIdentities": {"secretNamespaces": []}})]
    {
        assert_eq!(identities(off.clone()), Vec::<Value>::new(), "{off}");
        assert!(flags(&container(&off)["args"]).cluster_identity_namespaces.is_empty());
    }
    let written =
        rules(one(&documents(include_str!("../../config/cluster-identities/role.yaml")), "ClusterRole", None));
    assert!(written.iter().all(|rule| rule["verbs"] == json!(["get"])), "{written:?}");

    let mut values = json!({"clusterIdentities": {"secretNamespaces": ["capo-system", "team-a"]}});
    assert_eq!(Ok(flags(&container(&values)["args"]).cluster_identity_namespaces), "capo-system,team-a".parse());
    let everywhere = identities(values.clone());
    assert_eq!(rules(one(&everywhere, "ClusterRole", None)), written);
    assert!(!has(&everywhere, "Role"), "the controller reads the Secrets of all namespaces as it is");

    // For one namespace: the labels of that alone, and Secrets only where they are expected.
    values["watchNamespace"] = "team-a".into();
    let one_namespace = identities(values.clone());
    let mut narrowed = written;
    narrowed[1]["resourceNames"] = json!(["team-a"]);
    assert_eq!(rules(one(&one_namespace, "ClusterRole", None)), narrowed);
    let secrets = one(&one_namespace, "Role", None);
    assert_eq!(secrets["metadata"]["namespace"], "capo-system");
    assert_eq!(rules(secrets), [json!({"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]})]);
    assert_eq!(one(&one_namespace, "RoleBinding", None)["metadata"]["namespace"], "capo-system");
    values["rbac"] = json!({"create": false});
    assert_eq!(identities(values), Vec::<Value>::new());
}

#[test]
fn config_maps_are_granted_where_they_are_switched_on_and_by_name_alone() {
    let granted = |values: Value| {
        let mut objects = render(&values);
        objects.retain(|object| {
            object["metadata"]["name"].as_str().is_some_and(|it| it.ends_with("-address-config-maps"))
        });
        objects
    };
    for off in [json!({}), json!({"watchNamespace": "team-a"}), json!({"addressConfigMaps": {"enabled": false}})] {
        assert_eq!(granted(off.clone()), Vec::<Value>::new(), "{off}");
        assert!(!flags(&container(&off)["args"]).address_config_maps);
    }
    let written =
        rules(one(&documents(include_str!("../../config/address-config-maps/role.yaml")), "ClusterRole", None));
    let verbs = json!(["get", "create", "patch", "delete"]);
    assert_eq!(written, [json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": verbs})]);

    let mut values = json!({"addressConfigMaps": {"enabled": true}});
    assert!(flags(&container(&values)["args"]).address_config_maps);
    let everywhere = granted(values.clone());
    assert_eq!(rules(one(&everywhere, "ClusterRole", None)), written);
    assert_eq!(one(&everywhere, "ClusterRoleBinding", None)["subjects"][0]["namespace"], "caip-openstack-system");

    values["watchNamespace"] = "team-a".into();
    let one_namespace = granted(values.clone());
    assert!(!has(&one_namespace, "ClusterRole") && !has(&one_namespace, "ClusterRoleBinding"));
    let (role, binding) = (one(&one_namespace, "Role", None), one(&one_namespace, "RoleBinding", None));
    assert_eq!([&role["metadata"]["namespace"], &binding["metadata"]["namespace"]], ["team-a", "team-a"]);
    assert_eq!((rules(role), &binding["roleRef"]["kind"]), (written, &json!("Role")));
    values["rbac"] = json!({"create": false});
    assert_eq!(granted(values), Vec::<Value>::new());
}

#[test]
fn pools_are_added_to_the_roles_of_users_unless_told_otherwise() {
    let labels = |values: Value| {
        let objects = render(&values);
        ["caip-openstack-view", "caip-openstack-edit"].map(|role| {
            let labels = &one(&objects, "ClusterRole", Some(role))["metadata"]["labels"];
            ["view", "edit", "admin"].map(|to| labels[format!("rbac.authorization.k8s.io/aggregate-to-{to}")] == "true")
        })
    };
    assert_eq!(labels(json!({})), [[true; 3], [false, true, true]]);
    assert_eq!(labels(json!({"rbac": {"aggregateClusterRoles": false}})), [[false; 3]; 2]);
}

#[test]
fn two_releases_share_no_name_and_no_lease() {
    let names = |release: &str| {
        let objects = try_render(release, "shared", &json!({"crds": {"enabled": false}})).expect("it renders");
        let args = &one(&objects, "Deployment", None)["spec"]["template"]["spec"]["containers"][0]["args"];
        let lease = flags(args).leader_election_id;
        let names: Vec<_> = objects.iter().map(|object| object["metadata"]["name"].clone()).collect();
        (lease, names)
    };
    let (blue, green) = (names("blue"), names("green"));
    assert_ne!(blue.0, green.0);
    assert!(blue.1.iter().all(|name| !green.1.contains(name)), "{blue:?} {green:?}");
}

#[test]
fn values_become_flags() {
    let container = container(&json!({
        "watchNamespace": "team-a", "watchFilter": "blue", "openstackConcurrency": 3,
        "logging": {"format": "text", "verbosity": 4}, "metrics": {"port": 9090, "secure": false},
        "openstackHosts": ["*.example.com", "10.0.0.0/8"], "extraArgs": ["--openstack-concurrency=4"]
    }));
    let flags = flags(&container["args"]);
    assert_eq!(flags.watched_namespace().as_deref(), Some("team-a"));
    assert_eq!(flags.watched_label().as_deref(), Some("blue"));
    assert_eq!(flags.openstack_concurrency.get(), 4, "the last of two wins");
    assert_eq!(Ok(flags.openstack_hosts), "*.example.com,10.0.0.0/8".parse());
    assert_eq!(flags.verbosity, 4);
    assert_eq!(format!("{:?}", flags.logging_format), "Text");
    assert_eq!(format!("{:?}", flags.diagnostics_address), "Some(AnyHost(9090))");
    assert!(flags.insecure_diagnostics && flags.leader_elect);
    assert_eq!(container["ports"][1]["containerPort"], 9090);
}

#[test]
fn image_is_named_by_its_digest_its_tag_or_the_charts_version() {
    let image = |image: Value| container(&json!({"image": image}))["image"].clone();
    let digest = format!("sha256:{}", "0".repeat(64));
    assert_eq!(image(json!({})), format!("caip-openstack:v{}", env!("CARGO_PKG_VERSION")));
    assert_eq!(image(json!({"repository": "r.example.com/x", "tag": "edge"})), "r.example.com/x:edge");
    assert_eq!(image(json!({"tag": "edge", "digest": digest})), format!("caip-openstack@{digest}"));
    let team = json!({"registry": "r.example.com", "repository": "team/x", "tag": "edge"});
    assert_eq!(image(team.clone()), "r.example.com/team/x:edge");
    let mirrored = container(&json!({"image": team, "global": {"imageRegistry": "mirror.example.com/r"}}));
    assert_eq!(mirrored["image"], "mirror.example.com/r/team/x:edge");
}

#[test]
fn values_become_fields_of_the_pods() {
    let values = json!({
        "runtimeClassName": "gvisor", "dnsPolicy": "None", "dnsConfig": {"nameservers": ["192.0.2.53"]},
        "hostAliases": [{"ip": "192.0.2.10", "hostnames": ["keystone.example.com"]}], "revisionHistoryLimit": 3,
        "livenessProbe": {"periodSeconds": 20, "failureThreshold": 5}, "readinessProbe": {"timeoutSeconds": 2},
        "extraContainers": [{"name": "proxy", "image": "proxy:v1"}],
        "imagePullSecrets": [{"name": "own"}], "global": {"imagePullSecrets": [{"name": "shared"}]}
    });
    let objects = render(&values);
    let deployment = &one(&objects, "Deployment", None)["spec"];
    let pod = &deployment["template"]["spec"];
    for name in ["runtimeClassName", "dnsPolicy", "dnsConfig", "hostAliases"] {
        assert_eq!(pod[name], values[name], "{name}");
    }
    assert_eq!(deployment["revisionHistoryLimit"], 3);
    assert_eq!(pod["imagePullSecrets"], json!([{"name": "shared"}, {"name": "own"}]));
    let containers = &pod["containers"];
    assert_eq!([&containers[0]["name"], &containers[1]], [&json!("manager"), &values["extraContainers"][0]]);
    let healthz = json!({"path": "/healthz", "port": "healthz"});
    let liveness = json!({"httpGet": healthz, "periodSeconds": 20, "failureThreshold": 5});
    let readiness = json!({"httpGet": {"path": "/readyz", "port": "healthz"}, "timeoutSeconds": 2});
    assert_eq!([&containers[0]["livenessProbe"], &containers[0]["readinessProbe"]], [&liveness, &readiness]);
}

#[test]
fn account_mounts_tokens_only_where_it_is_told_to() {
    for mounts in [false, true] {
        let objects = render(&json!({"serviceAccount": {"automountServiceAccountToken": mounts}}));
        assert_eq!(one(&objects, "ServiceAccount", None)["automountServiceAccountToken"], mounts);
    }
    assert_eq!(one(&render(&json!({})), "ServiceAccount", None)["automountServiceAccountToken"], false);
}

#[test]
fn extra_objects_are_rendered_for_the_release() {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "one", "namespace": "{{ .Release.Namespace }}"}});
    let text = "{apiVersion: v1, kind: ConfigMap, metadata: {name: {{ include \"caip-openstack.fullname\" . }}-two}}";
    let objects = render(&json!({"extraObjects": [object, text]}));
    assert_eq!(one(&objects, "ConfigMap", Some("one"))["metadata"]["namespace"], SYSTEM);
    one(&objects, "ConfigMap", Some("caip-openstack-two"));
}

#[test]
fn spread_pods_are_those_of_the_release() {
    let spread = |values: Value| {
        one(&render(&values), "Deployment", None)["spec"]["template"]["spec"]["topologySpreadConstraints"].clone()
    };
    let selector = one(&render(&json!({})), "Deployment", None)["spec"]["selector"].clone();
    assert_eq!(spread(json!({}))[0]["labelSelector"], selector);
    let own = json!([{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"own": "one"}}}]);
    assert_eq!(spread(json!({"topologySpreadConstraints": own})), own);
    assert_eq!(spread(json!({"topologySpreadConstraints": []})), Value::Null);
}

#[test]
fn monitors_scrape_as_the_metrics_are_served() {
    let options = json!({"enabled": true, "interval": "30s", "labels": {"release": "prometheus"}});
    let monitored = render(&json!({"metrics": {"serviceMonitor": options}}));
    let monitor = one(&monitored, "ServiceMonitor", None);
    let endpoint = &monitor["spec"]["endpoints"][0];
    assert_eq!([&endpoint["scheme"], &endpoint["interval"], &endpoint["port"]], ["https", "30s", "metrics"]);
    assert_eq!(endpoint["bearerTokenFile"], "/var/run/secrets/kubernetes.io/serviceaccount/token");
    assert_eq!(endpoint["honorLabels"], true, "alerts and dashboard ask for the pool's namespace");
    assert_eq!(monitor["metadata"]["labels"]["release"], "prometheus");
    let service = &one(&monitored, "Service", None)["metadata"]["labels"];
    for (label, value) in monitor["spec"]["selector"]["matchLabels"].as_object().expect("it selects by labels") {
        assert_eq!(&service[label], value, "the Service is found");
    }

    let token = json!({"name": "prometheus-token", "key": "token"});
    let options = json!({"enabled": true, "tokenSecret": token});
    let monitored = render(&json!({"metrics": {"podMonitor": options}}));
    let endpoint = &one(&monitored, "PodMonitor", None)["spec"]["podMetricsEndpoints"][0];
    assert_eq!(endpoint["authorization"], json!({"type": "Bearer", "credentials": token}));
    assert_eq!(endpoint["tlsConfig"], json!({"insecureSkipVerify": true}));

    let plain = render(&json!({"metrics": {"secure": false, "podMonitor": {"enabled": true}}}));
    let endpoint = &one(&plain, "PodMonitor", None)["spec"]["podMetricsEndpoints"][0];
    assert_eq!(endpoint, &json!({"port": "metrics", "path": "/metrics", "honorLabels": true}));
}

/// Prometheus and Grafana are often limited to objects of their own namespace.
#[test]
fn what_prometheus_and_grafana_read_can_be_in_their_namespace() {
    let there = json!({"enabled": true, "namespace": "monitoring"});
    let here = json!({"enabled": true});
    for (options, namespace) in [(&there, "monitoring"), (&here, SYSTEM)] {
        let pod_monitor = json!({"metrics": {"secure": false, "podMonitor": options}});
        let others = json!({"metrics": {"serviceMonitor": options},
            "monitoring": {"prometheusRule": options, "dashboard": options}});
        let objects = [render(&pod_monitor), render(&others)].concat();
        for kind in ["ServiceMonitor", "PodMonitor", "PrometheusRule", "ConfigMap"] {
            assert_eq!(one(&objects, kind, None)["metadata"]["namespace"], namespace, "{kind}");
        }
        for kind in ["ServiceMonitor", "PodMonitor"] {
            let selected = &one(&objects, kind, None)["spec"]["namespaceSelector"];
            let expected = if namespace == SYSTEM { Value::Null } else { json!({"matchNames": [SYSTEM]}) };
            assert_eq!(*selected, expected, "{kind}");
        }
    }
}
