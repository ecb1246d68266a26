//! Who we are to Keystone: one of three kinds, checked and complete.

use openstack_sdk_auth_core::types::{Domain, Project};
use openstack_sdk_auth_core::{AuthError, AuthTokenScope, OpenStackMultifactorAuthMethod};
use openstack_sdk_auth_password::PasswordAuthenticator;
use openstack_sdk_auth_token::TokenAuthenticator;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{CredentialsError, cloud};

/// The domain that Keystone is installed with, for whoever names none; openstacksdk's tools assume it too.
const DEFAULT_DOMAIN_ID: &str = "default";

/// By id, or by name within a domain.
#[derive(Clone)]
pub(in crate::openstack) enum Named {
    /// An id needs no domain.
    Id(String),
    /// A name is unique only within its domain.
    Name { name: String, domain: InDomain },
}

/// A domain, by id or by name.
#[derive(Clone)]
pub(in crate::openstack) enum InDomain {
    Id(String),
    Name(String),
}

/// What Keystone is told.
#[derive(Clone)]
pub(in crate::openstack) enum Identity {
    Password { user: Named, password: SecretString, project: Option<Named> },
    ApplicationCredential { id: String, secret: SecretString },
    NamedApplicationCredential { name: String, user: Named, secret: SecretString },
    Token { token: SecretString, project: Option<Named> },
}

impl Identity {
    pub(super) fn new(auth: cloud::Auth, auth_type: Option<&str>) -> Result<Self, CredentialsError> {
        match auth_type.filter(|auth_type| !auth_type.is_empty()) {
            Some("password" | "v3password") => Self::password(auth),
            Some("v3applicationcredential" | "applicationcredential") => Self::application_credential(auth),
            Some("token" | "v3token") => Self::token(auth),
            Some(other) => Err(CredentialsError::UnknownAuthType { auth_type: other.chars().take(64).collect() }),
            // openstacksdk says "password" here; Gophercloud, and so CAPO, goes by what is there. For whoever wrote a
            // password both are the same, and for the rest only the second works.
            None if auth.application_credential_secret.is_some() => Self::application_credential(auth),
            None if auth.token.is_some() && auth.password.is_none() => Self::token(auth),
            None => Self::password(auth),
        }
    }

    fn password(mut auth: cloud::Auth) -> Result<Self, CredentialsError> {
        let password = secret(auth.password.take(), "auth.password", "add the user's password")?;
        let user = user(&auth).ok_or(CredentialsError::MissingField {
            field: "auth.username",
            remedy: "add it, with user_domain_name, or add user_id",
        })?;
        Ok(Self::Password { user, password, project: project(&auth) })
    }

    fn application_credential(mut auth: cloud::Auth) -> Result<Self, CredentialsError> {
        let field = "auth.application_credential_secret";
        let secret =
            secret(auth.application_credential_secret.take(), field, "add the application credential's secret")?;
        if let Some(id) = given(&auth.application_credential_id) {
            return Ok(Self::ApplicationCredential { id, secret });
        }
        let name = given(&auth.application_credential_name).ok_or(CredentialsError::MissingField {
            field: "auth.application_credential_id",
            remedy: "add it, or add application_credential_name and the user",
        })?;
        let user = user(&auth).ok_or(CredentialsError::MissingField {
            field: "auth.username",
            remedy: "an application credential by name needs username and user_domain_name, or user_id",
        })?;
        Ok(Self::NamedApplicationCredential { name, user, secret })
    }

    fn token(mut auth: cloud::Auth) -> Result<Self, CredentialsError> {
        let token = secret(auth.token.take(), "auth.token", "add a valid token")?;
        Ok(Self::Token { token, project: project(&auth) })
    }

    /// Its name in a `clouds.yaml`.
    pub(in crate::openstack) fn auth_type(&self) -> &'static str {
        match self {
            Self::Password { .. } => "v3password",
            Self::ApplicationCredential { .. } | Self::NamedApplicationCredential { .. } => "v3applicationcredential",
            Self::Token { .. } => "v3token",
        }
    }

    /// What must never be seen in a message.
    pub(in crate::openstack) fn secret(&self) -> &SecretString {
        match self {
            Self::Password { password, .. } => password,
            Self::ApplicationCredential { secret, .. } | Self::NamedApplicationCredential { secret, .. } => secret,
            Self::Token { token, .. } => token,
        }
    }

    /// The body of `POST /v3/auth/tokens`.
    pub(in crate::openstack) fn request(&self) -> Result<Value, AuthError> {
        let (method, mut identity) = match self {
            Self::Password { user, password, .. } => {
                let mut values = std::collections::HashMap::from([("password".to_owned(), password.clone())]);
                for (key, value) in user.values() {
                    values.insert(key.to_owned(), SecretString::from(value.clone()));
                }
                PasswordAuthenticator.get_auth_data(&values)?
            }
            Self::Token { token, .. } => {
                let values = std::collections::HashMap::from([("token".to_owned(), token.clone())]);
                TokenAuthenticator.get_auth_data(&values)?
            }
            // Not by the SDK's plugin: for a credential by name it writes the user's domain as `user_domain_id` beside
            // the name (0.22.7), where Keystone wants `domain`, and is answered 400.
            Self::ApplicationCredential { id, secret } => (
                "application_credential",
                json!({"application_credential": {"id": id, "secret": secret.expose_secret()}}),
            ),
            Self::NamedApplicationCredential { name, user, secret } => (
                "application_credential",
                json!({"application_credential":
                    {"name": name, "secret": secret.expose_secret(), "user": user.as_json()}}),
            ),
        };
        identity["methods"] = json!([method]);
        let mut body = json!({"auth": {"identity": identity}});
        if let Self::Password { project: Some(project), .. } | Self::Token { project: Some(project), .. } = self {
            body["auth"]["scope"] = serde_json::to_value(AuthTokenScope::Project(project.as_project()))?;
        }
        Ok(body)
    }

    pub(super) fn hash_into(&self, hash: &mut Sha256) {
        // The request says all that Keystone is told. One that cannot be built differs from all others by its secret.
        let request = self.request().map(|request| request.to_string()).unwrap_or_default();
        hash_part(hash, self.auth_type().as_bytes());
        hash_part(hash, request.as_bytes());
        hash_part(hash, self.secret().expose_secret().as_bytes());
    }
}

impl Named {
    fn values(&self) -> Vec<(&'static str, &String)> {
        match self {
            Self::Id(id) => vec![("user_id", id)],
            Self::Name { name, domain: InDomain::Id(domain) } => vec![("username", name), ("user_domain_id", domain)],
            Self::Name { name, domain: InDomain::Name(domain) } => {
                vec![("username", name), ("user_domain_name", domain)]
            }
        }
    }

    fn as_json(&self) -> Value {
        match self {
            Self::Id(id) => json!({"id": id}),
            Self::Name { name, domain: InDomain::Id(domain) } => json!({"name": name, "domain": {"id": domain}}),
            Self::Name { name, domain: InDomain::Name(domain) } => json!({"name": name, "domain": {"name": domain}}),
        }
    }

    fn as_project(&self) -> Project {
        match self {
            Self::Id(id) => Project { id: Some(id.clone()), name: None, domain: None },
            Self::Name { name, domain } => {
                let domain = match domain {
                    InDomain::Id(id) => Domain { id: Some(id.clone()), name: None },
                    InDomain::Name(name) => Domain { id: None, name: Some(name.clone()) },
                };
                Project { id: None, name: Some(name.clone()), domain: Some(domain) }
            }
        }
    }
}

/// Adds a part to a hash so that no two lists of parts give the same bytes.
pub(super) fn hash_part(hash: &mut Sha256, part: &[u8]) {
    hash.update((part.len() as u64).to_be_bytes());
    hash.update(part);
}

fn given(value: &Option<String>) -> Option<String> {
    value.clone().filter(|value| !value.is_empty())
}

fn secret(
    value: Option<SecretString>,
    field: &'static str,
    remedy: &'static str,
) -> Result<SecretString, CredentialsError> {
    let value = value.filter(|value| !value.expose_secret().is_empty());
    value.ok_or(CredentialsError::MissingField { field, remedy })
}

fn user(auth: &cloud::Auth) -> Option<Named> {
    if let Some(id) = given(&auth.user_id) {
        return Some(Named::Id(id));
    }
    let domain = domain(auth, &auth.user_domain_id, &auth.user_domain_name);
    given(&auth.username).map(|name| Named::Name { name, domain })
}

fn project(auth: &cloud::Auth) -> Option<Named> {
    if let Some(id) = given(&auth.project_id) {
        return Some(Named::Id(id));
    }
    let domain = domain(auth, &auth.project_domain_id, &auth.project_domain_name);
    given(&auth.project_name).map(|name| Named::Name { name, domain })
}

/// Its own domain, else the one given for both, else the default one.
fn domain(auth: &cloud::Auth, id: &Option<String>, name: &Option<String>) -> InDomain {
    let by_id = |id: &Option<String>| given(id).map(InDomain::Id);
    let by_name = |name: &Option<String>| given(name).map(InDomain::Name);
    by_id(id)
        .or_else(|| by_name(name))
        .or_else(|| by_id(&auth.domain_id))
        .or_else(|| by_name(&auth.domain_name))
        .or_else(|| by_id(&auth.default_domain_id))
        .or_else(|| by_name(&auth.default_domain_name))
        .or_else(|| by_id(&auth.default_domain))
        .unwrap_or_else(|| InDomain::Id(DEFAULT_DOMAIN_ID.to_owned()))
}
