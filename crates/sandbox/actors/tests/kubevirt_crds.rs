//! Holds our definitions against those of the real KubeVirt: what `kubectl` shows of a kind is the
//! same, and what they demand is demanded by the real ones too.

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
fn kinds_look_as_in_kubevirt() {
    for ours in crds() {
        let theirs = recorded(ours["metadata"]["name"].as_str().unwrap());
        let mut names = ours["spec"]["names"].clone();
        names.as_object_mut().unwrap().remove("listKind");
        assert_eq!(names, theirs["spec"]["names"]);
        for field in ["group", "scope"] {
            assert_eq!(ours["spec"][field], theirs["spec"][field]);
        }
        let mut versions: Vec<&Value> = ours["spec"]["versions"]
            .as_array()
            .unwrap()
            .iter()
            .collect();
        versions.sort_by_key(|version| version["name"].as_str().unwrap());
        let mut others: Vec<&Value> = theirs["spec"]["versions"]
            .as_array()
            .unwrap()
            .iter()
            .collect();
        others.sort_by_key(|version| version["name"].as_str().unwrap());
        assert_eq!(versions.len(), others.len());
        for (ours, theirs) in versions.into_iter().zip(others) {
            for field in [
                "name",
                "served",
                "storage",
                "deprecated",
                "deprecationWarning",
                "subresources",
                "additionalPrinterColumns",
            ] {
                assert_eq!(ours[field], theirs[field], "{}", names["kind"]);
            }
        }
    }
}

#[test]
#[ignore = "needs KUBEVIRT_OPERATOR_DATA"]
fn what_is_required_and_typed_is_so_in_kubevirt() {
    for ours in crds() {
        let name = ours["metadata"]["name"].as_str().unwrap();
        let theirs = recorded(name);
        let schema = |crd| stored(crd)["schema"]["openAPIV3Schema"].clone();
        compare(&schema(&ours), &schema(&theirs), name);
    }
}

fn compare(ours: &Value, theirs: &Value, path: &str) {
    assert!(!theirs.is_null(), "{path} is not there");
    for field in [
        "required",
        "type",
        "format",
        "default",
        "enum",
        "x-kubernetes-int-or-string",
    ] {
        assert_eq!(ours[field], theirs[field], "{field} of {path}");
    }
    if let Some(properties) = ours["properties"].as_object() {
        let open = theirs["x-kubernetes-preserve-unknown-fields"] == true;
        for (name, property) in properties.iter().filter(|_| !open) {
            compare(
                property,
                &theirs["properties"][name],
                &format!("{path}.{name}"),
            );
        }
    }
    for items in ["items", "additionalProperties"] {
        if ours[items].is_object() {
            compare(&ours[items], &theirs[items], &format!("{path}[]"));
        }
    }
}
