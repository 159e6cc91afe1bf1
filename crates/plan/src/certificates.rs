//! When certificates are made and renewed, and which bundles of CAs go round. Whose certificates they
//! are, and how long they are valid, is the caller's.
//!
//! Keys are drawn and certificates are read and signed elsewhere: here is only what is decided, from
//! what is in the Secrets and ConfigMaps, so that an operator that dies at any moment goes on where
//! it was.
//!
//! # How a CA is replaced
//!
//! A client that has not read the newest bundle yet must verify every server, and a server that has
//! not read its newest certificate yet must be verified by every client. So a CA goes through four
//! states, each of which is in its Secret:
//!
//! 1. *Next*: its key and certificate are made and kept beside those of the CA in office, under
//!    [`NEXT_CERTIFICATE`] and [`NEXT_KEY`]. Whoever reads the Secret to sign with it sees the CA in
//!    office, and nothing has changed for it. [`bundle`] has both from now on.
//! 2. *Published*: every bundle that anyone reads has been seen with it. [`PUBLISHED`] says since
//!    when.
//! 3. *In office*: it has been published for [`Settings::propagation`], so that even slow readers
//!    have it. Now it takes the place of the other under the usual keys, in one write; [`SIGNS`]
//!    says since when. Certificates that the other has signed are made anew.
//! 4. *Out of office*: its key is gone. Its certificate stays in the bundle while a certificate that
//!    it has signed is in a Secret or may still be read from an older copy of one.
//!
//! A CA whose Secret was lost is replaced at once; there is nothing to keep beside the new one. The
//! certificates that it has signed remain good, as its own is still in the bundle, and stay until
//! the new one has been published for long enough. Only a certificate that is of no use to anyone
//! any more (gone, expired, unreadable, not to be verified by any bundle) is made anew at once,
//! whatever the age of its CA.

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

/// Where a Secret has its certificate.
pub const CERTIFICATE: &str = "tls.crt";

/// Where a Secret has its key.
pub const KEY: &str = "tls.key";

/// Where the Secret of a CA has the certificate of the one that takes its place.
pub const NEXT_CERTIFICATE: &str = "next.crt";

/// Where the Secret of a CA has the key of the one that takes its place.
pub const NEXT_KEY: &str = "next.key";

/// Annotation on a Secret: how long its newest certificate is to be valid. KubeVirt's own operator
/// calls it so.
pub const DURATION: &str = install::DURATION;

/// Annotation on the Secret of a CA: since when every bundle has the newest CA in it.
pub const PUBLISHED: &str = "vitistack.io/ca-published";

/// Annotation on the Secret of a CA: since when the CA in office is in office.
pub const SIGNS: &str = "vitistack.io/ca-signs";

/// How much earlier a certificate is valid than it is made, for clocks that are behind.
pub const SKEW: SignedDuration = SignedDuration::from_mins(5);

/// A certificate and its key, as they are in a Secret. The key itself is not in here.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    /// The certificate, as PEM.
    pub certificate: String,
    /// From when it is valid.
    pub not_before: Time,
    /// Until when it is valid.
    pub not_after: Time,
    /// Whether the key is the certificate's, and one that we can sign with.
    pub key_matches: bool,
    /// Its common name.
    pub common_name: String,
    /// Its DNS names.
    pub dns_names: Vec<String>,
    /// What it is for; None is something else.
    pub usage: Option<Usage>,
    /// Which CA has signed it, of those in office, next, and in the bundle of its signer. What no
    /// such CA has signed, no client trusts.
    pub signed_by: Option<Signer>,
    /// In the Secret of a CA, the one that takes its place.
    pub next: Option<Box<Pair>>,
    /// How long the newest is to be valid, as its Secret says.
    pub duration: Option<String>,
    /// Since when every bundle has the newest CA, as its Secret says.
    pub published: Option<Time>,
    /// Since when the CA in office is in office, as its Secret says.
    pub signs: Option<Time>,
}

impl Pair {
    /// With what the annotations of its Secret say.
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

    /// The newest certificate of the Secret: the next, where there is one. That is the one that has
    /// to be in every bundle.
    pub fn newest(&self) -> &Self {
        self.next.as_deref().unwrap_or(self)
    }
}

/// The CA that has signed a certificate.
#[derive(Clone, Debug, PartialEq)]
pub struct Signer {
    /// Of its certificate's PEM.
    pub fingerprint: Fingerprint,
    /// Until when it is valid.
    pub not_after: Time,
}

/// A write to a Secret with a certificate.
#[derive(Clone, Debug, PartialEq)]
pub struct Issue {
    /// The Secret.
    pub secret: String,
    /// Why.
    pub reason: String,
    /// What changes.
    pub change: SecretChange,
}

/// What changes in a Secret with a certificate.
#[derive(Clone, Debug, PartialEq)]
pub enum SecretChange {
    /// A key and a certificate are made.
    New(NewCertificate),
    /// The newest CA has been seen in every bundle.
    Published(Time),
    /// The next CA takes office.
    Promote(Time),
}

/// A certificate that is to be made.
#[derive(Clone, Debug, PartialEq)]
pub struct NewCertificate {
    /// Where it goes.
    pub slot: Slot,
    /// Its common name.
    pub common_name: String,
    /// Its DNS names.
    pub dns_names: Vec<String>,
    /// What it is for.
    pub usage: Usage,
    /// The Secret with the CA in office that signs it; None signs itself.
    pub signer: Option<String>,
    /// From when it is valid, in whole seconds.
    pub not_before: Time,
    /// Until when it is valid, in whole seconds.
    pub not_after: Time,
    /// How long it is to be valid, for its Secret to say.
    pub duration: String,
}

/// Where in a Secret a certificate goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// In place of what is there. The next CA goes, if there was one.
    Current,
    /// Beside the CA in office.
    Next,
}

/// What is in a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Its common name; that of a CA is followed by `@` and the second it was made in.
    pub common_name: String,
    /// Its DNS names.
    pub dns_names: Vec<String>,
    /// What it is for.
    pub usage: Usage,
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

impl SecretChange {
    /// Carries it out on the data and the annotations of the Secret as it was when it was decided;
    /// `made` is the certificate and the key that a [`SecretChange::New`] asks for. What a value is does
    /// not matter here, as long as it is kept.
    pub fn apply<V>(
        &self,
        data: &mut BTreeMap<String, V>,
        annotations: &mut BTreeMap<String, String>,
        made: Option<(V, V)>,
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
                if let Some((made_certificate, made_key)) = made {
                    data.insert(certificate.to_owned(), made_certificate);
                    data.insert(key.to_owned(), made_key);
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
