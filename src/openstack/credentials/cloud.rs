//! The known fields of a `clouds.yaml`, not yet validated.

use std::collections::BTreeSet;
use std::fmt;

use secrecy::SecretString;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};

use super::CredentialsError;

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

/// How many other clouds an error names at most.
pub(super) const NAMED: usize = 8;

/// Looks for one cloud. Nothing is built of the others: a short file can have very many, with aliases.
struct Search<'a> {
    name: &'a str,
    found: Option<Cloud>,
    /// The first others in alphabetical order, one more than are named.
    others: BTreeSet<String>,
    has_clouds: bool,
}

/// The section `clouds`.
struct Clouds<'s, 'a>(&'s mut Search<'a>);

impl<'de> Visitor<'de> for &mut Search<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("clouds.yaml")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut file: A) -> Result<(), A::Error> {
        while let Some(section) = file.next_key::<String>()? {
            match section.as_str() {
                "clouds" => file.next_value_seed(Clouds(self))?,
                // Other sections are ignored.
                _ => drop(file.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Clouds<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, yaml: D) -> Result<(), D::Error> {
        yaml.deserialize_option(self)
    }
}

impl<'de> Visitor<'de> for Clouds<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("clouds")
    }

    fn visit_none<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_some<D: Deserializer<'de>>(self, yaml: D) -> Result<(), D::Error> {
        yaml.deserialize_map(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut clouds: A) -> Result<(), A::Error> {
        self.0.has_clouds = true;
        while let Some(name) = clouds.next_key::<String>()? {
            if name == self.0.name {
                self.0.found = Some(clouds.next_value::<Option<Cloud>>()?.unwrap_or_default());
                continue;
            }
            clouds.next_value::<IgnoredAny>()?;
            self.0.others.insert(name);
            if self.0.others.len() > NAMED + 1 {
                self.0.others.pop_last();
            }
        }
        Ok(())
    }
}

pub(super) fn find(yaml: &str, name: &str) -> Result<Cloud, CredentialsError> {
    // Without the parser's snippets and messages: both quote the file, which contains a password. What aliases refer to is
    // kept by the parser, at a hundred times its length.
    let budget = serde_saphyr::budget! { max_recorded_anchor_events: 10_000, max_recorded_anchor_bytes: 1 << 20 };
    let options = serde_saphyr::options! { with_snippet: false, budget: budget };
    let mut search = Search { name, found: None, others: BTreeSet::new(), has_clouds: false };
    serde_saphyr::with_deserializer_from_str_with_options(yaml, options, |yaml| yaml.deserialize_map(&mut search))
        .map_err(|error| CredentialsError::Malformed {
            place: error.location().map(|place| (place.line(), place.column())),
            problem: "it is not YAML, or a field is not of its kind; see the documentation of clouds.yaml",
        })?;
    if !search.has_clouds {
        return Err(CredentialsError::Malformed { place: None, problem: "it has no section \"clouds\"" });
    }
    let known = search.others.into_iter().collect();
    search.found.ok_or_else(|| CredentialsError::NoSuchCloud { name: name.to_owned(), known })
}
