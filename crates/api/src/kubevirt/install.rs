//! The KubeVirt resource, and the labels and annotations of its operator.
//!
//! Only fields that affect the installation are typed; all others are preserved as written.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::LocalObjectReference;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::Time;

/// The field manager of every apply.
pub const FIELD_MANAGER: &str = "vitistack-virt-operator";

/// Field manager of KubeVirt's own operator, whose installations can be taken over.
pub const UPSTREAM_FIELD_MANAGER: &str = "virt-operator";

/// Label on every object of an installation; its value is [`MANAGER`].
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";

/// The value of [`MANAGED_BY`]. Equal to KubeVirt's own, so that an installation can change operators
/// without touching a pod.
pub const MANAGER: &str = "virt-operator";

/// The value of [`MANAGED_BY`] that old releases wrote.
pub const OLD_MANAGER: &str = "kubevirt-operator";

/// Label with the component's name. Defaults to kubevirt.
pub const COMPONENT: &str = "app.kubernetes.io/component";

/// Label with the product's name.
pub const PART_OF: &str = "app.kubernetes.io/part-of";

/// Label with the product's version.
pub const VERSION: &str = "app.kubernetes.io/version";

/// Label on ConfigMaps with an install strategy and on the Jobs that write them.
pub const STRATEGY: &str = "kubevirt.io/install-strategy";

/// Annotation: KubeVirt version of an object.
pub const STRATEGY_VERSION: &str = "kubevirt.io/install-strategy-version";

/// Annotation: registry of an object's images.
pub const STRATEGY_REGISTRY: &str = "kubevirt.io/install-strategy-registry";

/// Annotation: deployment ID of an object.
pub const STRATEGY_IDENTIFIER: &str = "kubevirt.io/install-strategy-identifier";

/// Annotation: encoding of an install strategy.
pub const STRATEGY_ENCODING: &str = "kubevirt.io/install-strategy-cm-encoding";

/// Annotation: generation of the KubeVirt resource that an object was created for.
pub const GENERATION: &str = "kubevirt.io/generation";

/// Annotation: digest of the customizations of an object.
pub const CUSTOMIZER: &str = "kubevirt.io/customizer-identifier";

/// Annotation on a Secret with a certificate: its configured validity.
pub const DURATION: &str = "kubevirt.io/duration";

/// Finalizer that keeps the KubeVirt resource until the installation is removed.
pub const FINALIZER: &str = "kubevirt.io/foregroundDeleteKubeVirt";

/// Former name of the finalizer.
pub const OLD_FINALIZER: &str = "foregroundDeleteKubeVirt";

/// Finalizer on definitions while KubeVirt is removed.
pub const DEFINITION_FINALIZER: &str = "kubevirt.io/virtOperatorFinalizer";

/// Annotation on the KubeVirt resource: `"true"` requests a rollback to the last version that worked.
pub const ROLLBACK: &str = "vitistack.io/rollback";

/// Annotation on the KubeVirt resource: `OnFailure` rolls back to the last version that worked whenever
/// an update fails.
pub const ROLLBACK_POLICY: &str = "vitistack.io/rollback-policy";

/// Annotation on the KubeVirt resource: deployment ID that was rolled back. It is not retried until the
/// resource asks for another one.
pub const GIVEN_UP: &str = "vitistack.io/given-up-deployment";

/// Annotation on the KubeVirt resource: `"true"` deletes definitions that the target version does not
/// have, with all their objects.
pub const PRUNE_DEFINITIONS: &str = "vitistack.io/prune-definitions";

/// Desired KubeVirt installation. A cluster has at most one.
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
    /// KubeVirt version, as tag of its images. Defaults to that of the operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_tag: Option<String>,
    /// Registry of the images. Defaults to that of the operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_registry: Option<String>,
    /// Image pull policy. Defaults to IfNotPresent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_pull_policy: Option<String>,
    /// Image pull secrets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_pull_secrets: Option<Vec<LocalObjectReference>>,
    /// Replicas and placement of the control plane components.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub infra: Option<ComponentConfig>,
    /// Placement of virtual machines and of the components on their nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workloads: Option<ComponentConfig>,
    /// How running virtual machines are updated to a new version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "preserved")]
    pub workload_update_strategy: Option<Value>,
    /// Configuration of KubeVirt, passed on unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "preserved")]
    pub configuration: Option<Value>,
    /// Rotation of certificates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate_rotate_strategy: Option<CertificateRotateStrategy>,
    /// Namespace of Prometheus.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub monitor_namespace: Option<String>,
    /// ServiceAccount of Prometheus.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub monitor_account: Option<String>,
    /// Namespace of the ServiceMonitor. Defaults to `monitorNamespace`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_monitor_namespace: Option<String>,
    /// Name of the product that KubeVirt is part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub product_name: Option<String>,
    /// Version of the product that KubeVirt is part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub product_version: Option<String>,
    /// Name of the component of the product.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub product_component: Option<String>,
    /// Customizations of the installed objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub customize_components: Option<CustomizeComponents>,
    /// What happens to virtual machines when this resource is deleted: RemoveWorkloads or
    /// BlockUninstallIfWorkloadsExist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uninstall_strategy: Option<String>,
    /// Port of virt-synchronization-controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "preserved")]
    pub synchronization_port: Option<Value>,
    /// Fields of later KubeVirt releases.
    #[serde(flatten)]
    #[schemars(skip)]
    pub others: Map<String, Value>,
}

/// Replicas and placement of components.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ComponentConfig {
    /// Number of pods of each component.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i64>,
    /// Placement of the pods. An empty object allows all nodes; if not set, the default placement
    /// applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_placement: Option<NodePlacement>,
}

/// Placement of pods.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodePlacement {
    /// Node selector.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<BTreeMap<String, String>>,
    /// Affinity rules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "preserved")]
    pub affinity: Option<Value>,
    /// Tolerations of node taints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "preserved_list")]
    pub tolerations: Option<Vec<Value>>,
}

/// Rotation of certificates.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CertificateRotateStrategy {
    /// Certificates that the operator signs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub self_signed: Option<SelfSigned>,
}

/// Rotation of certificates that the operator signs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SelfSigned {
    /// Deprecated: validity of a CA.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_rotate_interval: Option<String>,
    /// Deprecated: validity of a certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cert_rotate_interval: Option<String>,
    /// Deprecated: how long before it expires a CA is replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_overlap_interval: Option<String>,
    /// Validity of CAs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<CertificateConfig>,
    /// Validity of certificates that the CAs sign.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<CertificateConfig>,
}

/// Validity of certificates.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CertificateConfig {
    /// Validity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<String>,
    /// How long before it expires a certificate is replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renew_before: Option<String>,
}

/// Customizations of the installed objects.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CustomizeComponents {
    /// Patches of installed objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patches: Option<Vec<CustomizePatch>>,
    /// Command line flags of the components.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flags: Option<Flags>,
}

/// Patch of an installed object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CustomizePatch {
    /// Name of the object, or `*`.
    pub resource_name: String,
    /// Kind of the object.
    pub resource_type: String,
    /// Patch, as JSON.
    pub patch: String,
    /// Patch type: json, merge or strategic.
    #[serde(rename = "type")]
    pub type_: String,
}

/// Command line flags of KubeVirt's components.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Flags {
    /// Flags of virt-api.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api: Option<BTreeMap<String, String>>,
    /// Flags of virt-controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller: Option<BTreeMap<String, String>>,
    /// Flags of virt-handler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handler: Option<BTreeMap<String, String>>,
}

/// Observed state of an installation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KubeVirtStatus {
    /// Phase of the installation: Deploying, Deployed, Deleting or Deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<InstallPhase>,
    /// Conditions of the installation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<KubeVirtCondition>>,
    /// Version of the operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operator_version: Option<String>,
    /// Target registry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_kube_virt_registry: Option<String>,
    /// Target KubeVirt version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_kube_virt_version: Option<String>,
    /// Settings that determine the target deployment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_deployment_config: Option<String>,
    /// Digest of those settings.
    #[serde(
        default,
        rename = "targetDeploymentID",
        skip_serializing_if = "Option::is_none"
    )]
    pub target_deployment_id: Option<String>,
    /// Installed registry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_kube_virt_registry: Option<String>,
    /// Installed KubeVirt version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_kube_virt_version: Option<String>,
    /// Settings that determine the installed deployment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_deployment_config: Option<String>,
    /// Digest of those settings.
    #[serde(
        default,
        rename = "observedDeploymentID",
        skip_serializing_if = "Option::is_none"
    )]
    pub observed_deployment_id: Option<String>,
    /// Number of VirtualMachineInstances that run an old version. Written by virt-controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outdated_virtual_machine_instance_workloads: Option<i64>,
    /// Generation of the spec that is deployed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Default architecture of virtual machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_architecture: Option<String>,
    /// Generations of objects that KubeVirt's own operator records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "preserved_list")]
    pub generations: Option<Vec<Value>>,
    /// Addresses of virt-synchronization-controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub synchronization_addresses: Option<Vec<String>>,
    /// Fields of later KubeVirt releases.
    #[serde(flatten)]
    #[schemars(skip)]
    pub others: Map<String, Value>,
}

/// Phase of an installation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum InstallPhase {
    /// Not all components are ready.
    Deploying,
    /// All components were ready once.
    Deployed,
    /// The installation is being removed.
    Deleting,
    /// The installation is removed.
    Deleted,
}

/// Condition of an installation, without a generation as in KubeVirt's own type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KubeVirtCondition {
    /// Type of the condition.
    #[serde(rename = "type")]
    pub type_: String,
    /// Status of the condition: True, False or Unknown.
    pub status: String,
    /// Machine-readable reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Human-readable message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Time at which the current wait began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_probe_time: Option<Time>,
    /// Time of the last change of the status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
}

/// Schema of a part that is preserved as written.
fn preserved(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"x-kubernetes-preserve-unknown-fields": true})
}

/// Schema of a list whose items are preserved as written.
fn preserved_list(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "array",
        "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    })
}
