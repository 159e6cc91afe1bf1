//! Admission review of Machines, MachineClasses and NetworkConfigurations, beyond what a schema can check.
//!
//! Guarantees:
//! - an update that leaves `spec` unchanged is allowed, and so is every update of an object that is being
//!   deleted: no rule blocks a status, a finalizer or a deletion;
//! - an update is refused only for problems that it introduces, so that users can fix one at a time;
//! - a problem that may disappear without another change of the object, such as a missing reference, is a
//!   warning, unless the change cannot be undone: disks do not shrink;
//! - all problems are reported at once, each with its field and remedy.

pub mod machine;
pub mod machine_class;
pub mod network_configuration;

use std::borrow::Cow;

use api::Machine;

/// Result of an admission review.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    pub errors: Vec<FieldError>,
    /// Why other objects conflict with the change, although it is valid.
    pub conflict: Option<String>,
    pub warnings: Vec<String>,
}

/// An error that refuses a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    pub field: String,
    /// The problem and its remedy, including the field.
    pub message: String,
    /// The same for clients that print the field themselves.
    pub detail: String,
}

impl FieldError {
    /// A problem, which follows the field.
    pub fn new(field: impl Into<String>, problem: impl Into<String>) -> Self {
        let (field, detail) = (field.into(), problem.into());
        Self {
            message: format!("{field}: {detail}"),
            field,
            detail,
        }
    }

    /// A sentence that names the field, or needs none.
    pub fn sentence(field: impl Into<String>, message: impl Into<String>) -> Self {
        let message = message.into();
        Self {
            field: field.into(),
            detail: message.clone(),
            message,
        }
    }
}

impl Verdict {
    pub fn is_allowed(&self) -> bool {
        self.errors.is_empty() && self.conflict.is_none()
    }

    /// All errors in one line.
    pub fn message(&self) -> String {
        let errors = self.errors.iter().map(|error| &*error.message);
        let messages: Vec<&str> = errors.chain(self.conflict.as_deref()).collect();
        messages.join("; ")
    }

    /// Adds a warning, once.
    pub fn warn(&mut self, warning: impl Into<String>) {
        let warning = warning.into();
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }

    /// Refuses a change for a problem of a field.
    pub(crate) fn refuse(&mut self, field: impl Into<String>, problem: impl Into<String>) {
        self.errors.push(FieldError::new(field, problem));
    }

    /// Refuses a change in a sentence that names the field.
    pub(crate) fn refuse_sentence(
        &mut self,
        field: impl Into<String>,
        sentence: impl Into<String>,
    ) {
        self.errors.push(FieldError::sentence(field, sentence));
    }
}

/// A problem of a resource, whether or not the change introduces it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Problem {
    field: String,
    message: String,
}

impl Problem {
    fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            message: message.into(),
        }
    }

    fn describe(&self) -> String {
        format!("{}: {}", self.field, self.message)
    }

    /// Whether it is the same problem, perhaps at another index: earlier items may have been removed.
    fn is_same(&self, other: &Self) -> bool {
        self.message == other.message && without_places(&self.field) == without_places(&other.field)
    }
}

fn without_places(field: &str) -> String {
    field
        .chars()
        .filter(|letter| !letter.is_ascii_digit())
        .collect()
}

impl Verdict {
    /// Refuses a change for the problems that it introduces, and warns of those that existed before.
    fn compare_problems(&mut self, mut before: Vec<Problem>, now: Vec<Problem>) {
        for problem in now {
            let known = before.iter().position(|other| other.is_same(&problem));
            match known {
                Some(known) => {
                    before.swap_remove(known);
                    self.warn(problem.describe());
                }
                None => self.refuse(problem.field, problem.message),
            }
        }
    }
}

/// Number of names in a list: API servers truncate long warnings.
const MAX_LISTED: usize = 5;

/// The first few names of Machines.
fn names<'a>(machines: impl IntoIterator<Item = &'a Machine>) -> String {
    let names = machines.into_iter().map(|machine| {
        let name = machine.metadata.name.as_deref();
        Cow::Borrowed(name.unwrap_or_default())
    });
    listed(names)
}

fn listed<'a>(mut names: impl Iterator<Item = Cow<'a, str>>) -> String {
    let listed: Vec<_> = names.by_ref().take(MAX_LISTED).collect();
    let listed = listed.join(", ");
    match names.count() {
        0 => listed,
        more => format!("{listed} and {more} more"),
    }
}

fn machines(count: usize) -> String {
    match count {
        1 => "1 Machine".to_owned(),
        count => format!("{count} Machines"),
    }
}

#[cfg(test)]
mod tests;
