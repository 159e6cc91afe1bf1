//! The migration controller, and what virt-handler does on both nodes: moves a guest.
//!
//! A migration goes through Pending, Scheduling, Scheduled, PreparingTarget, TargetReady and Running
//! to Succeeded or Failed, one phase a turn. The guest shows its progress in `migrationState`, and
//! is on its new node when that says `completed`. The pod that it left is deleted; in a real cluster
//! it stays as a completed one.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    edit::{add_finalizer, difference, label, remove, remove_condition, remove_finalizer, set},
    handler::{complete_changes, show_interfaces},
    interfaces,
    launcher::{is_going_down, pods, target_pod},
    managed::launcher_image,
    names::{MIGRATION, MIGRATION_JOB_LABEL, NODE_LABEL, VMI},
    run::is_final,
    vmi::{pod_interface, record_phase},
};
use crate::{
    Actor, Caches, Kind, Step, Turn,
    kind::POD,
    object::{
        Key, Object, condition, controller_key, is_deleted, is_true, label as label_of, list, name,
        namespace, seconds, text, uid,
    },
};

const FINALIZER: &str = "kubevirt.io/migrationJobFinalize";
const VMI_LABEL: &str = "kubevirt.io/vmi-name";
const TARGET_NODE_LABEL: &str = "kubevirt.io/migrationTargetNodeName";
/// How long a target that no node takes is waited for.
const UNSCHEDULABLE: Duration = Duration::from_secs(5 * 60);
/// Making the target ready for the guest.
const PREPARE: Step = Step::seconds(2);
/// Copying the guest's memory.
const COPY: Step = Step::seconds(10);

/// The migration controller.
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

    fn decide(&self, turn: &mut Turn<'_>) {
        let Some(migration) = turn.observed(MIGRATION) else {
            return;
        };
        let vmi = turn
            .caches
            .find(
                VMI,
                namespace(&migration),
                text(&migration, "/spec/vmiName"),
            )
            .cloned();
        let target = vmi.as_ref().and_then(|vmi| {
            pods(turn.caches, vmi)
                .find(|pod| label_of(pod, MIGRATION_JOB_LABEL) == Some(uid(&migration)))
                .cloned()
        });
        Move {
            migration,
            vmi,
            target,
        }
        .step(turn);
    }
}

struct Move {
    migration: Object,
    vmi: Option<Object>,
    target: Option<Object>,
}

impl Move {
    fn step(&self, turn: &mut Turn<'_>) {
        if is_final(&self.migration) {
            self.clean_up(turn);
            return;
        }
        if !is_deleted(&self.migration) && self.take_notice(turn) {
            return;
        }
        let Some(vmi) = self.vmi.clone() else {
            self.fail(turn, "Migration failed because vmi does not exist.");
            return;
        };
        let phase = text(&self.migration, "/status/phase");
        let begun = !matches!(phase, "" | "Pending");
        let problem = if is_final(&vmi) {
            Some("Migration failed vmi shutdown during migration.")
        } else if is_deleted(&self.migration) {
            Some("Migration failed due to being canceled")
        } else if self.target.as_deref().is_some_and(is_going_down) {
            Some("Migration failed because target pod shutdown during migration")
        } else if begun && self.target.is_none() {
            Some("Migration target pod was removed during active migration.")
        } else {
            None
        };
        if let Some(problem) = problem {
            self.give_up(turn, &vmi, problem);
            return;
        }
        match (phase, self.target.clone()) {
            ("", _) => self.begin(turn, &vmi),
            ("Pending", None) => self.create_target(turn, &vmi),
            ("Pending", Some(_)) => self.enter(turn, "Scheduling"),
            ("Scheduling", Some(pod)) => self.schedule(turn, &vmi, &pod),
            ("Scheduled", Some(pod)) => self.hand_over(turn, &vmi, &pod),
            ("PreparingTarget", _) => self.prepare(turn, &vmi),
            ("TargetReady", _) => self.start(turn, &vmi),
            ("Running", Some(pod)) => self.copy(turn, &vmi, &pod),
            _ => {}
        }
    }

    /// What the webhook adds to a new migration.
    fn take_notice(&self, turn: &mut Turn<'_>) -> bool {
        let mut next = Value::clone(&self.migration);
        add_finalizer(&mut next, FINALIZER);
        label(&mut next, VMI_LABEL, text(&self.migration, "/spec/vmiName"));
        let patch = difference(&self.migration, &next);
        if let Some(patch) = patch {
            turn.patch(MIGRATION, &self.migration, patch);
            return true;
        }
        false
    }

    fn begin(&self, turn: &mut Turn<'_>, vmi: &Object) {
        let other = turn
            .caches
            .within(MIGRATION, namespace(vmi))
            .filter(|other| text(other, "/spec/vmiName") == name(vmi))
            .filter(|other| uid(other) != uid(&self.migration))
            .any(|other| !is_final(other) && !text(other, "/status/phase").is_empty());
        if other {
            let problem = "VMI is not eligible for migration because another migration job is in \
                           progress.";
            self.fail(turn, problem);
        } else if let Some(fixed) = condition(vmi, "LiveMigratable")
            && text(fixed, "/status") == "False"
        {
            let problem = format!(
                "Cannot migrate VMI, Reason: {}, Message: {}",
                text(fixed, "/reason"),
                text(fixed, "/message")
            );
            self.fail(turn, &problem);
        } else {
            self.enter(turn, "Pending");
        }
    }

    fn create_target(&self, turn: &mut Turn<'_>, vmi: &Object) {
        if text(vmi, "/status/phase") != "Running" {
            return;
        }
        let image = launcher_image(turn.caches);
        let number = turn.random(uid(&self.migration));
        let pod = target_pod(vmi, &self.migration, image, number);
        let message = format!(
            "Created migration target pod {}/{}",
            namespace(vmi),
            name(&pod)
        );
        turn.create(POD, pod);
        turn.normal(MIGRATION, &self.migration, "SuccessfulCreate", message);
    }

    fn schedule(&self, turn: &mut Turn<'_>, vmi: &Object, pod: &Object) {
        if is_true(pod, "Ready") {
            self.enter(turn, "Scheduled");
            return;
        }
        let unschedulable = condition(pod, "PodScheduled")
            .is_some_and(|scheduled| text(scheduled, "/reason") == "Unschedulable");
        if unschedulable && turn.waited_for(format!("target {}", name(pod)), UNSCHEDULABLE) {
            self.give_up(
                turn,
                vmi,
                "Migration target pod could not be scheduled in time",
            );
        }
    }

    fn hand_over(&self, turn: &mut Turn<'_>, vmi: &Object, pod: &Object) {
        let state = json!({
            "migrationUid": uid(&self.migration),
            "sourceNode": text(vmi, "/status/nodeName"),
            "sourcePod": super::launcher::current_pod(turn.caches, vmi).map(|pod| name(pod)),
            "targetNode": text(pod, "/spec/nodeName"),
            "targetPod": name(pod),
            "mode": "PreCopy",
        });
        change_guest(turn, vmi, |next| {
            set(next, "/status/migrationState", state);
            label(next, TARGET_NODE_LABEL, text(pod, "/spec/nodeName"));
        });
        self.enter(turn, "PreparingTarget");
    }

    fn prepare(&self, turn: &mut Turn<'_>, vmi: &Object) {
        if !turn.waited(format!("prepare {}", uid(&self.migration)), PREPARE) {
            return;
        }
        let address = self
            .target
            .as_ref()
            .map_or("", |pod| text(pod, "/status/podIP"));
        change_guest(turn, vmi, |next| {
            set(next, "/status/migrationState/targetNodeAddress", address);
        });
        self.enter(turn, "TargetReady");
    }

    fn start(&self, turn: &mut Turn<'_>, vmi: &Object) {
        let now = seconds(turn.now);
        change_guest(turn, vmi, |next| {
            set(next, "/status/migrationState/startTimestamp", now);
        });
        self.enter(turn, "Running");
    }

    fn copy(&self, turn: &mut Turn<'_>, vmi: &Object, pod: &Object) {
        if vmi.pointer("/status/migrationState/completed") == Some(&json!(true)) {
            self.enter(turn, "Succeeded");
            let message = "Source node reported migration succeeded";
            turn.normal(MIGRATION, &self.migration, "SuccessfulMigration", message);
            return;
        }
        if !turn.waited(format!("copy {}", uid(&self.migration)), COPY) {
            return;
        }
        if turn.fault(VMI, vmi, "MigrationFailed").is_some() {
            self.give_up(turn, vmi, "Live migration failed");
            return;
        }
        let now = seconds(turn.now);
        let node = text(pod, "/spec/nodeName");
        change_guest(turn, vmi, |next| {
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

    fn clean_up(&self, turn: &mut Turn<'_>) {
        let state = self
            .vmi
            .as_ref()
            .and_then(|vmi| vmi.pointer("/status/migrationState"))
            .filter(|state| text(state, "/migrationUid") == uid(&self.migration));
        if let Some(state) = state
            && self.migration.pointer("/status/migrationState").is_none()
        {
            turn.status(
                MIGRATION,
                &self.migration,
                json!({ "migrationState": state }),
            );
            return;
        }
        let mut next = Value::clone(&self.migration);
        remove_finalizer(&mut next, FINALIZER);
        if let Some(patch) = difference(&self.migration, &next) {
            turn.patch(MIGRATION, &self.migration, patch);
        }
        let Some(vmi) = &self.vmi else {
            return;
        };
        let succeeded = text(&self.migration, "/status/phase") == "Succeeded";
        let left: Vec<Object> = if succeeded {
            let source = state.map_or("", |state| text(state, "/sourcePod"));
            pods(turn.caches, vmi)
                .filter(|pod| name(pod) == source)
                .cloned()
                .collect()
        } else {
            self.target.iter().cloned().collect()
        };
        for pod in left.iter().filter(|pod| !is_deleted(pod)) {
            turn.delete(POD, pod);
        }
    }

    /// Ends a migration that may have reached the guest.
    fn give_up(&self, turn: &mut Turn<'_>, vmi: &Object, problem: &str) {
        let now = seconds(turn.now);
        if text(vmi, "/status/migrationState/migrationUid") == uid(&self.migration) {
            change_guest(turn, vmi, |next| {
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
        self.fail(turn, problem);
    }

    fn fail(&self, turn: &mut Turn<'_>, problem: &str) {
        self.enter(turn, "Failed");
        turn.warning(MIGRATION, &self.migration, "FailedMigration", problem);
    }

    fn enter(&self, turn: &mut Turn<'_>, phase: &str) {
        let before = text(&self.migration, "/status/phase");
        let mut next = Value::clone(&self.migration);
        set(&mut next, "/status/phase", phase);
        record_phase(&mut next, before, &seconds(turn.now));
        let status = next.get("status").cloned().unwrap_or_default();
        turn.status(MIGRATION, &self.migration, status);
    }
}

fn change_guest(turn: &mut Turn<'_>, vmi: &Object, change: impl FnOnce(&mut Value)) {
    let mut next = Value::clone(vmi);
    change(&mut next);
    if let Some(patch) = difference(vmi, &next) {
        turn.patch(VMI, vmi, patch);
    }
}
