//! Effect of every value of the chart, set one at a time.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::{
    helm::Helm,
    objects::Objects,
    values::{at, defaults, rows},
};

const MANAGER: &str = "Deployment kubevirt-operator-controller-manager";
const VIRT_OPERATOR: &str = "Deployment virt-operator";
const ROLE_BINDING: &str = "ClusterRoleBinding kubevirt-operator-manager-rolebinding";
const WEBHOOKS: &str = "ValidatingWebhookConfiguration kubevirt-operator";
const POLICY: &str = "NetworkPolicy kubevirt-operator";
const MONITOR: &str = "ServiceMonitor kubevirt-operator";
const DASHBOARD: &str = "ConfigMap kubevirt-operator-dashboard";

/// A value and its effect: the object, the location, the expected JSON. Locations may begin with `pod`
/// or `container`; `env NAME` is that variable; no location stands for whether the object exists.
struct Case(
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
);

/// Values that must be enabled for a value to have an effect, by prefix of its path.
const NEEDS: [(&str, &str); 7] = [
    ("podDisruptionBudget.", "podDisruptionBudget.enabled"),
    ("webhook.certManager.", "webhook.certManager.enabled"),
    ("metrics.serviceMonitor.", "metrics.serviceMonitor.enabled"),
    ("prometheusRule.", "prometheusRule.enabled"),
    ("dashboards.", "dashboards.enabled"),
    ("networkPolicy.", "networkPolicy.enabled"),
    ("virtOperator.", "virtOperator.enabled"),
];

#[rustfmt::skip]
const CASES: &[Case] = &[
    Case("nameOverride", "vms", MANAGER, "/metadata/labels/app.kubernetes.io~1name", r#""vms""#),
    Case("fullnameOverride", "vms", "Deployment vms-controller-manager", "container env WEBHOOK_SERVICE", r#""vms-webhook""#),
    Case("image.repository", "r.example/x", MANAGER, "container/image", concat!("\"r.example/x:", env!("CARGO_PKG_VERSION"), "\"")),
    Case("image.tag", "'7'", MANAGER, "container/image", r#""ghcr.io/vitistack/kubevirt-operator:7""#),
    Case("image.digest", "sha256:0123456789012345678901234567890123456789012345678901234567890123", MANAGER, "container/image",
        r#""ghcr.io/vitistack/kubevirt-operator@sha256:0123456789012345678901234567890123456789012345678901234567890123""#),
    Case("image.pullPolicy", "Always", MANAGER, "container/imagePullPolicy", r#""Always""#),
    Case("imagePullSecrets", "[{name: pull}]", MANAGER, "pod/imagePullSecrets", r#"[{"name":"pull"}]"#),
    Case("replicaCount", "3", MANAGER, "/spec/replicas", "3"),
    Case("resources.limits.cpu", "null", MANAGER, "container/resources/limits", r#"{"memory":"512Mi"}"#),
    Case("resources.limits.memory", "1Gi", MANAGER, "container/resources/limits/memory", r#""1Gi""#),
    Case("resources.requests.cpu", "1", MANAGER, "container/resources/requests/cpu", "1"),
    Case("resources.requests.memory", "1Gi", MANAGER, "container/resources/requests/memory", r#""1Gi""#),
    Case("nodeSelector", "{disk: ssd}", MANAGER, "pod/nodeSelector", r#"{"disk":"ssd"}"#),
    Case("tolerations", "[{operator: Exists}]", MANAGER, "pod/tolerations", r#"[{"operator":"Exists"}]"#),
    Case("affinity", "{podAntiAffinity: {}}", MANAGER, "pod/affinity", r#"{"podAntiAffinity":{}}"#),
    Case("topologySpreadConstraints", "[{maxSkew: 1}]", MANAGER, "pod/topologySpreadConstraints", r#"[{"maxSkew":1}]"#),
    Case("priorityClassName", "high", MANAGER, "pod/priorityClassName", r#""high""#),
    Case("podAnnotations", "{a: b}", MANAGER, "/spec/template/metadata/annotations/a", r#""b""#),
    Case("podLabels", "{a: b}", MANAGER, "/spec/template/metadata/labels/a", r#""b""#),
    Case("podSecurityContext", "{runAsUser: null}", MANAGER, "pod/securityContext/runAsUser", "null"),
    Case("securityContext", "{runAsGroup: 7}", MANAGER, "container/securityContext/runAsGroup", "7"),
    Case("podDisruptionBudget.enabled", "true", "PodDisruptionBudget kubevirt-operator", "/spec/maxUnavailable", "1"),
    Case("podDisruptionBudget.minAvailable", "0", "PodDisruptionBudget kubevirt-operator", "/spec/minAvailable", "0"),
    Case("podDisruptionBudget.maxUnavailable", "50%", "PodDisruptionBudget kubevirt-operator", "/spec/maxUnavailable", r#""50%""#),
    Case("extraEnv", "[{name: RUST_BACKTRACE, value: '1'}]", MANAGER, "container env RUST_BACKTRACE", r#""1""#),
    Case("logLevel", "debug", MANAGER, "container env LOG_LEVEL", r#""debug""#),
    Case("logFormat", "text", MANAGER, "container env LOG_FORMAT", r#""text""#),
    Case("reconcileInterval", "5m", MANAGER, "container env RECONCILE_INTERVAL", r#""5m""#),
    Case("maxConcurrentReconciles", "1000", MANAGER, "container env MAX_CONCURRENT_RECONCILES", r#""1000""#),
    Case("watchNamespaces", "[team-a, team-b]", MANAGER, "container env WATCH_NAMESPACES", r#""team-a,team-b""#),
    Case("passedOnLabels", "[team, example.com/*]", MANAGER, "container env PASSED_ON_LABELS", r#""team,example.com/*""#),
    Case("passedOnAnnotations", "[example.com/ticket]", MANAGER, "container env PASSED_ON_ANNOTATIONS", r#""example.com/ticket""#),
    Case("cloneSourceNamespaces", "[images]", MANAGER, "container env CLONE_SOURCE_NAMESPACES", r#""images""#),
    Case("machineProvider", "kubevirt-east", MANAGER, "container env MACHINE_PROVIDER", r#""kubevirt-east""#),
    Case("kubevirtConfig", "east", MANAGER, "container env KUBEVIRT_CONFIG", r#""east""#),
    Case("watchSecrets", "false", MANAGER, "container env WATCH_SECRETS", r#""false""#),
    Case("leaderElection", "false", MANAGER, "/spec/strategy/type", r#""Recreate""#),
    Case("clientQps", "2000000", MANAGER, "container env CLIENT_QPS", r#""2000000""#),
    Case("clientBurst", "4000000", MANAGER, "container env CLIENT_BURST", r#""4000000""#),
    Case("serviceAccount.create", "false", MANAGER, "pod/serviceAccountName", r#""default""#),
    Case("serviceAccount.name", "mine", ROLE_BINDING, "/subjects/0/name", r#""mine""#),
    Case("serviceAccount.annotations", "{a: b}", "ServiceAccount kubevirt-operator-controller-manager", "/metadata/annotations/a", r#""b""#),
    Case("serviceAccount.automount", "false", MANAGER, "pod/automountServiceAccountToken", "false"),
    Case("rbac.create", "false", ROLE_BINDING, "", "false"),
    Case("crds.install", "false", "CustomResourceDefinition machines.vitistack.io", "", "false"),
    Case("crds.keep", "false", "CustomResourceDefinition machines.vitistack.io", "/metadata/annotations/helm.sh~1resource-policy", "null"),
    Case("crds.annotations", "{a: b}", "CustomResourceDefinition machines.vitistack.io", "/metadata/annotations",
        r#"{"a":"b","helm.sh/resource-policy":"keep"}"#),
    Case("webhook.enabled", "false", WEBHOOKS, "", "false"),
    Case("webhook.failurePolicy", "Fail", WEBHOOKS, "/webhooks/0/failurePolicy", r#""Fail""#),
    Case("webhook.timeoutSeconds", "10", WEBHOOKS, "/webhooks/2/timeoutSeconds", "10"),
    Case("webhook.port", "10250", MANAGER, "container env WEBHOOK_BIND_ADDRESS", r#"":10250""#),
    Case("webhook.certManager.enabled", "true", MANAGER, "container env WEBHOOK_CERTIFICATES", r#""external""#),
    Case("webhook.certManager.issuerRef", "{name: ca, kind: ClusterIssuer}", "Certificate kubevirt-operator-webhook", "/spec/issuerRef",
        r#"{"kind":"ClusterIssuer","name":"ca"}"#),
    Case("metrics.enabled", "false", MANAGER, "container env METRICS_BIND_ADDRESS", r#""0""#),
    Case("metrics.port", "9090", "Service kubevirt-operator-metrics", "/spec/ports/0/port", "9090"),
    Case("metrics.service.annotations", "{a: b}", "Service kubevirt-operator-metrics", "/metadata/annotations/a", r#""b""#),
    Case("metrics.serviceMonitor.enabled", "true", MONITOR, "", "true"),
    Case("metrics.serviceMonitor.labels", "{release: prometheus}", MONITOR, "/metadata/labels/release", r#""prometheus""#),
    Case("metrics.serviceMonitor.interval", "1m", MONITOR, "/spec/endpoints/0/interval", r#""1m""#),
    Case("metrics.serviceMonitor.scrapeTimeout", "20s", MONITOR, "/spec/endpoints/0/scrapeTimeout", r#""20s""#),
    Case("metrics.serviceMonitor.relabelings", "[{action: drop}]", MONITOR, "/spec/endpoints/0/relabelings", r#"[{"action":"drop"}]"#),
    Case("metrics.serviceMonitor.metricRelabelings", "[{action: keep}]", MONITOR, "/spec/endpoints/0/metricRelabelings", r#"[{"action":"keep"}]"#),
    Case("prometheusRule.enabled", "true", "PrometheusRule kubevirt-operator", "", "true"),
    Case("prometheusRule.labels", "{release: prometheus}", "PrometheusRule kubevirt-operator", "/metadata/labels/release", r#""prometheus""#),
    Case("dashboards.enabled", "true", DASHBOARD, "/metadata/labels/grafana_dashboard", r#""1""#),
    Case("dashboards.labels", "{grafana_dashboard: null, board: mine}", DASHBOARD, "/metadata/labels/board", r#""mine""#),
    Case("dashboards.annotations", "{folder: vms}", DASHBOARD, "/metadata/annotations/folder", r#""vms""#),
    Case("networkPolicy.enabled", "true", POLICY, "/spec/policyTypes", r#"["Ingress"]"#),
    Case("networkPolicy.metricsFrom", "[{podSelector: {}}]", POLICY, "/spec/ingress/0/from", r#"[{"podSelector":{}}]"#),
    Case("networkPolicy.webhookFrom", "[{ipBlock: {cidr: 10.0.0.0/8}}]", POLICY, "/spec/ingress/1/from", r#"[{"ipBlock":{"cidr":"10.0.0.0/8"}}]"#),
    Case("networkPolicy.egress", "[{ports: [{port: 6443}]}]", POLICY, "/spec/egress", r#"[{"ports":[{"port":6443}]}]"#),
    Case("virtOperator.enabled", "true", VIRT_OPERATOR, "container/args", r#"["virt-operator"]"#),
    Case("virtOperator.namespace", "virt", VIRT_OPERATOR, "/metadata/namespace", r#""virt""#),
    Case("virtOperator.createNamespace", "false", "Namespace kubevirt", "", "false"),
    Case("virtOperator.createPriorityClass", "false", "PriorityClass kubevirt-cluster-critical", "", "false"),
    Case("virtOperator.replicaCount", "1", VIRT_OPERATOR, "/spec/replicas", "1"),
    Case("virtOperator.image", "{tag: '7'}", VIRT_OPERATOR, "container/image", r#""ghcr.io/vitistack/kubevirt-operator:7""#),
    Case("virtOperator.kubevirt.registry", "r.example", VIRT_OPERATOR, "container env VIRT_OPERATOR_IMAGE", r#""r.example/virt-operator:v1.9.0""#),
    Case("virtOperator.kubevirt.version", "v1.8.4", VIRT_OPERATOR, "container env VIRT_OPERATOR_IMAGE", r#""quay.io/kubevirt/virt-operator:v1.8.4""#),
    Case("virtOperator.resources.limits.cpu", "'2'", VIRT_OPERATOR, "container/resources/limits/cpu", r#""2""#),
    Case("virtOperator.resources.limits.memory", "1Gi", VIRT_OPERATOR, "container/resources/limits/memory", r#""1Gi""#),
    Case("virtOperator.resources.requests.cpu", "'1'", VIRT_OPERATOR, "container/resources/requests/cpu", r#""1""#),
    Case("virtOperator.resources.requests.memory", "1Gi", VIRT_OPERATOR, "container/resources/requests/memory", r#""1Gi""#),
    Case("virtOperator.nodeSelector", "{disk: ssd}", VIRT_OPERATOR, "pod/nodeSelector", r#"{"disk":"ssd"}"#),
    Case("virtOperator.tolerations", "[]", VIRT_OPERATOR, "pod/tolerations", "null"),
    Case("virtOperator.affinity", "{podAntiAffinity: null}", VIRT_OPERATOR, "pod/affinity", "null"),
    Case("virtOperator.extraArgs", "[--strategy=/s/a.yaml]", VIRT_OPERATOR, "container/args/1", r#""--strategy=/s/a.yaml""#),
    Case("virtOperator.extraEnv", "[{name: A, value: b}]", VIRT_OPERATOR, "container env A", r#""b""#),
    Case("virtOperator.extraVolumes", "[{name: s, configMap: {name: s}}]", VIRT_OPERATOR, "pod/volumes/0/name", r#""s""#),
    Case("virtOperator.extraVolumeMounts", "[{name: s, mountPath: /s}]", VIRT_OPERATOR, "container/volumeMounts/0/mountPath", r#""/s""#),
];

/// Sets a value at a path.
pub fn set(values: &mut Value, path: &str, value: Value) {
    let (parents, last) = path.rsplit_once('.').unwrap_or(("", path));
    let mut at = values;
    for key in parents.split('.').filter(|key| !key.is_empty()) {
        at = &mut at[key];
        if at.is_null() {
            *at = Map::new().into();
        }
    }
    at[last] = value;
}

/// JSON at a location of an object.
fn value_at(objects: &Objects, object: &str, place: &str) -> Value {
    let (kind, name) = object.split_once(' ').unwrap();
    let found = objects.find(kind, name);
    if place.is_empty() {
        return found.is_some().into();
    }
    let found = found.unwrap_or_else(|| panic!("no {object} in {:?}", objects.keys()));
    let place = place.replacen("container", "pod/containers/0", 1).replacen(
        "pod",
        "/spec/template/spec",
        1,
    );
    if let Some((container, variable)) = place.split_once(" env ") {
        let env = found.pointer(container).unwrap()["env"].as_array().unwrap();
        let found: Vec<_> = env
            .iter()
            .filter(|entry| entry["name"] == variable)
            .collect();
        assert!(found.len() <= 1, "{variable} is there twice");
        return found
            .first()
            .map_or(Value::Null, |entry| entry["value"].clone());
    }
    found.pointer(&place).cloned().unwrap_or_default()
}

#[test]
fn every_value_has_a_test_case() {
    let all: BTreeSet<String> = rows().into_iter().map(|row| row.path).collect();
    let tried: BTreeSet<String> = CASES.iter().map(|case| case.0.to_owned()).collect();
    assert_eq!(all, tried);
    assert_eq!(CASES.len(), tried.len());
}

#[test]
#[ignore = "needs helm on PATH: .ci/run has it"]
fn every_value_has_its_documented_effect() {
    let helm = Helm::alone();
    let mut without = BTreeMap::new();
    for Case(path, value, object, place, expected) in CASES {
        let value: Value = serde_saphyr::from_str(value).unwrap();
        assert_ne!(
            at(&defaults(), path),
            Some(&value),
            "{path} is no other value"
        );
        let mut values = Value::Object(Map::new());
        for (begin, needed) in NEEDS {
            if path.starts_with(begin) && *path != needed {
                set(&mut values, needed, true.into());
            }
        }
        let before = without
            .entry(values.to_string())
            .or_insert_with(|| helm.template(&values))
            .clone();
        set(&mut values, path, value);
        let after = helm.template(&values);
        assert_ne!(before, after, "{path} changes nothing");
        let found = value_at(&after, object, place);
        let expected: Value = serde_json::from_str(expected).unwrap();
        assert_eq!(found, expected, "{path}: {object} {place}");
    }
}
