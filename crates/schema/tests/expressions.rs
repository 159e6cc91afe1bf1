//! Comparison of CEL expressions with a real API server: whether they compile, what they are
//! estimated to cost, and what they evaluate to.
//!
//! `expressions/types.json` has the types of `self`, each with a value. `expressions/cases.jsonl` has
//! expressions about them, with the answers of kube-apiserver v1.36.4: `refused` to a definition with
//! such a rule, `violations` of an object with the value. To record again, point `RECORD_KUBECONFIG`
//! at a cluster of that release and run this test: it rewrites the answers and then compares. It uses
//! dry runs and definitions of the group expressions.schema.test, which it removes.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "shared/server.rs"]
mod server;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, thread,
    time::Duration,
};

use schema::{Schema, crd};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use server::{Server, reasons};

const CASES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/expressions/cases.jsonl");
const TYPES: &str = include_str!("expressions/types.json");
const GROUP: &str = "expressions.schema.test";
/// Rules of a definition; more would exceed the limit of the cost of all its rules.
const RULES: usize = 10;

#[derive(Deserialize)]
struct SelfType {
    schema: Value,
    value: Value,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Case {
    #[serde(rename = "type")]
    type_: String,
    rule: String,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    refused: BTreeSet<String>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    violations: BTreeSet<String>,
}

fn types() -> BTreeMap<String, SelfType> {
    serde_json::from_str(TYPES).unwrap()
}

fn cases() -> Vec<Case> {
    let text = fs::read_to_string(CASES).unwrap();
    let lines = text.lines().filter(|line| !line.is_empty());
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// A definition with fields `f0`, `f1` and so on.
fn definition(name: &str, fields: &[(&SelfType, &str)]) -> Value {
    let fields: Map<String, Value> = fields
        .iter()
        .enumerate()
        .map(|(index, (type_, rule))| {
            let mut schema = type_.schema.clone();
            schema["x-kubernetes-validations"] = json!([{"rule": rule}]);
            (format!("f{index}"), schema)
        })
        .collect();
    let spec = json!({"type": "object", "properties": fields});
    let root = json!({"type": "object", "properties": {"spec": spec}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{name}s.{GROUP}")},
        "spec": {
            "group": GROUP, "scope": "Cluster", "names": {"plural": format!("{name}s"), "kind": name.to_uppercase()},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": root},
            }],
        },
    })
}

fn object(name: &str, field: usize, value: &Value) -> Value {
    json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": name.to_uppercase(), "metadata": {"name": "a"},
        "spec": {format!("f{field}"): value},
    })
}

/// The name of the type of `self` ends with a random number.
fn normalized(text: &str) -> String {
    let mut parts = text.split("selfType");
    let mut normalized = parts.next().unwrap_or("").to_owned();
    for part in parts {
        normalized.push_str("selfType1");
        normalized.push_str(part.trim_start_matches(|digit: char| digit.is_ascii_digit()));
    }
    normalized
}

fn answers(case: &Case, type_: &SelfType) -> Case {
    let mut answers = Case {
        refused: BTreeSet::new(),
        violations: BTreeSet::new(),
        ..case.clone()
    };
    let mut definition = definition("a", &[(type_, &case.rule)]);
    crd::default(&mut definition);
    let refused = crd::validate_create(&definition);
    answers.refused = refused.iter().map(ToString::to_string).collect();
    if answers.refused.is_empty() {
        let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        let schema = Schema::compile(schema).unwrap();
        let object = object("a", 0, &type_.value);
        let found = schema.admit(&object, None, Vec::new()).violations;
        answers.violations = found.iter().map(ToString::to_string).collect();
    }
    answers
}

#[test]
fn expressions_are_checked_and_evaluated_as_a_server_does() {
    if let Ok(kubeconfig) = std::env::var("RECORD_KUBECONFIG") {
        record(&Server::new(&kubeconfig));
    }
    let types = types();
    let cases = cases();
    assert!(cases.len() > 400, "{} expressions", cases.len());
    let differ: Vec<(Case, Case)> = cases
        .into_iter()
        .map(|case| (answers(&case, &types[&case.type_]), case))
        .filter(|(answers, case)| answers != case)
        .collect();
    assert!(differ.is_empty(), "ours and the server's: {differ:#?}");
}

fn record(server: &Server<'_>) {
    const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions?dryRun=All";
    let types = types();
    let mut cases = cases();
    for case in &mut cases {
        case.refused.clear();
        case.violations.clear();
        let definition = definition("a", &[(&types[&case.type_], &case.rule)]);
        if let Err(answer) = server.create(DEFINITIONS, &definition) {
            let refused = reasons(&answer).into_iter();
            case.refused = refused.map(|reason| normalized(&reason)).collect();
        }
    }
    let accepted: Vec<&mut Case> = cases
        .iter_mut()
        .filter(|case| case.refused.is_empty())
        .collect();
    let mut rest = accepted;
    let mut number = 0;
    while !rest.is_empty() {
        let more = rest.split_off(rest.len().min(RULES));
        let name = format!("r{number}");
        let fields: Vec<(&SelfType, &str)> = rest
            .iter()
            .map(|case| (&types[&case.type_], case.rule.as_str()))
            .collect();
        server.with_definitions(&[definition(&name, &fields)], || {
            // The handler of a new definition needs a moment.
            thread::sleep(Duration::from_millis(500));
            let path = format!("/apis/{GROUP}/v1/{name}s?dryRun=All");
            for (index, case) in rest.iter_mut().enumerate() {
                let object = object(&name, index, &types[&case.type_].value);
                if let Err(answer) = server.create(&path, &object) {
                    let field = format!("spec.f{index}");
                    let found = reasons(&answer).into_iter();
                    case.violations = found
                        .map(|reason| reason.replacen(&field, "spec.f0", 1))
                        .collect();
                }
            }
        });
        rest = more;
        number += 1;
    }
    let lines: Vec<String> = cases
        .iter()
        .map(|case| serde_json::to_string(case).unwrap())
        .collect();
    fs::write(CASES, lines.join("\n") + "\n").unwrap();
}
