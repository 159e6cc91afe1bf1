//! Kubelets of the simulated nodes.
//!
//! Pods of a Job run for a while and succeed; all others run until they are deleted, unless a fault
//! says otherwise. A container that dumps an install strategy of KubeVirt writes it to a ConfigMap
//! with the rights of the actors, not with those of its ServiceAccount. A pod that someone else
//! set to a final phase is not changed.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    addresses::{host_address, pod_address},
    containers::{Shown, Stage, are_ready, init_statuses, not_found, restarts, stage, statuses},
    dump::Dump,
    is_finished,
};
use crate::{
    Actor, Caches, Context, Key, Kind, Object, Step,
    faults::Fault,
    kind::{CONFIG_MAP, DAEMON_SET, DEPLOYMENT, JOB, NODE, POD, REPLICA_SET, STATEFUL_SET},
    kubevirt::Strategies,
    nodes::{pod_on_simulated_node, pods_of},
    object::{
        condition, controller_key, is_deleted, is_true, list, name, namespace, number,
        set_condition, text, truth, uid,
    },
    workloads::letters,
};

const START: Step = Step::millis(1500);
const READY: Step = Step::millis(1500);
const RUN: Step = Step::seconds(3);
const CRASH: Step = Step::seconds(2);
const TERMINATE: Step = Step::seconds(1);
const PULL_RETRY: Step = Step::seconds(20);
/// Minimum interval at which a fault is checked that may have been removed.
const FAULT_CHECK_INTERVAL: Duration = Duration::from_secs(10);
/// Minimum back-off at every speed: a crash loop must not become a busy loop.
const MIN_BACK_OFF: Duration = Duration::from_secs(1);

#[derive(Clone, Debug, Default)]
pub struct Kubelet {
    /// Install strategies in the images of pods that dump one.
    pub strategies: Strategies,
}

impl Actor for Kubelet {
    fn name(&self) -> &'static str {
        "kubelet"
    }

    fn watches(&self) -> &[Kind] {
        &[POD, NODE]
    }

    fn keys(&self, kind: Kind, object: &Value, caches: &Caches) -> Vec<Key> {
        pods_of(kind, object, caches)
    }

    fn reconcile(&self, ctx: &mut Context<'_>) {
        let is_alive = |(_, node): &(Object, Object)| is_true(node, "Ready");
        let Some((pod, node)) = pod_on_simulated_node(ctx).filter(is_alive) else {
            return;
        };
        if is_deleted(&pod) {
            terminate(ctx, &pod);
        } else if !is_finished(&pod) {
            let dump = Dump::of(&pod, &self.strategies);
            go_on(ctx, &pod, &node, dump.as_ref());
        }
    }
}

fn terminate(ctx: &mut Context<'_>, pod: &Object) {
    if matches!(stage(pod), Stage::Running(_)) && !is_finished(pod) {
        for container in list(pod, "/spec/containers") {
            let stopping = format!("Stopping container {}", text(container, "/name"));
            ctx.normal(POD, pod, "Killing", stopping);
        }
        let grace = number(pod, "/metadata/deletionGracePeriodSeconds").unwrap_or_default();
        let grace = Duration::from_secs(u64::try_from(grace).unwrap_or_default());
        let time = ctx.speed.of(TERMINATE).min(grace);
        if !ctx.waited_for("terminate", time) {
            return;
        }
    }
    ctx.delete_within(POD, pod, 0);
}

fn go_on(ctx: &mut Context<'_>, pod: &Object, node: &Value, dump: Option<&Dump<'_>>) {
    match stage(pod) {
        Stage::New => show(ctx, pod, node, Shown::Creating),
        Stage::Creating => {
            if !ctx.waited("start", START) {
                return;
            }
            if pull_fails(ctx, pod, dump, 0) {
                for container in list(pod, "/spec/containers") {
                    let image = text(container, "/image");
                    let why = not_found(image);
                    ctx.normal(POD, pod, "Pulling", format!("Pulling image {image:?}"));
                    ctx.warning(
                        POD,
                        pod,
                        "Failed",
                        format!("Failed to pull image {image:?}: {why}"),
                    );
                    ctx.normal(
                        POD,
                        pod,
                        "BackOff",
                        format!("Back-off pulling image {image:?}"),
                    );
                }
                show(ctx, pod, node, Shown::PullBackOff);
            } else {
                start(ctx, pod, node, false);
            }
        }
        Stage::PullBackOff => {
            // Attempt 0 has failed already, so count from 1.
            if pull_fails(ctx, pod, dump, 1) {
                requeue_fault_check(ctx);
            } else if ctx.waited("pull", PULL_RETRY) {
                start(ctx, pod, node, false);
            }
        }
        Stage::Running(_) => run(ctx, pod, node, dump),
        Stage::CrashBackOff => {
            let doublings = u32::try_from(restarts(pod)).unwrap_or(u32::MAX).min(5);
            let back_off = Step::seconds((10 << doublings).min(300));
            let time = ctx.speed.of(back_off).max(MIN_BACK_OFF);
            if ctx.waited_for(format!("back-off {}", restarts(pod)), time) {
                start(ctx, pod, node, true);
            }
        }
        Stage::Ended => {}
    }
}

/// Requeues the pod: a fault may be removed from its owner, which causes no event here.
fn requeue_fault_check(ctx: &mut Context<'_>) {
    let time = ctx.speed.of(PULL_RETRY).max(FAULT_CHECK_INTERVAL);
    ctx.requeue_after(time);
}

fn pull_fails(ctx: &mut Context<'_>, pod: &Object, dump: Option<&Dump<'_>>, attempt: i64) -> bool {
    pod_fault(ctx, pod, "ImagePullBackOff").is_some_and(|fault| fault.fails_attempt(attempt))
        || dump.is_some_and(|dump| !dump.has_image())
}

fn start(ctx: &mut Context<'_>, pod: &Object, node: &Value, is_restart: bool) {
    for container in list(pod, "/spec/containers") {
        let (name, image) = (text(container, "/name"), text(container, "/image"));
        let pulled = format!("Container image {image:?} already present on machine");
        ctx.normal(POD, pod, "Pulled", pulled);
        ctx.normal(POD, pod, "Created", format!("Created container: {name}"));
        ctx.normal(POD, pod, "Started", format!("Started container {name}"));
    }
    let is_ready = !has_probe(pod) && pod_fault(ctx, pod, "NeverReady").is_none();
    let shown = Shown::Running {
        is_ready,
        is_restart,
    };
    show(ctx, pod, node, shown);
}

fn has_probe(pod: &Value) -> bool {
    list(pod, "/spec/containers")
        .iter()
        .any(|container| container.get("readinessProbe").is_some())
}

fn run(ctx: &mut Context<'_>, pod: &Object, node: &Value, dump: Option<&Dump<'_>>) {
    let exit = exit(ctx, pod, dump);
    if let Some((code, step)) = exit
        && ctx.waited(format!("run {}", restarts(pod)), step)
    {
        if let Some(dump) = dump.filter(|_| code == 0)
            && let Some(object) = dump.config_map(namespace(pod), &letters(ctx.random(uid(pod)), 5))
        {
            ctx.create(CONFIG_MAP, object);
        }
        ended(ctx, pod, node, code);
        return;
    }
    // Containers that will crash do not become ready: a rollout would continue.
    let is_crashing = exit.is_some_and(|(code, _)| code != 0);
    let is_never_ready = pod_fault(ctx, pod, "NeverReady").is_some();
    if is_never_ready {
        requeue_fault_check(ctx);
    }
    let passes = |ctx: &mut Context<'_>| !is_crashing && ctx.waited("ready", READY);
    let is_ready = !is_never_ready && (are_ready(pod) || !has_probe(pod) || passes(ctx));
    if are_ready(pod) && !is_ready {
        ctx.warning(POD, pod, "Unhealthy", "Readiness probe failed");
    }
    let shown = Shown::Running {
        is_ready,
        is_restart: false,
    };
    show(ctx, pod, node, shown);
}

/// Exit code of the containers and how long they run, if they exit.
fn exit(ctx: &mut Context<'_>, pod: &Object, dump: Option<&Dump<'_>>) -> Option<(i64, Step)> {
    let job = controller_key(pod, JOB);
    let attempt = match &job {
        Some(key) if text(pod, "/spec/restartPolicy") == "Never" => {
            let job = ctx.caches.get(JOB, key)?;
            let pods = ctx.caches.children(POD, job);
            let failed = pods
                .filter(|pod| text(pod, "/status/phase") == "Failed")
                .count();
            i64::try_from(failed).unwrap_or(i64::MAX)
        }
        _ => restarts(pod),
    };
    if let Some(fault) = pod_fault(ctx, pod, "Exit").filter(|fault| fault.fails_attempt(attempt)) {
        let code = fault
            .argument
            .and_then(|code| code.parse().ok())
            .unwrap_or(1);
        return Some((code, CRASH));
    }
    if pod_fault(ctx, pod, "CrashLoopBackOff").is_some_and(|fault| fault.fails_attempt(attempt)) {
        return Some((1, CRASH));
    }
    match dump {
        Some(dump) => Some((dump.exit_code(), RUN)),
        None => job.map(|_| (0, RUN)),
    }
}

fn ended(ctx: &mut Context<'_>, pod: &Object, node: &Value, code: i64) {
    let is_restarted = match text(pod, "/spec/restartPolicy") {
        "Never" => false,
        "OnFailure" => code != 0,
        _ => true,
    };
    if is_restarted {
        for container in list(pod, "/spec/containers") {
            let failed = format!(
                "Back-off restarting failed container {} in pod {}",
                text(container, "/name"),
                name(pod)
            );
            ctx.warning(POD, pod, "BackOff", failed);
        }
        show(ctx, pod, node, Shown::CrashBackOff { code });
    } else {
        show(ctx, pod, node, Shown::Ended { code });
    }
}

/// Writes the pod status for this state of its containers.
fn show(ctx: &mut Context<'_>, pod: &Object, node: &Value, shown: Shown) {
    let now = ctx.now;
    let (phase, is_started, is_ready, why) = match shown {
        Shown::Creating | Shown::PullBackOff => ("Pending", false, false, "ContainersNotReady"),
        Shown::Running { is_ready, .. } => ("Running", true, is_ready, "ContainersNotReady"),
        Shown::CrashBackOff { .. } => ("Running", true, false, "ContainersNotReady"),
        Shown::Ended { code: 0 } => ("Succeeded", true, false, "PodCompleted"),
        Shown::Ended { .. } => ("Failed", true, false, "PodFailed"),
    };
    let gates_hold = list(pod, "/spec/readinessGates")
        .iter()
        .all(|gate| is_true(pod, text(gate, "/conditionType")));
    let mut conditions = list(pod, "/status/conditions").to_vec();
    let mut set = |of_type: &str, is_true: bool, reason: &str| {
        let mut condition = json!({
            "type": of_type,
            "status": if is_true { "True" } else { "False" },
            "lastProbeTime": null,
        });
        if !is_true && !reason.is_empty() {
            condition["reason"] = reason.into();
            if reason == "ContainersNotReady" {
                condition["message"] = unready_message(pod).into();
            }
        }
        set_condition(&mut conditions, condition, now);
    };
    let is_made = is_started && !matches!(shown, Shown::Ended { .. });
    set("PodReadyToStartContainers", is_made, "");
    set(
        "Initialized",
        is_started || list(pod, "/spec/initContainers").is_empty(),
        "ContainersNotInitialized",
    );
    set(
        "Ready",
        is_ready && gates_hold,
        if is_ready {
            "ReadinessGatesNotReady"
        } else {
            why
        },
    );
    set("ContainersReady", is_ready, why);
    set("PodScheduled", true, "");

    let mut status = json!({
        "phase": phase,
        "conditions": conditions,
        "containerStatuses": statuses(pod, shown, now),
    });
    let init = init_statuses(pod, is_started, now);
    if !init.is_empty() {
        status["initContainerStatuses"] = init.into();
    }
    if text(pod, "/status/startTime").is_empty() {
        status["startTime"] = ctx.timestamp().into();
    }
    let host = host_address(node);
    status["hostIP"] = host.into();
    status["hostIPs"] = json!([{"ip": host}]);
    if is_started && text(pod, "/status/podIP").is_empty() {
        let address = if truth(pod, "/spec/hostNetwork") {
            host.to_owned()
        } else {
            pod_address(ctx, pod, node)
        };
        status["podIPs"] = json!([{"ip": address}]);
        status["podIP"] = address.into();
    }
    ctx.status(POD, pod, status);
}

fn unready_message(pod: &Value) -> String {
    let containers = list(pod, "/spec/containers").iter();
    let names: Vec<&str> = containers
        .map(|container| text(container, "/name"))
        .collect();
    format!("containers with unready status: [{}]", names.join(" "))
}

/// A fault of a pod or of the workload that it belongs to.
pub(crate) fn pod_fault(ctx: &mut Context<'_>, pod: &Object, what: &str) -> Option<Fault> {
    let predicate = |fault: &Fault| fault.what == what && fault.affects(pod);
    if let Some(fault) = ctx.fault_where(POD, pod, predicate) {
        return Some(fault);
    }
    let caches = ctx.caches;
    let mut object = pod;
    // The longest chain: a ReplicaSet, then its Deployment.
    for _ in 0..2 {
        let owner = [REPLICA_SET, DEPLOYMENT, DAEMON_SET, STATEFUL_SET, JOB]
            .into_iter()
            .find_map(|kind| Some((kind, caches.get(kind, &controller_key(object, kind)?)?)));
        let (kind, owner) = owner?;
        if let Some(fault) = ctx.fault_where(kind, owner, predicate) {
            return Some(fault);
        }
        object = owner;
    }
    None
}

/// Whether a pod has been ready for `minReadySeconds`.
pub(crate) fn is_available(ctx: &mut Context<'_>, pod: &Value, min_ready: i64) -> bool {
    let Some(ready) = condition(pod, "Ready").filter(|ready| text(ready, "/status") == "True")
    else {
        return false;
    };
    let least = Duration::from_secs(u64::try_from(min_ready).unwrap_or_default());
    crate::object::time(ready, "/lastTransitionTime")
        .is_none_or(|since| ctx.has_elapsed(since, least))
}

#[cfg(test)]
mod tests;
