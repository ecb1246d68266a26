//! A validated identity for Keystone: a user, an application credential or a token.

use openstack_sdk_auth_core::types::{Domain, Project};
use openstack_sdk_auth_core::{AuthError, AuthTokenScope, OpenStackMultifactorAuthMethod};
use openstack_sdk_auth_password::PasswordAuthenticator;
use openstack_sdk_auth_token::TokenAuthenticator;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};

use super::{CredentialsError, cloud};

/// Keystone's initial domain, and openstacksdk's default.
const DEFAULT_DOMAIN_ID: &str = "default";

/// Refers to a user or a project. An id needs no domain; a name is unique only within one.
#[derive(Clone)]
pub(in crate::openstack) enum EntityRef {
    Id(String),
    Name { name: String, domain: DomainRef },
}

#[derive(Clone)]
pub(in crate::openstack) enum DomainRef {
    Id(String),
    Name(String),
}

#[derive(Clone)]
pub(in crate::openstack) enum Identity {
    Password { user: EntityRef, password: SecretString, project: Option<EntityRef> },
    ApplicationCredential { id: String, secret: SecretString },
    NamedApplicationCredential { name: String, user: EntityRef, secret: SecretString },
    Token { token: SecretString, project: Option<EntityRef> },
}

impl Identity {
    pub(super) fn new(auth: cloud::Auth, auth_type: Option<&str>) -> Result<Self, CredentialsError> {
        match auth_type.filter(|auth_type| !auth_type.is_empty()) {
            Some("password" | "v3password") => Self::password(auth),
            Some("v3applicationcredential" | "applicationcredential") => Self::application_credential(auth),
            Some("token" | "v3token") => Self::token(auth),
            Some(other) => Err(CredentialsError::UnknownAuthType { auth_type: other.chars().take(64).collect() }),
            // openstacksdk defaults to a password here; Gophercloud, and so CAPO, chooses by the fields that are present.
            // With a password both are the same, and otherwise only the second works.
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
        if let Some(id) = non_empty(&auth.application_credential_id) {
            return Ok(Self::ApplicationCredential { id, secret });
        }
        let name = non_empty(&auth.application_credential_name).ok_or(CredentialsError::MissingField {
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

    pub(in crate::openstack) fn auth_type(&self) -> &'static str {
        match self {
            Self::Password { .. } => "v3password",
            Self::ApplicationCredential { .. } | Self::NamedApplicationCredential { .. } => "v3applicationcredential",
            Self::Token { .. } => "v3token",
        }
    }

    /// Must not appear in any message.
    pub(in crate::openstack) fn secret(&self) -> &SecretString {
        match self {
            Self::Password { password, .. } => password,
            Self::ApplicationCredential { secret, .. } | Self::NamedApplicationCredential { secret, .. } => secret,
            Self::Token { token, .. } => token,
        }
    }

    /// The body of `POST /v3/auth/tokens`.
    #[expect(clippy::indexing_slicing, reason = "what is indexed here was made as an object here or by the SDK")]
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
            // Not by the SDK's plugin: for a credential by name it sends the user's domain as `user_domain_id` (0.22.7),
            // where Keystone requires `domain` and answers 400.
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
}

impl EntityRef {
    fn values(&self) -> Vec<(&'static str, &String)> {
        match self {
            Self::Id(id) => vec![("user_id", id)],
            Self::Name { name, domain: DomainRef::Id(domain) } => vec![("username", name), ("user_domain_id", domain)],
            Self::Name { name, domain: DomainRef::Name(domain) } => {
                vec![("username", name), ("user_domain_name", domain)]
            }
        }
    }

    fn as_json(&self) -> Value {
        match self {
            Self::Id(id) => json!({"id": id}),
            Self::Name { name, domain: DomainRef::Id(domain) } => json!({"name": name, "domain": {"id": domain}}),
            Self::Name { name, domain: DomainRef::Name(domain) } => json!({"name": name, "domain": {"name": domain}}),
        }
    }

    fn as_project(&self) -> Project {
        match self {
            Self::Id(id) => Project { id: Some(id.clone()), name: None, domain: None },
            Self::Name { name, domain } => {
                let domain = match domain {
                    DomainRef::Id(id) => Domain { id: Some(id.clone()), name: None },
                    DomainRef::Name(name) => Domain { id: None, name: Some(name.clone()) },
                };
                Project { id: None, name: Some(name.clone()), domain: Some(domain) }
            }
        }
    }
}

fn non_empty(value: &Option<String>) -> Option<String> {
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

fn user(auth: &cloud::Auth) -> Option<EntityRef> {
    if let Some(id) = non_empty(&auth.user_id) {
        return Some(EntityRef::Id(id));
    }
    let domain = domain(auth, &auth.user_domain_id, &auth.user_domain_name);
    non_empty(&auth.username).map(|name| EntityRef::Name { name, domain })
}

fn project(auth: &cloud::Auth) -> Option<EntityRef> {
    if let Some(id) = non_empty(&auth.project_id) {
        return Some(EntityRef::Id(id));
    }
    let domain = domain(auth, &auth.project_domain_id, &auth.project_domain_name);
    non_empty(&auth.project_name).map(|name| EntityRef::Name { name, domain })
}

/// The domain given for this user or project, else the one given for both, else the default one.
fn domain(auth: &cloud::Auth, id: &Option<String>, name: &Option<String>) -> DomainRef {
    let by_id = |id: &Option<String>| non_empty(id).map(DomainRef::Id);
    let by_name = |name: &Option<String>| non_empty(name).map(DomainRef::Name);
    by_id(id)
        .or_else(|| by_name(name))
        .or_else(|| by_id(&auth.domain_id))
        .or_else(|| by_name(&auth.domain_name))
        .or_else(|| by_id(&auth.default_domain_id))
        .or_else(|| by_name(&auth.default_domain_name))
        .or_else(|| by_id(&auth.default_domain))
        .unwrap_or_else(|| DomainRef::Id(DEFAULT_DOMAIN_ID.to_owned()))
}
