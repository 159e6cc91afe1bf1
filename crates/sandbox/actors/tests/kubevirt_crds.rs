//! Comparison of our CustomResourceDefinitions with KubeVirt's: `kubectl` shows kinds alike, and
//! KubeVirt requires whatever ours require.
//!
//! The fixture is what ours were when they equalled those of KubeVirt v1.9.0, reduced to what is compared.
//! KubeVirt's are not part of the repository: `KUBEVIRT_OPERATOR_DATA` names the folder that contains them.
//! After a change of ours, `UPDATE_GENERATED=1` writes the fixture anew.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::{env, fs, path::PathBuf};

use actors::kubevirt::crds;
use rstest::rstest;
use serde_json::{Map, Value};

/// The fixture: a line for each definition.
const FILE: &str = "tests/kubevirt_crds.jsonl";

/// Fields of a schema that are compared.
const COMPARED: [&str; 6] = [
    "required",
    "type",
    "format",
    "default",
    "enum",
    "x-kubernetes-int-or-string",
];

const OPEN: &str = "x-kubernetes-preserve-unknown-fields";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Fixtures,
    RealData,
}

impl Source {
    /// KubeVirt's definition of a name.
    fn definition(self, name: &str) -> Value {
        if self == Self::Fixtures {
            let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(FILE);
            let lines = fs::read_to_string(file).unwrap();
            let definitions = lines
                .lines()
                .map(|line| serde_json::from_str(line).unwrap());
            let mut definitions =
                definitions.filter(|found: &Value| found["metadata"]["name"] == name);
            return definitions.next().unwrap();
        }
        let data = env::var_os("KUBEVIRT_OPERATOR_DATA").map(PathBuf::from);
        let data = data.expect("KUBEVIRT_OPERATOR_DATA names the folder with the data of releases");
        let file = data.join(format!("kubevirt/v1.9.0/crds/{name}.yaml"));
        serde_saphyr::from_str(&fs::read_to_string(file).unwrap()).unwrap()
    }
}

/// Writes the fixture.
fn write_fixture() {
    let lines = crds().into_iter().map(|mut definition| {
        let fields = definition["spec"]["names"].as_object_mut().unwrap();
        fields.remove("listKind");
        let versions = definition["spec"]["versions"].as_array_mut().unwrap();
        for version in versions {
            without_descriptions(version.get_mut("additionalPrinterColumns"));
            if version["storage"] == true {
                let schema = &mut version["schema"]["openAPIV3Schema"];
                *schema = compared(schema);
            } else {
                version.as_object_mut().unwrap().remove("schema");
            }
        }
        format!("{definition}\n")
    });
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(FILE);
    fs::write(file, lines.collect::<String>()).unwrap();
}

fn without_descriptions(columns: Option<&mut Value>) {
    for column in columns.and_then(Value::as_array_mut).into_iter().flatten() {
        column.as_object_mut().unwrap().remove("description");
    }
}

/// The compared parts of a schema.
fn compared(schema: &Value) -> Value {
    let mut fields = Map::new();
    for field in COMPARED {
        if let Some(value) = schema.get(field) {
            fields.insert(field.to_owned(), value.clone());
        }
    }
    if let Some(properties) = schema["properties"].as_object() {
        let properties = properties.iter();
        let properties = properties.map(|(name, schema)| (name.clone(), compared(schema)));
        let properties: Map<_, _> = properties.collect();
        fields.insert("properties".to_owned(), properties.into());
    }
    for items in ["items", "additionalProperties"] {
        if schema[items].is_object() {
            fields.insert(items.to_owned(), compared(&schema[items]));
        }
    }
    fields.into()
}

fn stored(crd: &Value) -> Value {
    let versions = crd["spec"]["versions"].as_array().unwrap();
    versions
        .iter()
        .find(|version| version["storage"] == true)
        .unwrap()
        .clone()
}

#[rstest]
#[case::fixtures(Source::Fixtures)]
#[ignore = "needs KUBEVIRT_OPERATOR_DATA"]
#[case::real_data(Source::RealData)]
fn kinds_are_shown_as_in_kubevirt(#[case] source: Source) {
    if source == Source::Fixtures && env::var_os("UPDATE_GENERATED").is_some() {
        write_fixture();
    }
    for mut actual in crds() {
        let expected = source.definition(actual["metadata"]["name"].as_str().unwrap());
        if source == Source::Fixtures {
            for version in actual["spec"]["versions"].as_array_mut().unwrap() {
                without_descriptions(version.get_mut("additionalPrinterColumns"));
            }
        }
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

#[rstest]
#[case::fixtures(Source::Fixtures)]
#[ignore = "needs KUBEVIRT_OPERATOR_DATA"]
#[case::real_data(Source::RealData)]
fn required_fields_and_types_match_kubevirt(#[case] source: Source) {
    for actual in crds() {
        let name = actual["metadata"]["name"].as_str().unwrap();
        let expected = source.definition(name);
        let schema = |crd| stored(crd)["schema"]["openAPIV3Schema"].clone();
        compare(&schema(&actual), &schema(&expected), name);
    }
}

fn compare(actual: &Value, expected: &Value, path: &str) {
    assert!(!expected.is_null(), "{path} is not there");
    for field in COMPARED {
        assert_eq!(actual[field], expected[field], "{field} of {path}");
    }
    if let Some(properties) = actual["properties"].as_object() {
        let open = expected[OPEN] == true;
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
