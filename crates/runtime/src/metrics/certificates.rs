//! Validity of certificates.
//!
//! Both ends are exposed, so that an alert can compare the remaining time with the whole lifetime.

use std::collections::BTreeMap;

use prometheus_client::{encoding::EncodeLabelSet, registry::Registry};

use super::GaugeSet;

/// Validity of a certificate, in Unix seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    pub not_before: i64,
    pub not_after: i64,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
struct Certificate {
    secret: String,
}

/// Gauges of the validity of certificates, by their Secrets.
#[derive(Clone, Debug, Default)]
pub struct CertificateMetrics {
    not_before: GaugeSet<Certificate>,
    not_after: GaugeSet<Certificate>,
}

impl CertificateMetrics {
    /// Replaces the certificates that are exposed, by their Secrets.
    pub fn replace(&self, certificates: &BTreeMap<String, Validity>) {
        let values = |value: fn(&Validity) -> i64| {
            certificates.iter().map(move |(secret, validity)| {
                let secret = secret.clone();
                (Certificate { secret }, value(validity))
            })
        };
        self.not_before.replace(values(|it| it.not_before));
        self.not_after.replace(values(|it| it.not_after));
    }

    /// Registers the gauges.
    pub fn register(&self, registry: &mut Registry) {
        self.not_before.register(
            registry,
            "certificate_not_before_timestamp_seconds",
            "Start of a certificate's validity, by its Secret",
        );
        self.not_after.register(
            registry,
            "certificate_expiry_timestamp_seconds",
            "End of a certificate's validity, by its Secret",
        );
    }
}
