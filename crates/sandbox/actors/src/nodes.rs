//! Simulated nodes: their registration, status, taints and leases.
//!
//! The configured number of nodes is registered at the start. Every node with the label
//! [`SIMULATED`] is kept ready, including those that a user creates; other nodes are not touched. A
//! deleted node stays deleted, as with a kubelet that is not restarted.

mod lifecycle;

use std::time::Duration;

pub use self::lifecycle::NodeLifecycle;
pub(crate) use self::lifecycle::{is_unready, pod_on_simulated_node, pods_of};

use serde_json::{Value, json};

use crate::{
    Actor, Caches, Context, Key, Kind, Object, Speed,
    kind::{LEASE, NODE},
    kubevirt::{Mode, node_labels},
    object::{is_deleted, is_true, label, list, merge, name, set_condition, text, truth, uid},
};

/// Label of simulated nodes.
pub const SIMULATED: &str = "sandbox.vitistack.io/node";

const LEASES: &str = "kube-node-lease";
const HEARTBEAT: Duration = Duration::from_secs(10);
/// KubeVirt schedules its components on nodes with this label by default.
const CONTROL_PLANE: &str = "node-role.kubernetes.io/control-plane";
/// Number of registered nodes that get it.
const CONTROL_PLANES: u32 = 2;
/// Namespace of keys that stand for nodes to register.
const REGISTER: &str = "register";

pub fn is_simulated(node: &Value) -> bool {
    label(node, SIMULATED).is_some()
}

/// The node part of the kubelets and of the node lifecycle controller.
#[derive(Clone, Copy, Debug)]
pub struct Nodes {
    /// Number of nodes to register at the start.
    pub count: usize,
    /// With [`Mode::BuiltIn`] nodes get KubeVirt's labels at registration.
    pub kubevirt: Mode,
}

impl Actor for Nodes {
    fn name(&self) -> &'static str {
        "kubelet"
    }

    fn watches(&self) -> &[Kind] {
        &[NODE, LEASE]
    }

    fn initial_keys(&self) -> Vec<Key> {
        (1..=self.count)
            .map(|number| Key::new(REGISTER, format!("node-{number}")))
            .collect()
    }

    fn keys(&self, kind: Kind, object: &Value, _: &Caches) -> Vec<Key> {
        if kind == LEASE && crate::object::namespace(object) != LEASES {
            return Vec::new();
        }
        vec![Key::cluster(name(object))]
    }

    fn reconcile(&self, ctx: &mut Context<'_>) {
        if ctx.key.namespace == REGISTER {
            let number = ctx
                .key
                .name
                .rsplit('-')
                .next()
                .and_then(|number| number.parse().ok());
            if ctx.caches.find(NODE, "", &ctx.key.name).is_none() {
                ctx.create(
                    NODE,
                    new_node(&ctx.key.name, number.unwrap_or(1), self.kubevirt),
                );
            }
            return;
        }
        let Some(node) = ctx.observed(NODE) else {
            return;
        };
        if !is_simulated(&node) || is_deleted(&node) {
            return;
        }
        let is_ready = ctx.fault(NODE, &node, "NotReady").is_none();
        if text(&node, "/status/nodeInfo/kubeletVersion").is_empty() {
            let status = first_status(&node, ctx.random(name(&node)));
            ctx.status(NODE, &node, status);
            return;
        }
        report(ctx, &node, is_ready);
        taint(ctx, &node, is_ready);
        if is_ready && ctx.speed == Speed::Real {
            heartbeat(ctx, &node);
        }
    }
}

fn new_node(name: &str, number: u32, kubevirt: Mode) -> Value {
    let range = std::net::Ipv4Addr::from(0x0a80_0000 + number.min(2000) * 4096);
    let mut node = json!({
        "metadata": {"name": name, "labels": {
            SIMULATED: "true",
            "kubernetes.io/hostname": name,
            "kubernetes.io/arch": "amd64",
            "kubernetes.io/os": "linux",
            "beta.kubernetes.io/arch": "amd64",
            "beta.kubernetes.io/os": "linux",
        }},
        "spec": {"podCIDR": format!("{range}/20"), "podCIDRs": [format!("{range}/20")]},
        "status": {"addresses": [
            {"type": "InternalIP", "address": format!("192.168.{}.{}", 64 + number / 250, number % 250 + 1)},
            {"type": "Hostname", "address": name},
        ]},
    });
    if number <= CONTROL_PLANES {
        merge(
            &mut node,
            &json!({"metadata": {"labels": {CONTROL_PLANE: ""}}}),
        );
    }
    if kubevirt == Mode::BuiltIn {
        merge(&mut node, &json!({"metadata": {"labels": node_labels()}}));
    }
    node
}

/// A new node's status; capacity and addresses that are already set are kept.
fn first_status(node: &Value, random: u64) -> Value {
    let room = json!({
        "cpu": "16",
        "memory": "64Gi",
        "pods": "110",
        "ephemeral-storage": "200Gi",
        "hugepages-2Mi": "0",
        "devices.kubevirt.io/kvm": "1k",
        "devices.kubevirt.io/tun": "1k",
        "devices.kubevirt.io/vhost-net": "1k",
    });
    let given = |field: &str| {
        node.pointer(field)
            .filter(|given| given.is_object())
            .cloned()
    };
    let capacity = given("/status/capacity").unwrap_or(room);
    let allocatable = given("/status/allocatable").unwrap_or_else(|| capacity.clone());
    let mut status = json!({
        "capacity": capacity,
        "allocatable": allocatable,
        "nodeInfo": {
            "architecture": "amd64",
            "operatingSystem": "linux",
            "osImage": "Sandbox",
            "kernelVersion": "6.1.0",
            "containerRuntimeVersion": "containerd://2.0.0",
            "kubeletVersion": "v1.33.0",
            "kubeProxyVersion": "",
            "machineID": uid(node),
            "systemUUID": uid(node),
            "bootID": uid(node),
        },
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
    });
    if list(node, "/status/addresses").is_empty() {
        status["addresses"] = json!([
            {"type": "InternalIP", "address": format!("192.168.{}.{}", 128 + random / 250 % 128, random % 250 + 1)},
            {"type": "Hostname", "address": name(node)},
        ]);
    }
    status
}

fn report(ctx: &mut Context<'_>, node: &Object, is_ready: bool) {
    let mut conditions = list(node, "/status/conditions").to_vec();
    let pressures = [
        (
            "MemoryPressure",
            "KubeletHasSufficientMemory",
            "kubelet has sufficient memory available",
        ),
        (
            "DiskPressure",
            "KubeletHasNoDiskPressure",
            "kubelet has no disk pressure",
        ),
        (
            "PIDPressure",
            "KubeletHasSufficientPID",
            "kubelet has sufficient PID available",
        ),
    ];
    let ready = ("Ready", "KubeletReady", "kubelet is posting ready status");
    for (of_type, reason, message) in pressures.into_iter().chain([ready]) {
        let condition = if is_ready {
            let status = if of_type == "Ready" { "True" } else { "False" };
            json!({"type": of_type, "status": status, "reason": reason, "message": message})
        } else {
            json!({
                "type": of_type,
                "status": "Unknown",
                "reason": "NodeStatusUnknown",
                "message": "Kubelet stopped posting node status.",
            })
        };
        let heartbeat = crate::object::condition(node, of_type)
            .filter(|old| text(old, "/status") == text(&condition, "/status"))
            .map_or_else(
                || ctx.timestamp(),
                |old| text(old, "/lastHeartbeatTime").to_owned(),
            );
        let mut condition = condition;
        condition["lastHeartbeatTime"] = heartbeat.into();
        set_condition(&mut conditions, condition, ctx.now);
    }
    if is_ready != is_true(node, "Ready") {
        let (reason, state) = if is_ready {
            ("NodeReady", "NodeReady")
        } else {
            ("NodeNotReady", "NodeNotReady")
        };
        ctx.normal(
            NODE,
            node,
            reason,
            format!("Node {} status is now: {state}", name(node)),
        );
    }
    ctx.status(NODE, node, json!({"conditions": conditions}));
}

/// Sets the taints of the node lifecycle controller that match the node's state.
fn taint(ctx: &mut Context<'_>, node: &Object, is_ready: bool) {
    let is_cordoned = truth(node, "/spec/unschedulable");
    let wanted = [
        (
            "node.kubernetes.io/unschedulable",
            "NoSchedule",
            is_cordoned,
        ),
        ("node.kubernetes.io/unreachable", "NoSchedule", !is_ready),
        ("node.kubernetes.io/unreachable", "NoExecute", !is_ready),
        ("node.kubernetes.io/not-ready", "NoSchedule", false),
    ];
    let mut taints = list(node, "/spec/taints").to_vec();
    for (key, effect, is_wanted) in wanted {
        let is_this =
            |taint: &Value| text(taint, "/key") == key && text(taint, "/effect") == effect;
        if !is_wanted {
            taints.retain(|taint| !is_this(taint));
        } else if !taints.iter().any(is_this) {
            taints.push(json!({"key": key, "effect": effect, "timeAdded": ctx.timestamp()}));
        }
    }
    let taints = if taints.is_empty() {
        Value::Null
    } else {
        taints.into()
    };
    ctx.patch(NODE, node, json!({"spec": {"taints": taints}}));
}

/// Renews the node's lease, as a live kubelet does.
fn heartbeat(ctx: &mut Context<'_>, node: &Object) {
    let now = format!("{:.6}", ctx.now);
    let Some(lease) = ctx.caches.find(LEASE, LEASES, name(node)).cloned() else {
        ctx.create(LEASE, json!({
            "metadata": {
                "name": name(node),
                "namespace": LEASES,
                "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": name(node), "uid": uid(node)}],
            },
            "spec": {"holderIdentity": name(node), "leaseDurationSeconds": 40, "renewTime": now},
        }));
        return;
    };
    let renewed = crate::object::time(&lease, "/spec/renewTime").unwrap_or_default();
    if ctx.has_elapsed(renewed, HEARTBEAT) {
        ctx.patch(LEASE, &lease, json!({"spec": {"renewTime": now}}));
        ctx.requeue_after(HEARTBEAT);
    }
}

#[cfg(test)]
mod tests;
