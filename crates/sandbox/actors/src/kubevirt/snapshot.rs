//! Snapshot controller: VirtualMachineSnapshots and their contents.
//!
//! A content has a copy of the VM and of the claims of its volumes, but no data. The VM's status
//! names the snapshot in progress.

use std::time::Duration;

use jiff::SignedDuration;
use serde_json::{Value, json};

use super::{
    edit::{difference, put_condition, set},
    names::{SNAPSHOT, SNAPSHOT_CONTENT, VM, VMI},
    storage,
};
use crate::{
    Actor, Caches, Context, Kind, Step,
    object::{
        Key, Object, condition, has_finalizer, is_deleted, is_true, list, name, namespace, seconds,
        text, uid,
    },
};

const FINALIZER: &str = "snapshot.kubevirt.io/vmsnapshot-protection";
/// Time to snapshot all volumes.
const SNAPSHOT_VOLUMES: Step = Step::seconds(3);
/// Default deadline of a snapshot.
const DEADLINE: Duration = Duration::from_secs(5 * 60);

#[derive(Clone, Copy, Debug, Default)]
pub struct SnapshotController;

impl Actor for SnapshotController {
    fn name(&self) -> &'static str {
        "snapshot-controller"
    }

    fn watches(&self) -> &[Kind] {
        &[SNAPSHOT, SNAPSHOT_CONTENT, VM, VMI]
    }

    fn keys(&self, kind: Kind, object: &Value, caches: &Caches) -> Vec<Key> {
        match kind {
            SNAPSHOT => vec![Key::of(object)],
            SNAPSHOT_CONTENT => {
                let snapshot = text(object, "/spec/virtualMachineSnapshotName");
                vec![Key::new(namespace(object), snapshot)]
            }
            VM => caches
                .within(SNAPSHOT, namespace(object))
                .filter(|snapshot| text(snapshot, "/spec/source/name") == name(object))
                .map(|snapshot| Key::of(snapshot))
                .collect(),
            _ => Vec::new(),
        }
    }

    fn reconcile(&self, ctx: &mut Context<'_>) {
        let Some(snapshot) = ctx.observed(SNAPSHOT) else {
            return;
        };
        let source = text(&snapshot, "/spec/source/name").to_owned();
        let vm = ctx.caches.find(VM, namespace(&snapshot), &source).cloned();
        let content = ctx
            .caches
            .find(
                SNAPSHOT_CONTENT,
                namespace(&snapshot),
                &content_name(&snapshot),
            )
            .cloned();
        if is_deleted(&snapshot) {
            dispose(ctx, &snapshot, vm.as_ref(), content.as_ref());
        } else if !has_finalizer(&snapshot, FINALIZER) {
            ctx.finalizer(SNAPSHOT, &snapshot, FINALIZER, true);
        } else if matches!(text(&snapshot, "/status/phase"), "Succeeded" | "Failed") {
            lock(ctx, &snapshot, vm.as_ref(), false);
        } else {
            progress(ctx, &snapshot, vm.as_ref(), content.as_ref());
        }
    }
}

pub(crate) fn content_name(snapshot: &Value) -> String {
    match text(snapshot, "/status/virtualMachineSnapshotContentName") {
        "" => format!("vmsnapshot-content-{}", uid(snapshot)),
        name => name.to_owned(),
    }
}

/// Sets the conditions of a snapshot or restore; reason and message are the same.
pub(crate) fn set_conditions(next: &mut Value, conditions: &[(&str, &str, &str)], now: &str) {
    for (of_type, status, reason) in conditions {
        let since = condition(next, of_type)
            .filter(|old| text(old, "/status") == *status)
            .map_or(now, |old| text(old, "/lastTransitionTime"))
            .to_owned();
        let condition = json!({
            "type": of_type,
            "status": status,
            "reason": reason,
            "lastProbeTime": null,
            "lastTransitionTime": since,
        });
        put_condition(next, condition);
    }
}

fn progress(
    ctx: &mut Context<'_>,
    snapshot: &Object,
    vm: Option<&Object>,
    content: Option<&Object>,
) {
    let now = seconds(ctx.now);
    let mut next = Value::clone(snapshot);
    set(&mut next, "/status/phase", "InProgress");
    set(&mut next, "/status/readyToUse", false);
    let Some(vm) = vm else {
        let conditions = [
            ("Progressing", "False", "Source does not exist"),
            ("Ready", "False", "Not ready"),
        ];
        set_conditions(&mut next, &conditions, &now);
        write(ctx, snapshot, &next);
        return;
    };
    set(&mut next, "/status/sourceUID", uid(vm));
    show_source(&mut next, ctx.caches, vm);
    let locked = lock(ctx, snapshot, Some(vm), true);
    let (status, reason) = if locked {
        ("True", "Source locked and operation in progress")
    } else {
        ("False", "Source not locked")
    };
    let conditions = [
        ("Progressing", status, reason),
        ("Ready", "False", "Not ready"),
    ];
    set_conditions(&mut next, &conditions, &now);
    if is_overdue(ctx, snapshot) {
        set(&mut next, "/status/phase", "Failed");
        let conditions = [
            ("Progressing", "False", "Operation failed"),
            ("Failure", "True", "snapshot deadline exceeded"),
        ];
        set_conditions(&mut next, &conditions, &now);
    } else if let Some(content) = content.filter(|content| content.get("status").is_some()) {
        complete(&mut next, content, vm, &now);
    } else if locked && create_content(ctx, snapshot, vm, content) {
        return;
    }
    write(ctx, snapshot, &next);
}

/// Creates the content, then writes its status. Returns whether something was written.
fn create_content(
    ctx: &mut Context<'_>,
    snapshot: &Object,
    vm: &Object,
    content: Option<&Object>,
) -> bool {
    if ctx.fault(SNAPSHOT, snapshot, "NeverReady").is_some()
        || !ctx.waited(format!("snapshot {}", uid(snapshot)), SNAPSHOT_VOLUMES)
    {
        return false;
    }
    if let Some(content) = content {
        let now = seconds(ctx.now);
        let status = json!({ "readyToUse": true, "creationTime": now });
        ctx.status(SNAPSHOT_CONTENT, content, status);
        return true;
    }
    let volumes = list(vm, "/spec/template/spec/volumes");
    let backups: Vec<Value> = volumes
        .iter()
        .filter_map(|volume| {
            let claim = storage::claim_name(volume)?;
            let claim = ctx.caches.find(crate::kind::CLAIM, namespace(vm), claim)?;
            let backup = format!(
                "vmsnapshot-{}-volume-{}",
                uid(snapshot),
                text(volume, "/name")
            );
            Some(json!({
                "volumeName": text(volume, "/name"),
                "volumeSnapshotName": backup,
                "persistentVolumeClaim": {
                    "metadata": { "name": name(claim), "namespace": namespace(claim) },
                    "spec": claim.get("spec"),
                },
            }))
        })
        .collect();
    let source = json!({
        "metadata": {
            "name": name(vm),
            "namespace": namespace(vm),
            "uid": uid(vm),
            "labels": vm.pointer("/metadata/labels"),
            "annotations": vm.pointer("/metadata/annotations"),
        },
        "spec": vm.get("spec"),
    });
    ctx.create(
        SNAPSHOT_CONTENT,
        json!({
            "metadata": { "name": content_name(snapshot), "namespace": namespace(snapshot) },
            "spec": {
                "virtualMachineSnapshotName": name(snapshot),
                "source": { "virtualMachine": source },
                "volumeBackups": backups,
            },
        }),
    );
    true
}

fn complete(next: &mut Value, content: &Value, vm: &Value, now: &str) {
    let saved: Vec<&str> = list(content, "/spec/volumeBackups")
        .iter()
        .map(|backup| text(backup, "/volumeName"))
        .collect();
    let (included, excluded): (Vec<&str>, Vec<&str>) = list(vm, "/spec/template/spec/volumes")
        .iter()
        .map(|volume| text(volume, "/name"))
        .partition(|volume| saved.contains(volume));
    let mut volumes = json!({});
    for (field, names) in [("includedVolumes", included), ("excludedVolumes", excluded)] {
        if !names.is_empty() {
            set(&mut volumes, &format!("/{field}"), json!(names));
        }
    }
    set(next, "/status/snapshotVolumes", volumes);
    set(
        next,
        "/status/virtualMachineSnapshotContentName",
        name(content),
    );
    let created = text(content, "/status/creationTime");
    set(next, "/status/creationTime", created);
    set(next, "/status/phase", "Succeeded");
    set(next, "/status/readyToUse", true);
    let conditions = [
        ("Progressing", "False", "Operation complete"),
        ("Ready", "True", "Ready"),
    ];
    set_conditions(next, &conditions, now);
}

/// Shows the state of the VM at the time of the snapshot.
fn show_source(next: &mut Value, caches: &Caches, vm: &Value) {
    let Some(vmi) = caches.find(VMI, namespace(vm), name(vm)) else {
        return;
    };
    let mut indications = vec!["Online"];
    if is_true(vmi, "Paused") {
        indications.push("Paused");
    } else if is_true(vmi, "AgentConnected") {
        indications.push("GuestAgent");
    } else {
        indications.push("NoGuestAgent");
    }
    set(next, "/status/indications", json!(indications));
}

fn is_overdue(ctx: &mut Context<'_>, snapshot: &Value) -> bool {
    let deadline = text(snapshot, "/spec/failureDeadline")
        .parse::<SignedDuration>()
        .ok()
        .and_then(|deadline| Duration::try_from(deadline).ok())
        .unwrap_or(DEADLINE);
    let created = crate::object::time(snapshot, "/metadata/creationTimestamp").unwrap_or(ctx.now);
    // Zero means no deadline.
    !deadline.is_zero() && ctx.has_elapsed(created, deadline)
}

/// Sets or removes the snapshot's name on its VM. Returns whether it is set.
fn lock(ctx: &mut Context<'_>, snapshot: &Object, vm: Option<&Object>, wanted: bool) -> bool {
    let Some(vm) = vm else {
        return false;
    };
    let holder = text(vm, "/status/snapshotInProgress");
    let is_locked = holder == name(snapshot);
    if wanted && holder.is_empty() {
        let status = json!({ "snapshotInProgress": name(snapshot) });
        ctx.status(VM, vm, status);
    } else if !wanted && is_locked {
        ctx.status(VM, vm, json!({ "snapshotInProgress": null }));
    }
    is_locked
}

fn dispose(
    ctx: &mut Context<'_>,
    snapshot: &Object,
    vm: Option<&Object>,
    content: Option<&Object>,
) {
    lock(ctx, snapshot, vm, false);
    if let Some(content) = content
        && text(snapshot, "/spec/deletionPolicy") != "retain"
        && !is_deleted(content)
    {
        ctx.delete(SNAPSHOT_CONTENT, content);
    }
    if has_finalizer(snapshot, FINALIZER) {
        ctx.finalizer(SNAPSHOT, snapshot, FINALIZER, false);
    }
}

fn write(ctx: &mut Context<'_>, snapshot: &Object, next: &Value) {
    if let Some(patch) = difference(snapshot, next) {
        let status = patch.get("status").cloned().unwrap_or_default();
        ctx.status(SNAPSHOT, snapshot, status);
    }
}
