//! Errors of server-side apply.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use super::entries::{ManagerId, Operation};
use crate::fields::{FieldSet, Path};
use crate::go;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// 400: not a configuration that can be applied.
    #[error("{0}")]
    BadRequest(String),
    /// 409: other managers own fields that would change.
    #[error("{0}")]
    Conflicts(Conflicts),
    /// 500: the configuration does not fit the type. The server reports an internal error.
    #[error("{0}")]
    Internal(String),
}

impl ApplyError {
    /// HTTP status of the response.
    pub fn code(&self) -> u16 {
        match self {
            Self::BadRequest(_) => 400,
            Self::Conflicts(_) => 409,
            Self::Internal(_) => 500,
        }
    }
}

/// The fields that other managers own, by manager. Never empty.
///
/// Displayed as the message of the server's `Status`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflicts(Vec<Conflict>);

/// A field that another manager owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    manager: ManagerId,
    path: Path,
}

/// One cause of the server's `Status`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// Always `FieldManagerConflict`.
    pub reason: &'static str,
    /// Who owns the field: `conflict with "kubectl" using apps/v1`.
    pub message: String,
    /// The path of the field: `.spec.replicas`.
    pub field: String,
}

impl Conflicts {
    /// The conflicts with these managers, or `None` if there are none.
    pub(super) fn new(sets: &BTreeMap<ManagerId, FieldSet>) -> Option<Self> {
        let mut conflicts: Vec<_> = sets
            .iter()
            .flat_map(|(manager, set)| {
                set.paths().into_iter().map(|path| Conflict {
                    manager: manager.clone(),
                    path,
                })
            })
            .collect();
        conflicts.sort_by_cached_key(|conflict| identifier(&conflict.manager));
        (!conflicts.is_empty()).then_some(Self(conflicts))
    }

    /// The conflicts over fields that are not in the set, or `None` if all are.
    pub(super) fn without(self, allowed: &FieldSet) -> Option<Self> {
        let conflicts: Vec<_> = self
            .0
            .into_iter()
            .filter(|conflict| !allowed.contains(&conflict.path))
            .collect();
        (!conflicts.is_empty()).then_some(Self(conflicts))
    }

    /// The causes of the server's `Status`, one for each field.
    pub fn causes(&self) -> Vec<Cause> {
        let cause = |conflict: &Conflict| Cause {
            reason: "FieldManagerConflict",
            message: format!("conflict with {}", describe(&conflict.manager)),
            field: conflict.path.to_string(),
        };
        self.0.iter().map(cause).collect()
    }
}

impl fmt::Display for Conflicts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [only] = self.0.as_slice() {
            let manager = describe(&only.manager);
            return write!(
                formatter,
                "Apply failed with 1 conflict: conflict with {manager}: {}",
                only.path
            );
        }
        write!(formatter, "Apply failed with {} conflicts: ", self.0.len())?;
        let mut previous = None;
        for conflict in &self.0 {
            if previous != Some(&conflict.manager) {
                let separator = if previous.is_none() { "" } else { "\n" };
                write!(
                    formatter,
                    "{separator}conflicts with {}:",
                    describe(&conflict.manager)
                )?;
                previous = Some(&conflict.manager);
            }
            write!(formatter, "\n- {}", conflict.path)?;
        }
        Ok(())
    }
}

fn describe(id: &ManagerId) -> String {
    let mut text = go::quote(&id.manager);
    if !id.subresource.is_empty() {
        text = format!("{text} with subresource {}", go::quote(&id.subresource));
    }
    match id.operation {
        Operation::Update => format!("{text} using {}", id.api_version),
        Operation::Apply => text,
    }
}

/// The text by which the server sorts managers: an entry without its fields, as JSON.
fn identifier(id: &ManagerId) -> String {
    let mut text = String::from("{");
    for (name, value) in [
        ("manager", id.manager.as_str()),
        ("operation", id.operation.as_str()),
        ("apiVersion", &id.api_version),
        ("subresource", &id.subresource),
    ] {
        if !value.is_empty() {
            let separator = if text.len() > 1 { "," } else { "" };
            let _ = write!(
                text,
                "{separator}\"{name}\":{}",
                serde_json::Value::from(value)
            );
        }
    }
    text
}
