//! Credentials of every kind, and Secrets that change while their pools serve.

use std::time::Duration;

use reqwest::Method;
use serde_json::json;

use super::application_credential::ApplicationCredential;
use super::secrets;
use crate::support::{
    Cloud, Fault, Kind, NEUTRON, Namespace, OpenStackProxy, RECOVERY, SOON, TOKEN, claim, cloud_entry, clouds_yaml,
    controller, eventually, pool, with_namespace,
};

/// Sooner than a pool with a problem is reconciled without a reason, after 8 s: the change itself must trigger it.
const TRIGGERED: Duration = Duration::from_millis(7500);

/// For a deletion by a controller that starts after another was killed: it waits until no call of that one can take effect.
const AFTER_CRASH: Duration = Duration::from_secs(90);

fn with_password(password: &str) -> String {
    let mut entry = cloud_entry("demo");
    entry["auth"]["password"] = password.into();
    clouds_yaml(&entry)
}

fn with_token(token: &str, project: &str) -> String {
    let keystone = cloud_entry("demo")["auth"]["auth_url"].clone();
    let auth = json!({"auth_url": keystone, "token": token, "project_id": project});
    clouds_yaml(&json!({"auth_type": "v3token", "region_name": "RegionOne", "auth": auth}))
}

async fn await_ready(ns: &Namespace) {
    ns.await_condition(Kind::Pool, "public", "Ready", "True", "Ready", RECOVERY).await;
}

#[tokio::test]
async fn application_credential_and_token_work_like_a_password() {
    controller();
    let credential = ApplicationCredential::create().await;
    let demo = Cloud::named("demo").await;
    with_namespace(async |ns| {
        let token = secrets::remember(demo.token());
        for (name, yaml) in
            [("application", credential.clouds_yaml.clone()), ("token", with_token(&token, demo.project()))]
        {
            ns.apply_secret(name, &yaml).await;
            let identity = json!({"name": name, "cloudName": "openstack"});
            ns.create(pool(name).network("public-large").with("identityRef", identity)).await;
            ns.bind(claim(name).from(name)).await;
        }
        secrets::assert_not_shown(ns).await;
    })
    .await;
    credential.revoke().await;
}

#[tokio::test]
async fn rotated_secret_takes_effect_without_a_restart_or_a_change_to_bound_claims() {
    controller();
    let (old, new) = (ApplicationCredential::create().await, ApplicationCredential::create().await);
    let cloud = OpenStackProxy::to_cloud("demo").await;
    with_namespace(async |ns| {
        ns.apply_secret("cloud", &cloud.through_proxy(&old.clouds_yaml)).await;
        ns.create(pool("public").network("public-large")).await;
        let address = ns.bind(claim("before").from("public")).await;
        await_settled(ns, 1).await;

        // The recommended order: first the new credential, then the old one is revoked.
        let before = cloud.authentications();
        ns.apply_secret("cloud", &cloud.through_proxy(&new.clouds_yaml)).await;
        await_authentication(&cloud, before).await;
        old.revoke().await;
        ns.bind(claim("rotated").from("public")).await;
        await_settled(ns, 2).await;

        // The other order.
        new.revoke().await;
        let before = cloud.authentications();
        ns.apply_secret("cloud", &cloud.clouds_yaml()).await;
        await_authentication(&cloud, before).await;
        ns.bind(claim("revoked").from("public")).await;
        assert_eq!(ns.await_bound(&claim("before").name(), SOON).await, address);
        let reasons = ns.events(Kind::Pool, "public").await;
        assert!(reasons.iter().all(|(reason, _)| reason == "Ready"), "{reasons:?}");
        secrets::assert_not_shown(ns).await;
    })
    .await;
}

/// Waits until the pool has reported its addresses: from then on only a change triggers a reconcile soon.
async fn await_settled(ns: &Namespace, allocated: u64) {
    eventually(RECOVERY, async || {
        let pool = ns.get(Kind::Pool, "public").await.expect("it is there");
        match pool.data["status"]["addresses"]["allocated"].as_u64() {
            Some(count) if count == allocated => Ok(()),
            other => Err(format!("allocated {other:?}")),
        }
    })
    .await;
}

async fn await_authentication(cloud: &OpenStackProxy, before: usize) {
    eventually(TRIGGERED, async || match cloud.authentications() {
        after if after > before => Ok(()),
        _ => Err("there was no request to Keystone with the new credentials"),
    })
    .await;
}

/// Only the Secret triggers the pool: there is no new claim, and its next resync is far away.
#[tokio::test]
async fn broken_secret_of_a_ready_pool_is_reported_until_it_is_fixed() {
    controller();
    with_namespace(async |ns| {
        ns.create_secret_for("demo").await;
        ns.create(pool("public").network("public-large")).await;
        let address = ns.bind(claim("web").from("public")).await;
        await_settled(ns, 1).await;
        for (bad, reason) in [
            (with_password(&secrets::new_password()), "AuthenticationFailed"),
            ("clouds:\n  openstack: [\n".to_owned(), "CredentialsInvalid"),
        ] {
            ns.apply_secret("cloud", &bad).await;
            ns.await_condition(Kind::Pool, "public", "Ready", "False", reason, TRIGGERED).await;
            ns.create_secret_for("demo").await;
            ns.await_condition(Kind::Pool, "public", "Ready", "True", "Ready", TRIGGERED).await;
        }
        ns.patch(Kind::Pool, "public", json!({"spec": {"identityRef": {"name": "unknown"}}})).await;
        ns.await_condition(Kind::Pool, "public", "Ready", "False", "SecretNotFound", SOON).await;
        ns.patch(Kind::Pool, "public", json!({"spec": {"identityRef": {"name": "cloud"}}})).await;
        await_ready(ns).await;
        assert_eq!(ns.await_bound(&claim("web").name(), SOON).await, address);
        secrets::assert_not_shown(ns).await;
    })
    .await;
}

#[tokio::test]
async fn secret_is_kept_exactly_while_a_pool_names_it() {
    controller();
    with_namespace(async |ns| {
        ns.create_secret_for("demo").await;
        ns.create(pool("public").network("public-large")).await;
        await_ready(ns).await;
        ns.apply_secret("next", &clouds_yaml(&cloud_entry("demo"))).await;
        ns.patch(Kind::Pool, "public", json!({"spec": {"identityRef": {"name": "next"}}})).await;
        ns.delete(Kind::Secret, "cloud").await;
        ns.await_gone(Kind::Secret, "cloud", RECOVERY).await;

        ns.delete(Kind::Secret, "next").await;
        ns.bind(claim("web").from("public")).await;
        ns.release(&claim("web").name()).await;
        ns.await_gone(Kind::Claim, &claim("web").name(), SOON).await;
        assert!(ns.get(Kind::Secret, "next").await.is_some(), "the pool needs it for cleaning up");
        ns.delete(Kind::Pool, "public").await;
        ns.await_gone(Kind::Pool, "public", RECOVERY).await;
        ns.await_gone(Kind::Secret, "next", RECOVERY).await;
    })
    .await;
}

#[tokio::test]
async fn credentials_of_another_project_stop_the_pool_without_touching_its_addresses() {
    controller();
    with_namespace(async |ns| {
        ns.create_secret_for("demo").await;
        ns.create(pool("public").network("public-large")).await;
        let here = ns.bind(claim("here").from("public")).await;
        await_settled(ns, 1).await;
        let demo = ns.cloud().await;
        let before = demo.find(&here).await.expect("it is there");

        ns.create_secret_for("other").await;
        let other = Cloud::named("other").await;
        let message = ns.await_condition(Kind::Pool, "public", "Ready", "False", "ProjectChanged", TRIGGERED).await;
        for project in [demo.project(), other.project()] {
            assert!(message.contains(project), "{project} is not in {message:?}");
        }
        ns.await_condition(Kind::Pool, "public", "CredentialsValid", "False", "ProjectChanged", SOON).await;
        ns.create(claim("new").from("public")).await;
        let message =
            ns.await_condition(Kind::Claim, &claim("new").name(), "Ready", "False", "PoolNotReady", RECOVERY).await;
        assert!(message.contains("ProjectChanged"), "{message}");
        // A bound claim keeps its address and its condition.
        assert_eq!(ns.await_bound(&claim("here").name(), SOON).await, here);
        ns.await_condition(Kind::Claim, &claim("here").name(), "Ready", "True", "AddressAllocated", SOON).await;
        assert_eq!(demo.find(&here).await.as_ref(), Some(&before), "it is not touched");

        ns.create_secret_for("demo").await;
        await_ready(ns).await;
        ns.await_bound(&claim("new").name(), RECOVERY).await;
        assert_eq!(demo.find(&here).await, Some(before));
    })
    .await;
}

#[tokio::test]
async fn deleted_pool_with_credentials_of_another_project_waits_for_the_right_ones() {
    with_namespace(async |ns| {
        ns.create_secret_for("demo").await;
        ns.restart_controller();
        ns.create(pool("public").network("public-large").min_free(1).served_in(&ns.name)).await;
        await_ready(ns).await;
        let spare = eventually(RECOVERY, async || {
            let id = ns.get(Kind::Pool, "public").await.expect("it is there").data["status"]["poolID"].clone();
            let id = id.as_str().ok_or("no id yet")?.to_owned();
            let all = ns.cloud().await.floating_ips().await;
            all.into_iter().find(|fip| fip.description.contains(&id)).map(|fip| fip.address).ok_or("no spare yet")
        })
        .await;
        ns.kill_controllers();
        ns.create_secret_for("other").await;
        ns.restart_controller();
        ns.await_condition(Kind::Pool, "public", "Ready", "False", "ProjectChanged", RECOVERY).await;
        ns.delete(Kind::Pool, "public").await;
        let message = ns.await_condition(Kind::Pool, "public", "Ready", "False", "Deleting", RECOVERY).await;
        for part in ["the credentials are for project", "abandon=true"] {
            assert!(message.contains(part), "{part:?} is not in {message:?}");
        }
        assert!(ns.cloud().await.find(&spare).await.is_some(), "it is not touched");
        ns.create_secret_for("demo").await;
        // No floating IP is deleted while a call of the first controller may still take effect.
        ns.await_gone(Kind::Pool, "public", AFTER_CRASH).await;
        assert!(ns.cloud().await.find(&spare).await.is_none(), "it is deleted with its pool");
    })
    .await;
}

/// The answers of Keystone name the real Neutron as that of another region. A controller that knew the pool's own region
/// would release with the session that it has.
#[tokio::test]
async fn credentials_of_another_region_stop_the_pool_and_what_is_deleted_waits_for_the_right_ones() {
    let cloud = OpenStackProxy::to_cloud("demo").await;
    with_namespace(async |ns| {
        ns.apply_secret("cloud", &cloud.clouds_yaml()).await;
        ns.restart_controller();
        ns.create(pool("public").network("public-large").served_in(&ns.name)).await;
        let address = ns.bind(claim("web").from("public")).await;
        await_settled(ns, 1).await;
        let demo = ns.cloud().await;
        let before = demo.find(&address).await.expect("it is there");

        ns.kill_controllers();
        cloud.set_faults([Fault::changed(TOKEN, |catalogue| catalogue.replace("RegionOne", "RegionTwo"))]);
        ns.apply_secret("cloud", &cloud.clouds_yaml().replace("RegionOne", "RegionTwo")).await;
        ns.restart_controller();
        let message = ns.await_condition(Kind::Pool, "public", "Ready", "False", "ProjectChanged", RECOVERY).await;
        for part in ["are for region RegionTwo", "are in region RegionOne"] {
            assert!(message.contains(part), "{part:?} is not in {message:?}");
        }
        cloud.forget_calls();
        let web = claim("web").name();
        ns.release(&web).await;
        ns.delete(Kind::Pool, "public").await;
        let message = ns.await_condition(Kind::Pool, "public", "Ready", "False", "Deleting", RECOVERY).await;
        assert!(message.contains("are in region RegionOne"), "{message}");
        tokio::time::sleep(SOON).await;
        assert_eq!(cloud.writes(), [] as [String; 0]);
        assert_eq!(demo.find(&address).await, Some(before), "it is not touched");
        assert!(ns.get(Kind::Claim, &web).await.is_some(), "its floating IP is not released");

        cloud.remove_faults();
        ns.apply_secret("cloud", &cloud.clouds_yaml()).await;
        ns.await_gone(Kind::Claim, &web, AFTER_CRASH).await;
        ns.await_gone(Kind::Pool, "public", AFTER_CRASH).await;
        assert!(demo.find(&address).await.is_none(), "it is deleted with its pool");
    })
    .await;
}

#[tokio::test]
async fn pool_that_is_being_deleted_takes_the_new_credentials_of_its_secret() {
    controller();
    let old = ApplicationCredential::create().await;
    let cloud = OpenStackProxy::to_cloud("demo").await;
    with_namespace(async |ns| {
        ns.apply_secret("cloud", &cloud.through_proxy(&old.clouds_yaml)).await;
        ns.create(pool("public").network("public-large")).await;
        let address = ns.bind(claim("web").from("public")).await;
        await_settled(ns, 1).await;
        ns.delete(Kind::Pool, "public").await;
        ns.await_condition(Kind::Pool, "public", "Ready", "False", "Deleting", SOON).await;
        old.revoke().await;
        // Neutron and Keystone remember for a while what they have accepted.
        cloud.set_faults([Fault::unauthorized(NEUTRON)]);
        let web = claim("web").name();
        ns.release(&web).await;
        ns.await_condition(Kind::Claim, &web, "Ready", "False", "ReleaseFailed", RECOVERY).await;

        // They lead past the proxy, to another Keystone for the controller: it waits for what it sent before, as after a crash.
        ns.create_secret_for("demo").await;
        ns.await_gone(Kind::Claim, &web, AFTER_CRASH).await;
        ns.await_gone(Kind::Pool, "public", RECOVERY).await;
        assert!(ns.cloud().await.find(&address).await.is_none(), "it is deleted with its pool");
    })
    .await;
}

/// At the highest verbosity libraries log too.
#[tokio::test]
async fn secrets_are_not_logged_at_any_verbosity() {
    let credential = ApplicationCredential::create().await;
    let demo = Cloud::named("demo").await;
    with_namespace(async |ns| {
        let controller = ns.start_controller(&ns.world.account, &["--v=4"]);
        let token = secrets::remember(demo.token());
        for (name, yaml) in [
            ("wrong", with_password(&secrets::new_password())),
            ("application", credential.clouds_yaml.clone()),
            ("token", with_token(&token, demo.project())),
        ] {
            ns.apply_secret(name, &yaml).await;
            let pool = pool(name).network("public-large").served_in(&ns.name);
            ns.create(pool.with("identityRef", json!({"name": name, "cloudName": "openstack"}))).await;
        }
        ns.await_condition(Kind::Pool, "wrong", "Ready", "False", "AuthenticationFailed", SOON).await;
        for name in ["application", "token"] {
            ns.bind(claim(name).from(name)).await;
            ns.release(&claim(name).name()).await;
            ns.await_gone(Kind::Claim, &claim(name).name(), SOON).await;
        }
        ns.create_secret_for("demo").await;
        ns.patch(Kind::Pool, "wrong", json!({"spec": {"identityRef": {"name": "cloud"}}})).await;
        ns.await_condition(Kind::Pool, "wrong", "Ready", "True", "Ready", RECOVERY).await;
        for name in ["application", "token", "wrong"] {
            ns.delete(Kind::Pool, name).await;
            ns.await_gone(Kind::Pool, name, RECOVERY).await;
        }
        let log = controller.log();
        assert!(log.contains("TRACE") || log.contains("DEBUG"), "it is verbose: {}", log.len());
        secrets::assert_not_in("the log", &log);
        controller.assert_running();
    })
    .await;
    let (status, _) = demo.call(Method::GET, "floatingips", None).await;
    assert!(status.is_success());
    credential.revoke().await;
}
