//! Kinds that scenarios read and write.

use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};

/// Group, version and plural of a kind.
pub(crate) fn resource(kind: &str) -> ApiResource {
    let (group, version, plural) = match kind {
        "Machine" => ("vitistack.io", "v1alpha1", "machines"),
        "MachineClass" => ("vitistack.io", "v1alpha1", "machineclasses"),
        "NetworkConfiguration" => ("vitistack.io", "v1alpha1", "networkconfigurations"),
        "MachineProvider" => ("vitistack.io", "v1alpha1", "machineproviders"),
        "KubevirtConfig" => ("vitistack.io", "v1alpha1", "kubevirtconfigs"),
        "NetworkNamespace" => ("vitistack.io", "v1alpha1", "networknamespaces"),
        "KubernetesCluster" => ("vitistack.io", "v1alpha1", "kubernetesclusters"),
        "VirtualMachine" => ("kubevirt.io", "v1", "virtualmachines"),
        "VirtualMachineInstance" => ("kubevirt.io", "v1", "virtualmachineinstances"),
        "DataVolume" => ("cdi.kubevirt.io", "v1beta1", "datavolumes"),
        "NetworkAttachmentDefinition" => {
            ("k8s.cni.cncf.io", "v1", "network-attachment-definitions")
        }
        "PersistentVolumeClaim" => ("", "v1", "persistentvolumeclaims"),
        "Secret" => ("", "v1", "secrets"),
        "ConfigMap" => ("", "v1", "configmaps"),
        "Pod" => ("", "v1", "pods"),
        "Node" => ("", "v1", "nodes"),
        "Namespace" => ("", "v1", "namespaces"),
        "Event" => ("", "v1", "events"),
        "ResourceQuota" => ("", "v1", "resourcequotas"),
        "Lease" => ("coordination.k8s.io", "v1", "leases"),
        "StorageClass" => ("storage.k8s.io", "v1", "storageclasses"),
        "CustomResourceDefinition" => ("apiextensions.k8s.io", "v1", "customresourcedefinitions"),
        "KubeVirt" => ("kubevirt.io", "v1", "kubevirts"),
        "Deployment" => ("apps", "v1", "deployments"),
        "DaemonSet" => ("apps", "v1", "daemonsets"),
        "Service" => ("", "v1", "services"),
        "ServiceAccount" => ("", "v1", "serviceaccounts"),
        "ClusterRole" => ("rbac.authorization.k8s.io", "v1", "clusterroles"),
        "ValidatingWebhookConfiguration" => (
            "admissionregistration.k8s.io",
            "v1",
            "validatingwebhookconfigurations",
        ),
        kind => panic!("unknown kind {kind}: add it to kinds.rs"),
    };
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural)
}

pub(crate) fn is_cluster_scoped(kind: &str) -> bool {
    matches!(
        kind,
        "MachineClass"
            | "MachineProvider"
            | "KubevirtConfig"
            | "Node"
            | "Namespace"
            | "StorageClass"
            | "CustomResourceDefinition"
            | "ClusterRole"
            | "ClusterRoleBinding"
            | "ValidatingWebhookConfiguration"
    )
}

/// CustomResourceDefinition of a kind, without validation.
pub(crate) fn without_schema(kind: &str) -> Value {
    let resource = resource(kind);
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{}.{}", resource.plural, resource.group) },
        "spec": {
            "group": resource.group, "scope": "Namespaced",
            "names": { "kind": kind, "plural": resource.plural, "singular": kind.to_lowercase() },
            "versions": [{
                "name": resource.version, "served": true, "storage": true,
                "subresources": { "status": {} },
                "schema": { "openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                } },
            }],
        },
    })
}
