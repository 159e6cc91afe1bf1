//! Expansion of volumes: first the volume, then its file system on a node.

use serde_json::{Value, json};

use super::claims::users;
use crate::{
    Context, Object, Step,
    kind::{CLAIM, VOLUME},
    object::{is_true, list, name, set_condition, text},
    pods::requests::amount,
};

const RESIZE: Step = Step::seconds(1);
const RESIZE_FILE_SYSTEM: Step = Step::seconds(1);

/// Expands a bound claim to its request. A file system is resized once a pod uses it.
pub(super) fn expand(ctx: &mut Context<'_>, claim: &Object, volume: &Object) {
    let size = |value: Option<&Value>| value.map(amount).unwrap_or_default();
    let wanted = claim
        .pointer("/spec/resources/requests/storage")
        .cloned()
        .unwrap_or_default();
    if amount(&wanted) <= size(claim.pointer("/status/capacity/storage")) {
        return;
    }
    if size(volume.pointer("/spec/capacity/storage")) < amount(&wanted) {
        if !is_true(claim, "Resizing") {
            let resizing = format!("External resizer is resizing volume {}", name(volume));
            ctx.normal(CLAIM, claim, "Resizing", resizing);
            let condition = json!({"type": "Resizing", "status": "True", "lastProbeTime": null});
            show(ctx, claim, Some(condition), json!({}));
        } else if ctx.fault(CLAIM, claim, "ResizeFailed").is_some() {
            let failed = format!(
                "resize volume {:?} failed: injected fault ResizeFailed",
                name(volume)
            );
            ctx.warning(CLAIM, claim, "VolumeResizeFailed", failed);
        } else if ctx.waited("resize", RESIZE) {
            ctx.patch(
                VOLUME,
                volume,
                json!({"spec": {"capacity": {"storage": wanted}}}),
            );
        }
        return;
    }
    let is_block = text(claim, "/spec/volumeMode") == "Block";
    if !is_block && !is_true(claim, "FileSystemResizePending") {
        ctx.normal(
            CLAIM,
            claim,
            "FileSystemResizeRequired",
            "Require file system resize of volume on node",
        );
        let condition = json!({
            "type": "FileSystemResizePending",
            "status": "True",
            "lastProbeTime": null,
            "message": "Waiting for user to (re-)start a pod to finish file system resize of volume on node.",
        });
        show(ctx, claim, Some(condition), json!({}));
        return;
    }
    let is_used = users(ctx.caches, claim).any(|pod| text(pod, "/status/phase") == "Running");
    if is_block || (is_used && ctx.waited("file system", RESIZE_FILE_SYSTEM)) {
        let (reason, message) = if is_block {
            ("VolumeResizeSuccessful", "Resize volume succeeded")
        } else {
            (
                "FileSystemResizeSuccessful",
                "MountVolume.NodeExpandVolume succeeded for volume",
            )
        };
        ctx.normal(
            CLAIM,
            claim,
            reason,
            format!("{message} {:?}", name(volume)),
        );
        show(ctx, claim, None, json!({"capacity": {"storage": wanted}}));
    }
}

/// Writes the progress of a resize: at most one condition, none once it is complete.
fn show(ctx: &mut Context<'_>, claim: &Object, condition: Option<Value>, mut status: Value) {
    let mut conditions = list(claim, "/status/conditions").to_vec();
    conditions.retain(|old| !matches!(text(old, "/type"), "Resizing" | "FileSystemResizePending"));
    if let Some(condition) = condition {
        set_condition(&mut conditions, condition, ctx.now);
    }
    status["conditions"] = if conditions.is_empty() {
        Value::Null
    } else {
        conditions.into()
    };
    ctx.status(CLAIM, claim, status);
}
