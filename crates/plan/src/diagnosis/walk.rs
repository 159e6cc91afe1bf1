//! States of the objects that a diagnosis walks, for people who want to see them.

use api::{ObservedCondition, condition};

use super::{Observed, checks::name_of};

/// One object and its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    pub kind: &'static str,
    pub name: String,
    pub state: String,
}

/// The objects of a Machine, from the Machine down to its node.
pub fn walk(observed: &Observed) -> Vec<Link> {
    let mut links = Vec::new();
    let mut add = |kind: &'static str, name: &str, state: String| {
        links.push(Link {
            kind,
            name: name.to_owned(),
            state: if state.is_empty() {
                "-".to_owned()
            } else {
                state
            },
        });
    };
    let status = observed.machine.status.clone().unwrap_or_default();
    let phase = status
        .phase
        .map(|phase| format!("{phase:?}"))
        .unwrap_or_default();
    let conditions = status.conditions.unwrap_or_default();
    let ready = conditions
        .iter()
        .find(|condition| condition.type_ == "Ready");
    let state = ready.map_or(phase.clone(), |ready| format!("{phase}, {}", ready.reason));
    add("Machine", name_of(&observed.machine.metadata), state);
    for network in &observed.networks {
        let conditions = network
            .status
            .as_ref()
            .and_then(|status| status.conditions.as_ref());
        let ready = conditions
            .into_iter()
            .flatten()
            .find(|it| it.type_ == "Ready");
        let state = ready.map(|ready| ready.reason.clone()).unwrap_or_default();
        add("NetworkConfiguration", name_of(&network.metadata), state);
    }
    for volume in &observed.volumes {
        let phase = String::from(volume.status.phase.clone());
        add("DataVolume", name_of(&volume.metadata), phase);
    }
    for claim in &observed.claims {
        let phase = String::from(claim.status.phase.clone());
        add("PersistentVolumeClaim", name_of(&claim.metadata), phase);
    }
    if let Some(vm) = &observed.vm {
        let state = vm.status.printable_status.clone();
        add("VirtualMachine", name_of(&vm.metadata), state);
    }
    if let Some(instance) = &observed.instance {
        let phase = format!("{:?}", instance.status.phase);
        add("VirtualMachineInstance", name_of(&instance.metadata), phase);
    }
    for pod in observed.importers.iter().chain(&observed.launchers) {
        let ready = if pod.is_ready() { "ready" } else { "not ready" };
        let state = format!("{}, {ready}", pod.status.phase);
        add("Pod", name_of(&pod.metadata), state);
    }
    for node in &observed.nodes {
        let name = name_of(&node.metadata);
        let is_used = observed
            .launchers
            .iter()
            .any(|pod| pod.spec.node_name == name);
        if is_used {
            let ready = condition(&node.status.conditions, "Ready");
            let is_ready = ready.is_some_and(ObservedCondition::is_true);
            let state = if is_ready { "Ready" } else { "NotReady" };
            add("Node", name, state.to_owned());
        }
    }
    links
}
