//! From when until when certificates are valid.
//!
//! Both ends are told, so that an alert can compare what is left of a life with the whole of it.

use std::collections::BTreeMap;

use prometheus_client::{
    metrics::{family::Family, gauge::Gauge},
    registry::Registry,
};

use super::{labels::Certificate, set};

/// The life of a certificate, in seconds of the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// When it begins.
    pub not_before: i64,
    /// When it ends.
    pub not_after: i64,
}

/// The labels that have a series.
#[derive(Debug, Default)]
pub(super) struct Shown {
    begins: Vec<Certificate>,
    ends: Vec<Certificate>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Series {
    begins: Family<Certificate, Gauge>,
    ends: Family<Certificate, Gauge>,
}

impl Series {
    /// Shows these certificates, by their Secrets, and no others.
    pub(super) fn set(&self, shown: &mut Shown, certificates: &BTreeMap<String, Validity>) {
        let each = |value: fn(&Validity) -> i64| {
            certificates.iter().map(move |(secret, validity)| {
                let secret = secret.clone();
                (Certificate { secret }, value(validity))
            })
        };
        set(&self.begins, &mut shown.begins, each(|it| it.not_before));
        set(&self.ends, &mut shown.ends, each(|it| it.not_after));
    }

    pub(super) fn register(&self, operator: &mut Registry) {
        operator.register(
            "certificate_not_before_timestamp_seconds",
            "From when a certificate is valid, by its Secret",
            self.begins.clone(),
        );
        operator.register(
            "certificate_expiry_timestamp_seconds",
            "Until when a certificate is valid, by its Secret",
            self.ends.clone(),
        );
    }
}
