//! JSON patch that removes owned fields before an apply that leaves them out.
//!
//! A server-side apply that drops the last field of a map leaves `null` in its place (structured-merge-
//! diff, `removingWalker`), which the schema of a custom resource refuses. KubeVirt's webhook fills most
//! of these maps before validation; where there is none, every later apply would be refused.

use api::labels;
use serde_json::{Map, Value, json};

/// Operations that remove from `live` the fields that the operator owns and `wanted` leaves out.
pub(super) fn removals(live: &Value, wanted: &Value) -> Vec<Value> {
    let mut paths = Vec::new();
    let entries = live["metadata"]["managedFields"].as_array();
    for entry in entries.into_iter().flatten() {
        let is_operator = entry["manager"] == labels::MANAGER && entry["subresource"].is_null();
        let fields = entry.pointer("/fieldsV1/f:spec").and_then(Value::as_object);
        if let Some(fields) = fields.filter(|_| is_operator) {
            collect("/spec", fields, &live["spec"], &wanted["spec"], &mut paths);
        }
    }
    paths.sort_unstable();
    paths.dedup();
    paths
        .into_iter()
        .map(|path| json!({ "op": "remove", "path": path }))
        .collect()
}

fn collect(
    path: &str,
    owned: &Map<String, Value>,
    live: &Value,
    wanted: &Value,
    into: &mut Vec<String>,
) {
    for (field, below) in owned {
        let Some(field) = field.strip_prefix("f:") else {
            continue;
        };
        let Some(found) = live.get(field) else {
            continue;
        };
        let path = format!("{path}/{}", field.replace('~', "~0").replace('/', "~1"));
        match (below.as_object(), wanted.get(field)) {
            (_, None) if is_owned(below, found) => into.push(path),
            (Some(below), kept) if found.is_object() => {
                collect(&path, below, found, kept.unwrap_or(&Value::Null), into);
            }
            _ => {}
        }
    }
}

/// Whether everything below a field is owned. A list is left to the apply unless it is owned as a whole.
fn is_owned(owned: &Value, found: &Value) -> bool {
    let owned = owned.as_object().filter(|owned| !owned.is_empty());
    match (owned, found) {
        (None, _) => true,
        (Some(owned), Value::Object(found)) => found.iter().all(|(field, found)| {
            let owned = owned.get(&format!("f:{field}"));
            owned.is_some_and(|owned| is_owned(owned, found))
        }),
        (Some(_), _) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_owned_fields_that_are_left_out_are_removed() {
        let live = json!({
            "metadata": { "managedFields": [
                { "manager": "kubevirt-operator", "operation": "Apply", "fieldsV1": { "f:spec": {
                    "f:machine": { "f:type": {} },
                    "f:features": { "f:acpi": { "f:enabled": {} }, "f:smm": { "f:enabled": {} } },
                    "f:cpu": { "f:cores": {} },
                } } },
                { "manager": "someone", "fieldsV1": { "f:spec": { "f:clock": { "f:utc": {} } } } },
            ] },
            "spec": {
                "machine": { "type": "q35" }, "clock": { "utc": {} }, "cpu": { "cores": 1 },
                "features": { "acpi": { "enabled": true }, "smm": { "enabled": true, "theirs": 1 } },
            },
        });
        let wanted = json!({ "spec": { "cpu": { "cores": 2 } } });
        let removed = [
            "/spec/features/acpi",
            "/spec/features/smm/enabled",
            "/spec/machine",
        ];
        let removed = removed.map(|path| json!({ "op": "remove", "path": path }));
        assert_eq!(removals(&live, &wanted), removed);
        assert_eq!(removals(&live, &live), Vec::<Value>::new());
    }
}
