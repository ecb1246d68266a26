//! The behaviour of Neutron that the controllers rely on, checked with real servers and with the cloud in memory, so that
//! the two do not diverge. [`kubernetes`] does the same for the API server in memory.
//!
//! Each check is a function over a [`World`] of its own. The real servers need `OS_CLIENT_CONFIG_FILE` with a cloud
//! `admin`; `make test` sets it.

mod credentials;
mod kubernetes;
mod memory;
mod real;

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use caip_openstack::floating_ip::{FloatingIp, FloatingIpId, NetworkId, SubnetId};
use caip_openstack::openstack::{DeletionStep, Error, ErrorKind, Filter, Neutron, NewFloatingIp};
use futures::future::join_all;

/// These checks delete unconditionally.
fn always(_: Option<FloatingIp>) -> DeletionStep {
    DeletionStep::Delete
}

/// A project that only one check uses.
struct World {
    neutron: Arc<dyn Neutron>,
    /// A session of another project.
    stranger: Arc<dyn Neutron>,
    /// An external network with free addresses.
    network: NetworkId,
    /// A subnet of it.
    subnet: SubnetId,
    /// An external network with three addresses, which other checks may use too.
    tiny: NetworkId,
    /// A network of the project's own, not external.
    private: NetworkId,
    operator: Box<dyn Operator>,
}

/// What users and operators do besides the controllers.
#[async_trait]
trait Operator: Send + Sync {
    async fn attach(&self, id: &FloatingIpId);
    async fn detach(&self, id: &FloatingIpId);
    /// Sets the project's quota of floating IPs; `None` for no limit.
    async fn set_quota(&self, limit: Option<u32>);
    /// Removes everything that the check created.
    async fn clean_up(&self);
}

/// One test for each check in each cloud.
macro_rules! contract {
    ($($check:ident),* $(,)?) => {
        mod in_memory {
            $(#[tokio::test]
            async fn $check() {
                super::run_check(super::memory::world().await, super::$check).await;
            })*
        }
        mod on_real_servers {
            $(#[tokio::test]
            async fn $check() {
                super::run_check(super::real::world().await.0, super::$check).await;
            })*
        }
    };
}

contract!(
    a_new_floating_ip_carries_its_description_from_the_start,
    a_new_floating_ip_can_come_from_one_subnet,
    a_description_is_rewritten_and_nothing_else,
    concurrent_single_tags_add_up,
    removing_a_tag_keeps_the_others_and_can_be_repeated,
    a_deleted_floating_ip_is_not_found_and_has_no_tags,
    deleting_twice_finds_nothing_the_second_time,
    an_invalid_id_is_not_found,
    a_floating_ip_of_another_project_is_not_listed_or_changed,
    a_port_is_reported_but_does_not_prevent_deletion,
    an_unusable_network_is_reported_as_such,
    a_network_without_free_addresses_is_reported_as_such,
    a_quota_is_counted_and_enforced,
    descriptions_and_tags_can_have_the_lengths_that_are_used,
    networks_and_subnets_are_found_by_filters,
    floating_ips_can_carry_tags,
);

/// Cleans up even if the check fails.
async fn run_check<F: AsyncFnOnce(&World)>(world: World, check: F) {
    use futures::FutureExt;
    let outcome = std::panic::AssertUnwindSafe(check(&world)).catch_unwind().await;
    world.operator.clean_up().await;
    if let Err(panic) = outcome {
        std::panic::resume_unwind(panic);
    }
}

fn new(network: &NetworkId, description: &str) -> NewFloatingIp {
    NewFloatingIp { network: network.clone(), subnet: None, description: description.to_owned() }
}

async fn created(world: &World) -> FloatingIp {
    world.neutron.create_floating_ip(&new(&world.network, "contract"), &|| true).await.expect("there is room")
}

async fn read(world: &World, id: &FloatingIpId) -> FloatingIp {
    world.neutron.get_floating_ip(id).await.expect("it is there")
}

fn tags(tags: &[&str]) -> BTreeSet<String> {
    tags.iter().map(|tag| (*tag).to_owned()).collect()
}

#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T, Error>, kind: ErrorKind) -> Error {
    let error = result.expect_err("it is refused");
    assert_eq!(error.kind, kind, "{error}");
    assert!(!error.is_unknown(), "a refusal has a known outcome: {error:?}");
    error
}

async fn a_new_floating_ip_carries_its_description_from_the_start(world: &World) {
    let neutron = &world.neutron;
    let ip = neutron.create_floating_ip(&new(&world.network, "mark of ours"), &|| true).await.expect("there is room");
    assert_eq!((ip.description.as_str(), &ip.network), ("mark of ours", &world.network));
    assert_eq!(ip.project, neutron.scope().project);
    assert!(ip.tags.is_empty() && !ip.is_attached() && ip.dns_name.is_empty() && ip.changed_at.is_some());
    assert_eq!(read(world, &ip.id).await, ip);
    assert_eq!(neutron.list_floating_ips().await.expect("it lists"), [ip]);
}

async fn a_new_floating_ip_can_come_from_one_subnet(world: &World) {
    let new = NewFloatingIp { subnet: Some(world.subnet.clone()), ..new(&world.network, "contract") };
    let ip = world.neutron.create_floating_ip(&new, &|| true).await.expect("there is room");
    assert_eq!(&ip.network, &world.network);
}

async fn a_description_is_rewritten_and_nothing_else(world: &World) {
    let neutron = &world.neutron;
    let before = created(world).await;
    neutron.add_tag(&before.id, "somebodys", &|| true).await.expect("it tags");
    let after = neutron.describe_floating_ip(&before.id, "another", &|| true).await.expect("it describes");
    let expected = FloatingIp {
        description: "another".to_owned(),
        tags: tags(&["somebodys"]),
        changed_at: after.changed_at,
        ..before
    };
    assert_eq!(after, expected);
    assert_eq!(read(world, &after.id).await, after);
}

async fn concurrent_single_tags_add_up(world: &World) {
    let ip = created(world).await;
    let names: Vec<String> = (0..6).map(|number| format!("caip.claim={number}_Ab")).collect();
    let writes = names.iter().chain(&names).map(|tag| world.neutron.add_tag(&ip.id, tag, &|| true));
    assert!(join_all(writes).await.iter().all(Result::is_ok));
    assert_eq!(read(world, &ip.id).await.tags, names.into_iter().collect());
}

async fn removing_a_tag_keeps_the_others_and_can_be_repeated(world: &World) {
    let neutron = &world.neutron;
    let ip = created(world).await;
    for tag in ["one", "two"] {
        neutron.add_tag(&ip.id, tag, &|| true).await.expect("it tags");
    }
    for _ in 0..2 {
        neutron.remove_tag(&ip.id, "one", &|| true).await.expect("what is not there is what was asked for");
        assert_eq!(read(world, &ip.id).await.tags, tags(&["two"]));
    }
}

async fn a_deleted_floating_ip_is_not_found_and_has_no_tags(world: &World) {
    let neutron = &world.neutron;
    let ip = created(world).await;
    neutron.delete_floating_ip(&ip.id, &mut always).await.expect("it deletes");
    refused(neutron.get_floating_ip(&ip.id).await, ErrorKind::NotFound);
    refused(neutron.describe_floating_ip(&ip.id, "x", &|| true).await, ErrorKind::NotFound);
    // A real server answers 500 here.
    refused(neutron.add_tag(&ip.id, "x", &|| true).await, ErrorKind::NotFound);
    neutron.remove_tag(&ip.id, "x", &|| true).await.expect("no tag is left on it");
    assert_eq!(neutron.list_floating_ips().await.expect("it lists"), []);
}

async fn deleting_twice_finds_nothing_the_second_time(world: &World) {
    let neutron = &world.neutron;
    let ip = created(world).await;
    // Of those that race, any number may succeed.
    for result in join_all((0..3).map(async |_| neutron.delete_floating_ip(&ip.id, &mut always).await)).await {
        assert!(result.as_ref().err().is_none_or(|error| error.kind == ErrorKind::NotFound), "{result:?}");
    }
    refused(neutron.delete_floating_ip(&ip.id, &mut always).await, ErrorKind::NotFound);
}

async fn an_invalid_id_is_not_found(world: &World) {
    for id in ["", "not-an-id", "..", "../networks", "a/b", "?x=1", "%2e%2e", "é"] {
        let id = FloatingIpId::new(id);
        refused(world.neutron.get_floating_ip(&id).await, ErrorKind::NotFound);
        refused(world.neutron.delete_floating_ip(&id, &mut always).await, ErrorKind::NotFound);
        refused(world.neutron.add_tag(&id, "x", &|| true).await, ErrorKind::NotFound);
    }
}

async fn a_floating_ip_of_another_project_is_not_listed_or_changed(world: &World) {
    let (ours, theirs) = (&world.neutron, &world.stranger);
    let ip = theirs
        .create_floating_ip(&new(&world.network, "contract, a stranger's"), &|| true)
        .await
        .expect("there is room");
    let check = async {
        refused(ours.get_floating_ip(&ip.id).await, ErrorKind::NotFound);
        refused(ours.describe_floating_ip(&ip.id, "x", &|| true).await, ErrorKind::NotFound);
        refused(ours.delete_floating_ip(&ip.id, &mut always).await, ErrorKind::NotFound);
        refused(ours.add_tag(&ip.id, "x", &|| true).await, ErrorKind::Forbidden);
        refused(ours.remove_tag(&ip.id, "x", &|| true).await, ErrorKind::Forbidden);
        assert_eq!(ours.list_floating_ips().await.expect("it lists"), []);
        // An administrator sees all projects, and lists its own only.
        let mine = created(world).await;
        assert!(!theirs.list_floating_ips().await.expect("it lists").iter().any(|ip| ip.id == mine.id));
    };
    use futures::FutureExt;
    let outcome = std::panic::AssertUnwindSafe(check).catch_unwind().await;
    theirs.delete_floating_ip(&ip.id, &mut always).await.expect("it is still there");
    outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

async fn a_port_is_reported_but_does_not_prevent_deletion(world: &World) {
    let ip = created(world).await;
    world.operator.attach(&ip.id).await;
    let attached = read(world, &ip.id).await;
    assert!(attached.port.is_some() && attached.is_attached() && attached.description == ip.description);
    world.operator.detach(&ip.id).await;
    assert!(!read(world, &ip.id).await.is_attached());
    world.operator.attach(&ip.id).await;
    world.neutron.delete_floating_ip(&ip.id, &mut always).await.expect("Neutron does not protect it");
}

async fn an_unusable_network_is_reported_as_such(world: &World) {
    let neutron = &world.neutron;
    let unknown = "00000000-0000-4000-8000-000000000000";
    for network in [world.private.as_str(), unknown, "not-an-id"] {
        refused(neutron.create_floating_ip(&new(&NetworkId::new(network), "x"), &|| true).await, ErrorKind::BadNetwork);
    }
    let elsewhere = Filter { network_id: Some(world.tiny.to_string()), ..Filter::default() };
    let elsewhere = neutron.find_subnets(&elsewhere).await.expect("it lists").remove(0).id;
    for subnet in [SubnetId::new(unknown), elsewhere] {
        let new = NewFloatingIp { subnet: Some(subnet), ..new(&world.network, "x") };
        refused(neutron.create_floating_ip(&new, &|| true).await, ErrorKind::BadNetwork);
    }
}

async fn a_network_without_free_addresses_is_reported_as_such(world: &World) {
    let mut error = None;
    for _ in 0..4 {
        if let Err(refusal) = world.neutron.create_floating_ip(&new(&world.tiny, "contract"), &|| true).await {
            error = Some(refusal);
            break;
        }
    }
    refused(Err::<(), _>(error.expect("three addresses do not serve four")), ErrorKind::NoMoreAddresses);
}

async fn a_quota_is_counted_and_enforced(world: &World) {
    world.operator.set_quota(None).await;
    let unlimited = world.neutron.quota().await.expect("a member may read it").expect("it says what is used");
    assert_eq!((unlimited.limit, unlimited.used), (None, 0));
    world.operator.set_quota(Some(2)).await;
    for used in 1..=2 {
        created(world).await;
        let quota = world.neutron.quota().await.expect("it reads").expect("there is a quota");
        assert_eq!((quota.limit, quota.used), (Some(2), used));
    }
    refused(world.neutron.create_floating_ip(&new(&world.network, "x"), &|| true).await, ErrorKind::OverQuota);
}

async fn descriptions_and_tags_can_have_the_lengths_that_are_used(world: &World) {
    let neutron = &world.neutron;
    let longest = "d".repeat(255);
    let ip = neutron.create_floating_ip(&new(&world.network, &longest), &|| true).await.expect("there is room");
    assert_eq!(ip.description, longest);
    let too_long = "d".repeat(256);
    refused(neutron.create_floating_ip(&new(&world.network, &too_long), &|| true).await, ErrorKind::Rejected);
    refused(neutron.describe_floating_ip(&ip.id, &too_long, &|| true).await, ErrorKind::Rejected);
    let tag = "t".repeat(60);
    neutron.add_tag(&ip.id, &tag, &|| true).await.expect("every release takes 60 characters");
    assert_eq!(read(world, &ip.id).await.tags, tags(&[&tag]));
}

async fn networks_and_subnets_are_found_by_filters(world: &World) {
    let neutron = &world.neutron;
    let by_id = Filter { id: Some(world.network.to_string()), ..Filter::default() };
    let network = neutron.find_networks(&by_id).await.expect("it lists").remove(0);
    assert!(network.id == world.network && network.is_external);
    let by_name = Filter { name: Some(network.name.clone()), is_external: Some(true), ..Filter::default() };
    let network = std::slice::from_ref(&network);
    assert_eq!(neutron.find_networks(&by_name).await.expect("it lists"), network);
    let internal = Filter { is_external: Some(false), ..by_name.clone() };
    assert_eq!(neutron.find_networks(&internal).await.expect("it lists"), []);
    let tagged = Filter { tags: vec!["no-network-has-this".to_owned()], ..Filter::default() };
    assert_eq!(neutron.find_networks(&tagged).await.expect("it lists"), []);
    let not_tagged = Filter { not_tags_any: tagged.tags.clone(), ..by_name };
    assert_eq!(neutron.find_networks(&not_tagged).await.expect("it lists"), network);

    let subnets = Filter { network_id: Some(world.network.to_string()), ip_version: Some(4), ..Filter::default() };
    let subnets = neutron.find_subnets(&subnets).await.expect("it lists");
    assert!(subnets.iter().any(|subnet| subnet.id == world.subnet));
    assert!(subnets.iter().all(|subnet| subnet.network == world.network));
    let none = Filter { name: Some("no-subnet-has-this".to_owned()), ..Filter::default() };
    assert_eq!(neutron.find_subnets(&none).await.expect("it lists"), []);
}

async fn floating_ips_can_carry_tags(world: &World) {
    assert!(world.neutron.has_tags().await.expect("it lists"));
}
