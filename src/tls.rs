//! TLS for HTTP clients.

use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};

/// Trusts the system's CAs and `additional` ones. Works without any CA, for example in a minimal image: then only plain
/// HTTP and servers of the additional CAs can be reached.
pub(crate) fn client_config<'a>(
    additional: impl IntoIterator<Item = CertificateDer<'a>>,
) -> Result<ClientConfig, rustls::Error> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots.add_parsable_certificates(additional);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}
