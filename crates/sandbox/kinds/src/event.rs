//! Conversion of Events between the core group and `events.k8s.io`.

use serde_json::{Map, Value};

/// Field names in the core group and in `events.k8s.io`.
const NAMES: [(&str, &str); 6] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
];

/// Converts an Event to `to_group`: empty for core, or `events.k8s.io`.
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
                .find_map(|(core, other)| {
                    if to_core {
                        (*other == name).then_some(*core)
                    } else {
                        (*core == name).then_some(*other)
                    }
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::convert_event;

    #[test]
    fn event_conversion_is_lossless() {
        let core = json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {},
            "involvedObject": {"kind": "Pod", "name": "p"},
            "reason": "R", "message": "m", "type": "Normal", "count": 2,
            "eventTime": null, "firstTimestamp": "2024-01-01T00:00:00Z", "lastTimestamp": null,
            "source": {"component": "x"}, "reportingComponent": "", "reportingInstance": "",
        });
        let newer = convert_event(&core, "events.k8s.io");
        let expected = json!({
            "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {},
            "regarding": {"kind": "Pod", "name": "p"},
            "reason": "R", "note": "m", "type": "Normal", "deprecatedCount": 2,
            "eventTime": null, "deprecatedFirstTimestamp": "2024-01-01T00:00:00Z",
            "deprecatedLastTimestamp": null, "deprecatedSource": {"component": "x"},
        });
        assert_eq!(newer, expected);
        assert_eq!(convert_event(&newer, ""), core);
    }
}
