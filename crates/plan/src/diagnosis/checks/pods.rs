//! Checks of nodes and pods: launchers, importers, and KubeVirt's components.

use std::collections::BTreeMap;

use api::{ObservedCondition, condition};

use super::{
    super::{Cause, Container, Finding, Pod, Severity},
    GRACE_PERIOD, View, is_false, name_of, words,
};

/// Label of KubeVirt's pods with the name of the component.
const COMPONENT: &str = "kubevirt.io";

/// Components of KubeVirt without a ready pod; virt-handler only on the node of the guest.
pub(super) fn components(view: &View<'_>) -> Vec<Finding> {
    let mut by_name: BTreeMap<&str, Vec<&Pod>> = BTreeMap::new();
    let guest = view.observed.instance.as_ref();
    let guest = guest.map_or("", |instance| instance.status.node_name.as_str());
    for pod in &view.observed.components {
        let labels = pod.metadata.labels.as_ref();
        let Some(name) = labels.and_then(|labels| labels.get(COMPONENT)) else {
            continue;
        };
        if name != "virt-handler" || pod.spec.node_name == guest {
            by_name.entry(name).or_default().push(pod);
        }
    }
    let severity = if view.is_ready() {
        Severity::Degraded
    } else {
        Severity::Broken
    };
    let failing = by_name.into_iter().filter_map(|(component, pods)| {
        if pods.iter().any(|pod| pod.is_ready()) {
            return None;
        }
        let pod = pods.first()?;
        let problem = problem(pod);
        let message = problem.map_or("no pod is ready".to_owned(), |(_, message)| message);
        Some(
            Finding {
                object: format!(
                    "Pod {}/{}",
                    pod.metadata.namespace.as_deref().unwrap_or_default(),
                    name_of(&pod.metadata)
                ),
                ..view.machine(Cause::KubeVirtNotReady, severity)
            }
            .says(format!("{component} has no ready pod: {message}"))
            .remedy(format!(
                "KubeVirt does not work without it: kubectl -n {} describe pod {}",
                pod.metadata.namespace.as_deref().unwrap_or_default(),
                name_of(&pod.metadata)
            )),
        )
    });
    failing.collect()
}

/// The node of the guest.
pub(super) fn node(view: &View<'_>) -> Vec<Finding> {
    let instance = view.observed.instance.as_ref();
    let named = instance.map(|instance| instance.status.node_name.as_str());
    let pods = view
        .observed
        .launchers
        .iter()
        .filter(|pod| !pod.is_finished());
    let named = named
        .into_iter()
        .chain(pods.map(|pod| pod.spec.node_name.as_str()));
    let Some(name) = named.into_iter().find(|name| !name.is_empty()) else {
        return Vec::new();
    };
    let node = view
        .observed
        .nodes
        .iter()
        .find(|node| name_of(&node.metadata) == name);
    let message = match node {
        None if view.observed.nodes.is_empty() && view.reason() != "NodeLost" => return Vec::new(),
        None => format!("node {name} does not answer"),
        Some(node) => match condition(&node.status.conditions, "Ready") {
            Some(ready) if ready.is_true() => return Vec::new(),
            Some(ready) => format!("node {name} is not ready: {}", words(ready)),
            None => format!("node {name} has not reported yet"),
        },
    };
    vec![
        Finding {
            object: format!("Node {name}"),
            ..view.machine(Cause::NodeNotReady, Severity::Broken)
        }
        .says(message)
        .remedy(format!(
            "repair the node; if it is certainly powered off, release its guests with: kubectl taint node \
             {name} node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"
        )),
    ]
}

/// Pods that fill disks.
pub(super) fn importers(view: &View<'_>) -> Vec<Finding> {
    if view.is_ready() {
        return Vec::new();
    }
    let pods = view.observed.importers.iter();
    let failing = pods.filter_map(|pod| {
        let (cause, message) = problem(pod)?;
        let cause = match cause {
            // CDI reports them in the DataVolume, and restarts the pod.
            Cause::LauncherExited | Cause::PodNotReady => return None,
            cause => cause,
        };
        Some(of_pod(view, pod, cause, message))
    });
    failing.collect()
}

/// Launcher pods of the guest.
pub(super) fn launchers(view: &View<'_>) -> Vec<Finding> {
    if !view.is_to_run() {
        return Vec::new();
    }
    // The target pod of a migration is the migration's.
    let pods = view.observed.launchers.iter().filter(|pod| {
        let annotations = pod.metadata.annotations.as_ref();
        !annotations.is_some_and(|all| all.contains_key("kubevirt.io/migrationJobName"))
    });
    let failing = pods.filter_map(|pod| {
        let (cause, message) = problem(pod)?;
        let is_young = view.age(&pod.metadata) <= GRACE_PERIOD;
        match cause {
            Cause::PodNotReady if is_young || view.reason() == "Paused" => return None,
            Cause::LauncherExited if view.is_ready() => return None,
            _ => {}
        }
        Some(of_pod(view, pod, cause, message))
    });
    failing.take(1).collect()
}

fn of_pod(view: &View<'_>, pod: &Pod, cause: Cause, message: String) -> Finding {
    let name = name_of(&pod.metadata);
    let describe = format!("kubectl -n {} describe pod {name}", view.namespace());
    let remedy = match cause {
        Cause::Unschedulable => unschedulable_remedy(&message),
        Cause::ImagePullFailed => format!(
            "the node cannot pull the image: check its name, the registry, and the pull secrets; {describe}"
        ),
        Cause::LauncherExited => format!(
            "virt-launcher itself ended, not the guest: kubectl -n {} logs {name} (exit code 137: killed, \
             often for its memory)",
            view.namespace()
        ),
        _ => describe,
    };
    view.on("Pod", name, cause, Severity::Broken)
        .says(message)
        .remedy(remedy)
}

/// Remedy by the words of the scheduler.
fn unschedulable_remedy(message: &str) -> String {
    let has = |word: &str| message.contains(word);
    if has("unbound immediate PersistentVolumeClaims") {
        "a disk has no volume yet: kubectl get pvc".to_owned()
    } else if has("Insufficient devices.kubevirt.io/kvm") {
        "the nodes offer no /dev/kvm: enable virtualization, and check virt-handler".to_owned()
    } else if has("Insufficient") {
        "add nodes, stop other machines, or ask for less CPU or memory".to_owned()
    } else if has("taint") || has("affinity") || has("selector") {
        "let a node match: its labels and taints, and KubeVirt's label kubevirt.io/schedulable"
            .to_owned()
    } else {
        "make room on a node, or ask for less: kubectl describe nodes".to_owned()
    }
}

impl Pod {
    pub(in super::super) fn is_ready(&self) -> bool {
        condition(&self.status.conditions, "Ready").is_some_and(ObservedCondition::is_true)
    }

    pub(in super::super) fn is_finished(&self) -> bool {
        matches!(self.status.phase.as_str(), "Succeeded" | "Failed")
    }
}

/// What is wrong with a pod.
fn problem(pod: &Pod) -> Option<(Cause, String)> {
    let conditions = &pod.status.conditions;
    if let Some(scheduled) = condition(conditions, "PodScheduled").filter(|it| it.is_false()) {
        return Some((Cause::Unschedulable, words(scheduled).to_owned()));
    }
    let containers = || {
        let init = pod.status.init_container_statuses.iter();
        init.chain(&pod.status.container_statuses)
    };
    if let Some(found) = containers().find_map(waiting) {
        return Some(found);
    }
    if let Some((name, code)) = containers().find_map(exit) {
        return Some((
            Cause::LauncherExited,
            format!("container {name} exited with code {code}"),
        ));
    }
    let is_running = pod.status.phase == "Running" && pod.metadata.deletion_timestamp.is_none();
    (is_running && is_false(conditions, "Ready")).then(|| {
        let ready = condition(conditions, "Ready").map_or("", words);
        (
            Cause::PodNotReady,
            format!("the pod runs, and is not ready: {ready}"),
        )
    })
}

fn waiting(container: &Container) -> Option<(Cause, String)> {
    let waiting = container.state.waiting.as_ref()?;
    let Container { name, image, .. } = container;
    let cause = match waiting.reason.as_str() {
        "ImagePullBackOff" | "ErrImagePull" | "InvalidImageName" | "ImageInspectError" => {
            Cause::ImagePullFailed
        }
        "CrashLoopBackOff" => {
            let code = exit(container).map_or(0, |(_, code)| code);
            let message = format!(
                "container {name} exits with code {code} soon after each start ({} restarts)",
                container.restart_count
            );
            return Some((Cause::LauncherExited, message));
        }
        "CreateContainerConfigError" | "CreateContainerError" => Cause::PodNotReady,
        _ => return None,
    };
    let message = match waiting.message.as_str() {
        "" => format!("{}: {image}", waiting.reason),
        message => format!("{}: {message}", waiting.reason),
    };
    Some((cause, message))
}

/// Name and exit code of a container that failed.
fn exit(container: &Container) -> Option<(&str, i64)> {
    let ended = container.state.terminated.as_ref();
    let ended = ended.or(container.last_state.terminated.as_ref());
    let code = ended?.exit_code;
    (code != 0).then_some((&*container.name, code))
}
