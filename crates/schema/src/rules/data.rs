//! Types of data for rules, from schemas.

use std::sync::Arc;

use cel::{DataType, FieldType, ListSemantics};
use serde_json::Value;

use crate::node::{ListType, Node, Type};

/// Type of the values of a schema; `None` if rules cannot see them. An object has a type and a name
/// whatever its schema says.
pub(crate) fn of(node: &Node, is_object: bool) -> Option<Arc<DataType>> {
    let bounds = &node.bounds;
    let data = if node.int_or_string {
        DataType::int_or_string(bounds.max_length)
    } else {
        match node.type_? {
            Type::Boolean => DataType::bool(),
            Type::Integer => DataType::int(),
            Type::Number => DataType::double(),
            Type::String => {
                DataType::string(node.format.as_deref(), bounds.max_length, longest(node))
            }
            Type::Array => {
                let items = node.items.as_ref()?.data()?;
                let semantics = match &node.list {
                    ListType::Atomic => ListSemantics::Atomic,
                    ListType::Set => ListSemantics::Set,
                    ListType::Map(keys) => ListSemantics::Map(keys.clone()),
                };
                DataType::list(items, semantics, bounds.max_items)
            }
            Type::Object => match node.additional_properties.schema() {
                Some(values) if !is_object => DataType::map(values.data()?, bounds.max_properties),
                _ => DataType::object(fields(node, is_object)),
            },
        }
    };
    Some(Arc::new(data.nullable(node.nullable)))
}

fn fields(node: &Node, is_object: bool) -> Vec<FieldType> {
    let mut fields = if is_object {
        DataType::type_and_name()
    } else {
        Vec::new()
    };
    let is_always = |name: &str| is_object && matches!(name, "apiVersion" | "kind" | "metadata");
    for (name, property) in &node.properties {
        if is_always(name) {
            continue;
        }
        if let Some(type_) = property.data() {
            fields.push(FieldType {
                name: name.clone(),
                type_,
                is_required: property.default.is_none() && node.required.contains(name),
            });
        }
    }
    fields
}

/// Bytes of the longest value of an enumeration.
fn longest(node: &Node) -> Option<u64> {
    let values = node.enumeration.as_ref()?;
    let lengths = values.iter().filter_map(Value::as_str);
    lengths.map(|text| text.len() as u64).max().or(Some(0))
}
