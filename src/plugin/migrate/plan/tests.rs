use serde_json::json;

use super::super::input::{Bastion, InTreeClaim, TemplateUser};
use super::*;
use crate::api::names::{CAPO_GROUP, POOL_KIND};
use crate::plugin::output::Report;

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
    let is_told = |input: &MigrationInput| Plan::new(input, "public", "new").remarks.concat().contains("maxSurge: 0");
    assert!(!is_told(&input));
    assert!(is_told(&MigrationInput { templates: vec![workers(true)], ..running() }), "a new machine waits");
}

#[test]
fn what_stands_in_the_way_is_named() {
    let assert_obstacle = |input: &MigrationInput, to: &str, part: &str| {
        let obstacles = Plan::new(input, "public", to).obstacles;
        assert!(obstacles.iter().any(|obstacle| obstacle.contains(part)), "{part}: {obstacles:?}");
    };
    assert_obstacle(&input(spec()), "public", "--to");
    assert_obstacle(&MigrationInput { has_secret: Some(false), ..input(spec()) }, "new", "Secret cloud");
    let identity = MigrationInput { uses_identities: Some(false), ..input(with_cluster_identity()) };
    assert_obstacle(&identity, "new", "--secret");
    let other = json!({"spec": {"maxIPs": 4}});
    assert_obstacle(&MigrationInput { our_pool: Some(other), ..input(spec()) }, "new", "is different");
}

#[test]
fn a_pool_with_claims_lists_no_address_that_capos_pool_can_still_give() {
    let mut input = MigrationInput { has_our_claims: true, ..running() };
    let blocks =
        |input: &MigrationInput| Plan::new(input, "public", "new").obstacles.concat().contains("claims use pool");
    assert!(blocks(&input));
    close(&mut input);
    assert!(!blocks(&input), "CAPO's pool gives nothing now");
    assert!(!blocks(&MigrationInput { keeps_addresses: false, ..input }), "the pools have no address in common");
}

fn with_cluster_identity() -> Value {
    let mut spec = spec();
    spec["identityRef"] =
        json!({"type": "ClusterIdentity", "name": "shared", "cloudName": "openstack", "region": "RegionOne"});
    spec
}

#[test]
fn a_cluster_identity_is_kept_where_the_controller_uses_them() {
    for uses_identities in [Some(true), None] {
        let input = MigrationInput { has_secret: None, uses_identities, ..input(with_cluster_identity()) };
        let plan = Plan::new(&input, "public", "new");
        assert!(plan.obstacles.is_empty(), "{:?}", plan.obstacles);
        let expected = &with_cluster_identity()["identityRef"];
        assert_eq!(plan.objects[0].manifest["spec"]["identityRef"], *expected);
        let is_told = plan.remarks.iter().any(|remark| remark.contains("--cluster-identity-namespaces"));
        assert_eq!(is_told, uses_identities.is_none(), "{:?}", plan.remarks);
    }
}

#[test]
fn a_cluster_identity_is_replaced_by_a_secret() {
    let identity = with_cluster_identity();
    let plan = Plan::new(&MigrationInput { secret: Some("own".into()), ..input(identity) }, "public", "new");
    assert!(plan.obstacles.is_empty(), "{:?}", plan.obstacles);
    let expected = json!({"name": "own", "cloudName": "openstack", "region": "RegionOne"});
    assert_eq!(plan.objects[0].manifest["spec"]["identityRef"], expected);
}

#[test]
fn what_was_created_before_is_unchanged_whatever_the_server_added() {
    let mut there = Plan::new(&input(spec()), "public", "new").objects[0].manifest.clone();
    there["spec"]["reuse"]["minIdleSeconds"] = 300.into();
    there["spec"]["minFree"] = 0.into();
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

/// CAPO's pool, with machines and a free address, whose addresses are to be kept.
fn running() -> MigrationInput {
    let mut input = MigrationInput { keeps_addresses: true, ..input(spec()) };
    input.pool["spec"][LIST] = json!(["203.0.113.9"]);
    input.pool["status"] = json!({
        "claimedIPs": ["203.0.113.77", "203.0.113.5", "203.0.113.66"], "availableIPs": ["203.0.113.10"],
        "failedIPs": ["203.0.113.66"]
    });
    input.published = vec!["203.0.113.77".into(), "203.0.113.8".into()];
    input
}

fn close(input: &mut MigrationInput) {
    input.pool["metadata"]["deletionTimestamp"] = "2026-11-21T09:00:00Z".into();
}

const KEPT: [&str; 5] = ["203.0.113.9", "203.0.113.5", "203.0.113.8", "203.0.113.10", "203.0.113.77"];

#[test]
fn kept_addresses_are_all_that_capos_pool_has_and_both_pools_list_them() {
    let plan = Plan::new(&running(), "public", "new");
    assert_eq!(plan.kept_addresses, KEPT);
    let [ours, theirs] = &plan.objects[..] else { panic!("{:?}", plan.objects) };
    assert_eq!((ours.state, &ours.manifest["spec"][LIST]), (ObjectState::New, &json!(KEPT)));
    // A new machine waits for a kept address, although it could get a new one.
    assert_eq!(ours.manifest["spec"].get("floatingIPNetwork"), None);
    assert_eq!((theirs.state, &theirs.manifest["spec"]), (ObjectState::Incomplete, &json!({ LIST: KEPT })));
    assert_eq!(theirs.manifest["apiVersion"], "infrastructure.cluster.x-k8s.io/v1alpha1");
}

#[test]
fn lists_are_only_extended() {
    let mut input = running();
    let mut ours = Plan::new(&input, "public", "new").objects[0].manifest.clone();
    ours["spec"][LIST] = json!(["203.0.113.200", "203.0.113.77"]);
    input.our_pool = Some(ours);
    let plan = Plan::new(&input, "public", "new");
    let expected = ["203.0.113.200", "203.0.113.77", "203.0.113.9", "203.0.113.5", "203.0.113.8", "203.0.113.10"];
    assert_eq!(
        (plan.objects[0].state, &plan.objects[0].manifest["spec"][LIST]),
        (ObjectState::Incomplete, &json!(expected))
    );
    input.our_pool = Some(plan.objects[0].manifest.clone());
    input.pool["spec"][LIST] = json!(expected);
    let states: Vec<_> = Plan::new(&input, "public", "new").objects.iter().map(|object| object.state).collect();
    assert_eq!(states, [ObjectState::Unchanged; 2]);
}

#[test]
fn without_an_address_there_is_nothing_to_keep() {
    let plan = Plan::new(&MigrationInput { keeps_addresses: true, ..input(spec()) }, "public", "new");
    assert_eq!((plan.objects.len(), plan.kept_addresses.len()), (1, 0));
    assert!(plan.objects[0].manifest["spec"]["floatingIPNetwork"].is_object(), "it is not closed");
    assert!(plan.remarks.concat().contains("no address to keep"), "{:?}", plan.remarks);
}

#[test]
fn what_may_change_a_kept_address_is_said() {
    let mut input = running();
    let has_remark =
        |input: &MigrationInput, part: &str| Plan::new(input, "public", "new").remarks.concat().contains(part);
    assert!(!has_remark(&input, "wait for CAPO's pool"));
    input.claims.push(claim(None));
    assert!(has_remark(&input, "wait for CAPO's pool: web-floating-ip-address"));
    close(&mut input);
    assert!(!has_remark(&input, "wait for CAPO's pool"), "it gives none any more");

    input.our_pool = Some(json!({"spec": {"floatingIPNetwork": {"id": "net"}}}));
    assert!(has_remark(&input, "has a floatingIPNetwork"));
    input.templates.push(workers(false));
    input.users = vec![deployment("md", "workers", false)];
    assert!(!has_remark(&input, "control plane"));
    input.users = vec![control_plane("cp", 3)];
    assert!(has_remark(&input, "CAPO deletes the floating IP of a control plane machine"));
}

fn claim(address: Option<&str>) -> InTreeClaim {
    InTreeClaim {
        name: "web-floating-ip-address".into(),
        address: address.map(str::to_owned),
        cluster: None,
        owner: Some("OpenStackServer web".into()),
    }
}

#[test]
fn each_machine_is_told_what_becomes_of_its_address() {
    let machine = |input: MigrationInput, address| {
        let plan = Plan::new(&MigrationInput { claims: vec![claim(address)], ..input }, "public", "new");
        plan.machines.into_iter().next().expect("there is a machine")
    };
    let change = |input, address| machine(input, address).change;
    let mut listed = input(spec());
    listed.pool["spec"][LIST] = json!(["203.0.113.1"]);
    assert!(change(listed, Some("203.0.113.1")).contains("free for the new pool"));
    assert!(change(running(), Some("203.0.113.77")).contains("free for the new pool"));
    assert!(change(input(spec()), Some("203.0.113.9")).contains("CAPO then deletes"));
    let mut retained = spec();
    retained["reclaimPolicy"] = "Retain".into();
    assert!(change(input(retained), Some("203.0.113.9")).contains("retains"));
    assert!(change(input(spec()), None).contains("waits"));
    let mut closed = running();
    close(&mut closed);
    assert!(change(closed, None).contains("gets no address"));
    assert_eq!(machine(input(spec()), None).machine, "OpenStackServer web");
}

#[test]
fn what_a_tenant_wrote_stays_in_its_comment() {
    let owner = Some("Evil\n---\nkind: ClusterRoleBinding".into());
    let claims = vec![InTreeClaim { owner, ..claim(Some("203.0.113.9\nkind: Role")) }];
    let text = Plan::new(&MigrationInput { claims, ..running() }, "public", "new").text(false);
    assert!(text.contains("Evil\\n---\\nkind: ClusterRoleBinding"), "{text}");
    assert!(!text.lines().any(|line| line.starts_with("kind: ClusterRoleBinding") || line == "kind: Role"), "{text}");
}

#[test]
fn free_addresses_that_go_with_capos_pool_are_named() {
    let mut input = input(spec());
    input.pool["spec"][LIST] = json!(["203.0.113.1"]);
    input.pool["status"] = json!({"availableIPs": ["203.0.113.1", "203.0.113.7"]});
    let lost = |input: &MigrationInput| {
        Plan::new(input, "public", "new").remarks.into_iter().find(|remark| remark.contains("CAPO deletes these"))
    };
    let remark = lost(&input).expect("there is a remark");
    assert!(remark.contains("203.0.113.7") && !remark.contains("203.0.113.1;"), "{remark}");
    assert_eq!(lost(&MigrationInput { keeps_addresses: true, ..input }), None);
}

fn deployment(name: &str, template: &str, is_generated: bool) -> TemplateUser {
    TemplateUser {
        resource: "machinedeployments.cluster.x-k8s.io",
        name: name.into(),
        template: template.into(),
        path: "/spec/template/spec/infrastructureRef/name",
        rolling_update: "/spec/rollout/strategy/rollingUpdate",
        replicas: 3,
        is_generated,
    }
}

fn control_plane(name: &str, replicas: u64) -> TemplateUser {
    TemplateUser {
        resource: "kubeadmcontrolplanes.controlplane.cluster.x-k8s.io",
        path: "/spec/machineTemplate/spec/infrastructureRef/name",
        replicas,
        ..deployment(name, "workers", false)
    }
}

/// The commands that remain, without the comments.
fn commands(input: &MigrationInput) -> Vec<String> {
    let steps = Plan::new(input, "public", "new").next_steps;
    steps.into_iter().filter(|step| !step.starts_with('#')).collect()
}

const IN_TREE: &str = "openstackfloatingippools.infrastructure.cluster.x-k8s.io";
const AWAIT_READY: &str = "kubectl -n team wait --for=condition=Ready fippool/new --timeout=60s";
const SWITCH: &str = r#"kubectl -n team patch machinedeployments.cluster.x-k8s.io md --type merge -p '{"spec":{"template":{"spec":{"infrastructureRef":{"name":"workers-ipam"}}}}}'"#;

#[test]
fn the_owners_of_templates_are_switched_by_a_person_and_capos_pool_is_deleted_last() {
    let mut input = input(spec());
    input.templates.push(workers(false));
    input.users = vec![
        deployment("md", "workers", false),
        deployment("unrelated", "else", false),
        deployment("classy", "workers", true),
    ];
    let last = format!("kubectl -n team delete {IN_TREE} public --ignore-not-found");
    assert_eq!(commands(&input), [AWAIT_READY.to_owned(), SWITCH.to_owned(), last]);
}

#[test]
fn capos_pool_is_closed_before_the_first_machine_gets_a_listed_address() {
    let mut input = running();
    input.templates.push(workers(false));
    input.users = vec![control_plane("single", 1), control_plane("cp", 3), deployment("md", "workers", false)];
    let patch = |kind: &str, name: &str, change: &str| {
        format!("kubectl -n team patch {kind} {name} --type merge -p '{change}'")
    };
    let planes = "kubeadmcontrolplanes.controlplane.cluster.x-k8s.io";
    let switch = |name: &str| {
        patch(planes, name, r#"{"spec":{"machineTemplate":{"spec":{"infrastructureRef":{"name":"workers-ipam"}}}}}"#)
    };
    let first = |numbers: &str| format!(r#"{{"spec":{{"rollout":{{"strategy":{{"rollingUpdate":{numbers}}}}}}}}}"#);
    let kept = KEPT.join(" ");
    let expected = [
        format!("{AWAIT_READY} && kubectl -n team delete {IN_TREE} public --wait=false"),
        "kubectl fippool migrate public -n team --to new --keep-addresses --apply".to_owned(),
        patch(planes, "cp", &first(r#"{"maxSurge":0}"#)),
        switch("cp"),
        patch("machinedeployments.cluster.x-k8s.io", "md", &first(r#"{"maxSurge":0,"maxUnavailable":1}"#)),
        SWITCH.to_owned(),
        patch("fippool", "new", r#"{"spec":{"floatingIPNetwork":{"filter":{"name":"public"}}}}"#),
        AWAIT_READY.to_owned(),
        // It cannot delete its only machine first.
        switch("single"),
        format!("kubectl -n team delete {IN_TREE} public --ignore-not-found"),
        "kubectl -n team annotate fippool new cluster.x-k8s.io/paused= && sleep 60".to_owned(),
        format!(
            "for address in {kept}; do openstack floating ip unset --tag cluster-api-provider-openstack-fip-pool-public $address; done"
        ),
        "kubectl -n team annotate fippool new cluster.x-k8s.io/paused-".to_owned(),
    ];
    assert_eq!(commands(&input), expected);
    close(&mut input);
    assert_eq!(commands(&input), [&[AWAIT_READY.to_owned()], &expected[1..]].concat());
}

#[test]
fn a_list_of_capos_pool_is_taken_over_only_after_the_pool_is_closed() {
    let mut input = MigrationInput { keeps_addresses: false, ..running() };
    input.templates.push(workers(false));
    input.users = vec![deployment("md", "workers", false)];
    let plan = Plan::new(&input, "public", "new");
    assert_eq!((plan.kept_addresses, plan.objects.len()), (vec!["203.0.113.9".to_owned()], 2));
    let expected = [
        format!("{AWAIT_READY} && kubectl -n team delete {IN_TREE} public --wait=false"),
        SWITCH.to_owned(),
        format!("kubectl -n team delete {IN_TREE} public --ignore-not-found"),
    ];
    assert_eq!(commands(&input), expected);
}

#[test]
fn the_commands_are_for_the_cluster_of_the_plan() {
    let mut input = MigrationInput { connection: " --context 'the b'".into(), ..running() };
    input.bastions.push(bastion());
    let (kubectl, plugin): (Vec<_>, Vec<_>) = commands(&input)
        .into_iter()
        .filter(|it| it.contains("kubectl"))
        .partition(|it| !it.contains("fippool migrate"));
    assert!(kubectl.iter().all(|command| command.starts_with("kubectl -n team --context 'the b' ")), "{kubectl:?}");
    assert_eq!(plugin, ["kubectl fippool migrate public -n team --context 'the b' --to new --keep-addresses --apply"]);
}

#[test]
fn a_plan_begins_with_what_is_not_done_and_has_no_steps_beside_an_obstacle() {
    let steps = |plan: &mut Plan| {
        plan.complete_steps();
        plan.next_steps.clone()
    };
    let mut plan = Plan::new(&running(), "public", "new");
    assert_eq!(steps(&mut plan)[1], "kubectl fippool migrate public -n team --to new --keep-addresses --apply");
    let mut applied = Plan::new(&running(), "public", "new");
    applied.objects.iter_mut().for_each(|object| object.state = ObjectState::Created);
    assert!(steps(&mut applied)[1].starts_with(AWAIT_READY), "{:?}", applied.next_steps);
    let ready = json!({"type": "Ready", "status": "False", "message": "the Secret is missing"});
    let mut input = running();
    let mut ours = Plan::new(&input, "public", "new").objects[0].manifest.clone();
    ours["status"] = json!({"conditions": [ready]});
    input.our_pool = Some(ours);
    let mut blocked = Plan::new(&input, "public", "public");
    assert!(
        blocked.remarks.contains(&"pool public is not ready: the Secret is missing".into()),
        "{:?}",
        blocked.remarks
    );
    assert!(steps(&mut blocked).is_empty() && !blocked.text(false).contains("Next steps"));
}

#[test]
fn the_limit_of_the_new_pool_suffices_for_the_list_and_the_machines() {
    let limit = |input: &MigrationInput| {
        let plan = Plan::new(input, "public", "new");
        let is_told = plan.remarks.iter().any(|remark| remark.contains("maxIPs"));
        (plan.objects[0].manifest["spec"]["maxIPs"].as_u64(), is_told, plan.objects[0].state)
    };
    assert_eq!(limit(&input(spec())), (Some(3), false, ObjectState::New));
    assert_eq!(limit(&running()), (Some(5), true, ObjectState::New), "it lists five");
    let mut existing = Plan::new(&running(), "public", "new").objects[0].manifest.clone();
    existing["spec"]["maxIPs"] = 4.into();
    let with = |existing: &Value| MigrationInput { our_pool: Some(existing.clone()), ..running() };
    assert_eq!(limit(&with(&existing)), (Some(4), true, ObjectState::Unchanged));
    existing["spec"].as_object_mut().expect("an object").remove("maxIPs");
    assert_eq!(limit(&with(&existing)), (None, false, ObjectState::Unchanged));
}

#[test]
fn the_address_of_a_bastion_is_not_kept() {
    let mut input = running();
    let name = "prod-bastion-floating-ip-address".into();
    input.claims = vec![InTreeClaim { name, cluster: Some("prod".into()), ..claim(Some("203.0.113.77")) }];
    let plan = Plan::new(&input, "public", "new");
    assert!(!plan.kept_addresses.contains(&"203.0.113.77".into()), "{:?}", plan.kept_addresses);
    assert!(plan.machines[0].change.contains("CAPO deletes the address"), "{}", plan.machines[0].change);
}

#[test]
fn a_template_that_nothing_listed_uses_is_named() {
    let mut input = running();
    input.templates.push(workers(false));
    let is_told =
        |input: &MigrationInput| Plan::new(input, "public", "new").remarks.concat().contains("uses template workers");
    assert!(is_told(&input));
    for template in ["workers", "workers-ipam"] {
        input.users = vec![deployment("md", template, false)];
        assert!(!is_told(&input), "{template}");
    }
}

#[test]
fn what_a_user_wrote_adds_no_command() {
    let mut input = running();
    input.pool["spec"][LIST] = json!(["203.0.113.9", "; reboot"]);
    input.pool["spec"]["floatingIPNetwork"] = json!({"filter": {"name": "it's; reboot"}});
    input.pool["status"]["availableIPs"] = json!(["$(reboot)"]);
    let commands = commands(&input);
    let network = r#"'{"spec":{"floatingIPNetwork":{"filter":{"name":"it'\''s; reboot"}}}}'"#;
    assert!(commands.iter().any(|command| command.ends_with(network)), "{commands:?}");
    let loops: Vec<_> = commands.iter().filter(|command| command.contains("for address in 203.0.113.9 ")).collect();
    assert!(loops.len() == 1 && !loops[0].contains("reboot"), "{commands:?}");
}

fn bastion() -> Bastion {
    Bastion { infrastructure: "prod-x7k2p".into(), cluster: "prod".into(), is_enabled: true, is_generated: false }
}

#[test]
fn a_bastion_is_replaced_before_capos_pool_is_deleted_and_a_server_of_its_own_is_named() {
    for keeps_addresses in [false, true] {
        let mut input = MigrationInput { bastions: vec![bastion()], keeps_addresses, ..running() };
        input.servers.push("jump".into());
        let plan = Plan::new(&input, "public", "new");
        let at = |part: &str| {
            let found = plan.next_steps.iter().position(|step| step.contains(part));
            found.unwrap_or_else(|| panic!("{part}: {:#?}", plan.next_steps))
        };
        let reference = r#"{"apiGroup":"ipam.cluster.x-k8s.io","kind":"OpenStackFloatingIPPool","name":"new"}"#;
        let disable = r#"prod-x7k2p --type merge -p '{"spec":{"bastion":{"enabled":false}}}'"#;
        let steps = [disable, "ipaddressclaim/prod-bastion-floating-ip-address", reference, "--ignore-not-found"];
        assert!(steps.map(at).is_sorted(), "{:#?}", plan.next_steps);
        assert!(plan.remarks.iter().any(|remark| remark.contains("OpenStackServer jump")), "{:?}", plan.remarks);
        let is_told = plan.remarks.iter().any(|remark| remark.contains("bastion.floatingIP"));
        assert_eq!(is_told, keeps_addresses, "{:?}", plan.remarks);
    }
}

#[test]
fn a_bastion_that_is_not_enabled_stays_so_and_one_of_a_cluster_class_is_left_to_the_class() {
    let with = |bastion: Bastion| {
        let input = MigrationInput { bastions: vec![bastion], ..input(spec()) };
        let plan = Plan::new(&input, "public", "new");
        (plan.next_steps.join("\n"), plan.remarks.concat())
    };
    let (steps, _) = with(Bastion { is_enabled: false, ..bastion() });
    assert!(steps.contains("floatingIPPoolRef") && !steps.contains("\"enabled\""), "{steps}");
    let (steps, remarks) = with(Bastion { is_generated: true, ..bastion() });
    assert!(!steps.contains("floatingIPPoolRef") && remarks.contains("the bastion of prod"), "{steps} {remarks}");
    assert!(!remarks.contains("no OpenStackMachineTemplate"), "{remarks}");
}
