//! Comparison of our CustomResourceDefinitions with KubeVirt's: `kubectl` shows kinds alike, and
//! KubeVirt requires whatever ours require.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::{env, fs, path::PathBuf};

use actors::kubevirt::crds;
use serde_json::Value;

fn recorded(name: &str) -> Value {
    let data = env::var_os("KUBEVIRT_OPERATOR_DATA").map(PathBuf::from);
    let data = data.expect("KUBEVIRT_OPERATOR_DATA names the folder with the data of releases");
    let file = data.join(format!("kubevirt/v1.9.0/crds/{name}.yaml"));
    serde_saphyr::from_str(&fs::read_to_string(file).unwrap()).unwrap()
}

fn stored(crd: &Value) -> Value {
    let versions = crd["spec"]["versions"].as_array().unwrap();
    versions
        .iter()
        .find(|version| version["storage"] == true)
        .unwrap()
        .clone()
}

#[test]
#[ignore = "needs KUBEVIRT_OPERATOR_DATA"]
fn kinds_are_shown_as_in_kubevirt() {
    for actual in crds() {
        let expected = recorded(actual["metadata"]["name"].as_str().unwrap());
        let mut names = actual["spec"]["names"].clone();
        names.as_object_mut().unwrap().remove("listKind");
        assert_eq!(names, expected["spec"]["names"]);
        for field in ["group", "scope"] {
            assert_eq!(actual["spec"][field], expected["spec"][field]);
        }
        let mut versions: Vec<&Value> = actual["spec"]["versions"]
            .as_array()
            .unwrap()
            .iter()
            .collect();
        versions.sort_by_key(|version| version["name"].as_str().unwrap());
        let mut others: Vec<&Value> = expected["spec"]["versions"]
            .as_array()
            .unwrap()
            .iter()
            .collect();
        others.sort_by_key(|version| version["name"].as_str().unwrap());
        assert_eq!(versions.len(), others.len());
        for (actual, expected) in versions.into_iter().zip(others) {
            for field in [
                "name",
                "served",
                "storage",
                "deprecated",
                "deprecationWarning",
                "subresources",
                "additionalPrinterColumns",
            ] {
                assert_eq!(actual[field], expected[field], "{}", names["kind"]);
            }
        }
    }
}

#[test]
#[ignore = "needs KUBEVIRT_OPERATOR_DATA"]
fn required_fields_and_types_match_kubevirt() {
    for actual in crds() {
        let name = actual["metadata"]["name"].as_str().unwrap();
        let expected = recorded(name);
        let schema = |crd| stored(crd)["schema"]["openAPIV3Schema"].clone();
        compare(&schema(&actual), &schema(&expected), name);
    }
}

fn compare(actual: &Value, expected: &Value, path: &str) {
    assert!(!expected.is_null(), "{path} is not there");
    for field in [
        "required",
        "type",
        "format",
        "default",
        "enum",
        "x-kubernetes-int-or-string",
    ] {
        assert_eq!(actual[field], expected[field], "{field} of {path}");
    }
    if let Some(properties) = actual["properties"].as_object() {
        let open = expected["x-kubernetes-preserve-unknown-fields"] == true;
        for (name, property) in properties.iter().filter(|_| !open) {
            compare(
                property,
                &expected["properties"][name],
                &format!("{path}.{name}"),
            );
        }
    }
    for items in ["items", "additionalProperties"] {
        if actual[items].is_object() {
            compare(&actual[items], &expected[items], &format!("{path}[]"));
        }
    }
}
