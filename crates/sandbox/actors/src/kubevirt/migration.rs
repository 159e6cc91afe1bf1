//! Live migration: the migration controller, and virt-handler's part on both nodes.
//!
//! A migration passes Pending, Scheduling, Scheduled, PreparingTarget, TargetReady and Running, one
//! phase per reconcile, and ends as Succeeded or Failed. The VMI shows progress in
//! `migrationState`; the guest is on its new node when that is `completed`. The source pod is then
//! deleted; a real cluster keeps it as completed.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    edit::{add_finalizer, difference, label, remove, remove_condition, remove_finalizer, set},
    handler::{complete_changes, show_interfaces},
    interfaces,
    launcher::{is_terminating, pods, target_pod},
    managed::launcher_image,
    names::{MIGRATION, MIGRATION_JOB_LABEL, NODE_LABEL, VMI},
    run::is_final,
    vmi::{pod_interface, record_phase},
};
use crate::{
    Actor, Caches, Context, Kind, Step,
    kind::POD,
    object::{
        Key, Object, condition, controller_key, is_deleted, is_true, label as label_of, list, name,
        namespace, seconds, text, uid,
    },
};

const FINALIZER: &str = "kubevirt.io/migrationJobFinalize";
const VMI_LABEL: &str = "kubevirt.io/vmi-name";
const TARGET_NODE_LABEL: &str = "kubevirt.io/migrationTargetNodeName";
/// How long an unschedulable target pod is kept.
const UNSCHEDULABLE: Duration = Duration::from_secs(5 * 60);
const PREPARE: Step = Step::seconds(2);
/// Time to copy the guest's memory.
const COPY: Step = Step::seconds(10);

#[derive(Clone, Copy, Debug, Default)]
pub struct MigrationController;

impl Actor for MigrationController {
    fn name(&self) -> &'static str {
        "migration-controller"
    }

    fn watches(&self) -> &[Kind] {
        &[MIGRATION, VMI, POD]
    }

    fn keys(&self, kind: Kind, object: &Value, caches: &Caches) -> Vec<Key> {
        let of_vmi = |key: Key| -> Vec<Key> {
            caches
                .within(MIGRATION, &key.namespace)
                .filter(|migration| text(migration, "/spec/vmiName") == key.name)
                .map(|migration| Key::of(migration))
                .collect()
        };
        match kind {
            MIGRATION => vec![Key::of(object)],
            VMI => of_vmi(Key::of(object)),
            POD if label_of(object, MIGRATION_JOB_LABEL).is_some() => {
                controller_key(object, VMI).map(of_vmi).unwrap_or_default()
            }
            _ => Vec::new(),
        }
    }

    fn reconcile(&self, ctx: &mut Context<'_>) {
        let Some(migration) = ctx.observed(MIGRATION) else {
            return;
        };
        let vmi = ctx
            .caches
            .find(
                VMI,
                namespace(&migration),
                text(&migration, "/spec/vmiName"),
            )
            .cloned();
        let target = vmi.as_ref().and_then(|vmi| {
            pods(ctx.caches, vmi)
                .find(|pod| label_of(pod, MIGRATION_JOB_LABEL) == Some(uid(&migration)))
                .cloned()
        });
        Move {
            migration,
            vmi,
            target,
        }
        .step(ctx);
    }
}

struct Move {
    migration: Object,
    vmi: Option<Object>,
    target: Option<Object>,
}

impl Move {
    fn step(&self, ctx: &mut Context<'_>) {
        if is_final(&self.migration) {
            self.clean_up(ctx);
            return;
        }
        if !is_deleted(&self.migration) && self.record_observed(ctx) {
            return;
        }
        let Some(vmi) = self.vmi.clone() else {
            self.fail(ctx, "Migration failed because vmi does not exist.");
            return;
        };
        let phase = text(&self.migration, "/status/phase");
        let begun = !matches!(phase, "" | "Pending");
        let problem = if is_final(&vmi) {
            Some("Migration failed vmi shutdown during migration.")
        } else if is_deleted(&self.migration) {
            Some("Migration failed due to being canceled")
        } else if self.target.as_deref().is_some_and(is_terminating) {
            Some("Migration failed because target pod shutdown during migration")
        } else if begun && self.target.is_none() {
            Some("Migration target pod was removed during active migration.")
        } else {
            None
        };
        if let Some(problem) = problem {
            self.give_up(ctx, &vmi, problem);
            return;
        }
        match (phase, self.target.clone()) {
            ("", _) => self.begin(ctx, &vmi),
            ("Pending", None) => self.create_target(ctx, &vmi),
            ("Pending", Some(_)) => self.enter(ctx, "Scheduling"),
            ("Scheduling", Some(pod)) => self.schedule(ctx, &vmi, &pod),
            ("Scheduled", Some(pod)) => self.hand_over(ctx, &vmi, &pod),
            ("PreparingTarget", _) => self.prepare(ctx, &vmi),
            ("TargetReady", _) => self.start(ctx, &vmi),
            ("Running", Some(pod)) => self.copy(ctx, &vmi, &pod),
            _ => {}
        }
    }

    /// Sets what virt-api's webhook adds to a new migration.
    fn record_observed(&self, ctx: &mut Context<'_>) -> bool {
        let mut next = Value::clone(&self.migration);
        add_finalizer(&mut next, FINALIZER);
        label(&mut next, VMI_LABEL, text(&self.migration, "/spec/vmiName"));
        let patch = difference(&self.migration, &next);
        if let Some(patch) = patch {
            ctx.patch(MIGRATION, &self.migration, patch);
            return true;
        }
        false
    }

    fn begin(&self, ctx: &mut Context<'_>, vmi: &Object) {
        let other = ctx
            .caches
            .within(MIGRATION, namespace(vmi))
            .filter(|other| text(other, "/spec/vmiName") == name(vmi))
            .filter(|other| uid(other) != uid(&self.migration))
            .any(|other| !is_final(other) && !text(other, "/status/phase").is_empty());
        if other {
            let problem = "VMI is not eligible for migration because another migration job is in \
                           progress.";
            self.fail(ctx, problem);
        } else if let Some(fixed) = condition(vmi, "LiveMigratable")
            && text(fixed, "/status") == "False"
        {
            let problem = format!(
                "Cannot migrate VMI, Reason: {}, Message: {}",
                text(fixed, "/reason"),
                text(fixed, "/message")
            );
            self.fail(ctx, &problem);
        } else {
            self.enter(ctx, "Pending");
        }
    }

    fn create_target(&self, ctx: &mut Context<'_>, vmi: &Object) {
        if text(vmi, "/status/phase") != "Running" {
            return;
        }
        let image = launcher_image(ctx.caches);
        let number = ctx.random(uid(&self.migration));
        let pod = target_pod(vmi, &self.migration, image, number);
        let message = format!(
            "Created migration target pod {}/{}",
            namespace(vmi),
            name(&pod)
        );
        ctx.create(POD, pod);
        ctx.normal(MIGRATION, &self.migration, "SuccessfulCreate", message);
    }

    fn schedule(&self, ctx: &mut Context<'_>, vmi: &Object, pod: &Object) {
        if is_true(pod, "Ready") {
            self.enter(ctx, "Scheduled");
            return;
        }
        let unschedulable = condition(pod, "PodScheduled")
            .is_some_and(|scheduled| text(scheduled, "/reason") == "Unschedulable");
        if unschedulable && ctx.waited_for(format!("target {}", name(pod)), UNSCHEDULABLE) {
            self.give_up(
                ctx,
                vmi,
                "Migration target pod could not be scheduled in time",
            );
        }
    }

    fn hand_over(&self, ctx: &mut Context<'_>, vmi: &Object, pod: &Object) {
        let state = json!({
            "migrationUid": uid(&self.migration),
            "sourceNode": text(vmi, "/status/nodeName"),
            "sourcePod": super::launcher::current_pod(ctx.caches, vmi).map(|pod| name(pod)),
            "targetNode": text(pod, "/spec/nodeName"),
            "targetPod": name(pod),
            "mode": "PreCopy",
        });
        change_guest(ctx, vmi, |next| {
            set(next, "/status/migrationState", state);
            label(next, TARGET_NODE_LABEL, text(pod, "/spec/nodeName"));
        });
        self.enter(ctx, "PreparingTarget");
    }

    fn prepare(&self, ctx: &mut Context<'_>, vmi: &Object) {
        if !ctx.waited(format!("prepare {}", uid(&self.migration)), PREPARE) {
            return;
        }
        let address = self
            .target
            .as_ref()
            .map_or("", |pod| text(pod, "/status/podIP"));
        change_guest(ctx, vmi, |next| {
            set(next, "/status/migrationState/targetNodeAddress", address);
        });
        self.enter(ctx, "TargetReady");
    }

    fn start(&self, ctx: &mut Context<'_>, vmi: &Object) {
        let now = seconds(ctx.now);
        change_guest(ctx, vmi, |next| {
            set(next, "/status/migrationState/startTimestamp", now);
        });
        self.enter(ctx, "Running");
    }

    fn copy(&self, ctx: &mut Context<'_>, vmi: &Object, pod: &Object) {
        if vmi.pointer("/status/migrationState/completed") == Some(&json!(true)) {
            self.enter(ctx, "Succeeded");
            let message = "Source node reported migration succeeded";
            ctx.normal(MIGRATION, &self.migration, "SuccessfulMigration", message);
            return;
        }
        if !ctx.waited(format!("copy {}", uid(&self.migration)), COPY) {
            return;
        }
        if ctx.fault(VMI, vmi, "MigrationFailed").is_some() {
            self.give_up(ctx, vmi, "Live migration failed");
            return;
        }
        let now = seconds(ctx.now);
        let node = text(pod, "/spec/nodeName");
        change_guest(ctx, vmi, |next| {
            for (field, value) in [
                ("targetNodeDomainDetected", json!(true)),
                ("targetNodeDomainReadyTimestamp", json!(now)),
                ("endTimestamp", json!(now)),
                ("completed", json!(true)),
            ] {
                set(next, &format!("/status/migrationState/{field}"), value);
            }
            set(next, "/status/nodeName", node);
            label(next, NODE_LABEL, node);
            if let Some(labels) = next
                .pointer_mut("/metadata/labels")
                .and_then(Value::as_object_mut)
            {
                labels.remove(TARGET_NODE_LABEL);
            }
            for interface in interfaces::missing(next) {
                let network = text(&interface, "/name").to_owned();
                let pod_interface = pod_interface(next, &network);
                let mut shown = list(next, "/status/interfaces").to_vec();
                shown.push(json!({ "name": network, "podInterfaceName": pod_interface }));
                set(next, "/status/interfaces", shown);
            }
            remove_condition(next, "MigrationRequired");
            remove(next, "/status/evacuationNodeName");
            show_interfaces(next, pod);
            complete_changes(next);
        });
    }

    fn clean_up(&self, ctx: &mut Context<'_>) {
        let state = self
            .vmi
            .as_ref()
            .and_then(|vmi| vmi.pointer("/status/migrationState"))
            .filter(|state| text(state, "/migrationUid") == uid(&self.migration));
        if let Some(state) = state
            && self.migration.pointer("/status/migrationState").is_none()
        {
            ctx.status(
                MIGRATION,
                &self.migration,
                json!({ "migrationState": state }),
            );
            return;
        }
        let mut next = Value::clone(&self.migration);
        remove_finalizer(&mut next, FINALIZER);
        if let Some(patch) = difference(&self.migration, &next) {
            ctx.patch(MIGRATION, &self.migration, patch);
        }
        let Some(vmi) = &self.vmi else {
            return;
        };
        let succeeded = text(&self.migration, "/status/phase") == "Succeeded";
        let left: Vec<Object> = if succeeded {
            let source = state.map_or("", |state| text(state, "/sourcePod"));
            pods(ctx.caches, vmi)
                .filter(|pod| name(pod) == source)
                .cloned()
                .collect()
        } else {
            self.target.iter().cloned().collect()
        };
        for pod in left.iter().filter(|pod| !is_deleted(pod)) {
            ctx.delete(POD, pod);
        }
    }

    /// Ends a migration that may already be recorded on the VMI.
    fn give_up(&self, ctx: &mut Context<'_>, vmi: &Object, problem: &str) {
        let now = seconds(ctx.now);
        if text(vmi, "/status/migrationState/migrationUid") == uid(&self.migration) {
            change_guest(ctx, vmi, |next| {
                for (field, value) in [
                    ("completed", json!(true)),
                    ("failed", json!(true)),
                    ("failureReason", json!(problem)),
                    ("endTimestamp", json!(now)),
                ] {
                    set(next, &format!("/status/migrationState/{field}"), value);
                }
            });
        }
        self.fail(ctx, problem);
    }

    fn fail(&self, ctx: &mut Context<'_>, problem: &str) {
        self.enter(ctx, "Failed");
        ctx.warning(MIGRATION, &self.migration, "FailedMigration", problem);
    }

    fn enter(&self, ctx: &mut Context<'_>, phase: &str) {
        let before = text(&self.migration, "/status/phase");
        let mut next = Value::clone(&self.migration);
        set(&mut next, "/status/phase", phase);
        record_phase(&mut next, before, &seconds(ctx.now));
        let status = next.get("status").cloned().unwrap_or_default();
        ctx.status(MIGRATION, &self.migration, status);
    }
}

fn change_guest(ctx: &mut Context<'_>, vmi: &Object, change: impl FnOnce(&mut Value)) {
    let mut next = Value::clone(vmi);
    change(&mut next);
    if let Some(patch) = difference(vmi, &next) {
        ctx.patch(VMI, vmi, patch);
    }
}
