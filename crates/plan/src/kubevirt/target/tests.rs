//! Tests of targets.

use std::collections::BTreeMap;

use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::{Operator, Target, TargetError, image, target};
use crate::kubevirt::observed::Served;
use api::kubevirt::install::KubeVirt;

const IMAGE: &str = "registry.example/kubevirt/virt-operator:v1.9.0";

fn operator(image: &str) -> Operator {
    Operator {
        namespace: "kubevirt".into(),
        image: Some(image.into()).filter(|image: &String| !image.is_empty()),
        ..Operator::default()
    }
}

fn kubevirt(spec: &Value) -> KubeVirt {
    serde_json::from_value(json!({"apiVersion": "kubevirt.io/v1", "kind": "KubeVirt",
        "metadata": {"name": "kubevirt", "namespace": "kubevirt"}, "spec": spec}))
    .unwrap()
}

fn wanted(spec: &Value) -> Target {
    target(&kubevirt(spec), &operator(IMAGE), &Served::default()).unwrap()
}

fn config(target: &Target) -> Value {
    serde_json::from_str(&target.config).unwrap()
}

#[rstest]
#[case("registry.example/kubevirt/virt-operator:v1.9.0", Some(("registry.example/kubevirt", "", Some("v1.9.0"), None)))]
#[case("localhost:5000/virt-operator", Some(("localhost:5000", "", None, None)))]
#[case("localhost:5000/a/b/my-virt-operator:v1", Some(("localhost:5000/a/b", "my-", Some("v1"), None)))]
#[case("r/virt-operator@sha256:abc", Some(("r", "", None, Some("sha256:abc"))))]
#[case("r/virt-operator:v1@sha256:abc", Some(("r", "", Some("v1"), Some("sha256:abc"))))]
#[case("r/virt-operator:", Some(("r", "", None, None)))]
#[case("virt-operator:v1", None)]
#[case("blablabla", None)]
#[case("r/virt-operator-extra:v1", None)]
#[case("r/something:virt-operator", None)]
fn parses_the_parts_of_an_image(
    #[case] name: &str,
    #[case] expected: Option<(&str, &str, Option<&str>, Option<&str>)>,
) {
    let found =
        image::parse(name).map(|image| (image.registry, image.prefix, image.tag, image.digest));
    assert_eq!(found, expected);
}

#[rstest]
#[case::follows_the_operator(json!({}), IMAGE, None, "v1.9.0", "registry.example/kubevirt", IMAGE)]
#[case::both_given(json!({"imageTag": "v1.6.2", "imageRegistry": "other.example/kv"}), IMAGE, None,
    "v1.6.2", "other.example/kv", "other.example/kv/virt-operator:v1.6.2")]
#[case::tag_given(json!({"imageTag": "v1.6.2"}), IMAGE, None,
    "v1.6.2", "registry.example/kubevirt", "registry.example/kubevirt/virt-operator:v1.6.2")]
#[case::registry_given(json!({"imageRegistry": "other.example"}), "r/virt-operator", None,
    "latest", "other.example", "other.example/virt-operator:latest")]
#[case::empty_is_absent(json!({"imageTag": "", "imageRegistry": ""}), IMAGE, None,
    "v1.9.0", "registry.example/kubevirt", IMAGE)]
#[case::the_tag_wins_over_the_variable(json!({}), "acme.example/my-virt-operator:v3.0.0", Some("v3.0.0-env"),
    "v3.0.0", "acme.example", "acme.example/my-virt-operator:v3.0.0")]
#[case::the_variable_names_a_digest(json!({}), "acme.example/virt-operator@sha256:abc", Some("v3.0.0"),
    "v3.0.0", "acme.example", "acme.example/virt-operator@sha256:abc")]
#[case::nothing_names_a_digest(json!({}), "acme.example/virt-operator@sha256:abc", None,
    "latest", "acme.example", "acme.example/virt-operator@sha256:abc")]
#[case::no_tag_is_latest(json!({}), "r/virt-operator", Some("v3.0.0"), "latest", "r", "r/virt-operator")]
#[case::a_prefix_stays(json!({"imageTag": "v1"}), "r/my-virt-operator:v0", None,
    "v1", "r", "r/my-virt-operator:v1")]
#[case::an_image_that_says_nothing(json!({"imageRegistry": "r"}), "blablabla", Some("v3.0.0"),
    "v3.0.0", "r", "r/virt-operator:v3.0.0")]
#[case::no_image(json!({"imageTag": "v1", "imageRegistry": "r"}), "", None, "v1", "r", "r/virt-operator:v1")]
fn the_spec_takes_precedence_over_the_operators_settings(
    #[case] spec: Value,
    #[case] image: &str,
    #[case] variable: Option<&str>,
    #[case] version: &str,
    #[case] registry: &str,
    #[case] expected: &str,
) {
    let operator = Operator {
        kubevirt_version: variable.map(str::to_owned),
        ..operator(image)
    };
    let target = target(&kubevirt(&spec), &operator, &Served::default()).unwrap();
    assert_eq!(target.version, version);
    assert_eq!(target.registry, registry);
    assert_eq!(target.image, expected);
    assert_eq!(config(&target)["kubeVirtVersion"], version);
    assert_eq!(config(&target)["registry"], registry);
    assert_eq!(config(&target)["virtOperatorImage"], expected);
}

#[rstest]
#[case(json!({}), "", TargetError::NoVersion)]
#[case(json!({"imageTag": "v1"}), "", TargetError::NoRegistry)]
#[case(json!({"imageTag": "v1"}), "blablabla", TargetError::NoRegistry)]
#[case(json!({"imageTag": "sha256:0123"}), IMAGE, TargetError::Digest)]
#[case(json!({"imageTag": "@sha256:0123"}), IMAGE, TargetError::Digest)]
#[case(json!({"imageTag": "v1 "}), IMAGE, TargetError::Tag("v1 ".into()))]
#[case(json!({"imageTag": "-v1"}), IMAGE, TargetError::Tag("-v1".into()))]
#[case(json!({"imageTag": "v1", "imageRegistry": "https://r.example"}), IMAGE, TargetError::Registry("https://r.example".into()))]
#[case(json!({"imageTag": "v1", "imageRegistry": "r.example/"}), IMAGE, TargetError::Registry("r.example/".into()))]
fn a_missing_or_invalid_version_or_registry_is_refused(
    #[case] spec: Value,
    #[case] image: &str,
    #[case] expected: TargetError,
) {
    let error = target(&kubevirt(&spec), &operator(image), &Served::default()).unwrap_err();
    assert_eq!(error, expected);
    assert!(error.to_string().contains("spec.image"), "{error}");
}

#[test]
fn component_images_apply_only_to_the_operators_release() {
    let operator = Operator {
        images: BTreeMap::from([
            ("VIRT_API_IMAGE".into(), "r/virt-api@sha256:1".into()),
            ("GS_IMAGE".into(), "r/gs@sha256:2".into()),
            ("VIRT_HANDLER_IMAGE".into(), String::new()),
            ("NO_SUCH_IMAGE".into(), "r/x".into()),
        ]),
        ..operator(IMAGE)
    };
    let served = Served::default();
    let follows = target(&kubevirt(&json!({})), &operator, &served).unwrap();
    assert_eq!(config(&follows)["virtApiImage"], "r/virt-api@sha256:1");
    assert_eq!(config(&follows)["GsImage"], "r/gs@sha256:2");
    assert_eq!(config(&follows)["virtHandlerImage"], Value::Null);
    let given = target(
        &kubevirt(&json!({"imageTag": "v1.9.0"})),
        &operator,
        &served,
    )
    .unwrap();
    assert_eq!(config(&given)["virtApiImage"], Value::Null);
    assert_ne!(given.id, follows.id);
}

#[test]
fn the_id_is_stable() {
    let target = wanted(&json!({}));
    assert_eq!(target.id.len(), 40);
    assert_eq!(config(&target)["id"], *target.id);
    // The ID is an annotation of running pods: a change would replace all of them.
    assert_eq!(target.id, "3d05f45a63659864b009c6427fc28f135c38430a");
}

#[rstest]
#[case::tag(json!({"imageTag": "v1.8.4"}))]
#[case::registry(json!({"imageRegistry": "other.example"}))]
#[case::pull_policy(json!({"imagePullPolicy": "Always"}))]
#[case::pull_secrets(json!({"imagePullSecrets": [{"name": "s"}]}))]
#[case::monitor_namespace(json!({"monitorNamespace": "m"}))]
#[case::monitor_account(json!({"monitorAccount": "m"}))]
#[case::service_monitor_namespace(json!({"serviceMonitorNamespace": "m"}))]
#[case::synchronization_port(json!({"synchronizationPort": 9999}))]
#[case::migration_network(json!({"configuration": {"migrations": {"network": "net"}}}))]
#[case::reservation(json!({"configuration": {"persistentReservationConfiguration": {"enabled": true}}}))]
#[case::reservation_gate(json!({"configuration": {"developerConfiguration": {"featureGates": ["PersistentReservation"]}}}))]
#[case::template_off(json!({"configuration": {"virtTemplateDeployment": {"enabled": false}}}))]
#[case::template_gate_off(json!({"configuration": {"developerConfiguration": {"disabledFeatureGates": ["Template"]}}}))]
#[case::injection_off(json!({"configuration": {"developerConfiguration": {"disabledFeatureGates": ["ExternalNetResourceInjection"]}}}))]
#[case::manual_aggregation(json!({"configuration": {"roleAggregationStrategy": "Manual"}}))]
#[case::stats_collector(json!({"configuration": {"developerConfiguration": {"featureGates": ["VMStatsCollector"]}}}))]
#[case::plugins(json!({"configuration": {"developerConfiguration": {"featureGates": ["Plugins"]}}}))]
#[case::hypervisor(json!({"configuration": {"hypervisors": [{"name": "hyperv-direct"}], "developerConfiguration": {"featureGates": ["ConfigurableHypervisor"]}}}))]
fn settings_of_the_strategy_change_the_id(#[case] spec: Value) {
    assert_ne!(wanted(&spec).id, wanted(&json!({})).id);
}

#[rstest]
#[case::default_policy(json!({"imagePullPolicy": "IfNotPresent"}))]
#[case::no_secrets(json!({"imagePullSecrets": []}))]
#[case::infra(json!({"infra": {"replicas": 3, "nodePlacement": {"nodeSelector": {"a": "b"}}}}))]
#[case::workloads(json!({"workloads": {"nodePlacement": {}}}))]
#[case::product(json!({"productName": "p", "productVersion": "1", "productComponent": "c"}))]
#[case::customized(json!({"customizeComponents": {"flags": {"api": {"v": "5"}}}}))]
#[case::uninstall(json!({"uninstallStrategy": "BlockUninstallIfWorkloadsExist"}))]
#[case::certificates(json!({"certificateRotateStrategy": {"selfSigned": {"ca": {"duration": "48h"}}}}))]
#[case::other_configuration(json!({"configuration": {"migrations": {"bandwidthPerMigration": "64Mi"}, "developerConfiguration": {"featureGates": ["HostDisk"], "useEmulation": true}}}))]
#[case::reservation_off(json!({"configuration": {"persistentReservationConfiguration": {"enabled": false}, "developerConfiguration": {"featureGates": ["PersistentReservation"]}}}))]
#[case::the_default_hypervisor(json!({"configuration": {"hypervisors": [{"name": "kvm"}], "developerConfiguration": {"featureGates": ["ConfigurableHypervisor"]}}}))]
#[case::a_hypervisor_without_its_gate(json!({"configuration": {"hypervisors": [{"name": "hyperv-direct"}]}}))]
#[case::a_gate_that_is_on_anyway(json!({"configuration": {"developerConfiguration": {"featureGates": ["Template"]}}}))]
#[case::a_later_field(json!({"novelty": {"a": 1}}))]
fn other_settings_do_not_change_the_id(#[case] spec: Value) {
    assert_eq!(wanted(&spec).id, wanted(&json!({})).id);
}

#[test]
fn feature_gates_are_those_of_the_requested_release() {
    let properties =
        |tag: &str| config(&wanted(&json!({"imageTag": tag})))["additionalProperties"].clone();
    assert_eq!(
        properties("v1.9.0"),
        json!({"ExternalNetResourceInjection": "", "VirtTemplateDeploymentEnabled": ""})
    );
    assert_eq!(properties("v1.8.4"), Value::Null);
}

#[test]
fn the_configuration_has_the_fields_of_a_release() {
    let operator = Operator {
        passthrough: BTreeMap::from([("HTTP_PROXY".into(), "http://proxy.example?a=b".into())]),
        ..operator("registry.example/my-virt-operator:v1.8.4")
    };
    let kubevirt = kubevirt(&json!({
        "imagePullPolicy": "Always", "imagePullSecrets": [{"name": "pull"}], "synchronizationPort": "9999",
        "configuration": {"migrations": {"network": "net"}},
    }));
    let target = target(&kubevirt, &operator, &Served::default()).unwrap();
    assert_eq!(
        config(&target),
        json!({
            "id": target.id, "namespace": "kubevirt", "registry": "registry.example", "imagePrefix": "my-",
            "kubeVirtVersion": "v1.8.4", "virtOperatorImage": "registry.example/my-virt-operator:v1.8.4",
            "additionalProperties": {
                "ImagePullPolicy": "Always", "ImagePullSecrets": "[{\"name\":\"pull\"}]",
                "MigrationNetwork": "net", "SynchronizationPort": "9999",
            },
            "passthroughEnvVars": {"HTTP_PROXY": "http://proxy.example?a=b"},
        })
    );
}

#[rstest]
#[case::nowhere(json!({}), &[], None)]
#[case::the_default(json!({}), &["monitoring/prometheus-k8s"], Some(("monitoring", "prometheus-k8s")))]
#[case::openshift_first(json!({}), &["monitoring/prometheus-k8s", "openshift-monitoring/prometheus-k8s"], Some(("openshift-monitoring", "prometheus-k8s")))]
#[case::another_account(json!({"monitorAccount": "p"}), &["monitoring/prometheus-k8s", "openshift-monitoring/x", "monitoring/p"], Some(("monitoring", "p")))]
#[case::another_namespace(json!({"monitorNamespace": "m"}), &["monitoring/prometheus-k8s", "m/prometheus-k8s"], Some(("m", "prometheus-k8s")))]
#[case::not_in_the_named_one(json!({"monitorNamespace": "m"}), &["monitoring/prometheus-k8s"], None)]
fn prometheus_is_found_by_its_service_account(
    #[case] spec: Value,
    #[case] monitors: &[&str],
    #[case] expected: Option<(&str, &str)>,
) {
    let served = Served {
        monitors: monitors
            .iter()
            .map(|monitor| (*monitor).to_owned())
            .collect(),
        ..Served::default()
    };
    let target = target(&kubevirt(&spec), &operator(IMAGE), &served).unwrap();
    let found = target.monitor.as_ref();
    assert_eq!(
        found.map(|(namespace, account)| (&**namespace, &**account)),
        expected
    );
    if let Some((namespace, _)) = expected {
        assert_eq!(
            config(&target)["additionalProperties"]["MonitorNamespace"],
            namespace
        );
    }
}

#[test]
fn a_new_prometheus_changes_the_target() {
    let served = Served {
        monitors: ["monitoring/prometheus-k8s".to_owned()].into(),
        ..Served::default()
    };
    let with = target(&kubevirt(&json!({})), &operator(IMAGE), &served).unwrap();
    assert_ne!(with.id, wanted(&json!({})).id);
}

proptest! {
    #[test]
    fn any_names_are_accepted_or_refused(tag in any::<String>(), registry in any::<String>(), image in any::<String>()) {
        let kubevirt = kubevirt(&json!({"imageTag": tag, "imageRegistry": registry}));
        if let Ok(target) = target(&kubevirt, &operator(&image), &Served::default()) {
            prop_assert!(serde_json::from_str::<Value>(&target.config).is_ok());
        }
    }
}
