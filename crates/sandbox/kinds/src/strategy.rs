//! Create and update strategies: PrepareForCreate, PrepareForUpdate, and object-local admission.
//!
//! A status is written only through its subresource, which writes nothing else. The caller sets
//! system metadata (UID, creation time) before [`prepare_create`], because some kinds derive labels
//! from it, and maintains `metadata.generation`.

use serde_json::{Map, Value, json};

use crate::{
    Kind, decode,
    value::{at, child, copy_field, fields_mut, flag, has, int, list, map, set_default, text},
};

pub fn prepare_create(kind: &Kind, object: &mut Value) {
    // Kubelets create their Node with a status.
    if kind.has_status && kind.kind != "Node" {
        clear(kind, object, "status");
    }
    match (kind.group, kind.kind) {
        ("", "Namespace") => {
            set_status(object, json!({"phase": "Active"}));
            let finalizers = list(object, "spec.finalizers");
            if !finalizers.iter().any(|finalizer| finalizer == "kubernetes") {
                let mut finalizers = finalizers.to_vec();
                finalizers.push("kubernetes".into());
                if let Some(spec) = fields_mut(object, "spec") {
                    spec.insert("finalizers".to_owned(), finalizers.into());
                }
            }
        }
        ("", "Pod") => {
            let mut status = json!({"phase": "Pending", "qosClass": qos_class(object)});
            if !list(object, "spec.schedulingGates").is_empty() {
                status["conditions"] = json!([{
                    "type": "PodScheduled",
                    "status": "False",
                    "reason": "SchedulingGated",
                    "message": "Scheduling is blocked due to non-empty scheduling gates",
                    "lastProbeTime": null,
                    "lastTransitionTime": null,
                }]);
            }
            set_status(object, status);
        }
        ("", "PersistentVolume" | "PersistentVolumeClaim") => {
            set_status(object, json!({"phase": "Pending"}));
            sync_data_source(object);
        }
        ("apps", "DaemonSet") => set_template_generation(object, 1),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => {
            let stored = list(object, "spec.versions")
                .iter()
                .filter(|version| flag(version, "storage"));
            let stored: Vec<Value> = stored.map(|version| at(version, "name").clone()).collect();
            if let Some(status) = fields_mut(object, "status") {
                status.insert("storedVersions".to_owned(), stored.into());
            }
        }
        ("batch", "Job") => select_own_pods(object),
        _ => {}
    }
}

/// `subresource` is empty for the object itself.
pub fn prepare_update(kind: &Kind, new: &mut Value, old: &Value, subresource: &str) {
    match subresource {
        "" => main_update(kind, new, old),
        "status" => {
            for field in own_fields(old)
                .chain(own_fields(&new.clone()))
                .collect::<Vec<_>>()
            {
                copy_field(new, old, &field);
            }
            keep_metadata(kind, new, old);
            if kind.kind == "DaemonSet" {
                set_template_generation(new, template_generation(old));
            }
            if let ("Pod", Some(status)) = (kind.kind, fields_mut(new, "status")) {
                set_default(status, "qosClass", at(old, "status.qosClass").clone());
            }
        }
        "finalize" => copy_field(new, old, "status"),
        "ephemeralcontainers" | "resize" => {
            copy_field(new, old, "status");
            copy_field(new, old, "metadata");
        }
        _ => {}
    }
}

fn main_update(kind: &Kind, new: &mut Value, old: &Value) {
    if kind.has_status {
        copy_field(new, old, "status");
    }
    match (kind.group, kind.kind) {
        ("", "Namespace") => copy_field(new, old, "spec"),
        ("", "Service") => crate::service::keep_allocated(new, old),
        ("", "PersistentVolumeClaim") => sync_data_source(new),
        ("apps", "DaemonSet") => {
            let before = template_generation(old);
            let changed = at(new, "spec.template") != at(old, "spec.template");
            set_template_generation(new, before + i64::from(changed));
        }
        _ => {}
    }
}

/// Fields other than identity and status.
fn own_fields(object: &Value) -> impl Iterator<Item = String> {
    let fields = object.as_object().into_iter().flatten();
    fields
        .map(|(name, _)| name.clone())
        .filter(|name| !matches!(name.as_str(), "apiVersion" | "kind" | "metadata" | "status"))
        .collect::<Vec<_>>()
        .into_iter()
}

/// Metadata that a status update may change depends on the kind.
fn keep_metadata(kind: &Kind, new: &mut Value, old: &Value) {
    let kept: &[&str] = match (kind.group, kind.kind) {
        ("apps", "Deployment") => &["labels"],
        ("", "Pod") => &["ownerReferences"],
        ("apiextensions.k8s.io" | "apiregistration.k8s.io", _) => {
            &["labels", "annotations", "finalizers", "ownerReferences"]
        }
        _ => &[],
    };
    let before = at(old, "metadata").clone();
    if let Some(metadata) = new.get_mut("metadata") {
        for field in kept {
            copy_field(metadata, &before, field);
        }
    }
}

fn clear(kind: &Kind, object: &mut Value, field: &str) {
    if let Some(fields) = object.as_object_mut() {
        fields.remove(field);
    }
    decode::normalise(kind.component, object);
}

fn set_status(object: &mut Value, status: Value) {
    if let Some(fields) = object.as_object_mut() {
        fields.insert("status".to_owned(), status);
    }
}

/// dataSource and dataSourceRef must agree.
fn sync_data_source(object: &mut Value) {
    let namespaced = has(object, "spec.dataSourceRef.namespace");
    let source = at(object, "spec.dataSource").clone();
    let reference = at(object, "spec.dataSourceRef").clone();
    let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else {
        return;
    };
    match (source.is_null(), reference.is_null()) {
        (false, true) => set_default(spec, "dataSourceRef", source),
        (true, false) if !namespaced => set_default(spec, "dataSource", reference),
        _ => {}
    }
}

const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

fn template_generation(object: &Value) -> i64 {
    let annotation = map(object, "metadata.annotations").get(TEMPLATE_GENERATION);
    annotation
        .and_then(|text| text.as_str()?.parse().ok())
        .unwrap_or_default()
}

fn set_template_generation(object: &mut Value, generation: i64) {
    let present = template_generation(object);
    if let Some(annotations) = fields_mut(object, "metadata.annotations") {
        let generation = generation.max(present);
        annotations.insert(
            TEMPLATE_GENERATION.to_owned(),
            generation.to_string().into(),
        );
    }
}

/// A Job without a selector selects pods by its UID.
fn select_own_pods(object: &mut Value) {
    if flag(object, "spec.manualSelector") {
        return;
    }
    let uid = text(object, "metadata.uid").to_owned();
    let name = text(object, "metadata.name").to_owned();
    let shared = at(object, "metadata.labels") == at(object, "spec.template.metadata.labels");
    if let Some(labels) = fields_mut(object, "spec.template.metadata.labels") {
        for (key, value) in [
            ("job-name", &name),
            ("controller-uid", &uid),
            ("batch.kubernetes.io/job-name", &name),
            ("batch.kubernetes.io/controller-uid", &uid),
        ] {
            // Job names may exceed the length of label values.
            if key.ends_with("job-name") && value.len() > 63 {
                continue;
            }
            set_default(labels, key, value.as_str());
        }
    }
    // A Job inherits the labels of its template.
    let labels = at(object, "spec.template.metadata.labels").clone();
    if let (true, Some(metadata)) = (shared, fields_mut(object, "metadata")) {
        metadata.insert("labels".to_owned(), labels);
    }
    if let Some(labels) = fields_mut(object, "spec.selector.matchLabels") {
        set_default(labels, "batch.kubernetes.io/controller-uid", uid);
    }
}

pub(crate) fn qos_class(pod: &Value) -> &'static str {
    let containers: Vec<&Value> = list(pod, "spec.containers")
        .iter()
        .chain(list(pod, "spec.initContainers"))
        .collect();
    let compute = |container: &Value, kind: &str| -> Map<String, Value> {
        let amounts = map(container, &format!("resources.{kind}")).iter();
        amounts
            .filter(|(name, amount)| {
                matches!(name.as_str(), "cpu" | "memory") && amount.as_str() != Some("0")
            })
            .map(|(name, amount)| (name.clone(), amount.clone()))
            .collect()
    };
    let asks_nothing = |container: &&Value| {
        compute(container, "requests").is_empty() && compute(container, "limits").is_empty()
    };
    if containers.iter().all(asks_nothing) {
        return "BestEffort";
    }
    let guaranteed = |container: &&Value| {
        let limits = compute(container, "limits");
        limits.len() == 2 && compute(container, "requests") == limits
    };
    if containers.iter().all(guaranteed) {
        "Guaranteed"
    } else {
        "Burstable"
    }
}

/// Changes of compiled-in admission plugins that depend on the object alone: tolerations and
/// priority of pods, protection finalizers of volumes and claims, the not-ready taint of nodes.
pub fn admit_create(kind: &Kind, object: &mut Value) {
    match (kind.group, kind.kind) {
        ("", "Pod") => {
            tolerate_bad_nodes(object);
            let priority = match text(object, "spec.priorityClassName") {
                "" => Some(0),
                "system-cluster-critical" => Some(2_000_000_000),
                "system-node-critical" => Some(2_000_001_000),
                _ => None,
            };
            if let (Some(priority), Some(spec)) = (priority, fields_mut(object, "spec")) {
                set_default(spec, "priority", priority);
                set_default(spec, "preemptionPolicy", "PreemptLowerPriority");
            }
        }
        ("", "PersistentVolume") => add_finalizer(object, "kubernetes.io/pv-protection"),
        ("", "PersistentVolumeClaim") => add_finalizer(object, "kubernetes.io/pvc-protection"),
        ("", "Node") => {
            let taint = json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"});
            let mut taints = list(object, "spec.taints").to_vec();
            let is_there = |taint: &Value| text(taint, "key") == "node.kubernetes.io/not-ready";
            if !taints.iter().any(is_there) {
                taints.push(taint);
                if let Some(spec) = fields_mut(object, "spec") {
                    spec.insert("taints".to_owned(), taints.into());
                }
            }
        }
        _ => {}
    }
}

/// The same for updates of the main resource.
pub fn admit_update(kind: &Kind, object: &mut Value) {
    if let ("", "Pod") = (kind.group, kind.kind) {
        tolerate_bad_nodes(object);
    }
}

/// Sets the priority of the pod from its PriorityClass.
pub fn admit_priority(pod: &mut Value, priority_class: &Value) {
    if let Some(spec) = fields_mut(pod, "spec") {
        spec.insert("priority".to_owned(), int(priority_class, "value").into());
        spec.insert(
            "priorityClassName".to_owned(),
            text(priority_class, "metadata.name").into(),
        );
        let preemption = match text(priority_class, "preemptionPolicy") {
            "" => "PreemptLowerPriority",
            policy => policy,
        };
        set_default(spec, "preemptionPolicy", preemption);
    }
}

fn tolerate_bad_nodes(pod: &mut Value) {
    let mut tolerations = list(pod, "spec.tolerations").to_vec();
    for key in [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ] {
        let tolerated = tolerations.iter().any(|toleration| {
            matches!(text(toleration, "key"), name if name == key || name.is_empty())
                && matches!(text(toleration, "effect"), "NoExecute" | "")
        });
        if !tolerated {
            tolerations.push(json!({
                "key": key,
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": 300,
            }));
        }
    }
    if let Some(spec) = fields_mut(pod, "spec") {
        spec.insert("tolerations".to_owned(), tolerations.into());
    }
}

fn add_finalizer(object: &mut Value, finalizer: &str) {
    let Some(metadata) = object
        .as_object_mut()
        .and_then(|fields| child(fields, "metadata"))
    else {
        return;
    };
    set_default(metadata, "finalizers", Vec::<Value>::new());
    if let Some(finalizers) = metadata.get_mut("finalizers").and_then(Value::as_array_mut)
        && !finalizers.iter().any(|present| present == finalizer)
    {
        finalizers.push(finalizer.into());
    }
}
