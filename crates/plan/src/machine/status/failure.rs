//! What is wrong with a Machine. The first that is found is the one that `Ready` names.

use std::time::Duration;

use api::{
    ObservedCondition, Time, condition,
    kubevirt::{ObservedInstance, ObservedVirtualMachine},
};
use k8s_openapi::jiff::SignedDuration;

use super::{
    super::{ErrorType, Part, SpecError},
    guest::Guest,
    view::View,
};

/// What KubeVirt reports on the way up is often over within milliseconds: what has not lasted this
/// long is not told.
pub(super) const GRACE: SignedDuration = SignedDuration::from_secs(5);

/// Something that is wrong and needs a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) part: Part,
    pub(super) error_type: ErrorType,
    pub(super) message: String,
}

/// What is wrong, and when to look again at what may turn out to be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Failures {
    pub(super) all: Vec<Failure>,
    pub(super) requeue_after: Option<Duration>,
}

impl Failures {
    pub(super) fn of(view: &View<'_>, guest: Guest) -> Self {
        let observed = view.facts.observed;
        let mut failures = Self::default();
        if let Err(errors) = view.facts.resolved {
            failures.all.extend(spec(errors));
        }
        if !observed.installed.kubevirt {
            failures.all.push(not_installed());
        }
        let obstacles = view.facts.obstacles.iter();
        // Without KubeVirt there is nothing else to say of the VirtualMachine.
        let obstacles =
            obstacles.filter(|it| observed.installed.kubevirt || it.part != Part::VirtualMachine);
        let obstacles = obstacles.filter_map(|obstacle| {
            // The guest does not need what is to be deleted.
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
            failures.told_by_kubevirt(view);
        }
        failures
    }

    /// The message of what is wrong with a part, if anything is.
    pub(super) fn of_part(&self, part: Part) -> Option<String> {
        let messages = self.all.iter().filter(|failure| failure.part == part);
        let messages: Vec<&str> = messages.map(|failure| failure.message.as_str()).collect();
        (!messages.is_empty()).then(|| messages.join("; "))
    }

    fn told_by_kubevirt(&mut self, view: &View<'_>) {
        let told = [
            view.instance.and_then(unschedulable),
            view.instance.and_then(unsynchronized),
            view.vm.and_then(failed),
        ];
        for (since, failure) in told.into_iter().flatten() {
            let left = since.map_or(SignedDuration::ZERO, |since| {
                let elapsed = view.facts.now.0.duration_since(since.0);
                GRACE.saturating_sub(elapsed).min(GRACE)
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
        // The condition has one reason: what is wrong in another way says so itself.
        if error.error_type == first.error_type {
            words(error)
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

/// What is wrong, and where. The type is the reason of the condition that says so.
pub(super) fn words(error: &SpecError) -> String {
    format!("{}: {}", error.path, error.message)
}

fn not_installed() -> Failure {
    Failure {
        part: Part::VirtualMachine,
        error_type: ErrorType::KubeVirtApiError,
        message: "KubeVirt is not installed in this cluster; install it, and the Machine goes on \
                  by itself"
            .to_owned(),
    }
}

/// Volumes that CDI has given up on.
fn volumes<'a>(view: &View<'a>) -> impl Iterator<Item = Failure> + 'a {
    let volumes = view.attached_volumes();
    volumes
        .filter(|volume| volume.status.phase == "Failed")
        .map(|volume| {
            let name = volume.metadata.name.as_deref().unwrap_or_default();
            let running = condition(&volume.status.conditions, "Running");
            let words = running.map_or("", |running| running.message.as_str());
            Failure {
                part: Part::Storage,
                error_type: ErrorType::KubeVirtApiError,
                message: format!("DataVolume {name} failed: {words}"),
            }
        })
}

type Reported<'a> = (Option<&'a Time>, Failure);

fn unschedulable(instance: &ObservedInstance) -> Option<Reported<'_>> {
    let scheduled = condition(&instance.status.conditions, "PodScheduled")?;
    let counts = scheduled.is_false()
        && scheduled.reason == "Unschedulable"
        && !waits_for_a_claim(scheduled);
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
    let counts = synchronized.is_false() && !waits_for_a_claim(synchronized);
    counts.then(|| {
        (
            since(synchronized, instance),
            refused(&synchronized.message),
        )
    })
}

fn failed(vm: &ObservedVirtualMachine) -> Option<Reported<'_>> {
    let failure = condition(&vm.status.conditions, "Failure")?;
    let since = failure.last_transition_time.as_ref();
    failure
        .is_true()
        .then(|| (since, refused(&failure.message)))
}

fn refused(words: &str) -> Failure {
    if words.contains("exceeded quota") {
        let message =
            format!("a quota leaves no room for the machine, raise it or ask for less: {words}");
        kubevirt(ErrorType::InsufficientResources, message)
    } else {
        kubevirt(ErrorType::KubeVirtApiError, format!("KubeVirt: {words}"))
    }
}

fn kubevirt(error_type: ErrorType, message: String) -> Failure {
    Failure {
        part: Part::VirtualMachine,
        error_type,
        message,
    }
}

/// Claims are ours to make, so one that is missing or not bound is only being waited for, which
/// `StorageReady` tells. KubeVirt says of the pod, too, that it cannot be scheduled then: without a
/// time, and for a moment longer than it is true. So does the scheduler, which asks for no room then.
fn waits_for_a_claim(condition: &ObservedCondition) -> bool {
    let waits = ["FailedPvcNotFound", "PVCNotReady", "BackendStorageNotReady"];
    waits.contains(&condition.reason.as_str())
        || condition
            .message
            .contains("unbound immediate PersistentVolumeClaims")
        || condition.last_transition_time.is_none() && condition.message.starts_with("PVC ")
}

fn since<'a>(condition: &'a ObservedCondition, instance: &'a ObservedInstance) -> Option<&'a Time> {
    let created = instance.metadata.creation_timestamp.as_ref();
    condition.last_transition_time.as_ref().or(created)
}
