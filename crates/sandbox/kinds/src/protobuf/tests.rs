//! Protobuf decoding.

use serde_json::json;

use super::*;

fn varint(mut number: usize, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(u8::try_from(number & 0x7f).unwrap() | 0x80);
        number >>= 7;
    }
    out.push(u8::try_from(number).unwrap());
}

/// Length-delimited field.
fn field(number: usize, bytes: impl AsRef<[u8]>) -> Vec<u8> {
    let bytes = bytes.as_ref();
    let mut out = Vec::new();
    varint(number << 3 | 2, &mut out);
    varint(bytes.len(), &mut out);
    out.extend(bytes);
    out
}

fn enveloped(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let types = [field(1, api_version), field(2, kind)].concat();
    [PREFIX.to_vec(), field(1, types), field(2, raw)].concat()
}

#[test]
fn every_component_with_fields_has_its_numbers() {
    let known = |component: &str| -> Vec<&'static str> {
        fn names(component: &str, out: &mut Vec<&'static str>) {
            for meaning in FIELDS_BY_NUMBER
                .get(component)
                .into_iter()
                .flatten()
                .map(|(_, m)| m)
            {
                match meaning {
                    FieldKind::Field(name) => out.push(name),
                    FieldKind::Embedded(inner) => names(inner, out),
                }
            }
        }
        let mut out = Vec::new();
        names(component, &mut out);
        out
    };
    for kind in crate::all() {
        let schema = type_info::schema(kind);
        let names = known(kind.component);
        for name in schema["properties"].as_object().unwrap().keys() {
            let in_envelope = matches!(name.as_str(), "apiVersion" | "kind");
            assert!(
                in_envelope || names.contains(&name.as_str()),
                "{}.{name}",
                kind.component
            );
        }
        let api_version = match kind.group {
            "" => kind.version.to_owned(),
            group => format!("{group}/{}", kind.version),
        };
        assert_eq!(
            component(&api_version, kind.kind).as_deref(),
            Some(kind.component)
        );
    }
}

#[test]
fn zero_values_are_left_out_and_pointers_to_them_are_not() {
    let meta = [field(1, "web"), field(2, ""), field(8, [])].concat();
    let volume = [field(1, "v"), field(2, field(2, field(1, "Memory")))].concat();
    let template = field(2, field(1, volume));
    let spec = [vec![0x08, 0], field(3, template), vec![0x38, 0]].concat();
    let bytes = enveloped(
        "apps/v1",
        "Deployment",
        &[field(1, meta), field(2, spec)].concat(),
    );
    let object = from_protobuf(&bytes).unwrap();
    assert_eq!(object["kind"], "Deployment");
    assert_eq!(object["metadata"], json!({"name": "web"}));
    assert_eq!(object["spec"]["replicas"], 0);
    assert_eq!(object["spec"].get("paused"), None);
    assert_eq!(
        object["spec"]["template"]["spec"]["volumes"],
        json!([{"name": "v", "emptyDir": {"medium": "Memory"}}])
    );
}

#[test]
fn values_that_are_messages_become_one_value() {
    let entry = [field(1, "key"), field(2, [0xff, 0])].concat();
    let created = [&[0x08][..], &[0x80, 0x84, 0xaf, 0x5f][..]].concat();
    let meta = [field(1, "s"), field(8, created)].concat();
    let bytes = enveloped("v1", "Secret", &[field(1, meta), field(2, entry)].concat());
    let object = from_protobuf(&bytes).unwrap();
    assert_eq!(object["data"], json!({"key": "/wA="}));
    let created = object["metadata"]["creationTimestamp"].as_str().unwrap();
    assert!(
        created.starts_with("1976-") && created.ends_with('Z'),
        "{created}"
    );
    let port = [vec![0x18, 80], field(4, [0x08, 1, 0x1a, 1, b'a'])].concat();
    let bytes = enveloped("v1", "Service", &field(2, field(1, port)));
    let object = from_protobuf(&bytes).unwrap();
    assert_eq!(
        object["spec"]["ports"],
        json!([{"port": 80, "targetPort": "a"}])
    );
}

#[test]
fn invalid_input_is_reported() {
    let error = |bytes: &[u8]| from_protobuf(bytes).unwrap_err().to_string();
    assert_eq!(error(b""), "empty data");
    assert_eq!(error(PREFIX), "empty body");
    assert!(error(b"{}").starts_with("provided data does not appear"));
    assert_eq!(
        error(&enveloped("v1", "Secret", &[0x0a, 9])),
        "unexpected EOF"
    );
    assert!(error(&enveloped("v1", "Nonsense", &[])).contains("Nonsense"));
    let mut schema = Vec::new();
    for _ in 0..60 {
        schema = field(28, schema);
    }
    assert_eq!(depth(&json!([[{"a": 1}]])), 3);
    let nested = |schema: &[u8]| {
        let version = field(4, field(1, schema));
        let spec = field(2, field(7, version));
        from_protobuf(&enveloped(
            "apiextensions.k8s.io/v1",
            "CustomResourceDefinition",
            &spec,
        ))
    };
    nested(&schema).unwrap();
    for _ in 0..200 {
        schema = field(28, schema);
    }
    assert_eq!(nested(&schema).unwrap_err().to_string(), TOO_DEEP);
}
