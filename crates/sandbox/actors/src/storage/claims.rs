//! Binding, provisioning, expansion and protection of claims.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    BIND_COMPLETED, BOUND_BY_CONTROLLER, NO_PROVISIONER, PROVISIONED_BY, PROVISIONER, class_of,
    default_class, expansion::expand, is_for, suits, waits_for_consumer,
};
use crate::{
    Actor, Caches, Context, Key, Kind, Object, Step,
    actor::SELECTED_NODE,
    clock::elapsed,
    kind::{CLAIM, POD, STORAGE_CLASS, VOLUME},
    object::{annotation, has_finalizer, is_deleted, list, name, namespace, text, time, uid},
    pods::{claim_names, is_finished},
    reference,
};

const PROTECTION: &str = "kubernetes.io/pvc-protection";
const STORAGE_PROVISIONER: &str = "volume.kubernetes.io/storage-provisioner";
const STORAGE_PROVISIONER_BETA: &str = "volume.beta.kubernetes.io/storage-provisioner";

const PROVISION: Step = Step::seconds(1);
const PROVISION_RETRY: Step = Step::seconds(15);
const MIN_PROVISION_RETRY: Duration = Duration::from_secs(1);

/// The claim part of the volume controller, and the provisioner.
#[derive(Clone, Copy, Debug)]
pub struct Claims;

impl Actor for Claims {
    fn name(&self) -> &'static str {
        "persistentvolume-controller"
    }

    fn watches(&self) -> &[Kind] {
        &[CLAIM, VOLUME, STORAGE_CLASS, POD]
    }

    fn keys(&self, kind: Kind, object: &Value, caches: &Caches) -> Vec<Key> {
        match kind {
            CLAIM => vec![Key::of(object)],
            POD => claim_names(object)
                .map(|claim| Key::new(namespace(object), claim))
                .collect(),
            VOLUME if object.pointer("/spec/claimRef").is_some() => vec![Key::new(
                text(object, "/spec/claimRef/namespace"),
                text(object, "/spec/claimRef/name"),
            )],
            _ => caches
                .all(CLAIM)
                .filter(|claim| text(claim, "/status/phase") != "Bound")
                .map(|claim| Key::of(claim))
                .collect(),
        }
    }

    fn reconcile(&self, ctx: &mut Context<'_>) {
        let Some(claim) = ctx.observed(CLAIM) else {
            return;
        };
        if is_deleted(&claim) {
            if has_finalizer(&claim, PROTECTION) && users(ctx.caches, &claim).next().is_none() {
                ctx.finalizer(CLAIM, &claim, PROTECTION, false);
            }
            return;
        }
        if !has_finalizer(&claim, PROTECTION) {
            ctx.finalizer(CLAIM, &claim, PROTECTION, true);
            return;
        }
        if annotation(&claim, BIND_COMPLETED).is_some() {
            keep_bound(ctx, &claim);
        } else {
            bind(ctx, &claim);
        }
    }
}

/// Unfinished pods that use a claim.
pub(super) fn users<'a>(caches: &'a Caches, claim: &'a Value) -> impl Iterator<Item = &'a Object> {
    caches
        .within(POD, namespace(claim))
        .filter(|pod| !is_finished(pod) && claim_names(pod).any(|used| used == name(claim)))
}

fn keep_bound(ctx: &mut Context<'_>, claim: &Object) {
    let Some(volume) = ctx
        .caches
        .find(VOLUME, "", text(claim, "/spec/volumeName"))
        .cloned()
    else {
        if text(claim, "/status/phase") != "Lost" {
            ctx.warning(
                CLAIM,
                claim,
                "ClaimLost",
                "Bound claim has lost its PersistentVolume. Data on the volume is lost!",
            );
        }
        ctx.status(CLAIM, claim, json!({"phase": "Lost"}));
        return;
    };
    if text(claim, "/status/phase") == "Bound" {
        expand(ctx, claim, &volume);
        return;
    }
    ctx.status(
        CLAIM,
        claim,
        json!({
            "phase": "Bound",
            "accessModes": volume.pointer("/spec/accessModes"),
            "capacity": {"storage": volume.pointer("/spec/capacity/storage")},
        }),
    );
}

/// Binds a claim to a free volume or provisions one.
fn bind(ctx: &mut Context<'_>, claim: &Object) {
    let wanted = text(claim, "/spec/volumeName");
    if !wanted.is_empty() {
        if let Some(volume) = ctx.caches.find(VOLUME, "", wanted).cloned() {
            let is_free = volume.pointer("/spec/claimRef").is_none();
            if is_free || is_for(&volume, claim) {
                bind_to(ctx, claim, &volume);
            } else {
                let message = format!("volume {wanted:?} already bound to a different claim.");
                ctx.warning(CLAIM, claim, "FailedBinding", message);
            }
        }
        return;
    }
    if claim.pointer("/spec/storageClassName").is_none()
        && let Some(class) = default_class(ctx.caches)
    {
        ctx.patch(
            CLAIM,
            claim,
            json!({"spec": {"storageClassName": name(class)}}),
        );
        return;
    }
    let node = annotation(claim, SELECTED_NODE);
    if waits_for_consumer(ctx.caches, claim) && node.is_none() {
        let waiting = "waiting for first consumer to be created before binding";
        ctx.normal(CLAIM, claim, "WaitForFirstConsumer", waiting);
        return;
    }
    let smallest = ctx
        .caches
        .all(VOLUME)
        .filter(|volume| suits(volume, claim))
        .min_by_key(|volume| {
            volume
                .pointer("/spec/capacity/storage")
                .map(crate::pods::requests::amount)
        });
    if let Some(volume) = smallest.cloned() {
        bind_to(ctx, claim, &volume);
        return;
    }
    let class_name = text(claim, "/spec/storageClassName");
    let Some(class) = class_of(ctx.caches, claim).cloned() else {
        if class_name.is_empty() {
            let without =
                "no persistent volumes available for this claim and no storage class is set";
            ctx.normal(CLAIM, claim, "FailedBinding", without);
        } else {
            let missing = format!("storageclass.storage.k8s.io {class_name:?} not found");
            ctx.warning(CLAIM, claim, "ProvisioningFailed", missing);
        }
        return;
    };
    if text(&class, "/provisioner") != NO_PROVISIONER {
        provision(ctx, claim, &class, node);
    }
}

fn provision(ctx: &mut Context<'_>, claim: &Object, class: &Value, node: Option<&str>) {
    let provisioner = text(class, "/provisioner");
    if annotation(claim, STORAGE_PROVISIONER) != Some(provisioner) {
        let annotations =
            json!({STORAGE_PROVISIONER: provisioner, STORAGE_PROVISIONER_BETA: provisioner});
        ctx.patch(
            CLAIM,
            claim,
            json!({"metadata": {"annotations": annotations}}),
        );
        let message = format!(
            "Waiting for a volume to be created either by the external provisioner '{provisioner}' or \
             manually by the system administrator. If volume creation is delayed, please verify that \
             the provisioner is running and correctly registered."
        );
        ctx.normal(CLAIM, claim, "ExternalProvisioning", message);
        return;
    }
    if !ctx.waited("provision", PROVISION) {
        return;
    }
    if let Some(fault) = ctx.fault(CLAIM, claim, "ProvisioningFailed") {
        let retry = ctx.speed.of(PROVISION_RETRY).max(MIN_PROVISION_RETRY);
        let created = time(claim, "/metadata/creationTimestamp").unwrap_or(ctx.now);
        let age = elapsed(created, ctx.now).saturating_sub(fault.after);
        let attempt = i64::try_from(age.as_millis() / retry.as_millis().max(1)).unwrap_or(i64::MAX);
        if fault.fails_attempt(attempt) {
            let failed = format!(
                "failed to provision volume with StorageClass {:?}: injected fault ProvisioningFailed",
                name(class)
            );
            ctx.warning(CLAIM, claim, "ProvisioningFailed", failed);
            ctx.requeue_after(retry);
            return;
        }
    }
    ctx.create(VOLUME, new_volume(claim, class, node));
    let made = format!("Successfully provisioned volume pvc-{}", uid(claim));
    ctx.normal(CLAIM, claim, "ProvisioningSucceeded", made);
}

/// CSI driver of a class's volumes. Not every provisioner name is a valid driver name.
fn driver(class: &Value) -> &str {
    let provisioner = text(class, "/provisioner");
    let is_driver = provisioner.len() <= 63
        && provisioner
            .split('.')
            .all(|label| !label.is_empty() && !label.starts_with('-') && !label.ends_with('-'))
        && provisioner
            .bytes()
            .all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.'));
    if is_driver { provisioner } else { PROVISIONER }
}

fn new_volume(claim: &Value, class: &Value, node: Option<&str>) -> Value {
    let volume_name = format!("pvc-{}", uid(claim));
    let reclaim = match text(class, "/reclaimPolicy") {
        "" => "Delete",
        policy => policy,
    };
    let mut volume = json!({
        "metadata": {
            "name": volume_name,
            "annotations": {PROVISIONED_BY: text(class, "/provisioner")},
        },
        "spec": {
            "accessModes": claim.pointer("/spec/accessModes"),
            "capacity": {"storage": claim.pointer("/spec/resources/requests/storage")},
            "claimRef": reference(CLAIM, claim),
            "persistentVolumeReclaimPolicy": reclaim,
            "storageClassName": name(class),
            "volumeMode": match text(claim, "/spec/volumeMode") {
                "" => "Filesystem",
                mode => mode,
            },
            "csi": {"driver": driver(class), "volumeHandle": volume_name},
        },
    });
    let is_shared = list(claim, "/spec/accessModes")
        .iter()
        .any(|mode| mode == "ReadWriteMany");
    if let Some(node) = node.filter(|_| !is_shared) {
        volume["spec"]["nodeAffinity"] = json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [
            {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]},
        ]}]}});
    }
    if let Some(options) = class.pointer("/mountOptions") {
        volume["spec"]["mountOptions"] = options.clone();
    }
    volume
}

/// Binds claim and volume to each other: the volume first, since only one claim may get it.
fn bind_to(ctx: &mut Context<'_>, claim: &Object, volume: &Object) {
    if text(volume, "/spec/claimRef/uid") != uid(claim) {
        ctx.patch(
            VOLUME,
            volume,
            json!({
                "metadata": {"annotations": {BOUND_BY_CONTROLLER: "yes"}},
                "spec": {"claimRef": reference(CLAIM, claim)},
            }),
        );
    }
    ctx.patch(
        CLAIM,
        claim,
        json!({
            "metadata": {"annotations": {BIND_COMPLETED: "yes", BOUND_BY_CONTROLLER: "yes"}},
            "spec": {"volumeName": name(volume)},
        }),
    );
}
