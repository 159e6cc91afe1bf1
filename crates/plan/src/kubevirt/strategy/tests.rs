//! Tests of install strategies.

use std::collections::BTreeMap;

use proptest::{prelude::*, strategy::Strategy as _};
use rstest::rstest;
use serde_json::{Value, json};

use super::{GZIP_BASE64, MANIFESTS, Strategy, StrategyError, decode, encode};
use crate::kubevirt::Id;
use api::kubevirt::install::STRATEGY_ENCODING;

fn parsed(documents: &[Value]) -> Strategy {
    let documents: Vec<_> = documents.iter().map(Value::to_string).collect();
    Strategy::parse(&documents.join("\n---\n")).unwrap()
}

fn config_map() -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "kubevirt"}})
}

#[test]
fn objects_keep_their_order_and_every_field() {
    let documents = [
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "virt-api", "namespace": "kubevirt"}, "spec": {"replicas": 2}}),
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "virt-api"}, "spec": {"ports": [{"port": 443}], "selector": {}}}),
    ];
    let strategy = parsed(&documents);
    assert!(strategy.repairs.is_empty(), "{:?}", strategy.repairs);
    let values: Vec<Value> = strategy.objects.iter().map(super::Object::value).collect();
    assert_eq!(values, documents);
    assert_eq!(
        strategy.objects[0].id,
        Id::new("apps", "Deployment", "kubevirt", "virt-api")
    );
    assert_eq!(&*strategy.objects[0].version, "v1");
}

#[test]
fn null_fields_are_removed() {
    let mut service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "virt-api"}, "spec": {"ports": [], "selector": null}});
    let strategy = parsed(&[service.clone()]);
    let note = "Service virt-api: /spec/selector and all other null fields removed";
    assert_eq!(strategy.repairs, [note]);
    service["spec"].as_object_mut().unwrap().remove("selector");
    assert_eq!(strategy.objects[0].value(), service);
}

#[test]
fn unknown_kinds_are_kept() {
    let strategy = parsed(&[
        json!({"apiVersion": "later.kubevirt.io/v2alpha1", "kind": "Novelty", "metadata": {"name": "x"}, "data": [1]}),
    ]);
    assert_eq!(
        strategy.objects[0].id,
        Id::new("later.kubevirt.io", "Novelty", "", "x")
    );
    assert_eq!(
        strategy.objects[0].api_version(),
        "later.kubevirt.io/v2alpha1"
    );
    assert!(strategy.repairs.is_empty());
}

#[rstest]
#[case("ServiceMonitor", "monitoring.coreos.com", "monitoring.coreos.com/v1")]
#[case("ValidatingAdmissionPolicy", "v1", "admissionregistration.k8s.io/v1")]
#[case(
    "ValidatingAdmissionPolicyBinding",
    "v1",
    "admissionregistration.k8s.io/v1"
)]
fn a_wrong_api_version_is_repaired(#[case] kind: &str, #[case] found: &str, #[case] right: &str) {
    let strategy = parsed(&[json!({"apiVersion": found, "kind": kind, "metadata": {"name": "x"}})]);
    assert_eq!(strategy.objects[0].api_version(), right);
    assert_eq!(strategy.objects[0].value()["apiVersion"], right);
    assert_eq!(
        strategy.repairs,
        [format!("{kind} x: apiVersion {found} replaced by {right}")]
    );
}

#[rstest]
#[case("Deployment", "apps/v1beta2")]
#[case("Service", "v1")]
#[case("Service", "serving.knative.dev/v1")]
#[case("Route", "serving.knative.dev/v1")]
fn a_plausible_api_version_is_kept(#[case] kind: &str, #[case] found: &str) {
    let strategy = parsed(&[json!({"apiVersion": found, "kind": kind, "metadata": {"name": "x"}})]);
    assert_eq!(strategy.objects[0].api_version(), found);
    assert!(strategy.repairs.is_empty());
}

#[test]
fn duplicate_documents_are_one_object() {
    let strategy = parsed(&[config_map(), config_map()]);
    assert_eq!(strategy.objects.len(), 1);
    assert_eq!(
        strategy.repairs,
        ["ConfigMap kubevirt/a: duplicate removed"]
    );
}

#[test]
fn the_last_of_two_different_documents_replaces_the_first() {
    let mut other = config_map();
    other["data"] = json!({"x": "y"});
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}});
    let strategy = parsed(&[config_map(), service, other.clone()]);
    assert_eq!(strategy.objects.len(), 2);
    assert_eq!(strategy.objects[0].value(), other);
    assert_eq!(
        strategy.repairs,
        ["ConfigMap kubevirt/a: duplicate removed, the last one kept"]
    );
}

#[test]
fn one_name_in_two_namespaces_is_two_objects() {
    let mut other = config_map();
    other["metadata"]["namespace"] = json!("kube-system");
    assert_eq!(parsed(&[config_map(), other]).objects.len(), 2);
}

#[rstest]
#[case::metrics_is_kept(
    json!([{"containerPort": 8443, "name": "virt-api", "protocol": "TCP"}, {"containerPort": 8443, "name": "metrics", "protocol": "TCP"}]),
    json!([{"containerPort": 8443, "name": "metrics", "protocol": "TCP"}])
)]
#[case::whichever_is_first(
    json!([{"containerPort": 8443, "name": "metrics"}, {"containerPort": 9, "name": "x"}, {"containerPort": 8443, "name": "api", "protocol": "TCP"}]),
    json!([{"containerPort": 8443, "name": "metrics"}, {"containerPort": 9, "name": "x"}])
)]
#[case::else_the_first(
    json!([{"containerPort": 1, "name": "a"}, {"containerPort": 1, "name": "b"}]),
    json!([{"containerPort": 1, "name": "a"}])
)]
fn duplicate_ports_are_merged(#[case] ports: Value, #[case] expected: Value) {
    let deployment = |ports: Value| {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "virt-api"},
        "spec": {"replicas": 2, "template": {"spec": {"containers": [{"name": "virt-api", "ports": ports}]}}}})
    };
    let strategy = parsed(&[deployment(ports)]);
    assert_eq!(strategy.objects[0].value(), deployment(expected));
    assert_eq!(strategy.repairs.len(), 1);
    assert!(strategy.repairs[0].contains("duplicate port"));
}

#[test]
fn ports_of_two_protocols_are_two_ports() {
    let strategy = parsed(&[
        json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "x"},
        "spec": {"template": {"spec": {"containers": [{"ports": [
            {"containerPort": 53, "protocol": "TCP"}, {"containerPort": 53, "protocol": "UDP"}]}]}}}}),
    ]);
    assert!(strategy.repairs.is_empty());
}

#[test]
fn empty_fields_of_go_types_are_removed() {
    let strategy = parsed(&[json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "x", "creationTimestamp": null},
            "spec": {"template": {"metadata": {"creationTimestamp": null, "labels": {"a": "b"}}}},
            "status": {"replicas": 0}})]);
    assert_eq!(
        strategy.objects[0].value(),
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x"},
            "spec": {"template": {"metadata": {"labels": {"a": "b"}}}}})
    );
    assert_eq!(strategy.repairs.len(), 2);
}

#[rstest]
#[case("", "has no objects")]
#[case("---\n# nothing\n", "has no objects")]
#[case("[1]", "line 1: the document is not a Kubernetes object")]
#[case("x", "line 1: the document is not a Kubernetes object")]
#[case("a: 1", "line 1: the document has no kind")]
#[case("kind: A\n---\n", "line 1: the document has no apiVersion")]
#[case("kind: 1\napiVersion: v1", "line 1: the document has no kind")]
#[case(
    "kind: A\napiVersion: v1\nmetadata: 3",
    "line 1: the document has no metadata.name"
)]
#[case(
    "kind: A\napiVersion: v1\nmetadata: {name: a}\n---\nkind: B\napiVersion: v1",
    "line 4: the document has no metadata.name"
)]
#[case("a: 1\na: 2", "line 2: a mapping has a duplicate key")]
fn an_invalid_strategy_is_refused_with_its_line(#[case] text: &str, #[case] message: &str) {
    assert_eq!(Strategy::parse(text).unwrap_err().to_string(), message);
}

fn map(key: &str, value: &str) -> BTreeMap<String, String> {
    BTreeMap::from([(key.to_owned(), value.to_owned())])
}

#[test]
fn compressed_text_round_trips() {
    let text = "---\na: \"ä\"\n".repeat(1000);
    let packed = encode(&text);
    assert!(packed.len() < text.len() / 10);
    assert_eq!(packed, encode(&text));
    let annotations = map(STRATEGY_ENCODING, GZIP_BASE64);
    assert_eq!(
        decode(&map(MANIFESTS, &packed), &annotations).unwrap(),
        text
    );
}

#[test]
fn plain_text_is_not_decoded() {
    assert_eq!(
        decode(&map(MANIFESTS, "a: 1"), &BTreeMap::new()).unwrap(),
        "a: 1"
    );
}

#[rstest]
#[case::no_text("other", "", None, "data has no key manifests")]
#[case::other_packing(
    MANIFESTS,
    "",
    Some("zstd"),
    "annotation kubevirt.io/install-strategy-cm-encoding is \"zstd\""
)]
#[case::not_base64(
    MANIFESTS,
    "%%",
    Some(GZIP_BASE64),
    "data.manifests is not gzip+base64"
)]
#[case::not_gzip(
    MANIFESTS,
    "aGVsbG8=",
    Some(GZIP_BASE64),
    "data.manifests is not gzip+base64"
)]
#[case::empty(MANIFESTS, "", Some(GZIP_BASE64), "data.manifests is not gzip+base64")]
fn a_text_that_cannot_be_decompressed_is_an_error_with_a_remedy(
    #[case] key: &str,
    #[case] text: &str,
    #[case] encoding: Option<&str>,
    #[case] message: &str,
) {
    let annotations = encoding.map(|encoding| map(STRATEGY_ENCODING, encoding));
    let error = decode(&map(key, text), &annotations.unwrap_or_default()).unwrap_err();
    assert!(error.to_string().starts_with(message), "{error}");
}

#[test]
fn a_text_that_was_cut_is_refused() {
    let packed = encode(&"a: 1\n".repeat(1000));
    let cut = &packed[..packed.len() / 8 * 4];
    let annotations = map(STRATEGY_ENCODING, GZIP_BASE64);
    assert!(matches!(
        decode(&map(MANIFESTS, cut), &annotations),
        Err(StrategyError::Unpack(_))
    ));
}

proptest! {
    #[test]
    fn any_data_is_decoded_or_refused(text in any::<String>(), packed in any::<bool>()) {
        let annotations = map(STRATEGY_ENCODING, GZIP_BASE64);
        let _ = decode(&map(MANIFESTS, &text), &if packed { annotations } else { BTreeMap::new() });
    }

    #[test]
    fn any_object_is_parsed_or_refused(spec in json_tree(), kind in "[A-Z][a-z]{0,8}|Deployment|DaemonSet") {
        let text = json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "x"}, "spec": {"template": spec}});
        let strategy = Strategy::parse(&text.to_string()).unwrap();
        prop_assert_eq!(strategy.objects.len(), 1);
    }
}

fn json_tree() -> impl proptest::strategy::Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[ -~]{0,5}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 30, 4, |inner| {
        let key = prop_oneof![
            Just("spec".to_owned()),
            Just("metadata".to_owned()),
            Just("containers".to_owned()),
            Just("ports".to_owned()),
            Just("creationTimestamp".to_owned()),
            "[ -~]{0,3}",
        ];
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(key, inner, 0..4)
                .prop_map(|fields| Value::from(serde_json::Map::from_iter(fields))),
        ]
    })
}
