//! Validation of the spec of a definition: names, versions, columns, subresources and conversion.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{internal, openapi, selectable};
use crate::{Violation, names};

const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: [&str; 8] = [
    "byte",
    "date",
    "date-time",
    "double",
    "float",
    "int32",
    "int64",
    "password",
];

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or("")
}

pub(super) fn check(spec: &Value, found: &mut Vec<Violation>) {
    let empty = Vec::new();
    let versions = spec
        .get("versions")
        .and_then(Value::as_array)
        .unwrap_or(&empty);
    check_group(text(spec, "group"), found);
    match text(spec, "scope") {
        "Cluster" | "Namespaced" => {}
        "" => found.push(Violation::required("spec.scope", "")),
        other => found.push(Violation::unsupported(
            "spec.scope",
            other,
            &["Cluster", "Namespaced"],
        )),
    }
    let hoisted = common_to_all_versions(versions);
    if !hoisted.contains_key("schema") {
        for (index, version) in versions.iter().enumerate() {
            if !version
                .pointer("/schema/openAPIV3Schema")
                .is_some_and(Value::is_object)
            {
                let path = format!("spec.versions[{index}].schema.openAPIV3Schema");
                found.push(Violation::required(path, ""));
            }
        }
    }
    check_versions(versions, &hoisted, found);
    for name in ["plural", "singular", "kind", "listKind"] {
        if spec
            .get("names")
            .is_none_or(|names| text(names, name).is_empty())
        {
            found.push(Violation::required(format!("spec.names.{name}"), ""));
        }
    }
    if let Some(names) = spec.get("names") {
        check_names(names, "spec.names", found);
    }
    if let Some(schema) = hoisted.get("schema") {
        let has_status = versions
            .iter()
            .any(|version| version.pointer("/subresources/status").is_some());
        check_schema(schema, has_status, "spec.validation", found);
    }
    if let Some(subresources) = hoisted.get("subresources") {
        check_subresources(subresources, "spec.subresources", found);
    }
    if let Some(columns) = hoisted.get("additionalPrinterColumns") {
        check_columns(columns, "spec.additionalPrinterColumns", found);
    }
    if let Some(fields) = hoisted.get("selectableFields") {
        let schema = versions
            .first()
            .and_then(|version| version.pointer("/schema/openAPIV3Schema"));
        selectable::check(fields, schema, "spec.selectableFields", found);
    }
    check_conversion(spec, found);
}

/// Fields that all versions have in common.
fn common_to_all_versions(versions: &[Value]) -> Map<String, Value> {
    let mut common_to_all_versions = Map::new();
    let Some((first, others)) = versions.split_first() else {
        return common_to_all_versions;
    };
    for name in [
        "schema",
        "subresources",
        "additionalPrinterColumns",
        "selectableFields",
    ] {
        let is_there = |value: &&Value| match value {
            Value::Null => false,
            Value::Array(items) => !items.is_empty(),
            _ => true,
        };
        if let Some(value) = first.get(name).filter(is_there)
            && others
                .iter()
                .all(|version| version.get(name) == Some(value))
        {
            common_to_all_versions.insert(name.to_owned(), value.clone());
        }
    }
    common_to_all_versions
}

fn check_group(group: &str, found: &mut Vec<Violation>) {
    const PATH: &str = "spec.group";
    let wrong = names::dns_subdomain(group);
    if group.is_empty() {
        found.push(Violation::required(PATH, ""));
    } else if !wrong.is_empty() {
        found.push(Violation::invalid(PATH, group, wrong.join(",")));
    } else if !group.contains('.') {
        found.push(Violation::invalid(
            PATH,
            group,
            "should be a domain with at least one dot",
        ));
    }
}

fn check_versions(versions: &[Value], hoisted: &Map<String, Value>, found: &mut Vec<Violation>) {
    for (index, version) in versions.iter().enumerate() {
        let path = format!("spec.versions[{index}]");
        let name = text(version, "name");
        let wrong = names::dns_1035_label(name);
        if !wrong.is_empty() {
            let path = format!("{path}.name");
            found.push(Violation::invalid(path, name, wrong.join(",")));
        }
        let is_deprecated = version.get("deprecated") == Some(&Value::Bool(true));
        if let Some(warning) = version.get("deprecationWarning").and_then(Value::as_str) {
            check_warning(warning, is_deprecated, &path, found);
        }
        if !hoisted.contains_key("schema")
            && let Some(schema) = version.get("schema")
        {
            let has_status = version.pointer("/subresources/status").is_some();
            check_schema(schema, has_status, &format!("{path}.schema"), found);
        }
        if !hoisted.contains_key("subresources")
            && let Some(subresources) = version.get("subresources")
        {
            check_subresources(subresources, &format!("{path}.subresources"), found);
        }
        if !hoisted.contains_key("additionalPrinterColumns")
            && let Some(columns) = version.get("additionalPrinterColumns")
        {
            let path = format!("{path}.additionalPrinterColumns");
            check_columns(columns, &path, found);
        }
        if !hoisted.contains_key("selectableFields")
            && let Some(fields) = version.get("selectableFields")
        {
            let path = format!("{path}.selectableFields");
            let schema = version.pointer("/schema/openAPIV3Schema");
            selectable::check(fields, schema, &path, found);
        }
    }
    let names: BTreeSet<&str> = versions
        .iter()
        .map(|version| text(version, "name"))
        .collect();
    let is_stored = |version: &&Value| version.get("storage") == Some(&Value::Bool(true));
    let mut invalid = |detail: &str| {
        let shown = internal::versions(versions, hoisted);
        found.push(Violation::invalid_shown("spec.versions", shown, detail));
    };
    if names.len() != versions.len() {
        invalid("must contain unique version names");
    }
    if versions.iter().filter(is_stored).count() != 1 {
        invalid("must have exactly one version marked as storage version");
    }
    if let Some(first) = versions.first() {
        let name = text(first, "name");
        let wrong = names::dns_1035_label(name);
        if !wrong.is_empty() && !name.is_empty() {
            found.push(Violation::invalid("spec.version", name, wrong.join(",")));
        }
    }
}

fn check_warning(warning: &str, is_deprecated: bool, path: &str, found: &mut Vec<Violation>) {
    let mut invalid = |detail: String| {
        let path = format!("{path}.deprecationWarning");
        found.push(Violation::invalid(path, warning, detail));
    };
    if !is_deprecated {
        invalid("can only be set for deprecated versions".to_owned());
        return;
    }
    if warning.len() > 256 {
        invalid("must be <= 256 characters long".to_owned());
    }
    if warning.is_empty() {
        invalid("must not be an empty string".to_owned());
    }
    if let Some((index, _)) = warning.char_indices().find(|(_, c)| c.is_control()) {
        invalid(format!(
            "must only contain printable UTF-8 characters; non-printable character found at index {index}"
        ));
    }
}

pub(super) fn check_names(names: &Value, path: &str, found: &mut Vec<Violation>) {
    let mut label = |value: &str, place: String, is_kind: bool| {
        let wrong = if is_kind {
            names::dns_1035_label(&value.to_lowercase())
        } else {
            names::dns_1035_label(value)
        };
        if !wrong.is_empty() {
            let mixed = "may have mixed case, but should otherwise match: ";
            let mixed = if is_kind { mixed } else { "" };
            let detail = format!("{mixed}{}", wrong.join(","));
            found.push(Violation::invalid(place, value, detail));
        }
    };
    for name in ["plural", "singular", "kind", "listKind"] {
        let value = text(names, name);
        if !value.is_empty() {
            let is_kind = matches!(name, "kind" | "listKind");
            label(value, format!("{path}.{name}"), is_kind);
        }
    }
    let texts = |name: &str| {
        let texts = names.get(name).and_then(Value::as_array);
        texts.into_iter().flatten().filter_map(Value::as_str)
    };
    for (index, name) in texts("shortNames").enumerate() {
        label(name, format!("{path}.shortNames[{index}]"), false);
    }
    let kind = text(names, "kind");
    let has_own_list = kind.is_empty() || kind != text(names, "listKind");
    for (index, name) in texts("categories").enumerate() {
        label(name, format!("{path}.categories[{index}]"), false);
    }
    if !has_own_list {
        found.push(Violation::invalid(
            format!("{path}.listKind"),
            kind,
            "kind and listKind may not be the same",
        ));
    }
}

fn check_schema(schema: &Value, has_status: bool, path: &str, found: &mut Vec<Violation>) {
    if let Some(schema) = schema
        .get("openAPIV3Schema")
        .filter(|schema| schema.is_object())
    {
        let path = format!("{path}.openAPIV3Schema");
        openapi::check(schema, has_status, &path, found);
    }
}

fn check_columns(columns: &Value, path: &str, found: &mut Vec<Violation>) {
    for (index, column) in columns.as_array().into_iter().flatten().enumerate() {
        let path = format!("{path}[{index}]");
        if text(column, "name").is_empty() {
            found.push(Violation::required(format!("{path}.name"), ""));
        }
        let types = format!("must be one of {}", COLUMN_TYPES.join(","));
        match text(column, "type") {
            "" => found.push(Violation::required(format!("{path}.type"), types)),
            other if !COLUMN_TYPES.contains(&other) => {
                found.push(Violation::invalid(format!("{path}.type"), other, types));
            }
            _ => {}
        }
        let format = text(column, "format");
        if !format.is_empty() && !COLUMN_FORMATS.contains(&format) {
            let formats = format!("must be one of {}", COLUMN_FORMATS.join(","));
            let path = format!("{path}.format");
            found.push(Violation::invalid(path, format, formats));
        }
        let json_path = text(column, "jsonPath");
        if json_path.is_empty() {
            found.push(Violation::required(format!("{path}.JSONPath"), ""));
        } else {
            check_json_path(json_path, &format!("{path}.JSONPath"), found);
        }
    }
}

/// Whether the path is a simple JSONPath.
fn check_json_path(json_path: &str, path: &str, found: &mut Vec<Violation>) -> bool {
    let is_simple = json_path.starts_with('.');
    if !is_simple {
        found.push(Violation::invalid(
            path,
            json_path,
            "must be a simple json path starting with .",
        ));
    }
    is_simple
}

fn check_subresources(subresources: &Value, path: &str, found: &mut Vec<Violation>) {
    let Some(scale) = subresources.get("scale").filter(|scale| !scale.is_null()) else {
        return;
    };
    for (name, below, is_required) in [
        ("specReplicasPath", [".spec."].as_slice(), true),
        ("statusReplicasPath", &[".status."], true),
        ("labelSelectorPath", &[".spec.", ".status."], false),
    ] {
        let path = format!("{path}.scale.{name}");
        let json_path = text(scale, name);
        if json_path.is_empty() {
            if is_required {
                found.push(Violation::required(path, ""));
            }
            continue;
        }
        if check_json_path(json_path, &path, found)
            && !below.iter().any(|below| json_path.starts_with(below))
        {
            let detail = match below {
                [below] => format!(
                    "should be a json path under {}",
                    below.trim_end_matches('.')
                ),
                _ => "should be a json path under either .spec or .status".to_owned(),
            };
            found.push(Violation::invalid(path, json_path, detail));
        }
    }
}

fn check_conversion(spec: &Value, found: &mut Vec<Violation>) {
    const PATH: &str = "spec.conversion";
    let Some(conversion) = spec.get("conversion").filter(|value| !value.is_null()) else {
        return;
    };
    let config = conversion.pointer("/webhook/clientConfig");
    let versions = conversion
        .pointer("/webhook/conversionReviewVersions")
        .and_then(Value::as_array);
    match text(conversion, "strategy") {
        "Webhook" => {
            match config {
                None | Some(Value::Null) => found.push(Violation::required(
                    format!("{PATH}.webhookClientConfig"),
                    "required when strategy is set to Webhook",
                )),
                Some(config) if config.get("url").is_some() == config.get("service").is_some() => {
                    found.push(Violation::required(
                        format!("{PATH}.webhookClientConfig"),
                        "exactly one of url or service is required",
                    ));
                }
                Some(_) => {}
            }
            if versions.is_none_or(Vec::is_empty) {
                found.push(Violation::required(
                    format!("{PATH}.conversionReviewVersions"),
                    "",
                ));
            }
        }
        strategy => {
            match strategy {
                "None" => {}
                "" => found.push(Violation::required(format!("{PATH}.strategy"), "")),
                other => found.push(Violation::unsupported(
                    format!("{PATH}.strategy"),
                    other,
                    &["None", "Webhook"],
                )),
            }
            if config.is_some() {
                found.push(Violation::forbidden(
                    format!("{PATH}.webhookClientConfig"),
                    "should not be set when strategy is not set to Webhook",
                ));
            }
            if versions.is_some_and(|versions| !versions.is_empty()) {
                found.push(Violation::forbidden(
                    format!("{PATH}.conversionReviewVersions"),
                    "should not be set when strategy is not set to Webhook",
                ));
            }
        }
    }
}
