//! Credentials from a Secret: a `clouds.yaml` and, where the cloud's CA is not a public one, `cacert`.
//!
//! The format is openstacksdk's (<https://docs.openstack.org/openstacksdk/latest/user/config/configuration.html>), but
//! references to anything outside the Secret (vendor profiles, files) are rejected. Nothing here reads a file or the
//! environment, and no `Debug` output contains a secret.

mod cloud;
mod error;
mod identity;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use k8s_openapi::ByteString;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use secrecy::ExposeSecret;
use url::Url;

pub use error::CredentialsError;
pub(super) use identity::Identity;

use super::session::host_and_port;
use crate::parts_hash::hash_parts;

pub const CLOUDS_YAML: &str = "clouds.yaml";
/// The optional key of the Secret with CA certificates, used in addition to the system's.
pub const CACERT: &str = "cacert";

/// The largest `clouds.yaml`, in bytes. It is parsed at each reconcile of each pool that names it, as often as a tenant and
/// their cloud please, and reconciles of other tenants wait meanwhile.
const MAX_CLOUDS_YAML: usize = 64 << 10;
/// The same for `cacert`: a system's whole list of CAs fits.
const MAX_CACERT: usize = 256 << 10;

/// A hash over everything that has an effect, including CA and region.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint([u8; 32]);

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The whole hash would let a reader of the logs test guessed passwords offline.
        write!(f, "Fingerprint({:02x}{:02x}…)", self.0[0], self.0[1])
    }
}

/// Identifies a Keystone by its URL and by how it is authenticated: a hash over URL, verification and CAs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct KeystoneId([u8; 32]);

impl KeystoneId {
    /// The order of the CAs has no meaning. `auth_url` is normalised: see [`Credentials::from_secret`].
    pub fn new(auth_url: &Url, verify: bool, ca_certificates: &[CertificateDer<'_>]) -> Self {
        let trust = [u8::from(verify)];
        let authorities: BTreeSet<&[u8]> = ca_certificates.iter().map(AsRef::as_ref).collect();
        Self(hash_parts([auth_url.as_str().as_bytes(), &trust].into_iter().chain(authorities)))
    }
}

/// Names a cloud for people: Keystone's host and port, and the region if one is configured, as in
/// `keystone.example.com:5000/RegionOne`. Without a configured region the cloud has only one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CloudName(String);

impl CloudName {
    /// `auth_url` is normalised: see [`Credentials::from_secret`].
    pub fn new(auth_url: &Url, region: Option<&str>) -> Self {
        let keystone = host_and_port(auth_url);
        Self(region.map_or_else(|| keystone.clone(), |region| format!("{keystone}/{region}")))
    }

    /// As a tenant wrote it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Complete and well-formed, but not yet accepted by Keystone.
#[derive(Clone)]
pub struct Credentials {
    pub(super) identity: Identity,
    /// Keystone's URL, ending in `/v3/`.
    pub(super) auth_url: Url,
    pub(super) region: Option<String>,
    /// `public`, `internal` or `admin`.
    pub(super) interface: &'static str,
    pub(super) verify: bool,
    pub(super) ca_certificates: Vec<CertificateDer<'static>>,
    /// In bytes: of everything that has an effect, without the CAs.
    pub(super) size: usize,
    fingerprint: Fingerprint,
}

impl Credentials {
    /// Reads the cloud `cloud_name` from a Secret's data. `region` overrides the cloud's `region_name`.
    ///
    /// The error is meant for the condition of the pool that refers to the Secret.
    pub fn from_secret(
        data: &BTreeMap<String, ByteString>,
        cloud_name: &str,
        region: Option<&str>,
    ) -> Result<Self, CredentialsError> {
        let yaml = data.get(CLOUDS_YAML).ok_or_else(|| CredentialsError::MissingKey {
            key: CLOUDS_YAML,
            present: data.keys().cloned().collect(),
        })?;
        check_size(CLOUDS_YAML, yaml, MAX_CLOUDS_YAML)?;
        let yaml = std::str::from_utf8(&yaml.0).map_err(|_| CredentialsError::NotText { key: CLOUDS_YAML })?;
        let mut cloud = cloud::find(yaml, cloud_name)?;
        reject_external_references(&cloud)?;

        let auth = cloud.auth.take().ok_or(CredentialsError::MissingField {
            field: "auth",
            remedy: "add it, with auth_url and the credentials",
        })?;
        let auth_url = identity_url(auth.auth_url.as_deref())?;
        let interface = parse_interface(cloud.interface.as_deref().or(cloud.endpoint_type.as_deref()))?;
        let region = region.map(str::to_owned).or(cloud.region_name).filter(|region| !region.is_empty());
        let verify = cloud.verify.unwrap_or(true);
        let ca_certificates = match data.get(CACERT) {
            Some(pem) => {
                check_size(CACERT, pem, MAX_CACERT)?;
                parse_certificates(&pem.0)?
            }
            None => Vec::new(),
        };
        let identity = Identity::new(auth, cloud.auth_type.as_deref())?;

        // It contains the whole identity. If it cannot be built, the secret still makes the hash unique.
        let request = identity.request().map(|request| request.to_string()).unwrap_or_default();
        let secret = identity.secret().expose_secret();
        let region_name = region.as_deref().unwrap_or_default();
        let parts = [identity.auth_type(), &request, secret, auth_url.as_str(), region_name, interface];
        let size = parts.iter().map(|part| part.len()).fold(0, usize::saturating_add);
        let (parts, trust) = (parts.map(str::as_bytes), [u8::from(verify)]);
        let certificates = ca_certificates.iter().map(AsRef::as_ref);
        let fingerprint = Fingerprint(hash_parts(parts.into_iter().chain([&trust[..]]).chain(certificates)));
        Ok(Self { identity, auth_url, region, interface, verify, ca_certificates, size, fingerprint })
    }

    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    pub fn keystone(&self) -> KeystoneId {
        KeystoneId::new(&self.auth_url, self.verify, &self.ca_certificates)
    }

    pub fn cloud(&self) -> CloudName {
        CloudName::new(&self.auth_url, self.region.as_deref())
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("auth_type", &self.identity.auth_type())
            .field("auth_url", &self.auth_url.as_str())
            .field("region", &self.region)
            .field("fingerprint", &self.fingerprint)
            .finish_non_exhaustive()
    }
}

fn check_size(key: &'static str, value: &ByteString, max: usize) -> Result<(), CredentialsError> {
    let size = value.0.len();
    if size <= max { Ok(()) } else { Err(CredentialsError::TooLarge { key, size, max }) }
}

fn reject_external_references(cloud: &cloud::Cloud) -> Result<(), CredentialsError> {
    let reject = |field, remedy| Err(CredentialsError::ExternalReference { field, remedy });
    let is_set = |value: &Option<String>| value.as_deref().is_some_and(|value| !value.is_empty());
    if is_set(&cloud.cacert) {
        return reject("cacert", "put the CA's PEM into key cacert of the Secret and remove this line");
    }
    if is_set(&cloud.cert) {
        return reject("cert", "client certificates are not supported; use an application credential");
    }
    if is_set(&cloud.key) {
        return reject("key", "client certificates are not supported; use an application credential");
    }
    if is_set(&cloud.profile) {
        return reject("profile", "copy what the profile says, auth_url above all, into this cloud");
    }
    if is_set(&cloud.cloud) {
        return reject("cloud", "copy what the profile says, auth_url above all, into this cloud");
    }
    Ok(())
}

/// Keystone's v3 root. `auth_url` may lack the version; `Url::join` needs the final slash.
fn identity_url(auth_url: Option<&str>) -> Result<Url, CredentialsError> {
    let bad = |problem| CredentialsError::BadField { field: "auth.auth_url", problem };
    let written = auth_url.filter(|url| !url.is_empty()).ok_or(CredentialsError::MissingField {
        field: "auth.auth_url",
        remedy: "set it to Keystone's URL, such as https://keystone.example.com/v3",
    })?;
    let mut url = Url::parse(written).map_err(|_| bad("it is not a URL"))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(bad("it must begin with https:// or http://"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(bad("it holds a user or a password; put them into auth.username and auth.password"));
    }
    url.set_query(None);
    url.set_fragment(None);
    let path = url.path().trim_end_matches('/').to_owned();
    match path.rsplit('/').next() {
        Some("v3") => url.set_path(&format!("{path}/")),
        Some("v2.0") => {
            return Err(bad("it names version 2.0 of Keystone, which is gone; use the one that ends in /v3"));
        }
        _ => url.set_path(&format!("{path}/v3/")),
    }
    Ok(url)
}

fn parse_interface(written: Option<&str>) -> Result<&'static str, CredentialsError> {
    // `endpoint_type` is the older name, and `publicURL` the older value.
    match written.map(|written| written.strip_suffix("URL").unwrap_or(written)) {
        None | Some("" | "public") => Ok("public"),
        Some("internal") => Ok("internal"),
        Some("admin") => Ok("admin"),
        Some(_) => {
            Err(CredentialsError::BadField { field: "interface", problem: "it must be public, internal or admin" })
        }
    }
}

fn parse_certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, CredentialsError> {
    let bad = |problem| CredentialsError::BadCaCert { problem };
    let certificates: Vec<_> =
        CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().map_err(|_| bad("is damaged"))?;
    if certificates.is_empty() {
        return Err(bad("holds no certificate"));
    }
    // rustls would reject a bad certificate later, but here the message can name the key.
    let mut store = rustls::RootCertStore::empty();
    for certificate in &certificates {
        store.add(certificate.clone()).map_err(|_| bad("holds something that is no CA certificate"))?;
    }
    Ok(certificates)
}

#[cfg(test)]
mod tests;
