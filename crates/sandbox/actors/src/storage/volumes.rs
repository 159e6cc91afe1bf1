//! Phases and reclaiming of PersistentVolumes.

use serde_json::{Value, json};

use crate::{
    Actor, Caches, Context, Key, Kind, Step,
    kind::{CLAIM, VOLUME},
    object::{has_finalizer, is_deleted, name, text, uid},
};

const PROTECTION: &str = "kubernetes.io/pv-protection";
const RECLAIM: Step = Step::seconds(1);

#[derive(Clone, Copy, Debug)]
pub struct Volumes;

impl Actor for Volumes {
    fn name(&self) -> &'static str {
        "persistentvolume-controller"
    }

    fn watches(&self) -> &[Kind] {
        &[VOLUME, CLAIM]
    }

    fn keys(&self, kind: Kind, object: &Value, _: &Caches) -> Vec<Key> {
        if kind == VOLUME {
            return vec![Key::of(object)];
        }
        let volume = text(object, "/spec/volumeName");
        let made = format!("pvc-{}", uid(object));
        let named = (!volume.is_empty() && volume != made).then(|| Key::cluster(volume));
        named.into_iter().chain([Key::cluster(made)]).collect()
    }

    fn reconcile(&self, ctx: &mut Context<'_>) {
        let Some(volume) = ctx.observed(VOLUME) else {
            return;
        };
        let reference = (
            text(&volume, "/spec/claimRef/namespace"),
            text(&volume, "/spec/claimRef/name"),
        );
        let promised = text(&volume, "/spec/claimRef/uid");
        let claim = ctx.caches.find(CLAIM, reference.0, reference.1);
        let claim = claim.filter(|claim| promised.is_empty() || uid(claim) == promised);
        let is_bound = claim.is_some_and(|claim| text(claim, "/spec/volumeName") == name(&volume));
        if is_deleted(&volume) {
            if has_finalizer(&volume, PROTECTION) && !is_bound {
                ctx.finalizer(VOLUME, &volume, PROTECTION, false);
            }
            return;
        }
        if !has_finalizer(&volume, PROTECTION) {
            ctx.finalizer(VOLUME, &volume, PROTECTION, true);
            return;
        }
        let is_released = !promised.is_empty() && claim.is_none();
        let phase = match (is_bound, is_released) {
            (true, _) => "Bound",
            (false, true) => "Released",
            (false, false) => "Available",
        };
        if text(&volume, "/status/phase") != phase {
            let status = json!({"phase": phase, "lastPhaseTransitionTime": ctx.timestamp()});
            ctx.status(VOLUME, &volume, status);
        }
        let is_reclaimed =
            is_released && text(&volume, "/spec/persistentVolumeReclaimPolicy") == "Delete";
        if is_reclaimed && ctx.waited("reclaim", RECLAIM) {
            ctx.delete(VOLUME, &volume);
        }
    }
}
