//! Comparison of validation of CustomResourceDefinitions with a real API server.
//!
//! `definitions/cases.yaml` has definitions, as changes to a valid one, and the answers of
//! kube-apiserver. To record again, point `RECORD_KUBECONFIG` at a cluster (a bare kube-apiserver
//! is enough) and run this test: it rewrites the file and then compares. It uses dry runs and one
//! definition of the group definitions.schema.test, which it removes.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "shared/server.rs"]
mod server;

use std::collections::BTreeSet;

use schema::{Schema, crd};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use server::Server;

const CASES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/definitions/cases.yaml");
const NAME: &str = "things.definitions.schema.test";
const HEADER: &str = "\
# What a real kube-apiserver says to these definitions, each given by how it differs from one that
# is fine: in its name, in its spec, in its only version, in the schema of `spec` (`schema`), in the
# whole schema (`root`); `change` is a change of the spec of one that is there.
# Recorded by crates/schema/tests/definitions.rs: `refused` is the server's answer.
";

#[derive(Serialize, Deserialize)]
#[expect(clippy::struct_field_names, reason = "field names of the file")]
struct Case {
    case: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    schema: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    root: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    version: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    spec: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    change: Option<Value>,
    #[serde(default)]
    refused: BTreeSet<String>,
}

impl Case {
    fn definition(&self) -> Value {
        let fine = json!({"type": "string"});
        let root = self.root.clone().unwrap_or_else(|| {
            let spec = self.schema.as_ref().unwrap_or(&fine);
            json!({"type": "object", "properties": {"spec": spec}})
        });
        let mut version = json!({
            "name": "v1",
            "served": true,
            "storage": true,
            "schema": {"openAPIV3Schema": root},
        });
        merge(&mut version, self.version.as_ref());
        let mut spec = json!({
            "group": "definitions.schema.test",
            "scope": "Cluster",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [version],
        });
        merge(&mut spec, self.spec.as_ref());
        json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": self.name.as_deref().unwrap_or(NAME)},
            "spec": spec,
        })
    }
}

fn merge(value: &mut Value, other: Option<&Value>) {
    for (name, other) in other
        .into_iter()
        .flat_map(|other| other.as_object().unwrap())
    {
        value[name] = other.clone();
    }
}

#[test]
fn definitions_match_kube_apiserver() {
    let mut cases: Vec<Case> =
        serde_saphyr::from_str(&std::fs::read_to_string(CASES).unwrap()).unwrap();
    if let Ok(kubeconfig) = std::env::var("RECORD_KUBECONFIG") {
        let server = Server::new(&kubeconfig);
        for case in &mut cases {
            case.refused = record(case, &server);
        }
        let recorded = serde_saphyr::to_string(&cases).unwrap();
        std::fs::write(CASES, format!("{HEADER}{recorded}")).unwrap();
    }
    assert!(cases.len() >= 80, "recordings are missing");
    let mut differences = Vec::new();
    for case in &cases {
        let mut definition = case.definition();
        crd::default(&mut definition);
        let found = match &case.change {
            None => crd::validate_create(&definition),
            Some(change) => {
                let mut old = definition;
                old["metadata"]["resourceVersion"] = "1".into();
                old["status"]["conditions"] = json!([{"type": "Established", "status": "True"}]);
                let mut new = old.clone();
                merge(&mut new["spec"], Some(change));
                crd::default(&mut new);
                crd::validate_update(&new, &old)
            }
        };
        let actual: BTreeSet<String> = found.iter().map(ToString::to_string).collect();
        if actual != case.refused {
            let missing: Vec<_> = case.refused.difference(&actual).collect();
            let unexpected: Vec<_> = actual.difference(&case.refused).collect();
            let case = &case.case;
            differences.push(format!(
                "{case}:\n  missing: {missing:#?}\n  unexpected: {unexpected:#?}"
            ));
        }
        if case.refused.is_empty() {
            for version in case.definition()["spec"]["versions"].as_array().unwrap() {
                Schema::compile(&version["schema"]["openAPIV3Schema"]).unwrap();
            }
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

fn record(case: &Case, server: &Server) -> BTreeSet<String> {
    const PATH: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let definition = case.definition();
    let mut answer = Ok(Value::Null);
    match &case.change {
        None => answer = server.create(&format!("{PATH}?dryRun=All"), &definition),
        Some(change) => server.with_definitions(std::slice::from_ref(&definition), || {
            let stored = server
                .kubectl(&["get", "--raw", &format!("{PATH}/{NAME}")], &Value::Null)
                .unwrap();
            let mut new: Value = serde_json::from_str(&stored).unwrap();
            merge(&mut new["spec"], Some(change));
            answer = server.replace(&format!("{PATH}/{NAME}?dryRun=All"), &new);
        }),
    }
    answer.map_or_else(|error| server::reasons(&error), |_| BTreeSet::new())
}
