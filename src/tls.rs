//! TLS for HTTP clients.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, ServerName, TrustAnchor, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use crate::parts_hash::hash_parts;

/// Trusts these CAs, or any certificate if there are none to check. Does not resume sessions: a server chooses how large its
/// tickets are.
pub(crate) fn client_config(roots: Option<Arc<RootCertStore>>) -> Result<ClientConfig, rustls::Error> {
    let provider = Arc::new(ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions()?;
    let config = match roots {
        Some(roots) => config.with_root_certificates(roots),
        None => config.dangerous().with_custom_certificate_verifier(Arc::new(AnyCertificate(provider))),
    };
    let mut config = config.with_no_client_auth();
    config.resumption = Resumption::disabled();
    Ok(config)
}

/// For `verify: false`: accepts any certificate, also one that cannot be read.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// The system's CAs and `additional` ones. Works without any CA, for example in a minimal image: then only plain HTTP and
/// servers of the additional CAs can be reached.
///
/// Clients with the same additional CAs share them: they take more memory than the rest of a client.
pub(crate) fn roots(additional: &[CertificateDer<'_>]) -> Arc<RootCertStore> {
    static IN_USE: Mutex<BTreeMap<[u8; 32], Weak<RootCertStore>>> = Mutex::new(BTreeMap::new());
    if additional.is_empty() {
        return system_roots();
    }
    let key = hash_parts(additional.iter().map(AsRef::as_ref));
    let mut in_use = IN_USE.lock();
    in_use.retain(|_, roots| roots.strong_count() > 0);
    if let Some(roots) = in_use.get(&key).and_then(Weak::upgrade) {
        return roots;
    }
    let mut roots = system_roots();
    Arc::make_mut(&mut roots).add_parsable_certificates(additional.iter().cloned());
    in_use.insert(key, Arc::downgrade(&roots));
    roots
}

/// In bytes.
pub(crate) fn memory_size(roots: &RootCertStore) -> usize {
    let size = |root: &TrustAnchor<'_>| {
        let constraints = root.name_constraints.as_ref().map_or(0, |constraints| constraints.len());
        [size_of::<TrustAnchor<'_>>(), root.subject.len(), root.subject_public_key_info.len(), constraints].iter().sum()
    };
    roots.roots.iter().map(size).fold(0, usize::saturating_add)
}

/// Read once.
pub(crate) fn system_roots() -> Arc<RootCertStore> {
    static ROOTS: OnceLock<Arc<RootCertStore>> = OnceLock::new();
    let read = || {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        Arc::new(roots)
    };
    ROOTS.get_or_init(read).clone()
}
