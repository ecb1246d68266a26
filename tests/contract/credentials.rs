//! All authentication types, with a real Keystone.

use caip_openstack::clock::Clock;
use caip_openstack::openstack::session::Sessions;
use caip_openstack::openstack::{Clouds, Credentials, Error, ErrorKind, Neutron};
use std::sync::Arc;

use super::real::{RealOperator, secret, world};
use super::{World, run_check};
use crate::support::{SOON, eventually};

/// Logs in with an `auth` section of these fields.
async fn log_in(operator: &RealOperator, region: &str, fields: &str) -> Result<Arc<dyn Neutron>, Error> {
    let yaml = format!(
        "clouds:\n  ours:\n    region_name: {region}\n    auth: {{auth_url: \"{}\", {fields}}}\n",
        operator.keystone()
    );
    let credentials = Credentials::from_secret(&secret(yaml.into_bytes()), "ours", None).expect("they are well formed");
    Sessions::new(Clock::system()).connect("team-a", &credentials).await
}

#[tokio::test]
async fn keystone_accepts_every_supported_authentication_type() {
    let (world, operator) = world().await;
    run_check(world, async |world: &World| {
        let (user, name, project) = operator.user();
        let (credential, token) = operator.application_credential().await;
        for fields in [
            format!("user_id: {user}, password: contract, project_id: {project}"),
            format!("username: {name}, password: contract, project_name: {name}"),
            format!("username: {name}, password: contract, project_name: {name}, domain_name: Default"),
            format!("username: {name}, user_domain_id: default, password: contract, project_name: {name}, project_domain_name: Default"),
            format!("application_credential_id: {credential}, application_credential_secret: contract"),
            format!("application_credential_name: contract, application_credential_secret: contract, username: {name}, user_domain_name: Default"),
            format!("application_credential_name: contract, application_credential_secret: contract, user_id: {user}"),
            format!("token: {token}, project_id: {project}"),
        ] {
            // Keystone's processes cache roles, so one may not know yet a role that was granted through another.
            let neutron = eventually(SOON, async || {
                log_in(&operator, "RegionOne", &fields).await.map_err(|error| format!("{fields}: {error}"))
            })
            .await;
            assert_eq!(neutron.scope(), world.neutron.scope(), "{fields}");
            assert_eq!(neutron.list_floating_ips().await.expect("it lists"), []);
        }
    })
    .await;
}

#[tokio::test]
async fn refusals_of_keystone_are_classified() {
    let (world, operator) = world().await;
    run_check(world, async |_: &World| {
        let (user, _, project) = operator.user();
        for (region, fields, kind) in [
            ("RegionOne", format!("user_id: {user}, password: wrong, project_id: {project}"), ErrorKind::Unauthorized),
            (
                "RegionOne",
                format!("user_id: {user}, password: contract, project_name: nothing"),
                ErrorKind::Unauthorized,
            ),
            (
                "RegionOne",
                "application_credential_id: none, application_credential_secret: x".to_owned(),
                ErrorKind::Unauthorized,
            ),
            ("RegionOne", "token: gAAAAA".to_owned(), ErrorKind::Unauthorized),
            ("RegionOne", format!("user_id: {user}, password: contract"), ErrorKind::Credentials),
            (
                "RegionTwo",
                format!("user_id: {user}, password: contract, project_id: {project}"),
                ErrorKind::NoNetworkService,
            ),
        ] {
            let Err(error) = log_in(&operator, region, &fields).await else { panic!("{fields}: it logs in") };
            assert_eq!(error.kind, kind, "{fields}: {error}");
        }
    })
    .await;
}
