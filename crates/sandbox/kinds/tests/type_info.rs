//! Maintenance of `src/type_info`, the recorded schemas and Go type information of built-in kinds.
//!
//! `schema.json` has the component schemas of a real kube-apiserver without descriptions. `go.txt`
//! has what those lack: which unset fields a Go server writes, and the names of their types in
//! errors. To record both again, point `RECORD_KUBECONFIG` at a kube-apiserver and
//! `RECORD_KUBERNETES_SOURCE` at the source of the same release, and run this test.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    path::Path,
    process::Command,
};

use serde_json::{Map, Value};

const SCHEMA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/type_info/schema.json");
const GO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/type_info/go.txt");
const REF: &str = "#/components/schemas/";
const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.";

#[test]
fn every_kind_has_a_schema() {
    if let Ok(kubeconfig) = std::env::var("RECORD_KUBECONFIG") {
        let components = components(&kubeconfig);
        if let Ok(source) = std::env::var("RECORD_KUBERNETES_SOURCE") {
            std::fs::write(GO, go_type_info(Path::new(&source), &components)).unwrap();
        }
        let lines: Vec<String> = components
            .iter()
            .map(|(name, schema)| format!("{}:{schema}", Value::from(name.as_str())))
            .collect();
        std::fs::write(SCHEMA, format!("{{\n{}\n}}\n", lines.join(",\n"))).unwrap();
    }
    let components: BTreeMap<String, Value> =
        serde_json::from_str(&std::fs::read_to_string(SCHEMA).unwrap()).unwrap();
    for kind in kinds::all() {
        assert!(components.contains_key(kind.component), "{}", kind.kind);
    }
    for (name, schema) in &components {
        let mut refs = BTreeSet::new();
        references(schema, &mut refs);
        for target in refs {
            assert!(
                components.contains_key(&target),
                "{name} refers to {target}"
            );
        }
    }
}

/// Components of all kinds, their lists, and all references.
fn components(kubeconfig: &str) -> BTreeMap<String, Value> {
    let mut all = BTreeMap::new();
    let versions: BTreeSet<_> = kinds::all()
        .iter()
        .map(|kind| (kind.group, kind.version))
        .chain([("autoscaling", "v1"), ("policy", "v1")])
        .collect();
    for (group, version) in versions {
        let path = match group {
            "" => format!("/openapi/v3/api/{version}"),
            group => format!("/openapi/v3/apis/{group}/{version}"),
        };
        let output = Command::new("kubectl")
            .args(["--kubeconfig", kubeconfig, "get", "--raw", &path])
            .output()
            .unwrap();
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
            all.insert(name.clone(), stripped(schema));
        }
    }
    let mut pending: Vec<String> = Vec::new();
    for kind in kinds::all() {
        pending.push(kind.component.to_owned());
        pending.push(format!("{}List", kind.component));
        for subresource in kind.subresources {
            let gvk = (subresource.group, subresource.version, subresource.kind);
            pending.extend(
                all.iter()
                    .filter(|(_, schema)| describes(schema, gvk))
                    .map(|(name, _)| name.clone()),
            );
        }
    }
    for name in [
        "DeleteOptions",
        "Status",
        "Patch",
        "WatchEvent",
        "APIResourceList",
    ] {
        pending.push(format!("{META}{name}"));
    }
    let mut kept = BTreeMap::new();
    while let Some(name) = pending.pop() {
        if kept.contains_key(&name) {
            continue;
        }
        if let Some(schema) = all.get(&name) {
            let mut refs = BTreeSet::new();
            references(schema, &mut refs);
            pending.extend(refs);
            kept.insert(name, schema.clone());
        }
    }
    kept
}

fn describes(schema: &Value, (group, version, kind): (&str, &str, &str)) -> bool {
    let named =
        |gvk: &Value| gvk["group"] == group && gvk["version"] == version && gvk["kind"] == kind;
    schema["x-kubernetes-group-version-kind"]
        .as_array()
        .is_some_and(|gvks| gvks.len() == 1 && gvks.iter().any(named))
}

fn stripped(schema: &Value) -> Value {
    match schema {
        Value::Object(fields) => {
            let mut kept = Map::new();
            for (key, value) in fields {
                let value = match key.as_str() {
                    "description" | "x-kubernetes-unions" => continue,
                    "properties" => value
                        .as_object()
                        .unwrap()
                        .iter()
                        .map(|(name, schema)| (name.clone(), stripped(schema)))
                        .collect(),
                    // Options exist in every group; one entry suffices.
                    "x-kubernetes-group-version-kind"
                        if value.as_array().is_some_and(|gvks| gvks.len() > 1) =>
                    {
                        Value::Array(vec![value[0].clone()])
                    }
                    _ => stripped(value),
                };
                kept.insert(key.clone(), value);
            }
            Value::Object(kept)
        }
        Value::Array(items) => items.iter().map(stripped).collect(),
        other => other.clone(),
    }
}

fn references(schema: &Value, found: &mut BTreeSet<String>) {
    match schema {
        Value::Object(fields) => {
            for (key, value) in fields {
                match (key.as_str(), value) {
                    ("$ref", Value::String(target)) => {
                        found.insert(target.strip_prefix(REF).unwrap().to_owned());
                    }
                    _ => references(value, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        _ => {}
    }
}

struct GoField {
    name: String,
    go_type: String,
    omits: bool,
    omits_zero: bool,
    inline: bool,
}

fn go_type_info(source: &Path, components: &BTreeMap<String, Value>) -> String {
    let mut packages: BTreeMap<String, BTreeMap<String, Vec<GoField>>> = BTreeMap::new();
    let mut text = String::new();
    for (name, schema) in components {
        let Some(properties) = schema["properties"].as_object() else {
            continue;
        };
        let (package, go_type) = name.rsplit_once('.').unwrap();
        let structs = packages
            .entry(package.to_owned())
            .or_insert_with(|| parse_package(&folder(source, package)));
        let mut fields = Vec::new();
        flatten(structs, go_type, "", &mut fields);
        let mut entries: Vec<String> = fields
            .iter()
            .filter_map(|(field, inside)| {
                let schema = resolved(properties.get(&field.name)?, components);
                entry(field, inside, package, schema)
            })
            .collect();
        entries.sort();
        if !entries.is_empty() {
            writeln!(text, "{name} {}", entries.join(" ")).unwrap();
        }
    }
    text
}

/// Resolves the reference of a property.
fn resolved<'a>(property: &'a Value, components: &'a BTreeMap<String, Value>) -> &'a Value {
    let reference = property["$ref"]
        .as_str()
        .or_else(|| property["allOf"][0]["$ref"].as_str());
    match reference {
        Some(reference) => &components[reference.strip_prefix(REF).unwrap()],
        None => property,
    }
}

/// Entry of a field: see the parser of `go.txt`.
fn entry(field: &GoField, inside: &str, package: &str, schema: &Value) -> Option<String> {
    let GoField {
        name,
        go_type,
        omits,
        omits_zero,
        ..
    } = field;
    let bare = go_type.trim_start_matches('*');
    let has_items = schema["items"].is_object() || schema["additionalProperties"].is_object();
    let bytes = bare == "[]byte";
    let nilable = go_type.starts_with('*') || has_items || bytes;
    let is_struct = schema["properties"].is_object();
    let scalar =
        schema["type"].is_string() && !matches!(schema["type"].as_str(), Some("object" | "array"));
    let time = matches!(bare.rsplit('.').next(), Some("Time" | "MicroTime"));
    let opaque =
        !is_struct && schema["type"] == "object" || schema.as_object().is_some_and(Map::is_empty);
    let sign = match (nilable, omits, omits_zero) {
        (true, true, _) if bytes => "-",
        (true, true, _) => "",
        (true, false, _) => "?",
        (false, _, true) => "-",
        (false, true, _) if scalar && !time => "-",
        _ if time || opaque => "?",
        _ => "~",
    };
    // Schemas do not name scalar types.
    let builtin = [
        "string", "bool", "int32", "int64", "float64", "byte", "[]byte",
    ];
    let package = package.rsplit('.').next().unwrap();
    let named = (scalar && !time && !builtin.contains(&bare)).then(|| match bare.split_once('.') {
        Some((_, last))
            if bare.starts_with("metav1.")
                || bare.starts_with("corev1.")
                || bare.starts_with("v1.") =>
        {
            format!("=v1.{last}")
        }
        Some(_) => format!("={bare}"),
        None => format!("={package}.{bare}"),
    });
    let named = named.unwrap_or_default();
    let inside = match inside {
        "" => String::new(),
        inside => format!("@{inside}"),
    };
    let facts = format!("{sign}{named}{inside}");
    (!facts.is_empty()).then(|| format!("{name}{facts}"))
}

/// All fields of a struct, including those of embedded structs.
fn flatten<'a>(
    structs: &'a BTreeMap<String, Vec<GoField>>,
    name: &str,
    inside: &str,
    fields: &mut Vec<(&'a GoField, String)>,
) {
    for field in structs.get(name).into_iter().flatten() {
        if field.inline {
            let embedded = match inside {
                "" => field.go_type.clone(),
                inside => format!("{inside}.{}", field.go_type),
            };
            flatten(structs, &field.go_type, &embedded, fields);
        } else {
            fields.push((field, inside.to_owned()));
        }
    }
}

fn folder(source: &Path, package: &str) -> std::path::PathBuf {
    let path = package.strip_prefix("io.k8s.").unwrap();
    let staging = source.join("staging/src/k8s.io");
    let parts: Vec<&str> = path.split('.').collect();
    staging.join(parts.join("/"))
}

fn parse_package(folder: &Path) -> BTreeMap<String, Vec<GoField>> {
    let mut structs = BTreeMap::new();
    let Ok(entries) = std::fs::read_dir(folder) else {
        return structs;
    };
    for entry in entries {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let is_go = path.extension().is_some_and(|extension| extension == "go");
        if !name.starts_with("types") || !is_go || name.contains("swagger") {
            continue;
        }
        let mut current: Option<(String, Vec<GoField>)> = None;
        for line in std::fs::read_to_string(&path).unwrap().lines() {
            if let Some(rest) = line.strip_prefix("type ") {
                if let Some(name) = rest.strip_suffix(" struct {") {
                    current = Some((name.to_owned(), Vec::new()));
                }
            } else if line == "}" {
                structs.extend(current.take());
            } else if let Some((_, fields)) = &mut current {
                fields.extend(parse_field(line));
            }
        }
    }
    structs
}

fn parse_field(line: &str) -> Option<GoField> {
    let (declaration, tags) = line.split_once('`')?;
    let (_, json) = tags.split_once("json:\"")?;
    let (json, _) = json.split_once('"')?;
    let mut parts = json.split(',');
    let name = parts.next()?.to_owned();
    let options: Vec<&str> = parts.collect();
    let mut words = declaration.split_whitespace();
    let first = words.next()?;
    let go_type = words.next().unwrap_or(first).to_owned();
    Some(GoField {
        inline: options.contains(&"inline") || name.is_empty(),
        omits: options.contains(&"omitempty"),
        omits_zero: options.contains(&"omitzero"),
        name,
        go_type,
    })
}
