//! How long certificates are valid, as the KubeVirt resource says.

use std::fmt;

use api::kubevirt::install::{CertificateConfig, KubeVirt};
use k8s_openapi::jiff::SignedDuration;

use crate::certificates::{Lifetime, Settings, duration};

/// A certificate that is valid for less than this would run out before it is where it is needed.
const SHORTEST: SignedDuration = SignedDuration::from_mins(1);

/// How long they are valid if the resource does not say: a week, and a day.
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

/// How long the certificates of a KubeVirt resource are valid. Where a deprecated field and its successor are both given, the
/// deprecated one counts.
///
/// # Errors
/// When a field is no duration, or not a sensible one.
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
        // What is replaced as soon as it is made is never in use.
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
