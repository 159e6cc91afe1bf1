/// What people are told in `kubectl describe`. Never holds the content of a Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Whether it is about something wrong.
    pub severity: Severity,
    /// What happened, in a word.
    pub reason: &'static str,
    /// What happened, in a sentence.
    pub message: String,
}

/// Whether an event is about something wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// As it should be.
    Normal,
    /// Something is wrong.
    Warning,
}

impl Event {
    /// Something that is as it should be.
    pub fn normal(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Normal,
            reason,
            message: message.into(),
        }
    }

    /// Something that is wrong.
    pub fn warning(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Warning,
            reason,
            message: message.into(),
        }
    }
}
