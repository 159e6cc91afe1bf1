//! Start of a VM: DataVolumes, a ControllerRevision of its spec, and the VMI.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    Context,
    kind::{CONTROLLER_REVISION, DATA_VOLUME},
    kubevirt::{
        defaults::default_vmi,
        edit::{add_finalizer, annotate, label, remove, set, set_default, uuid},
        names::{CONTROLLER_FINALIZER, CREATED_BY_LABEL, GENERATION_ANNOTATION, VM},
        run, storage,
    },
    object::{Object, controlled_by, generation, list, name, namespace, uid},
};

/// Creates missing DataVolumes of the VM. Returns whether all of them are usable.
pub(super) fn data_volumes_ready(ctx: &mut Context<'_>, vm: &Object) -> bool {
    let mut ready = true;
    for template in list(vm, "/spec/dataVolumeTemplates") {
        let Some(volume) = ctx.caches.find(DATA_VOLUME, namespace(vm), name(template)) else {
            ready = false;
            let mut volume = template.clone();
            set(&mut volume, "/metadata/namespace", namespace(vm));
            let owner = controlled_by(VM, vm);
            set(&mut volume, "/metadata/ownerReferences", json!([owner]));
            label(&mut volume, CREATED_BY_LABEL, uid(vm));
            remove(&mut volume, "/apiVersion");
            remove(&mut volume, "/kind");
            remove(&mut volume, "/status");
            ctx.create(DATA_VOLUME, volume);
            let message = format!("Created DataVolume {}", name(template));
            ctx.normal(VM, vm, "SuccessfulDataVolumeCreate", message);
            continue;
        };
        ready &= storage::is_usable(volume);
    }
    ready
}

/// Stores the spec of this start in a ControllerRevision and deletes those of earlier starts.
pub(super) fn record_start(ctx: &mut Context<'_>, vm: &Object) -> String {
    let revision = format!("revision-start-vm-{}-{}", uid(vm), generation(vm));
    let older: Vec<Object> = ctx
        .caches
        .children(CONTROLLER_REVISION, vm)
        .filter(|old| name(old) != revision)
        .cloned()
        .collect();
    for old in &older {
        ctx.delete(CONTROLLER_REVISION, old);
    }
    ctx.create(
        CONTROLLER_REVISION,
        json!({
            "metadata": {
                "name": revision,
                "namespace": namespace(vm),
                "ownerReferences": [controlled_by(VM, vm)],
            },
            "data": { "spec": vm.get("spec") },
            "revision": generation(vm),
        }),
    );
    revision
}

pub(super) fn new_vmi(vm: &Value, revision: &str, now: Timestamp) -> Value {
    let template = vm.pointer("/spec/template").cloned().unwrap_or_default();
    let mut vmi = json!({
        "metadata": {
            "name": name(vm),
            "namespace": namespace(vm),
            "ownerReferences": [controlled_by(VM, vm)],
        },
        "spec": template.get("spec"),
        "status": { "virtualMachineRevisionName": revision },
    });
    for field in ["labels", "annotations"] {
        if let Some(given) = template
            .get("metadata")
            .and_then(|metadata| metadata.get(field))
        {
            set(&mut vmi, &format!("/metadata/{field}"), given.clone());
        }
    }
    annotate(&mut vmi, GENERATION_ANNOTATION, &generation(vm).to_string());
    if run::asks_to_start_paused(vm) {
        set(&mut vmi, "/spec/startStrategy", "Paused");
    }
    let identity = uuid(0, name(vm));
    set_default(&mut vmi, "/spec/domain/firmware/uuid", identity);
    add_finalizer(&mut vmi, CONTROLLER_FINALIZER);
    default_vmi(&mut vmi, now);
    vmi
}
