//! Recordings of the Viti stack's programs: the requests that they send, and what they read.
//!
//! A file of tests/fixtures/viti has the recordings of one program. A request is played as the program
//! sends it. A reading is a predicate of the program: fields of an object with what it requires of them.

use std::{collections::BTreeMap, net::Ipv4Addr, path::Path};

use kube::api::{Patch, PatchParams};
use serde::Deserialize;
use serde_json::Value;

use crate::scenario::Scenario;

/// Values of a run, by the name that recordings have for them.
pub(super) type Values<'a> = BTreeMap<&'a str, String>;

/// Recordings of a program.
#[derive(Deserialize)]
pub(super) struct Program {
    #[serde(default)]
    requests: BTreeMap<String, Request>,
    #[serde(default)]
    readings: BTreeMap<String, Reading>,
}

#[derive(Deserialize)]
struct Request {
    verb: Verb,
    kind: String,
    /// Name of a patched object.
    name: Option<String>,
    body: Value,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Verb {
    Create,
    /// A merge patch.
    Patch,
    /// A merge patch of the status.
    PatchStatus,
}

#[derive(Deserialize)]
struct Reading {
    kind: String,
    name: String,
    all: Vec<Check>,
}

/// What a program requires of a field.
#[derive(Deserialize)]
struct Check {
    path: String,
    #[serde(flatten)]
    expected: Expected,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Expected {
    Equals(Value),
    Is(Shape),
    /// An item of the list that passes all checks exists.
    Any(Vec<Check>),
    /// All items of the list pass all checks, if there is a list.
    Each(Vec<Check>),
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Shape {
    Text,
    /// A Go client fails to decode a whole list if an object has another type.
    IntegerOrAbsent,
    TextOrAbsent,
    Absent,
    /// A list whose first item is an IPv4 address.
    Ipv4First,
}

impl Program {
    pub(super) fn read(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/viti");
        let text = std::fs::read_to_string(folder.join(format!("{name}.yaml"))).unwrap();
        serde_saphyr::from_str(&text).unwrap()
    }

    /// Sends a request as the program does.
    pub(super) async fn send(&self, scenario: &Scenario, request: &str, values: &Values<'_>) {
        let request = &self.requests[request];
        let body = filled(&request.body, values);
        let name = fill(request.name.as_deref().unwrap_or_default(), values);
        let (api, params) = (scenario.api(&request.kind), PatchParams::default());
        match request.verb {
            Verb::Create => drop(scenario.create(&request.kind, body).await),
            Verb::Patch => drop(
                api.patch(&name, &params, &Patch::Merge(body))
                    .await
                    .unwrap(),
            ),
            Verb::PatchStatus => {
                let patch = Patch::Merge(body);
                drop(api.patch_status(&name, &params, &patch).await.unwrap());
            }
        }
    }

    /// Waits until an object passes all checks of a reading.
    pub(super) async fn until(
        &self,
        scenario: &Scenario,
        reading: &str,
        values: &Values<'_>,
    ) -> Value {
        let Reading { kind, name, all } = &self.readings[reading];
        let name = fill(name, values);
        let passes = |object: &Value| all.iter().all(|check| check.passes(object, values));
        scenario.until(kind, &name, passes).await
    }

    /// The checks of a reading that an object fails.
    pub(super) async fn failures(
        &self,
        scenario: &Scenario,
        reading: &str,
        values: &Values<'_>,
    ) -> Vec<String> {
        let Reading { kind, name, all } = &self.readings[reading];
        let object = scenario.get(kind, &fill(name, values)).await;
        let failed = all.iter().filter(|check| !check.passes(&object, values));
        let describe = |check: &Check| format!("{}: {:?}", check.path, object.pointer(&check.path));
        failed.map(describe).collect()
    }
}

impl Check {
    fn passes(&self, object: &Value, values: &Values<'_>) -> bool {
        let found = match self.path.as_str() {
            "" => Some(object),
            path => object.pointer(path),
        };
        let list = found.and_then(Value::as_array);
        let passes_all =
            |checks: &[Check], item| checks.iter().all(|check| check.passes(item, values));
        match &self.expected {
            Expected::Equals(expected) => found == Some(&filled(expected, values)),
            Expected::Is(shape) => shape.fits(found.filter(|value| !value.is_null())),
            Expected::Any(checks) => {
                list.is_some_and(|list| list.iter().any(|item| passes_all(checks, item)))
            }
            Expected::Each(checks) => {
                list.is_none_or(|list| list.iter().all(|item| passes_all(checks, item)))
            }
        }
    }
}

impl Shape {
    fn fits(self, found: Option<&Value>) -> bool {
        let is_text = |value: &Value| value.as_str().is_some_and(|text| !text.is_empty());
        match self {
            Self::Text => found.is_some_and(is_text),
            Self::IntegerOrAbsent => found.is_none_or(Value::is_i64),
            Self::TextOrAbsent => found.is_none_or(Value::is_string),
            Self::Absent => found.is_none(),
            Self::Ipv4First => {
                let first = found.and_then(|list| list.get(0)?.as_str());
                first.is_some_and(|text| text.parse::<Ipv4Addr>().is_ok())
            }
        }
    }
}

/// A recorded value with the values of a run.
fn filled(recorded: &Value, values: &Values<'_>) -> Value {
    match recorded {
        Value::String(text) => fill(text, values).into(),
        Value::Array(items) => items.iter().map(|item| filled(item, values)).collect(),
        Value::Object(fields) => {
            let fields = fields.iter();
            let filled = fields.map(|(name, value)| (name.clone(), filled(value, values)));
            Value::Object(filled.collect())
        }
        other => other.clone(),
    }
}

fn fill(text: &str, values: &Values<'_>) -> String {
    let mut text = text.to_owned();
    for (name, value) in values {
        text = text.replace(&format!("${name}"), value);
    }
    assert!(!text.contains('$'), "no value for {text}");
    text
}
