//! Kubernetes Events to record for an object.

/// An Event for `kubectl describe`. It never contains the content of a Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub severity: Severity,
    pub reason: &'static str,
    pub message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    Normal,
    Warning,
}

impl Event {
    pub fn normal(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Normal,
            reason,
            message: message.into(),
        }
    }

    pub fn warning(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Warning,
            reason,
            message: message.into(),
        }
    }
}
