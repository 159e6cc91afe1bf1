//! Manifests of an installation: the embedded files of config/.
//!
//! The binary alone can install itself, and sandbox and chart grant the same permissions that are tested
//! here. The CustomResourceDefinitions come from the Rust types; a test compares config/crd with them.

use std::io;

use serde_json::Value;

/// Namespace of the Machine operator in the files.
pub const NAMESPACE: &str = "kubevirt-operator-system";

/// Image of both operators in the files.
pub const IMAGE: &str = concat!(
    "ghcr.io/vitistack/kubevirt-operator:",
    env!("CARGO_PKG_VERSION")
);

/// ClusterRole of the Machine operator in the files. KubeVirt's virt-operator has one of the same name.
pub const CLUSTER_ROLE: &str = "kubevirt-operator";

/// Namespace of KubeVirt and its operator in the files.
pub const KUBEVIRT_NAMESPACE: &str = "kubevirt";

macro_rules! config {
    ($($file:literal),+ $(,)?) => {
        &[$(include_str!(concat!("../../../config/", $file))),+]
    };
}

/// Namespace, service account and RBAC of the Machine operator.
pub const MACHINE_RIGHTS: &[&str] = config![
    "rbac/00_namespace.yaml",
    "rbac/service_account.yaml",
    "rbac/role.yaml",
    "rbac/role_binding.yaml",
    "rbac/leader_election_role.yaml",
];

/// RBAC of the Machine operator in another cluster.
pub const REMOTE_RIGHTS: &str = include_str!("../../../config/rbac/remote/remote.yaml");

/// Additional RBAC of the Machine operator for its webhook.
pub const WEBHOOK_RIGHTS: &[&str] = config!["rbac/webhook_role.yaml"];

/// Namespace, service accounts and RBAC of the KubeVirt operator and its strategy Jobs.
pub const KUBEVIRT_RIGHTS: &[&str] = config![
    "rbac/virt-operator/priority_class.yaml",
    "rbac/virt-operator/rbac.yaml",
    "rbac/virt-operator/strategy_job.yaml",
];

/// Service and configuration of the Machine operator's webhook.
pub const WEBHOOK: &[&str] = config![
    "webhook/service.yaml",
    "webhook/validating_webhook_configuration.yaml",
];

const MANAGER: &[&str] = config!["manager/manager.yaml"];
const VIRT_OPERATOR: &[&str] = config!["manager/virt-operator/virt_operator.yaml"];
const NETWORK_POLICY: &[&str] = config!["network-policy/network_policy.yaml"];
const PROMETHEUS: &[&str] = config![
    "prometheus/service_monitor.yaml",
    "prometheus/rules.yaml",
    "prometheus/dashboard.yaml",
];
const VIRT_OPERATOR_PROMETHEUS: &[&str] = config![
    "prometheus/virt-operator/pod_monitor.yaml",
    "prometheus/virt-operator/rules.yaml",
];

/// Optional part of an installation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Admission webhook of Machines, MachineClasses and NetworkConfigurations.
    Webhook,
    /// Operator that installs KubeVirt.
    VirtOperator,
    /// ServiceMonitor, alerts and dashboard; they need the Prometheus operator.
    Prometheus,
    /// NetworkPolicy that admits traffic to metrics and the webhook only.
    NetworkPolicy,
}

/// Machine operator with optional parts.
#[derive(Clone, Debug)]
pub struct Installation {
    /// Namespace of the Machine operator. The Namespace object is included only if it is [`NAMESPACE`].
    pub namespace: String,
    /// Image of both operators.
    pub image: String,
    /// ClusterRole of the Machine operator.
    pub cluster_role: String,
    pub parts: Vec<Part>,
}

impl Installation {
    /// Objects in the order in which to apply them.
    pub fn objects(&self) -> io::Result<Vec<Value>> {
        let mut objects = Vec::new();
        for file in self.files() {
            let documents: Vec<Value> =
                serde_saphyr::from_multiple(file).map_err(io::Error::other)?;
            objects.extend(documents);
        }
        // Another namespace belongs to the user: it may have pods that the operator's Pod Security
        // Standard would refuse, and must not be deleted with the operator.
        if self.namespace != NAMESPACE {
            objects.retain(|object| {
                object["kind"] != "Namespace" || object["metadata"]["name"] != NAMESPACE
            });
        }
        for object in &mut objects {
            if !self.has(Part::Webhook) {
                leave_out_webhook(object);
            }
            self.rename(object);
            self.rename_cluster_role(object);
        }
        for crd in api::crds() {
            objects.push(serde_json::to_value(crd)?);
        }
        objects.sort_by_key(rank);
        Ok(objects)
    }

    fn has(&self, part: Part) -> bool {
        self.parts.contains(&part)
    }

    fn files(&self) -> impl Iterator<Item = &'static str> {
        let both = |one, other| self.has(one) && self.has(other);
        let wanted = [
            (true, MACHINE_RIGHTS),
            (true, MANAGER),
            (self.has(Part::Webhook), WEBHOOK_RIGHTS),
            (self.has(Part::Webhook), WEBHOOK),
            (self.has(Part::Prometheus), PROMETHEUS),
            (self.has(Part::NetworkPolicy), NETWORK_POLICY),
            (self.has(Part::VirtOperator), KUBEVIRT_RIGHTS),
            (self.has(Part::VirtOperator), VIRT_OPERATOR),
            (
                both(Part::VirtOperator, Part::Prometheus),
                VIRT_OPERATOR_PROMETHEUS,
            ),
        ];
        wanted
            .into_iter()
            .filter(|(wanted, _)| *wanted)
            .flat_map(|(_, files)| files.iter().copied())
    }

    /// Replaces the names in the files by those of this installation.
    fn rename(&self, value: &mut Value) {
        match value {
            Value::String(text) if text == IMAGE => text.clone_from(&self.image),
            Value::String(text) if text == NAMESPACE => text.clone_from(&self.namespace),
            Value::Array(items) => items.iter_mut().for_each(|item| self.rename(item)),
            Value::Object(fields) => fields.values_mut().for_each(|field| self.rename(field)),
            _ => {}
        }
    }

    /// Renames the ClusterRole in its own name and in role references; other objects have the same name.
    fn rename_cluster_role(&self, object: &mut Value) {
        let place = if object["kind"] == "ClusterRole" {
            "/metadata/name"
        } else if object["roleRef"]["kind"] == "ClusterRole" {
            "/roleRef/name"
        } else {
            return;
        };
        if let Some(Value::String(name)) = object.pointer_mut(place)
            && name == CLUSTER_ROLE
        {
            name.clone_from(&self.cluster_role);
        }
    }
}

/// Disables the webhook and removes its ports from objects with other purposes.
fn leave_out_webhook(object: &mut Value) {
    fn items<'a>(object: &'a mut Value, path: &str) -> impl Iterator<Item = &'a mut Value> {
        let list = object.pointer_mut(path).and_then(Value::as_array_mut);
        list.into_iter().flatten()
    }
    for container in items(object, "/spec/template/spec/containers") {
        if let Some(Value::Array(ports)) = container.get_mut("ports") {
            ports.retain(|port| port["name"] != "webhook");
        }
        for variable in items(container, "/env") {
            if variable["name"] == "WEBHOOK_BIND_ADDRESS" {
                variable["value"] = "0".into();
            }
        }
    }
    if object["kind"] == "NetworkPolicy"
        && let Some(Value::Array(rules)) = object.pointer_mut("/spec/ingress")
    {
        let is_webhook = |port: &Value| port["port"] == "webhook";
        rules.retain(|rule| {
            !rule["ports"]
                .as_array()
                .is_some_and(|ports| ports.iter().any(is_webhook))
        });
    }
}

/// Order of application: dependencies first.
fn rank(object: &Value) -> usize {
    const ORDER: [&str; 12] = [
        "Namespace",
        "CustomResourceDefinition",
        "PriorityClass",
        "ServiceAccount",
        "ClusterRole",
        "Role",
        "ClusterRoleBinding",
        "RoleBinding",
        "NetworkPolicy",
        "Service",
        "PodDisruptionBudget",
        "Deployment",
    ];
    let kind = object["kind"].as_str().unwrap_or_default();
    let found = ORDER.iter().position(|other| *other == kind);
    found.unwrap_or(ORDER.len())
}
