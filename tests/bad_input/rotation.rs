//! Credentials of every kind, and a Secret that changes while its pool is at work.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use super::secrets;
use crate::support::{
    Cloud, Controller, HEALS, Kind, Namespace, SOON, Wire, claim, cloud_entry, clouds_yaml, controller, eventually,
    pool, unique, with_namespace,
};

/// As long as a changed Secret may take to have its effect.
const TAKES_EFFECT: Duration = HEALS;
/// Sooner than a pool with a problem looks again by itself: only whoever hears of the change is as quick.
const HEARS: Duration = Duration::from_millis(7500);

/// The same for a controller that starts after another one was killed.
const FENCED: Duration = Duration::from_secs(90);

/// An application credential of the user `demo`, and its `clouds.yaml`.
struct Credential {
    http: reqwest::Client,
    url: String,
    token: String,
    clouds_yaml: String,
}

impl Credential {
    async fn create() -> Self {
        let demo = Cloud::named("demo").await;
        let keystone = cloud_entry("demo")["auth"]["auth_url"].as_str().expect("demo has an auth_url").to_owned();
        let http = reqwest::Client::builder().no_proxy().build().expect("an HTTP client needs nothing");
        let who = http.get(format!("{keystone}/auth/tokens")).header("X-Auth-Token", demo.token());
        let who = who.header("X-Subject-Token", demo.token()).send().await.expect("Keystone answers");
        let who: Value = who.json().await.expect("it answers in JSON");
        let user = who["token"]["user"]["id"].as_str().expect("a token has a user");
        let url = format!("{keystone}/users/{user}/application_credentials");
        let secret = secrets::password();
        let body = json!({"application_credential": {"name": unique("t"), "secret": secret}});
        // Keystone's cache of roles is at odds with its database now and then, and it answers 400.
        let id = eventually(SOON, async || {
            let made = http.post(&url).header("X-Auth-Token", demo.token()).json(&body).send().await;
            let made: Value = made.expect("Keystone answers").json().await.expect("it answers in JSON");
            made["application_credential"]["id"].as_str().map(str::to_owned).ok_or(made)
        })
        .await;
        let clouds_yaml = clouds_yaml(&json!({
            "auth_type": "v3applicationcredential", "region_name": "RegionOne",
            "auth": {"auth_url": keystone, "application_credential_id": id, "application_credential_secret": secret}
        }));
        Self { url: format!("{url}/{id}"), token: demo.token().to_owned(), http, clouds_yaml }
    }

    async fn revoke(&self) {
        let sent = self.http.delete(&self.url).header("X-Auth-Token", &self.token).send().await;
        assert!(sent.expect("Keystone answers").status().is_success(), "an application credential can be deleted");
    }
}

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

async fn is_ready(ns: &Namespace) {
    ns.await_condition(Kind::Pool, "public", "Ready", "True", "Ready", TAKES_EFFECT).await;
}

#[tokio::test]
async fn an_application_credential_and_a_token_serve_as_well_as_a_password() {
    controller();
    let credential = Credential::create().await;
    let demo = Cloud::named("demo").await;
    with_namespace(async |ns| {
        let token = secrets::keep(demo.token());
        for (name, yaml) in
            [("application", credential.clouds_yaml.clone()), ("token", with_token(&token, demo.project()))]
        {
            ns.secret(name, &yaml).await;
            let identity = json!({"name": name, "cloudName": "openstack"});
            ns.create(pool(name).network("public-large").with("identityRef", identity)).await;
            ns.bind(claim(name).from(name)).await;
        }
        secrets::are_not_shown(ns).await;
    })
    .await;
    credential.revoke().await;
}

#[tokio::test]
async fn a_rotated_secret_takes_effect_without_a_restart_and_bound_claims_do_not_notice() {
    controller();
    let (old, new) = (Credential::create().await, Credential::create().await);
    let cloud = Wire::to("demo").await;
    with_namespace(async |ns| {
        ns.secret("cloud", &cloud.leading_here(&old.clouds_yaml)).await;
        ns.create(pool("public").network("public-large")).await;
        let address = ns.bind(claim("before").from("public")).await;
        is_settled(ns, 1).await;

        // As it should be done: the new one first, and then the old one goes.
        let asked = cloud.authentications();
        ns.secret("cloud", &cloud.leading_here(&new.clouds_yaml)).await;
        is_asked_again(&cloud, asked).await;
        old.revoke().await;
        ns.bind(claim("rotated").from("public")).await;
        is_settled(ns, 2).await;

        // And as it happens.
        new.revoke().await;
        let asked = cloud.authentications();
        ns.secret("cloud", &cloud.clouds_yaml()).await;
        is_asked_again(&cloud, asked).await;
        ns.bind(claim("revoked").from("public")).await;
        assert_eq!(ns.await_bound(&claim("before").name(), SOON).await, address);
        let reasons = ns.events(Kind::Pool, "public").await;
        assert!(reasons.iter().all(|(reason, _)| reason == "Ready"), "{reasons:?}");
        secrets::are_not_shown(ns).await;
    })
    .await;
}

/// The pool has reported what it holds, and nothing is left to be done: only a change wakes it.
async fn is_settled(ns: &Namespace, allocated: u64) {
    eventually(TAKES_EFFECT, async || {
        let pool = ns.get(Kind::Pool, "public").await.expect("it is there");
        match pool.data["status"]["addresses"]["allocated"].as_u64() {
            Some(count) if count == allocated => Ok(()),
            other => Err(format!("allocated {other:?}")),
        }
    })
    .await;
}

async fn is_asked_again(cloud: &Wire, before: usize) {
    eventually(HEARS, async || match cloud.authentications() {
        after if after > before => Ok(()),
        _ => Err("Keystone is not asked with the new credentials"),
    })
    .await;
}

/// Nothing wakes the pool but the Secret: no claim comes, and its audit is a minute away.
#[tokio::test]
async fn a_secret_that_goes_bad_under_a_pool_that_is_well_is_told_and_heals() {
    controller();
    with_namespace(async |ns| {
        ns.secret_for("demo").await;
        ns.create(pool("public").network("public-large")).await;
        let address = ns.bind(claim("web").from("public")).await;
        is_settled(ns, 1).await;
        for (bad, reason) in [
            (with_password(&secrets::password()), "AuthenticationFailed"),
            ("clouds:\n  openstack: [\n".to_owned(), "CredentialsInvalid"),
        ] {
            ns.secret("cloud", &bad).await;
            ns.await_condition(Kind::Pool, "public", "Ready", "False", reason, HEARS).await;
            ns.secret_for("demo").await;
            ns.await_condition(Kind::Pool, "public", "Ready", "True", "Ready", HEARS).await;
        }
        // A name that is not there.
        ns.patch(Kind::Pool, "public", json!({"spec": {"identityRef": {"name": "nobodys"}}})).await;
        ns.await_condition(Kind::Pool, "public", "Ready", "False", "SecretNotFound", SOON).await;
        ns.patch(Kind::Pool, "public", json!({"spec": {"identityRef": {"name": "cloud"}}})).await;
        is_ready(ns).await;
        assert_eq!(ns.await_bound(&claim("web").name(), SOON).await, address);
        secrets::are_not_shown(ns).await;
    })
    .await;
}

#[tokio::test]
async fn a_secret_stays_while_the_pool_names_it_and_no_longer() {
    controller();
    with_namespace(async |ns| {
        ns.secret_for("demo").await;
        ns.create(pool("public").network("public-large")).await;
        is_ready(ns).await;
        ns.secret("next", &clouds_yaml(&cloud_entry("demo"))).await;
        ns.patch(Kind::Pool, "public", json!({"spec": {"identityRef": {"name": "next"}}})).await;
        ns.delete(Kind::Secret, "cloud").await;
        ns.await_gone(Kind::Secret, "cloud", HEALS).await;

        ns.delete(Kind::Secret, "next").await;
        ns.bind(claim("web").from("public")).await;
        ns.release(&claim("web").name()).await;
        ns.await_gone(Kind::Claim, &claim("web").name(), SOON).await;
        assert!(ns.get(Kind::Secret, "next").await.is_some(), "the pool needs it for cleaning up");
        ns.delete(Kind::Pool, "public").await;
        ns.await_gone(Kind::Pool, "public", HEALS).await;
        ns.await_gone(Kind::Secret, "next", HEALS).await;
    })
    .await;
}

#[tokio::test]
async fn credentials_of_another_project_stop_the_pool_and_touch_nothing() {
    controller();
    with_namespace(async |ns| {
        ns.secret_for("demo").await;
        ns.create(pool("public").network("public-large")).await;
        let here = ns.bind(claim("here").from("public")).await;
        is_settled(ns, 1).await;
        let demo = ns.cloud().await;
        let before = demo.find(&here).await.expect("it is there");

        ns.secret_for("other").await;
        let other = Cloud::named("other").await;
        let message = ns.await_condition(Kind::Pool, "public", "Ready", "False", "ProjectChanged", HEARS).await;
        for project in [demo.project(), other.project()] {
            assert!(message.contains(project), "{project} is not in {message:?}");
        }
        ns.await_condition(Kind::Pool, "public", "CredentialsValid", "False", "ProjectChanged", SOON).await;
        ns.create(claim("new").from("public")).await;
        let told = ns.await_condition(Kind::Claim, &claim("new").name(), "Ready", "False", "PoolNotReady", HEALS).await;
        assert!(told.contains("ProjectChanged"), "{told}");
        // Who has an address keeps it, and is not told otherwise.
        assert_eq!(ns.await_bound(&claim("here").name(), SOON).await, here);
        ns.await_condition(Kind::Claim, &claim("here").name(), "Ready", "True", "AddressAllocated", SOON).await;
        assert_eq!(demo.find(&here).await.as_ref(), Some(&before), "nothing is done to it");

        ns.secret_for("demo").await;
        is_ready(ns).await;
        ns.await_bound(&claim("new").name(), HEALS).await;
        assert_eq!(demo.find(&here).await, Some(before));
    })
    .await;
}

#[tokio::test]
async fn pool_that_is_deleted_with_credentials_of_another_project_waits_for_the_right_ones() {
    with_namespace(async |ns| {
        let filter = unique("filter");
        let start = || Controller::start(&[&format!("--watch-filter={filter}"), &format!("--namespace={}", ns.name)]);
        ns.secret_for("demo").await;
        let first = start();
        let pool = pool("public").network("public-large").preallocate(1);
        ns.create(pool.label("cluster.x-k8s.io/watch-filter", &filter)).await;
        is_ready(ns).await;
        let spare = eventually(HEALS, async || {
            let id = ns.get(Kind::Pool, "public").await.expect("it is there").data["status"]["poolID"].clone();
            let id = id.as_str().ok_or("no id yet")?.to_owned();
            let all = ns.cloud().await.floating_ips().await;
            all.into_iter().find(|fip| fip.description.contains(&id)).map(|fip| fip.address).ok_or("no spare yet")
        })
        .await;
        first.kill();
        ns.secret_for("other").await;
        let _second = start();
        ns.await_condition(Kind::Pool, "public", "Ready", "False", "ProjectChanged", HEALS).await;
        ns.delete(Kind::Pool, "public").await;
        let message = ns.await_condition(Kind::Pool, "public", "Ready", "False", "Deleting", HEALS).await;
        for part in ["the credentials are those of project", "abandon=true"] {
            assert!(message.contains(part), "{part:?} is not in {message:?}");
        }
        assert!(ns.cloud().await.find(&spare).await.is_some(), "nothing is done to it");
        ns.secret_for("demo").await;
        // Nor is anything of a pool that was there before taken off while a call of the first controller may still land.
        ns.await_gone(Kind::Pool, "public", FENCED).await;
        assert!(ns.cloud().await.find(&spare).await.is_none(), "it is deleted with its pool");
    })
    .await;
}

/// At the highest verbosity too, where libraries have their say.
#[tokio::test]
async fn no_verbosity_shows_a_secret() {
    let credential = Credential::create().await;
    let demo = Cloud::named("demo").await;
    with_namespace(async |ns| {
        let filter = unique("run");
        let own =
            Controller::start(&["--v=4", &format!("--watch-filter={filter}"), &format!("--namespace={}", ns.name)]);
        let token = secrets::keep(demo.token());
        for (name, yaml) in [
            ("wrong", with_password(&secrets::password())),
            ("application", credential.clouds_yaml.clone()),
            ("token", with_token(&token, demo.project())),
        ] {
            ns.secret(name, &yaml).await;
            let pool = pool(name).network("public-large").label("cluster.x-k8s.io/watch-filter", &filter);
            ns.create(pool.with("identityRef", json!({"name": name, "cloudName": "openstack"}))).await;
        }
        ns.await_condition(Kind::Pool, "wrong", "Ready", "False", "AuthenticationFailed", SOON).await;
        for name in ["application", "token"] {
            ns.bind(claim(name).from(name)).await;
            ns.release(&claim(name).name()).await;
            ns.await_gone(Kind::Claim, &claim(name).name(), SOON).await;
        }
        // The wrong one must be let go by a controller that runs.
        for name in ["application", "token"] {
            ns.delete(Kind::Pool, name).await;
            ns.await_gone(Kind::Pool, name, HEALS).await;
        }
        ns.secret_for("demo").await;
        ns.patch(Kind::Pool, "wrong", json!({"spec": {"identityRef": {"name": "cloud"}}})).await;
        ns.await_condition(Kind::Pool, "wrong", "Ready", "True", "Ready", HEALS).await;
        ns.delete(Kind::Pool, "wrong").await;
        ns.await_gone(Kind::Pool, "wrong", HEALS).await;
        let log = own.log();
        assert!(log.contains("TRACE") || log.contains("DEBUG"), "it is verbose: {}", log.len());
        secrets::are_not_in("the log", &log);
        own.assert_running();
    })
    .await;
    let (status, _) = demo.call(Method::GET, "floatingips", None).await;
    assert!(status.is_success());
    credential.revoke().await;
}
