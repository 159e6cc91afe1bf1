//! Which changes to Machines, MachineClasses and NetworkConfigurations are let in, and what is told
//! to the person who made them.
//!
//! The schema has had its say before: here is what it cannot know. Guaranteed:
//! - an update that leaves `spec` as it is passes, and so does everything about an object that is
//!   being deleted: no rule holds up a status, a finalizer or an end;
//! - what was wrong before is no reason to refuse an update: only what it brings is, so that one
//!   thing can be mended at a time;
//! - what may become right without another change of the object, since what it refers to may still
//!   come, is told as a warning, unless it could not be taken back: a disk does not shrink again;
//! - everything is told at once, each with its field and what to do.

pub mod machine;
pub mod machine_class;
pub mod network_configuration;

use std::borrow::Cow;

use api::Machine;

/// What is said to a change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// What is wrong with it.
    pub errors: Vec<FieldError>,
    /// Why others are in the way of it, although nothing of it is wrong.
    pub conflict: Option<String>,
    /// What to tell the person who asked.
    pub warnings: Vec<String>,
}

/// Why a change is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// The field.
    pub field: String,
    /// What is wrong with it and what to do, in a sentence that stands alone.
    pub message: String,
}

impl Verdict {
    /// Whether the change is let in.
    pub fn is_allowed(&self) -> bool {
        self.errors.is_empty() && self.conflict.is_none()
    }

    /// Everything that is wrong, in one line.
    pub fn message(&self) -> String {
        let errors = self.errors.iter().map(|error| &*error.message);
        let messages: Vec<&str> = errors.chain(self.conflict.as_deref()).collect();
        messages.join("; ")
    }

    /// Adds something to be told, once.
    pub fn warn(&mut self, warning: impl Into<String>) {
        let warning = warning.into();
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }

    pub(crate) fn refuse(&mut self, field: impl Into<String>, message: impl Into<String>) {
        self.errors.push(FieldError {
            field: field.into(),
            message: message.into(),
        });
    }
}

/// A problem of a resource.
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

    fn words(&self) -> String {
        format!("{}: {}", self.field, self.message)
    }

    /// Whether it is the other one, perhaps at another place of a list: what stood before it may
    /// have been removed.
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
    /// Refuses a change for the problems that it brings, and tells of those that were there before.
    fn weigh(&mut self, mut before: Vec<Problem>, now: Vec<Problem>) {
        for problem in now {
            let known = before.iter().position(|other| other.is_same(&problem));
            match known {
                Some(known) => {
                    before.swap_remove(known);
                    self.warn(problem.words());
                }
                None => self.refuse(problem.field.clone(), problem.words()),
            }
        }
    }
}

/// The most names that are listed: API servers cut warnings that are long in all.
const LISTED: usize = 5;

/// The names of Machines, the first few of them.
fn names<'a>(machines: impl IntoIterator<Item = &'a Machine>) -> String {
    let names = machines.into_iter().map(|machine| {
        let name = machine.metadata.name.as_deref();
        Cow::Borrowed(name.unwrap_or_default())
    });
    listed(names)
}

/// The first few of some names.
fn listed<'a>(mut names: impl Iterator<Item = Cow<'a, str>>) -> String {
    let listed: Vec<_> = names.by_ref().take(LISTED).collect();
    let listed = listed.join(", ");
    match names.count() {
        0 => listed,
        more => format!("{listed} and {more} more"),
    }
}

/// So many Machines, in words.
fn machines(count: usize) -> String {
    match count {
        1 => "1 Machine".to_owned(),
        count => format!("{count} Machines"),
    }
}

#[cfg(test)]
mod tests;
