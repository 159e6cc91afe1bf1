//! A schema, compiled: patterns and rules are parsed once.

use std::collections::BTreeMap;

use regex::Regex;
use serde::Deserialize;
use serde_json::Value;
use thiserror::Error;

use crate::{cel::Rule, path::Path, structural::format};

/// Why a schema cannot be used.
#[derive(Debug, Error)]
pub enum CompileError {
    /// A part of it is not written as schemas are.
    #[error("schema of {path:?}: {source}")]
    Schema {
        /// The field that the part is about.
        path: String,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// A pattern is not a regular expression.
    #[error("pattern of {path:?}: {source}")]
    Pattern {
        /// The field that the pattern is about.
        path: String,
        /// What is wrong with it.
        source: Box<regex::Error>,
    },
    /// A CEL rule cannot be parsed.
    #[error("rule {rule:?} of {path:?}: {message}")]
    Rule {
        /// The field that the rule is about.
        path: String,
        rule: String,
        /// What is wrong with it.
        message: String,
    },
    /// A CEL rule is longer or deeper than is evaluated safely.
    #[error("rule of {path:?}: {detail}")]
    RuleTooLarge {
        /// The field that the rule is about.
        path: String,
        /// In what way.
        detail: &'static str,
    },
}

/// The schema of one value.
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
    /// Whether this value or one below it has rules, a list that is a set or map, or an embedded
    /// resource: where there is nothing to look at, an object is not walked through.
    pub(crate) below: Below,
}

/// What a schema says about fields that it does not name.
#[derive(Debug)]
pub(crate) enum AdditionalProperties {
    /// Nothing.
    Unspecified,
    /// They may be there, or not.
    Allowed(bool),
    /// They are like this.
    Schema(Box<Node>),
}

impl AdditionalProperties {
    pub(crate) fn schema(&self) -> Option<&Node> {
        match self {
            Self::Schema(schema) => Some(schema),
            Self::Unspecified | Self::Allowed(_) => None,
        }
    }

    /// Whether anything is said.
    pub(crate) fn is_specified(&self) -> bool {
        !matches!(self, Self::Unspecified)
    }
}

/// Schemas that are combined: they only say more about the same value.
#[derive(Debug, Default)]
pub(crate) struct Junctors {
    pub(crate) all_of: Vec<Node>,
    pub(crate) any_of: Vec<Node>,
    pub(crate) one_of: Vec<Node>,
    pub(crate) not: Option<Node>,
}

/// What is to be found at a value or below it.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is looked for alone")]
pub(crate) struct Below {
    pub(crate) rules: bool,
    pub(crate) lists: bool,
    pub(crate) embedded: bool,
    pub(crate) defaults: bool,
}

impl Below {
    fn or(self, other: Self) -> Self {
        Self {
            rules: self.rules || other.rules,
            lists: self.lists || other.lists,
            embedded: self.embedded || other.embedded,
            defaults: self.defaults || other.defaults,
        }
    }
}

/// The type of a value.
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
    /// The word for it.
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

/// How the items of a list are told apart.
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

/// A schema as it is written.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "they are the keywords of schemas"
)]
struct Written {
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
    rules: Vec<WrittenRule>,
}

/// A CEL rule as it is written.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WrittenRule {
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
        let written = Written::deserialize(schema).map_err(|source| CompileError::Schema {
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
        let pattern = written.pattern.as_deref().map(Regex::new).transpose();
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
            below: Below {
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
            pattern: pattern.map_err(|source| CompileError::Pattern {
                path: path.to_string(),
                source: Box::new(source),
            })?,
            bounds: written.bounds,
            junctors,
            rules: Vec::new(),
        };
        node.rules = written
            .rules
            .into_iter()
            .map(|rule| Rule::compile(rule, &node, path))
            .collect::<Result<_, _>>()?;
        node.below = node.children().fold(node.below, |below, child| {
            let has_default = Below {
                defaults: child.default.is_some(),
                ..Below::default()
            };
            below.or(child.below).or(has_default)
        });
        Ok(node)
    }

    fn children(&self) -> impl Iterator<Item = &Self> {
        self.properties
            .values()
            .chain(self.additional_properties.schema())
            .chain(self.items.as_deref())
    }

    /// Whether a null here counts as absent, as the API server drops it.
    pub(crate) fn drops(&self, value: &Value) -> bool {
        value.is_null() && !self.nullable
    }

    /// The schema of a field, if the schema says anything about it.
    pub(crate) fn field(&self, name: &str) -> Option<&Self> {
        self.properties
            .get(name)
            .or(self.additional_properties.schema())
    }

    /// The schema of a field and where it is, if the schema says anything about it.
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
