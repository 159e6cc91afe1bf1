//! Normalisation of responses of certain shapes.

use serde_json::{Map, Value};

/// Replaces the resource version of a list or bookmark; takes the object or its metadata.
pub(crate) fn anonymise_version(metadata_or_object: Option<&mut Value>) {
    let Some(value) = metadata_or_object else {
        return;
    };
    let metadata = match value.get_mut("metadata") {
        Some(metadata) => metadata,
        None => value,
    };
    if let Some(version) = metadata.get_mut("resourceVersion")
        && version
            .as_str()
            .is_some_and(|text| !text.is_empty() && text != "0")
    {
        *version = Value::from("<rv>");
    }
}

/// Servers report several errors in random order, in the causes and in the message composed of
/// them.
pub(crate) fn sort_causes(status: &mut Map<String, Value>) {
    let Some(causes) = status
        .get_mut("details")
        .and_then(|details| details.get_mut("causes"))
        .and_then(Value::as_array_mut)
    else {
        return;
    };
    let text = |cause: &Value| {
        let field = |key| cause.get(key).and_then(Value::as_str).unwrap_or_default();
        format!("{}: {}", field("field"), field("message"))
    };
    causes.sort_by_key(text);
    let sorted: Vec<String> = causes.iter().map(text).collect();
    let joined = format!("[{}]", sorted.join(", "));
    let Some(message) = status.get("message").and_then(Value::as_str) else {
        return;
    };
    let Some((before, list)) = message.split_once(" is invalid: ") else {
        return;
    };
    if list.len() == joined.len() && sorted.iter().all(|error| list.contains(error.as_str())) {
        let message = format!("{before} is invalid: {joined}");
        status.insert("message".to_owned(), Value::from(message));
    }
}

/// Hides ages in tables, which depend on the time of the request. Later tables of a watch have no
/// column definitions, so there ages are recognised by their format.
pub(crate) fn hide_ages(table: &mut Map<String, Value>) {
    let columns = table.get("columnDefinitions").and_then(Value::as_array);
    let ages: Option<Vec<bool>> = columns.map(|columns| columns.iter().map(is_age).collect());
    let rows = table
        .get_mut("rows")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten();
    for cells in rows.filter_map(|row| row.get_mut("cells").and_then(Value::as_array_mut)) {
        for (at, cell) in cells.iter_mut().enumerate() {
            let hidden = match &ages {
                Some(ages) => ages.get(at) == Some(&true) && *cell != "<unknown>",
                None => is_age_text(cell),
            };
            if hidden {
                *cell = Value::from("<age>");
            }
        }
    }
}

fn is_age(column: &Value) -> bool {
    column.get("name").and_then(Value::as_str) == Some("Age")
        || column.get("type").and_then(Value::as_str) == Some("date")
}

fn is_age_text(cell: &Value) -> bool {
    let seconds = cell.as_str().and_then(|text| text.strip_suffix('s'));
    seconds.is_some_and(|text| text.parse::<u32>().is_ok())
}
