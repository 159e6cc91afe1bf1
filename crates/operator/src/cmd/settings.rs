//! How settings of processes are read: the flag, else the environment, else the default.
//!
//! All that is wrong is told at once, and nothing starts with half of the settings.

mod common;

use std::{fmt::Display, fs, num::NonZeroU32, path::PathBuf, str::FromStr};

pub(crate) use common::{Common, GivenCommon};

use super::Outcome;
use crate::report::Report;

/// Where the kubelet tells a pod its namespace.
const POD_NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// A value that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{variable} (--{flag}): {value:?} {allowed}")]
pub(crate) struct Problem {
    variable: &'static str,
    flag: String,
    value: String,
    allowed: String,
}

/// The namespace of the pod that the process runs in.
pub(crate) fn pod_namespace() -> Option<String> {
    let name = fs::read_to_string(POD_NAMESPACE).ok()?;
    Some(name.trim().to_owned())
}

/// Ends a command whose settings cannot be used.
pub(crate) fn refused(problems: Vec<Problem>, report: &mut Report) -> Outcome {
    for problem in problems {
        report.error(problem);
    }
    Outcome::Unreadable
}

/// Paths in one word, for the log.
pub(crate) fn joined(paths: &[PathBuf]) -> String {
    let paths = paths.iter().map(|path| path.display().to_string());
    paths.collect::<Vec<_>>().join(":")
}

/// Reads values and keeps what is wrong with them.
#[derive(Default)]
pub(crate) struct Reader {
    problems: Vec<Problem>,
}

impl Reader {
    /// The value of `variable`, whose flag is named like it; none when it is empty, not given or
    /// wrong.
    pub(crate) fn read<T>(
        &mut self,
        variable: &'static str,
        value: Option<String>,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        let flag = variable.to_ascii_lowercase().replace('_', "-");
        self.read_flag(&flag, variable, value, read)
    }

    /// The value of `variable`, whose flag has another name.
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

    /// What the settings mean, or all that is wrong with them.
    pub(crate) fn end<T>(self, settings: T) -> Result<T, Vec<Problem>> {
        if self.problems.is_empty() {
            Ok(settings)
        } else {
            Err(self.problems)
        }
    }
}

/// What a text is as a value of its type.
pub(crate) fn parsed<T: FromStr<Err: Display>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: T::Err| error.to_string())
}

/// Yes or no.
pub(crate) fn boolean(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        _ => Err("must be one of true, false, 1, 0".to_owned()),
    }
}

/// A rate of requests.
pub(crate) fn rate(text: &str) -> Result<NonZeroU32, String> {
    text.parse()
        .map_err(|_| format!("must be a whole number from 1 to {}", u32::MAX))
}

/// The name of a namespace.
pub(crate) fn namespace_name(text: &str) -> Result<String, String> {
    if is_label(text) {
        Ok(text.to_owned())
    } else {
        Err("must be the name of a namespace: \
             at most 63 lower-case letters, digits and '-', the first and last no '-'"
            .to_owned())
    }
}

/// Whether `name` is a label of DNS (RFC 1123), as names of namespaces are.
pub(crate) fn is_label(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    (1..=63).contains(&name.len())
        && name.chars().all(allowed)
        && !name.starts_with('-')
        && !name.ends_with('-')
}
