//! Which changes to Machines, MachineClasses and NetworkConfigurations are let in, and what is told
//! to the person who made them.
//!
//! The schema has had its say before: here is what it cannot know. Guaranteed:
//! - an update that leaves `spec` as it is passes, and so does everything about an object that is
//!   being deleted: no rule holds up a status, a finalizer or an end;
//! - what was wrong before is no reason to refuse an update: only what it brings is, so that one
//!   thing can be mended at a time;
//! - what may become right without another change of the object, since what it refers to may still
//!   come, is told as a warning;
//! - everything is told at once, each with its field and what to do.

/// What is said to a change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Why it is refused; empty lets it in.
    pub errors: Vec<Refusal>,
    /// What to tell the person who asked.
    pub warnings: Vec<String>,
}

/// Why a change is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The field.
    pub field: String,
    /// What is wrong with it and what to do, in a sentence that stands alone.
    pub message: String,
}

impl Verdict {
    /// Whether the change is let in.
    pub fn is_allowed(&self) -> bool {
        self.errors.is_empty()
    }

    /// Everything that is wrong, in one line.
    pub fn message(&self) -> String {
        let messages: Vec<&str> = self.errors.iter().map(|error| &*error.message).collect();
        messages.join("; ")
    }

    pub(crate) fn refuse(&mut self, field: impl Into<String>, message: impl Into<String>) {
        self.errors.push(Refusal {
            field: field.into(),
            message: message.into(),
        });
    }
}
