//! What a release of KubeVirt says it consists of.
//!
//! A release describes itself: its own operator writes its objects as YAML documents, the install
//! strategy, into a ConfigMap. Any release can be read, a later one too: kinds that are not known
//! are objects like all others. What is known to be wrong in the documents is mended, and every
//! mend is told.
//!
//! Whatever the text is, reading it ends with objects or with an error that says what to do, in
//! memory that is bounded by [`MAX_BYTES`].

use std::{collections::BTreeMap, fmt};

use super::object::{Id, Object};

mod mend;
mod packed;
mod yaml;

pub use packed::{GZIP_BASE64, MANIFESTS, decode, encode};

/// The largest text of a strategy. Releases have four megabytes.
pub const MAX_BYTES: usize = 64 << 20;

/// The objects of a release.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Strategy {
    /// The objects, mended, in the order they are written in, each once.
    pub objects: Vec<Object>,
    /// What was mended.
    pub repairs: Vec<String>,
}

/// Why there is no reading a strategy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StrategyError {
    /// The ConfigMap has no text.
    NoManifests,
    /// The text is packed in a way that is not known.
    Encoding(String),
    /// The text cannot be unpacked.
    Unpack(String),
    /// The text is too large.
    TooLarge,
    /// A document is not YAML.
    NotYaml {
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        message: String,
    },
    /// A document is not an object.
    NotAnObject {
        /// The line it begins in, from 1.
        line: usize,
        /// What it lacks, if it has fields at all.
        lacks: Option<&'static str>,
    },
    /// There are no documents.
    Empty,
}

impl fmt::Display for StrategyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoManifests => write!(
                f,
                "data has no key {MANIFESTS}: delete the ConfigMap, and it is made anew"
            ),
            Self::Encoding(found) => write!(
                f,
                "annotation {} is {found:?}, which is not known: it may be {GZIP_BASE64}, or absent \
                 for plain text",
                api::kubevirt::install::STRATEGY_ENCODING
            ),
            Self::Unpack(why) => write!(
                f,
                "data.{MANIFESTS} is not {GZIP_BASE64}: {why}: delete the ConfigMap, and it is made \
                 anew"
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
    /// The objects of a strategy's text.
    ///
    /// # Errors
    /// When the text is not YAML, has something other than objects in it, or nothing: an
    /// installation without objects would be a removal.
    pub fn parse(text: &str) -> Result<Self, StrategyError> {
        if text.len() > MAX_BYTES {
            return Err(StrategyError::TooLarge);
        }
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut strategy = Self::default();
        let mut places: BTreeMap<Id, usize> = BTreeMap::new();
        yaml::documents(text, |json, line| {
            let object = mend::mend(json, &mut strategy.repairs);
            let object = object.map_err(|lack| StrategyError::NotAnObject {
                line,
                lacks: match lack {
                    mend::Lack::Fields => None,
                    mend::Lack::Field(field) => Some(field),
                },
            })?;
            let place = places.get(&object.id);
            match place.and_then(|place| strategy.objects.get_mut(*place)) {
                None => {
                    places.insert(object.id.clone(), strategy.objects.len());
                    strategy.objects.push(object);
                }
                Some(first) => {
                    // One applied after the other, the last would stay.
                    let differs = if *first == object {
                        ""
                    } else {
                        ", differently"
                    };
                    strategy
                        .repairs
                        .push(format!("{}: was there twice{differs}", object.id));
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
