use super::super::input::TemplateUser;
use super::*;
use crate::api::names::POOL_KIND;

fn pool(spec: Value, status: Value) -> Value {
    json!({"metadata": {"name": "public"}, "spec": spec, "status": status})
}

fn spec() -> Value {
    json!({
        "identityRef": {"type": "Secret", "name": "cloud", "cloudName": "openstack"}, "reclaimPolicy": "Delete",
        "floatingIPNetwork": {"filter": {"name": "public"}}, "maxIPs": 3
    })
}

fn input(spec: Value) -> MigrationInput {
    MigrationInput {
        namespace: "team".into(),
        pool: pool(spec, json!({})),
        has_secret: Some(true),
        ..MigrationInput::default()
    }
}

fn workers(is_generated: bool) -> MachineTemplate {
    let reference = json!({"apiGroup": CAPO_GROUP, "kind": POOL_KIND, "name": "public"});
    let object = json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "OpenStackMachineTemplate",
        "metadata": {"name": "workers", "uid": "u", "resourceVersion": "7", "labels": {"team": "a"}},
        "spec": {"template": {"spec": {"flavor": "m1", "floatingIPPoolRef": reference}}}
    });
    MachineTemplate { object, successor: None, is_generated }
}

#[test]
fn fields_that_mean_the_same_are_taken_over_and_nothing_is_reused_that_capo_would_not() {
    let plan = Plan::new(&input(spec()), "public", "public-ipam");
    let mut wanted = spec();
    wanted["reuse"] = json!({"policy": "Never"});
    assert_eq!(plan.objects[0].manifest["spec"], wanted);
    assert_eq!(plan.objects[0].manifest["apiVersion"], "ipam.cluster.x-k8s.io/v1alpha1");
    assert!(plan.obstacles.is_empty(), "{:?}", plan.obstacles);
}

#[test]
fn a_template_is_copied_under_another_name_with_nothing_of_the_old_ones_identity() {
    let mut input = input(spec());
    input.templates.push(workers(false));
    let plan = Plan::new(&input, "public", "public-ipam");
    let template = &plan.objects[1].manifest;
    let reference = json!({"apiGroup": GROUP, "kind": POOL_KIND, "name": "public-ipam"});
    assert_eq!(template["spec"]["template"]["spec"], json!({"flavor": "m1", "floatingIPPoolRef": reference}));
    assert_eq!(template["metadata"], json!({"name": "workers-ipam", "namespace": "team", "labels": {"team": "a"}}));
}

#[test]
fn a_template_of_a_cluster_class_is_left_to_the_class() {
    let mut input = input(spec());
    input.templates.push(workers(true));
    let plan = Plan::new(&input, "public", "public-ipam");
    assert_eq!(plan.objects.len(), 1);
    assert!(plan.remarks.iter().any(|remark| remark.contains("ClusterClass")), "{:?}", plan.remarks);
}

#[test]
fn what_stands_in_the_way_is_named() {
    let assert_obstacle = |input: &MigrationInput, to: &str, part: &str| {
        let obstacles = Plan::new(input, "public", to).obstacles;
        assert!(obstacles.iter().any(|obstacle| obstacle.contains(part)), "{part}: {obstacles:?}");
    };
    assert_obstacle(&input(spec()), "public", "--to");
    assert_obstacle(&MigrationInput { has_secret: Some(false), ..input(spec()) }, "new", "Secret cloud");
    let mut identity = spec();
    identity["identityRef"]["type"] = "ClusterIdentity".into();
    assert_obstacle(&input(identity), "new", "spec.identityRef.type");
    let other = json!({"spec": {"maxIPs": 4}});
    assert_obstacle(&MigrationInput { our_pool: Some(other), ..input(spec()) }, "new", "is different");
    let mut going = input(spec());
    going.pool["metadata"]["deletionTimestamp"] = "2026-11-21T09:00:00Z".into();
    assert_obstacle(&going, "new", "being deleted");
}

#[test]
fn what_was_created_before_is_unchanged_whatever_the_server_added() {
    let mut there = Plan::new(&input(spec()), "public", "new").objects[0].manifest.clone();
    there["spec"]["reuse"]["minIdleSeconds"] = 300.into();
    there["spec"]["preallocate"] = 0.into();
    let plan = Plan::new(&MigrationInput { our_pool: Some(there), ..input(spec()) }, "public", "new");
    assert_eq!(plan.objects[0].state, ObjectState::Unchanged);
    assert!(plan.obstacles.is_empty(), "{:?}", plan.obstacles);
}

#[test]
fn a_list_without_a_network_goes_on_with_the_network_that_capo_found() {
    let mut listed = spec();
    listed["preAllocatedFloatingIPs"] = json!(["203.0.113.1", "203.0.113.2", "203.0.113.1"]);
    listed.as_object_mut().expect("an object").remove("floatingIPNetwork");
    let made = |status: Value| {
        let mut input = input(listed.clone());
        input.pool["status"] = status;
        Plan::new(&input, "public", "new")
    };
    let plan = made(json!({"floatingIPNetwork": {"id": "net"}}));
    assert_eq!(plan.objects[0].manifest["spec"]["floatingIPNetwork"], json!({"id": "net"}));
    assert_eq!(plan.objects[0].manifest["spec"]["preAllocatedFloatingIPs"], json!(["203.0.113.1", "203.0.113.2"]));
    assert!(made(json!({})).remarks.iter().any(|remark| remark.contains("no floatingIPNetwork")));
}

#[test]
fn each_machine_is_told_what_becomes_of_its_address() {
    let claim = |address: Option<&str>| InTreeClaim {
        name: "web-floating-ip-address".into(),
        address: address.map(str::to_owned),
        cluster: None,
        owner: Some("OpenStackServer web".into()),
    };
    let mut listed = spec();
    listed["preAllocatedFloatingIPs"] = json!(["203.0.113.1"]);
    let change = |spec: &Value, address| describe_machine(&claim(address), &input(spec.clone())).change;
    assert!(change(&listed, Some("203.0.113.1")).contains("free for the new pool"));
    assert!(change(&listed, Some("203.0.113.9")).contains("CAPO then deletes"));
    let mut retained = spec();
    retained["reclaimPolicy"] = "Retain".into();
    assert!(change(&retained, Some("203.0.113.9")).contains("retains"));
    assert!(change(&listed, None).contains("waits"));
    assert_eq!(describe_machine(&claim(None), &input(spec())).machine, "OpenStackServer web");
}

#[test]
fn free_addresses_that_go_with_capos_pool_are_named() {
    let mut input = input(spec());
    input.pool["spec"]["preAllocatedFloatingIPs"] = json!(["203.0.113.1"]);
    input.pool["status"] = json!({"availableIPs": ["203.0.113.1", "203.0.113.7"]});
    let remarks = Plan::new(&input, "public", "new").remarks;
    let remark = remarks.iter().find(|remark| remark.contains("CAPO deletes")).expect("there is a remark");
    assert!(remark.contains("203.0.113.7") && !remark.contains("203.0.113.1;"), "{remark}");
}

#[test]
fn the_owners_of_templates_are_switched_by_a_person() {
    let user = |name: &str, template: &str, is_generated| TemplateUser {
        resource: "machinedeployments.cluster.x-k8s.io",
        name: name.into(),
        template: template.into(),
        path: "/spec/template/spec/infrastructureRef/name",
        is_generated,
    };
    let mut input = input(spec());
    input.templates.push(workers(false));
    input.users = vec![user("md", "workers", false), user("unrelated", "else", false), user("classy", "workers", true)];
    let steps = Plan::new(&input, "public", "new").next_steps.join("\n");
    let patch = r#"patch machinedeployments.cluster.x-k8s.io md --type merge -p '{"spec":{"template":{"spec":{"infrastructureRef":{"name":"workers-ipam"}}}}}'"#;
    assert!(steps.contains(patch), "{steps}");
    assert!(!steps.contains("unrelated") && !steps.contains("classy"), "{steps}");
}
