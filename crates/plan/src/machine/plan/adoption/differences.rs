//! Differences between the spec of an adopted VirtualMachine and the one that its Machine asks for.
//!
//! Compared is what an apply would change for the guest: fields that the operator sets, and additional
//! fields of list items, since an apply replaces lists. Labels and annotations of the template are left
//! out. Values of volumes are not shown, because they may be confidential.

use std::fmt;

use api::kubevirt::VirtualMachine;
use serde_json::{Map, Value, json};

use crate::{
    Quantity,
    machine::{NetworkData, ResolvedMachine, UserData},
    naming,
};

/// A field that differs.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::machine) struct FieldDifference {
    /// Such as `spec.template.spec.domain.cpu.cores`.
    pub(in crate::machine) path: String,
    found: Option<Value>,
    desired: Option<Value>,
}

impl fmt::Display for FieldDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            path,
            found,
            desired,
        } = self;
        let is_scalar = |value: &Option<Value>| {
            value
                .as_ref()
                .is_none_or(|it| !it.is_object() && !it.is_array())
        };
        if path.contains(".volumes") || !is_scalar(found) || !is_scalar(desired) {
            let what = match (found, desired) {
                (None, _) => "is added",
                (_, None) => "is removed",
                _ => "changes",
            };
            return write!(f, "{path} {what}");
        }
        let show = |value: &Option<Value>| value.as_ref().map_or("absent".into(), Value::to_string);
        write!(f, "{path}: {} -> {}", show(found), show(desired))
    }
}

/// The differences between a VirtualMachine's spec and the desired one.
pub(in crate::machine) fn differences(
    found: &Value,
    desired: &VirtualMachine,
    machine: &ResolvedMachine,
) -> Vec<FieldDifference> {
    let mut found = found.clone();
    let mut desired = serde_json::to_value(&desired.spec).unwrap_or_default();
    normalise(&mut found, &mut desired);
    if has_same_cloud_init(&found, machine) {
        without_cloud_init(&mut found);
        without_cloud_init(&mut desired);
    }
    let mut all = Vec::new();
    compare("spec", Some(&found), Some(&desired), false, &mut all);
    all
}

/// Replaces different forms of the same value.
fn normalise(found: &mut Value, desired: &mut Value) {
    if let Some(running) = found.get("running").and_then(Value::as_bool) {
        found["runStrategy"] = if running { "Always" } else { "Halted" }.into();
    }
    if let Some(template) = desired.get_mut("template").and_then(Value::as_object_mut) {
        template.remove("metadata");
    }
    let uses_type = found.get("instancetype").is_some_and(|it| !it.is_null());
    if let Some(domain) = domain(desired).filter(|_| uses_type) {
        domain.remove("cpu");
        domain.remove("memory");
    }
    let Some(found) = domain(found) else {
        return;
    };
    let request = found
        .get("resources")
        .and_then(|it| it.pointer("/requests/memory"))
        .cloned();
    if let Some(request) = request.filter(|_| !found.contains_key("memory")) {
        found.insert("memory".to_owned(), json!({ "guest": request }));
    }
    let cpu = found.entry("cpu").or_insert_with(|| json!({}));
    for field in ["cores", "sockets", "threads"] {
        if cpu.is_object() && cpu[field].is_null() {
            cpu[field] = 1.into();
        }
    }
    let guest = found.get_mut("memory").and_then(|it| it.get_mut("guest"));
    let wanted = domain(desired).and_then(|it| it.get("memory").cloned());
    let wanted = wanted.and_then(|it| it.get("guest").cloned());
    if let (Some(guest), Some(wanted)) = (guest, wanted)
        && quantity(guest).is_some_and(|it| Some(it) == quantity(&wanted))
    {
        *guest = wanted;
    }
}

fn quantity(value: &Value) -> Option<Quantity> {
    value.as_str()?.parse().ok()
}

fn domain(spec: &mut Value) -> Option<&mut Map<String, Value>> {
    spec.pointer_mut("/template/spec/domain")?.as_object_mut()
}

/// Whether a VirtualMachine has the Machine's cloud-init data in itself.
fn has_same_cloud_init(found: &Value, machine: &ResolvedMachine) -> bool {
    let volumes = found.pointer("/template/spec/volumes");
    let mut volumes = volumes.and_then(Value::as_array).into_iter().flatten();
    let inline = volumes.find(|volume| volume["name"] == naming::CLOUD_INIT_VOLUME);
    let (Some(inline), Some(desired)) = (inline, machine.cloud_init.as_ref()) else {
        return false;
    };
    let is_generated = matches!(desired.network_data, Some(NetworkData::Generated(_)));
    if is_generated || !desired.ssh_keys.is_empty() {
        return false;
    }
    let of = |source: &str| inline.get(source).filter(|it| it.is_object());
    let Some(inline) = of("cloudInitNoCloud").or(of("cloudInitConfigDrive")) else {
        return false;
    };
    let text = |field: &str| inline[field].as_str().unwrap_or_default();
    let user_data: &[u8] = match &desired.user_data {
        Some(UserData::Content(content)) => content,
        Some(UserData::Unread | UserData::Elided(_)) => return false,
        None => &[],
    };
    let network_data = desired
        .network_data
        .as_ref()
        .map_or("", NetworkData::content);
    text("userData").as_bytes() == user_data && text("networkData") == network_data
}

fn without_cloud_init(spec: &mut Value) {
    for list in [
        "/template/spec/volumes",
        "/template/spec/domain/devices/disks",
    ] {
        if let Some(items) = spec.pointer_mut(list).and_then(Value::as_array_mut) {
            items.retain(|item| item["name"] != naming::CLOUD_INIT_VOLUME);
        }
    }
}

fn compare(
    path: &str,
    found: Option<&Value>,
    desired: Option<&Value>,
    is_strict: bool,
    into: &mut Vec<FieldDifference>,
) {
    match (found, desired) {
        (Some(Value::Object(found)), Some(Value::Object(desired))) => {
            for (name, value) in desired {
                compare(
                    &format!("{path}.{name}"),
                    found.get(name),
                    Some(value),
                    is_strict,
                    into,
                );
            }
            let additional = found.iter().filter(|(name, value)| {
                is_strict && !value.is_null() && !desired.contains_key(*name)
            });
            for (name, value) in additional {
                compare(&format!("{path}.{name}"), Some(value), None, true, into);
            }
        }
        (Some(Value::Array(found)), Some(Value::Array(desired))) => {
            compare_lists(path, found, desired, into);
        }
        (found, desired) if found.filter(|it| !it.is_null()) == desired => {}
        (found, desired) => into.push(FieldDifference {
            path: path.to_owned(),
            found: found.cloned(),
            desired: desired.cloned(),
        }),
    }
}

/// Compares items by their names. The guest numbers disks and interfaces in their order.
fn compare_lists(path: &str, found: &[Value], desired: &[Value], into: &mut Vec<FieldDifference>) {
    let name = |item: &Value| item["name"].as_str().map(str::to_owned);
    let item =
        |items: &[Value], of: &Option<String>| items.iter().find(|it| name(it) == *of).cloned();
    let before = into.len();
    for wanted in desired {
        let of = name(wanted);
        let place = format!("{path}[{}]", of.as_deref().unwrap_or_default());
        compare(&place, item(found, &of).as_ref(), Some(wanted), true, into);
    }
    for existing in found {
        let of = name(existing);
        if item(desired, &of).is_none() {
            let place = format!("{path}[{}]", of.as_deref().unwrap_or_default());
            compare(&place, Some(existing), None, true, into);
        }
    }
    let order = |items: &[Value]| items.iter().map(name).collect::<Vec<_>>();
    if into.len() == before && !path.ends_with(".volumes") && order(found) != order(desired) {
        into.push(FieldDifference {
            path: format!("{path} (order)"),
            found: Some(json!(order(found))),
            desired: Some(json!(order(desired))),
        });
    }
}
