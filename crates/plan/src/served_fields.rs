//! Fields of our resources that the API server stores, from the served definitions.
//!
//! The definitions may belong to someone else, such as the chart of the Viti stack, and lack fields that the
//! operator writes. The API server refuses an apply with such a field, and drops it from other writes.
//!
//! Guarantees:
//! - a pruned body has only fields that the definition has, with values of their types;
//! - with definitions that have all fields, nothing is pruned or copied.

#[cfg(test)]
mod tests;

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use api::{API_VERSION, MachineStatus, NetworkConfigurationSpec, NetworkConfigurationStatus, crds};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

const SPEC: &str = "spec";
const STATUS: &str = "status";

/// Definition of Machines.
pub const MACHINES: &str = "machines.vitistack.io";
/// Definition of NetworkConfigurations.
pub const NETWORKS: &str = "networkconfigurations.vitistack.io";

/// Fields of the resources that the operator writes. By default, and as long as a definition is not known,
/// all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServedFields {
    /// Schema of Machines; none if it has all fields.
    machine: Option<Arc<Fields>>,
    /// Schema of NetworkConfigurations; none if it has all fields.
    network: Option<Arc<Fields>>,
}

impl ServedFields {
    /// Adopts the definition of a kind. Returns the fields that it lacks, as paths.
    pub fn adopt(&mut self, name: &str, definition: &Value) -> Vec<String> {
        let kind = match name {
            MACHINES => &mut self.machine,
            NETWORKS => &mut self.network,
            _ => return Vec::new(),
        };
        let mut own = crds().into_iter();
        let own = own.find(|own| own.metadata.name.as_deref() == Some(name));
        let own = serde_json::to_value(own).unwrap_or_default();
        let own = Fields::of_definition(&own).unwrap_or_default();
        let served = Fields::of_definition(definition).unwrap_or_default();
        let lacking = served.lacking(&own);
        *kind = (!lacking.is_empty()).then(|| Arc::new(served));
        lacking
    }

    /// A status as the API server stores it.
    pub(crate) fn machine_status<'a>(
        &self,
        status: Cow<'a, MachineStatus>,
    ) -> Cow<'a, MachineStatus> {
        match &self.machine {
            None => status,
            Some(schema) => Cow::Owned(pruned(schema, STATUS, status.into_owned())),
        }
    }

    /// A status as the API server stores it.
    pub(crate) fn network_status(
        &self,
        status: NetworkConfigurationStatus,
    ) -> NetworkConfigurationStatus {
        match &self.network {
            None => status,
            Some(schema) => pruned(schema, STATUS, status),
        }
    }

    pub(crate) fn has_all_of_networks(&self) -> bool {
        self.network.is_none()
    }

    /// Whether a NetworkConfiguration can be marked as this operator's.
    pub(crate) fn has_network_provider(&self) -> bool {
        self.network.as_ref().is_none_or(|schema| {
            let spec = schema.properties.get(SPEC);
            spec.is_some_and(|spec| spec.is_open || spec.field("provider").is_some())
        })
    }

    /// A spec as the API server stores it.
    pub(crate) fn network_spec(&self, spec: NetworkConfigurationSpec) -> NetworkConfigurationSpec {
        match &self.network {
            None => spec,
            Some(schema) => pruned(schema, SPEC, spec),
        }
    }
}

/// A part of a resource without the fields that a schema lacks.
fn pruned<T: Serialize + DeserializeOwned>(schema: &Fields, part: &str, content: T) -> T {
    let Ok(mut value) = serde_json::to_value(&content) else {
        return content;
    };
    match schema.properties.get(part) {
        Some(part) => part.prune(&mut value),
        None if schema.is_open => {}
        None => value = Value::Object(serde_json::Map::new()),
    }
    // A type whose required field is pruned stays whole: the API server then says what is wrong.
    serde_json::from_value(value).unwrap_or(content)
}

/// Structure of a schema: names and types of fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Fields {
    types: Types,
    properties: BTreeMap<String, Fields>,
    /// Schema of list items, or of a map's values.
    items: Option<Box<Fields>>,
    /// Whether unknown fields are preserved.
    is_open: bool,
}

/// Values that a field accepts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Types {
    #[default]
    Any,
    Text,
    Integer,
    Number,
    Boolean,
    IntegerOrText,
    Object,
    List,
}

impl Types {
    fn of(schema: &Value) -> Self {
        if schema["x-kubernetes-int-or-string"] == true {
            return Self::IntegerOrText;
        }
        match schema["type"].as_str() {
            Some("string") => Self::Text,
            Some("integer") => Self::Integer,
            Some("number") => Self::Number,
            Some("boolean") => Self::Boolean,
            Some("object") => Self::Object,
            Some("array") => Self::List,
            _ => Self::Any,
        }
    }

    fn accepts(self, value: &Value) -> bool {
        match self {
            Self::Any => true,
            Self::Text => value.is_string(),
            Self::Integer => value.is_i64() || value.is_u64(),
            Self::Number => value.is_number(),
            Self::Boolean => value.is_boolean(),
            Self::IntegerOrText => value.is_string() || value.is_i64() || value.is_u64(),
            Self::Object => value.is_object(),
            Self::List => value.is_array(),
        }
    }

    /// Whether every value of `other` is accepted.
    fn includes(self, other: Self) -> bool {
        self == other
            || match self {
                Self::Any => true,
                Self::Number => other == Self::Integer,
                Self::IntegerOrText => matches!(other, Self::Integer | Self::Text),
                _ => false,
            }
    }
}

impl Fields {
    /// The structure of the version of a CustomResourceDefinition that the operator uses, if it has a schema.
    fn of_definition(definition: &Value) -> Option<Self> {
        let versions = definition.pointer("/spec/versions")?.as_array()?;
        let mut versions = versions.iter();
        let (_, used) = API_VERSION.split_once('/')?;
        let version = versions.find(|version| version["name"] == used)?;
        let schema = version.pointer("/schema/openAPIV3Schema")?;
        Some(Self::of(schema))
    }

    fn of(schema: &Value) -> Self {
        let properties = schema["properties"].as_object().into_iter().flatten();
        let items = [&schema["items"], &schema["additionalProperties"]];
        let items = items.into_iter().find(|items| items.is_object());
        Self {
            types: Types::of(schema),
            properties: properties
                .map(|(name, schema)| (name.clone(), Self::of(schema)))
                .collect(),
            items: items.map(|items| Box::new(Self::of(items))),
            is_open: schema["x-kubernetes-preserve-unknown-fields"] == true,
        }
    }

    /// Removes what the schema lacks. A field whose type is another counts as lacking.
    fn prune(&self, value: &mut Value) {
        match value {
            Value::Object(fields) => {
                fields.retain(|name, value| match self.field(name) {
                    Some(field) => {
                        field.prune(value);
                        field.types.accepts(value)
                    }
                    None => self.is_open,
                });
            }
            Value::Array(items) => {
                if let Some(field) = &self.items {
                    for item in items {
                        field.prune(item);
                    }
                }
            }
            _ => {}
        }
    }

    fn field(&self, name: &str) -> Option<&Self> {
        self.properties.get(name).or(self.items.as_deref())
    }

    /// Fields of `wanted` that this schema lacks, as paths. A field that is missing stands for those below it.
    fn lacking(&self, wanted: &Self) -> Vec<String> {
        let mut paths = Vec::new();
        self.collect_lacking(wanted, "", &mut paths);
        paths
    }

    fn collect_lacking(&self, wanted: &Self, path: &str, paths: &mut Vec<String>) {
        for (name, wanted) in &wanted.properties {
            let path = match path {
                "" => name.clone(),
                path => format!("{path}.{name}"),
            };
            match self.field(name) {
                Some(field) if field.types.includes(wanted.types) => {
                    field.collect_lacking(wanted, &path, paths);
                }
                Some(_) => paths.push(format!("{path} (of another type)")),
                None if self.is_open => {}
                None => paths.push(path),
            }
        }
        match (&self.items, &wanted.items) {
            (Some(items), Some(wanted)) => {
                items.collect_lacking(wanted, &format!("{path}[]"), paths);
            }
            (None, Some(_)) if !self.is_open => paths.push(format!("{path}[]")),
            _ => {}
        }
    }
}
