//! Validation errors (`field.Error`).

use std::fmt;

use serde_json::Value;

use apimachinery::go::quote;

use crate::{go_format::shown, path::Path};

/// A validation error and its path.
#[derive(Clone, Debug, PartialEq)]
pub struct Violation {
    /// Such as `spec.disks[1].size`; empty for the object itself.
    pub path: String,
    pub problem: Problem,
}

/// Error type with its arguments.
#[derive(Clone, Debug, PartialEq)]
pub enum Problem {
    Required,
    RequiredBecause {
        detail: String,
    },
    Type {
        found: String,
        detail: String,
    },
    Unsupported {
        value: Value,
        supported: Vec<Value>,
    },
    Invalid {
        /// Omitted if too large to print.
        value: Option<Value>,
        detail: String,
    },
    /// Invalid, with another representation of the value in the text.
    InvalidShown {
        shown: String,
        detail: String,
    },
    TooLong {
        max: u64,
    },
    TooMany {
        found: usize,
        max: u64,
    },
    NotFound {
        value: Value,
    },
    Duplicate {
        /// The value, or its keys.
        value: Value,
    },
    /// Duplicate that is too large to print.
    DuplicateOmitted,
    Forbidden {
        detail: String,
    },
    Unknown {
        /// Suggested field.
        similar: Option<String>,
    },
}

impl Problem {
    /// Reason in the causes of a `Status`.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Required | Self::RequiredBecause { .. } => "FieldValueRequired",
            Self::Type { .. } => "FieldValueTypeInvalid",
            Self::Unsupported { .. } => "FieldValueNotSupported",
            Self::Invalid { .. } | Self::InvalidShown { .. } | Self::Unknown { .. } => {
                "FieldValueInvalid"
            }
            Self::TooLong { .. } => "FieldValueTooLong",
            Self::TooMany { .. } => "FieldValueTooMany",
            Self::NotFound { .. } => "FieldValueNotFound",
            Self::Duplicate { .. } | Self::DuplicateOmitted => "FieldValueDuplicate",
            Self::Forbidden { .. } => "FieldValueForbidden",
        }
    }

    /// Whether CEL rules that use the value must be skipped.
    pub(crate) fn blocks_rules(&self) -> bool {
        matches!(
            self,
            Self::Required
                | Self::RequiredBecause { .. }
                | Self::Type { .. }
                | Self::Unsupported { .. }
                | Self::TooLong { .. }
                | Self::TooMany { .. }
        )
    }
}

impl Violation {
    pub fn at(path: impl Into<String>, problem: Problem) -> Self {
        Self {
            path: path.into(),
            problem,
        }
    }

    pub(crate) fn new(path: &Path<'_>, problem: Problem) -> Self {
        Self {
            path: path.to_string(),
            problem,
        }
    }

    pub fn invalid(
        path: impl Into<String>,
        value: impl Into<Value>,
        detail: impl Into<String>,
    ) -> Self {
        let problem = Problem::Invalid {
            value: Some(value.into()),
            detail: detail.into(),
        };
        Self::at(path, problem)
    }

    /// `shown` replaces the value in the text.
    pub(crate) fn invalid_shown(
        path: impl Into<String>,
        shown: impl Into<String>,
        detail: impl Into<String>,
    ) -> Self {
        let problem = Problem::InvalidShown {
            shown: shown.into(),
            detail: detail.into(),
        };
        Self::at(path, problem)
    }

    pub(crate) fn unsupported(path: impl Into<String>, value: &str, supported: &[&str]) -> Self {
        let problem = Problem::Unsupported {
            value: value.into(),
            supported: supported.iter().map(|value| Value::from(*value)).collect(),
        };
        Self::at(path, problem)
    }

    pub fn required(path: impl Into<String>, detail: impl Into<String>) -> Self {
        let detail = detail.into();
        let problem = if detail.is_empty() {
            Problem::Required
        } else {
            Problem::RequiredBecause { detail }
        };
        Self::at(path, problem)
    }

    pub fn forbidden(path: impl Into<String>, detail: impl Into<String>) -> Self {
        let detail = detail.into();
        Self::at(path, Problem::Forbidden { detail })
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Required => f.write_str("Required value"),
            Self::RequiredBecause { detail } => write!(f, "Required value: {detail}"),
            Self::Type { found, detail } => {
                let found = quote(found);
                write!(f, "Invalid value: {found}: {detail}: {found}")
            }
            Self::InvalidShown { shown, detail } => write!(f, "Invalid value: {shown}: {detail}"),
            Self::Unsupported { value, supported } => {
                write!(f, "Unsupported value: {}: supported values: ", shown(value))?;
                for (index, value) in supported.iter().enumerate() {
                    let comma = if index == 0 { "" } else { ", " };
                    let value = match value {
                        Value::String(text) => quote(text),
                        other => quote(&other.to_string()),
                    };
                    write!(f, "{comma}{value}")?;
                }
                Ok(())
            }
            Self::Invalid {
                value: Some(value),
                detail,
            } => {
                write!(f, "Invalid value: {}: {detail}", shown(value))
            }
            Self::Invalid {
                value: None,
                detail,
            } => write!(f, "Invalid value: {detail}"),
            Self::TooLong { max } => write!(f, "Too long: may not be more than {max} bytes"),
            Self::TooMany { found, max } => {
                write!(f, "Too many: {found}: must have at most {max} items")
            }
            Self::NotFound { value } => write!(f, "Not found: {value}"),
            Self::Duplicate { value } => write!(f, "Duplicate value: {}", shown(value)),
            Self::DuplicateOmitted => f.write_str("Duplicate value"),
            Self::Forbidden { detail } => write!(f, "Forbidden: {detail}"),
            Self::Unknown {
                similar: Some(similar),
            } => {
                write!(f, "unknown field: did you mean {similar:?}?")
            }
            Self::Unknown { similar: None } => f.write_str("unknown field"),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.as_str() {
            "" => write!(f, "{}", self.problem),
            path => write!(f, "{path}: {}", self.problem),
        }
    }
}
