//! Comparison of tables with those of a real API server.
//!
//! `tables/cases.yaml` has stored objects and the cells that kube-apiserver printed for them. To
//! record again, point `RECORD_KUBECONFIG` at a kube-apiserver and run this test; it needs curl,
//! because kubectl does not print the columns unchanged.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, Command, Stdio},
};

use jiff::Timestamp;
use kinds::Kind;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

const CASES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tables/cases.yaml");
const NAMESPACE: &str = "kinds-recorded";
const HEADER: &str = "\
# The tables that a real kube-apiserver shows for objects. Recorded by
# crates/sandbox/kinds/tests/tables.rs: `object`, `status` and `deleted` are written by hand, the rest
# is what the server kept and showed, and when.
";

#[derive(Serialize, Deserialize)]
struct Case {
    object: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    status: Option<Value>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    deleted: bool,
    #[serde(default)]
    now: String,
    #[serde(default)]
    stored: Value,
    #[serde(default)]
    columns: Vec<String>,
    #[serde(default)]
    cells: Vec<Value>,
}

#[test]
fn tables_match_kube_apiserver() {
    let mut cases: Vec<Case> =
        serde_saphyr::from_str(&std::fs::read_to_string(CASES).unwrap()).unwrap();
    if let Ok(kubeconfig) = std::env::var("RECORD_KUBECONFIG") {
        let server = Server::behind_proxy(&kubeconfig);
        for case in &mut cases {
            server.record(case);
        }
        let recorded = serde_saphyr::to_string(&cases).unwrap();
        std::fs::write(CASES, format!("{HEADER}{recorded}")).unwrap();
    }
    assert!(cases.len() >= 30, "recordings are missing");
    let mut differences = Vec::new();
    for case in &cases {
        let kind = kind_of(&case.object);
        let columns: Vec<String> = kinds::columns(kind).iter().map(shown).collect();
        let now: Timestamp = case.now.parse().unwrap();
        let cells = kinds::cells(kind, &case.stored, now);
        if columns != case.columns {
            differences.push(format!(
                "{}: {:?}, actual {columns:?}",
                kind.kind, case.columns
            ));
        }
        if cells != case.cells {
            let (expected, actual) = (json!(case.cells), json!(cells));
            differences.push(format!("{}:\n  {expected}\n  {actual}", kind.kind));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

fn shown(column: &kinds::Column) -> String {
    let kinds::Column {
        name,
        type_,
        format,
        priority,
        ..
    } = column;
    format!("{name}/{type_}/{format}/{priority}")
}

fn kind_of(object: &Value) -> &'static Kind {
    let (group, version) = match object["apiVersion"].as_str().unwrap().split_once('/') {
        Some((group, version)) => (group, version),
        None => ("", object["apiVersion"].as_str().unwrap()),
    };
    let same = |kind: &&Kind| {
        kind.group == group && kind.version == version && object["kind"] == kind.kind
    };
    kinds::all().iter().find(same).unwrap()
}

/// A real server behind `kubectl proxy`.
struct Server {
    proxy: Child,
    address: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.proxy.kill();
        let _ = self.proxy.wait();
    }
}

impl Server {
    fn behind_proxy(kubeconfig: &str) -> Self {
        let mut proxy = Command::new("kubectl")
            .args(["--kubeconfig", kubeconfig, "proxy", "--port=0"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(proxy.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let address = line.trim().rsplit(' ').next().unwrap().to_owned();
        Self { proxy, address }
    }

    fn call(&self, method: &str, path: &str, accept: &str, body: &Value) -> Value {
        let mut child = Command::new("curl")
            .args([
                "-s",
                "-X",
                method,
                "-d",
                "@-",
                "-H",
                "Content-Type: application/json",
            ])
            .args([
                "-H",
                &format!("Accept: {accept}"),
                &format!("http://{}{path}", self.address),
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child
            .stdin
            .take()
            .unwrap()
            .write_all(body.to_string().as_bytes())
            .unwrap();
        let output = child.wait_with_output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn record(&self, case: &mut Case) {
        const JSON: &str = "application/json";
        let kind = kind_of(&case.object);
        let root = match kind.group {
            "" => format!("/api/{}", kind.version),
            group => format!("/apis/{group}/{}", kind.version),
        };
        let collection = if kind.namespaced {
            format!("{root}/namespaces/{NAMESPACE}/{}", kind.plural)
        } else {
            format!("{root}/{}", kind.plural)
        };
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
        self.call("POST", "/api/v1/namespaces", JSON, &namespace);
        let mut object = self.call("POST", &collection, JSON, &case.object);
        assert_ne!(object["kind"], "Status", "{object}");
        let path = format!(
            "{collection}/{}",
            object["metadata"]["name"].as_str().unwrap()
        );
        if let Some(status) = &case.status {
            object["status"] = status.clone();
            object = self.call("PUT", &format!("{path}/status"), JSON, &object);
            assert_ne!(object["kind"], "Status", "{object}");
        }
        if case.deleted {
            self.call("DELETE", &path, JSON, &json!({}));
        }
        case.stored = self.call("GET", &path, JSON, &Value::Null);
        let table = self.call(
            "GET",
            &path,
            "application/json;as=Table;v=v1;g=meta.k8s.io",
            &Value::Null,
        );
        case.now = Timestamp::now().to_string();
        case.cells
            .clone_from(table["rows"][0]["cells"].as_array().unwrap());
        case.columns = table["columnDefinitions"]
            .as_array()
            .unwrap()
            .iter()
            .map(column_text)
            .collect();
        case.stored["metadata"]["managedFields"] = Value::Null;
        self.call("DELETE", &path, JSON, &json!({"gracePeriodSeconds": 0}));
        let mut rest = self.call("GET", &path, JSON, &Value::Null);
        if rest["kind"] != "Status" {
            rest["metadata"]["finalizers"] = json!([]);
            self.call("PUT", &path, JSON, &rest);
        }
    }
}

fn column_text(column: &Value) -> String {
    let text = |field: &str| column[field].as_str().unwrap();
    format!(
        "{}/{}/{}/{}",
        text("name"),
        text("type"),
        text("format"),
        column["priority"]
    )
}
