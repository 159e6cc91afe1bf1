//! `metadata.managedFields`: the managers of an object, their fields and times.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::Context;
use crate::fields::FieldSet;
use crate::time;

/// Whether fields were set by an apply or by another write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Operation {
    Apply,
    Update,
}

impl Operation {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// Identity of an entry. An applier has one entry for all versions of a kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ManagerId {
    pub(super) manager: String,
    pub(super) operation: Operation,
    /// Empty for appliers.
    pub(super) api_version: String,
    pub(super) subresource: String,
}

impl ManagerId {
    pub(super) fn of(context: &Context<'_>, operation: Operation) -> Self {
        let manager = if context.manager.is_empty() {
            "unknown"
        } else {
            context.manager
        };
        Self::new(manager, operation, context.api_version, context.subresource)
    }

    pub(super) fn new(
        manager: &str,
        operation: Operation,
        api_version: &str,
        subresource: &str,
    ) -> Self {
        Self {
            manager: manager.to_owned(),
            operation,
            api_version: if operation == Operation::Apply {
                String::new()
            } else {
                api_version.to_owned()
            },
            subresource: subresource.to_owned(),
        }
    }
}

/// Fields of a manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) api_version: String,
    pub(super) set: FieldSet,
    pub(super) time: Option<String>,
}

impl Entry {
    pub(super) fn seconds(&self) -> i64 {
        self.time
            .as_deref()
            .and_then(time::seconds)
            .unwrap_or_default()
    }
}

/// All entries of an object.
pub(super) type Managed = BTreeMap<ManagerId, Entry>;

/// The entries of a list in wire form, or why the server cannot decode it.
pub(super) fn decode(list: Option<&Value>) -> Result<Managed, String> {
    let mut managed = Managed::new();
    let items = match list {
        None | Some(Value::Null) => return Ok(managed),
        Some(Value::Array(items)) => items,
        Some(_) => return Err("managedFields must be a list".to_owned()),
    };
    for (index, item) in items.iter().enumerate() {
        let text = |name: &str| item.get(name).and_then(Value::as_str).unwrap_or_default();
        let operation = match text("operation") {
            "Apply" => Operation::Apply,
            "Update" => Operation::Update,
            _ => return Err("operation must be `Apply` or `Update`".to_owned()),
        };
        if text("apiVersion").is_empty() {
            return Err("apiVersion must not be empty".to_owned());
        }
        match text("fieldsType") {
            "FieldsV1" => {}
            "" => {
                return Err(format!(
                    "missing fieldsType in managed fields entry {index}"
                ));
            }
            other => {
                let other = crate::go::quote(other);
                return Err(format!(
                    "invalid fieldsType {other} in managed fields entry {index}"
                ));
            }
        }
        let set = match item.get("fieldsV1") {
            None | Some(Value::Null) => FieldSet::default(),
            Some(fields) => FieldSet::from_value(fields)
                .map_err(|error| format!("error decoding versioned set: {error}"))?,
        };
        let id = ManagerId::new(
            text("manager"),
            operation,
            text("apiVersion"),
            text("subresource"),
        );
        let time = time::canonical(text("time"));
        managed.insert(
            id,
            Entry {
                api_version: text("apiVersion").to_owned(),
                set,
                time,
            },
        );
    }
    Ok(managed)
}

/// The list in wire form: appliers first, then by time and name. `None` if there are no entries.
pub(super) fn encode(managed: &Managed) -> Option<Value> {
    if managed.is_empty() {
        return None;
    }
    let mut entries: Vec<_> = managed.iter().collect();
    entries.sort_by(|(left_id, left), (right_id, right)| {
        let key = |id: &ManagerId, entry: &Entry| {
            (
                id.operation,
                entry.seconds(),
                id.manager.clone(),
                entry.api_version.clone(),
                id.subresource.clone(),
            )
        };
        key(left_id, left).cmp(&key(right_id, right))
    });
    Some(
        entries
            .into_iter()
            .map(|(id, entry)| wire(id, entry))
            .collect(),
    )
}

fn wire(id: &ManagerId, entry: &Entry) -> Value {
    let mut map = Map::new();
    if !id.manager.is_empty() {
        map.insert("manager".to_owned(), id.manager.clone().into());
    }
    map.insert("operation".to_owned(), id.operation.as_str().into());
    map.insert("apiVersion".to_owned(), entry.api_version.clone().into());
    if let Some(time) = &entry.time {
        map.insert("time".to_owned(), time.clone().into());
    }
    map.insert("fieldsType".to_owned(), "FieldsV1".into());
    map.insert("fieldsV1".to_owned(), entry.set.to_value());
    if !id.subresource.is_empty() {
        map.insert("subresource".to_owned(), id.subresource.clone().into());
    }
    Value::Object(map)
}

/// The list in wire form of an object.
pub(super) fn of(object: &Value) -> Option<&Value> {
    object.get("metadata")?.get("managedFields")
}

/// Replaces the list of an object; none removes it.
pub(super) fn set(object: &mut Value, list: Option<Value>) {
    let Some(object) = object.as_object_mut() else {
        return;
    };
    match list {
        Some(list) => {
            let metadata = object
                .entry("metadata")
                .or_insert_with(|| Value::Object(Map::new()));
            if metadata.is_null() {
                *metadata = Value::Object(Map::new());
            }
            if let Some(metadata) = metadata.as_object_mut() {
                metadata.insert("managedFields".to_owned(), list);
            }
        }
        None => {
            if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
                metadata.remove("managedFields");
            }
        }
    }
}

/// Whether the list of a request resets all owners: one empty entry does, and for built-in
/// kinds an empty list, which the server distinguishes from none only there.
pub(super) fn is_reset(list: Option<&Value>, is_built_in: bool) -> bool {
    match list.and_then(Value::as_array).map(Vec::as_slice) {
        Some([]) => is_built_in,
        Some([only]) => only
            .as_object()
            .is_some_and(|entry| entry.values().all(Value::is_null)),
        _ => false,
    }
}
