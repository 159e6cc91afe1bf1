//! Compiled schema: patterns and rules are parsed once.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

use cel::DataType;
use regex::Regex;
use serde::Deserialize;
use serde_json::Value;
use thiserror::Error;

use crate::{
    path::Path,
    rules::{self, Rule},
    structural::format,
};

#[derive(Debug, Error)]
pub enum CompileError {
    /// Not a valid JSON schema.
    #[error("schema of {path:?}: {source}")]
    Schema {
        path: String,
        source: serde_json::Error,
    },
    #[error("pattern of {path:?}: {message}")]
    Pattern { path: String, message: String },
    #[error("rule {rule:?} of {path:?}: {message}")]
    Rule {
        path: String,
        rule: String,
        message: String,
    },
}

#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "they are the keywords of schemas"
)]
pub(crate) struct Node {
    pub(crate) type_: Option<Type>,
    pub(crate) format: Option<String>,
    pub(crate) int_or_string: bool,
    pub(crate) nullable: bool,
    pub(crate) preserve_unknown_fields: bool,
    pub(crate) embedded_resource: bool,
    pub(crate) default: Option<Value>,
    pub(crate) properties: BTreeMap<String, Node>,
    pub(crate) additional_properties: AdditionalProperties,
    pub(crate) items: Option<Box<Node>>,
    pub(crate) list: ListType,
    pub(crate) required: Vec<String>,
    pub(crate) enumeration: Option<Vec<Value>>,
    pub(crate) pattern: Option<Regex>,
    pub(crate) bounds: Bounds,
    pub(crate) junctors: Option<Box<Junctors>>,
    pub(crate) rules: Vec<Rule>,
    /// Type in rules, which is made when a rule needs it.
    data: OnceLock<Option<Arc<DataType>>>,
    /// What this value or its descendants have; parts without anything to check are not walked.
    pub(crate) subtree: Subtree,
}

/// `additionalProperties`.
#[derive(Debug)]
pub(crate) enum AdditionalProperties {
    Unspecified,
    Allowed(bool),
    Schema(Box<Node>),
}

impl AdditionalProperties {
    pub(crate) fn schema(&self) -> Option<&Node> {
        match self {
            Self::Schema(schema) => Some(schema),
            Self::Unspecified | Self::Allowed(_) => None,
        }
    }

    pub(crate) fn is_specified(&self) -> bool {
        !matches!(self, Self::Unspecified)
    }
}

/// `allOf`, `anyOf`, `oneOf` and `not`.
#[derive(Debug, Default)]
pub(crate) struct Junctors {
    pub(crate) all_of: Vec<Node>,
    pub(crate) any_of: Vec<Node>,
    pub(crate) one_of: Vec<Node>,
    pub(crate) not: Option<Node>,
}

/// Features used by a value or its descendants.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent features")]
pub(crate) struct Subtree {
    pub(crate) rules: bool,
    pub(crate) lists: bool,
    pub(crate) embedded: bool,
    pub(crate) defaults: bool,
}

impl Subtree {
    fn or(self, other: Self) -> Self {
        Self {
            rules: self.rules || other.rules,
            lists: self.lists || other.lists,
            embedded: self.embedded || other.embedded,
            defaults: self.defaults || other.defaults,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Type {
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
}

impl Type {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Object => "object",
            Self::Array => "array",
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
        }
    }
}

/// `x-kubernetes-list-type`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum ListType {
    #[default]
    Atomic,
    Set,
    Map(Vec<String>),
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Bounds {
    pub(crate) minimum: Option<f64>,
    pub(crate) maximum: Option<f64>,
    pub(crate) exclusive_minimum: bool,
    pub(crate) exclusive_maximum: bool,
    pub(crate) min_length: Option<u64>,
    pub(crate) max_length: Option<u64>,
    pub(crate) min_items: Option<u64>,
    pub(crate) max_items: Option<u64>,
    pub(crate) min_properties: Option<u64>,
    pub(crate) max_properties: Option<u64>,
    pub(crate) multiple_of: Option<f64>,
}

/// Schema as JSON.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "they are the keywords of schemas"
)]
struct RawSchema {
    #[serde(rename = "type")]
    type_: Option<Type>,
    format: Option<String>,
    nullable: bool,
    default: Option<Value>,
    properties: BTreeMap<String, Value>,
    additional_properties: Option<Value>,
    items: Option<Value>,
    required: Vec<String>,
    #[serde(rename = "enum")]
    enumeration: Option<Vec<Value>>,
    pattern: Option<String>,
    all_of: Vec<Value>,
    any_of: Vec<Value>,
    one_of: Vec<Value>,
    not: Option<Value>,
    #[serde(flatten)]
    bounds: Bounds,
    #[serde(rename = "x-kubernetes-int-or-string")]
    int_or_string: bool,
    #[serde(rename = "x-kubernetes-preserve-unknown-fields")]
    preserve_unknown_fields: bool,
    #[serde(rename = "x-kubernetes-embedded-resource")]
    embedded_resource: bool,
    #[serde(rename = "x-kubernetes-list-type")]
    list_type: Option<String>,
    #[serde(rename = "x-kubernetes-list-map-keys")]
    list_map_keys: Vec<String>,
    #[serde(rename = "x-kubernetes-validations")]
    rules: Vec<RawRule>,
}

/// Rule as JSON.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RawRule {
    pub(crate) rule: String,
    pub(crate) message: Option<String>,
    pub(crate) message_expression: Option<String>,
    pub(crate) field_path: Option<String>,
    pub(crate) reason: Option<String>,
    #[serde(default)]
    pub(crate) optional_old_self: Option<bool>,
}

impl Node {
    pub(crate) fn compile(schema: &Value, path: &Path<'_>) -> Result<Self, CompileError> {
        let written = RawSchema::deserialize(schema).map_err(|source| CompileError::Schema {
            path: path.to_string(),
            source,
        })?;
        let additional_properties = match &written.additional_properties {
            Some(Value::Bool(allowed)) => AdditionalProperties::Allowed(*allowed),
            Some(values @ Value::Object(_)) => {
                AdditionalProperties::Schema(Box::new(Self::compile(values, &path.key("*"))?))
            }
            _ => AdditionalProperties::Unspecified,
        };
        let items = match &written.items {
            Some(items) => Some(Box::new(Self::compile(items, &path.key("*"))?)),
            None => None,
        };
        let mut properties = BTreeMap::new();
        for (name, schema) in &written.properties {
            properties.insert(name.clone(), Self::compile(schema, &path.child(name))?);
        }
        let pattern = written
            .pattern
            .as_deref()
            .map(cel::compile_pattern)
            .transpose();
        let list = match written.list_type.as_deref() {
            Some("set") => ListType::Set,
            Some("map") => ListType::Map(written.list_map_keys),
            _ => ListType::Atomic,
        };
        let junctors = Junctors::compile(
            [&written.all_of, &written.any_of, &written.one_of],
            written.not.as_ref(),
            path,
        )?;
        let mut node = Self {
            format: written
                .format
                .filter(|format| format::is_known(written.type_, written.int_or_string, format)),
            type_: written.type_,
            int_or_string: written.int_or_string,
            nullable: written.nullable,
            preserve_unknown_fields: written.preserve_unknown_fields,
            embedded_resource: written.embedded_resource,
            default: written.default.filter(|default| !default.is_null()),
            subtree: Subtree {
                rules: !written.rules.is_empty(),
                lists: !matches!(list, ListType::Atomic),
                embedded: written.embedded_resource,
                defaults: false,
            },
            properties,
            additional_properties,
            items,
            list,
            required: written.required,
            enumeration: written.enumeration.filter(|values| !values.is_empty()),
            pattern: pattern.map_err(|message| CompileError::Pattern {
                path: path.to_string(),
                message,
            })?,
            bounds: written.bounds,
            junctors,
            rules: Vec::new(),
            data: OnceLock::new(),
        };
        node.rules = written
            .rules
            .into_iter()
            .map(|rule| Rule::compile(rule, &node, path))
            .collect::<Result<_, _>>()?;
        node.subtree = node.children().fold(node.subtree, |subtree, child| {
            let has_default = Subtree {
                defaults: child.default.is_some(),
                ..Subtree::default()
            };
            subtree.or(child.subtree).or(has_default)
        });
        Ok(node)
    }

    /// Type of the values in rules; `None` if rules cannot see them.
    pub(crate) fn data(&self) -> Option<Arc<DataType>> {
        let data = || rules::data::of(self, self.embedded_resource);
        self.data.get_or_init(data).clone()
    }

    fn children(&self) -> impl Iterator<Item = &Self> {
        self.properties
            .values()
            .chain(self.additional_properties.schema())
            .chain(self.items.as_deref())
    }

    /// Whether kube-apiserver drops a null here.
    pub(crate) fn drops(&self, value: &Value) -> bool {
        value.is_null() && !self.nullable
    }

    /// `None` if the schema does not have the field.
    pub(crate) fn field(&self, name: &str) -> Option<&Self> {
        self.properties
            .get(name)
            .or(self.additional_properties.schema())
    }

    /// Schema of a field and its path; `None` if the schema does not have the field.
    pub(crate) fn field_at<'a>(
        &self,
        name: &'a str,
        path: &'a Path<'a>,
    ) -> Option<(&Self, Path<'a>)> {
        match self.properties.get(name) {
            Some(schema) => Some((schema, path.child(name))),
            None => Some((self.additional_properties.schema()?, path.key(name))),
        }
    }
}

impl Junctors {
    fn compile(
        [all_of, any_of, one_of]: [&Vec<Value>; 3],
        not: Option<&Value>,
        path: &Path<'_>,
    ) -> Result<Option<Box<Self>>, CompileError> {
        if all_of.is_empty() && any_of.is_empty() && one_of.is_empty() && not.is_none() {
            return Ok(None);
        }
        let compile = |schemas: &[Value]| {
            schemas
                .iter()
                .map(|schema| Node::compile(schema, path))
                .collect::<Result<Vec<_>, _>>()
        };
        Ok(Some(Box::new(Self {
            all_of: compile(all_of)?,
            any_of: compile(any_of)?,
            one_of: compile(one_of)?,
            not: not.map(|schema| Node::compile(schema, path)).transpose()?,
        })))
    }
}
