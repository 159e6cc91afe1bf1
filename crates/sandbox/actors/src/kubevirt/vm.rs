//! VM controller of virt-controller: creates and deletes the VMI by the run strategy.
//!
//! Guarantees: at most one write of an object per reconcile, so every step is one watch event, in
//! KubeVirt's order; a finished VMI keeps the controller's finalizer until the VM's status shows
//! its end.

mod start;
mod status;

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use self::{
    start::{data_volumes_ready, new_vmi, record_start},
    status::{Problem, describe},
};
use super::{
    defaults::default_vm,
    edit::{annotate, difference, new_condition, put_condition, remove_condition, set},
    hotplug, interfaces,
    live_update::{self, Change, is_migrating},
    names::{
        CONTROLLER_FINALIZER, GENERATION_ANNOTATION, LATEST_API_ANNOTATION, STORAGE_API_ANNOTATION,
        VM, VMI,
    },
    run::{self, Action, is_final},
    storage,
};
use crate::{
    Actor, Caches, Context, Kind,
    kind::{CLAIM, CONTROLLER_REVISION, DATA_VOLUME, STORAGE_CLASS},
    object::{
        Key, Object, annotation, controller, controller_key, generation, has_finalizer, is_deleted,
        list, name, namespace, text, uid,
    },
};

#[derive(Clone, Copy, Debug, Default)]
pub struct VmController;

impl Actor for VmController {
    fn name(&self) -> &'static str {
        "virtualmachine-controller"
    }

    fn watches(&self) -> &[Kind] {
        &[
            VM,
            VMI,
            CLAIM,
            DATA_VOLUME,
            CONTROLLER_REVISION,
            STORAGE_CLASS,
        ]
    }

    fn keys(&self, kind: Kind, object: &Value, caches: &Caches) -> Vec<Key> {
        match kind {
            VM => vec![Key::of(object)],
            VMI | CONTROLLER_REVISION => controller_key(object, VM).into_iter().collect(),
            CLAIM | DATA_VOLUME => caches
                .within(VM, namespace(object))
                .filter(|vm| uses_claim(vm, name(object)))
                .map(|vm| Key::of(vm))
                .collect(),
            _ => Vec::new(),
        }
    }

    fn reconcile(&self, ctx: &mut Context<'_>) {
        let Some(vm) = ctx.observed(VM) else {
            return;
        };
        if record_snapshot_statuses(ctx, &vm) || record_observed(ctx, &vm) {
            return;
        }
        let vmi = ctx
            .caches
            .get(VMI, ctx.key)
            .filter(|vmi| controller(vmi).is_some_and(|owner| text(owner, "/uid") == uid(&vm)))
            .cloned();
        Pass {
            next: Value::clone(&vm),
            vm,
            vmi,
            stopping: false,
            problem: None,
        }
        .run(ctx);
    }
}

/// A DataVolume template has the name of its claim, and so has the volume that uses it.
fn uses_claim(vm: &Value, claim: &str) -> bool {
    list(vm, "/spec/template/spec/volumes")
        .iter()
        .any(|volume| storage::claim_name(volume) == Some(claim))
        || list(vm, "/spec/dataVolumeTemplates")
            .iter()
            .any(|template| name(template) == claim)
}

/// Writes the snapshot controller's part of a VM's status, separately from the rest.
fn record_snapshot_statuses(ctx: &mut Context<'_>, vm: &Object) -> bool {
    let volumes = list(vm, "/spec/template/spec/volumes");
    let statuses = storage::snapshot_statuses(ctx.caches, namespace(vm), volumes);
    if list(vm, "/status/volumeSnapshotStatuses") == statuses {
        return false;
    }
    let mut status = json!({ "volumeSnapshotStatuses": statuses });
    if text(vm, "/status/printableStatus").is_empty() {
        set(&mut status, "/printableStatus", "Stopped");
    }
    ctx.status(VM, vm, status);
    true
}

/// Records that the controller has observed a VM. If no webhook has defaulted the VM, does that
/// too.
fn record_observed(ctx: &mut Context<'_>, vm: &Object) -> bool {
    if annotation(vm, LATEST_API_ANNOTATION) == Some("v1") {
        return false;
    }
    let mut next = Value::clone(vm);
    annotate(&mut next, LATEST_API_ANNOTATION, "v1");
    annotate(&mut next, STORAGE_API_ANNOTATION, "v1");
    let seed = ctx.random(uid(vm));
    default_vm(&mut next, None, seed);
    if let Some(patch) = difference(vm, &next) {
        ctx.patch(VM, vm, patch);
    }
    true
}

/// One reconcile of a VM; `next` becomes its status.
struct Pass {
    vm: Object,
    vmi: Option<Object>,
    next: Value,
    stopping: bool,
    problem: Option<Problem>,
}

impl Pass {
    fn run(mut self, ctx: &mut Context<'_>) {
        if is_deleted(&self.vm) {
            match self.vmi.clone() {
                None => {
                    ctx.finalizer(VM, &self.vm, CONTROLLER_FINALIZER, false);
                    return;
                }
                Some(vmi) => self.stop(ctx, &vmi),
            }
        } else if !has_finalizer(&self.vm, CONTROLLER_FINALIZER) {
            ctx.finalizer(VM, &self.vm, CONTROLLER_FINALIZER, true);
            return;
        } else if let Some(patch) = interfaces::forget_absent(&self.vm, self.vmi.as_deref()) {
            ctx.patch(VM, &self.vm, patch);
            return;
        } else if self.follow_generation(ctx) || self.keep_running(ctx) {
            return;
        }
        self.record(ctx);
    }

    /// A change of the VM that does not affect its guest counts as observed at once.
    fn follow_generation(&self, ctx: &mut Context<'_>) -> bool {
        let Some(vmi) = self.vmi.as_ref().filter(|vmi| !is_deleted(vmi)) else {
            return false;
        };
        let current = generation(&self.vm).to_string();
        let template = self.vm.pointer("/spec/template");
        let unchanged = self
            .at_start(ctx.caches)
            .is_some_and(|spec| spec.get("template") == template);
        let behind =
            annotation(vmi, GENERATION_ANNOTATION).is_some_and(|observed| observed != current);
        if behind && unchanged {
            let patch =
                json!({ "metadata": { "annotations": { GENERATION_ANNOTATION: current } } });
            ctx.patch(VMI, vmi, patch);
            return true;
        }
        false
    }

    /// Acts by the run strategy. Returns whether the VM itself was written.
    fn keep_running(&mut self, ctx: &mut Context<'_>) -> bool {
        let vm = Arc::clone(&self.vm);
        let immediate = annotation(&vm, "kubevirt.io/immediate-data-volume-creation");
        if immediate != Some("false")
            && !data_volumes_ready(ctx, &vm)
            && run::strategy(&vm) != "Halted"
        {
            return false;
        }
        match (
            run::action(&vm, self.vmi.as_deref(), ctx.now),
            self.vmi.clone(),
        ) {
            (Action::Start, _) => self.start(ctx),
            (Action::StartAfter(retry), _) => {
                let left = retry.duration_since(ctx.now);
                ctx.requeue_after(left.try_into().unwrap_or_default());
            }
            (Action::Stop, Some(vmi)) => self.stop(ctx, &vmi),
            (Action::StopAndRequestStart, Some(vmi)) => {
                self.stop(ctx, &vmi);
                let mut requests = list(&self.next, "/status/stateChangeRequests").to_vec();
                requests.push(json!({ "action": "Start" }));
                set(&mut self.next, "/status/stateChangeRequests", requests);
            }
            (Action::RunAlways, _) => {
                let spec = if text(&vm, "/spec/runStrategy").is_empty() {
                    json!({ "running": true })
                } else {
                    json!({ "runStrategy": "Always" })
                };
                ctx.patch(VM, &vm, json!({ "spec": spec }));
                return true;
            }
            (Action::Unknown, _) => {
                let problem = format!("unknown runstrategy: {}", run::strategy(&vm));
                self.problem = Some(("FailedCreate", problem));
            }
            (_, Some(vmi)) => self.update_guest(ctx, &vmi),
            (_, None) => {}
        }
        false
    }

    fn start(&mut self, ctx: &mut Context<'_>) {
        let vm = Arc::clone(&self.vm);
        if !data_volumes_ready(ctx, &vm) {
            return;
        }
        remove_condition(&mut self.next, "RestartRequired");
        let revision = record_start(ctx, &vm);
        ctx.create(VMI, new_vmi(&vm, &revision, ctx.now));
        let message = format!(
            "Started the virtual machine by creating the new virtual machine instance {}",
            name(&vm)
        );
        ctx.normal(VM, &vm, "SuccessfulCreate", message);
    }

    fn stop(&mut self, ctx: &mut Context<'_>, vmi: &Object) {
        if is_deleted(vmi) {
            return;
        }
        self.stopping = true;
        ctx.delete(VMI, vmi);
        remove_condition(&mut self.next, "RestartRequired");
        let message = format!(
            "Stopped the virtual machine by deleting the virtual machine instance {}",
            uid(vmi)
        );
        ctx.normal(VM, &self.vm, "SuccessfulDelete", message);
    }

    /// Applies changes of the VM to its guest, or shows that a restart is required.
    fn update_guest(&mut self, ctx: &mut Context<'_>, vmi: &Object) {
        let Some(at_start) = self.at_start(ctx.caches) else {
            return;
        };
        let current = self.vm.get("spec").cloned().unwrap_or_default();
        let networks = interfaces::need_restart(&self.vm, &at_start, vmi);
        let must_restart = live_update::needs_restart(&at_start, &current, networks);
        let mut patch = json!({});
        // Devices are plugged even if other changes wait for a restart.
        if let Change::Patch(part) = interfaces::change(&self.vm, vmi) {
            crate::object::merge(&mut patch, &part);
        }
        match hotplug::change(&self.vm, vmi) {
            Change::Patch(part) => crate::object::merge(&mut patch, &part),
            Change::Refused(why) => {
                let message =
                    format!("Error encountered while handling declarative hotplug volumes: {why}");
                self.problem = Some(("HotPlugVolumeError", message));
            }
            Change::None | Change::Restart(_) => {}
        }
        if must_restart {
            if patch != json!({}) {
                ctx.patch(VMI, vmi, patch);
            }
            let why = "a non-live-updatable field was changed in the template spec";
            self.require_restart(why, ctx.now);
            return;
        }
        let migrating = is_migrating(vmi);
        let changes = [
            (
                live_update::sockets(&self.vm, vmi, migrating),
                "HotPlugCPUError",
                "CPU change request",
            ),
            (
                live_update::memory(&self.vm, vmi, migrating),
                "HotPlugMemoryError",
                "memory hotplug requests",
            ),
        ];
        let mut restart = None;
        for (change, reason, what) in changes {
            match change {
                Change::None => {}
                Change::Restart(why) => restart = Some(why),
                Change::Patch(part) => crate::object::merge(&mut patch, &part),
                Change::Refused(why) => {
                    let article = if reason == "HotPlugCPUError" {
                        "Error"
                    } else {
                        "error"
                    };
                    let message = format!("{article} encountered while handling {what}: {why}");
                    self.problem = Some((reason, message));
                    break;
                }
            }
        }
        if patch != json!({}) {
            ctx.patch(VMI, vmi, patch);
        }
        match restart {
            Some(why) => self.require_restart(&why, ctx.now),
            None => remove_condition(&mut self.next, "RestartRequired"),
        }
    }

    fn require_restart(&mut self, why: &str, now: Timestamp) {
        let condition = new_condition("RestartRequired", "True", "", why, Some(now));
        put_condition(&mut self.next, condition);
    }

    /// Spec of the VM at the start of its guest.
    fn at_start(&self, caches: &Caches) -> Option<Value> {
        let revision = text(self.vmi.as_ref()?, "/status/virtualMachineRevisionName").to_owned();
        caches
            .find(CONTROLLER_REVISION, namespace(&self.vm), &revision)?
            .pointer("/data/spec")
            .cloned()
    }

    /// Writes the status or, if it is up to date, removes the finalizer of a finished VMI.
    fn record(mut self, ctx: &mut Context<'_>) {
        let (vmi, problem) = (self.vmi.as_deref(), self.problem.as_ref());
        describe(&mut self.next, &self.vm, vmi, problem, self.stopping, ctx);
        if let Some(patch) = difference(&self.vm, &self.next) {
            let status = patch.get("status").cloned().unwrap_or_default();
            ctx.status(VM, &self.vm, status);
            return;
        }
        if let Some(vmi) = &self.vmi
            && is_final(vmi)
            && has_finalizer(vmi, CONTROLLER_FINALIZER)
        {
            ctx.finalizer(VMI, vmi, CONTROLLER_FINALIZER, false);
        }
    }
}
