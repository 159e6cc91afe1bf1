//! Install strategy: the objects of a KubeVirt release.
//!
//! The virt-operator of a release writes its objects as YAML documents into a ConfigMap. Later releases
//! can be parsed too: unknown kinds are objects like all others. Known errors in the documents are
//! repaired, and every repair is recorded.
//!
//! Any text gives objects or an error with a remedy, in memory bounded by [`MAX_BYTES`].

use std::{collections::BTreeMap, fmt};

use super::object::{Id, Object};

mod encoding;
mod repair;
mod yaml;

pub use encoding::{GZIP_BASE64, MANIFESTS, decode, encode};

/// Maximum size of a strategy's text. Releases have four megabytes.
pub const MAX_BYTES: usize = 64 << 20;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Strategy {
    /// Repaired objects in the order of the text, each once.
    pub objects: Vec<Object>,
    /// Descriptions of the repairs.
    pub repairs: Vec<String>,
}

/// Why a strategy cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StrategyError {
    /// The ConfigMap has no text.
    NoManifests,
    /// Unknown encoding.
    Encoding(String),
    /// The text cannot be decompressed.
    Unpack(String),
    TooLarge,
    NotYaml {
        /// From 1.
        line: usize,
        message: String,
    },
    NotAnObject {
        /// First line of the document, from 1.
        line: usize,
        /// The missing field; None if the document is not a mapping.
        lacks: Option<&'static str>,
    },
    Empty,
}

impl fmt::Display for StrategyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoManifests => write!(
                f,
                "data has no key {MANIFESTS}: delete the ConfigMap, and the operator has it written again"
            ),
            Self::Encoding(found) => write!(
                f,
                "annotation {} is {found:?}: it must be {GZIP_BASE64}, or absent for plain text",
                api::kubevirt::install::STRATEGY_ENCODING
            ),
            Self::Unpack(error) => write!(
                f,
                "data.{MANIFESTS} is not {GZIP_BASE64}: {error}: delete the ConfigMap, and the \
                 operator has it written again"
            ),
            Self::TooLarge => write!(f, "is larger than {} MiB", MAX_BYTES >> 20),
            Self::NotYaml { line, message } => write!(f, "line {line}: {message}"),
            Self::NotAnObject { line, lacks: None } => {
                write!(f, "line {line}: the document is not a Kubernetes object")
            }
            Self::NotAnObject {
                line,
                lacks: Some(field),
            } => write!(f, "line {line}: the document has no {field}"),
            Self::Empty => f.write_str("has no objects"),
        }
    }
}

impl std::error::Error for StrategyError {}

impl From<yaml::Problem> for StrategyError {
    fn from(problem: yaml::Problem) -> Self {
        Self::NotYaml {
            line: problem.line,
            message: problem.message,
        }
    }
}

impl Strategy {
    /// Parses the text of a strategy.
    ///
    /// # Errors
    /// When the text is not YAML, contains anything but objects, or is empty: an installation without
    /// objects would be a removal.
    pub fn parse(text: &str) -> Result<Self, StrategyError> {
        if text.len() > MAX_BYTES {
            return Err(StrategyError::TooLarge);
        }
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut strategy = Self::default();
        let mut places: BTreeMap<Id, usize> = BTreeMap::new();
        yaml::documents(text, |json, line| {
            let object = repair::repair(json, &mut strategy.repairs);
            let object = object.map_err(|lack| StrategyError::NotAnObject {
                line,
                lacks: match lack {
                    repair::MissingField::Fields => None,
                    repair::MissingField::Field(field) => Some(field),
                },
            })?;
            let place = places.get(&object.id);
            match place.and_then(|place| strategy.objects.get_mut(*place)) {
                None => {
                    places.insert(object.id.clone(), strategy.objects.len());
                    strategy.objects.push(object);
                }
                Some(first) => {
                    // If both were applied in order, the last would win.
                    let differs = if *first == object {
                        ""
                    } else {
                        ", the last one kept"
                    };
                    strategy
                        .repairs
                        .push(format!("{}: duplicate removed{differs}", object.id));
                    *first = object;
                }
            }
            Ok::<_, StrategyError>(())
        })?;
        if strategy.objects.is_empty() {
            return Err(StrategyError::Empty);
        }
        strategy.objects.shrink_to_fit();
        Ok(strategy)
    }
}

#[cfg(test)]
mod tests;
