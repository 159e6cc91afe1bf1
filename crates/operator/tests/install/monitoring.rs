//! Objects of the Prometheus Operator, and the operator's metrics.

use std::collections::BTreeMap;

use kube::api::ListParams;
use serde_json::{Value, json};

use crate::scenario::{InstallScenario, NAME, run_scenario};

#[test]
fn monitoring_objects_are_created_once_their_kinds_are_served() {
    run_scenario(async {
        let scenario = InstallScenario::with_version("v1.9.0").await;
        let namespace = json!({ "metadata": { "name": "monitoring" } });
        scenario.create("Namespace", namespace).await;
        let account =
            json!({ "metadata": { "name": "prometheus-k8s", "namespace": "monitoring" } });
        scenario.create("ServiceAccount", account).await;
        scenario.wait(60).await;
        assert_eq!(scenario.find("Role", "kubevirt-monitoring").await, None);
        define(&scenario, "ServiceMonitor", "servicemonitors").await;
        define(&scenario, "PrometheusRule", "prometheusrules").await;
        scenario
            .until("PrometheusRule", "prometheus-kubevirt-rules", |rule| {
                rule["apiVersion"] == "monitoring.coreos.com/v1"
            })
            .await;
        scenario.until_deployed("v1.9.0").await;
        let monitors = monitors(&scenario).await;
        assert_eq!(monitors, ["prometheus-kubevirt-rules"]);
        let binding = scenario.get("RoleBinding", "kubevirt-monitoring").await;
        assert_eq!(binding["subjects"][0]["namespace"], "monitoring");

        // They are recreated when deleted, unless their kinds are not served.
        scenario
            .delete("PrometheusRule", "prometheus-kubevirt-rules")
            .await;
        scenario
            .until("PrometheusRule", "prometheus-kubevirt-rules", |_| true)
            .await;
        for plural in ["servicemonitors", "prometheusrules"] {
            let name = format!("{plural}.monitoring.coreos.com");
            scenario.delete("CustomResourceDefinition", &name).await;
            scenario.until_gone("CustomResourceDefinition", &name).await;
        }
        scenario
            .until_gone("RoleBinding", "kubevirt-monitoring")
            .await;
        scenario.until_deployed("v1.9.0").await;
    });
}

#[test]
fn a_changed_monitoring_namespace_moves_the_service_monitor() {
    run_scenario(async {
        let scenario = InstallScenario::start().await;
        define(&scenario, "ServiceMonitor", "servicemonitors").await;
        define(&scenario, "PrometheusRule", "prometheusrules").await;
        for name in ["monitoring", "observability"] {
            scenario
                .create("Namespace", json!({ "metadata": { "name": name } }))
                .await;
        }
        let account =
            json!({ "metadata": { "name": "prometheus-k8s", "namespace": "monitoring" } });
        scenario.create("ServiceAccount", account).await;
        scenario.install("v1.9.0").await;
        scenario.until_deployed("v1.9.0").await;
        assert_eq!(monitors(&scenario).await, ["prometheus-kubevirt-rules"]);
        let account = json!({ "metadata": { "name": "watcher", "namespace": "observability" } });
        scenario.create("ServiceAccount", account).await;
        scenario
            .patch_spec(json!({ "monitorNamespace": "observability", "monitorAccount": "watcher" }))
            .await;
        scenario.until_deployed("v1.9.0").await;
        scenario.wait(60).await;
        assert_eq!(monitors(&scenario).await, Vec::<String>::new());
        let there = scenario.api_in("ServiceMonitor", "observability");
        there.get("prometheus-kubevirt-rules").await.unwrap();
        let binding = scenario.get("RoleBinding", "kubevirt-monitoring").await;
        assert_eq!(binding["subjects"][0]["name"], "watcher");
    });
}

#[test]
fn metrics_show_conditions_and_versions_until_the_resource_is_deleted() {
    run_scenario(async {
        let scenario = InstallScenario::start().await;
        assert!(conditions(&scenario).is_empty());
        scenario.install("v1.9.0").await;
        scenario.until_deployed("v1.9.0").await;
        scenario.wait(5).await;
        let expected = [("Available", "1"), ("Degraded", "0"), ("Progressing", "0")];
        for (condition, value) in expected {
            assert_eq!(conditions(&scenario)[condition], value, "{condition}");
        }
        let info = scenario.metric_series("kubevirt_virt_operator_kubevirt_info");
        let deployed = "kubevirt_virt_operator_kubevirt_info{phase=\"Deployed\",\
                        target_version=\"v1.9.0\",observed_version=\"v1.9.0\"}";
        assert_eq!(info.into_keys().collect::<Vec<_>>(), [deployed]);

        scenario.delete("KubeVirt", NAME).await;
        scenario.until_gone("KubeVirt", NAME).await;
        scenario.wait(5).await;
        assert!(conditions(&scenario).is_empty());
    });
}

/// Conditions of the KubeVirt resource in the operator's metrics.
fn conditions(scenario: &InstallScenario) -> BTreeMap<String, String> {
    let shown = scenario.metric_series("kubevirt_virt_operator_kubevirt_condition");
    let shown = shown.into_iter();
    shown
        .map(|(series, value)| (series.split('"').nth(1).unwrap().to_owned(), value))
        .collect()
}

/// Names of the ServiceMonitors in the namespace `monitoring`.
async fn monitors(scenario: &InstallScenario) -> Vec<String> {
    let api = scenario.api_in("ServiceMonitor", "monitoring");
    let found = api.list(&ListParams::default()).await.unwrap();
    let names = found
        .items
        .into_iter()
        .filter_map(|found| found.metadata.name);
    names.collect()
}

async fn define(scenario: &InstallScenario, kind: &str, plural: &str) {
    let group = "monitoring.coreos.com";
    let schema = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let version: Value = json!({
        "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema },
    });
    let definition = json!({
        "metadata": { "name": format!("{plural}.{group}") },
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": { "kind": kind, "plural": plural, "listKind": format!("{kind}List"), "singular": kind.to_lowercase() },
            "versions": [version],
        },
    });
    scenario
        .create("CustomResourceDefinition", definition)
        .await;
}
