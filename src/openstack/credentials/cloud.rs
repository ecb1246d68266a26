//! The known fields of a `clouds.yaml`, not yet validated.

use std::collections::BTreeMap;

use secrecy::SecretString;
use serde::Deserialize;

use super::CredentialsError;

/// Other sections of the file are ignored.
#[derive(Deserialize)]
pub(super) struct CloudsYaml {
    #[serde(default)]
    pub(super) clouds: Option<BTreeMap<String, Option<Cloud>>>,
}

/// One entry of `clouds`. openstacksdk also accepts the fields of `auth` outside it, which is not usual.
#[derive(Deserialize, Default)]
pub(super) struct Cloud {
    #[serde(default)]
    pub(super) auth: Option<Auth>,
    pub(super) auth_type: Option<String>,
    pub(super) region_name: Option<String>,
    pub(super) interface: Option<String>,
    pub(super) endpoint_type: Option<String>,
    pub(super) verify: Option<bool>,
    pub(super) cacert: Option<String>,
    pub(super) cert: Option<String>,
    pub(super) key: Option<String>,
    pub(super) profile: Option<String>,
    pub(super) cloud: Option<String>,
}

/// The union of the fields of the three authentication types.
#[derive(Deserialize, Default)]
pub(super) struct Auth {
    pub(super) auth_url: Option<String>,
    pub(super) username: Option<String>,
    pub(super) user_id: Option<String>,
    pub(super) password: Option<SecretString>,
    pub(super) user_domain_id: Option<String>,
    pub(super) user_domain_name: Option<String>,
    pub(super) domain_id: Option<String>,
    pub(super) domain_name: Option<String>,
    pub(super) default_domain: Option<String>,
    pub(super) default_domain_id: Option<String>,
    pub(super) default_domain_name: Option<String>,
    #[serde(alias = "tenant_id")]
    pub(super) project_id: Option<String>,
    #[serde(alias = "tenant_name")]
    pub(super) project_name: Option<String>,
    pub(super) project_domain_id: Option<String>,
    pub(super) project_domain_name: Option<String>,
    pub(super) application_credential_id: Option<String>,
    pub(super) application_credential_name: Option<String>,
    pub(super) application_credential_secret: Option<SecretString>,
    #[serde(alias = "auth_token")]
    pub(super) token: Option<SecretString>,
}

pub(super) fn find(yaml: &str, name: &str) -> Result<Cloud, CredentialsError> {
    // Without the parser's snippets and messages: both quote the file, which contains a password.
    let options = serde_saphyr::options! { with_snippet: false };
    let file: CloudsYaml =
        serde_saphyr::from_str_with_options(yaml, options).map_err(|error| CredentialsError::Malformed {
            place: error.location().map(|place| (place.line(), place.column())),
            problem: "it is not YAML, or a field is not of its kind; see the documentation of clouds.yaml",
        })?;
    let Some(mut clouds) = file.clouds else {
        return Err(CredentialsError::Malformed { place: None, problem: "it has no section \"clouds\"" });
    };
    match clouds.remove(name) {
        Some(cloud) => Ok(cloud.unwrap_or_default()),
        None => Err(CredentialsError::NoSuchCloud { name: name.to_owned(), known: clouds.into_keys().collect() }),
    }
}
