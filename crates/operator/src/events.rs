//! Events of a plan, as Kubernetes Events.

use k8s_openapi::api::core::v1::ObjectReference;
use plan::Severity;
use runtime::events::{Event, EventType};

/// The Event to publish on `object`.
pub(crate) fn on(object: ObjectReference, event: plan::Event) -> Event {
    Event {
        object,
        event_type: match event.severity {
            Severity::Normal => EventType::Normal,
            Severity::Warning => EventType::Warning,
        },
        reason: event.reason.to_owned(),
        message: event.message,
    }
}
