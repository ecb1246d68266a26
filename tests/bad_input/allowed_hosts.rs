//! Servers that the platform does not allow, with a controller that has no list of them: the Keystone of the tests is on
//! loopback.

use serde_json::Value;

use crate::support::{Kind, RECOVERY, SOON, claim, cloud_entry, clouds_yaml, pool, with_namespace};

fn clouds_yaml_of(url: &str) -> String {
    let mut entry = cloud_entry("demo");
    entry["auth"]["auth_url"] = Value::from(url);
    clouds_yaml(&entry)
}

#[tokio::test]
async fn what_answers_at_an_address_that_a_tenant_chose_is_not_told() {
    with_namespace(async |ns| {
        ns.start_controller(&ns.world.account, &["--openstack-hosts="]);
        ns.create_secret_for("demo").await;
        ns.create(pool("public").network("public").served_in(&ns.name)).await;
        let told = ns.await_condition(Kind::Pool, "public", "Ready", "False", "CredentialsInvalid", SOON).await;
        assert!(told.contains("127.0.0.1:") && told.contains("--openstack-hosts"), "{told}");
        ns.create(claim("web-0")).await;
        let told =
            ns.await_condition(Kind::Claim, &claim("web-0").name(), "Ready", "False", "PoolNotReady", SOON).await;
        assert!(told.contains("is not a server that this controller may connect to"), "{told}");

        ns.apply_secret("cloud", &clouds_yaml_of("http://no-such-host.invalid/v3")).await;
        let told = ns.await_condition(Kind::Pool, "public", "Ready", "False", "OpenStackUnreachable", RECOVERY).await;
        assert!(told.contains("the server does not answer as OpenStack does"), "{told}");
        assert!(!told.contains("no-such-host") && !told.contains("resolved"), "{told}");

        ns.create_secret_for("demo").await;
        ns.kill_controllers();
        ns.start_controller(&ns.world.account, &["--openstack-hosts=keystone.example.com,127.0.0.1"]);
        ns.await_bound(&claim("web-0").name(), RECOVERY).await;
    })
    .await;
}
