//! CustomResourceDefinitions of CDI. Fields that the actors do not use are accepted unchecked.

use serde_json::{Value, json};

pub fn crds() -> Vec<Value> {
    let open = || json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let text = || json!({"type": "string"});
    let object = || {
        json!({
            "type": "object",
            "required": ["name", "namespace"],
            "properties": {"name": text(), "namespace": text()},
        })
    };
    let with_url = || {
        json!({
            "type": "object",
            "required": ["url"],
            "properties": {"url": text()},
            "x-kubernetes-preserve-unknown-fields": true,
        })
    };
    let volumes = definition(
        (
            "DataVolume",
            "datavolumes",
            "datavolume",
            json!(["dv", "dvs"]),
        ),
        json!([
            {"name": "Phase", "type": "string", "jsonPath": ".status.phase",
             "description": "The phase the data volume is in"},
            {"name": "Progress", "type": "string", "jsonPath": ".status.progress",
             "description": "How much has been transferred, in percent, if that is known"},
            {"name": "Restarts", "type": "integer", "jsonPath": ".status.restartCount",
             "description": "How often the transfer has been started again"},
            {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        ]),
        &json!({
            "type": "object",
            "properties": {
                "source": {"type": "object", "properties": {
                    "http": with_url(),
                    "s3": with_url(),
                    "gcs": with_url(),
                    "imageio": with_url(),
                    "registry": open(),
                    "vddk": open(),
                    "pvc": object(),
                    "snapshot": object(),
                    "blank": {"type": "object"},
                    "upload": {"type": "object"},
                }},
                "sourceRef": {
                    "type": "object",
                    "required": ["kind", "name"],
                    "properties": {"kind": text(), "name": text(), "namespace": text()},
                },
                "storage": open(),
                "pvc": open(),
                "contentType": {"type": "string", "enum": ["kubevirt", "archive"]},
                "priorityClassName": text(),
                "serviceAccountName": text(),
                "preallocation": {"type": "boolean"},
                "finalCheckpoint": {"type": "boolean"},
                "checkpoints": {"type": "array", "items": {
                    "type": "object",
                    "required": ["current", "previous"],
                    "properties": {"current": text(), "previous": text()},
                }},
            },
        }),
        &json!({
            "type": "object",
            "properties": {
                "claimName": text(),
                "phase": text(),
                "progress": text(),
                "restartCount": {"type": "integer", "format": "int32"},
                "conditions": {"type": "array", "items": open()},
            },
        }),
    );
    let sources = definition(
        ("DataSource", "datasources", "datasource", json!(["das"])),
        json!([]),
        &json!({
            "type": "object",
            "required": ["source"],
            "properties": {"source": {
                "type": "object",
                "properties": {"pvc": object(), "snapshot": object(), "dataSource": object()},
            }},
        }),
        &open(),
    );
    vec![volumes, sources]
}

fn definition(
    (kind, plural, singular, short): (&str, &str, &str, Value),
    columns: Value,
    spec: &Value,
    status: &Value,
) -> Value {
    let mut version = json!({
        "name": "v1beta1",
        "served": true,
        "storage": true,
        "schema": {"openAPIV3Schema": {
            "type": "object",
            "required": ["spec"],
            "properties": {
                "apiVersion": {"type": "string"},
                "kind": {"type": "string"},
                "metadata": {"type": "object"},
                "spec": spec,
                "status": status,
            },
        }},
        "subresources": {"status": {}},
    });
    if columns
        .as_array()
        .is_some_and(|columns| !columns.is_empty())
    {
        version["additionalPrinterColumns"] = columns;
    }
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.cdi.kubevirt.io")},
        "spec": {
            "group": "cdi.kubevirt.io",
            "scope": "Namespaced",
            "names": {
                "kind": kind,
                "listKind": format!("{kind}List"),
                "plural": plural,
                "singular": singular,
                "shortNames": short,
                "categories": ["all"],
            },
            "versions": [version],
        },
    })
}
