//! Common parts of objects that are only read.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::Value;

use crate::Time;

/// A part of an object, kept as text because it is only compared: a parsed tree takes several times the
/// memory. Null fields are dropped.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Json(Box<str>);

impl Json {
    /// Parses the text. Null if there is none.
    pub fn value(&self) -> Value {
        serde_json::from_str(&self.0).unwrap_or_default()
    }
}

impl From<&Value> for Json {
    fn from(value: &Value) -> Self {
        Self(value.to_string().into())
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut value = Value::deserialize(deserializer)?;
        decode::without_null(&mut value);
        Ok(match value {
            Value::Null => Self::default(),
            value => Self::from(&value),
        })
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.value().serialize(serializer)
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A condition of another component. KubeVirt and CDI leave out fields that Kubernetes requires.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObservedCondition {
    #[serde(rename = "type", default)]
    pub type_: String,
    #[serde(default)]
    pub status: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    #[serde(
        default,
        deserialize_with = "time_or_null",
        skip_serializing_if = "Option::is_none"
    )]
    pub last_transition_time: Option<Time>,
}

impl ObservedCondition {
    pub fn is_true(&self) -> bool {
        self.status == "True"
    }

    /// Not the opposite of [`Self::is_true`]: the status may be Unknown.
    pub fn is_false(&self) -> bool {
        self.status == "False"
    }
}

pub fn condition<'a>(
    conditions: &'a [ObservedCondition],
    type_: &str,
) -> Option<&'a ObservedCondition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

fn time_or_null<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Time>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    match text.as_deref() {
        None | Some("") => Ok(None),
        Some(text) => serde_json::from_value(Value::from(text))
            .map(Some)
            .map_err(D::Error::custom),
    }
}
