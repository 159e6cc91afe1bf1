//! Parsing and issuing of certificates and keys.
//!
//! Guaranteed: no content of a Secret or ConfigMap makes this panic, and errors do not quote it. Keys
//! are wiped from memory when they are dropped, and are in no debug output. Issued keys are ECDSA
//! P-256 as PKCS #8; SEC 1 is parsed as well.

mod issue;
mod pem;
mod read;
#[cfg(test)]
mod tests;

pub use issue::{Authority, IssueError, KeyPair, Request, issue};
pub use read::{BundledCertificate, CertificateInfo, ReadError, parse_bundle, read};

/// Cryptographically secure random bytes; `None` if the system has none.
pub fn random_bytes() -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    let provider = rustls::crypto::ring::default_provider();
    provider.secure_random.fill(&mut bytes).ok()?;
    Some(bytes)
}

/// Usage of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usage {
    Ca,
    Server,
    Client,
}
