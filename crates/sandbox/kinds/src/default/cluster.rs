//! Defaults of webhooks, RBAC, storage, networking and CustomResourceDefinitions.

use serde_json::{Value, json};

use super::Fields;
use crate::value::{child, set_default};

const RBAC: &str = "rbac.authorization.k8s.io";

/// Returns false for other components.
pub(super) fn set(component: &str, fields: &mut Fields) -> bool {
    let name = component.strip_prefix("io.k8s.").unwrap_or(component);
    match name {
        "api.admissionregistration.v1.ValidatingWebhook" => webhook(fields),
        "api.admissionregistration.v1.MutatingWebhook" => {
            webhook(fields);
            set_default(fields, "reinvocationPolicy", "Never");
        }
        "api.admissionregistration.v1.RuleWithOperations"
        | "api.admissionregistration.v1.NamedRuleWithOperations" => {
            set_default(fields, "scope", "*");
        }
        "api.admissionregistration.v1.ServiceReference"
        | "apiextensions-apiserver.pkg.apis.apiextensions.v1.ServiceReference"
        | "kube-aggregator.pkg.apis.apiregistration.v1.ServiceReference" => {
            set_default(fields, "port", 443);
        }
        "api.admissionregistration.v1.ValidatingAdmissionPolicySpec" => {
            set_default(fields, "failurePolicy", "Fail");
        }
        "api.admissionregistration.v1.MatchResources" => {
            set_default(fields, "matchPolicy", "Equivalent");
            set_default(fields, "namespaceSelector", json!({}));
            set_default(fields, "objectSelector", json!({}));
        }
        "api.rbac.v1.RoleRef" => set_default(fields, "apiGroup", RBAC),
        "api.rbac.v1.Subject" => {
            if matches!(
                fields.get("kind").and_then(Value::as_str),
                Some("User" | "Group")
            ) {
                set_default(fields, "apiGroup", RBAC);
            }
        }
        "api.storage.v1.StorageClass" => {
            set_default(fields, "reclaimPolicy", "Delete");
            set_default(fields, "volumeBindingMode", "Immediate");
        }
        "api.storage.v1.CSIDriverSpec" => csi_driver(fields),
        "api.networking.v1.NetworkPolicySpec" => network_policy(fields),
        "api.networking.v1.NetworkPolicyPort" => set_default(fields, "protocol", "TCP"),
        "api.networking.v1.IngressClassParametersReference" => {
            set_default(fields, "scope", "Cluster");
        }
        "api.discovery.v1.EndpointPort" => {
            set_default(fields, "name", "");
            set_default(fields, "protocol", "TCP");
        }
        "api.scheduling.v1.PriorityClass" => {
            set_default(fields, "preemptionPolicy", "PreemptLowerPriority");
        }
        "apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinitionSpec" => {
            definition(fields);
        }
        _ => return false,
    }
    true
}

fn webhook(webhook: &mut Fields) {
    set_default(webhook, "failurePolicy", "Fail");
    set_default(webhook, "matchPolicy", "Equivalent");
    set_default(webhook, "namespaceSelector", json!({}));
    set_default(webhook, "objectSelector", json!({}));
    set_default(webhook, "timeoutSeconds", 10);
}

fn csi_driver(spec: &mut Fields) {
    set_default(spec, "attachRequired", true);
    set_default(spec, "podInfoOnMount", false);
    set_default(spec, "storageCapacity", false);
    set_default(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
    set_default(spec, "volumeLifecycleModes", json!(["Persistent"]));
    set_default(spec, "requiresRepublish", false);
    set_default(spec, "seLinuxMount", false);
    set_default(spec, "preventPodSchedulingIfMissing", false);
}

fn network_policy(spec: &mut Fields) {
    let has_egress = spec
        .get("egress")
        .and_then(Value::as_array)
        .is_some_and(|rules| !rules.is_empty());
    let types = if has_egress {
        json!(["Ingress", "Egress"])
    } else {
        json!(["Ingress"])
    };
    set_default(spec, "policyTypes", types);
}

fn definition(spec: &mut Fields) {
    if let Some(names) = child(spec, "names") {
        let kind = names
            .get("kind")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned();
        if !kind.is_empty() {
            set_default(names, "singular", kind.to_lowercase());
            set_default(names, "listKind", format!("{kind}List"));
        }
    }
    if let Some(conversion) = child(spec, "conversion") {
        set_default(conversion, "strategy", "None");
    }
}
