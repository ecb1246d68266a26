//! Keystone: its address, credentials that it refuses, and its catalogue.

use std::net::SocketAddr;
use std::time::Duration;

use futures::FutureExt;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::case::{Case, run_all};
use super::secrets;
use crate::support::{Cloud, Fault, OpenStackProxy, TOKEN, cloud_entry, clouds_yaml};

const REFUSED: (&str, &str) = ("CredentialsValid", "False");
const NOT_KNOWN: (&str, &str) = ("CredentialsValid", "Unknown");

fn good() -> Value {
    json!({"clouds.yaml": clouds_yaml(&cloud_entry("demo"))})
}

fn clouds_yaml_with(cloud: &str, field: &str, value: &str) -> String {
    let mut entry = cloud_entry(cloud);
    entry["auth"][field] = value.into();
    clouds_yaml(&entry)
}

fn refused_credentials() -> Vec<Case> {
    vec![
        Case::new("wrong-password")
            .clouds_yaml(clouds_yaml_with("demo", "password", &secrets::new_password()))
            .reports("AuthenticationFailed", REFUSED, ["Keystone at 127.0.0.1", "username, password", "clouds.yaml"])
            .fixed_by_secret(good()),
        Case::new("wrong-application-credential")
            .clouds_yaml(clouds_yaml_with("demo-app", "application_credential_secret", &secrets::new_password()))
            .reports("AuthenticationFailed", REFUSED, ["check the application credential", "clouds.yaml"])
            .fixed_by_secret(good()),
        Case::new("no-such-project")
            .clouds_yaml(clouds_yaml_with("demo", "project_name", "unknown"))
            .reports("AuthenticationFailed", REFUSED, ["project", "clouds.yaml"])
            .fixed_by_secret(good()),
        Case::new("no-such-region")
            .clouds_yaml(clouds_yaml(&cloud_entry("demo")))
            .pool(|pool| {
                let identity = json!({"name": "no-such-region", "cloudName": "openstack", "region": "RegionTwo"});
                pool.with("identityRef", identity)
            })
            .reports(
                "CredentialsInvalid",
                REFUSED,
                ["RegionTwo", "these have one: RegionOne", "set identityRef.region"],
            )
            .fixed_by_spec(json!({"identityRef": {"region": "RegionOne"}})),
    ]
}

/// A port above those that the kernel gives to clients: one of them would be taken by the time it is opened.
async fn closed_port() -> SocketAddr {
    for port in 61_000..u16::MAX {
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        if TcpListener::bind(address).await.is_ok() {
            return address;
        }
    }
    panic!("every port is taken");
}

async fn unreachable_keystones() -> Vec<Case> {
    let neutron = Cloud::named("demo").await.endpoint().to_owned();
    let slow = OpenStackProxy::to_cloud("demo").await;
    slow.set_faults([Fault::delay(TOKEN, Duration::from_secs(60))]);
    let (slow_yaml, answer_quickly) = (slow.clouds_yaml(), move || {
        slow.remove_faults();
        std::future::ready(()).boxed()
    });
    let closed = closed_port().await;
    let open_port = move || {
        async move {
            OpenStackProxy::listen(TcpListener::bind(closed).await.expect("the port is still free"), "demo").await;
        }
        .boxed()
    };
    vec![
        Case::new("not-keystone")
            .clouds_yaml(clouds_yaml_with("demo", "auth_url", &neutron))
            .reports("OpenStackUnreachable", NOT_KNOWN, ["no Keystone v3", "check auth_url"])
            .fixed_by_secret(good()),
        Case::new("port-closed")
            .clouds_yaml(clouds_yaml_with("demo", "auth_url", &format!("http://{closed}/v3")))
            .reports("OpenStackUnreachable", NOT_KNOWN, [&format!("{closed} refuses connections"), "auth_url"])
            .fixed_by(open_port),
        Case::new("no-such-host")
            .clouds_yaml(clouds_yaml_with("demo", "auth_url", "http://keystone.invalid:5000/v3"))
            .reports("OpenStackUnreachable", NOT_KNOWN, ["keystone.invalid:5000 cannot be resolved", "auth_url"])
            .fixed_by_secret(good()),
        Case::new("slow")
            .clouds_yaml(slow_yaml)
            .reports("OpenStackUnreachable", NOT_KNOWN, ["Keystone", "does not answer in time"])
            .fixed_by(answer_quickly),
    ]
}

fn untrusted_keystones(private: &OpenStackProxy, certificate: &str, other: &OpenStackProxy) -> Vec<Case> {
    let trusted = json!({"clouds.yaml": private.clouds_yaml(), "cacert": certificate});
    vec![
        Case::new("unknown-ca")
            .clouds_yaml(private.clouds_yaml())
            .reports("OpenStackUnreachable", NOT_KNOWN, ["is not trusted", "put its CA into key cacert of the Secret"])
            .fixed_by_secret(trusted.clone()),
        Case::new("ca-of-another")
            .secret(json!({"clouds.yaml": other.clouds_yaml(), "cacert": certificate}))
            .reports("OpenStackUnreachable", NOT_KNOWN, ["is not trusted", "put its CA into key cacert of the Secret"])
            .fixed_by_secret(good()),
    ]
}

#[tokio::test]
async fn unusable_keystone_is_reported_until_it_is_fixed() {
    let (private, certificate) = OpenStackProxy::with_tls("demo").await;
    let (other, _) = OpenStackProxy::with_tls("demo").await;
    let mut cases = refused_credentials();
    cases.extend(unreachable_keystones().await);
    cases.extend(untrusted_keystones(&private, &certificate, &other));
    run_all(cases).await;
    assert!(private.count("POST floatingips") > 0, "with its CA the pool uses it by TLS");
}
