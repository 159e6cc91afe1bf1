//! Comparison of stored objects and refusals with those of a real API server.
//!
//! The files in `recorded` have objects and updates with the answer of kube-apiserver: the stored
//! object, or the errors. To record again, point `RECORD_KUBECONFIG` at a kube-apiserver and run
//! this test: it rewrites the files and then compares.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    collections::BTreeSet,
    io::Write as _,
    process::{Command, Stdio},
};

use kinds::{Allocator, Kind, NameRule};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/recorded");
const NAMESPACE: &str = "kinds-recorded";
const HEADER: &str = "\
# What a real kube-apiserver makes of these objects, and of these changes (old, then object).
# Recorded by crates/sandbox/kinds/tests/objects.rs: `stored`, `refused` and `undecodable` are the
# server's answer, the rest is written by hand.
";

#[derive(Serialize, Deserialize)]
#[expect(clippy::struct_field_names, reason = "field names of the file")]
struct Case {
    case: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    old: Option<Value>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    subresource: String,
    object: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stored: Option<Value>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    refused: BTreeSet<String>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    undecodable: String,
}

#[test]
fn objects_match_kube_apiserver() {
    let mut count = 0;
    let mut differences = Vec::new();
    for file in files() {
        let mut cases: Vec<Case> =
            serde_saphyr::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
        if let Ok(kubeconfig) = std::env::var("RECORD_KUBECONFIG") {
            for case in &mut cases {
                record(case, &kubeconfig);
            }
            let recorded = serde_saphyr::to_string(&cases).unwrap();
            std::fs::write(&file, format!("{HEADER}{recorded}")).unwrap();
        }
        count += cases.len();
        differences.extend(cases.iter().filter_map(difference));
    }
    assert!(count >= 100, "recordings are missing");
    let differing = differences.len();
    assert!(
        differences.is_empty(),
        "{differing} of {count}:\n{}",
        differences.join("\n")
    );
}

/// No value in any field panics.
#[test]
fn arbitrary_values_do_not_panic() {
    let odd = [
        json!(null),
        json!(-1),
        json!(1e300),
        json!(""),
        json!("é\u{0}"),
        json!([null]),
        json!({"": {}}),
    ];
    for case in recorded() {
        let mut places = Vec::new();
        pointers(&case.object, "", &mut places);
        for (index, place) in places.iter().enumerate() {
            let value = &odd[index % odd.len()];
            let mut object = case.object.clone();
            *object.pointer_mut(place).unwrap() = value.clone();
            let kind = kind_of(&case.object);
            if kinds::decode(kind, &mut object).is_ok() {
                kinds::default(kind, &mut object);
                let mut changed = object.clone();
                kinds::prepare_update(kind, &mut changed, &case.object, "");
                kinds::validate(kind, &changed, Some(&case.object));
                kinds::prepare_create(kind, &mut object);
                kinds::admit_create(kind, &mut object);
                kinds::validate(kind, &object, None);
            }
            let cells = kinds::cells(kind, &object, jiff::Timestamp::UNIX_EPOCH);
            assert_eq!(cells.len(), kinds::columns(kind).len(), "{}", case.case);
        }
    }
}

fn pointers(value: &Value, place: &str, found: &mut Vec<String>) {
    found.push(place.to_owned());
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                let key = key.replace('~', "~0").replace('/', "~1");
                pointers(value, &format!("{place}/{key}"), found);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                pointers(item, &format!("{place}/{index}"), found);
            }
        }
        _ => {}
    }
}

fn recorded() -> Vec<Case> {
    let read = |path: &std::path::PathBuf| -> Vec<Case> {
        serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
    };
    files().iter().flat_map(read).collect()
}

fn files() -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(FOLDER)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "yaml")
        })
        .collect();
    files.sort();
    files
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

fn placed(object: &Value) -> Value {
    let mut object = object.clone();
    if kind_of(&object).namespaced {
        object["metadata"]["namespace"] = NAMESPACE.into();
    }
    object
}

enum Outcome {
    Stored(Value),
    Refused(BTreeSet<String>),
    Undecodable(String),
}

struct FixedAllocator;

impl Allocator for FixedAllocator {
    fn cluster_ip(&mut self) -> Option<String> {
        Some("IP".to_owned())
    }

    fn node_port(&mut self) -> Option<u16> {
        Some(30000)
    }
}

fn create(object: &Value) -> Outcome {
    let kind = kind_of(object);
    let mut object = placed(object);
    if let Err(error) = kinds::decode(kind, &mut object) {
        return Outcome::Undecodable(error);
    }
    object["metadata"]["uid"] = "UID".into();
    object["metadata"]["resourceVersion"] = "1".into();
    kinds::default(kind, &mut object);
    kinds::prepare_create(kind, &mut object);
    kinds::admit_create(kind, &mut object);
    finish(kind, object, None)
}

fn update(object: &Value, old: &Value, subresource: &str) -> Outcome {
    let kind = kind_of(object);
    let mut object = placed(object);
    if let Err(error) = kinds::decode(kind, &mut object) {
        return Outcome::Undecodable(error);
    }
    object["metadata"]["uid"] = "UID".into();
    object["metadata"]["resourceVersion"] = "1".into();
    kinds::default(kind, &mut object);
    kinds::prepare_update(kind, &mut object, old, subresource);
    if subresource.is_empty() {
        kinds::admit_update(kind, &mut object);
    }
    finish(kind, object, Some(old))
}

fn finish(kind: &Kind, mut object: Value, old: Option<&Value>) -> Outcome {
    if kind.kind == "Service" {
        kinds::allocate_service(&mut object, &mut FixedAllocator);
    }
    let mut violations = metadata(kind, &object, old);
    violations.extend(kinds::validate(kind, &object, old));
    match violations.as_slice() {
        [] => Outcome::Stored(object),
        _ => Outcome::Refused(violations.iter().map(ToString::to_string).collect()),
    }
}

fn metadata(kind: &Kind, new: &Value, old: Option<&Value>) -> Vec<schema::Violation> {
    use schema::{metadata, metadata::Scope, names};
    let scope = if kind.namespaced {
        Scope::Namespaced
    } else {
        Scope::Cluster
    };
    let name_rule = match kind.name_rule {
        NameRule::Subdomain => names::dns_subdomain,
        NameRule::Label => names::dns_label,
        NameRule::Label1035 => names::dns_1035_label,
        NameRule::PathSegment => names::path_segment,
    };
    match old {
        None => metadata::validate_create(new, scope, name_rule),
        Some(old) => metadata::validate_update(new, old),
    }
}

fn difference(case: &Case) -> Option<String> {
    let outcome = match &case.old {
        None => create(&case.object),
        Some(old) => match create(old) {
            Outcome::Stored(old) => update(&case.object, &old, &case.subresource),
            Outcome::Refused(why) => return Some(format!("{}: old refused: {why:?}", case.case)),
            Outcome::Undecodable(why) => return Some(format!("{}: old: {why}", case.case)),
        },
    };
    let name = &case.case;
    match outcome {
        Outcome::Stored(mut actual) => {
            normalise(&mut actual);
            let Some(stored) = &case.stored else {
                return Some(format!(
                    "{name}: we store it; {:?}{}",
                    case.refused, case.undecodable
                ));
            };
            let mut differing = Vec::new();
            compare("", stored, &actual, &mut differing);
            (!differing.is_empty()).then(|| format!("{name}:\n  {}", differing.join("\n  ")))
        }
        Outcome::Refused(actual) => {
            let actual: BTreeSet<_> = actual.iter().map(|reason| comparable(reason)).collect();
            let expected: BTreeSet<_> = case
                .refused
                .iter()
                .map(|reason| comparable(reason))
                .collect();
            let missing: Vec<_> = expected.difference(&actual).collect();
            let unexpected: Vec<_> = actual.difference(&expected).collect();
            let same = missing.is_empty() && unexpected.is_empty();
            (!same).then(|| {
                format!(
                    "{name}:\n  missing: {missing:#?}\n  unexpected: {unexpected:#?}{}",
                    case.undecodable
                )
            })
        }
        Outcome::Undecodable(actual) => (actual != case.undecodable).then(|| {
            format!(
                "{name}:\n  actual:   {actual}\n  expected: {}",
                case.undecodable
            )
        }),
    }
}

/// An error text without what only Go can print: struct field order, and whole pod templates and
/// selectors with internal type names.
fn comparable(reason: &str) -> String {
    let parts = reason.split_once(" value: {").and_then(|(before, rest)| {
        let (value, why) = rest.rsplit_once('}')?;
        let value: Value = serde_json::from_str(&format!("{{{value}}}")).ok()?;
        let internal =
            before.starts_with("spec.template:") || reason.ends_with("not auto-generated");
        let value = if internal { Value::Null } else { value };
        Some(format!("{before} value: {value}{why}"))
    });
    parts.unwrap_or_else(|| reason.trim().to_owned())
}

fn compare(path: &str, expected: &Value, actual: &Value, found: &mut Vec<String>) {
    match (expected, actual) {
        (Value::Object(left), Value::Object(right)) => {
            let keys: BTreeSet<_> = left.keys().chain(right.keys()).collect();
            for key in keys {
                let path = format!("{path}.{key}");
                match (left.get(key), right.get(key)) {
                    (Some(left), Some(right)) => compare(&path, left, right, found),
                    (Some(left), None) => found.push(format!("{path}: missing {left}")),
                    (None, Some(right)) => found.push(format!("{path}: invented {right}")),
                    (None, None) => {}
                }
            }
        }
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
            for (index, (left, right)) in left.iter().zip(right).enumerate() {
                compare(&format!("{path}[{index}]"), left, right, found);
            }
        }
        _ if expected == actual => {}
        _ => found.push(format!("{path}: expected {expected}, actual {actual}")),
    }
}

/// Removes what differs between runs.
fn normalise(object: &mut Value) {
    if let Some(uid) = object["metadata"]["uid"].as_str().map(str::to_owned) {
        replace(object, &uid, "UID");
    }
    let metadata = object["metadata"].as_object_mut().unwrap();
    for field in [
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "generation",
        "managedFields",
    ] {
        metadata.remove(field);
    }
    if object["kind"] == "Service" {
        if let Some(ip) = object["spec"]["clusterIP"].as_str().map(str::to_owned)
            && ip.starts_with("10.0.0.")
        {
            replace(object, &ip, "IP");
        }
        for port in object["spec"]["ports"].as_array_mut().into_iter().flatten() {
            if port.get("nodePort").is_some() {
                port["nodePort"] = 30000.into();
            }
        }
    }
    if let Some(status) = object["status"].as_object_mut() {
        status.remove("lastPhaseTransitionTime");
        for condition in status
            .get_mut("conditions")
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            if condition["reason"] == "SchedulingGated" {
                condition["lastTransitionTime"] = Value::Null;
            }
        }
    }
}

fn replace(value: &mut Value, from: &str, to: &str) {
    match value {
        Value::String(text) if text == from => to.clone_into(text),
        Value::Array(items) => items.iter_mut().for_each(|item| replace(item, from, to)),
        Value::Object(fields) => fields
            .values_mut()
            .for_each(|field| replace(field, from, to)),
        _ => {}
    }
}

fn kubectl(kubeconfig: &str, args: &[&str], input: &Value) -> Result<Value, String> {
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
    if output.status.success() {
        Ok(serde_json::from_slice(&output.stdout).unwrap_or_default())
    } else {
        Err(String::from_utf8(output.stderr).unwrap())
    }
}

fn record(case: &mut Case, kubeconfig: &str) {
    let object = placed(&case.object);
    let kind = kind_of(&object);
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
    let _ = kubectl(kubeconfig, &["create", "-f", "-"], &namespace);
    let query = "?dryRun=All&fieldValidation=Ignore";
    let answer = match &case.old {
        None => kubectl(
            kubeconfig,
            &[
                "create",
                "--raw",
                &format!("{collection}{query}"),
                "-f",
                "-",
            ],
            &object,
        ),
        Some(old) => {
            let old = kubectl(
                kubeconfig,
                &["create", "--raw", &collection, "-f", "-"],
                &placed(old),
            )
            .unwrap();
            let name = old["metadata"]["name"].as_str().unwrap();
            let mut object = object;
            object["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"].clone();
            let below = match case.subresource.as_str() {
                "" => String::new(),
                subresource => format!("/{subresource}"),
            };
            let path = format!("{collection}/{name}{below}{query}");
            let answer = kubectl(kubeconfig, &["replace", "--raw", &path, "-f", "-"], &object);
            forget(kubeconfig, &collection, name);
            answer
        }
    };
    case.stored = None;
    case.refused.clear();
    case.undecodable.clear();
    match answer {
        Ok(mut stored) => {
            normalise(&mut stored);
            case.stored = Some(stored);
        }
        Err(error) => {
            if let Some((_, reasons)) = error.split_once("is invalid: ") {
                // Only the first line: some errors continue with a diff of Go structs.
                case.refused = format!("\n{reasons}")
                    .split("\n* ")
                    .map(|reason| reason.trim().lines().next().unwrap_or_default().to_owned())
                    .filter(|reason| !reason.is_empty())
                    .collect();
            } else {
                let text = error
                    .split_once("): ")
                    .map_or(error.as_str(), |(_, text)| text);
                text.trim().clone_into(&mut case.undecodable);
            }
        }
    }
}

/// Deletes an object and its finalizers.
fn forget(kubeconfig: &str, collection: &str, name: &str) {
    let path = format!("{collection}/{name}");
    let _ = kubectl(
        kubeconfig,
        &["delete", "--raw", &format!("{path}?gracePeriodSeconds=0")],
        &Value::Null,
    );
    if let Ok(mut rest) = kubectl(kubeconfig, &["get", "--raw", &path], &Value::Null) {
        rest["metadata"]["finalizers"] = json!([]);
        let _ = kubectl(kubeconfig, &["replace", "--raw", &path, "-f", "-"], &rest);
        rest["spec"]["finalizers"] = json!([]);
        let _ = kubectl(
            kubeconfig,
            &["replace", "--raw", &format!("{path}/finalize"), "-f", "-"],
            &rest,
        );
    }
}
