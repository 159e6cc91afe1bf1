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
    /// Creates and registers the gauges.
    pub fn registered(registry: &mut Registry) -> Self {
        let gauges = Self::default();
        registry.register(
            "certificate_not_before_timestamp_seconds",
            "Start of a certificate's validity, by its Secret",
            gauges.not_before.clone(),
        );
        registry.register(
            "certificate_expiry_timestamp_seconds",
            "End of a certificate's validity, by its Secret",
            gauges.not_after.clone(),
        );
        gauges
    }

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
}
