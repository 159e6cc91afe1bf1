use std::fmt;

use serde_json::Value;

use crate::path::Path;

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
    /// It is not of the type that it must be.
    Type {
        /// The type that it is.
        found: String,
        /// What it must be.
        detail: String,
    },
    /// It is not among those that are allowed.
    Unsupported {
        /// The value.
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
    /// It is there twice.
    Duplicate {
        /// The value, or the keys of it.
        value: Value,
    },
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
            Self::Required => "FieldValueRequired",
            Self::Type { .. } => "FieldValueTypeInvalid",
            Self::Unsupported { .. } => "FieldValueNotSupported",
            Self::Invalid { .. } | Self::Unknown { .. } => "FieldValueInvalid",
            Self::TooLong { .. } => "FieldValueTooLong",
            Self::TooMany { .. } => "FieldValueTooMany",
            Self::Duplicate { .. } => "FieldValueDuplicate",
            Self::Forbidden { .. } => "FieldValueForbidden",
        }
    }

    /// Whether CEL rules that look at the value cannot be trusted.
    pub(crate) fn blocks_rules(&self) -> bool {
        matches!(
            self,
            Self::Required
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

    pub(crate) fn new(path: &Path, problem: Problem) -> Self {
        Self {
            path: path.to_string(),
            problem,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Required => f.write_str("Required value"),
            Self::Type { found, detail } => {
                write!(f, "Invalid value: {found:?}: {detail}: {found:?}")
            }
            Self::Unsupported { value, supported } => {
                write!(f, "Unsupported value: {value}: supported values: ")?;
                for (index, value) in supported.iter().enumerate() {
                    let comma = if index == 0 { "" } else { ", " };
                    write!(f, "{comma}{value}")?;
                }
                Ok(())
            }
            Self::Invalid {
                value: Some(value),
                detail,
            } => {
                write!(f, "Invalid value: {value}: {detail}")
            }
            Self::Invalid {
                value: None,
                detail,
            } => write!(f, "Invalid value: {detail}"),
            Self::TooLong { max } => write!(f, "Too long: may not be more than {max} bytes"),
            Self::TooMany { found, max } => {
                write!(f, "Too many: {found}: must have at most {max} items")
            }
            Self::Duplicate { value } => write!(f, "Duplicate value: {value}"),
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
