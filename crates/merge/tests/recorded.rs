//! Comparison of results with the answers of a real kube-apiserver to the same requests.
//!
//! `recorded/sequences.json` holds sequences of requests for one object each, with the answers of a
//! current server; `recorded/schemas.json` the schemas of their kinds. Every step starts from what
//! the server answered before, so that one difference does not hide others.

#![allow(clippy::expect_used)] // a recording that cannot be read is to fail the test

use std::fmt::Write;

use merge::fields::Path;
use merge::managed::{self, ApplyError, Context};
use merge::{FieldSet, PatchError, Shape, json_patch, merge_patch, strategic};
use serde::Deserialize;
use serde_json::{Map, Value};

#[derive(Deserialize)]
struct Sequence {
    title: String,
    kind: String,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Step {
    verb: String,
    manager: String,
    api_version: String,
    #[serde(default)]
    subresource: String,
    #[serde(default)]
    force: bool,
    status: u16,
    body: Value,
    answer: Option<Value>,
    #[serde(default)]
    message: String,
    #[serde(default)]
    causes: Vec<Value>,
}

fn read<T: for<'a> Deserialize<'a>>(text: &str) -> T {
    serde_json::from_str(text).expect("a recording")
}

fn shape(kind: &str) -> Shape {
    let recorded: Value = read(include_str!("recorded/schemas.json"));
    let resolve = |reference: &str| {
        let name = reference.strip_prefix("#/components/schemas/")?;
        recorded["schemas"].get(name).cloned()
    };
    let schema = &recorded["kinds"][kind];
    if is_custom(kind) {
        Shape::from_openapi(schema, resolve)
    } else {
        Shape::built_in(schema, resolve)
    }
}

fn is_custom(kind: &str) -> bool {
    matches!(kind, "Widget" | "Blob")
}

/// What the strategies of these kinds reset, for the object and for its status.
fn reset_fields(kind: &str, subresource: &str) -> FieldSet {
    let paths: &[&[&str]] = match (kind, subresource) {
        ("Blob" | "ConfigMap", _) => &[],
        (_, "") => &[&["status"]],
        ("Widget", _) => &[&["metadata"], &["spec"]],
        ("Deployment", _) => &[&["spec"], &["metadata", "labels"]],
        (_, _) => &[
            &["spec"],
            &["metadata", "deletionTimestamp"],
            &["metadata", "ownerReferences"],
        ],
    };
    let paths: Vec<_> = paths
        .iter()
        .map(|path| Path::of_fields(path.iter().copied()))
        .collect();
    FieldSet::from_paths(&paths)
}

fn managers(object: &Value) -> Value {
    object["metadata"]["managedFields"].clone()
}

/// The time of the write: the latest that the answer shows.
fn time(answer: Option<&Value>) -> String {
    let list = answer.map(managers).unwrap_or_default();
    let times = list
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|entry| entry["time"].as_str());
    times.max().unwrap_or("2000-01-01T00:00:00Z").to_owned()
}

/// Without what the server alone decides.
fn comparable(object: &Value) -> Value {
    let mut object = whole_numbers(object);
    object.as_object_mut().map(|object| object.remove("status"));
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for name in [
            "managedFields",
            "resourceVersion",
            "generation",
            "creationTimestamp",
            "uid",
            "namespace",
        ] {
            metadata.remove(name);
        }
    }
    object
}

/// With whole amounts as integers, which is how the server writes them.
fn whole_numbers(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(whole_numbers).collect(),
        Value::Object(map) => map
            .iter()
            .map(|(name, value)| (name.clone(), whole_numbers(value)))
            .collect(),
        value if value.as_f64() == Some(1.0) => 1.into(),
        other => other.clone(),
    }
}

/// The defaults of the recorded custom resource, and of built-in kinds what the answer has more.
fn defaulted(kind: &str, mut object: Value, answer: &Value) -> Value {
    if kind == "Widget" {
        let ports = object
            .pointer_mut("/spec/ports")
            .and_then(Value::as_array_mut);
        for port in ports.into_iter().flatten().filter_map(Value::as_object_mut) {
            port.entry("protocol").or_insert("TCP".into());
        }
        object
    } else if is_custom(kind) {
        object
    } else {
        let mut stored = answer.clone();
        // Set by admission, after the managers.
        for name in ["preemptionPolicy", "priority"] {
            stored
                .get_mut("spec")
                .and_then(Value::as_object_mut)
                .map(|spec| spec.remove(name));
        }
        let metadata = stored["metadata"].as_object_mut().expect("metadata");
        match object["metadata"].get("managedFields") {
            Some(list) => metadata.insert("managedFields".into(), list.clone()),
            None => metadata.remove("managedFields"),
        };
        stored
    }
}

/// Whether everything of the first is in the second, which may have more fields.
fn within(part: &Value, whole: &Value) -> bool {
    match (part, whole) {
        (Value::Object(part), Value::Object(whole)) => {
            part.iter().all(|(name, part)| match whole.get(name) {
                Some(whole) => within(part, whole),
                None => {
                    part.is_null()
                        || part.as_object().is_some_and(Map::is_empty)
                        || part.as_array().is_some_and(Vec::is_empty)
                }
            })
        }
        (Value::Array(part), Value::Array(whole)) => {
            part.len() == whole.len()
                && part
                    .iter()
                    .zip(whole)
                    .all(|(part, whole)| within(part, whole))
        }
        _ => part == whole,
    }
}

struct Replay<'a> {
    kind: &'a str,
    shape: Shape,
    live: Option<Value>,
}

impl Replay<'_> {
    fn step(&self, step: &Step) -> Result<(), String> {
        let reset_fields = reset_fields(self.kind, &step.subresource);
        let time = time(step.answer.as_ref());
        let context = Context {
            manager: &step.manager,
            api_version: &step.api_version,
            subresource: &step.subresource,
            time: &time,
            reset_fields: &reset_fields,
        };
        match step.verb.as_str() {
            "apply" => self.apply(step, &context),
            "create" => self.write(step, None, Ok(step.body.clone()), &context),
            "update" => self.write(step, self.live.as_ref(), Ok(step.body.clone()), &context),
            _ => self.write(step, self.live.as_ref(), self.patch(step), &context),
        }
    }

    fn patch(&self, step: &Step) -> Result<Value, PatchError> {
        let mut document = self.live.clone().expect("an object to patch");
        // The server sends a patch the object in the version of the request.
        document["apiVersion"] = step.api_version.clone().into();
        match step.verb.as_str() {
            "json" => json_patch::apply(&mut document, &step.body).map(|()| document),
            "merge" => {
                merge_patch::apply(&mut document, &step.body);
                Ok(document)
            }
            _ => strategic::apply(&self.shape, &document, &step.body),
        }
    }

    fn write(
        &self,
        step: &Step,
        live: Option<&Value>,
        new: Result<Value, PatchError>,
        context: &Context<'_>,
    ) -> Result<(), String> {
        let new = match (new, &step.answer) {
            (Ok(new), Some(_)) => new,
            // Validation and conflicts are the caller's.
            (Ok(_), None) if matches!(step.status, 404 | 409 | 422) => return Ok(()),
            (Err(error), None) if error.code() == step.status => {
                // The server does not report why a patch is unprocessable.
                let is_same = step.status == 422 || error.to_string() == step.message;
                return if is_same {
                    Ok(())
                } else {
                    Err(format!("said\n{error}\nnot\n{}", step.message))
                };
            }
            (new, _) => {
                return Err(format!(
                    "answered {new:?}, not {} {}",
                    step.status, step.message
                ));
            }
        };
        let answer = step.answer.as_ref().expect("an answer");
        if !matches!(step.verb.as_str(), "create" | "update") && step.subresource.is_empty() {
            let (actual, expected) = (comparable(&new), comparable(answer));
            if !within(&actual, &expected)
                || (is_custom(self.kind)
                    && comparable(&defaulted(self.kind, new.clone(), answer)) != expected)
            {
                return Err(format!("made\n{actual}\nnot\n{expected}"));
            }
        }
        let mut stored = defaulted(self.kind, new, answer);
        managed::update(&self.shape, live, &mut stored, context);
        equal_managers(&stored, answer)
    }

    fn apply(&self, step: &Step, context: &Context<'_>) -> Result<(), String> {
        let applied = managed::apply(
            &self.shape,
            self.live.as_ref(),
            &step.body,
            context,
            step.force,
        );
        match (applied, &step.answer) {
            (Ok(object), Some(answer)) => {
                equal_managers(&object, answer)?;
                let actual = defaulted(self.kind, object, answer);
                if step.subresource.is_empty() && !within(&comparable(&actual), &comparable(answer))
                {
                    return Err(format!(
                        "made\n{}\nnot\n{}",
                        comparable(&actual),
                        comparable(answer)
                    ));
                }
                Ok(())
            }
            (Ok(_), None) if step.status == 422 => Ok(()),
            (Err(error), None)
                if error.code() == step.status && error.to_string() == step.message =>
            {
                let causes = if let ApplyError::Conflicts(conflicts) = error {
                    conflicts.causes()
                } else {
                    Vec::new()
                };
                let causes: Vec<_> = causes
                    .iter()
                    .map(|cause| serde_json::json!({"reason": cause.reason, "message": cause.message, "field": cause.field}))
                    .collect();
                if causes == step.causes {
                    Ok(())
                } else {
                    Err(format!("gave causes {causes:?}"))
                }
            }
            (outcome, _) => Err(format!(
                "answered {outcome:?}, not {} {}",
                step.status, step.message
            )),
        }
    }
}

fn equal_managers(actual: &Value, answer: &Value) -> Result<(), String> {
    let (actual, expected) = (managers(actual), managers(answer));
    if actual == expected {
        Ok(())
    } else {
        Err(format!("made managers\n{actual}\nnot\n{expected}"))
    }
}

#[test]
fn a_real_server_answers_the_same() {
    let sequences: Vec<Sequence> = read(include_str!("recorded/sequences.json"));
    let mut differences = String::new();
    let mut steps = 0;
    for sequence in sequences {
        let mut replay = Replay {
            kind: &sequence.kind,
            shape: shape(&sequence.kind),
            live: None,
        };
        for (index, step) in sequence.steps.iter().enumerate() {
            steps += 1;
            if let Err(difference) = replay.step(step) {
                let _ = writeln!(
                    differences,
                    "{} ({index}, {}): {difference}\n",
                    sequence.title, step.verb
                );
            }
            if let Some(answer) = &step.answer {
                replay.live = Some(answer.clone());
            }
        }
    }
    assert!(steps > 200, "only {steps} steps");
    assert!(differences.is_empty(), "{differences}");
}
