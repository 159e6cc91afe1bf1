//! Rotation of CAs and leaf certificates, and the CA bundles. The caller chooses the certificates and
//! their lifetimes.
//!
//! Decisions only: keys are generated, and certificates parsed and signed, elsewhere. All state is in
//! Secrets and ConfigMaps, so a restarted operator continues where the last one stopped.
//!
//! # Rotation of a CA
//!
//! A client with an old bundle must be able to verify every server, and every client a server with an
//! old certificate. So a CA passes through four states, all recorded in its Secret:
//!
//! 1. *Next*: its key and certificate are stored beside those of the active CA, under
//!    [`NEXT_CERTIFICATE`] and [`NEXT_KEY`]. Components that sign with the Secret still use the active
//!    CA. [`bundle`] contains both from now on.
//! 2. *Published*: every observed bundle contains it, since the time in [`PUBLISHED`].
//! 3. *Active*: it has been published for [`Settings::propagation`], so slow readers have it too. One
//!    write moves it to the usual keys; [`SIGNS`] has the time. Certificates of the former CA are
//!    reissued.
//! 4. *Retired*: its key is deleted. Its certificate stays in the bundle while a certificate that it
//!    signed is in a Secret, or may be in an older copy of one.
//!
//! A CA whose Secret was lost is replaced at once. The certificates that it signed remain valid,
//! because the bundle still contains it, and stay until the new CA has been published for long enough.
//! Only a certificate that is of no use (missing, expired, unreadable, not verifiable with any bundle)
//! is reissued at once, whatever the age of its CA.

mod bundle;
pub(crate) mod duration;
mod rotation;
mod settings;
mod simulate;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use api::{Time, kubevirt::install};
use k8s_openapi::jiff::SignedDuration;

pub use bundle::{Bundle, BundleCertificate, MAX_BUNDLE_CERTIFICATES, bundle, bundle_contains};
pub use rotation::{Certificates, plan_certificates};
pub use settings::{Lifetime, Settings};

use crate::Fingerprint;

pub const CERTIFICATE: &str = "tls.crt";

pub const KEY: &str = "tls.key";

/// Key of the next CA's certificate in the Secret of a CA.
pub const NEXT_CERTIFICATE: &str = "next.crt";

/// Key of the next CA's private key in the Secret of a CA.
pub const NEXT_KEY: &str = "next.key";

/// Annotation of a Secret: lifetime of its newest certificate, as in KubeVirt's virt-operator.
pub const DURATION: &str = install::DURATION;

/// Annotation of the Secret of a CA: since when every bundle contains the newest CA.
pub const PUBLISHED: &str = "vitistack.io/ca-published";

/// Annotation of the Secret of a CA: since when the active CA is active.
pub const SIGNS: &str = "vitistack.io/ca-signs";

/// How long before its creation a certificate becomes valid, for clocks that are behind.
pub const SKEW: SignedDuration = SignedDuration::from_mins(5);

/// Certificate and key of a Secret. Does not contain the key.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    /// PEM.
    pub certificate: String,
    pub not_before: Time,
    pub not_after: Time,
    /// Whether the key belongs to the certificate and can sign.
    pub key_matches: bool,
    pub common_name: String,
    pub dns_names: Vec<String>,
    /// None for any other usage.
    pub usage: Option<Usage>,
    /// The CA that signed it: active, next, or in the bundle. Clients trust no other.
    pub signed_by: Option<Signer>,
    /// The next CA, in the Secret of a CA.
    pub next: Option<Box<Pair>>,
    /// Value of [`DURATION`].
    pub duration: Option<String>,
    /// Value of [`PUBLISHED`].
    pub published: Option<Time>,
    /// Value of [`SIGNS`].
    pub signs: Option<Time>,
}

impl Pair {
    /// With the annotations of its Secret.
    #[must_use]
    pub fn annotated(self, annotations: &BTreeMap<String, String>) -> Self {
        let time = |name: &str| annotations.get(name)?.parse().ok().map(Time);
        Self {
            duration: annotations.get(DURATION).cloned(),
            published: time(PUBLISHED),
            signs: time(SIGNS),
            ..self
        }
    }

    /// The newest certificate of the Secret, which must be in every bundle: the next one, if any.
    pub fn newest(&self) -> &Self {
        self.next.as_deref().unwrap_or(self)
    }
}

/// The CA that signed a certificate.
#[derive(Clone, Debug, PartialEq)]
pub struct Signer {
    /// Of its PEM.
    pub fingerprint: Fingerprint,
    pub not_after: Time,
}

/// A write to a Secret with a certificate.
#[derive(Clone, Debug, PartialEq)]
pub struct Issue {
    pub secret: String,
    pub reason: String,
    pub change: SecretChange,
}

/// Change of a Secret with a certificate.
#[derive(Clone, Debug, PartialEq)]
pub enum SecretChange {
    /// Generates a key and issues a certificate.
    New(NewCertificate),
    /// Records that every bundle contains the newest CA.
    Published(Time),
    /// Makes the next CA the active one.
    Promote(Time),
}

/// A certificate to issue.
#[derive(Clone, Debug, PartialEq)]
pub struct NewCertificate {
    pub slot: Slot,
    pub common_name: String,
    pub dns_names: Vec<String>,
    pub usage: Usage,
    /// Secret of the active CA that signs it; None for a self-signed certificate.
    pub signer: Option<String>,
    /// In whole seconds.
    pub not_before: Time,
    /// In whole seconds.
    pub not_after: Time,
    /// Value of [`DURATION`].
    pub duration: String,
}

/// Place of a certificate in a Secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// Replaces the current certificate, and deletes the next one.
    Current,
    /// Beside the active CA.
    Next,
}

/// Content of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// For a CA, `@` and the second of its creation follow.
    pub common_name: String,
    pub dns_names: Vec<String>,
    pub usage: Usage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usage {
    Ca,
    Server,
    Client,
}

impl SecretChange {
    /// Applies the change to the data and annotations of the observed Secret. `issued` is the certificate
    /// and key of a [`SecretChange::New`].
    pub fn apply<V>(
        &self,
        data: &mut BTreeMap<String, V>,
        annotations: &mut BTreeMap<String, String>,
        issued: Option<(V, V)>,
    ) {
        match self {
            Self::New(new) => {
                annotations.remove(PUBLISHED);
                annotations.insert(DURATION.to_owned(), new.duration.clone());
                let (certificate, key) = match new.slot {
                    Slot::Current => {
                        annotations.remove(SIGNS);
                        data.clear();
                        (CERTIFICATE, KEY)
                    }
                    Slot::Next => (NEXT_CERTIFICATE, NEXT_KEY),
                };
                if let Some((new_certificate, new_key)) = issued {
                    data.insert(certificate.to_owned(), new_certificate);
                    data.insert(key.to_owned(), new_key);
                }
            }
            Self::Published(at) => {
                annotations.insert(PUBLISHED.to_owned(), at.0.to_string());
            }
            Self::Promote(at) => {
                for (next, current) in [(NEXT_CERTIFICATE, CERTIFICATE), (NEXT_KEY, KEY)] {
                    if let Some(value) = data.remove(next) {
                        data.insert(current.to_owned(), value);
                    }
                }
                annotations.insert(SIGNS.to_owned(), at.0.to_string());
            }
        }
    }
}
