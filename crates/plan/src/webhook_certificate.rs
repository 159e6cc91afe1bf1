//! Certificates of the Machine operator's webhook: a CA and a serving certificate, each in a Secret,
//! and the CA bundle in the ValidatingWebhookConfiguration.
//!
//! There is no other copy of the bundle. If someone empties it, it is rebuilt from the Secrets: the
//! active and the next CA. Older CAs matter only in the seconds in which replicas load a new
//! certificate.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use api::Time;
use k8s_openapi::jiff::SignedDuration;

use crate::certificates::{
    BundleCertificate, Issue, Lifetime, Pair, Profile, Settings, Usage, bundle, bundle_contains,
    plan_certificates,
};

/// Each certificate is replaced when a third of its lifetime is left, so the webhook works for ten days
/// without an operator.
pub const LIFETIMES: Settings = Settings {
    ca: Lifetime {
        duration: SignedDuration::from_hours(90 * 24),
        renew_before: SignedDuration::from_hours(30 * 24),
    },
    server: Lifetime {
        duration: SignedDuration::from_hours(30 * 24),
        renew_before: SignedDuration::from_hours(10 * 24),
    },
};

/// Names of the objects of the webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// Of the Service and the Secrets.
    pub namespace: String,
    pub service: String,
    /// ValidatingWebhookConfiguration.
    pub configuration: String,
    /// Secret with the serving certificate.
    pub secret: String,
}

impl Names {
    /// The Secret with the CA: the name of the other Secret with `-ca` instead of `-certs`.
    pub fn authority(&self) -> String {
        let stem = self.secret.strip_suffix("-certs").unwrap_or(&self.secret);
        format!("{stem}-ca")
    }

    /// The host name by which API servers call the webhook.
    pub fn host(&self) -> String {
        format!("{}.{}.svc", self.service, self.namespace)
    }

    fn profiles(&self) -> [(String, Profile); 2] {
        let host = self.host();
        let authority = Profile {
            common_name: "webhook.vitistack.io".to_owned(),
            dns_names: Vec::new(),
            usage: Usage::Ca,
        };
        let server = Profile {
            // A host name may exceed the 64 characters of a common name.
            common_name: self.service.clone(),
            dns_names: vec![host.clone(), format!("{host}.cluster.local")],
            usage: Usage::Server,
        };
        [(self.authority(), authority), (self.secret.clone(), server)]
    }
}

/// Observed state of the webhook's certificates.
#[derive(Clone, Copy, Debug)]
pub struct Observed<'a> {
    /// Certificates of the operator's own Secrets, as far as they can be parsed.
    pub pairs: &'a BTreeMap<String, Pair>,
    /// Secrets of others, which are never changed.
    pub foreign: &'a BTreeSet<String>,
    /// Bundles of the operator's webhooks; empty without a configuration.
    pub bundles: &'a [String],
    /// Certificates of these bundles.
    pub known: &'a [BundleCertificate],
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// The most urgent first. A write that fails does not block the others.
    pub writes: Vec<Write>,
    /// When to plan again though nothing has changed.
    pub requeue_at: Option<Time>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    Secret(Issue),
    /// Sets the bundle of all of the operator's webhooks.
    Bundle(String),
}

/// Plans the next writes: the CA, then the serving certificate once all bundles contain the CA, then
/// the bundle.
pub fn plan(names: &Names, observed: &Observed<'_>, now: &Time) -> Plan {
    let Observed {
        pairs,
        foreign,
        bundles,
        known,
    } = observed;
    let (ca, profiles) = (names.authority(), names.profiles());
    let wanted = profiles
        .iter()
        .filter(|(secret, _)| !foreign.contains(secret))
        .map(|(secret, profile)| (secret.as_str(), profile.clone()));
    let authority = pairs.get(&ca);
    // Without webhooks no one reads the bundle.
    let is_published = authority.is_some_and(|pair| {
        let newest = &pair.newest().certificate;
        bundles.iter().all(|bundle| bundle_contains(bundle, newest))
    });
    let published = is_published.then(|| ca.clone()).into_iter().collect();
    let certificates = plan_certificates(wanted, &ca, &LIFETIMES, pairs, &published, now);

    let bundle = authority.filter(|_| !bundles.is_empty()).map(|authority| {
        let leaf = pairs.get(&names.secret);
        bundle(authority, leaf, known, &[], &LIFETIMES, now)
    });
    let (text, requeue_at) = bundle.map_or((None, None), |bundle| {
        let is_current = bundles.iter().all(|text| *text == bundle.text);
        ((!is_current).then_some(bundle.text), bundle.requeue_at)
    });
    let is_trusted = authority.is_some_and(|authority| {
        let mut bundles = bundles.iter();
        bundles.all(|bundle| bundle_contains(bundle, &authority.certificate))
    });
    let leaves = certificates.leaves.into_iter().filter(|_| is_trusted);
    let secrets = certificates.authorities.into_iter().chain(leaves);
    Plan {
        writes: secrets
            .map(Write::Secret)
            .chain(text.map(Write::Bundle))
            .collect(),
        requeue_at: [certificates.requeue_at, requeue_at]
            .into_iter()
            .flatten()
            .min(),
    }
}
