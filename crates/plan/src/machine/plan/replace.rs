//! Replacement of instances that never started.
//!
//! KubeVirt does not change the pod of an instance that waits for a node. An instance that requests too much,
//! or a node that does not exist, would keep waiting after its Machine requests something else.

use std::time::Duration;

use api::{
    PowerState, Time,
    kubevirt::{DomainSpec, InstancePhase, InstanceTemplate, ObservedInstance},
    labels,
};
use k8s_openapi::jiff::SignedDuration;
use serde_json::{Map, Value};

use super::{
    compare::differences,
    ownership::{annotation, is_terminating, name, uid},
};
use crate::{
    Event,
    machine::{Action, Kind, Observed, Step},
};

/// Minimum age of an instance to be replaced: bounds how often this happens to a Machine.
const MIN_AGE: SignedDuration = SignedDuration::from_secs(5);

#[derive(Default)]
pub(super) struct Replacement {
    pub(super) step: Option<Step>,
    /// Requeue delay for an instance that is too young.
    pub(super) requeue_after: Option<Duration>,
}

/// Whether the guest of an instance has never run: it has not been scheduled to a node.
pub fn never_started(instance: &ObservedInstance) -> bool {
    use InstancePhase::{Pending, Scheduling, Unknown};
    let status = &instance.status;
    let is_placed = status.node_name.is_some() || !status.interfaces.is_empty();
    match status.phase {
        Pending | Scheduling => true,
        // The phase is missing or outdated: only an instance without a node has never run.
        Unknown => !is_placed && instance.spec.is_some(),
        _ => false,
    }
}

/// Deletes an instance that never started if its domain or placement differs from the desired one. KubeVirt creates
/// the next one from the VirtualMachine.
pub(super) fn replacement(
    observed: &Observed<'_>,
    desired: &InstanceTemplate,
    power_state: PowerState,
    now: &Time,
) -> Replacement {
    let replaced = observed.instance.filter(|instance| {
        power_state != PowerState::Stopped
            && !is_terminating(&instance.metadata)
            && never_started(instance)
    });
    let Some(instance) = replaced else {
        return Replacement::default();
    };
    let mut changed = changed(instance, &desired.spec.domain);
    if is_placed_differently(instance, desired) {
        changed.push("placement".to_owned());
    }
    if changed.is_empty() {
        return Replacement::default();
    }
    let created = instance.metadata.creation_timestamp.as_ref();
    let age = created.map_or(MIN_AGE, |created| now.0.duration_since(created.0));
    if age < MIN_AGE {
        let left = MIN_AGE.saturating_sub(age).min(MIN_AGE);
        return Replacement {
            requeue_after: Duration::try_from(left).ok(),
            ..Replacement::default()
        };
    }
    let changed = changed.join(", ");
    let name = name(&instance.metadata).to_owned();
    let message = format!(
        "Replacing VirtualMachineInstance {name}, which has not started: {changed} changed"
    );
    Replacement {
        step: Some(Step {
            action: Action::Delete {
                kind: Kind::VirtualMachineInstance,
                name,
                uid: uid(&instance.metadata),
                // It may have started since it was observed: the precondition keeps it then.
                resource_version: instance.metadata.resource_version.clone(),
            },
            reason: format!("it has not started, and {changed} changed"),
            event: Some(Event::normal("Replacing", message)),
        }),
        requeue_after: None,
    }
}

/// Whether an instance was created with another placement. KubeVirt updates the fields of the instance, but not
/// its pod; the annotation stays as it was when both were created.
fn is_placed_differently(instance: &ObservedInstance, desired: &InstanceTemplate) -> bool {
    let desired = desired.metadata.annotations.get(labels::PLACEMENT);
    annotation(&instance.metadata, labels::PLACEMENT) != desired.map(String::as_str)
}

/// Fields of the domain that differ from the desired ones. Devices are left out: KubeVirt plugs them in,
/// and they do not affect scheduling.
fn changed(instance: &ObservedInstance, desired: &DomainSpec) -> Vec<String> {
    let Some(spec) = &instance.spec else {
        return Vec::new();
    };
    let found = spec.value();
    let Some(found) = found.get("domain").filter(|domain| domain.is_object()) else {
        return Vec::new();
    };
    let desired = serde_json::to_value(desired).unwrap_or_default();
    let desired: Map<String, Value> = match desired {
        Value::Object(desired) => desired
            .into_iter()
            .filter(|(field, _)| ["cpu", "memory", "machine"].contains(&field.as_str()))
            .collect(),
        _ => Map::new(),
    };
    let differences = differences("domain", found, &Value::Object(desired));
    differences.into_iter().map(|found| found.path).collect()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn instance(status: &Value, spec: &Value) -> ObservedInstance {
        serde_json::from_value(json!({
            "metadata": { "name": "web" }, "spec": spec, "status": status,
        }))
        .unwrap()
    }

    #[rstest]
    #[case(json!({}), true)]
    #[case(json!({ "phase": "Pending" }), true)]
    #[case(json!({ "phase": "Scheduling" }), true)]
    #[case(json!({ "phase": "Scheduled", "nodeName": "a" }), false)]
    #[case(json!({ "phase": "Running", "nodeName": "a" }), false)]
    #[case::of_a_lost_node(json!({ "phase": "Unknown", "nodeName": "a" }), false)]
    #[case(json!({ "phase": "Failed" }), false)]
    fn only_an_instance_without_a_node_has_never_started(
        #[case] status: Value,
        #[case] expected: bool,
    ) {
        assert_eq!(never_started(&instance(&status, &json!({}))), expected);
    }
}
