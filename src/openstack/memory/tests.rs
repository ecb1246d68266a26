use std::sync::Mutex;
use std::time::Duration;

use futures::future::join_all;
use tokio::time::Instant;

use super::*;

async fn cloud(quota: Option<u32>) -> (MemoryCloud, Arc<dyn Neutron>, NewFloatingIp) {
    let cloud = MemoryCloud::new(Clock::simulated("2026-11-21T09:00:00Z".parse().unwrap(), 1));
    let project = cloud.add_project("ours", quota);
    let network = cloud.add_network(&project, "public", true);
    cloud.add_subnet(&network, "v4", "203.0.113.1".parse().unwrap()..="203.0.113.6".parse().unwrap());
    let neutron = cloud.connect(&cloud.credentials("ours")).await.unwrap();
    (cloud, neutron, NewFloatingIp { network, subnet: None, description: "d".to_owned() })
}

#[tokio::test]
async fn a_race_passes_the_quota_but_not_the_addresses() {
    let (cloud, neutron, new) = cloud(Some(3)).await;
    let results = join_all((0..8).map(|_| neutron.create_floating_ip(&new))).await;
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 6, "as the real one does");
    let addresses: BTreeSet<_> = cloud.floating_ips().into_iter().map(|ip| ip.address).collect();
    assert_eq!(addresses.len(), 6);
    let error = neutron.create_floating_ip(&new).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::OverQuota);
}

#[tokio::test]
async fn the_same_story_has_the_same_ids_and_addresses() {
    let tell = async || {
        let (cloud, neutron, new) = cloud(None).await;
        join_all((0..4).map(|_| neutron.create_floating_ip(&new))).await;
        cloud.floating_ips()
    };
    assert_eq!(tell().await, tell().await);
}

#[tokio::test]
async fn a_call_that_fails_before_is_not_done_and_one_that_fails_after_is() {
    let (cloud, neutron, new) = cloud(None).await;
    let fail_at = |when: Moment| {
        move |moment: Moment, call: &Call| {
            if moment == when && call.is_write() { Fault::LOST } else { Fault::None }
        }
    };
    cloud.set_faults(fail_at(Moment::Before));
    assert!(neutron.create_floating_ip(&new).await.unwrap_err().is_unknown());
    assert_eq!(cloud.floating_ips(), []);
    cloud.set_faults(fail_at(Moment::After));
    assert!(neutron.create_floating_ip(&new).await.unwrap_err().is_unknown());
    assert_eq!(cloud.floating_ips().len(), 1);
    let id = cloud.floating_ips().remove(0).id;
    assert!(neutron.add_tag(&id, "t").await.unwrap_err().is_unknown());
    assert!(cloud.get(&id).unwrap().tags.contains("t"));
    cloud.clear_faults();
    neutron.delete_floating_ip(&id).await.unwrap();
    assert_eq!((cloud.count("create_floating_ip"), cloud.count("add_tag")), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_call_can_be_slow_and_one_can_be_where_its_process_dies() {
    let (cloud, neutron, new) = cloud(None).await;
    let asked = Arc::new(Mutex::new(Vec::new()));
    let log = asked.clone();
    cloud.set_faults(move |moment: Moment, call: &Call| {
        log.lock().unwrap().push((call.operation, moment));
        match (call.operation, moment) {
            ("create_floating_ip", Moment::Before) => Fault::Delay(Duration::from_secs(3)),
            ("create_floating_ip", Moment::After) => Fault::Never,
            _ => Fault::None,
        }
    });
    let begin = Instant::now();
    let create = neutron.create_floating_ip(&new);
    assert!(tokio::time::timeout(Duration::from_secs(60), create).await.is_err(), "nobody ever hears of it");
    assert_eq!((begin.elapsed(), cloud.floating_ips().len()), (Duration::from_secs(60), 1));
    let moments = [("create_floating_ip", Moment::Before), ("create_floating_ip", Moment::After)];
    assert_eq!(*asked.lock().unwrap(), moments);
}

#[tokio::test]
async fn a_login_that_is_taken_away_ends_its_sessions_too() {
    let (cloud, neutron, new) = cloud(None).await;
    let project = neutron.scope().project.clone();
    cloud.set_login("ours", None);
    assert_eq!(neutron.create_floating_ip(&new).await.unwrap_err().kind, ErrorKind::Unauthorized);
    assert_eq!(neutron.list_floating_ips().await.unwrap_err().kind, ErrorKind::Unauthorized);
    cloud.set_login("ours", Some(&project));
    neutron.list_floating_ips().await.unwrap();
}

#[tokio::test]
async fn without_the_tag_extension_no_tag_is_seen_or_written() {
    let (cloud, neutron, new) = cloud(None).await;
    let ip = neutron.create_floating_ip(&new).await.unwrap();
    neutron.add_tag(&ip.id, "t").await.unwrap();
    cloud.set_tags_extension(false);
    assert!(!neutron.has_tags().await.unwrap());
    assert_eq!(neutron.add_tag(&ip.id, "u").await.unwrap_err().kind, ErrorKind::Rejected);
    assert_eq!(neutron.list_floating_ips().await.unwrap(), [ip]);
}

#[tokio::test]
async fn the_same_credentials_share_a_session_while_anybody_holds_it() {
    let (cloud, first, _) = cloud(None).await;
    let again = cloud.connect(&cloud.credentials("ours")).await.unwrap();
    assert!(Arc::ptr_eq(&first, &again));
    let bad = cloud.connect(&cloud.credentials("nobody")).await;
    assert_eq!(bad.err().unwrap().kind, ErrorKind::Unauthorized);
}
