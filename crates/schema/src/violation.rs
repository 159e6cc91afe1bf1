use std::fmt;

use serde_json::Value;

use apimachinery::go::quote;

use crate::{go_format::shown, path::Path};

/// One thing that is wrong with an object, and where.
#[derive(Clone, Debug, PartialEq)]
pub struct Violation {
    /// The field, such as `spec.disks[1].size`; empty for the object itself.
    pub path: String,
    /// What is wrong.
    pub problem: Problem,
}

/// What is wrong with a value.
#[derive(Clone, Debug, PartialEq)]
pub enum Problem {
    /// It must be there.
    Required,
    /// It must be there, for a reason.
    RequiredBecause {
        /// The reason.
        detail: String,
    },
    /// It is not of the type that it must be.
    Type {
        /// The type that it is.
        found: String,
        /// What it must be.
        detail: String,
    },
    /// It is not among those that are allowed.
    Unsupported {
        value: Value,
        /// What is allowed.
        supported: Vec<Value>,
    },
    /// It breaks a rule.
    Invalid {
        /// The value, where it is short enough to be shown.
        value: Option<Value>,
        /// What the rule says.
        detail: String,
    },
    /// It breaks a rule, and is shown in another form than that it has.
    InvalidShown {
        /// How it is shown.
        shown: String,
        /// What the rule says.
        detail: String,
    },
    /// It has too many bytes.
    TooLong {
        /// How many it may have.
        max: u64,
    },
    /// It has too many items.
    TooMany {
        /// How many it has.
        found: usize,
        /// How many it may have.
        max: u64,
    },
    /// It names something that is not there.
    NotFound { value: Value },
    /// It is there twice.
    Duplicate {
        /// The value, or the keys of it.
        value: Value,
    },
    /// It is there twice, and too large to be shown.
    DuplicateUnshown,
    /// It may not be set, or not be changed.
    Forbidden {
        /// Why not.
        detail: String,
    },
    /// There is no such field.
    Unknown {
        /// A field that may have been meant.
        similar: Option<String>,
    },
}

impl Problem {
    /// The word that a `Status` has for it, among its causes.
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
            Self::Duplicate { .. } | Self::DuplicateUnshown => "FieldValueDuplicate",
            Self::Forbidden { .. } => "FieldValueForbidden",
        }
    }

    /// Whether CEL rules that look at the value cannot be trusted.
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
    /// Something that is wrong with the field at `path`.
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

    /// A value that breaks a rule.
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

    /// A value that breaks a rule, shown in another form than that it has.
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

    /// A value that is none of those that are supported.
    pub(crate) fn unsupported(path: impl Into<String>, value: &str, supported: &[&str]) -> Self {
        let problem = Problem::Unsupported {
            value: value.into(),
            supported: supported.iter().map(|value| Value::from(*value)).collect(),
        };
        Self::at(path, problem)
    }

    /// A field that must be there, for a reason.
    pub fn required(path: impl Into<String>, detail: impl Into<String>) -> Self {
        let detail = detail.into();
        let problem = if detail.is_empty() {
            Problem::Required
        } else {
            Problem::RequiredBecause { detail }
        };
        Self::at(path, problem)
    }

    /// A field that may not be set.
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
            Self::DuplicateUnshown => f.write_str("Duplicate value"),
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
