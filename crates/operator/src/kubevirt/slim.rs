//! Trimming of objects before they are cached.

use std::{collections::BTreeMap, fmt};

use api::ObjectMeta;
use k8s_openapi::ByteString;
use plan::kubevirt::{
    Live,
    observed::{Node, Pod, PodPhase, PodProblem},
};
use runtime::cache::{Key, Trimmed};
use serde::Deserialize;
use serde_json::Value;

/// Key and version of an object that is stored elsewhere.
pub(super) fn version_of(live: &Live) -> Trimmed<()> {
    Trimmed::version_of(
        Key::new(&live.id.namespace, &live.id.name),
        live.uid.clone(),
        &live.resource_version,
    )
}

/// Secret with its data, which is not cached.
pub(super) struct Secret {
    pub(super) live: Live,
    pub(super) data: BTreeMap<String, ByteString>,
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({:?})", self.live)
    }
}

/// Decodes a Secret from JSON text.
pub(super) fn secret(text: &[u8]) -> Result<Secret, String> {
    let value = serde_json::from_slice(text).map_err(|_| unreadable())?;
    secret_of(value)
}

/// Decodes a Secret from a JSON value.
pub(super) fn secret_of(mut value: Value) -> Result<Secret, String> {
    let data = value.get_mut("data").map(Value::take).unwrap_or_default();
    let data: Option<BTreeMap<String, ByteString>> =
        decode::from_value(data).map_err(|_| unreadable())?;
    let live = object("", "v1", "Secret", value)?;
    let data = data.unwrap_or_default();
    Ok(Secret { live, data })
}

/// Decodes an object that is cached as a whole, from JSON text.
pub(super) fn live(group: &str, version: &str, kind: &str, text: &[u8]) -> Result<Live, String> {
    let value = serde_json::from_slice(text).map_err(|_| unreadable())?;
    object(group, version, kind, value)
}

/// Decodes an object that is cached as a whole, except confidential and volatile fields.
pub(super) fn object(
    group: &str,
    version: &str,
    kind: &str,
    mut value: Value,
) -> Result<Live, String> {
    match (group, kind) {
        // Keys are read when they are needed to sign, and not kept in memory.
        ("", "Secret") => without(&mut value, &["/data", "/stringData"]),
        // Only the holder is read.
        ("coordination.k8s.io", "Lease") => {
            without(&mut value, &["/spec/renewTime", "/spec/acquireTime"]);
        }
        _ => {}
    }
    Live::new(group, version, kind, value).map_err(|_| unreadable())
}

fn unreadable() -> String {
    "cannot be decoded".to_owned()
}

fn without(value: &mut Value, paths: &[&str]) {
    for path in paths {
        let Some((parent, field)) = path.rsplit_once('/') else {
            continue;
        };
        if let Some(fields) = value.pointer_mut(parent).and_then(Value::as_object_mut) {
            fields.remove(field);
        }
    }
}

/// Decodes the fields of a pod that the plan reads.
pub(super) fn pod(text: &[u8]) -> Result<Trimmed<Pod>, String> {
    let pod: WirePod = decode::from_slice(text).map_err(|_| unreadable())?;
    let WirePod {
        metadata,
        spec,
        status,
    } = pod;
    let owners = metadata.owner_references.iter().flatten();
    let owner = owners
        .filter(|owner| owner.controller == Some(true))
        .map(|owner| (owner.kind.clone(), owner.name.clone()))
        .next();
    let phase = PodPhase::from(status.phase.as_str());
    let condition = |type_: &str| status.conditions.iter().find(|found| found.type_ == type_);
    let containers = status.init_container_statuses.iter();
    let containers = containers.chain(&status.container_statuses);
    let problem = condition("PodScheduled")
        .filter(|scheduled| scheduled.status == "False")
        .map(|scheduled| PodProblem {
            container: None,
            reason: scheduled.reason.clone(),
            message: scheduled.message.clone(),
        })
        .or_else(|| containers.clone().find_map(Container::problem));
    let kept = Pod {
        name: metadata.name.clone().unwrap_or_default(),
        owner,
        labels: metadata.labels.clone().unwrap_or_default(),
        annotations: metadata.annotations.clone().unwrap_or_default(),
        node: spec.node_name,
        ready: condition("Ready").is_some_and(|ready| ready.status == "True"),
        deleting: metadata.deletion_timestamp.is_some(),
        created: metadata.creation_timestamp.clone(),
        problem,
        not_ready: condition("Ready")
            .filter(|ready| ready.status == "False" && phase == PodPhase::Running)
            .map(|ready| [&*ready.reason, &*ready.message])
            .map(|parts| parts.map(str::trim).join(": "))
            .filter(|text| text != ": "),
        restarts: containers.map(|container| container.restart_count).sum(),
        addresses: status
            .pod_ips
            .into_iter()
            .map(|address| address.ip)
            .collect(),
        phase,
    };
    Ok(Trimmed::new(&metadata, kept))
}

#[derive(Deserialize)]
struct WirePod {
    metadata: ObjectMeta,
    #[serde(default)]
    spec: WirePodSpec,
    #[serde(default)]
    status: WirePodStatus,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct WirePodSpec {
    node_name: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct WirePodStatus {
    phase: String,
    conditions: Vec<Condition>,
    #[serde(rename = "podIPs")]
    pod_ips: Vec<Address>,
    init_container_statuses: Vec<Container>,
    container_statuses: Vec<Container>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Address {
    ip: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Condition {
    #[serde(rename = "type")]
    type_: String,
    status: String,
    reason: String,
    message: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Container {
    name: String,
    restart_count: i64,
    state: State,
    last_state: State,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct State {
    waiting: Option<Ended>,
    terminated: Option<Ended>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Ended {
    reason: String,
    message: String,
    exit_code: i64,
}

impl Container {
    fn problem(&self) -> Option<PodProblem> {
        let waits = self.state.waiting.as_ref();
        let waits = waits.filter(|waits| {
            // Normal states of a starting container.
            !matches!(
                waits.reason.as_str(),
                "" | "ContainerCreating" | "PodInitializing"
            )
        });
        let failed = |state: &'_ State| -> Option<(String, String)> {
            let ended = state.terminated.as_ref();
            let ended = ended.filter(|ended| ended.exit_code != 0)?;
            let mut message = format!("exit code {}", ended.exit_code);
            if !ended.message.is_empty() {
                message = format!("{message}: {}", ended.message.trim());
            }
            Some((ended.reason.clone(), message))
        };
        let (reason, message) = match waits {
            Some(waits) => {
                let last = failed(&self.last_state).map(|(_, message)| message);
                let messages = [Some(waits.message.clone()), last];
                let messages = messages.into_iter().flatten();
                let messages = messages.filter(|message| !message.is_empty());
                (
                    waits.reason.clone(),
                    messages.collect::<Vec<_>>().join("; last exit: "),
                )
            }
            None => failed(&self.state)?,
        };
        Some(PodProblem {
            container: Some(self.name.clone()),
            reason,
            message,
        })
    }
}

/// Decodes the fields of a node that the plan reads.
pub(super) fn node(text: &[u8]) -> Result<Trimmed<Node>, String> {
    let node: WireNode = decode::from_slice(text).map_err(|_| unreadable())?;
    let WireNode {
        metadata,
        spec,
        status,
    } = node;
    let mut conditions = status.conditions.iter();
    let kept = Node {
        name: metadata.name.clone().unwrap_or_default(),
        labels: metadata.labels.clone().unwrap_or_default(),
        taints: spec
            .taints
            .into_iter()
            .map(|taint| (taint.key, taint.value, taint.effect))
            .collect(),
        unschedulable: spec.unschedulable,
        ready: conditions.any(|found| found.type_ == "Ready" && found.status == "True"),
        architecture: status.node_info.architecture,
    };
    Ok(Trimmed::new(&metadata, kept))
}

#[derive(Deserialize)]
struct WireNode {
    metadata: ObjectMeta,
    #[serde(default)]
    spec: WireNodeSpec,
    #[serde(default)]
    status: WireNodeStatus,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireNodeSpec {
    taints: Vec<Taint>,
    unschedulable: bool,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Taint {
    key: String,
    value: String,
    effect: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct WireNodeStatus {
    conditions: Vec<Condition>,
    node_info: NodeInfo,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct NodeInfo {
    architecture: String,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_problem_quotes_the_scheduler_or_the_kubelet() {
        let problem = |status: &Value| {
            let text = json!({"metadata": {"name": "a"}, "status": status}).to_string();
            let pod = pod(text.as_bytes()).unwrap().object;
            pod.problem.map(|problem| {
                let container = problem.container.unwrap_or_default();
                format!("{container} {}: {}", problem.reason, problem.message)
            })
        };
        let unscheduled = json!({"conditions": [{
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
            "message": "0/3 nodes are available",
        }]});
        let message = problem(&unscheduled).unwrap();
        assert_eq!(message, " Unschedulable: 0/3 nodes are available");
        let crashing = json!({"containerStatuses": [{
            "name": "virt-api", "restartCount": 3,
            "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s"}},
            "lastState": {"terminated": {"reason": "Error", "exitCode": 2}},
        }]});
        let message = problem(&crashing).unwrap();
        assert_eq!(
            message,
            "virt-api CrashLoopBackOff: back-off 40s; last exit: exit code 2"
        );
        let starting = json!({"containerStatuses": [{
            "name": "virt-api", "state": {"waiting": {"reason": "ContainerCreating"}},
        }]});
        assert_eq!(problem(&starting), None);
    }

    #[test]
    fn the_data_of_a_secret_is_not_cached() {
        let text = json!({"metadata": {"name": "a"}, "data": {"tls.key": "c2VjcmV0"}}).to_string();
        let live = live("", "v1", "Secret", text.as_bytes()).unwrap();
        assert!(!live.text().contains("c2VjcmV0"));
    }
}
