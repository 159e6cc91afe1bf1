//! VMI controller of virt-controller: creates the launcher pod of a VMI and hands the VMI over to
//! virt-handler.
//!
//! It owns the VMI's status until the pod is ready. From then on it only maintains conditions, pods
//! and volumes, and observes the end of the pod.

mod phases;

use serde_json::{Value, json};

use self::phases::describe;
pub(super) use self::phases::{pod_interface, record_phase};
use super::{
    defaults::default_vmi,
    edit::{annotate, difference},
    hotplug,
    launcher::{self, current_pod, launcher_pod, pods},
    live_update::is_migrating,
    managed::launcher_image,
    names::{LATEST_API_ANNOTATION, MIGRATION, STORAGE_API_ANNOTATION, VM, VMI},
    run::is_final,
    storage,
};
use crate::{
    Actor, Caches, Context, Kind,
    kind::{CLAIM, DATA_VOLUME, POD, STORAGE_CLASS},
    object::{
        Key, Object, annotation, controller_key, generation, is_deleted, is_true, list, name,
        namespace, text, uid,
    },
};

pub const SECRET: Kind = Kind::namespaced("", "v1", "Secret", "secrets");

#[derive(Clone, Copy, Debug, Default)]
pub struct VmiController;

impl Actor for VmiController {
    fn name(&self) -> &'static str {
        "virtualmachineinstance-controller"
    }

    fn watches(&self) -> &[Kind] {
        &[
            VMI,
            VM,
            POD,
            CLAIM,
            DATA_VOLUME,
            SECRET,
            STORAGE_CLASS,
            MIGRATION,
        ]
    }

    fn keys(&self, kind: Kind, object: &Value, caches: &Caches) -> Vec<Key> {
        match kind {
            VMI | VM => vec![Key::of(object)],
            POD => match controller_key(object, POD) {
                // An attachment pod belongs to the launcher pod.
                Some(launcher) => caches
                    .get(POD, &launcher)
                    .and_then(|launcher| controller_key(launcher, VMI))
                    .into_iter()
                    .collect(),
                None => controller_key(object, VMI).into_iter().collect(),
            },
            MIGRATION => vec![Key::new(namespace(object), text(object, "/spec/vmiName"))],
            CLAIM | DATA_VOLUME => users(caches, object, |volume| {
                storage::claim_name(volume) == Some(name(object))
            }),
            SECRET => users(caches, object, |volume| {
                launcher::secrets(volume).any(|(_, secret)| secret == name(object))
            }),
            _ => Vec::new(),
        }
    }

    fn reconcile(&self, ctx: &mut Context<'_>) {
        let Some(vmi) = ctx.observed(VMI) else {
            return;
        };
        if record_observed(ctx, &vmi) {
            return;
        }
        let pod = current_pod(ctx.caches, &vmi).cloned();
        let (problem, refused) = match sync(ctx, &vmi, pod.as_ref()) {
            Synced::PodsChanged => return,
            Synced::Fine => (None, None),
            Synced::Problem(reason, message) => (Some((reason, message)), None),
            Synced::Refused(pod, message) => {
                (Some(("FailedCreate".to_owned(), message)), Some(pod))
            }
        };
        let next = describe(ctx, &vmi, pod.as_ref(), problem);
        if let Some(patch) = difference(&vmi, &next) {
            ctx.patch(VMI, &vmi, patch);
        }
        if let Some(pod) = refused {
            create_pod(ctx, &vmi, pod);
        }
        if text(&vmi, "/status/phase") == "Running" && !is_deleted(&vmi) {
            hotplug::attach(ctx, &vmi);
        }
        update_workload(ctx, &vmi);
    }
}

/// Keys of the VMIs on a node.
pub(super) fn vmis_on(caches: &Caches, node: &Value) -> Vec<Key> {
    let vmis = caches.all(VMI);
    vmis.filter(|vmi| text(vmi, "/status/nodeName") == name(node))
        .map(|vmi| Key::of(vmi))
        .collect()
}

fn users(caches: &Caches, object: &Value, uses: impl Fn(&Value) -> bool) -> Vec<Key> {
    caches
        .within(VMI, namespace(object))
        .filter(|vmi| list(vmi, "/spec/volumes").iter().any(&uses))
        .map(|vmi| Key::of(vmi))
        .collect()
}

/// Records that the controller has observed a VMI. If no webhook has defaulted the VMI, does that
/// too.
fn record_observed(ctx: &mut Context<'_>, vmi: &Object) -> bool {
    let unfilled = text(vmi, "/status/phase").is_empty();
    if !unfilled && annotation(vmi, LATEST_API_ANNOTATION) == Some("v1") {
        return false;
    }
    let mut next = Value::clone(vmi);
    if unfilled {
        default_vmi(&mut next, ctx.now);
    } else {
        annotate(&mut next, LATEST_API_ANNOTATION, "v1");
        annotate(&mut next, STORAGE_API_ANNOTATION, "v1");
    }
    if let Some(patch) = difference(vmi, &next) {
        ctx.patch(VMI, vmi, patch);
    }
    true
}

enum Synced {
    Fine,
    /// The next reconcile observes the result.
    PodsChanged,
    Problem(String, String),
    /// The API server refused the pod, with this message; creation is retried.
    Refused(Value, String),
}

/// Creates the launcher pod of a VMI, or deletes the pods of a deleted VMI.
fn sync(ctx: &mut Context<'_>, vmi: &Object, pod: Option<&Object>) -> Synced {
    if is_deleted(vmi) {
        let remaining: Vec<Object> = pods(ctx.caches, vmi)
            .filter(|pod| !is_deleted(pod))
            .cloned()
            .collect();
        for pod in &remaining {
            ctx.delete(POD, pod);
        }
        return if remaining.is_empty() {
            Synced::Fine
        } else {
            Synced::PodsChanged
        };
    }
    if is_final(vmi) {
        return Synced::Fine;
    }
    let volumes: Vec<Value> = list(vmi, "/spec/volumes")
        .iter()
        .filter(|volume| !hotplug::is_hotpluggable(volume))
        .cloned()
        .collect();
    let volumes = volumes.as_slice();
    let missing = storage::claims(ctx.caches, namespace(vmi), volumes)
        .find(|(_, claim)| claim.is_none())
        .map(|(claim, _)| claim.to_owned());
    if let Some(claim) = missing {
        let message = format!(
            "PVC {}/{claim} does not exist, waiting for it to appear",
            namespace(vmi)
        );
        ctx.normal(VMI, vmi, "FailedPvcNotFound", message.clone());
        return Synced::Problem("FailedPvcNotFound".to_owned(), message);
    }
    if pod.is_some() || text(vmi, "/status/phase") != "Pending" {
        return Synced::Fine;
    }
    let filled = storage::data_volumes(ctx.caches, namespace(vmi), volumes)
        .all(|volume| storage::is_usable(volume));
    if !filled {
        return Synced::Fine;
    }
    let number = ctx.random(uid(vmi));
    let mut pod = launcher_pod(vmi, launcher_image(ctx.caches), number);
    if ctx.fault(VMI, vmi, "Unschedulable").is_some() {
        launcher::make_unschedulable(&mut pod);
    }
    if let Some(refusal) = ctx.refusal() {
        let message = format!("Error creating pod: {refusal}");
        ctx.warning(VMI, vmi, "FailedCreate", message);
        let message = format!("failed to create virtual machine pod: {refusal}");
        return Synced::Refused(pod, message);
    }
    create_pod(ctx, vmi, pod);
    Synced::PodsChanged
}

fn create_pod(ctx: &mut Context<'_>, vmi: &Object, pod: Value) {
    let message = format!("Created virtual machine pod {}", name(&pod));
    ctx.create(POD, pod);
    ctx.normal(VMI, vmi, "SuccessfulCreate", message);
}

/// Workload updater: migrates the guest to complete a change of CPU or memory.
fn update_workload(ctx: &mut Context<'_>, vmi: &Object) {
    let changing = ["HotVCPUChange", "HotMemoryChange", "MigrationRequired"]
        .iter()
        .any(|change| is_true(vmi, change));
    if !changing || !is_true(vmi, "LiveMigratable") || is_deleted(vmi) || is_migrating(vmi) {
        return;
    }
    let moving = ctx
        .caches
        .within(MIGRATION, namespace(vmi))
        .filter(|migration| text(migration, "/spec/vmiName") == name(vmi))
        .any(|migration| !is_final(migration));
    if moving || text(vmi, "/status/phase") != "Running" {
        return;
    }
    let change = format!("{} {}", uid(vmi), generation(vmi));
    let number = ctx.random(&change) & 0xf_ffff;
    ctx.create(
        MIGRATION,
        json!({
            "metadata": {
                "name": format!("kubevirt-workload-update-{number:05x}"),
                "namespace": namespace(vmi),
                "annotations": { "kubevirt.io/workloadUpdateMigration": "" },
            },
            "spec": { "vmiName": name(vmi) },
        }),
    );
}
