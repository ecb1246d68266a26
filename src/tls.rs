//! TLS for HTTP clients.

use std::sync::{Arc, OnceLock};

use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};

/// Trusts the system's CAs and `additional` ones. Works without any CA, for example in a minimal image: then only plain
/// HTTP and servers of the additional CAs can be reached.
pub(crate) fn client_config<'a>(
    additional: impl IntoIterator<Item = CertificateDer<'a>>,
) -> Result<ClientConfig, rustls::Error> {
    let mut roots = system_roots();
    let mut additional = additional.into_iter().peekable();
    if additional.peek().is_some() {
        Arc::make_mut(&mut roots).add_parsable_certificates(additional);
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

/// Read once, and shared by all clients without CAs of their own: they take more memory than the rest of a client.
fn system_roots() -> Arc<RootCertStore> {
    static ROOTS: OnceLock<Arc<RootCertStore>> = OnceLock::new();
    let read = || {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        Arc::new(roots)
    };
    ROOTS.get_or_init(read).clone()
}
