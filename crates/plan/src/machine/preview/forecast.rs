//! Forecasts for users, from the records of a simulation. They contain neither UIDs nor confidential
//! data.

use std::collections::BTreeMap;

use api::labels;
use serde_json::{Value, json};

use super::{
    Document, Forecast, LAST_APPLIED, Preview, Restart,
    record::{Record, Records, Touched},
};
use crate::{
    Id,
    machine::simulation::{is_machine, is_network},
    preview::{Change, Effect, Verb, changes, restart_needed},
    simulation::Written,
};

/// Change of the resource that a document defines.
pub(super) fn own_effect(id: &Id, before: Option<&Value>, after: &Value) -> Option<Effect> {
    let fields = before.map(|before| changes(&user_fields(before), &user_fields(after)));
    let verb = match &fields {
        None => Verb::Create,
        Some(fields) if fields.is_empty() => return None,
        Some(_) => Verb::Change,
    };
    Some(Effect {
        verb,
        id: id.clone(),
        reason: String::new(),
        fields: fields.unwrap_or_default(),
    })
}

/// Fields of a resource that users write, with confidential values masked.
fn user_fields(resource: &Value) -> Value {
    let metadata = &resource["metadata"];
    let mut annotations = metadata["annotations"].clone();
    if let Some(annotations) = annotations.as_object_mut() {
        annotations.remove(LAST_APPLIED);
    }
    let mut spec = resource["spec"].clone();
    // May be confidential: only the fact that it changes is shown.
    for data in ["/cloudInit/userData", "/cloudInit/networkData"] {
        if let Some(data) = spec.pointer_mut(data) {
            *data = secret(data);
        }
    }
    pruned(json!({
        "metadata": { "labels": metadata["labels"], "annotations": annotations },
        "spec": spec,
    }))
}

/// Marks a confidential value. It differs when the value does.
fn secret(text: &Value) -> Value {
    json!({ SECRET: text })
}

const SECRET: &str = "\0secret";

/// Removes confidential values from a change.
fn hide(change: &mut Change) {
    let is_secret = |value: &Option<Value>| {
        value
            .as_ref()
            .is_some_and(|value| value.get(SECRET).is_some())
    };
    if let Some(path) = change.path.strip_suffix(&format!(".{SECRET}")) {
        change.path = path.to_owned();
        change.from = None;
        change.to = None;
    } else if is_secret(&change.from) || is_secret(&change.to) {
        change.from = None;
        change.to = None;
    } else {
        for value in [&mut change.from, &mut change.to].into_iter().flatten() {
            mask(value);
        }
    }
}

/// Masks confidential values inside a value that was added or removed as a whole.
fn mask(value: &mut Value) {
    match value {
        Value::Object(fields) if fields.contains_key(SECRET) => *value = "(not shown)".into(),
        Value::Object(fields) => fields.values_mut().for_each(mask),
        Value::Array(items) => items.iter_mut().for_each(mask),
        _ => {}
    }
}

/// Removes null and empty objects.
fn pruned(value: Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .into_iter()
            .map(|(name, value)| (name, pruned(value)))
            .filter(|(_, value)| !value.is_null() && *value != json!({}))
            .collect(),
        value => value,
    }
}

/// Forecasts from the records with the documents. `baseline` are the records without them.
pub(super) fn forecast(documents: &[Document], baseline: &Records, records: Records) -> Preview {
    let mut preview = Preview::default();
    let mut own: BTreeMap<Id, Effect> = documents
        .iter()
        .filter_map(|document| Some((document.id.clone(), document.effect()?)))
        .collect();
    // NetworkConfigurations are reconciled first, and listed first.
    let (networks, machines): (Vec<_>, Vec<_>) =
        records.into_iter().partition(|(id, _)| is_network(id));
    for (id, record) in networks.into_iter().chain(machines) {
        let baseline = baseline.get(&id);
        let given = documents.iter().find(|document| document.id == id);
        for problem in &record.problems {
            // Existing problems of other resources are not reported.
            let is_new = !baseline.is_some_and(|baseline| baseline.problems.contains(problem));
            if given.is_some() || is_new {
                let subject = given.map_or_else(|| id.to_string(), |given| given.origin.clone());
                preview.problems.push(format!("{subject}: {problem}"));
            }
        }
        let restart = restart(&record);
        let notes = notes(&record, baseline, given.is_some());
        let mut effects: Vec<Effect> = own.remove(&id).into_iter().collect();
        effects.extend(record.touched.iter().filter_map(|it| effect(it, &record)));
        let forecast = Forecast {
            restart,
            notes,
            ..Forecast::of(id, effects)
        };
        if !forecast.effects.is_empty() || !forecast.notes.is_empty() {
            preview.forecasts.push(forecast);
        }
    }
    // MachineClasses, and documents that the API server accepts and this version cannot decode.
    for (id, effect) in own {
        preview.forecasts.push(Forecast::of(id, vec![effect]));
    }
    preview.forecasts.sort_by_key(|forecast| {
        let id = &forecast.id;
        let order = (is_machine(id), is_network(id));
        (order, id.clone())
    });
    preview
}

impl Forecast {
    fn of(id: Id, mut effects: Vec<Effect>) -> Self {
        for effect in &mut effects {
            effect.fields.iter_mut().for_each(hide);
        }
        Self {
            id,
            effects,
            restart: Restart::None,
            notes: Vec::new(),
        }
    }
}

/// Messages of the last plan that the baseline does not have.
fn notes(record: &Record, baseline: Option<&Record>, is_given: bool) -> Vec<String> {
    let outdated_class = record.outdated_class.iter();
    let waits = record.waits.iter().filter(|_| is_given);
    let differences = record.differences.iter().map(|field| {
        format!(
            "differs, and stays as it is until {} is \"apply\": {field}",
            labels::ADOPT
        )
    });
    let notes: Vec<String> = outdated_class
        .chain(waits)
        .filter(|note| {
            !baseline.is_some_and(|baseline| {
                baseline.outdated_class.as_ref() == Some(*note) || baseline.waits.contains(note)
            })
        })
        .cloned()
        .collect();
    notes
        .into_iter()
        .chain(differences.filter(|_| is_given))
        .collect()
}

fn effect(touched: &Touched, record: &Record) -> Option<Effect> {
    let Touched {
        written: Written { id, before, after },
        reason,
        after_detach,
    } = touched;
    let kind = &*id.kind;
    let is_instance = kind == "VirtualMachineInstance";
    let is_secret = kind == "Secret";
    if is_secret && record.is_cloud_init_unknown && after.is_some() && before.is_some() {
        return None;
    }
    let (verb, fields, summary) = match (before, after) {
        // Created and deleted again, or deleted although it did not exist.
        (None, None) => return None,
        (None, Some(after)) => (Verb::Create, Vec::new(), summary(kind, after)),
        (Some(_), None) => {
            let when = if *after_detach {
                ", once it is detached"
            } else {
                ""
            };
            (Verb::Delete, Vec::new(), format!("{reason}{when}"))
        }
        (Some(_), Some(_)) if is_secret => (Verb::Change, Vec::new(), "cloud-init data".to_owned()),
        (Some(_), Some(_)) if is_instance => (Verb::Change, Vec::new(), reason.clone()),
        (Some(before), Some(after)) => {
            let fields = changes(&visible_fields(before), &visible_fields(after));
            let is_same = without_versions(before) == without_versions(after)
                || record.is_cloud_init_unknown
                    && fields.is_empty()
                    && same_but_cloud_init(before, after);
            if is_same {
                return None;
            }
            let summary = match fields.is_empty() {
                true if digest(before) != digest(after) => "cloud-init data".to_owned(),
                true => reason.clone(),
                false => String::new(),
            };
            (Verb::Change, fields, summary)
        }
    };
    Some(Effect {
        verb,
        id: id.clone(),
        reason: summary,
        fields,
    })
}

/// Removes what the API server changes with each write.
fn without_versions(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("resourceVersion");
        metadata.remove("generation");
    }
    object
}

fn digest(vm: &Value) -> &Value {
    &vm["spec"]["template"]["metadata"]["annotations"][labels::CLOUD_INIT]
}

/// Whether two versions of a VirtualMachine differ only in the cloud-init digest and in annotations that
/// depend on it.
fn same_but_cloud_init(before: &Value, after: &Value) -> bool {
    let comparable = |vm: &Value| {
        let mut annotations = vm["metadata"]["annotations"].clone();
        if let Some(annotations) = annotations.as_object_mut() {
            annotations.remove(labels::APPLIED);
        }
        (annotations, vm["metadata"]["ownerReferences"].clone())
    };
    comparable(before) == comparable(after)
}

/// Fields of an object to show, without the operator's bookkeeping.
fn visible_fields(object: &Value) -> Value {
    let metadata = &object["metadata"];
    let mut visible = json!({
        "metadata": { "labels": metadata["labels"], "annotations": metadata["annotations"] },
        "spec": object["spec"],
    });
    let places = [
        "/metadata/annotations",
        "/spec/template/metadata/annotations",
    ];
    for place in places {
        if let Some(annotations) = visible.pointer_mut(place).and_then(Value::as_object_mut) {
            annotations.retain(|name, _| {
                !labels::INTERNAL.contains(&name.as_str()) && name.as_str() != labels::CLOUD_INIT
            });
        }
    }
    pruned(visible)
}

/// Short description of an object to create.
fn summary(kind: &str, object: &Value) -> String {
    let spec = &object["spec"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let parts = match kind {
        "PersistentVolumeClaim" => vec![
            text(&spec["resources"]["requests"]["storage"]),
            text(&spec["storageClassName"]),
        ],
        "DataVolume" => {
            let storage = &spec["storage"];
            let source = spec["source"].as_object().and_then(|it| it.keys().next());
            vec![
                text(&storage["resources"]["requests"]["storage"]),
                text(&storage["storageClassName"]),
                source.map(|it| format!("from {it}")).unwrap_or_default(),
            ]
        }
        "VirtualMachine" => {
            let domain = &spec["template"]["spec"]["domain"];
            let count = |name: &str| domain["cpu"][name].as_u64().unwrap_or(1);
            let cpus = count("cores") * count("sockets") * count("threads");
            let plural = if cpus == 1 { "" } else { "s" };
            let halted = spec["runStrategy"] == "Halted";
            vec![
                format!("{cpus} CPU{plural}"),
                text(&domain["memory"]["guest"]),
                if halted { "stopped" } else { "" }.to_owned(),
            ]
        }
        "NetworkAttachmentDefinition" => {
            let config = spec["config"].as_str().unwrap_or_default();
            let config: Value = serde_json::from_str(config).unwrap_or_default();
            let vlan = config["vlan"].as_i64().map(|vlan| format!("VLAN {vlan}"));
            let bridge = text(&config["bridge"]);
            let bridge = (!bridge.is_empty()).then(|| format!("bridge {bridge}"));
            vec![bridge.unwrap_or_default(), vlan.unwrap_or_default()]
        }
        "Secret" => vec!["cloud-init data".to_owned()],
        _ => Vec::new(),
    };
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join(", ")
}

/// Restart of the running guest.
fn restart(record: &Record) -> Restart {
    let Some(guest) = &record.guest else {
        return Restart::None;
    };
    if record.is_restarted {
        return Restart::Happens;
    }
    let vm = record
        .touched
        .iter()
        .find(|touched| &*touched.written.id.kind == "VirtualMachine");
    let vm = vm.map(|touched| (&touched.written.before, &touched.written.after));
    let Some((Some(before), Some(after))) = vm else {
        return Restart::None;
    };
    // A stopped guest gets all changes when it starts.
    if after["spec"]["runStrategy"] == "Halted" {
        return Restart::None;
    }
    let conditions = guest["status"]["conditions"].as_array();
    let is_migratable = conditions
        .into_iter()
        .flatten()
        .any(|it| it["type"] == "LiveMigratable" && it["status"] == "True");
    let mut after = after["spec"].clone();
    if record.is_cloud_init_unknown {
        let place = "/template/metadata/annotations";
        if let Some(annotations) = after.pointer_mut(place) {
            annotations[labels::CLOUD_INIT] = digest(before).clone();
        }
    }
    let fields = restart_needed(&before["spec"], &after, is_migratable);
    if fields.is_empty() {
        Restart::None
    } else {
        Restart::Needed(fields)
    }
}
