//! Install strategies of KubeVirt releases.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[path = "releases/lib.rs"]
mod releases;

use std::collections::{BTreeMap, BTreeSet};

use plan::kubevirt::{
    Strategy,
    strategy::{GZIP_BASE64, MANIFESTS, decode, encode},
};
use releases::Source;
use rstest::rstest;
use serde_json::Value;

#[rstest]
#[case::fixtures(Source::Fixtures)]
#[ignore = "needs KUBEVIRT_OPERATOR_DATA"]
#[case::real_data(Source::RealData)]
fn every_object_of_a_release_is_found_once(
    #[case] source: Source,
    #[values("v1.7.4", "v1.8.4", "v1.9.0")] release: &str,
    #[values("default", "monitoring", "allgates")] variant: &str,
) {
    let strategy = Strategy::parse(&source.strategy(release, variant)).unwrap();
    let inventory = source.inventory(release, variant);

    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for object in &strategy.objects {
        assert_eq!(
            inventory.api_versions[&*object.id.kind],
            object.api_version()
        );
        let namespace = Some(&*object.id.namespace).filter(|namespace| !namespace.is_empty());
        let name = namespace.map_or_else(
            || object.id.name.to_string(),
            |namespace| format!("{namespace}/{}", object.id.name),
        );
        assert!(
            found
                .entry(object.id.kind.to_string())
                .or_default()
                .insert(name)
        );
    }
    assert_eq!(found, inventory.names);
    assert_eq!(
        strategy.objects.len() + inventory.duplicates,
        inventory.documents
    );
}

#[rstest]
#[case::fixtures(Source::Fixtures)]
#[ignore = "needs KUBEVIRT_OPERATOR_DATA"]
#[case::real_data(Source::RealData)]
fn parsing_loses_nothing_but_repaired_fields(
    #[case] source: Source,
    #[values("v1.7.4", "v1.8.4", "v1.9.0")] release: &str,
) {
    let text = source.strategy(release, "allgates");
    let strategy = Strategy::parse(&text).unwrap();
    let mut documents: BTreeMap<(String, String, String), Value> = BTreeMap::new();
    // None of the releases has a line of three dashes in a string.
    for document in text.split("\n---\n") {
        let document: Value = serde_saphyr::from_str(document).unwrap();
        let field = |pointer: &str| {
            let field = document.pointer(pointer).and_then(Value::as_str);
            field.unwrap_or_default().to_owned()
        };
        let key = (
            field("/kind"),
            field("/metadata/namespace"),
            field("/metadata/name"),
        );
        documents.insert(key, document);
    }
    for object in &strategy.objects {
        let key = (
            object.id.kind.to_string(),
            object.id.namespace.to_string(),
            object.id.name.to_string(),
        );
        let mut document = documents.remove(&key).unwrap();
        let value = object.value();
        let fields = document.as_object_mut().unwrap();
        fields.remove("status");
        fields.insert("apiVersion".into(), object.api_version().into());
        if let Some(metadata) = fields.get_mut("metadata").and_then(Value::as_object_mut)
            && metadata
                .get("creationTimestamp")
                .is_some_and(Value::is_null)
        {
            metadata.remove("creationTimestamp");
        }
        if &*object.id.kind != "SecurityContextConstraints" {
            plan::null::remove(&mut document);
        }
        let ports = "/spec/template/spec/containers/0/ports";
        if let Some(merged) = value.pointer(ports).cloned()
            && let Some(ports) = document.pointer_mut(ports)
        {
            assert!(
                merged
                    .as_array()
                    .unwrap()
                    .iter()
                    .all(|port| ports.as_array().unwrap().contains(port))
            );
            *ports = merged;
        }
        assert!(value == document, "{} is not what it was", object.id);
    }
    assert!(documents.is_empty(), "{:?}", documents.keys());
}

#[rstest]
#[case::fixtures(Source::Fixtures)]
#[ignore = "needs KUBEVIRT_OPERATOR_DATA"]
#[case::real_data(Source::RealData)]
fn ports_are_merged_into_the_one_of_metrics(
    #[case] source: Source,
    #[values("v1.7.4", "v1.8.4", "v1.9.0")] release: &str,
) {
    let strategy = Strategy::parse(&source.strategy(release, "allgates")).unwrap();
    let repairs: Vec<_> = strategy
        .repairs
        .iter()
        .filter(|note| note.contains("of a container"))
        .collect();
    assert_eq!(
        repairs,
        [
            "Deployment kubevirt/virt-api: duplicate port 8443/TCP of a container removed",
            "Deployment kubevirt/virt-exportproxy: duplicate port 8443/TCP of a container removed"
        ]
    );
    for object in &strategy.objects {
        let value = object.value();
        let containers = value.pointer("/spec/template/spec/containers");
        for container in containers.and_then(Value::as_array).into_iter().flatten() {
            let ports = container["ports"].as_array().into_iter().flatten();
            let ports: Vec<_> = ports.map(|port| &port["containerPort"]).collect();
            let numbers: BTreeSet<_> = ports.iter().map(ToString::to_string).collect();
            assert_eq!(ports.len(), numbers.len(), "{}", object.id);
        }
    }
}

#[rstest]
#[case::fixtures(Source::Fixtures)]
#[ignore = "needs KUBEVIRT_OPERATOR_DATA"]
#[case::real_data(Source::RealData)]
fn a_config_map_that_a_release_wrote_is_unpacked(
    #[case] source: Source,
    #[values("v1.7.4", "v1.8.4", "v1.9.0")] release: &str,
) {
    let map = source.config_map(release);
    let field = |pointer| serde_json::from_value(map.pointer(pointer).unwrap().clone()).unwrap();
    let (contents, annotations) = (field("/data"), field("/metadata/annotations"));
    let unpacked = decode(&contents, &annotations).unwrap();
    assert_eq!(unpacked, source.strategy(release, "default"));
    let packed = BTreeMap::from([(MANIFESTS.to_owned(), encode(&unpacked))]);
    let annotations = BTreeMap::from([(
        api::kubevirt::install::STRATEGY_ENCODING.to_owned(),
        GZIP_BASE64.to_owned(),
    )]);
    assert!(decode(&packed, &annotations).unwrap() == unpacked);
}

#[rstest]
#[case::fixtures(Source::Fixtures)]
#[ignore = "needs KUBEVIRT_OPERATOR_DATA"]
#[case::real_data(Source::RealData)]
fn a_release_is_read_in_little_memory(#[case] source: Source) {
    let text = source.strategy("v1.9.0", "default");
    let counted = allocation_counter::measure(|| drop(Strategy::parse(&text).unwrap()));
    assert!(counted.bytes_max < 4 << 20, "{} bytes", counted.bytes_max);
}
