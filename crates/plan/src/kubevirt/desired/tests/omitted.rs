//! Tests of omitted objects.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use rstest::rstest;
use serde_json::{Value, json};

use super::{BUNDLE, world};
use crate::kubevirt::desired::OmissionReason;

const SERVICE_MONITOR: (&str, &str) = ("monitoring.coreos.com", "ServiceMonitor");
const OPENSHIFT: [(&str, &str); 2] = [
    ("security.openshift.io", "SecurityContextConstraints"),
    ("route.openshift.io", "Route"),
];

#[rstest]
#[case::as_the_release_says(json!({}), true)]
#[case::gate_refused(json!({"developerConfiguration": {"disabledFeatureGates": ["Template"]}}), false)]
#[case::turned_off(json!({"virtTemplateDeployment": {"enabled": false}}), false)]
#[case::gate_refused_though_turned_on(
    json!({
        "developerConfiguration": {"disabledFeatureGates": ["Template"]},
        "virtTemplateDeployment": {"enabled": true},
    }),
    false
)]
fn virt_template_is_on_and_off(#[case] configuration: Value, #[case] on: bool) {
    let desired = world(json!({"configuration": configuration})).desired();
    for (kind, name) in [
        ("Deployment", "virt-template-apiserver"),
        ("RoleBinding", "virt-template-apiserver-auth-reader"),
    ] {
        assert_eq!(desired.find(kind, name).is_some(), on, "{name}");
        assert_eq!(desired.omission(kind, name).is_none(), on, "{name}");
    }
    let secret = "kubevirt-virt-template-api-certs".to_owned();
    assert_eq!(desired.secrets.contains(&secret), on);
}

#[test]
fn virt_template_is_off_in_releases_in_which_it_is_alpha() {
    let mut world = world(json!({}));
    world.target = super::target("v1.8.4");
    assert_eq!(
        world
            .desired()
            .find("Deployment", "virt-template-apiserver"),
        None
    );
}

#[rstest]
#[case(
    "ContainerPathVolumes",
    "MutatingWebhookConfiguration",
    "virt-launcher-pod-mutator"
)]
#[case(
    "DecentralizedLiveMigration",
    "Deployment",
    "virt-synchronization-controller"
)]
fn a_gate_turns_its_object_on_and_off(#[case] gate: &str, #[case] kind: &str, #[case] name: &str) {
    let desired = world(json!({})).desired();
    assert_eq!(desired.find(kind, name), None);
    assert_eq!(
        desired.omission(kind, name),
        Some(format!("the feature gate {gate} is off"))
    );
    let gates = json!({"developerConfiguration": {"featureGates": [gate]}});
    let desired = world(json!({"configuration": gates})).desired();
    assert!(desired.find(kind, name).is_some());
}

#[test]
fn a_deployment_that_is_off_has_no_budget() {
    let desired = world(json!({})).desired();
    assert_eq!(
        desired.find("PodDisruptionBudget", "virt-synchronization-controller-pdb"),
        None
    );
}

#[test]
fn instancetypes_and_preferences_are_on_and_off() {
    let kind = "VirtualMachineClusterInstancetype";
    assert!(world(json!({})).desired().find(kind, "u1.small").is_some());
    let off = json!({"configuration": {"commonInstancetypesDeployment": {"enabled": false}}});
    let desired = world(off).desired();
    assert_eq!(desired.find(kind, "u1.small"), None);
    assert!(matches!(
        desired.omitted.last().unwrap().reason,
        OmissionReason::NotServed(_)
    ));
    assert!(desired.omission(kind, "u1.small").is_some());
}

#[test]
fn monitoring_objects_need_their_kinds() {
    let desired = world(json!({})).desired();
    let name = "prometheus-kubevirt-rules";
    assert_eq!(desired.find("ServiceMonitor", name), None);
    assert_eq!(desired.find("PrometheusRule", name), None);
    assert_eq!(desired.find("Role", "kubevirt-monitoring"), None);
    let desired = world(json!({})).serves(&[SERVICE_MONITOR]).desired();
    assert!(desired.find("ServiceMonitor", name).is_some());
    assert_eq!(desired.find("PrometheusRule", name), None);
    assert_eq!(
        desired.get("Role", "kubevirt-monitoring")["metadata"]["namespace"],
        "kubevirt"
    );
}

#[rstest]
#[case(json!({}), "monitoring")]
#[case(json!({"monitorNamespace": "observability"}), "observability")]
#[case(json!({"monitorNamespace": "observability", "serviceMonitorNamespace": "monitors"}), "monitors")]
fn the_service_monitor_is_in_the_configured_namespace(
    #[case] spec: Value,
    #[case] namespace: &str,
) {
    let desired = world(spec).serves(&[SERVICE_MONITOR]).desired();
    let monitor = desired
        .find("ServiceMonitor", "prometheus-kubevirt-rules")
        .unwrap();
    assert_eq!(&*monitor.id.namespace, namespace);
    assert_eq!(monitor.api_version(), "monitoring.coreos.com/v1");
}

#[test]
fn openshift_objects_are_built_only_on_openshift() {
    let plain = world(json!({})).serves(&OPENSHIFT[1..]).desired();
    assert_eq!(
        plain.find("SecurityContextConstraints", "kubevirt-handler"),
        None
    );
    assert_eq!(plain.find("Route", "virt-exportproxy"), None);
    let openshift = world(json!({})).serves(&OPENSHIFT).desired();
    assert!(
        openshift
            .find("SecurityContextConstraints", "kubevirt-handler")
            .is_some()
    );
    let route = openshift.get("Route", "virt-exportproxy");
    assert_eq!(route["spec"]["tls"]["destinationCACertificate"], BUNDLE);
}

#[test]
fn admission_policies_are_built_if_served() {
    let (kind, name) = (
        "ValidatingAdmissionPolicy",
        "kubevirt-node-restriction-policy",
    );
    assert_eq!(world(json!({})).desired().find(kind, name), None);
    let served = [("admissionregistration.k8s.io", kind)];
    assert!(
        world(json!({}))
            .serves(&served)
            .desired()
            .find(kind, name)
            .is_some()
    );
}

#[test]
fn unknown_kinds_are_built_if_served() {
    assert_eq!(world(json!({})).desired().find("Novelty", "novelty"), None);
    let desired = world(json!({}))
        .serves(&[("example.org", "Novelty")])
        .desired();
    let novelty = desired.get("Novelty", "novelty");
    assert_eq!(
        novelty["metadata"]["labels"]["app.kubernetes.io/managed-by"],
        "virt-operator"
    );
}

#[test]
fn the_ca_bundle_is_in_webhooks_and_api_services() {
    let desired = world(json!({})).desired();
    let encoded = STANDARD.encode(BUNDLE);
    let webhooks = desired.get("ValidatingWebhookConfiguration", "virt-api-validator");
    for webhook in webhooks["webhooks"].as_array().unwrap() {
        assert_eq!(webhook["clientConfig"]["caBundle"], encoded);
    }
    let service = desired.get("APIService", "v1.subresources.kubevirt.io");
    assert_eq!(service["spec"]["caBundle"], encoded);
}

#[test]
fn objects_with_a_ca_bundle_wait_for_it() {
    let mut world = world(json!({})).serves(&OPENSHIFT);
    world.bundles.clear();
    let desired = world.desired();
    let later = desired
        .omitted
        .iter()
        .filter(|left| matches!(left.reason, OmissionReason::NotYet(_)));
    let later: Vec<_> = later.map(|left| left.id.to_string()).collect();
    assert_eq!(
        later,
        [
            "ValidatingWebhookConfiguration virt-api-validator",
            "APIService v1.subresources.kubevirt.io",
            "Route kubevirt/virt-exportproxy",
        ]
    );
}

#[test]
fn certificates_and_bundles_are_only_named() {
    let desired = world(json!({})).desired();
    assert_eq!(
        desired.secrets,
        [
            "kubevirt-virt-api-certs",
            "kubevirt-virt-template-api-certs"
        ]
    );
    assert_eq!(desired.config_maps, ["kubevirt-ca"]);
    assert_eq!(desired.find("Secret", "kubevirt-virt-api-certs"), None);
    assert_eq!(desired.find("ConfigMap", "kubevirt-ca"), None);
    assert_eq!(
        desired.common.labels["app.kubernetes.io/managed-by"],
        "virt-operator"
    );
    assert_eq!(desired.common.annotations()["kubevirt.io/generation"], "7");
}

#[rstest]
#[case(json!({}), "true")]
#[case(json!({"roleAggregationStrategy": "Manual"}), "false")]
#[case(json!({"roleAggregationStrategy": "AggregateToDefault"}), "true")]
#[case(
    json!({
        "roleAggregationStrategy": "Manual",
        "developerConfiguration": {"disabledFeatureGates": ["OptOutRoleAggregation"]},
    }),
    "true"
)]
fn roles_can_be_excluded_from_aggregation(#[case] configuration: Value, #[case] label: &str) {
    let desired = world(json!({"configuration": configuration})).desired();
    let role = desired.get("ClusterRole", "kubevirt.io:admin");
    let labels = &role["metadata"]["labels"];
    assert_eq!(
        labels["rbac.authorization.k8s.io/aggregate-to-admin"],
        label
    );
}

#[test]
fn a_role_binding_keeps_its_namespace() {
    let desired = world(json!({})).desired();
    let binding = desired
        .find("RoleBinding", "virt-template-apiserver-auth-reader")
        .unwrap();
    assert_eq!(&*binding.id.namespace, "kube-system");
}
