//! What Prometheus reads, where there is one.

use std::collections::BTreeMap;

use kube::api::ListParams;
use serde_json::{Value, json};

use crate::ground::{Ground, NAME, tell};

#[test]
fn monitoring_comes_when_its_kinds_do_and_needs_no_restart() {
    tell(async {
        let ground = Ground::with("v1.9.0").await;
        let namespace = json!({ "metadata": { "name": "monitoring" } });
        ground.create("Namespace", namespace).await;
        let account =
            json!({ "metadata": { "name": "prometheus-k8s", "namespace": "monitoring" } });
        ground.create("ServiceAccount", account).await;
        ground.wait(60).await;
        assert_eq!(ground.find("Role", "kubevirt-monitoring").await, None);
        define(&ground, "ServiceMonitor", "servicemonitors").await;
        define(&ground, "PrometheusRule", "prometheusrules").await;
        ground
            .until("PrometheusRule", "prometheus-kubevirt-rules", |rule| {
                rule["apiVersion"] == "monitoring.coreos.com/v1"
            })
            .await;
        ground.until_deployed("v1.9.0").await;
        let monitors = monitors(&ground).await;
        assert_eq!(monitors, ["prometheus-kubevirt-rules"]);
        let binding = ground.get("RoleBinding", "kubevirt-monitoring").await;
        assert_eq!(binding["subjects"][0]["namespace"], "monitoring");

        // Deleted, they come back; without their kinds, nobody misses them.
        ground
            .delete("PrometheusRule", "prometheus-kubevirt-rules")
            .await;
        ground
            .until("PrometheusRule", "prometheus-kubevirt-rules", |_| true)
            .await;
        for plural in ["servicemonitors", "prometheusrules"] {
            let name = format!("{plural}.monitoring.coreos.com");
            ground.delete("CustomResourceDefinition", &name).await;
            ground.until_gone("CustomResourceDefinition", &name).await;
        }
        ground
            .until_gone("RoleBinding", "kubevirt-monitoring")
            .await;
        ground.until_deployed("v1.9.0").await;
    });
}

#[test]
fn the_resource_says_where_prometheus_is_and_the_old_monitor_goes() {
    tell(async {
        let ground = Ground::begin().await;
        define(&ground, "ServiceMonitor", "servicemonitors").await;
        define(&ground, "PrometheusRule", "prometheusrules").await;
        for name in ["monitoring", "observability"] {
            ground
                .create("Namespace", json!({ "metadata": { "name": name } }))
                .await;
        }
        let account =
            json!({ "metadata": { "name": "prometheus-k8s", "namespace": "monitoring" } });
        ground.create("ServiceAccount", account).await;
        ground.install("v1.9.0").await;
        ground.until_deployed("v1.9.0").await;
        assert_eq!(monitors(&ground).await, ["prometheus-kubevirt-rules"]);
        let account = json!({ "metadata": { "name": "watcher", "namespace": "observability" } });
        ground.create("ServiceAccount", account).await;
        ground
            .change(json!({ "monitorNamespace": "observability", "monitorAccount": "watcher" }))
            .await;
        ground.until_deployed("v1.9.0").await;
        ground.wait(60).await;
        assert_eq!(monitors(&ground).await, Vec::<String>::new());
        let there = ground.api_in("ServiceMonitor", "observability");
        there.get("prometheus-kubevirt-rules").await.unwrap();
        let binding = ground.get("RoleBinding", "kubevirt-monitoring").await;
        assert_eq!(binding["subjects"][0]["name"], "watcher");
    });
}

#[test]
fn conditions_and_versions_of_the_resource_are_figures_until_it_goes() {
    tell(async {
        let ground = Ground::begin().await;
        assert!(conditions(&ground).is_empty());
        ground.install("v1.9.0").await;
        ground.until_deployed("v1.9.0").await;
        ground.wait(5).await;
        let expected = [("Available", 1.0), ("Degraded", 0.0), ("Progressing", 0.0)];
        for (condition, holds) in expected {
            assert_eq!(conditions(&ground)[condition], holds, "{condition}");
        }
        let info = ground.figures("kubevirt_virt_operator_kubevirt_info");
        let deployed = "kubevirt_virt_operator_kubevirt_info{phase=\"Deployed\",\
                        target_version=\"v1.9.0\",observed_version=\"v1.9.0\"}";
        assert_eq!(info.into_keys().collect::<Vec<_>>(), [deployed]);

        ground.delete("KubeVirt", NAME).await;
        ground.until_gone("KubeVirt", NAME).await;
        ground.wait(5).await;
        assert!(conditions(&ground).is_empty());
    });
}

/// Whether each condition of the KubeVirt resource holds, as the operator shows it.
fn conditions(ground: &Ground) -> BTreeMap<String, f64> {
    let shown = ground.figures("kubevirt_virt_operator_kubevirt_condition");
    let shown = shown.into_iter();
    shown
        .map(|(series, holds)| (series.split('"').nth(1).unwrap().to_owned(), holds))
        .collect()
}

/// The ServiceMonitors in the namespace `monitoring`.
async fn monitors(ground: &Ground) -> Vec<String> {
    let api = ground.api_in("ServiceMonitor", "monitoring");
    let found = api.list(&ListParams::default()).await.unwrap();
    let names = found
        .items
        .into_iter()
        .filter_map(|found| found.metadata.name);
    names.collect()
}

async fn define(ground: &Ground, kind: &str, plural: &str) {
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
    ground.create("CustomResourceDefinition", definition).await;
}
