//! An application credential of the user `demo`, created and revoked in Keystone.

use serde_json::{Value, json};

use super::secrets;
use crate::support::{Cloud, SOON, cloud_entry, clouds_yaml, eventually, unique};

pub(super) struct ApplicationCredential {
    http: reqwest::Client,
    url: String,
    token: String,
    pub(super) clouds_yaml: String,
}

impl ApplicationCredential {
    pub(super) async fn create() -> Self {
        let demo = Cloud::named("demo").await;
        let keystone = cloud_entry("demo")["auth"]["auth_url"].as_str().expect("demo has an auth_url").to_owned();
        let http = reqwest::Client::builder().no_proxy().build().expect("an HTTP client needs nothing");
        let token = http.get(format!("{keystone}/auth/tokens")).header("X-Auth-Token", demo.token());
        let token = token.header("X-Subject-Token", demo.token()).send().await.expect("Keystone answers");
        let token: Value = token.json().await.expect("it answers in JSON");
        let user = token["token"]["user"]["id"].as_str().expect("a token has a user");
        let url = format!("{keystone}/users/{user}/application_credentials");
        let secret = secrets::new_password();
        let body = json!({"application_credential": {"name": unique("t"), "secret": secret}});
        // Keystone sometimes answers 400, while its cache of roles is outdated.
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

    pub(super) async fn revoke(&self) {
        let sent = self.http.delete(&self.url).header("X-Auth-Token", &self.token).send().await;
        assert!(sent.expect("Keystone answers").status().is_success(), "an application credential can be deleted");
    }
}
