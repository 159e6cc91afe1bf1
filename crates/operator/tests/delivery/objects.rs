//! Manifests parsed into comparable objects.

use std::{collections::BTreeMap, process::Output};

use serde_json::Value;

use crate::{kubectl::both, process};

/// Objects by kind, namespace and name.
#[derive(Clone, Debug, PartialEq)]
pub struct Objects(pub BTreeMap<String, Value>);

impl Objects {
    /// Parses documents, and panics at duplicates.
    pub fn read(text: &str) -> Self {
        let documents: Vec<Value> = serde_saphyr::from_multiple(text)
            .unwrap_or_else(|error| panic!("not YAML: {error}\n{text}"));
        let mut objects = BTreeMap::new();
        for object in documents.into_iter().filter(|object| !object.is_null()) {
            let of = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
            let kind = object["kind"].as_str().unwrap();
            let key = format!("{kind} {}/{}", of("namespace"), of("name"));
            assert!(
                objects.insert(key.clone(), object).is_none(),
                "twice: {key}"
            );
        }
        Self(objects)
    }

    /// Objects that `kubevirt-operator manifests` prints.
    pub fn of_command(args: &[&str]) -> Self {
        let output = process::operator()
            .arg("manifests")
            .args(args)
            .output()
            .unwrap();
        Self::of_output(&output)
    }

    pub fn of_output(output: &Output) -> Self {
        assert!(output.status.success(), "{}", both(output));
        Self::read(std::str::from_utf8(&output.stdout).unwrap())
    }

    pub fn keys(&self) -> Vec<&str> {
        self.0.keys().map(String::as_str).collect()
    }

    pub fn find(&self, kind: &str, name: &str) -> Option<&Value> {
        self.0
            .values()
            .find(|object| object["kind"] == kind && object["metadata"]["name"] == name)
    }

    /// Panics with the first difference.
    pub fn assert_same_as(&self, other: &Self, what: &str) {
        assert_eq!(self.keys(), other.keys(), "{what}");
        for (key, object) in &self.0 {
            let (one, two) = (pretty(object), pretty(&other.0[key]));
            let lines = one.lines().zip(two.lines());
            let different = lines.enumerate().find(|(_, (one, two))| one != two);
            assert!(one == two, "{what}: {key}: {different:?}\n{one}\n{two}");
        }
    }
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap()
}

/// Pod template of a workload.
pub fn pod(object: &Value) -> Option<&Value> {
    object.pointer("/spec/template")
}

/// All containers of a pod, init containers included.
pub fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    ["containers", "initContainers", "ephemeralContainers"]
        .into_iter()
        .filter_map(|list| pod["spec"][list].as_array())
        .flatten()
}
