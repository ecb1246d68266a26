//! The Secret and its content.

use serde_json::{Value, json};

use super::case::{Case, run_all};
use super::secrets;
use crate::support::{Tls, cloud_entry, clouds_yaml};

const NOT_VALID: (&str, &str) = ("CredentialsValid", "False");
const REASON: &str = "CredentialsInvalid";

fn good() -> Value {
    json!({"clouds.yaml": clouds_yaml(&cloud_entry("demo"))})
}

fn unreadable_secrets() -> Vec<Case> {
    let elsewhere = json!({"clouds": {"demo": cloud_entry("demo"), "other": cloud_entry("other")}}).to_string();
    let password = secrets::new_password();
    let unclosed = format!("clouds:\n  openstack:\n    auth: {{password: {password}, username: demo\n");
    vec![
        Case::new("no-secret")
            .own_secret()
            .reports(
                "SecretNotFound",
                NOT_VALID,
                ["Secret no-secret", "spec.identityRef.name", "create it", "clouds.yaml"],
            )
            .fixed_by_secret(good()),
        Case::new("no-key")
            .secret(json!({"clouds.yml": clouds_yaml(&cloud_entry("demo"))}))
            .reports(REASON, NOT_VALID, ["Secret no-key", "no key clouds.yaml", "it has clouds.yml", "add it"])
            .fixed_by_secret(good()),
        Case::new("no-such-cloud")
            .clouds_yaml(elsewhere)
            .reports(REASON, NOT_VALID, ["\"openstack\"", "it has demo, other", "identityRef.cloudName"])
            .fixed_by_spec(json!({"identityRef": {"cloudName": "demo"}})),
        Case::new("not-yaml")
            .clouds_yaml(unclosed)
            .reports(REASON, NOT_VALID, ["Secret not-yaml", "clouds.yaml", "line 3"])
            .fixed_by_secret(good()),
        Case::new("empty")
            .clouds_yaml("")
            .reports(REASON, NOT_VALID, ["clouds.yaml cannot be read"])
            .fixed_by_secret(good()),
    ]
}

fn invalid_entries() -> Vec<Case> {
    let mut without_auth_url = cloud_entry("demo");
    without_auth_url["auth"]["auth_url"].take();
    let with = |field: &str, value: &str| {
        let mut entry = cloud_entry("demo");
        entry[field] = value.into();
        entry["auth"]["password"] = secrets::new_password().into();
        clouds_yaml(&entry)
    };
    vec![
        Case::new("no-auth-url")
            .clouds_yaml(clouds_yaml(&without_auth_url))
            .reports(REASON, NOT_VALID, ["auth.auth_url is missing", "set it to Keystone's URL"])
            .fixed_by_secret(good()),
        Case::new("another-kind-of-authentication")
            .clouds_yaml(with("auth_type", "v3oidcpassword"))
            .reports(REASON, NOT_VALID, ["auth_type \"v3oidcpassword\"", "use v3password"])
            .fixed_by_secret(good()),
        Case::new("points-at-a-file")
            .clouds_yaml(with("cacert", "/etc/ssl/ca.pem"))
            .reports(REASON, NOT_VALID, ["cacert in clouds.yaml points outside the Secret", "into key cacert"])
            .fixed_by_secret(good()),
        Case::new("points-at-a-profile")
            .clouds_yaml(with("profile", "vexxhost"))
            .reports(REASON, NOT_VALID, ["profile in clouds.yaml points outside the Secret", "copy"])
            .fixed_by_secret(good()),
    ]
}

async fn invalid_certificates() -> Vec<Case> {
    let (_, unknown_ca) = Tls::listen().await;
    let half = unknown_ca.lines().take(4).collect::<Vec<_>>().join("\n");
    let no_certificate = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".to_owned();
    let cases =
        [("ca-is-a-path", "/etc/ssl/ca.pem".to_owned()), ("ca-is-damaged", no_certificate), ("ca-is-cut-off", half)];
    let case = |(name, cacert)| {
        Case::new(name)
            .secret(json!({"clouds.yaml": good()["clouds.yaml"], "cacert": cacert}))
            .reports(REASON, NOT_VALID, ["key cacert of the Secret", "as PEM"])
            .fixed_by_secret(good())
    };
    cases.map(case).into()
}

#[tokio::test]
async fn unusable_secret_is_reported_until_it_is_fixed() {
    run_all([unreadable_secrets(), invalid_entries(), invalid_certificates().await].into_iter().flatten()).await;
}
