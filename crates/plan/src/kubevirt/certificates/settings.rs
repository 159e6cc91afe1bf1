//! Lifetimes of certificates in the KubeVirt resource.

use std::fmt;

use api::kubevirt::install::{CertificateConfig, KubeVirt};
use k8s_openapi::jiff::SignedDuration;

use crate::certificates::{Lifetime, Settings, duration};

/// A shorter-lived certificate would expire before the components load it.
const SHORTEST: SignedDuration = SignedDuration::from_mins(1);

/// Default lifetimes: a week for CAs, a day for leaf certificates.
pub const DEFAULT: Settings = Settings {
    ca: Lifetime {
        duration: SignedDuration::from_hours(168),
        renew_before: SignedDuration::from_mins(168 * 60 / 5),
    },
    server: Lifetime {
        duration: SignedDuration::from_hours(24),
        renew_before: SignedDuration::from_mins(24 * 60 / 5),
    },
};

/// Lifetimes of the certificates of a KubeVirt resource. Of a deprecated field and its successor, the
/// deprecated one takes precedence.
///
/// # Errors
/// When a field is not a duration, or too short.
pub fn settings(kubevirt: &KubeVirt) -> Result<Settings, SettingsError> {
    let strategy = kubevirt.spec.certificate_rotate_strategy.as_ref();
    let Some(given) = strategy.and_then(|strategy| strategy.self_signed.as_ref()) else {
        return Ok(DEFAULT);
    };
    let none = CertificateConfig::default();
    let ca = given.ca.as_ref().unwrap_or(&none);
    let server = given.server.as_ref().unwrap_or(&none);
    let duration = |fields, default: Lifetime| {
        first(fields, SHORTEST).map(|given| given.unwrap_or(default.duration))
    };
    let renew_before = |fields, duration: SignedDuration| {
        let given = first(fields, SignedDuration::ZERO)?;
        // A certificate must not be due for renewal when it is issued.
        Ok(given.unwrap_or(duration / 5).min(duration * 9 / 10))
    };
    let ca_duration = duration(
        [
            ("caRotateInterval", &given.ca_rotate_interval),
            ("ca.duration", &ca.duration),
        ],
        DEFAULT.ca,
    )?;
    let server_duration = duration(
        [
            ("certRotateInterval", &given.cert_rotate_interval),
            ("server.duration", &server.duration),
        ],
        DEFAULT.server,
    )?;
    Ok(Settings {
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

/// The first field that is set.
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

/// A duration that is invalid or too short.
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
            Problem::Unreadable => f.write_str("use hours, minutes and seconds, such as 36h30m"),
            Problem::Less(least) => write!(f, "it must be at least {}", duration::format(*least)),
        }
    }
}

impl std::error::Error for SettingsError {}
