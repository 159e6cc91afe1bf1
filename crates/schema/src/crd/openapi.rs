//! Keywords that schemas must not use, or only in some places.

use serde_json::Value;

use super::{
    costs::{self, Total},
    defaults, internal,
    rules::{self, Place, Uncorrelatable},
    structural::{self, entries, items},
};
use crate::{Problem, Violation};

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
const META_FIELDS: [&str; 3] = ["metadata", "kind", "apiVersion"];
/// Keywords allowed at the root with a status subresource: Go name and JSON name.
const ALLOWED_AT_ROOT: [(&str, &str); 22] = [
    ("Description", "description"),
    ("Type", "type"),
    ("Format", "format"),
    ("Title", "title"),
    ("Maximum", "maximum"),
    ("ExclusiveMaximum", "exclusiveMaximum"),
    ("Minimum", "minimum"),
    ("ExclusiveMinimum", "exclusiveMinimum"),
    ("MaxLength", "maxLength"),
    ("MinLength", "minLength"),
    ("Pattern", "pattern"),
    ("MaxItems", "maxItems"),
    ("MinItems", "minItems"),
    ("UniqueItems", "uniqueItems"),
    ("MultipleOf", "multipleOf"),
    ("Required", "required"),
    ("Items", "items"),
    ("Properties", "properties"),
    ("ExternalDocs", "externalDocs"),
    ("Example", "example"),
    (
        "XPreserveUnknownFields",
        "x-kubernetes-preserve-unknown-fields",
    ),
    ("XValidations", "x-kubernetes-validations"),
];

pub(super) fn check(schema: &Value, has_status: bool, path: &str, found: &mut Vec<Violation>) {
    if has_status {
        check_root(schema, path, found);
    }
    if schema.get("nullable") == Some(&Value::Bool(true)) {
        found.push(Violation::forbidden(
            format!("{path}.nullable"),
            "nullable cannot be true at the root",
        ));
    }
    let before = found.len();
    found.extend(structural::check(schema, path));
    if found.len() == before {
        defaults::check(schema, path, found);
    }
    let is_structural = found.len() == before;
    let mut walk = Walk {
        found: Vec::new(),
        rules: Vec::new(),
        checks_rules: is_structural,
        total: Total::default(),
    };
    let context = SchemaContext {
        cardinality: Some(1),
        ..SchemaContext::default()
    };
    walk.check(schema, path, &context, true);
    found.append(&mut walk.found);
    found.append(&mut walk.rules);
    walk.total.check(path, found);
}

fn check_root(schema: &Value, path: &str, found: &mut Vec<Violation>) {
    let type_ = schema.get("type").and_then(Value::as_str).unwrap_or("");
    if !matches!(type_, "" | "object") {
        found.push(Violation::invalid(
            format!("{path}.type"),
            type_,
            "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled",
        ));
        return;
    }
    let is_allowed = |name: &str| ALLOWED_AT_ROOT.iter().any(|(_, known)| *known == name);
    let says = |value: &Value| !matches!(value, Value::Null | Value::Bool(false));
    if schema
        .as_object()
        .into_iter()
        .flatten()
        .any(|(name, value)| says(value) && !is_allowed(name))
    {
        let allowed: Vec<&str> = ALLOWED_AT_ROOT.iter().map(|(name, _)| *name).collect();
        found.push(Violation::invalid_shown(
            path,
            internal::schema(schema),
            format!(
                "only [{}] fields are allowed at the root of the schema if the status subresource is enabled",
                allowed.join(" ")
            ),
        ));
    }
}

#[derive(Clone, Default)]
struct SchemaContext {
    /// Why defaults are forbidden here.
    no_defaults: Option<String>,
    is_in_metadata: bool,
    /// List within which old values cannot be correlated.
    uncorrelatable: Uncorrelatable,
    /// How often there may be a value; `None` if that is not bounded.
    cardinality: Option<u64>,
}

struct Walk {
    found: Vec<Violation>,
    /// Violations of CEL rules are reported last.
    rules: Vec<Violation>,
    checks_rules: bool,
    /// Costs of the rules.
    total: Total,
}

impl Walk {
    fn check(&mut self, schema: &Value, path: &str, context: &SchemaContext, is_root: bool) {
        if !schema.is_object() {
            return;
        }
        let before = self.found.len();
        let own_cardinality = context.cardinality;
        self.check_keywords(schema, path, context);
        let context = &SchemaContext {
            cardinality: costs::cardinality_below(schema, own_cardinality),
            ..context.clone()
        };
        if let Some(values) = schema.get("additionalProperties") {
            let additional = format!("{path}.additionalProperties");
            let has_properties = entries(schema, "properties").next().is_some();
            if has_properties && *values != Value::Bool(true) {
                self.found.push(Violation::forbidden(
                    &additional,
                    "additionalProperties and properties are mutual exclusive",
                ));
            }
            let mut context = context.clone();
            if context.is_in_metadata {
                context.no_defaults =
                    Some("inside additionalProperties applying to object metadata".to_owned());
            }
            self.check(values, &additional, &context, false);
        }
        let is_embedded = schema.get("x-kubernetes-embedded-resource") == Some(&Value::Bool(true));
        for (name, property) in entries(schema, "properties") {
            let mut context = context.clone();
            if (is_root || is_embedded) && META_FIELDS.contains(&name) {
                context.is_in_metadata = true;
                if is_root {
                    context.no_defaults = Some(format!("in top-level {name}"));
                }
            }
            let path = format!("{path}.properties[{name}]");
            self.check(property, &path, &context, false);
        }
        if let Some(not) = schema.get("not") {
            self.check_nested(not, &format!("{path}.not"), context);
        }
        for name in ["allOf", "oneOf", "anyOf"] {
            for (index, nested) in items(schema, name).enumerate() {
                self.check_nested(nested, &format!("{path}.{name}[{index}]"), context);
            }
        }
        if let Some(list_items) = schema.get("items") {
            let mut context = context.clone();
            let is_map = schema.get("x-kubernetes-list-type") == Some(&"map".into());
            if !is_map && context.uncorrelatable.is_none() {
                context.uncorrelatable = Some(path.to_owned());
            }
            self.check(list_items, &format!("{path}.items"), &context, false);
        }
        self.check_list_and_map_types(schema, path);
        rules::check_form(schema, path, &mut self.found);
        if self.checks_rules && self.found.len() == before {
            let place = Place {
                path,
                is_object: is_root || is_embedded,
                uncorrelatable: &context.uncorrelatable,
                cardinality: own_cardinality,
            };
            rules::check(schema, &place, &mut self.total, &mut self.rules);
        }
    }

    /// Combined schemas cannot have rules.
    fn check_nested(&mut self, schema: &Value, path: &str, context: &SchemaContext) {
        let checks_rules = std::mem::replace(&mut self.checks_rules, false);
        self.check(schema, path, context, false);
        self.checks_rules = checks_rules;
    }

    fn check_keywords(&mut self, schema: &Value, path: &str, context: &SchemaContext) {
        let is_there = |name: &str| schema.get(name).is_some_and(|value| !value.is_null());
        let mut forbidden = |name: &str, detail: &str| {
            let path = format!("{path}.{name}");
            self.found.push(Violation::forbidden(path, detail));
        };
        let type_ = schema.get("type").and_then(Value::as_str).unwrap_or("");
        if is_there("default")
            && let Some(reason) = &context.no_defaults
        {
            forbidden("default", &format!("must not be set {reason}"));
        }
        for name in [
            "id",
            "additionalItems",
            "patternProperties",
            "definitions",
            "dependencies",
            "$ref",
        ] {
            if is_there(name) {
                forbidden(name, &format!("{name} is not supported"));
            }
        }
        if type_ == "null" {
            forbidden(
                "type",
                "type cannot be set to null, use nullable as an alternative",
            );
        }
        if schema.get("items").is_some_and(Value::is_array) {
            forbidden("items", "items must be a schema object and not an array");
        }
        let flag = |name: &str| schema.get(name) == Some(&Value::Bool(true));
        if context.is_in_metadata && flag("x-kubernetes-embedded-resource") {
            forbidden(
                "x-kubernetes-embedded-resource",
                "must not be used inside of resource meta",
            );
        }
        if flag("uniqueItems") {
            forbidden(
                "uniqueItems",
                "uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
            );
        }
        if !type_.is_empty() && !TYPES.contains(&type_) {
            let path = format!("{path}.type");
            self.found.push(Violation::unsupported(path, type_, &TYPES));
        }
        let keeps = "x-kubernetes-preserve-unknown-fields";
        if schema.get(keeps) == Some(&Value::Bool(false)) {
            let path = format!("{path}.{keeps}");
            self.found
                .push(Violation::invalid(path, false, "must be true or undefined"));
        }
    }

    fn check_list_and_map_types(&mut self, schema: &Value, path: &str) {
        let text = |schema: &Value, name: &str| {
            let text = schema.get(name).and_then(Value::as_str);
            text.map(str::to_owned)
        };
        let type_ = text(schema, "type").unwrap_or_default();
        let (map_type, list_type) = (
            text(schema, "x-kubernetes-map-type"),
            text(schema, "x-kubernetes-list-type"),
        );
        let found = &mut self.found;
        for (name, given, wanted) in [
            ("x-kubernetes-map-type", &map_type, "object"),
            ("x-kubernetes-list-type", &list_type, "array"),
        ] {
            if given.is_some() && type_ != wanted {
                let detail = format!("must be {wanted} if {name} is specified");
                let path = format!("{path}.type");
                found.push(if type_.is_empty() {
                    Violation::required(path, detail)
                } else {
                    Violation::invalid(path, type_.as_str(), detail)
                });
            }
        }
        for (name, given, supported) in [
            (
                "x-kubernetes-map-type",
                &map_type,
                ["atomic", "granular"].as_slice(),
            ),
            (
                "x-kubernetes-list-type",
                &list_type,
                &["atomic", "set", "map"],
            ),
        ] {
            if let Some(given) = given.as_deref().filter(|given| !supported.contains(given)) {
                let path = format!("{path}.{name}");
                found.push(Violation::unsupported(path, given, supported));
            }
        }
        let list_items = schema.get("items").unwrap_or(&Value::Null);
        if list_type.as_deref() == Some("set") && type_ == "array" {
            check_set(list_items, path, found);
        }
        let keys: Vec<&str> = items(schema, "x-kubernetes-list-map-keys")
            .filter_map(Value::as_str)
            .collect();
        if !keys.is_empty() && list_type.as_deref() != Some("map") {
            let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
            let path = format!("{path}.x-kubernetes-list-type");
            found.push(match &list_type {
                None => Violation::required(path, detail),
                Some(type_) => Violation::invalid(path, type_.as_str(), detail),
            });
        }
        if list_type.as_deref() == Some("map") {
            check_list_map(list_items, &keys, path, found);
        }
        if let Some(list_type @ ("set" | "map")) = list_type.as_deref()
            && list_items.get("nullable") == Some(&Value::Bool(true))
        {
            found.push(Violation::forbidden(
                format!("{path}.items.nullable"),
                format!("cannot be nullable when x-kubernetes-list-type is {list_type}"),
            ));
        }
        if list_type.as_deref() == Some("map") {
            check_keys(list_items, &keys, path, found);
        }
    }
}

/// Set items are compared as a whole, so they must be atomic.
fn check_set(list_items: &Value, path: &str, found: &mut Vec<Violation>) {
    const DETAIL: &str = "must be atomic as item of a list with x-kubernetes-list-type=set";
    let list_type = list_items.get("x-kubernetes-list-type");
    let shown = list_type.cloned().unwrap_or_default();
    let atomic = Value::from("atomic");
    match list_items.get("type").and_then(Value::as_str) {
        Some("array") if list_type.is_some_and(|given| *given != atomic) => {
            let path = format!("{path}.items.x-kubernetes-list-type");
            found.push(Violation::invalid(path, shown, DETAIL));
        }
        Some("object") if list_items.get("x-kubernetes-map-type") != Some(&atomic) => {
            let path = format!("{path}.items.x-kubernetes-map-type");
            found.push(Violation::invalid(path, shown, DETAIL));
        }
        _ => {}
    }
}

fn check_list_map(list_items: &Value, keys: &[&str], path: &str, found: &mut Vec<Violation>) {
    if keys.is_empty() {
        found.push(Violation::required(
            format!("{path}.x-kubernetes-list-map-keys"),
            "must not be empty if x-kubernetes-list-type is map",
        ));
    }
    if list_items.is_null() {
        found.push(Violation::required(
            format!("{path}.items"),
            "must have a schema if x-kubernetes-list-type is map",
        ));
        return;
    }
    let type_ = list_items.get("type").and_then(Value::as_str).unwrap_or("");
    if type_ != "object" {
        found.push(Violation::invalid(
            format!("{path}.items.type"),
            type_,
            "must be object if parent array's x-kubernetes-list-type is map",
        ));
        return;
    }
    let mut invalid_keys = |detail: &str| {
        let path = format!("{path}.x-kubernetes-list-map-keys");
        found.push(Violation::invalid(path, keys.to_vec(), detail));
    };
    let mut scalar = Vec::new();
    for (index, key) in keys.iter().enumerate() {
        match list_items.get("properties").and_then(|all| all.get(*key)) {
            None => invalid_keys("entries must all be names of item properties"),
            Some(property) => {
                if let Some("array" | "object") = property.get("type").and_then(Value::as_str) {
                    scalar.push(*key);
                }
            }
        }
        if keys.iter().take(index).any(|other| other == key) {
            invalid_keys("must not contain duplicate entries");
        }
    }
    for key in scalar {
        found.push(Violation::invalid(
            format!("{path}.items.properties[{key}].type"),
            type_,
            "must be a scalar type if parent array's x-kubernetes-list-type is map",
        ));
    }
}

/// Keys of list maps must be required or have a default.
fn check_keys(list_items: &Value, keys: &[&str], path: &str, found: &mut Vec<Violation>) {
    for key in keys {
        let Some(property) = list_items.get("properties").and_then(|all| all.get(*key)) else {
            continue;
        };
        let path = format!("{path}.items.properties[{key}]");
        let is_required = items(list_items, "required").any(|name| name == key);
        let has_default = property
            .get("default")
            .is_some_and(|value| !value.is_null());
        if !is_required && !has_default {
            found.push(Violation::required(
                format!("{path}.default"),
                "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property",
            ));
        }
        if property.get("nullable") == Some(&Value::Bool(true)) {
            let detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            let problem = Problem::Forbidden {
                detail: detail.to_owned(),
            };
            found.push(Violation::at(format!("{path}.nullable"), problem));
        }
    }
}
