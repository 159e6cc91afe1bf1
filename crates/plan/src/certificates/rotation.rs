//! Rotation planner: which certificates to issue, publish or promote now, and when to plan again.

use std::collections::{BTreeMap, BTreeSet};

use api::Time;
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::{
    Issue, NewCertificate, Pair, Profile, SKEW, SecretChange, Slot, Usage, duration,
    settings::{Lifetime, Settings},
};
use crate::Fingerprint;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Certificates {
    /// Writes to the Secrets of CAs, before bundles.
    pub authorities: Vec<Issue>,
    /// Writes to the Secrets of leaf certificates, after bundles and all objects that carry one.
    pub leaves: Vec<Issue>,
    /// When to plan again though nothing has changed.
    pub requeue_at: Option<Time>,
}

/// Plans the certificates of these Secrets. `ca` is the Secret of the CA that signs leaf certificates.
///
/// `published` has the Secrets of CAs whose newest certificate ([`Pair::newest`]) is in every observed
/// bundle: the ConfigMap and all objects that carry it.
pub fn plan_certificates<'a>(
    wanted: impl IntoIterator<Item = (&'a str, Profile)>,
    ca: &str,
    settings: &Settings,
    pairs: &BTreeMap<String, Pair>,
    published: &BTreeSet<String>,
    now: &Time,
) -> Certificates {
    let mut planner = Planner {
        ca,
        settings,
        now: now.0,
        plan: Certificates::default(),
    };
    let (authorities, leaves): (Vec<_>, Vec<_>) = wanted
        .into_iter()
        .partition(|(_, profile)| profile.usage == Usage::Ca);
    let authority = pairs.get(ca);
    let mut waiting = false;
    for (secret, profile) in &leaves {
        if let Some(authority) = authority.filter(|pair| planner.flaw(pair, Usage::Ca).is_none()) {
            waiting |= planner.leaf(secret, profile, authority, pairs.get(*secret));
        }
    }
    for (secret, profile) in &authorities {
        let waiting = waiting && *secret == ca;
        let published = published.contains(*secret);
        planner.authority(secret, profile, pairs.get(*secret), published, waiting);
    }
    planner.plan
}

struct Planner<'a> {
    ca: &'a str,
    settings: &'a Settings,
    now: Timestamp,
    plan: Certificates,
}

impl Planner<'_> {
    fn authority(
        &mut self,
        secret: &str,
        profile: &Profile,
        pair: Option<&Pair>,
        published: bool,
        waiting: bool,
    ) {
        let lifetime = self.settings.ca;
        let new = |slot| new(profile, None, slot, lifetime, self.now);
        let Some(current) = pair else {
            let change = new(Slot::Current);
            return self.write_authority(
                secret,
                "the certificate is missing or cannot be read",
                change,
            );
        };
        let next = current
            .next
            .as_deref()
            .filter(|next| self.flaw(next, Usage::Ca).is_none());
        let flaw = self.flaw(current, Usage::Ca);
        let Some(next) = next else {
            let due = earlier(current.not_after.0, lifetime.renew_before);
            if let Some(flaw) = flaw {
                return self.write_authority(secret, flaw, new(Slot::Current));
            }
            if let Some(reason) = self.outdated(current, due, lifetime) {
                return self.write_authority(secret, reason, new(Slot::Next));
            }
            if waiting && current.published.is_none() && published {
                let change = SecretChange::Published(Time(self.now));
                return self.write_authority(secret, "every bundle contains the CA", change);
            }
            return self.requeue_at(due);
        };
        let promotion = SecretChange::Promote(Time(self.now));
        if let Some(flaw) = flaw {
            return self.write_authority(secret, flaw, promotion);
        }
        let due = earlier(next.not_after.0, lifetime.renew_before);
        if let Some(reason) = self.outdated(current, due, lifetime) {
            return self.write_authority(secret, reason, new(Slot::Next));
        }
        self.requeue_at(current.not_after.0);
        match &current.published {
            None if published => {
                let change = SecretChange::Published(Time(self.now));
                self.write_authority(secret, "every bundle contains the next CA", change);
            }
            Some(since) if published => {
                // A CA that was issued late gets half of the remaining time.
                let left = current.not_after.0.duration_since(since.0) / 2;
                let at = later(since.0, self.settings.propagation().min(left));
                if self.now >= at {
                    let reason = "the next CA has been published for long enough";
                    return self.write_authority(secret, reason, promotion);
                }
                self.requeue_at(at);
            }
            _ => {}
        }
    }

    /// Returns whether the leaf certificate waits for its CA to be published.
    fn leaf(
        &mut self,
        secret: &str,
        profile: &Profile,
        authority: &Pair,
        pair: Option<&Pair>,
    ) -> bool {
        let lifetime = self.settings.server;
        let issue = |reason: &str| Issue {
            secret: secret.to_owned(),
            reason: reason.to_owned(),
            change: new(
                profile,
                Some((self.ca, authority)),
                Slot::Current,
                lifetime,
                self.now,
            ),
        };
        let Some(pair) = pair else {
            let issue = issue("the certificate is missing or cannot be read");
            self.plan.leaves.push(issue);
            return false;
        };
        let signer = pair
            .signed_by
            .as_ref()
            .filter(|signer| self.now < signer.not_after.0);
        let flaw = self.flaw(pair, profile.usage);
        let flaw = flaw.or_else(|| {
            if pair.common_name != profile.common_name || pair.dns_names != profile.dns_names {
                Some("the certificate has other names")
            } else if signer.is_none() {
                Some("no trusted CA signed the certificate")
            } else {
                None
            }
        });
        let (Some(signer), None) = (signer, flaw) else {
            let issue = issue(flaw.unwrap_or_default());
            self.plan.leaves.push(issue);
            return false;
        };
        let due = earlier(pair.not_after.0, lifetime.renew_before);
        if signer.fingerprint == Fingerprint::of(&authority.certificate) {
            match self.outdated(pair, due, lifetime) {
                Some(reason) => {
                    let issue = issue(reason);
                    self.plan.leaves.push(issue);
                }
                None => self.requeue_at(due),
            }
            return false;
        }
        // A certificate that some clients do not trust yet is better than an expired one.
        let end = pair.not_after.0.min(signer.not_after.0);
        let last = earlier(end, self.settings.propagation());
        let at = self.ready(authority).map_or(last, |at| at.min(last));
        if self.now >= at {
            let issue = issue("its CA is no longer active");
            self.plan.leaves.push(issue);
            return false;
        }
        self.requeue_at(at);
        true
    }

    /// From when a CA may reissue certificates of another CA.
    fn ready(&self, authority: &Pair) -> Option<Timestamp> {
        if authority.signs.is_some() {
            return Some(Timestamp::MIN);
        }
        // With a next CA, it is the next one that is published and reissues them.
        if authority.next.is_some() {
            return None;
        }
        let published = authority.published.as_ref()?;
        Some(later(published.0, self.settings.propagation()))
    }

    /// Why a certificate is unusable.
    fn flaw(&self, pair: &Pair, usage: Usage) -> Option<&'static str> {
        if !pair.key_matches {
            Some("the key does not match the certificate")
        } else if pair.usage != Some(usage) {
            Some("the certificate has another usage")
        } else if self.now >= pair.not_after.0 {
            Some("the certificate has expired")
        } else if self.now < pair.not_before.0 {
            Some("the certificate is not valid yet")
        } else {
            None
        }
    }

    /// Why a usable certificate has to be replaced.
    fn outdated(&self, pair: &Pair, due: Timestamp, lifetime: Lifetime) -> Option<&'static str> {
        let annotated = pair.duration.as_deref();
        if annotated.and_then(duration::parse_annotation) != Some(lifetime.duration) {
            Some("the configured lifetime has changed")
        } else if self.now >= due {
            Some("the certificate expires soon")
        } else {
            None
        }
    }

    fn write_authority(&mut self, secret: &str, reason: &str, change: SecretChange) {
        self.plan.authorities.push(Issue {
            secret: secret.to_owned(),
            reason: reason.to_owned(),
            change,
        });
    }

    fn requeue_at(&mut self, at: Timestamp) {
        let sooner = self.plan.requeue_at.as_ref().is_none_or(|next| at < next.0);
        if sooner {
            self.plan.requeue_at = Some(Time(at));
        }
    }
}

fn new(
    profile: &Profile,
    signer: Option<(&str, &Pair)>,
    slot: Slot,
    lifetime: Lifetime,
    now: Timestamp,
) -> SecretChange {
    let second = Timestamp::from_second(now.as_second()).unwrap_or(now);
    let not_before = earlier(second, SKEW);
    let common_name = match profile.usage {
        Usage::Ca => format!("{}@{}", profile.common_name, now.as_second()),
        Usage::Server | Usage::Client => profile.common_name.clone(),
    };
    SecretChange::New(NewCertificate {
        slot,
        common_name,
        dns_names: profile.dns_names.clone(),
        usage: profile.usage,
        signer: signer.map(|(secret, _)| secret.to_owned()),
        not_before: Time(signer.map_or(not_before, |(_, ca)| not_before.max(ca.not_before.0))),
        not_after: Time(later(second, lifetime.duration)),
        duration: duration::format_annotation(lifetime.duration),
    })
}

pub(super) fn later(time: Timestamp, by: SignedDuration) -> Timestamp {
    time.checked_add(by).unwrap_or(Timestamp::MAX)
}

pub(super) fn earlier(time: Timestamp, by: SignedDuration) -> Timestamp {
    time.checked_sub(by).unwrap_or(Timestamp::MIN)
}
