//! Restore controller: resets a VM to a snapshot.
//!
//! The VM must be stopped. Its spec becomes that of the snapshot, except for the run strategy.
//! Claims are kept: KubeVirt would create new ones from volume snapshots, but the sandbox has no
//! data to restore.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    edit::{difference, set},
    names::{RESTORE, SNAPSHOT, SNAPSHOT_CONTENT, VM, VMI},
    snapshot::{content_name, set_conditions},
};
use crate::{
    Actor, Caches, Context, Kind, Step,
    object::{Key, Object, is_deleted, name, namespace, seconds, text, time, truth, uid},
};

/// Time to restore all volumes.
const RESTORING: Step = Step::seconds(5);
/// How long a VM may take to stop.
const GRACE_PERIOD: Duration = Duration::from_secs(5 * 60);
const WAITING: &str = "Waiting for target VM to be powered off. Please stop the restore target to \
                       proceed with restore";

#[derive(Clone, Copy, Debug, Default)]
pub struct RestoreController;

impl Actor for RestoreController {
    fn name(&self) -> &'static str {
        "restore-controller"
    }

    fn watches(&self) -> &[Kind] {
        &[RESTORE, SNAPSHOT, SNAPSHOT_CONTENT, VM, VMI]
    }

    fn keys(&self, kind: Kind, object: &Value, caches: &Caches) -> Vec<Key> {
        let field = match kind {
            RESTORE => return vec![Key::of(object)],
            SNAPSHOT => "/spec/virtualMachineSnapshotName",
            VM | VMI => "/spec/target/name",
            _ => return Vec::new(),
        };
        caches
            .within(RESTORE, namespace(object))
            .filter(|restore| text(restore, field) == name(object))
            .map(|restore| Key::of(restore))
            .collect()
    }

    fn reconcile(&self, ctx: &mut Context<'_>) {
        let Some(restore) = ctx.observed(RESTORE) else {
            return;
        };
        let settled = truth(&restore, "/status/complete")
            || crate::object::is_true(&restore, "Failure")
            || is_deleted(&restore);
        if settled {
            return;
        }
        let mut next = Value::clone(&restore);
        if restore.get("status").is_none() {
            set(&mut next, "/status/complete", false);
            report(&mut next, "True", "Initializing VirtualMachineRestore", ctx);
        } else {
            match proceed(ctx, &restore) {
                Progress::Written => return,
                Progress::Waiting(progressing, why) => report(&mut next, progressing, &why, ctx),
                Progress::Failed(why) => {
                    report(&mut next, "False", &why, ctx);
                    set_conditions(&mut next, &[("Failure", "True", &why)], &seconds(ctx.now));
                }
                Progress::Done => {
                    let now = seconds(ctx.now);
                    set(&mut next, "/status/complete", true);
                    set(&mut next, "/status/restoreTime", now.clone());
                    let done = "Operation complete";
                    let conditions = [("Progressing", "False", done), ("Ready", "True", done)];
                    set_conditions(&mut next, &conditions, &now);
                }
            }
        }
        if let Some(patch) = difference(&restore, &next) {
            let status = patch.get("status").cloned().unwrap_or_default();
            ctx.status(RESTORE, &restore, status);
        }
    }
}

enum Progress {
    /// The VM was written: the next reconcile observes it.
    Written,
    /// Status and reason of `Progressing`.
    Waiting(&'static str, String),
    Failed(String),
    Done,
}

fn report(next: &mut Value, progressing: &str, why: &str, ctx: &Context<'_>) {
    let conditions = [("Progressing", progressing, why), ("Ready", "False", why)];
    set_conditions(next, &conditions, &seconds(ctx.now));
}

fn proceed(ctx: &mut Context<'_>, restore: &Object) -> Progress {
    let place = namespace(restore);
    let snapshot_name = text(restore, "/spec/virtualMachineSnapshotName");
    let snapshot = ctx.caches.find(SNAPSHOT, place, snapshot_name);
    let Some(snapshot) = snapshot.filter(|snapshot| truth(snapshot, "/status/readyToUse")) else {
        let what = if snapshot.is_some() {
            "not ready"
        } else {
            "does not exist"
        };
        return Progress::Waiting(
            "False",
            format!("VMSnapshot {place}/{snapshot_name} {what}"),
        );
    };
    let content = content_name(snapshot);
    let Some(content) = ctx.caches.find(SNAPSHOT_CONTENT, place, &content) else {
        let why = format!("VMSnapshotContent {place}/{content} does not exist");
        return Progress::Waiting("False", why);
    };
    let saved = content
        .pointer("/spec/source/virtualMachine/spec")
        .cloned()
        .unwrap_or_default();
    let target = text(restore, "/spec/target/name");
    let Some(vm) = ctx.caches.find(VM, place, target).cloned() else {
        return Progress::Failed(format!("restore target {place}/{target} does not exist"));
    };
    if ctx.caches.find(VMI, place, target).is_some() {
        return wait_for_stop(ctx, restore, &vm);
    }
    if ctx.fault(RESTORE, restore, "Failed").is_some() {
        return Progress::Failed("restore failed".to_owned());
    }
    if !ctx.waited(format!("restore {}", uid(restore)), RESTORING) {
        return Progress::Waiting("True", "Creating new PVCs".to_owned());
    }
    let mut next = Value::clone(&vm);
    set(&mut next, "/spec", saved);
    for field in ["runStrategy", "running"] {
        let pointer = format!("/spec/{field}");
        match vm.pointer(&pointer) {
            Some(value) => set(&mut next, &pointer, value.clone()),
            None => {
                super::edit::remove(&mut next, &pointer);
            }
        }
    }
    match difference(&vm, &next) {
        Some(patch) => {
            ctx.patch(VM, &vm, patch);
            Progress::Written
        }
        None => Progress::Done,
    }
}

fn wait_for_stop(ctx: &mut Context<'_>, restore: &Object, vm: &Object) -> Progress {
    match text(restore, "/spec/targetReadinessPolicy") {
        "StopTarget" => {
            let halted = if text(vm, "/spec/runStrategy").is_empty() {
                json!({ "running": false })
            } else {
                json!({ "runStrategy": "Halted" })
            };
            ctx.patch(VM, vm, json!({ "spec": halted }));
            let why = "Automatically stopping restore target for restore operation";
            Progress::Waiting("False", why.to_owned())
        }
        "FailImmediate" => Progress::Failed(
            "Restore target VMI must be powered off before restore operation".to_owned(),
        ),
        "WaitEventually" => Progress::Waiting("False", WAITING.to_owned()),
        _ => {
            let since = time(restore, "/metadata/creationTimestamp").unwrap_or(ctx.now);
            if ctx.has_elapsed(since, GRACE_PERIOD) {
                return Progress::Failed(
                    "Restore target failed to be ready within 5m0s. Please power off the target VM \
                     before attempting restore"
                        .to_owned(),
                );
            }
            Progress::Waiting(
                "False",
                format!("{WAITING}, or the operation will fail after 5m0s"),
            )
        }
    }
}
