//! How long certificates are valid.

use k8s_openapi::jiff::SignedDuration;

/// How long it takes at most until everyone who reads a bundle has read it: a kubelet looks after the
/// volumes of a pod every minute or two, and has a cache of its own.
const PROPAGATION: SignedDuration = SignedDuration::from_mins(10);

/// How long certificates are valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The CAs, all of them.
    pub ca: Lifetime,
    /// What they sign.
    pub server: Lifetime,
}

/// How long a certificate is valid, and when it is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetime {
    /// How long it is valid.
    pub duration: SignedDuration,
    /// How long before its end it is replaced.
    pub renew_before: SignedDuration,
}

impl Settings {
    /// How long a CA is published before it signs.
    pub fn propagation(&self) -> SignedDuration {
        PROPAGATION.min(self.ca.renew_before / 4)
    }
}
