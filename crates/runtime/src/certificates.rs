//! Certificates and keys: reading, checking and making them.
//!
//! Guaranteed: nothing in a Secret or a ConfigMap makes this panic; what is wrong with it is an error
//! that does not repeat it. Keys are wiped from memory when they are dropped, and are in no debug
//! output. Keys that are made here are ECDSA P-256, as PKCS #8; SEC 1 is read as well.

mod issue;
mod pem;
mod read;
#[cfg(test)]
mod tests;

pub use issue::{Authority, IssueError, KeyPair, Request, issue};
pub use read::{Facts, Known, ReadError, parse_bundle, read};

/// Random bytes that nobody can guess; None if the system has none.
pub fn random_bytes() -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    let provider = rustls::crypto::ring::default_provider();
    provider.secure_random.fill(&mut bytes).ok()?;
    Some(bytes)
}

/// What a certificate is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usage {
    /// Signing others.
    Ca,
    /// Being who a client calls.
    Server,
    /// Being who calls.
    Client,
}
