use super::super::facts::User;
use super::*;

fn pool(spec: Value, status: Value) -> Value {
    json!({"metadata": {"name": "public"}, "spec": spec, "status": status})
}

fn spec() -> Value {
    json!({
        "identityRef": {"type": "Secret", "name": "cloud", "cloudName": "openstack"}, "reclaimPolicy": "Delete",
        "floatingIPNetwork": {"filter": {"name": "public"}}, "maxIPs": 3
    })
}

fn facts(spec: Value) -> Facts {
    Facts { namespace: "team".into(), pool: pool(spec, json!({})), has_secret: Some(true), ..Facts::default() }
}

fn workers(is_generated: bool) -> Template {
    let reference = json!({"apiGroup": CAPO_GROUP, "kind": POOL_KIND, "name": "public"});
    let object = json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "OpenStackMachineTemplate",
        "metadata": {"name": "workers", "uid": "u", "resourceVersion": "7", "labels": {"team": "a"}},
        "spec": {"template": {"spec": {"flavor": "m1", "floatingIPPoolRef": reference}}}
    });
    Template { object, successor: None, is_generated }
}

#[test]
fn fields_that_mean_the_same_are_taken_over_and_nothing_is_reused_that_capo_would_not() {
    let plan = make(&facts(spec()), "public", "public-ipam");
    let mut wanted = spec();
    wanted["reuse"] = json!({"policy": "Never"});
    assert_eq!(plan.objects[0].manifest["spec"], wanted);
    assert_eq!(plan.objects[0].manifest["apiVersion"], "ipam.cluster.x-k8s.io/v1alpha1");
    assert!(plan.obstacles.is_empty(), "{:?}", plan.obstacles);
}

#[test]
fn a_template_is_copied_under_another_name_with_nothing_of_the_old_ones_identity() {
    let mut facts = facts(spec());
    facts.templates.push(workers(false));
    let plan = make(&facts, "public", "public-ipam");
    let template = &plan.objects[1].manifest;
    let reference = json!({"apiGroup": GROUP, "kind": POOL_KIND, "name": "public-ipam"});
    assert_eq!(template["spec"]["template"]["spec"], json!({"flavor": "m1", "floatingIPPoolRef": reference}));
    assert_eq!(template["metadata"], json!({"name": "workers-ipam", "namespace": "team", "labels": {"team": "a"}}));
}

#[test]
fn a_template_of_a_cluster_class_is_left_to_the_class() {
    let mut facts = facts(spec());
    facts.templates.push(workers(true));
    let plan = make(&facts, "public", "public-ipam");
    assert_eq!(plan.objects.len(), 1);
    assert!(plan.remarks.iter().any(|remark| remark.contains("ClusterClass")), "{:?}", plan.remarks);
}

#[test]
fn what_stands_in_the_way_is_named() {
    let stands = |facts: &Facts, to: &str, part: &str| {
        let obstacles = make(facts, "public", to).obstacles;
        assert!(obstacles.iter().any(|obstacle| obstacle.contains(part)), "{part}: {obstacles:?}");
    };
    stands(&facts(spec()), "public", "--to");
    stands(&Facts { has_secret: Some(false), ..facts(spec()) }, "new", "Secret cloud");
    let mut identity = spec();
    identity["identityRef"]["type"] = "ClusterIdentity".into();
    stands(&facts(identity), "new", "spec.identityRef.type");
    let other = json!({"spec": {"maxIPs": 4}});
    stands(&Facts { our_pool: Some(other), ..facts(spec()) }, "new", "is another one");
    let mut going = facts(spec());
    going.pool["metadata"]["deletionTimestamp"] = "2026-11-21T09:00:00Z".into();
    stands(&going, "new", "being deleted");
}

#[test]
fn what_was_created_before_is_unchanged_whatever_the_server_added() {
    let mut there = make(&facts(spec()), "public", "new").objects[0].manifest.clone();
    there["spec"]["reuse"]["minIdleSeconds"] = 300.into();
    there["spec"]["preallocate"] = 0.into();
    let plan = make(&Facts { our_pool: Some(there), ..facts(spec()) }, "public", "new");
    assert_eq!(plan.objects[0].state, State::Unchanged);
    assert!(plan.obstacles.is_empty(), "{:?}", plan.obstacles);
}

#[test]
fn a_list_without_a_network_goes_on_with_the_network_that_capo_found() {
    let mut listed = spec();
    listed["preAllocatedFloatingIPs"] = json!(["203.0.113.1", "203.0.113.2", "203.0.113.1"]);
    listed.as_object_mut().expect("an object").remove("floatingIPNetwork");
    let made = |status: Value| {
        let mut facts = facts(listed.clone());
        facts.pool["status"] = status;
        make(&facts, "public", "new")
    };
    let plan = made(json!({"floatingIPNetwork": {"id": "net"}}));
    assert_eq!(plan.objects[0].manifest["spec"]["floatingIPNetwork"], json!({"id": "net"}));
    assert_eq!(plan.objects[0].manifest["spec"]["preAllocatedFloatingIPs"], json!(["203.0.113.1", "203.0.113.2"]));
    assert!(made(json!({})).remarks.iter().any(|remark| remark.contains("names no floatingIPNetwork")));
}

#[test]
fn each_machine_is_told_what_becomes_of_its_address() {
    let claim = |address: Option<&str>| Claim {
        name: "web-floating-ip-address".into(),
        address: address.map(str::to_owned),
        cluster: None,
        owner: Some("OpenStackServer web".into()),
    };
    let mut listed = spec();
    listed["preAllocatedFloatingIPs"] = json!(["203.0.113.1"]);
    let change = |spec: &Value, address| machine(&claim(address), &facts(spec.clone())).change;
    assert!(change(&listed, Some("203.0.113.1")).contains("free for our pool"));
    assert!(change(&listed, Some("203.0.113.9")).contains("CAPO deletes"));
    let mut retained = spec();
    retained["reclaimPolicy"] = "Retain".into();
    assert!(change(&retained, Some("203.0.113.9")).contains("retains"));
    assert!(change(&listed, None).contains("waits"));
    assert_eq!(machine(&claim(None), &facts(spec())).machine, "OpenStackServer web");
}

#[test]
fn free_addresses_that_go_with_capos_pool_are_named() {
    let mut facts = facts(spec());
    facts.pool["spec"]["preAllocatedFloatingIPs"] = json!(["203.0.113.1"]);
    facts.pool["status"] = json!({"availableIPs": ["203.0.113.1", "203.0.113.7"]});
    let remarks = make(&facts, "public", "new").remarks;
    let said = remarks.iter().find(|remark| remark.contains("CAPO deletes")).expect("it is told");
    assert!(said.contains("203.0.113.7") && !said.contains("203.0.113.1;"), "{said}");
}

#[test]
fn the_owners_of_templates_are_switched_by_a_person() {
    let user = |name: &str, template: &str, is_generated| User {
        resource: "machinedeployments.cluster.x-k8s.io",
        name: name.into(),
        template: template.into(),
        path: "/spec/template/spec/infrastructureRef/name",
        is_generated,
    };
    let mut facts = facts(spec());
    facts.templates.push(workers(false));
    facts.users = vec![user("md", "workers", false), user("unrelated", "else", false), user("classy", "workers", true)];
    let then = make(&facts, "public", "new").then.join("\n");
    let patch = r#"patch machinedeployments.cluster.x-k8s.io md --type merge -p '{"spec":{"template":{"spec":{"infrastructureRef":{"name":"workers-ipam"}}}}}'"#;
    assert!(then.contains(patch), "{then}");
    assert!(!then.contains("unrelated") && !then.contains("classy"), "{then}");
}
