//! The Secret and what is written in it.

use serde_json::{Value, json};

use super::case::{Case, run_all};
use super::secrets;
use crate::support::{Tls, cloud_entry, clouds_yaml};

const NOT_VALID: (&str, &str) = ("CredentialsValid", "False");
const REASON: &str = "CredentialsInvalid";

fn good() -> Value {
    json!({"clouds.yaml": clouds_yaml(&cloud_entry("demo"))})
}

#[tokio::test]
async fn a_secret_that_cannot_be_used_is_told_and_heals() {
    let password = secrets::password();
    let with = |field: &str, value: &str| {
        let mut entry = cloud_entry("demo");
        entry[field] = value.into();
        entry["auth"]["password"] = password.clone().into();
        clouds_yaml(&entry)
    };
    let mut homeless = cloud_entry("demo");
    homeless["auth"]["auth_url"].take();
    let elsewhere = json!({"clouds": {"demo": cloud_entry("demo"), "other": cloud_entry("other")}}).to_string();
    let unclosed = format!("clouds:\n  openstack:\n    auth: {{password: {password}, username: demo\n");
    // Of the right form, and no certificate.
    let damaged = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let (_, stranger) = Tls::listen().await;
    let half = stranger.lines().take(4).collect::<Vec<_>>().join("\n");
    run_all([
        Case::new("no-secret")
            .own_secret()
            .tells(
                "SecretNotFound",
                NOT_VALID,
                ["Secret no-secret", "spec.identityRef.name", "create it", "clouds.yaml"],
            )
            .mended_by_secret(good()),
        Case::new("no-key")
            .secret(json!({"clouds.yml": clouds_yaml(&cloud_entry("demo"))}))
            .tells(REASON, NOT_VALID, ["Secret no-key", "no key clouds.yaml", "it has clouds.yml", "add it"])
            .mended_by_secret(good()),
        Case::new("no-such-cloud")
            .clouds_yaml(elsewhere)
            .tells(REASON, NOT_VALID, ["\"openstack\"", "it has demo, other", "identityRef.cloudName"])
            .mended_by_spec(json!({"identityRef": {"cloudName": "demo"}})),
        Case::new("not-yaml")
            .clouds_yaml(unclosed)
            .tells(REASON, NOT_VALID, ["Secret not-yaml", "clouds.yaml", "line 3"])
            .mended_by_secret(good()),
        Case::new("empty")
            .clouds_yaml("")
            .tells(REASON, NOT_VALID, ["clouds.yaml cannot be read"])
            .mended_by_secret(good()),
        Case::new("no-auth-url")
            .clouds_yaml(clouds_yaml(&homeless))
            .tells(REASON, NOT_VALID, ["auth.auth_url is missing", "set it to Keystone's URL"])
            .mended_by_secret(good()),
        Case::new("another-kind-of-authentication")
            .clouds_yaml(with("auth_type", "v3oidcpassword"))
            .tells(REASON, NOT_VALID, ["auth_type \"v3oidcpassword\"", "use v3password"])
            .mended_by_secret(good()),
        Case::new("points-at-a-file")
            .clouds_yaml(with("cacert", "/etc/ssl/ca.pem"))
            .tells(REASON, NOT_VALID, ["cacert in clouds.yaml points outside the Secret", "into key cacert"])
            .mended_by_secret(good()),
        Case::new("points-at-a-profile")
            .clouds_yaml(with("profile", "vexxhost"))
            .tells(REASON, NOT_VALID, ["profile in clouds.yaml points outside the Secret", "copy"])
            .mended_by_secret(good()),
        Case::new("ca-is-a-path")
            .secret(json!({"clouds.yaml": good()["clouds.yaml"], "cacert": "/etc/ssl/ca.pem"}))
            .tells(REASON, NOT_VALID, ["key cacert of the Secret", "as PEM"])
            .mended_by_secret(good()),
        Case::new("ca-is-damaged")
            .secret(json!({"clouds.yaml": good()["clouds.yaml"], "cacert": damaged}))
            .tells(REASON, NOT_VALID, ["key cacert of the Secret", "as PEM"])
            .mended_by_secret(good()),
        Case::new("ca-is-cut-off")
            .secret(json!({"clouds.yaml": good()["clouds.yaml"], "cacert": half}))
            .tells(REASON, NOT_VALID, ["key cacert of the Secret", "as PEM"])
            .mended_by_secret(good()),
    ])
    .await;
}
