//! Which certificates there are, when they are renewed, and which bundles of CAs go round.
//!
//! Keys are drawn and certificates are read and signed elsewhere: here is only what is decided.

use api::Time;

/// A certificate and its key, as they are in a Secret. The key itself is not in here.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    /// The certificate, as PEM.
    pub certificate: String,
    /// From when it is valid.
    pub not_before: Time,
    /// Until when it is valid.
    pub not_after: Time,
    /// Whether the key is the certificate's.
    pub key_matches: bool,
    /// Its common name.
    pub common_name: String,
    /// Its DNS names.
    pub dns_names: Vec<String>,
    /// Whether it is a CA's.
    pub is_ca: bool,
    /// Whether the CA that signs it now has signed it.
    pub signed_by_current: bool,
    /// How long it was to be valid, as its Secret says.
    pub duration: Option<String>,
}

/// A certificate that is to be made.
#[derive(Clone, Debug, PartialEq)]
pub struct Issue {
    /// The Secret it goes into.
    pub secret: String,
    /// Its common name.
    pub common_name: String,
    /// Its DNS names.
    pub dns_names: Vec<String>,
    /// What it is for.
    pub usage: Usage,
    /// The Secret with the CA that signs it; None signs itself.
    pub signer: Option<String>,
    /// From when it is valid.
    pub not_before: Time,
    /// Until when it is valid.
    pub not_after: Time,
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
