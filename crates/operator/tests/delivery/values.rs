//! Values of the chart: their documentation in values.yaml and their validation.

use serde_json::{Value, json};

use crate::{helm::Helm, text};

const FILE: &str = "charts/kubevirt-operator/values.yaml";

#[derive(Debug)]
pub struct Row {
    /// Such as `image.tag`.
    pub path: String,
    /// As the README's table shows it.
    pub default: String,
    pub description: String,
}

pub fn defaults() -> Value {
    serde_saphyr::from_str(&text(FILE)).unwrap()
}

/// Values documented by a comment `# -- `, in the order of the file. A line `# @default -- ` describes
/// the default.
pub fn rows() -> Vec<Row> {
    let defaults = defaults();
    let (mut rows, mut keys) = (Vec::new(), Vec::new());
    let (mut description, mut documented_default) = (String::new(), None);
    for line in text(FILE).lines() {
        let trimmed = line.trim_start();
        if let Some(begun) = trimmed.strip_prefix("# -- ") {
            begun.clone_into(&mut description);
        } else if let Some(default) = trimmed.strip_prefix("# @default -- ") {
            documented_default = Some(default.to_owned());
        } else if let Some(more) = trimmed.strip_prefix("# ") {
            if !description.is_empty() {
                description = format!("{description} {more}");
            }
        } else if let Some((key, _)) = trimmed.split_once(':') {
            keys.truncate((line.len() - trimmed.len()) / 2);
            keys.push(key.to_owned());
            let description = std::mem::take(&mut description);
            let documented_default = documented_default.take();
            if !description.is_empty() {
                let path = keys.join(".");
                let value = at(&defaults, &path).unwrap_or_else(|| panic!("{path}"));
                rows.push(Row {
                    default: documented_default.unwrap_or_else(|| shown(value)),
                    path,
                    description,
                });
            }
        }
    }
    rows
}

pub fn at<'a>(values: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.')
        .try_fold(values, |value, key| value.get(key))
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) if !text.is_empty() => format!("`{text}`"),
        value => format!("`{value}`"),
    }
}

fn leaves(value: &Value, path: &str, found: &mut Vec<String>) {
    match value.as_object().filter(|fields| !fields.is_empty()) {
        Some(fields) => {
            for (key, value) in fields {
                leaves(value, &format!("{path}.{key}"), found);
            }
        }
        None => found.push(path.trim_start_matches('.').to_owned()),
    }
}

#[test]
fn every_value_is_documented() {
    let rows = rows();
    let mut all = Vec::new();
    leaves(&defaults(), "", &mut all);
    for leaf in all {
        let documented = rows
            .iter()
            .any(|row| leaf == row.path || leaf.starts_with(&format!("{}.", row.path)));
        assert!(
            documented,
            "{FILE}: {leaf} has no comment that begins with # --"
        );
    }
}

/// The reference's parameters have the documented defaults.
#[test]
fn the_parameters_of_the_reference_have_its_defaults() {
    let rows = rows();
    for (path, default) in [
        ("image.repository", "`ghcr.io/vitistack/kubevirt-operator`"),
        ("image.tag", "the chart's version"),
        ("image.pullPolicy", "`IfNotPresent`"),
        ("replicaCount", "`1`"),
        ("resources.limits.cpu", "`500m`"),
        ("resources.limits.memory", "`512Mi`"),
        ("resources.requests.cpu", "`100m`"),
        ("resources.requests.memory", "`256Mi`"),
        ("nodeSelector", "`{}`"),
        ("tolerations", "`[]`"),
        ("affinity", "`{}`"),
    ] {
        let row = rows.iter().find(|row| row.path == path);
        assert_eq!(row.map(|row| row.default.as_str()), Some(default), "{path}");
    }
}

/// Panics if the schema has other fields than values.yaml, or allows unknown ones.
fn compare(schema: &Value, value: &Value, path: &str) {
    let Some(properties) = schema["properties"].as_object() else {
        return;
    };
    assert_eq!(schema["additionalProperties"], false, "{path}");
    let Some(fields) = value.as_object().filter(|fields| !fields.is_empty()) else {
        // Replaced as a whole, such as `virtOperator.image`.
        return;
    };
    for key in fields.keys() {
        assert!(
            properties.contains_key(key),
            "not in the schema: {path}.{key}"
        );
    }
    for (key, schema) in properties {
        match fields.get(key) {
            Some(value) => compare(schema, value, &format!("{path}.{key}")),
            // Helm's own values, values of parent charts, and a Kubernetes field without a default.
            None => assert!(
                ["global", "enabled", "claims"].contains(&key.as_str()),
                "{path}.{key}"
            ),
        }
    }
}

#[test]
fn the_schema_has_the_values_and_no_others() {
    let schema = text("charts/kubevirt-operator/values.schema.json");
    let schema: Value = serde_json::from_str(&schema).unwrap();
    compare(&schema, &defaults(), "");
}

#[test]
#[ignore = "needs helm on PATH: .ci/run has it"]
fn invalid_values_are_refused() {
    let helm = Helm::alone();
    for (values, expected) in [
        (json!({ "replicas": 2 }), "replicas"),
        (json!({ "image": { "tagg": "1" } }), "tagg"),
        (json!({ "image": { "digest": "sha256:1" } }), "image.digest"),
        (json!({ "logLevel": "verbose" }), "logLevel"),
        (json!({ "replicaCount": "two" }), "replicaCount"),
        (
            json!({ "webhook": { "failurePolicy": "Maybe" } }),
            "failurePolicy",
        ),
        (
            json!({ "webhook": { "timeoutSeconds": 31 } }),
            "timeoutSeconds",
        ),
        (
            json!({ "watchNamespaces": ["Team A"] }),
            "watchNamespaces.0",
        ),
        (json!({ "fullnameOverride": "A_B" }), "fullnameOverride"),
        // Older servers refuse a Service name that starts with a digit.
        (json!({ "fullnameOverride": "7a" }), "fullnameOverride"),
        (json!({ "reconcileInterval": "often" }), "reconcileInterval"),
        (json!({ "logLevel": null }), "logLevel is required"),
        (json!({ "crds": null }), "crds is required"),
        (
            json!({ "metrics": { "port": 8081 } }),
            "metrics.port: 8081 is the port of the probes",
        ),
        (
            json!({ "metrics": { "port": 9443 } }),
            "webhook.port: 9443 is the port of the metrics",
        ),
        (
            json!({ "metrics": { "enabled": false }, "prometheusRule": { "enabled": true } }),
            "without metrics.enabled",
        ),
        (
            json!({ "metrics": { "enabled": false, "serviceMonitor": { "enabled": true } } }),
            "metrics.serviceMonitor.enabled: without metrics.enabled",
        ),
        (
            json!({ "virtOperator": { "kubevirt": { "version": "1.9.0" } } }),
            "begin with a v: v1.9.0",
        ),
        (
            json!({ "virtOperator": { "kubevirt": { "version": "v1.9.0 " } } }),
            "virtOperator.kubevirt.version",
        ),
        (
            json!({ "virtOperator": { "kubevirt": { "version": "sha256:0123" } } }),
            "virtOperator.kubevirt.version",
        ),
        (
            json!({ "virtOperator": { "enabled": true, "namespace": "default" } }),
            "must not be the namespace of the release",
        ),
        (
            json!({ "replicaCount": 2, "leaderElection": false }),
            "more than one replica needs leaderElection",
        ),
    ] {
        let file = helm.file(&values);
        let refusal = helm.fails(&format!("template any-name CHART --values {file}"));
        assert!(refusal.contains(expected), "{values}: {refusal}");
    }
}

/// Unusual values that are valid here.
#[test]
#[ignore = "needs helm on PATH: .ci/run has it"]
fn valid_values_are_accepted() {
    let helm = Helm::alone();
    let monitored = helm.template(&json!({
        "metrics": { "enabled": false, "serviceMonitor": { "enabled": true } },
        "virtOperator": { "enabled": true },
    }));
    assert!(monitored.find("PodMonitor", "virt-operator").is_some());
    assert!(
        monitored
            .find("ServiceMonitor", "kubevirt-operator")
            .is_none()
    );
    // A custom build of KubeVirt may have any tag.
    let built = json!({ "registry": "r.example/kv", "version": "1.9.0-7" });
    helm.template(&json!({ "virtOperator": { "enabled": true, "kubevirt": built } }));
    // A nightly build.
    helm.template(&json!({ "virtOperator": { "kubevirt": { "version": "20260101_1a2b3c4" } } }));
}
