//! Events, which two groups serve under different names of fields.

use serde_json::{Map, Value};

/// The names in the core group, and those in `events.k8s.io`.
const NAMES: [(&str, &str); 6] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
];

/// An event as the group `to_group` serves it: the core group (empty) or `events.k8s.io`.
pub fn convert_event(object: &Value, to_group: &str) -> Value {
    let (api_version, component) = match to_group {
        "" => ("v1", "io.k8s.api.core.v1.Event"),
        _ => ("events.k8s.io/v1", "io.k8s.api.events.v1.Event"),
    };
    let to_core = to_group.is_empty();
    let mut converted = Map::new();
    for (name, value) in object.as_object().into_iter().flatten() {
        let renamed = match name.as_str() {
            "reportingController" if to_core => "reportingComponent",
            "reportingComponent" if !to_core => "reportingController",
            name => NAMES
                .iter()
                .find_map(|(core, other)| match to_core {
                    true => (*other == name).then_some(*core),
                    false => (*core == name).then_some(*other),
                })
                .unwrap_or(name),
        };
        converted.insert(renamed.to_owned(), value.clone());
    }
    converted.insert("apiVersion".to_owned(), api_version.into());
    let mut converted = Value::Object(converted);
    crate::decode::normalise(component, &mut converted);
    converted
}
