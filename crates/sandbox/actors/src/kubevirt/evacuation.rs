//! Evacuation of nodes: virt-api's review of launcher pod evictions, and the controller that
//! migrates the guests.

use serde_json::{Value, json};

use super::{
    live_update::is_migrating,
    names::{APP_LABEL, DOMAIN_ANNOTATION, MIGRATION, VMI},
    run::is_final,
    vmi::vmis_on,
};
use crate::{
    Actor, Caches, Context, Kind,
    kind::NODE,
    object::{Key, annotation, is_deleted, is_true, label, list, name, namespace, text, uid},
};

/// Taint that makes KubeVirt evacuate a node.
const DRAIN_TAINT: &str = "kubevirt.io/drain";
/// Webhook that reviews evictions of launcher pods.
pub const LAUNCHER_WEBHOOK: &str = "virt-launcher-eviction-interceptor.kubevirt.io";
/// virt-api's decision on an eviction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Eviction {
    Allowed,
    /// With the message.
    Denied(String),
    /// Denied with the message, and the VMI is to be marked for evacuation.
    Evacuate(String),
}

/// Name of the VMI that a launcher pod runs, if the pod is not finished.
pub fn guest_of(pod: &Value) -> Option<&str> {
    let ended = matches!(text(pod, "/status/phase"), "Succeeded" | "Failed");
    annotation(pod, DOMAIN_ANNOTATION)
        .filter(|_| label(pod, APP_LABEL) == Some("virt-launcher") && !ended)
}

/// Reviews the eviction of a launcher pod.
pub fn evict(pod: &Value, vmi: &Value) -> Eviction {
    let movable = is_true(vmi, "LiveMigratable");
    match text(vmi, "/spec/evictionStrategy") {
        "LiveMigrate" if !movable => {
            return Eviction::Denied(format!(
                "VMI {} is configured with an eviction strategy but is not live-migratable",
                name(vmi)
            ));
        }
        "LiveMigrateIfPossible" if !movable => return Eviction::Allowed,
        "LiveMigrate" | "LiveMigrateIfPossible" | "External" => {}
        _ => return Eviction::Allowed,
    }
    let triggered = format!(
        "Eviction triggered evacuation of VMI \"{}/{}\"",
        namespace(vmi),
        name(vmi)
    );
    if !text(vmi, "/status/evacuationNodeName").is_empty() {
        return Eviction::Denied(format!("Evacuation in progress: {triggered}"));
    }
    if text(vmi, "/status/nodeName") != text(pod, "/spec/nodeName") {
        return Eviction::Denied("Eviction request for target Pod".to_owned());
    }
    Eviction::Evacuate(triggered)
}

/// Evacuation controller: migrates VMIs that are marked for evacuation, and all VMIs of a node with
/// KubeVirt's taint.
#[derive(Clone, Copy, Debug, Default)]
pub struct EvacuationController;

impl Actor for EvacuationController {
    fn name(&self) -> &'static str {
        "disruptionbudget-controller"
    }

    fn watches(&self) -> &[Kind] {
        &[VMI, MIGRATION, NODE]
    }

    fn keys(&self, kind: Kind, object: &Value, caches: &Caches) -> Vec<Key> {
        match kind {
            VMI => vec![Key::of(object)],
            MIGRATION => vec![Key::new(namespace(object), text(object, "/spec/vmiName"))],
            NODE => vmis_on(caches, object),
            _ => Vec::new(),
        }
    }

    fn reconcile(&self, ctx: &mut Context<'_>) {
        let Some(vmi) = ctx.observed(VMI) else {
            return;
        };
        let node = text(&vmi, "/status/nodeName");
        let is_drained = ctx
            .caches
            .get(NODE, &Key::cluster(node))
            .is_some_and(|node| {
                list(node, "/spec/taints")
                    .iter()
                    .any(|taint| text(taint, "/key") == DRAIN_TAINT)
            });
        let is_marked = text(&vmi, "/status/evacuationNodeName") == node;
        let strategy = text(&vmi, "/spec/evictionStrategy");
        let moves = matches!(strategy, "LiveMigrate" | "LiveMigrateIfPossible")
            && is_true(&vmi, "LiveMigratable");
        let settled = text(&vmi, "/status/phase") == "Running" && !is_deleted(&vmi);
        let moving = is_migrating(&vmi)
            || ctx
                .caches
                .within(MIGRATION, namespace(&vmi))
                .filter(|migration| text(migration, "/spec/vmiName") == name(&vmi))
                .any(|migration| !is_final(migration));
        if node.is_empty() || !(is_drained || is_marked) || !moves || !settled || moving {
            return;
        }
        let attempts = ctx
            .caches
            .within(MIGRATION, namespace(&vmi))
            .filter(|migration| text(migration, "/spec/vmiName") == name(&vmi))
            .count();
        let number = ctx.random(&format!("{} {node} {attempts}", uid(&vmi))) & 0xf_ffff;
        let migration = format!("kubevirt-evacuation-{number:05x}");
        ctx.create(
            MIGRATION,
            json!({
                "metadata": {
                    "name": migration,
                    "namespace": namespace(&vmi),
                    "annotations": { "kubevirt.io/evacuationMigration": node },
                },
                "spec": { "vmiName": name(&vmi), "priority": "system-critical" },
            }),
        );
        let message = format!("Created Migration {migration}");
        ctx.normal(VMI, &vmi, "SuccessfulCreate", message);
    }
}
