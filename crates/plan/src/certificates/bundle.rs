//! CA bundle that components trust.

use std::collections::BTreeSet;

use api::Time;
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::{Pair, SKEW, rotation::later, settings::Settings};
use crate::Fingerprint;

pub const MAX_BUNDLE_CERTIFICATES: usize = 50;

#[derive(Clone, Debug, PartialEq)]
pub struct BundleCertificate {
    /// PEM.
    pub certificate: String,
    pub not_before: Time,
    pub not_after: Time,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Bundle {
    /// PEM: the operator's own CAs from the newest to the oldest, then external ones.
    pub text: String,
    /// When the bundle changes though nothing else does.
    pub requeue_at: Option<Time>,
}

pub fn bundle_contains(bundle: &str, certificate: &str) -> bool {
    bundle.contains(certificate.trim())
}

/// The bundle of a CA: the active CA, the next one, retired ones, and `external` ones that users add.
///
/// `old` is the current bundle, as far as it can be parsed. A retired CA stays until it expires or has
/// been retired for the renewal period of a CA; and longer while it has signed one of `leaves`, or while
/// one of `leaves` is so new that a server may still use its predecessor.
pub fn bundle<'a>(
    authority: &Pair,
    leaves: impl IntoIterator<Item = &'a Pair>,
    old: &[BundleCertificate],
    external: &[BundleCertificate],
    settings: &Settings,
    now: &Time,
) -> Bundle {
    let now = now.0;
    let own = [authority.next.as_deref(), Some(authority)];
    let own: Vec<&str> = own.into_iter().flatten().map(pem).collect();
    let mut included: BTreeSet<&str> = own.iter().copied().collect();
    let mut requeue_at = Requeue { now, at: None };

    let mut trusted = Vec::new();
    for known in external {
        if now < known.not_before.0 {
            requeue_at.at(known.not_before.0);
        } else if now < known.not_after.0 && included.insert(known.certificate.trim()) {
            requeue_at.at(known.not_after.0);
            trusted.push(known);
        }
    }

    let mut in_use = BTreeSet::new();
    let mut handed_over = Timestamp::MIN;
    for leaf in leaves {
        in_use.extend(leaf.signed_by.as_ref().map(|signer| signer.fingerprint));
        let issued = later(leaf.not_before.0, SKEW);
        handed_over = handed_over.max(later(issued, settings.propagation()));
    }

    let mut old: Vec<&BundleCertificate> = old
        .iter()
        .filter(|known| now < known.not_after.0 && included.insert(known.certificate.trim()))
        .collect();
    old.sort_by(|one, other| other.not_before.cmp(&one.not_before));
    let mut retired_at = active_since(authority, settings.propagation());
    let mut kept = Vec::new();
    for known in old {
        let until = later(retired_at, settings.ca.renew_before).max(handed_over);
        let used = in_use.contains(&Fingerprint::of(&known.certificate));
        if used || now < until {
            kept.push((used, known));
            let until = if used { Timestamp::MAX } else { until };
            requeue_at.at(until.min(known.not_after.0));
        }
        // Its predecessor retired when it became active, some time after its creation.
        retired_at = later(known.not_before.0, SKEW + settings.propagation());
    }
    // CAs in use take precedence when the bundle is full.
    kept.sort_by_key(|(used, _)| !used);
    kept.truncate(MAX_BUNDLE_CERTIFICATES.saturating_sub(own.len()));
    kept.sort_by(|(_, one), (_, other)| other.not_before.cmp(&one.not_before));

    let mut text = String::new();
    let kept = kept.into_iter().map(|(_, known)| known);
    let others = kept.chain(trusted).map(|known| known.certificate.trim());
    for certificate in own.into_iter().chain(others).take(MAX_BUNDLE_CERTIFICATES) {
        text.push_str(certificate);
        text.push('\n');
    }
    Bundle {
        text,
        requeue_at: requeue_at.at.map(Time),
    }
}

fn pem(pair: &Pair) -> &str {
    pair.certificate.trim()
}

/// Since when a CA is active: its predecessor has not signed since.
fn active_since(authority: &Pair, propagation: SignedDuration) -> Timestamp {
    let published = authority.published.as_ref();
    match (&authority.signs, published, &authority.next) {
        (Some(signs), ..) => signs.0,
        (None, Some(published), None) => later(published.0, propagation),
        _ => authority.not_before.0,
    }
}

struct Requeue {
    now: Timestamp,
    at: Option<Timestamp>,
}

impl Requeue {
    fn at(&mut self, at: Timestamp) {
        if at > self.now && self.at.is_none_or(|sooner| at < sooner) {
            self.at = Some(at);
        }
    }
}
