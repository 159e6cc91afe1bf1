use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// An amount as a number of bytes, or as a Kubernetes quantity.
///
/// IntOrString of the core API cannot be used: its integers have 32 bits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum QuantityValue {
    /// A number of bytes.
    Bytes(i64),
    /// A quantity, such as `4Gi`.
    Quantity(String),
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
