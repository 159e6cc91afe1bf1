//! Comparison of validation verdicts with a real API server.
//!
//! `recorded/cases.yaml` has objects, updates and the answers of kube-apiserver. To record again,
//! point `RECORD_KUBECONFIG` at a cluster (a bare kube-apiserver is enough) that has our
//! CustomResourceDefinitions, and run this test: it rewrites the file and then compares.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    collections::{BTreeMap, BTreeSet},
    io::Write as _,
    process::{Command, Stdio},
};

use schema::{Problem, Schema};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

const CASES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/recorded/cases.yaml");
const HEADER: &str = "\
# What a real kube-apiserver says to these objects, and to these changes (old, then spec).
# Recorded by crates/schema/tests/recorded.rs: `case`, `kind`, `old` and `spec` are written by
# hand, `refused` is the server's answer, and `incomplete` means that it did not evaluate its CEL rules.
";

#[derive(Serialize, Deserialize)]
#[expect(clippy::struct_field_names, reason = "field names of the file")]
struct Case {
    case: String,
    kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    old: Option<Value>,
    spec: Value,
    refused: BTreeSet<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    incomplete: bool,
}

impl Case {
    fn object(&self, spec: &Value) -> Value {
        json!({
            "apiVersion": api::API_VERSION,
            "kind": self.kind,
            "metadata": {"name": "recorded"},
            "spec": spec,
        })
    }
}

fn schemas() -> BTreeMap<String, Schema> {
    let compiled = api::crds().into_iter().map(|crd| {
        let kind = crd.spec.names.kind.clone();
        let crd = serde_json::to_value(crd).unwrap();
        let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        (kind, Schema::compile(schema).unwrap())
    });
    compiled.collect()
}

#[test]
fn verdicts_match_kube_apiserver() {
    let mut cases: Vec<Case> =
        serde_saphyr::from_str(&std::fs::read_to_string(CASES).unwrap()).unwrap();
    if let Ok(kubeconfig) = std::env::var("RECORD_KUBECONFIG") {
        for case in &mut cases {
            record(case, &kubeconfig);
        }
        let recorded = serde_saphyr::to_string(&cases).unwrap();
        std::fs::write(CASES, format!("{HEADER}{recorded}")).unwrap();
    }
    assert!(cases.len() >= 80, "recordings are missing");
    let schemas = schemas();
    let mut differences = Vec::new();
    for case in &cases {
        let old = case.old.as_ref().map(|old| case.object(old));
        let actual: BTreeSet<_> = schemas[&case.kind]
            .validate(&case.object(&case.spec), old.as_ref())
            .iter()
            .filter(|violation| !matches!(violation.problem, Problem::Unknown { .. }))
            .map(ToString::to_string)
            .collect();
        let missing: Vec<_> = case.refused.difference(&actual).collect();
        // A server that skipped rules could not report everything.
        let unexpected: Vec<_> = actual
            .difference(&case.refused)
            .filter(|_| !case.incomplete)
            .collect();
        if !missing.is_empty() || !unexpected.is_empty() {
            differences.push(format!(
                "{}:\n  missing: {missing:#?}\n  unexpected: {unexpected:#?}",
                case.case
            ));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

fn record(case: &mut Case, kubeconfig: &str) {
    let kubectl = |args: &[&str], input: &Value| {
        let mut child = Command::new("kubectl")
            .args(["--kubeconfig", kubeconfig])
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child
            .stdin
            .take()
            .unwrap()
            .write_all(input.to_string().as_bytes())
            .unwrap();
        let output = child.wait_with_output().unwrap();
        String::from_utf8(output.stderr).unwrap()
    };
    let new = case.object(&case.spec);
    let answer = match &case.old {
        None => kubectl(&["create", "--dry-run=server", "-f", "-"], &new),
        Some(old) => {
            let old = case.object(old);
            assert_eq!(kubectl(&["create", "-f", "-"], &old), "", "{}", case.case);
            let answer = kubectl(&["replace", "--dry-run=server", "-f", "-"], &new);
            assert_eq!(kubectl(&["delete", "-f", "-"], &old), "", "{}", case.case);
            answer
        }
    };
    let reasons = answer
        .split_once("is invalid: ")
        .map_or("", |(_, reasons)| reasons);
    let lines: Vec<_> = reasons
        .lines()
        .map(|line| line.trim_start_matches("* ").trim())
        .collect();
    assert!(
        answer.is_empty() || !lines.is_empty(),
        "{}: {answer}",
        case.case
    );
    case.incomplete = lines
        .iter()
        .any(|line| line.contains("some validation rules were not checked"));
    case.refused = lines
        .into_iter()
        .filter(|line| !line.is_empty() && !line.starts_with("<nil>"))
        .map(str::to_owned)
        .collect();
}
