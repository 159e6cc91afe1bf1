//! Checks of a diagnosis, in the order of the walk: what comes first explains what follows.

mod guest;
mod machine;
mod operations;
mod pods;
mod storage;

use api::{ObjectMeta, ObservedCondition, Phase, PowerState, Time, condition};
use k8s_openapi::jiff::SignedDuration;

use super::{Cause, Event, Finding, Observed, Severity};

/// States that end by themselves within this time are not reported.
pub(super) const GRACE_PERIOD: SignedDuration = SignedDuration::from_secs(30);
/// Crashes within this time are reported although the guest runs again.
pub(super) const RECENT: SignedDuration = SignedDuration::from_mins(10);

pub(super) struct View<'a> {
    pub(super) observed: &'a Observed,
    pub(super) now: &'a Time,
}

type Check = fn(&View<'_>) -> Vec<Finding>;

pub(super) const ALL: &[Check] = &[
    // Nobody acts on the Machine, or it is about to go.
    machine::other_provider,
    machine::deleting,
    // Without KubeVirt nothing below it exists.
    machine::kubevirt_missing,
    pods::components,
    machine::virt_api,
    machine::not_reconciled,
    machine::invalid_spec,
    // Disks and networks come before the guest.
    storage::data_lost,
    storage::claims,
    pods::importers,
    storage::volumes,
    machine::network,
    // The node explains its pods, and a pod its guest.
    pods::node,
    pods::launchers,
    guest::crash_loop,
    guest::not_running,
    guest::not_ready,
    machine::reported,
    // What does not keep the guest from running.
    operations::restores,
    operations::migrations,
    operations::snapshots,
    storage::resizes,
    guest::recent_crashes,
    machine::notices,
];

impl View<'_> {
    pub(super) fn name(&self) -> &str {
        self.observed
            .machine
            .metadata
            .name
            .as_deref()
            .unwrap_or_default()
    }

    pub(super) fn namespace(&self) -> &str {
        let namespace = self.observed.machine.metadata.namespace.as_deref();
        namespace.unwrap_or_default()
    }

    pub(super) fn vm_name(&self) -> &str {
        let spec = &self.observed.machine.spec;
        spec.name.as_deref().unwrap_or_else(|| self.name())
    }

    /// A condition of the Machine.
    pub(super) fn condition(&self, type_: &str) -> Option<&api::Condition> {
        let status = self.observed.machine.status.as_ref()?;
        let mut conditions = status.conditions.iter().flatten();
        conditions.find(|condition| condition.type_ == type_)
    }

    pub(super) fn reason(&self) -> &str {
        self.condition("Ready").map_or("", |ready| &ready.reason)
    }

    pub(super) fn phase(&self) -> Option<Phase> {
        self.observed.machine.status.as_ref()?.phase
    }

    pub(super) fn is_ready(&self) -> bool {
        self.condition("Ready")
            .is_some_and(|ready| ready.status == "True")
    }

    /// Whether the guest is to run.
    pub(super) fn is_to_run(&self) -> bool {
        self.observed.machine.spec.power_state != Some(PowerState::Stopped)
    }

    pub(super) fn since(&self, time: &Time) -> SignedDuration {
        self.now.0.duration_since(time.0)
    }

    pub(super) fn age(&self, metadata: &ObjectMeta) -> SignedDuration {
        let created = metadata.creation_timestamp.as_ref();
        created.map_or(SignedDuration::ZERO, |created| self.since(created))
    }

    /// The last Warning of an object with one of these reasons.
    pub(super) fn last_event(
        &self,
        kind: &str,
        metadata: &ObjectMeta,
        reasons: &[&str],
    ) -> Option<&Event> {
        let events = self.observed.events.iter();
        let events = events.filter(|event| {
            event.is_of(kind, metadata) && reasons.contains(&event.reason.as_str())
        });
        events.max_by_key(|event| event.last().map(|time| time.0))
    }

    pub(super) fn machine(&self, cause: Cause, severity: Severity) -> Finding {
        self.on("Machine", self.name(), cause, severity)
    }

    pub(super) fn on(&self, kind: &str, name: &str, cause: Cause, severity: Severity) -> Finding {
        let object = match self.namespace() {
            "" => format!("{kind} {name}"),
            namespace => format!("{kind} {namespace}/{name}"),
        };
        Finding {
            cause,
            severity,
            object,
            message: String::new(),
            remedy: String::new(),
        }
    }
}

impl Finding {
    pub(super) fn says(mut self, message: impl Into<String>) -> Self {
        self.message = message.into();
        self
    }

    pub(super) fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = remedy.into();
        self
    }
}

pub(super) fn name_of(metadata: &ObjectMeta) -> &str {
    metadata.name.as_deref().unwrap_or_default()
}

/// Message of a condition; its reason if it has none.
pub(super) fn words(condition: &ObservedCondition) -> &str {
    match condition.message.as_str() {
        "" => &condition.reason,
        message => message,
    }
}

pub(super) fn is_false(conditions: &[ObservedCondition], type_: &str) -> bool {
    condition(conditions, type_).is_some_and(ObservedCondition::is_false)
}

/// The state of a Machine in which no check found anything broken.
pub(super) fn state(view: &View<'_>) -> Finding {
    let ready = view.condition("Ready");
    let message = ready.map_or("has not been reconciled yet", |ready| &ready.message);
    let (cause, severity) = match (view.reason(), view.phase()) {
        ("Running", _) => (Cause::Running, Severity::Healthy),
        ("Paused", _) => (Cause::Paused, Severity::Healthy),
        ("Stopping", _) => (Cause::Stopping, Severity::Progressing),
        ("Stopped", _) => (Cause::Stopped, Severity::Healthy),
        ("Starting", _) => (Cause::Starting, Severity::Progressing),
        _ => (Cause::Creating, Severity::Progressing),
    };
    view.machine(cause, severity).says(message)
}
