//! A schema, compiled: patterns and rules are parsed once.

use std::collections::BTreeMap;

use regex::Regex;
use serde::Deserialize;
use serde_json::Value;
use thiserror::Error;

use crate::{cel::Rule, path::Path};

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
        /// The rule.
        rule: String,
        /// What is wrong with it.
        message: String,
    },
    /// A keyword is used that this crate does not hold objects against.
    #[error("schema of {path:?}: {keyword} is not supported")]
    Unsupported {
        /// The field that the schema is about.
        path: String,
        /// The keyword.
        keyword: &'static str,
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
    pub(crate) properties: BTreeMap<String, Node>,
    pub(crate) additional_properties: Option<Box<Node>>,
    pub(crate) items: Option<Box<Node>>,
    pub(crate) list: ListType,
    pub(crate) required: Vec<String>,
    pub(crate) enumeration: Option<Vec<Value>>,
    pub(crate) pattern: Option<Regex>,
    pub(crate) bounds: Bounds,
    pub(crate) rules: Vec<Rule>,
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
    properties: BTreeMap<String, Value>,
    additional_properties: Option<Value>,
    items: Option<Value>,
    required: Vec<String>,
    #[serde(rename = "enum")]
    enumeration: Option<Vec<Value>>,
    pattern: Option<String>,
    all_of: Option<Value>,
    any_of: Option<Value>,
    one_of: Option<Value>,
    not: Option<Value>,
    multiple_of: Option<Value>,
    unique_items: Option<Value>,
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
}

impl Node {
    pub(crate) fn compile(schema: &Value, path: &Path) -> Result<Self, CompileError> {
        let written = Written::deserialize(schema).map_err(|source| CompileError::Schema {
            path: path.to_string(),
            source,
        })?;
        written.refuse_unsupported(path)?;
        let additional_properties = match &written.additional_properties {
            Some(values @ Value::Object(_)) => {
                Some(Box::new(Self::compile(values, &path.key("*"))?))
            }
            _ => None,
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
        let rules = written
            .rules
            .into_iter()
            .map(|rule| Rule::compile(rule, path));
        Ok(Self {
            type_: written.type_,
            format: written.format,
            int_or_string: written.int_or_string,
            nullable: written.nullable,
            preserve_unknown_fields: written.preserve_unknown_fields,
            embedded_resource: written.embedded_resource,
            properties,
            additional_properties,
            items,
            list: match written.list_type.as_deref() {
                Some("set") => ListType::Set,
                Some("map") => ListType::Map(written.list_map_keys),
                _ => ListType::Atomic,
            },
            required: written.required,
            enumeration: written.enumeration,
            pattern: pattern.map_err(|source| CompileError::Pattern {
                path: path.to_string(),
                source: Box::new(source),
            })?,
            bounds: written.bounds,
            rules: rules.collect::<Result<_, _>>()?,
        })
    }

    /// Whether a null here counts as absent, as the API server drops it.
    pub(crate) fn drops(&self, value: &Value) -> bool {
        value.is_null() && !self.nullable
    }

    /// The schema of a field and where it is, if the schema says anything about it.
    pub(crate) fn field_at(&self, name: &str, path: &Path) -> Option<(&Self, Path)> {
        match self.properties.get(name) {
            Some(schema) => Some((schema, path.child(name))),
            None => Some((self.additional_properties.as_deref()?, path.key(name))),
        }
    }

    /// The schema of a field, if the schema says anything about it.
    pub(crate) fn field(&self, name: &str) -> Option<&Self> {
        self.properties
            .get(name)
            .or(self.additional_properties.as_deref())
    }
}

impl Written {
    /// A keyword that is skipped silently would let pass what the API server refuses.
    fn refuse_unsupported(&self, path: &Path) -> Result<(), CompileError> {
        let keyword = [
            ("allOf", &self.all_of),
            ("anyOf", &self.any_of),
            ("oneOf", &self.one_of),
            ("not", &self.not),
            ("multipleOf", &self.multiple_of),
            ("uniqueItems", &self.unique_items),
        ]
        .into_iter()
        .find_map(|(keyword, value)| value.is_some().then_some(keyword));
        // The usual way to write that an integer or a string is wanted.
        match keyword {
            Some("anyOf") if self.int_or_string => Ok(()),
            Some(keyword) => Err(CompileError::Unsupported {
                path: path.to_string(),
                keyword,
            }),
            None => Ok(()),
        }
    }
}
