use std::collections::BTreeSet;

use serde_json::json;

use super::*;
use crate::object::{list, name, text};

fn config() -> Value {
    json!({
        "id": "abc",
        "namespace": "kubevirt",
        "registry": "registry.example/kubevirt",
        "kubeVirtVersion": "v1.9.0",
        "additionalProperties": {"ImagePullSecrets": "null"},
    })
}

fn objects(version: &str) -> Vec<Value> {
    synthetic_objects(version, &config()).unwrap()
}

fn names(version: &str) -> BTreeSet<String> {
    let objects = objects(version);
    let names = objects
        .iter()
        .map(|object| format!("{} {}", text(object, "/kind"), name(object)));
    names.collect()
}

fn find<'a>(objects: &'a [Value], kind: &str, of: &str) -> &'a Value {
    objects
        .iter()
        .find(|object| text(object, "/kind") == kind && name(object) == of)
        .unwrap()
}

#[test]
fn the_yaml_is_small_and_equals_the_objects() {
    let text = synthetic_strategy("v1.9.0", &config()).unwrap();
    assert!(text.len() < 150_000, "{} bytes", text.len());
    let read: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    assert_eq!(read, objects("v1.9.0"));
    // One for each document, and one within a text.
    assert!(text.split("\n---\n").count() >= read.len());
}

#[test]
fn only_releases_have_a_strategy() {
    for version in ["v1.9.0", "v1.8.4", "v1.10.2", "v1.9.0-rc.1"] {
        assert!(
            synthetic_strategy(version, &config()).is_some(),
            "{version}"
        );
    }
    for version in [
        "", "latest", "v2.0.0", "v1.9", "1.9.0", "v1.9.x", "v1.9.0.1",
    ] {
        assert!(
            synthetic_strategy(version, &config()).is_none(),
            "{version}"
        );
    }
}

#[test]
fn an_upgrade_adds_and_removes_objects() {
    let (old, new) = (names("v1.8.4"), names("v1.9.0"));
    let added: Vec<&str> = new.difference(&old).map(String::as_str).collect();
    let removed: Vec<&str> = old.difference(&new).map(String::as_str).collect();
    assert_eq!(
        added,
        [
            "ClusterRole kubevirt.io:plugins",
            "CustomResourceDefinition plugins.plugin.kubevirt.io",
            "Service kubevirt-plugins",
        ]
    );
    assert_eq!(
        removed,
        [
            "ClusterRole kubevirt.io:presets",
            "CustomResourceDefinition virtualmachineinstancepresets.kubevirt.io",
        ]
    );
    assert_eq!(names("v1.9.0"), names("v1.9.1"));
}

#[test]
fn defects_of_real_strategies_are_included() {
    let objects = objects("v1.9.0");
    for deployment in ["virt-api", "virt-exportproxy"] {
        let deployment = find(&objects, "Deployment", deployment);
        let ports = list(deployment, "/spec/template/spec/containers/0/ports");
        assert_eq!(
            ports
                .iter()
                .filter(|port| port["containerPort"] == 8443)
                .count(),
            2
        );
    }
    let bundles = objects
        .iter()
        .filter(|object| text(object, "/kind") == "ConfigMap");
    assert_eq!(bundles.count(), 8);
    for kind in [
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    ] {
        let object = objects
            .iter()
            .find(|object| text(object, "/kind") == kind)
            .unwrap();
        assert_eq!(text(object, "/apiVersion"), "v1");
    }
}

#[test]
fn the_configuration_sets_images_and_monitoring() {
    let mut config = config();
    config["imagePrefix"] = "custom-".into();
    config["virtHandlerImage"] = "elsewhere.example/handler@sha256:aa".into();
    config["passthroughEnvVars"] = json!({"HTTP_PROXY": "http://proxy.example"});
    let properties = &mut config["additionalProperties"];
    properties["ImagePullSecrets"] = r#"[{"name":"pull"}]"#.into();
    properties["MonitorNamespace"] = "monitoring".into();
    properties["MonitorAccount"] = "prometheus-k8s".into();
    let objects = synthetic_objects("v1.9.0", &config).unwrap();
    let api = find(&objects, "Deployment", "virt-api");
    let container = "/spec/template/spec/containers/0";
    assert_eq!(
        text(api, &format!("{container}/image")),
        "registry.example/kubevirt/custom-virt-api:v1.9.0"
    );
    assert_eq!(text(api, &format!("{container}/env/0/name")), "HTTP_PROXY");
    assert_eq!(
        text(api, "/spec/template/spec/imagePullSecrets/0/name"),
        "pull"
    );
    let handler = find(&objects, "DaemonSet", "virt-handler");
    assert_eq!(
        text(handler, &format!("{container}/image")),
        "elsewhere.example/handler@sha256:aa"
    );
    let monitor = find(&objects, "ServiceMonitor", "prometheus-kubevirt-rules");
    assert_eq!(text(monitor, "/metadata/namespace"), "monitoring");
    assert_eq!(text(monitor, "/apiVersion"), "monitoring.coreos.com");
    find(&objects, "PrometheusRule", "prometheus-kubevirt-rules");
    find(&objects, "RoleBinding", "kubevirt-monitoring");
    assert!(!names("v1.9.0").contains("PrometheusRule prometheus-kubevirt-rules"));
}
