//! Keystone: the way to it, whether it takes the credentials, and what its catalogue has.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use serde_json::json;
use tokio::net::TcpListener;

use super::case::{Case, run_all};
use super::secrets;
use crate::support::{Cloud, Fault, TOKEN, Wire, cloud_entry, clouds_yaml};

const REFUSED: (&str, &str) = ("CredentialsValid", "False");
const NOT_KNOWN: (&str, &str) = ("CredentialsValid", "Unknown");

#[tokio::test]
async fn a_keystone_that_cannot_be_used_is_told_and_heals() {
    let good = json!({"clouds.yaml": clouds_yaml(&cloud_entry("demo"))});
    let with = |cloud: &str, field: &str, value: &str| {
        let mut entry = cloud_entry(cloud);
        entry["auth"][field] = value.into();
        clouds_yaml(&entry)
    };
    let neutron = Cloud::named("demo").await.endpoint().to_owned();

    let slow = Wire::to("demo").await;
    slow.set([Fault::delay(TOKEN, Duration::from_secs(60))]);
    let (slow_yaml, is_quick) = (slow.clouds_yaml(), move || {
        slow.set([]);
        std::future::ready(()).boxed()
    });
    let closed = TcpListener::bind("127.0.0.1:0").await.expect("a port").local_addr().expect("an address");
    let is_opened = move || {
        async move {
            Wire::listen(TcpListener::bind(closed).await.expect("nobody took the port"), "demo").await;
        }
        .boxed()
    };
    let (private, certificate) = Wire::with_tls("demo").await;
    let (other, _) = Wire::with_tls("demo").await;
    let trusted = json!({"clouds.yaml": private.clouds_yaml(), "cacert": certificate});
    let private = Arc::new(private);

    run_all([
        Case::new("wrong-password")
            .clouds_yaml(with("demo", "password", &secrets::password()))
            .tells("AuthenticationFailed", REFUSED, ["Keystone at 127.0.0.1", "username, password", "clouds.yaml"])
            .mended_by_secret(good.clone()),
        Case::new("wrong-application-credential")
            .clouds_yaml(with("demo-app", "application_credential_secret", &secrets::password()))
            .tells("AuthenticationFailed", REFUSED, ["check the application credential", "clouds.yaml"])
            .mended_by_secret(good.clone()),
        Case::new("no-such-project")
            .clouds_yaml(with("demo", "project_name", "nobodys"))
            .tells("AuthenticationFailed", REFUSED, ["project", "clouds.yaml"])
            .mended_by_secret(good.clone()),
        Case::new("no-such-region")
            .clouds_yaml(clouds_yaml(&cloud_entry("demo")))
            .pool(|pool| {
                let identity = json!({"name": "no-such-region", "cloudName": "openstack", "region": "RegionTwo"});
                pool.with("identityRef", identity)
            })
            .tells("CredentialsInvalid", REFUSED, ["RegionTwo", "these have: RegionOne", "set identityRef.region"])
            .mended_by_spec(json!({"identityRef": {"region": "RegionOne"}})),
        Case::new("not-keystone")
            .clouds_yaml(with("demo", "auth_url", &neutron))
            .tells("OpenStackUnreachable", NOT_KNOWN, ["no Keystone v3", "check auth_url"])
            .mended_by_secret(good.clone()),
        Case::new("port-closed")
            .clouds_yaml(with("demo", "auth_url", &format!("http://{closed}/v3")))
            .tells("OpenStackUnreachable", NOT_KNOWN, [&format!("{closed} refuses connections"), "auth_url"])
            .mended_by(is_opened),
        Case::new("no-such-host")
            .clouds_yaml(with("demo", "auth_url", "http://keystone.invalid:5000/v3"))
            .tells("OpenStackUnreachable", NOT_KNOWN, ["keystone.invalid:5000 cannot be resolved", "auth_url"])
            .mended_by_secret(good.clone()),
        Case::new("slow")
            .clouds_yaml(slow_yaml)
            .tells("OpenStackUnreachable", NOT_KNOWN, ["Keystone", "does not answer in time"])
            .mended_by(is_quick),
        Case::new("unknown-ca")
            .clouds_yaml(private.clouds_yaml())
            .tells("OpenStackUnreachable", NOT_KNOWN, ["is not trusted", "put its CA into key cacert of the Secret"])
            .mended_by_secret(trusted.clone()),
        Case::new("ca-of-another")
            .secret(json!({"clouds.yaml": other.clouds_yaml(), "cacert": trusted["cacert"]}))
            .tells("OpenStackUnreachable", NOT_KNOWN, ["is not trusted", "put its CA into key cacert of the Secret"])
            .mended_by_secret(good),
    ])
    .await;
    assert!(private.count("POST floatingips") > 0, "with its CA the whole way is by TLS");
}
