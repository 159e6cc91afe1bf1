//! How long certificates are valid, as the KubeVirt resource says.

use std::fmt;

use api::kubevirt::install::{CertificateConfig, KubeVirt};
use k8s_openapi::jiff::SignedDuration;

use super::duration;

/// How long it takes at most until everyone who reads a bundle has read it: a kubelet looks after the
/// volumes of a pod every minute or two, and has a cache of its own.
const PROPAGATION: SignedDuration = SignedDuration::from_mins(10);

/// A certificate that is valid for less than this would run out before it is where it is needed.
const SHORTEST: SignedDuration = SignedDuration::from_mins(1);

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

impl Default for Settings {
    /// A week, and a day.
    fn default() -> Self {
        Self {
            ca: Lifetime::lasting(SignedDuration::from_hours(168)),
            server: Lifetime::lasting(SignedDuration::from_hours(24)),
        }
    }
}

impl Lifetime {
    fn lasting(duration: SignedDuration) -> Self {
        Self {
            duration,
            renew_before: duration / 5,
        }
    }
}

impl Settings {
    /// Those of a KubeVirt resource. Where a deprecated field and its successor are both given, the
    /// deprecated one counts.
    ///
    /// # Errors
    /// When a field is no duration, or not a sensible one.
    pub fn of(kubevirt: &KubeVirt) -> Result<Self, SettingsError> {
        let strategy = kubevirt.spec.certificate_rotate_strategy.as_ref();
        let Some(given) = strategy.and_then(|strategy| strategy.self_signed.as_ref()) else {
            return Ok(Self::default());
        };
        let default = Self::default();
        let none = CertificateConfig::default();
        let ca = given.ca.as_ref().unwrap_or(&none);
        let server = given.server.as_ref().unwrap_or(&none);
        let duration = |fields, default: Lifetime| {
            first(fields, SHORTEST).map(|given| given.unwrap_or(default.duration))
        };
        let renew_before = |fields, duration: SignedDuration| {
            let given = first(fields, SignedDuration::ZERO)?;
            // What is replaced as soon as it is made is never in use.
            Ok(given.unwrap_or(duration / 5).min(duration * 9 / 10))
        };
        let ca_duration = duration(
            [
                ("caRotateInterval", &given.ca_rotate_interval),
                ("ca.duration", &ca.duration),
            ],
            default.ca,
        )?;
        let server_duration = duration(
            [
                ("certRotateInterval", &given.cert_rotate_interval),
                ("server.duration", &server.duration),
            ],
            default.server,
        )?;
        Ok(Self {
            ca: Lifetime {
                duration: ca_duration,
                renew_before: renew_before(
                    [
                        ("caOverlapInterval", &given.ca_overlap_interval),
                        ("ca.renewBefore", &ca.renew_before),
                    ],
                    ca_duration,
                )?,
            },
            server: Lifetime {
                duration: server_duration,
                renew_before: renew_before(
                    [
                        ("server.renewBefore", &server.renew_before),
                        ("server.renewBefore", &None),
                    ],
                    server_duration,
                )?,
            },
        })
    }

    /// How long a CA is published before it signs.
    pub fn propagation(&self) -> SignedDuration {
        PROPAGATION.min(self.ca.renew_before / 4)
    }
}

/// The first of the fields that is given.
fn first(
    fields: [(&'static str, &Option<String>); 2],
    least: SignedDuration,
) -> Result<Option<SignedDuration>, SettingsError> {
    let given = fields
        .into_iter()
        .find_map(|(field, text)| Some((field, text.as_ref()?)));
    let Some((field, text)) = given else {
        return Ok(None);
    };
    let refused = |problem| SettingsError {
        field,
        value: text.clone(),
        problem,
    };
    match duration::parse(text) {
        None => Err(refused(Problem::Unreadable)),
        Some(duration) if duration < least => Err(refused(Problem::Less(least))),
        Some(duration) => Ok(Some(duration)),
    }
}

/// A duration that is none, or not a sensible one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingsError {
    field: &'static str,
    value: String,
    problem: Problem,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Problem {
    Unreadable,
    Less(SignedDuration),
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            field,
            value,
            problem,
        } = self;
        write!(
            f,
            "spec.certificateRotateStrategy.selfSigned.{field} is {value:?}: "
        )?;
        match problem {
            Problem::Unreadable => f.write_str("write it in hours, minutes and seconds, as 36h30m"),
            Problem::Less(least) => write!(f, "must be at least {}", duration::format(*least)),
        }
    }
}

impl std::error::Error for SettingsError {}
