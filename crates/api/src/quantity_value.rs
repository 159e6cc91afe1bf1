//! Amounts as a number of bytes or as a quantity.

use std::{borrow::Cow, fmt};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, de::Visitor};

/// A number of bytes, or a Kubernetes quantity.
///
/// Not the core API's IntOrString, whose integers have 32 bits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum QuantityValue {
    Bytes(i64),
    /// A quantity, such as `4Gi`.
    Quantity(String),
}

impl<'de> Deserialize<'de> for QuantityValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AmountVisitor)
    }
}

struct AmountVisitor;

impl Visitor<'_> for AmountVisitor {
    type Value = QuantityValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number of bytes, or a quantity such as 4Gi")
    }

    fn visit_i64<E>(self, bytes: i64) -> Result<QuantityValue, E> {
        Ok(QuantityValue::Bytes(bytes))
    }

    fn visit_u64<E>(self, bytes: u64) -> Result<QuantityValue, E> {
        // What does not fit is a quantity too, if a large one.
        Ok(i64::try_from(bytes).map_or_else(
            |_| QuantityValue::Quantity(bytes.to_string()),
            QuantityValue::Bytes,
        ))
    }

    fn visit_str<E>(self, text: &str) -> Result<QuantityValue, E> {
        Ok(QuantityValue::Quantity(text.to_owned()))
    }
}

impl JsonSchema for QuantityValue {
    fn schema_name() -> Cow<'static, str> {
        "QuantityValue".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "x-kubernetes-int-or-string": true, "maxLength": 32 })
    }
}
