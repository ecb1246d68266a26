use std::collections::BTreeMap;

use k8s_openapi::ByteString;

use super::*;

const PASSWORD: &str = r#"
clouds:
  openstack:
    region_name: RegionOne
    auth: {auth_url: "https://keystone.example.com:5000", username: demo, password: hunter2, project_name: demo}
  other:
"#;

fn secret(yaml: &str) -> BTreeMap<String, ByteString> {
    BTreeMap::from([(CLOUDS_YAML.to_owned(), ByteString(yaml.as_bytes().to_vec()))])
}

fn read(yaml: &str) -> Result<Credentials, CredentialsError> {
    Credentials::from_secret(&secret(yaml), "openstack", None)
}

fn auth(auth_type: &str, auth: &str) -> Result<Credentials, CredentialsError> {
    read(&format!("clouds:\n  openstack:\n    {auth_type}\n    auth: {{auth_url: \"http://k/v3\", {auth}}}\n"))
}

fn message(result: Result<Credentials, CredentialsError>) -> String {
    result.expect_err("these credentials are bad").to_string()
}

#[test]
fn names_without_a_domain_are_in_the_default_domain() {
    let request = read(PASSWORD).unwrap().identity.request().unwrap();
    assert_eq!(
        request,
        serde_json::json!({"auth": {
            "identity": {"methods": ["password"],
                "password": {"user": {"name": "demo", "domain": {"id": "default"}, "password": "hunter2"}}},
            "scope": {"project": {"name": "demo", "domain": {"id": "default"}}}}})
    );
}

#[test]
fn one_domain_applies_to_user_and_project_names_but_not_to_ids() {
    let request = auth("", "username: u, password: p, project_name: x, domain_name: d").unwrap().identity.request();
    let request = request.unwrap();
    assert_eq!(request["auth"]["identity"]["password"]["user"]["domain"], serde_json::json!({"name": "d"}));
    assert_eq!(request["auth"]["scope"]["project"]["domain"], serde_json::json!({"name": "d"}));
    let request = auth("", "user_id: u, password: p, project_id: x, domain_name: d").unwrap().identity.request();
    let request = request.unwrap();
    assert_eq!(request["auth"]["identity"]["password"]["user"], serde_json::json!({"id": "u", "password": "p"}));
    assert_eq!(request["auth"]["scope"]["project"], serde_json::json!({"id": "x"}));
}

#[test]
fn an_application_credential_by_name_has_its_users_domain() {
    let credentials = auth(
        "auth_type: v3applicationcredential",
        "application_credential_name: a, application_credential_secret: s, username: u, user_domain_name: d",
    );
    assert_eq!(
        credentials.unwrap().identity.request().unwrap()["auth"]["identity"]["application_credential"],
        serde_json::json!({"name": "a", "secret": "s", "user": {"name": "u", "domain": {"name": "d"}}})
    );
}

#[test]
fn the_authentication_type_is_inferred_from_the_fields() {
    let kind = |fields: &str| auth("", fields).unwrap().identity.auth_type();
    assert_eq!(kind("username: u, password: p"), "v3password");
    assert_eq!(kind("application_credential_id: i, application_credential_secret: s"), "v3applicationcredential");
    assert_eq!(kind("token: t"), "v3token");
}

#[test]
fn a_password_of_digits_keeps_its_leading_zero() {
    let credentials = auth("", "username: u, password: 0123").unwrap();
    let request = credentials.identity.request().unwrap();
    assert_eq!(request["auth"]["identity"]["password"]["user"]["password"], "0123");
}

#[test]
fn the_identity_url_ends_in_v3_and_a_slash() {
    for (written, expected) in [
        ("https://k:5000", "https://k:5000/v3/"),
        ("https://k:5000/v3", "https://k:5000/v3/"),
        ("https://k:5000/v3/", "https://k:5000/v3/"),
        ("https://k/identity", "https://k/identity/v3/"),
        ("https://k/identity/v3?x=1#y", "https://k/identity/v3/"),
    ] {
        assert_eq!(identity_url(Some(written)).unwrap().as_str(), expected);
    }
    for bad in ["k:5000", "ftp://k", "https://u:p@k/v3", "https://k/v2.0", "nonsense"] {
        let message = identity_url(Some(bad)).unwrap_err().to_string();
        assert!(message.starts_with("auth.auth_url in clouds.yaml cannot be used: "), "{message}");
    }
}

#[test]
fn the_region_of_the_pool_overrides_that_of_the_cloud() {
    assert_eq!(read(PASSWORD).unwrap().region.as_deref(), Some("RegionOne"));
    let other = Credentials::from_secret(&secret(PASSWORD), "openstack", Some("RegionTwo")).unwrap();
    assert_eq!(other.region.as_deref(), Some("RegionTwo"));
    assert_ne!(other.fingerprint(), read(PASSWORD).unwrap().fingerprint());
}

#[test]
fn the_fingerprint_depends_only_on_effective_content() {
    let first = read(PASSWORD).unwrap().fingerprint();
    assert_eq!(first, read(&format!("# a comment\n{PASSWORD}")).unwrap().fingerprint());
    assert_ne!(first, read(&PASSWORD.replace("hunter2", "hunter3")).unwrap().fingerprint());
    assert_ne!(first, read(&PASSWORD.replace("    auth:", "    verify: false\n    auth:")).unwrap().fingerprint());
    let mut with_ca = secret(PASSWORD);
    let ca = rcgen::generate_simple_self_signed(vec!["k".to_owned()]).unwrap().cert.pem();
    with_ca.insert(CACERT.to_owned(), ByteString(ca.into_bytes()));
    assert_ne!(first, Credentials::from_secret(&with_ca, "openstack", None).unwrap().fingerprint());
}

#[test]
fn a_keystone_is_its_url_and_how_it_is_verified() {
    let with_ca = |cas: &[&str]| {
        let mut data = secret(PASSWORD);
        data.insert(CACERT.to_owned(), ByteString(cas.concat().into_bytes()));
        Credentials::from_secret(&data, "openstack", None).unwrap().keystone()
    };
    let ca = |name: &str| rcgen::generate_simple_self_signed(vec![name.to_owned()]).unwrap().cert.pem();
    let keystone = |from: &str, to: &str| read(&PASSWORD.replace(from, to)).unwrap().keystone();
    let usual = keystone("", "");
    assert_eq!(usual, keystone("hunter2", "hunter3"), "the user does not matter");
    assert_eq!(usual, keystone("https://keystone.example.com:5000", "HTTPS://Keystone.example.com:5000/v3/"));
    assert_ne!(usual, keystone("keystone.example.com", "keystone.example.org"));
    assert_ne!(usual, keystone("    auth:", "    verify: false\n    auth:"));
    let (one, two) = (ca("one"), ca("two"));
    assert_ne!(usual, with_ca(&[&one]));
    assert_ne!(with_ca(&[&one]), with_ca(&[&two]));
    assert_eq!(with_ca(&[&one, &two]), with_ca(&[&two, &one]));
}

#[test]
fn debug_output_contains_no_secret() {
    for fields in [
        "username: u, password: hunter2",
        "token: hunter2",
        "application_credential_id: i, application_credential_secret: hunter2",
    ] {
        let printed = format!("{:?}", auth("", fields).unwrap());
        assert!(!printed.contains("hunter2"), "{printed}");
        assert!(printed.contains("auth_url"), "{printed}");
    }
}

#[test]
fn every_error_names_what_to_fix() {
    let no_key = BTreeMap::from([("clouds.yml".to_owned(), ByteString(vec![]))]);
    let message_of = |data: &BTreeMap<String, ByteString>| message(Credentials::from_secret(data, "openstack", None));
    assert_eq!(message_of(&no_key), "the Secret has no key clouds.yaml (it has clouds.yml): add it");
    assert_eq!(message_of(&BTreeMap::new()), "the Secret has no key clouds.yaml (it has none): add it");
    let binary = BTreeMap::from([(CLOUDS_YAML.to_owned(), ByteString(vec![0xff, 0xfe]))]);
    assert!(message_of(&binary).starts_with("key clouds.yaml of the Secret is not UTF-8 text"));

    let unknown = Credentials::from_secret(&secret(PASSWORD), "prod", None);
    assert_eq!(
        message(unknown),
        "clouds.yaml has no cloud named \"prod\" (it has openstack, other): set identityRef.cloudName"
    );
    let empty = Credentials::from_secret(&secret(PASSWORD), "other", None);
    assert!(message(empty).starts_with("auth is missing in clouds.yaml"));
    for (fields, names) in [
        ("password: p", "auth.username is missing"),
        ("username: u", "auth.password is missing"),
        ("username: u, password: \"\"", "auth.password is missing"),
        ("application_credential_secret: s", "auth.application_credential_id is missing"),
        ("application_credential_name: n, application_credential_secret: s", "auth.username is missing"),
    ] {
        assert!(message(auth("", fields)).starts_with(names), "{}", message(auth("", fields)));
    }
    let oidc = message(auth("auth_type: v3oidcpassword", "username: u"));
    assert_eq!(
        oidc,
        "auth_type \"v3oidcpassword\" in clouds.yaml is not supported: use v3password, v3applicationcredential or v3token"
    );
    assert!(
        message(read("clouds:\n  openstack:\n    auth: {username: u, password: p}\n")).starts_with("auth.auth_url")
    );
    assert!(message(auth("interface: outer", "username: u, password: p")).starts_with("interface in clouds.yaml"));
    for field in ["cacert: /etc/ca.pem", "cert: /c.pem", "key: /k.pem", "profile: vexxhost", "cloud: vexxhost"] {
        let message = message(auth(field, "username: u, password: p"));
        assert!(message.contains("points outside the Secret"), "{message}");
    }
    let mut with_ca = secret(PASSWORD);
    for damaged in ["", "/etc/ssl/ca.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
        with_ca.insert(CACERT.to_owned(), ByteString(damaged.as_bytes().to_vec()));
        assert!(message_of(&with_ca).starts_with("key cacert of the Secret "));
    }
}

#[test]
fn a_malformed_file_is_reported_by_line_and_not_quoted() {
    let unclosed = "clouds:\n  openstack:\n    auth: {password: hunter2, username: demo\n";
    let wrong_kind = "clouds:\n  openstack:\n    auth: hunter2\n";
    let bad_bool = "clouds:\n  openstack:\n    verify: hunter2\n";
    let doubled = "clouds:\n  openstack:\n    auth:\n      password: hunter2\n      password: hunter2\n";
    for (yaml, line) in [(unclosed, "line 3"), (wrong_kind, "line 3"), (bad_bool, "line 3"), (doubled, "line 5")] {
        let error = read(yaml).expect_err("it is malformed");
        let message = error.to_string();
        assert!(message.contains(line), "{message}");
        assert!(!format!("{message} {error:?}").contains("hunter2"), "{message}");
    }
    assert!(message(read("clouds: ~\n")).contains("it has no section \"clouds\""));
    assert!(message(read("other: 1\n")).contains("it has no section \"clouds\""));
    assert!(message(read("")).starts_with("clouds.yaml cannot be read"));
}

#[test]
fn keys_that_are_too_large_are_named_and_not_parsed() {
    let padded = |size: usize| format!("{PASSWORD}#{}", "x".repeat(size - PASSWORD.len() - 1));
    assert!(read(&padded(65_536)).is_ok());
    let refused =
        "key clouds.yaml of the Secret has 65537 bytes, and 65536 are allowed: leave only what the pools need";
    assert_eq!(message(read(&padded(65_537))), refused);
    let with_cacert = |size| {
        let mut data = secret(PASSWORD);
        data.insert(CACERT.into(), ByteString(vec![b'#'; size]));
        message(Credentials::from_secret(&data, "openstack", None))
    };
    assert!(with_cacert(262_144).starts_with("key cacert of the Secret holds no certificate"));
    assert!(with_cacert(262_145).starts_with("key cacert of the Secret has 262145 bytes, and 262144 are allowed"));
}

#[test]
fn nothing_is_built_of_other_clouds_and_little_of_what_aliases_refer_to() {
    assert!(read(&format!("{PASSWORD}  third: {{verify: maybe, auth: [[]]}}\n")).is_ok());
    let anchor = |length| read(&format!("x: &x [{}]\n{PASSWORD}", "{},".repeat(length)));
    assert!(anchor(1000).is_ok());
    assert!(message(anchor(10_000)).starts_with("clouds.yaml cannot be read"));
    let many: String = (0..300).map(|cloud| format!("  c{cloud:03}:\n")).collect();
    assert_eq!(
        message(read(&format!("clouds:\n{many}"))),
        "clouds.yaml has no cloud named \"openstack\" (it has c000, c001, c002, c003, c004, c005, c006, c007, …): set identityRef.cloudName"
    );
}
