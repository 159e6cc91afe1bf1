//! The certificate of the Machine operator's webhook: a CA and what it signs, each in a Secret, and
//! the bundle of CAs, which is in the configuration by which API servers find the webhook.
//!
//! There is no other copy of the bundle. Where somebody has emptied it, it is made again from the
//! Secrets: the CA in office and the next one. An older one matters only in the seconds in which
//! replicas take up a new certificate.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use api::Time;
use k8s_openapi::jiff::SignedDuration;

use crate::certificates::{
    BundleCertificate, Issue, Lifetime, Pair, Profile, Settings, Usage, bundle, bundle_contains,
    plan_certificates,
};

/// How long the certificates are valid. Each is replaced when a third of its time is left: an
/// operator may be away for ten days before anybody misses it.
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

/// What everything is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// The namespace of the Service and the Secrets.
    pub namespace: String,
    /// The Service that API servers call.
    pub service: String,
    /// The ValidatingWebhookConfiguration.
    pub configuration: String,
    /// The Secret with the certificate that is served.
    pub secret: String,
}

impl Names {
    /// The Secret with the CA: that of the certificate with `-ca` in place of `-certs`.
    pub fn authority(&self) -> String {
        let stem = self.secret.strip_suffix("-certs").unwrap_or(&self.secret);
        format!("{stem}-ca")
    }

    /// What API servers call the webhook.
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
            // More than 64 characters may not be in a common name, which a host may have.
            common_name: self.service.clone(),
            dns_names: vec![host.clone(), format!("{host}.cluster.local")],
            usage: Usage::Server,
        };
        [(self.authority(), authority), (self.secret.clone(), server)]
    }
}

/// What is known when it is decided what to do.
#[derive(Clone, Copy, Debug)]
pub struct Observed<'a> {
    /// What is in those of the Secrets that are ours, as far as it can be read.
    pub pairs: &'a BTreeMap<String, Pair>,
    /// Secrets that are somebody else's. They stay as they are.
    pub foreign: &'a BTreeSet<String>,
    /// The bundles of the webhooks that are ours; none if there is no configuration.
    pub bundles: &'a [String],
    /// The certificates of these bundles.
    pub known: &'a [BundleCertificate],
}

/// What to do next.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// What is to be written, the most urgent first. None of them waits for another: what cannot be
    /// written does not hold up the rest.
    pub writes: Vec<Write>,
    /// When there is something to do though nothing has changed.
    pub requeue_at: Option<Time>,
}

/// A write.
#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    /// To one of the Secrets.
    Secret(Issue),
    /// This bundle, to all webhooks that are ours.
    Bundle(String),
}

/// What to do next: a CA first, then what it signs, once it is in all bundles, then the bundle.
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
    // Where nobody reads a bundle, everybody has read it.
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
        let is_so = bundles.iter().all(|text| *text == bundle.text);
        ((!is_so).then_some(bundle.text), bundle.requeue_at)
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
