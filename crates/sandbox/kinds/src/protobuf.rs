//! Decoder for Kubernetes' protobuf encoding, which kubectl sends for built-in kinds.
//!
//! [`from_protobuf`] returns the object as JSON. There is no encoder: clients that send protobuf
//! also accept JSON. Nesting is limited, and allocations are bounded by the input size.

mod wire;

use std::{collections::BTreeMap, sync::LazyLock};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::{Timestamp, tz::TimeZone};
use serde_json::{Map, Value, json};

use crate::{decode, type_info};
use wire::{Field, Reader};

/// Nesting limit, so that the result can be parsed again as JSON.
const DEPTH: usize = 128;

const TOO_DEEP: &str = "exceeded max depth";

const PREFIX: &[u8] = b"k8s\0";

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.";

/// Fields of messages by number.
static FIELDS_BY_NUMBER: LazyLock<BTreeMap<&'static str, BTreeMap<u64, FieldKind>>> =
    LazyLock::new(|| {
        include_str!("type_info/protobuf.txt")
            .lines()
            .filter_map(read_line)
            .collect()
    });

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FieldKind {
    /// `1=metadata`
    Field(&'static str),
    /// `1@component`: a struct whose fields are inlined in JSON.
    Embedded(&'static str),
}

fn read_line(line: &'static str) -> Option<(&'static str, BTreeMap<u64, FieldKind>)> {
    let (component, fields) = line.split_once(' ')?;
    let fields = fields.split(' ').filter_map(|field| {
        let at = field.find(['=', '@'])?;
        let (number, name) = field.split_at(at);
        let meaning = match name.split_at_checked(1)? {
            ("=", name) => FieldKind::Field(name),
            (_, component) => FieldKind::Embedded(component),
        };
        Some((number.parse().ok()?, meaning))
    });
    Some((component, fields.collect()))
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProtobufError {
    /// The envelope cannot be decoded.
    Envelope(String),
    Object {
        /// `apiVersion` of the envelope.
        version: String,
        error: String,
    },
}

impl std::fmt::Display for ProtobufError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Envelope(error) | Self::Object { error, .. } => f.write_str(error),
        }
    }
}

/// Decodes an object of any built-in kind, or DeleteOptions.
pub fn from_protobuf(bytes: &[u8]) -> Result<Value, ProtobufError> {
    let envelope = |error: &str| ProtobufError::Envelope(error.to_owned());
    let (api_version, kind, raw) = unwrap(bytes).map_err(ProtobufError::Envelope)?;
    if kind.is_empty() {
        return Err(envelope("Object 'Kind' is missing in protobuf"));
    }
    let object = |error: String| ProtobufError::Object {
        version: api_version
            .rsplit('/')
            .next()
            .unwrap_or_default()
            .to_owned(),
        error,
    };
    let component = component(&api_version, &kind).ok_or_else(|| {
        object(format!(
            "no kind {kind:?} is registered for version {api_version:?}"
        ))
    })?;
    let mut fields = Map::new();
    if let Some(schema) = type_info::component(&component) {
        message(&component, schema, raw, &mut fields, 0).map_err(object)?;
    }
    let mut value = Value::Object(fields);
    if depth(&value) > DEPTH - 2 {
        return Err(object(TOO_DEEP.to_owned()));
    }
    decode::normalise(&component, &mut value);
    value["apiVersion"] = api_version.into();
    value["kind"] = kind.into();
    Ok(value)
}

/// apiVersion, kind and raw message of the envelope.
fn unwrap(bytes: &[u8]) -> Result<(String, String, &[u8]), String> {
    if bytes.is_empty() {
        return Err("empty data".to_owned());
    }
    let Some(body) = bytes.strip_prefix(PREFIX) else {
        return Err(
            "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
                .to_owned(),
        );
    };
    if body.is_empty() {
        return Err("empty body".to_owned());
    }
    let (mut api_version, mut kind, mut raw) = (String::new(), String::new(), &[][..]);
    let mut reader = Reader::new(body);
    while let Some((number, field)) = reader.next()? {
        match (number, field) {
            (1, Field::Bytes(types)) => {
                let mut types = Reader::new(types);
                while let Some((number, field)) = types.next()? {
                    match number {
                        1 => api_version = field.text("APIVersion")?,
                        2 => kind = field.text("Kind")?,
                        _ => {}
                    }
                }
            }
            (2, Field::Bytes(bytes)) => raw = bytes,
            _ => {}
        }
    }
    Ok((api_version, kind, raw))
}

fn component(api_version: &str, kind: &str) -> Option<String> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    // DeleteOptions exist in every group.
    let name = if kind == "DeleteOptions" {
        format!("{META}{kind}")
    } else {
        let package = match group {
            "" => "api.core",
            "apiextensions.k8s.io" => "apiextensions-apiserver.pkg.apis.apiextensions",
            "apiregistration.k8s.io" => "kube-aggregator.pkg.apis.apiregistration",
            group => &format!("api.{}", group.split('.').next().unwrap_or(group)),
        };
        format!("io.k8s.{package}.{version}.{kind}")
    };
    FIELDS_BY_NUMBER.contains_key(name.as_str()).then_some(name)
}

/// Nesting depth.
fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

fn message(
    component: &str,
    schema: &Value,
    bytes: &[u8],
    into: &mut Map<String, Value>,
    depth: usize,
) -> Result<(), String> {
    if depth > DEPTH {
        return Err(TOO_DEEP.to_owned());
    }
    let numbers = FIELDS_BY_NUMBER.get(component);
    let mut reader = Reader::new(bytes);
    while let Some((number, field)) = reader.next()? {
        // Unknown field numbers are skipped.
        match numbers.and_then(|numbers| numbers.get(&number)) {
            None => {}
            Some(FieldKind::Embedded(inner)) => {
                message(inner, schema, field.bytes(inner)?, into, depth + 1)?;
            }
            Some(FieldKind::Field(name)) => {
                if let Some(schema) = schema.get("properties").and_then(|all| all.get(name)) {
                    add(name, schema, field, into, depth)?;
                }
            }
        }
    }
    Ok(())
}

/// Merges one field into the object.
fn add(
    name: &str,
    schema: &Value,
    field: Field<'_>,
    into: &mut Map<String, Value>,
    depth: usize,
) -> Result<(), String> {
    let kind = schema.get("type").and_then(Value::as_str);
    match (
        kind,
        schema.get("items"),
        schema.get("additionalProperties"),
    ) {
        (Some("array"), Some(items), _) => {
            let item = single(name, items, field, depth)?;
            let list = into.entry(name).or_insert_with(|| Value::Array(Vec::new()));
            if let Value::Array(list) = list {
                list.push(item);
            }
        }
        (Some("object"), _, Some(values)) => {
            let (key, value) = entry(name, values, field, depth)?;
            let map = into
                .entry(name)
                .or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(map) = map {
                map.insert(key, value);
            }
        }
        _ => {
            into.insert(name.to_owned(), single(name, schema, field, depth)?);
        }
    }
    Ok(())
}

fn entry(
    name: &str,
    schema: &Value,
    field: Field<'_>,
    depth: usize,
) -> Result<(String, Value), String> {
    let (mut key, mut value) = (String::new(), None);
    let mut reader = Reader::new(field.bytes(name)?);
    while let Some((number, field)) = reader.next()? {
        match number {
            1 => key = field.text(name)?,
            2 => value = Some(single(name, schema, field, depth)?),
            _ => {}
        }
    }
    Ok((key, value.unwrap_or(Value::Null)))
}

fn single(name: &str, schema: &Value, field: Field<'_>, depth: usize) -> Result<Value, String> {
    if let Some((component, target)) = type_info::target(schema) {
        return structure(component, target, field.bytes(name)?, depth + 1);
    }
    let format = schema.get("format").and_then(Value::as_str);
    match schema.get("type").and_then(Value::as_str) {
        // A list as map value is wrapped in a message.
        Some("array") => {
            let mut items = Vec::new();
            let mut reader = Reader::new(field.bytes(name)?);
            while let Some((_, field)) = reader.next()? {
                if let Some(schema) = schema.get("items") {
                    items.push(single(name, schema, field, depth + 1)?);
                }
            }
            Ok(Value::Array(items))
        }
        Some("boolean") => Ok(Value::from(field.varint(name)? != 0)),
        Some("integer") => Ok(Value::from(field.varint(name)?)),
        Some("number") => Ok(json!(field.double(name)?)),
        Some("string") if format == Some("byte") => Ok(STANDARD.encode(field.bytes(name)?).into()),
        _ => Ok(field.text(name)?.into()),
    }
}

/// Types with a scalar JSON form, else a struct.
fn structure(component: &str, schema: &Value, bytes: &[u8], depth: usize) -> Result<Value, String> {
    let name = component.rsplit('.').next().unwrap_or(component);
    match name {
        "Time" | "MicroTime" => time(bytes),
        "Quantity" => Ok(first(bytes, 1)?
            .map_or(Ok(String::new()), |field| field.text(name))?
            .into()),
        "IntOrString" => int_or_string(bytes),
        "JSON" | "FieldsV1" | "RawExtension" => {
            let raw = first(bytes, 1)?.map_or(Ok(&[][..]), |field| field.bytes(name))?;
            if raw.is_empty() {
                return Ok(Value::Null);
            }
            serde_json::from_slice(raw).map_err(|error| error.to_string())
        }
        "JSONSchemaPropsOrArray" | "JSONSchemaPropsOrBool" | "JSONSchemaPropsOrStringArray" => {
            alternatives(component, name, bytes, depth)
        }
        _ => {
            let mut fields = Map::new();
            message(component, schema, bytes, &mut fields, depth)?;
            Ok(Value::Object(fields))
        }
    }
}

fn first(bytes: &[u8], wanted: u64) -> Result<Option<Field<'_>>, String> {
    let mut reader = Reader::new(bytes);
    while let Some((number, field)) = reader.next()? {
        if number == wanted {
            return Ok(Some(field));
        }
    }
    Ok(None)
}

/// The zero time is null.
fn time(bytes: &[u8]) -> Result<Value, String> {
    let part = |number, name| first(bytes, number)?.map_or(Ok(0), |field| field.varint(name));
    let (seconds, nanoseconds) = (part(1, "Seconds")?, part(2, "Nanos")?);
    if (seconds, nanoseconds) == (0, 0) {
        return Ok(Value::Null);
    }
    let nanoseconds = i32::try_from(nanoseconds).map_err(|error| error.to_string())?;
    let time = Timestamp::new(seconds, nanoseconds).map_err(|error| error.to_string())?;
    let time = time.to_zoned(TimeZone::UTC);
    Ok(time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string().into())
}

fn int_or_string(bytes: &[u8]) -> Result<Value, String> {
    let number = |wanted| first(bytes, wanted)?.map_or(Ok(0), |field| field.varint("IntVal"));
    if number(1)? == 0 {
        return Ok(number(2)?.into());
    }
    let text = first(bytes, 3)?.map_or(Ok(String::new()), |field| field.text("StrVal"))?;
    Ok(text.into())
}

/// JSONSchemaPropsOr...: a schema, or its alternative.
fn alternatives(component: &str, name: &str, bytes: &[u8], depth: usize) -> Result<Value, String> {
    let one = component.split("Or").next().unwrap_or(component);
    let schema = |field: Field<'_>| {
        let shape = type_info::component(one).unwrap_or(&Value::Null);
        structure(one, shape, field.bytes(name)?, depth + 1)
    };
    let (mut found, mut allows, mut list) = (None, false, Vec::new());
    let mut reader = Reader::new(bytes);
    while let Some((number, field)) = reader.next()? {
        match (name, number) {
            ("JSONSchemaPropsOrBool", 1) => allows = field.varint(name)? != 0,
            ("JSONSchemaPropsOrBool", 2) | (_, 1) => found = Some(schema(field)?),
            ("JSONSchemaPropsOrArray", 2) => list.push(schema(field)?),
            ("JSONSchemaPropsOrStringArray", 2) => list.push(field.text(name)?.into()),
            _ => {}
        }
    }
    Ok(match (found, name) {
        (Some(schema), _) => schema,
        (None, "JSONSchemaPropsOrBool") => allows.into(),
        (None, _) => Value::Array(list),
    })
}

#[cfg(test)]
mod tests;
