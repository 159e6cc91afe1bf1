//! Replaceable serving certificate.

use std::{
    fmt,
    sync::{Arc, PoisonError, RwLock},
};

use jiff::{SignedDuration, Timestamp};
use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    server::{ClientHello, NoServerSessionStorage, ResolvesServerCert},
    sign::CertifiedKey,
};

use crate::certificates::{IssueError, Request, Usage, issue};

/// Serving certificate. Clones share it.
#[derive(Clone)]
pub struct Certificate {
    resolver: Arc<Resolver>,
    config: Arc<ServerConfig>,
}

/// Why a certificate cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    #[error("the certificate or its key cannot be read")]
    Unreadable,
    #[error("the key does not match the certificate")]
    Mismatch,
    #[error("cannot create a self-signed certificate: {0}")]
    Fallback(#[from] IssueError),
    #[error("cannot set up TLS: {0}")]
    Tls(#[from] rustls::Error),
}

impl Certificate {
    /// A self-signed certificate that no client trusts, until it is replaced.
    pub fn fallback() -> Result<Self, CertificateError> {
        let now = Timestamp::now();
        let day = SignedDuration::from_hours(24);
        let fallback = issue(
            &Request {
                common_name: "fallback.certificate.kubevirt.io".to_owned(),
                dns_names: vec!["fallback.certificate.kubevirt.io".to_owned()],
                usage: Usage::Server,
                not_before: now.saturating_sub(day).unwrap_or(now),
                not_after: now.saturating_add(day * 3650).unwrap_or(now),
            },
            None,
        )?;
        let resolver = Arc::new(Resolver {
            current: RwLock::new(certified(
                fallback.certificate.as_bytes(),
                fallback.key.as_bytes(),
            )?),
        });
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(&resolver) as _);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        // A resumed session was authenticated by a certificate that may be replaced by now.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Self {
            resolver,
            config: Arc::new(config),
        })
    }

    /// Serves this certificate from now on. After an error the current one stays.
    pub fn replace(&self, certificate: &[u8], key: &[u8]) -> Result<(), CertificateError> {
        let certified = certified(certificate, key)?;
        let mut current = self
            .resolver
            .current
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        *current = certified;
        Ok(())
    }

    /// TLS configuration for HTTP/1.1.
    pub fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.config)
    }
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificate").finish_non_exhaustive()
    }
}

fn certified(certificate: &[u8], key: &[u8]) -> Result<Arc<CertifiedKey>, CertificateError> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificate).collect();
    let chain = chain.map_err(|_| CertificateError::Unreadable)?;
    if chain.is_empty() {
        return Err(CertificateError::Unreadable);
    }
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| CertificateError::Unreadable)?;
    let key = ring::sign::any_supported_type(&key).map_err(|_| CertificateError::Unreadable)?;
    let certified = CertifiedKey::new(chain, key);
    certified
        .keys_match()
        .map_err(|_| CertificateError::Mismatch)?;
    Ok(Arc::new(certified))
}

struct Resolver {
    current: RwLock<Arc<CertifiedKey>>,
}

impl ResolvesServerCert for Resolver {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let current = self.current.read();
        Some(Arc::clone(&current.unwrap_or_else(PoisonError::into_inner)))
    }
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resolver").finish_non_exhaustive()
    }
}
