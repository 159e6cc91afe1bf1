//! Comparison of decoding, defaulting and admission with a real API server.
//!
//! `admission/definitions.yaml` has schemas; `admission/cases.yaml` has objects, updates and the
//! answers of kube-apiserver. To record again, point `RECORD_KUBECONFIG` at a cluster (a bare
//! kube-apiserver is enough) and run this test: it installs the schemas under the group
//! recorded.schema.test, rewrites the file, removes the schemas, and compares.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "shared/server.rs"]
mod server;

use std::collections::{BTreeMap, BTreeSet};

use schema::{
    Schema,
    metadata::{self, Scope},
    names,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use server::Server;

const CASES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/admission/cases.yaml");
const DEFINITIONS: &str = include_str!("admission/definitions.yaml");
const GROUP: &str = "recorded.schema.test";
const HEADER: &str = "\
# What a real kube-apiserver makes of these objects, and of these changes (old, then object).
# Recorded by crates/schema/tests/admission.rs: `case`, `schema`, `status`, `metadata`, `old` and
# `object` are written by hand; `unreadable`, `unknown`, `refused` and `stored` are the server's
# answer.
";

#[derive(Serialize, Deserialize)]
#[expect(clippy::struct_field_names, reason = "field names of the file")]
struct Case {
    case: String,
    schema: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    status: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    metadata: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    old: Option<Value>,
    object: Value,
    #[serde(default, skip_serializing_if = "Answer::is_empty", flatten)]
    answer: Answer,
}

#[derive(Default, Debug, PartialEq, Serialize, Deserialize)]
struct Answer {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unreadable: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    unknown: Vec<String>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    refused: BTreeSet<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stored: Option<Value>,
}

impl Answer {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Case {
    fn object(&self, version: &str, content: &Value) -> Value {
        let mut object = json!({
            "apiVersion": format!("{GROUP}/{version}"),
            "kind": kind(&self.schema),
            "metadata": {"name": "recorded"},
        });
        for (name, value) in content.as_object().unwrap() {
            object[name] = value.clone();
        }
        for (name, value) in self.metadata.iter().flat_map(|m| m.as_object().unwrap()) {
            object["metadata"][name] = value.clone();
        }
        object
    }
}

fn kind(schema: &str) -> String {
    let (first, rest) = schema.split_at(1);
    format!("{}{rest}", first.to_uppercase())
}

fn definitions() -> BTreeMap<String, Value> {
    serde_saphyr::from_str(DEFINITIONS).unwrap()
}

/// Content of an object besides its metadata.
fn content(mut object: Value) -> Value {
    let fields = object.as_object_mut().unwrap();
    for name in ["apiVersion", "kind", "metadata"] {
        fields.remove(name);
    }
    object
}

fn evaluate(case: &Case, schema: &Schema) -> Answer {
    let mut answer = Answer::default();
    let mut object = case.object("v1", &case.object);
    match schema.decode(&mut object) {
        Err(error) => {
            answer.unreadable = Some(error);
            return answer;
        }
        Ok(unknown) => answer.unknown = unknown,
    }
    schema.default(&mut object);
    let findings = if let Some(old) = &case.old {
        let mut old = case.object("v1", old);
        old["metadata"]["resourceVersion"] = "1".into();
        schema.prune(&mut old);
        schema.default(&mut old);
        object["metadata"]["resourceVersion"] = "1".into();
        if case.status {
            let status = object["status"].take();
            object = old.clone();
            object["status"] = status;
        }
        let found = metadata::validate_update(&object, &old);
        if case.status {
            schema.admit_status(&object, &old, found).violations
        } else {
            schema.admit(&object, Some(&old), found).violations
        }
    } else {
        let found = metadata::validate_create(&object, Scope::Cluster, names::dns_subdomain);
        schema.admit(&object, None, found).violations
    };
    answer.refused = findings.iter().map(ToString::to_string).collect();
    if findings.is_empty() {
        answer.stored = Some(content(object));
    }
    answer
}

#[test]
fn admission_matches_kube_apiserver() {
    let mut cases: Vec<Case> =
        serde_saphyr::from_str(&std::fs::read_to_string(CASES).unwrap()).unwrap();
    let definitions = definitions();
    if let Ok(kubeconfig) = std::env::var("RECORD_KUBECONFIG") {
        let server = Server::new(&kubeconfig);
        let crds: Vec<Value> = definitions.iter().map(definition).collect();
        server.with_definitions(&crds, || {
            for case in &mut cases {
                case.answer = record(case, &server);
            }
        });
        let recorded = serde_saphyr::to_string(&cases).unwrap();
        std::fs::write(CASES, format!("{HEADER}{recorded}")).unwrap();
    }
    assert!(cases.len() >= 130, "recordings are missing");
    let schemas: BTreeMap<&str, Schema> = definitions
        .iter()
        .map(|(name, schema)| (name.as_str(), Schema::compile(schema).unwrap()))
        .collect();
    let mut differences = Vec::new();
    for case in &cases {
        let actual = evaluate(case, &schemas[case.schema.as_str()]);
        if actual != case.answer {
            let (case, expected) = (&case.case, &case.answer);
            differences.push(format!(
                "{case}:\n  expected: {expected:#?}\n  actual: {actual:#?}"
            ));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// A definition with the schema, and a second version without one through which invalid objects can
/// be stored.
fn definition((name, schema): (&String, &Value)) -> Value {
    let version = |version: &str, schema: &Value| {
        json!({
            "name": version,
            "served": true,
            "storage": version == "v1",
            "schema": {"openAPIV3Schema": schema},
            "subresources": if name == "rules" { json!({"status": {}}) } else { json!({}) },
        })
    };
    let free = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{name}.{GROUP}")},
        "spec": {
            "group": GROUP,
            "scope": "Cluster",
            "names": {"plural": name, "kind": kind(name)},
            "versions": [version("v1", schema), version("free", &free)],
        },
    })
}

/// Sends an object with a query.
type Send<'a> = dyn Fn(&str, &Value) -> Result<Value, String> + 'a;

fn record(case: &Case, server: &Server) -> Answer {
    let resource = |version: &str| format!("/apis/{GROUP}/{version}/{}", case.schema);
    let mut object = case.object("v1", &case.object);
    let mut send: Box<Send<'_>> = Box::new(|query, object| {
        server.create(&format!("{}?dryRun=All&{query}", resource("v1")), object)
    });
    let name = format!("{}/recorded", resource("free"));
    if let Some(old) = &case.old {
        let old = case.object("free", old);
        let mut stored = server.create(&resource("free"), &old).unwrap();
        if let Some(status) = old.get("status") {
            stored["status"] = status.clone();
            stored = server.replace(&format!("{name}/status"), &stored).unwrap();
        }
        object["metadata"]["resourceVersion"] = stored["metadata"]["resourceVersion"].clone();
        let status = if case.status { "/status" } else { "" };
        let path = format!("{}/recorded{status}", resource("v1"));
        send = Box::new(move |query, object| {
            server.replace(&format!("{path}?dryRun=All&{query}"), object)
        });
    }
    let mut answer = Answer::default();
    if let Err(error) = send("fieldValidation=Strict", &object)
        && let Some((_, unknown)) = error.split_once("strict decoding error: ")
    {
        let unknown = unknown.trim().split(", ");
        answer.unknown = unknown
            .map(|unknown| {
                unknown
                    .trim_start_matches("unknown field ")
                    .replace('"', "")
            })
            .collect();
    }
    match send("fieldValidation=Ignore", &object) {
        Ok(stored) => answer.stored = Some(content(stored)),
        Err(error) => match error.split_once(" cannot be handled as a ") {
            Some((_, unreadable)) => {
                let (_, reason) = unreadable.split_once(": ").unwrap();
                answer.unreadable = Some(reason.trim().to_owned());
            }
            None => answer.refused = server::reasons(&error),
        },
    }
    if case.old.is_some() {
        server.delete(&name);
    }
    answer
}
