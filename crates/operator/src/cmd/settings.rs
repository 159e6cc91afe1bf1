//! Parsing of settings from flags and environment variables. All errors are reported at once.

mod common;

use std::{fmt::Display, fs, num::NonZeroU32, path::PathBuf, str::FromStr};

pub(crate) use common::{Common, CommonFlags};

use plan::machine::{Provider, is_cluster_name};

use super::Outcome;
use crate::report::Report;

/// File with the namespace of the pod.
const POD_NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// Invalid value of a setting.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{variable} (--{flag}): {value:?} {allowed}")]
pub(crate) struct Problem {
    variable: &'static str,
    flag: String,
    value: String,
    allowed: String,
}

/// Namespace of the pod that the process runs in.
pub(crate) fn pod_namespace() -> Option<String> {
    let name = fs::read_to_string(POD_NAMESPACE).ok()?;
    Some(name.trim().to_owned())
}

/// Reports invalid settings.
pub(crate) fn refused(problems: Vec<Problem>, report: &mut Report) -> Outcome {
    for problem in problems {
        report.error(problem);
    }
    Outcome::Unreadable
}

/// Paths separated by colons, for the log.
pub(crate) fn joined(paths: &[PathBuf]) -> String {
    let paths = paths.iter().map(|path| path.display().to_string());
    paths.collect::<Vec<_>>().join(":")
}

/// Parser that collects errors.
#[derive(Default)]
pub(crate) struct Reader {
    problems: Vec<Problem>,
}

impl Reader {
    /// Parses the value of `variable`, whose flag has the corresponding name; none if it is empty, not set
    /// or invalid.
    pub(crate) fn read<T>(
        &mut self,
        variable: &'static str,
        value: Option<String>,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        let flag = variable.to_ascii_lowercase().replace('_', "-");
        self.read_flag(&flag, variable, value, read)
    }

    /// Same as [`read`](Self::read), for a flag with another name.
    pub(crate) fn read_flag<T>(
        &mut self,
        flag: &str,
        variable: &'static str,
        value: Option<String>,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        let value = value.filter(|value| !value.trim().is_empty())?;
        match read(value.trim()) {
            Ok(meaning) => Some(meaning),
            Err(allowed) => {
                self.problems.push(Problem {
                    variable,
                    flag: flag.to_owned(),
                    value,
                    allowed,
                });
                None
            }
        }
    }

    /// The settings, or all errors.
    pub(crate) fn finish<T>(self, settings: T) -> Result<T, Vec<Problem>> {
        if self.problems.is_empty() {
            Ok(settings)
        } else {
            Err(self.problems)
        }
    }
}

pub(crate) fn parsed<T: FromStr<Err: Display>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: T::Err| error.to_string())
}

pub(crate) fn boolean(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        _ => Err("must be one of true, false, 1, 0".to_owned()),
    }
}

pub(crate) fn rate(text: &str) -> Result<NonZeroU32, String> {
    text.parse()
        .map_err(|_| format!("must be a whole number from 1 to {}", u32::MAX))
}

pub(crate) fn provider(text: &str) -> Result<Provider, String> {
    let is_valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if text.len() <= 63 && text.chars().all(is_valid) {
        Ok(Provider::new(text))
    } else {
        Err(
            "must be the name of a provider: at most 63 letters, digits, '-', '_' and '.'"
                .to_owned(),
        )
    }
}

/// Name of a KubevirtConfig.
pub(crate) fn cluster_name(text: &str) -> Result<String, String> {
    if is_cluster_name(text) {
        Ok(text.to_owned())
    } else {
        Err("must be the name of a KubevirtConfig: a DNS name of at most 63 characters".to_owned())
    }
}

pub(crate) fn namespace_name(text: &str) -> Result<String, String> {
    if is_label(text) {
        Ok(text.to_owned())
    } else {
        Err("must be the name of a namespace: \
             at most 63 lower-case letters, digits and '-', the first and last no '-'"
            .to_owned())
    }
}

/// Whether `name` is a DNS label (RFC 1123).
pub(crate) fn is_label(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    (1..=63).contains(&name.len())
        && name.chars().all(allowed)
        && !name.starts_with('-')
        && !name.ends_with('-')
}
