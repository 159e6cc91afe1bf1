//! Failures of a Machine, in order of precedence: `Ready` names the first.

use std::time::Duration;

use api::{
    ObservedCondition, Time,
    cdi::DataVolumePhase,
    condition,
    kubevirt::{ObservedInstance, ObservedVirtualMachine},
};
use k8s_openapi::jiff::SignedDuration;

use super::{
    super::{ErrorType, Observed, Part, SpecError},
    Resolved,
    guest::Guest,
    view::View,
};
use crate::upstream_messages::StartProblem;

/// Failures that KubeVirt reports during a start often pass within milliseconds: younger ones are not
/// reported.
pub(super) const GRACE_PERIOD: SignedDuration = SignedDuration::from_secs(5);

/// A failure that a user has to fix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) part: Part,
    pub(super) error_type: ErrorType,
    pub(super) message: String,
}

/// Failures, and the requeue delay for those within the grace period.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Failures {
    pub(super) all: Vec<Failure>,
    pub(super) requeue_after: Option<Duration>,
}

impl Failures {
    pub(super) fn of(view: &View<'_>, guest: Guest) -> Self {
        let observed = view.input.observed;
        let mut failures = Self::default();
        if let Resolved::Invalid(errors) = view.input.resolved {
            failures.all.extend(spec(errors));
        }
        if !observed.installed.kubevirt {
            failures.all.push(not_installed(observed));
        }
        let obstacles = view.input.obstacles.iter();
        // Without KubeVirt, other obstacles of the VirtualMachine are irrelevant.
        let obstacles =
            obstacles.filter(|it| observed.installed.kubevirt || it.part != Part::VirtualMachine);
        let obstacles = obstacles.filter_map(|obstacle| {
            // The guest does not need a disk that is to be deleted.
            let error_type = obstacle
                .error_type
                .filter(|it| *it != ErrorType::DiskInUse)?;
            Some(Failure {
                part: obstacle.part,
                error_type,
                message: obstacle.message.clone(),
            })
        });
        failures.all.extend(obstacles);
        let refusal = observed.refusal.filter(|refusal| refusal.is_persistent);
        failures.all.extend(refusal.map(|refusal| Failure {
            part: refusal.part,
            error_type: refusal.error_type,
            message: refusal.message.clone(),
        }));
        if matches!(guest, Guest::Absent | Guest::Starting) {
            failures.all.extend(volumes(view));
        }
        let is_attended = matches!(
            guest,
            Guest::Starting | Guest::Running | Guest::NotReady | Guest::Paused
        );
        if is_attended {
            failures.add_kubevirt_failures(view);
        }
        failures
    }

    /// Messages of the failures of a part.
    pub(super) fn of_part(&self, part: Part) -> Option<String> {
        let messages = self.all.iter().filter(|failure| failure.part == part);
        let messages: Vec<&str> = messages.map(|failure| failure.message.as_str()).collect();
        (!messages.is_empty()).then(|| messages.join("; "))
    }

    fn add_kubevirt_failures(&mut self, view: &View<'_>) {
        let reported = [
            view.instance.and_then(unschedulable),
            view.instance.and_then(unsynchronized),
            view.vm.and_then(failed),
        ];
        for (since, failure) in reported.into_iter().flatten() {
            let left = since.map_or(SignedDuration::ZERO, |since| {
                let elapsed = view.input.now.0.duration_since(since.0);
                GRACE_PERIOD.saturating_sub(elapsed).min(GRACE_PERIOD)
            });
            match Duration::try_from(left) {
                Ok(left) if !left.is_zero() => {
                    let sooner = self.requeue_after.map_or(left, |other| other.min(left));
                    self.requeue_after = Some(sooner);
                }
                _ => self.all.push(failure),
            }
        }
    }
}

fn spec(errors: &[SpecError]) -> Option<Failure> {
    let first = errors.first()?;
    let messages = errors.iter().map(|error| {
        // The condition has one reason. Errors of other types name theirs.
        if error.error_type == first.error_type {
            describe(error)
        } else {
            error.to_string()
        }
    });
    let messages: Vec<String> = messages.collect();
    Some(Failure {
        part: Part::Spec,
        error_type: first.error_type,
        message: messages.join("; "),
    })
}

/// Path and message. The error type is the reason of the condition.
pub(super) fn describe(error: &SpecError) -> String {
    format!("{}: {}", error.path, error.message)
}

fn not_installed(observed: &Observed<'_>) -> Failure {
    Failure {
        part: Part::VirtualMachine,
        error_type: ErrorType::KubeVirtApiError,
        message: super::kubevirt_is_missing(observed),
    }
}

/// DataVolumes in phase Failed.
fn volumes<'a>(view: &View<'a>) -> impl Iterator<Item = Failure> + 'a {
    let volumes = view.attached_volumes();
    volumes
        .filter(|volume| volume.status.phase == DataVolumePhase::Failed)
        .map(|volume| {
            let name = volume.metadata.name.as_deref().unwrap_or_default();
            let running = condition(&volume.status.conditions, "Running");
            let message = running.map_or("", |running| running.message.as_str());
            Failure {
                part: Part::Storage,
                error_type: ErrorType::KubeVirtApiError,
                message: format!("DataVolume {name} failed: {message}"),
            }
        })
}

type Reported<'a> = (Option<&'a Time>, Failure);

fn unschedulable(instance: &ObservedInstance) -> Option<Reported<'_>> {
    let scheduled = condition(&instance.status.conditions, "PodScheduled")?;
    let counts = scheduled.is_false()
        && scheduled.reason == "Unschedulable"
        && StartProblem::of(scheduled) != StartProblem::ClaimNotBound;
    counts.then(|| {
        let message = format!(
            "no node has room for the machine, add one or ask for less: {}",
            scheduled.message
        );
        let failure = kubevirt(ErrorType::InsufficientResources, message);
        (since(scheduled, instance), failure)
    })
}

fn unsynchronized(instance: &ObservedInstance) -> Option<Reported<'_>> {
    let synchronized = condition(&instance.status.conditions, "Synchronized")?;
    let counts =
        synchronized.is_false() && StartProblem::of(synchronized) != StartProblem::ClaimNotBound;
    counts.then(|| (since(synchronized, instance), refused(synchronized)))
}

fn failed(vm: &ObservedVirtualMachine) -> Option<Reported<'_>> {
    let failure = condition(&vm.status.conditions, "Failure")?;
    let since = failure.last_transition_time.as_ref();
    failure.is_true().then(|| (since, refused(failure)))
}

fn refused(condition: &ObservedCondition) -> Failure {
    let reported = &condition.message;
    match StartProblem::of(condition) {
        StartProblem::QuotaExceeded => {
            let message = format!(
                "a quota leaves no room for the machine, raise it or ask for less: {reported}"
            );
            kubevirt(ErrorType::InsufficientResources, message)
        }
        StartProblem::ClaimNotBound | StartProblem::Other => {
            kubevirt(ErrorType::KubeVirtApiError, format!("KubeVirt: {reported}"))
        }
    }
}

fn kubevirt(error_type: ErrorType, message: String) -> Failure {
    Failure {
        part: Part::VirtualMachine,
        error_type,
        message,
    }
}

fn since<'a>(condition: &'a ObservedCondition, instance: &'a ObservedInstance) -> Option<&'a Time> {
    let created = instance.metadata.creation_timestamp.as_ref();
    condition.last_transition_time.as_ref().or(created)
}
