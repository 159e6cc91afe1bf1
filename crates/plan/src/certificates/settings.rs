//! Lifetimes of certificates.

use k8s_openapi::jiff::SignedDuration;

/// Maximum time until all readers have a new bundle: the kubelet updates volumes every minute or two,
/// from a cache.
const PROPAGATION: SignedDuration = SignedDuration::from_mins(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    pub ca: Lifetime,
    /// Of leaf certificates.
    pub server: Lifetime,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetime {
    pub duration: SignedDuration,
    /// How long before its expiry a certificate is replaced.
    pub renew_before: SignedDuration,
}

impl Settings {
    /// How long a CA is published before it signs.
    pub fn propagation(&self) -> SignedDuration {
        PROPAGATION.min(self.ca.renew_before / 4)
    }
}
