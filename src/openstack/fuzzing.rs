//! What a Secret and a flag say about OpenStack.

#![expect(clippy::unwrap_used, reason = "a panic is a find")]

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::OnceLock;

use k8s_openapi::ByteString;
use url::{Host, Url};

use super::credentials::{CACERT, CLOUDS_YAML};
use super::hosts::{HostList, HostPattern};
pub(crate) use super::neutron::fuzzing::assert_path_segment;
pub use super::neutron::fuzzing::{floating_ips, networks, quota};
pub use super::session::fuzzing::{refusal, token};
use super::{AllowedHosts, Credentials};
use crate::fuzzing::{parts, text_parts};

/// Of the credentials of the targets: nothing may show it.
pub(super) const PASSWORD: &str = "hunter2-horse-battery";

pub(super) fn credentials() -> &'static Credentials {
    static CREDENTIALS: OnceLock<Credentials> = OnceLock::new();
    CREDENTIALS.get_or_init(|| {
        let yaml = format!(
            "clouds: {{openstack: {{auth: {{auth_url: 'https://k.test:5000/v3', username: u, password: '{PASSWORD}'}}}}}}"
        );
        let data = BTreeMap::from([(CLOUDS_YAML.to_owned(), ByteString(yaml.into_bytes()))]);
        Credentials::from_secret(&data, "openstack", None).unwrap()
    })
}

/// A Secret's `clouds.yaml`, and its `cacert`.
pub fn clouds_yaml(data: &[u8]) {
    let mut parts = parts(data);
    let keys = [CLOUDS_YAML, CACERT].map(str::to_owned).into_iter();
    let data: BTreeMap<_, _> = keys.zip(parts.by_ref()).map(|(key, part)| (key, ByteString(part.to_vec()))).collect();
    let read = || Credentials::from_secret(&data, "openstack", None);
    match read() {
        Ok(credentials) => {
            let url = &credentials.auth_url;
            assert!(
                matches!(url.scheme(), "http" | "https") && url.has_host() && url.path().ends_with("/v3/"),
                "{url}"
            );
            assert!(url.username().is_empty() && url.password().is_none() && url.query().is_none(), "{url}");
            assert_eq!(url.join("auth/tokens").unwrap().path(), format!("{}auth/tokens", url.path()));
            assert_eq!(read().unwrap().fingerprint(), credentials.fingerprint());
            credentials.identity.request().unwrap();
            let _ = format!("{credentials:?} {:?}", credentials.keystone());
        }
        Err(error) => {
            // Only keys, the names of clouds and the authentication type are quoted.
            let _ = error.to_string();
        }
    }
}

/// A value of `--openstack-hosts`, and a URL.
pub fn hosts(data: &[u8]) {
    let mut parts = text_parts(data);
    let (list, url) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let Ok(HostList(patterns)) = list.parse::<HostList>() else { return };
    let written = |pattern: &HostPattern| match pattern {
        HostPattern::Any => "*".to_owned(),
        HostPattern::Name(name) => name.clone(),
        HostPattern::Below(name) => format!("*.{name}"),
        HostPattern::Range(range) => range.to_string(),
    };
    for pattern in &patterns {
        assert_eq!(written(pattern).parse().as_ref(), Ok(pattern));
        if let HostPattern::Name(name) = pattern {
            let url = Url::parse(&format!("https://{name}/v3")).unwrap();
            assert!(AllowedHosts::new(vec![pattern.clone()], [].into()).check(&url).is_ok(), "{url}");
        }
    }
    let has_ranges = patterns.iter().any(|pattern| matches!(pattern, HostPattern::Range(_)));
    let allowed = AllowedHosts::new(patterns, [].into());
    let Ok(url) = Url::parse(&url) else { return };
    let is_allowed = allowed.check(&url).is_ok();
    let address: Option<IpAddr> = match url.host() {
        Some(Host::Ipv4(address)) => Some(address.into()),
        Some(Host::Ipv6(address)) => Some(IpAddr::from(address).to_canonical()),
        _ => None,
    };
    let is_local = address.is_some_and(|address| address.is_loopback() || address.is_unspecified());
    assert!(!is_allowed || has_ranges || !is_local, "{url}");
}
