//! The `KubeVirt` resource, which asks for KubeVirt itself, and the names that its operator uses.
//!
//! Only the fields that change what is installed have types of their own; everything else is kept
//! as it was written.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::LocalObjectReference;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::Time;

/// The field manager of every apply.
pub const FIELD_MANAGER: &str = "vitistack-virt-operator";

/// The field manager of KubeVirt's own operator, whose objects are taken over.
pub const UPSTREAM_FIELD_MANAGER: &str = "virt-operator";

/// Label on every object that belongs to an installation; its value is [`MANAGER`].
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";

/// The value of [`MANAGED_BY`], KubeVirt's own, so that an installation can go from one operator
/// to the other without touching a pod.
pub const MANAGER: &str = "virt-operator";

/// The value of [`MANAGED_BY`] that old releases wrote.
pub const OLD_MANAGER: &str = "kubevirt-operator";

/// Label with the product's name, KubeVirt unless the resource says otherwise.
pub const COMPONENT: &str = "app.kubernetes.io/component";

/// Label with the name of what the product is part of.
pub const PART_OF: &str = "app.kubernetes.io/part-of";

/// Label with the product's version.
pub const VERSION: &str = "app.kubernetes.io/version";

/// Label on ConfigMaps with an install strategy and on the Jobs that write them.
pub const STRATEGY: &str = "kubevirt.io/install-strategy";

/// Annotation: the version an object is of.
pub const STRATEGY_VERSION: &str = "kubevirt.io/install-strategy-version";

/// Annotation: the registry that an object's images come from.
pub const STRATEGY_REGISTRY: &str = "kubevirt.io/install-strategy-registry";

/// Annotation: the deployment ID an object is of.
pub const STRATEGY_IDENTIFIER: &str = "kubevirt.io/install-strategy-identifier";

/// Annotation: how the text of a strategy is packed.
pub const STRATEGY_ENCODING: &str = "kubevirt.io/install-strategy-cm-encoding";

/// Annotation: the generation of the KubeVirt resource that an object was made for.
pub const GENERATION: &str = "kubevirt.io/generation";

/// Annotation: a digest of the customizations that an object carries.
pub const CUSTOMIZER: &str = "kubevirt.io/customizer-identifier";

/// Annotation on a Secret with a certificate: how long it is to be valid.
pub const DURATION: &str = "kubevirt.io/duration";

/// Finalizer that holds the KubeVirt resource until everything is removed.
pub const FINALIZER: &str = "kubevirt.io/foregroundDeleteKubeVirt";

/// The finalizer's old name.
pub const OLD_FINALIZER: &str = "foregroundDeleteKubeVirt";

/// Finalizer on definitions while KubeVirt is removed.
pub const DEFINITION_FINALIZER: &str = "kubevirt.io/virtOperatorFinalizer";

/// Annotation on the KubeVirt resource: `"true"` asks to go back to the last version that worked.
pub const ROLLBACK: &str = "vitistack.io/rollback";

/// Annotation on the KubeVirt resource: `OnFailure` goes back to the last version that worked
/// whenever an update fails.
pub const ROLLBACK_POLICY: &str = "vitistack.io/rollback-policy";

/// Annotation on the KubeVirt resource: the deployment ID that was given up. It is not tried again
/// before the resource asks for another.
pub const GIVEN_UP: &str = "vitistack.io/given-up-deployment";

/// Annotation on the KubeVirt resource: `"true"` lets definitions go that the wanted version does
/// not have, with all their objects.
pub const PRUNE_DEFINITIONS: &str = "vitistack.io/prune-definitions";

/// Asks for KubeVirt, once in a cluster.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "kubevirt.io",
    version = "v1",
    kind = "KubeVirt",
    plural = "kubevirts",
    shortname = "kv",
    shortname = "kvs",
    category = "all",
    namespaced,
    status = "KubeVirtStatus",
    derive = "PartialEq",
    derive = "Default",
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name": "Phase", "type": "string", "jsonPath": ".status.phase"}"#,
    printcolumn = r#"{"name": "Version", "type": "string", "jsonPath": ".status.observedKubeVirtVersion"}"#,
    printcolumn = r#"{"name": "Target", "type": "string", "jsonPath": ".status.targetKubeVirtVersion"}"#,
    printcolumn = r#"{"name": "Step", "type": "string", "jsonPath": ".status.conditions[?(@.type=='Progressing')].reason"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct KubeVirtSpec {
    /// The version, as the tag of its images. The operator's own unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_tag: Option<String>,
    /// Where the images are. The operator's own registry unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_registry: Option<String>,
    /// When images are pulled. IfNotPresent unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_pull_policy: Option<String>,
    /// Secrets to pull images with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_pull_secrets: Option<Vec<LocalObjectReference>>,
    /// How many of the components that serve the cluster there are, and where they run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub infra: Option<ComponentConfig>,
    /// Where virtual machines, and what they need on their nodes, run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workloads: Option<ComponentConfig>,
    /// How running virtual machines are brought to a new version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "as_written")]
    pub workload_update_strategy: Option<Value>,
    /// KubeVirt's own settings, passed on as they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "as_written")]
    pub configuration: Option<Value>,
    /// How certificates are renewed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate_rotate_strategy: Option<CertificateRotateStrategy>,
    /// The namespace of Prometheus.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub monitor_namespace: Option<String>,
    /// The service account of Prometheus.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub monitor_account: Option<String>,
    /// The namespace of the ServiceMonitor, `monitorNamespace` unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_monitor_namespace: Option<String>,
    /// What KubeVirt is part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub product_name: Option<String>,
    /// The version of what KubeVirt is part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub product_version: Option<String>,
    /// The component of the product that KubeVirt is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub product_component: Option<String>,
    /// Changes to what is installed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub customize_components: Option<CustomizeComponents>,
    /// What happens to virtual machines when this resource is deleted: RemoveWorkloads, or
    /// BlockUninstallIfWorkloadsExist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uninstall_strategy: Option<String>,
    /// The port of virt-synchronization-controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "as_written")]
    pub synchronization_port: Option<Value>,
    /// What a later KubeVirt added.
    #[serde(flatten)]
    #[schemars(skip)]
    pub others: Map<String, Value>,
}

/// How many of some components there are, and where they run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ComponentConfig {
    /// How many pods of each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i64>,
    /// Where they run. Absent and empty differ: the latter is anywhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_placement: Option<NodePlacement>,
}

/// Where pods run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodePlacement {
    /// Labels that nodes must have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<BTreeMap<String, String>>,
    /// Rules of affinity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "as_written")]
    pub affinity: Option<Value>,
    /// Taints of nodes that are tolerated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "as_written_list")]
    pub tolerations: Option<Vec<Value>>,
}

/// How certificates are renewed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CertificateRotateStrategy {
    /// Those that the operator signs itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub self_signed: Option<SelfSigned>,
}

/// How certificates that the operator signs itself are renewed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SelfSigned {
    /// Deprecated: how long a CA is valid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_rotate_interval: Option<String>,
    /// Deprecated: how long a certificate is valid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cert_rotate_interval: Option<String>,
    /// Deprecated: how long before its end a CA is replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_overlap_interval: Option<String>,
    /// The CAs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<CertificateConfig>,
    /// The certificates that the CAs sign.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<CertificateConfig>,
}

/// How long certificates are valid.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CertificateConfig {
    /// How long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<String>,
    /// How long before its end it is replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renew_before: Option<String>,
}

/// Changes to what is installed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CustomizeComponents {
    /// Patches to objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patches: Option<Vec<CustomizePatch>>,
    /// Flags of the programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flags: Option<Flags>,
}

/// A patch to objects.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CustomizePatch {
    /// The name of the object, or `*`.
    pub resource_name: String,
    /// Its kind.
    pub resource_type: String,
    /// The patch, as JSON.
    pub patch: String,
    /// json, merge or strategic.
    #[serde(rename = "type")]
    pub type_: String,
}

/// Flags of KubeVirt's programs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Flags {
    /// Of virt-api.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api: Option<BTreeMap<String, String>>,
    /// Of virt-controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller: Option<BTreeMap<String, String>>,
    /// Of virt-handler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handler: Option<BTreeMap<String, String>>,
}

/// How far an installation has come.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KubeVirtStatus {
    /// Deploying, Deployed, Deleting or Deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<InstallPhase>,
    /// How things are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<KubeVirtCondition>>,
    /// The version of the operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operator_version: Option<String>,
    /// The registry that is wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_kube_virt_registry: Option<String>,
    /// The version that is wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_kube_virt_version: Option<String>,
    /// Everything that the wanted deployment depends on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_deployment_config: Option<String>,
    /// A digest of that.
    #[serde(
        default,
        rename = "targetDeploymentID",
        skip_serializing_if = "Option::is_none"
    )]
    pub target_deployment_id: Option<String>,
    /// The registry that is in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_kube_virt_registry: Option<String>,
    /// The version that runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_kube_virt_version: Option<String>,
    /// Everything that the present deployment depends on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_deployment_config: Option<String>,
    /// A digest of that.
    #[serde(
        default,
        rename = "observedDeploymentID",
        skip_serializing_if = "Option::is_none"
    )]
    pub observed_deployment_id: Option<String>,
    /// Instances that run an old version; virt-controller writes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outdated_virtual_machine_instance_workloads: Option<i64>,
    /// The generation that is deployed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The architecture of virtual machines that name none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_architecture: Option<String>,
    /// What KubeVirt's own operator remembers of objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "as_written_list")]
    pub generations: Option<Vec<Value>>,
    /// Where virt-synchronization-controller listens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub synchronization_addresses: Option<Vec<String>>,
    /// What a later KubeVirt added.
    #[serde(flatten)]
    #[schemars(skip)]
    pub others: Map<String, Value>,
}

/// How far an installation has come, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum InstallPhase {
    /// Not all of it runs yet.
    Deploying,
    /// It ran in full once.
    Deployed,
    /// It is being removed.
    Deleting,
    /// It is gone.
    Deleted,
}

/// A condition of an installation. KubeVirt's own type has no generation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KubeVirtCondition {
    /// What it tells of.
    #[serde(rename = "type")]
    pub type_: String,
    /// True, False or Unknown.
    pub status: String,
    /// Why, in a word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why, in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When what it waits for now began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_probe_time: Option<Time>,
    /// When the status last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
}

/// A part that is kept as it was written.
fn as_written(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"x-kubernetes-preserve-unknown-fields": true})
}

/// A list whose items are kept as they were written.
fn as_written_list(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "array",
        "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    })
}
