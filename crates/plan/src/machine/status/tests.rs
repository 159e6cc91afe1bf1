//! Status reports, of sequences of observed states.
#![allow(
    clippy::needless_pass_by_value,
    reason = "cases read best as plain json! values"
)]

mod conditions;
mod endings;
mod errors;
mod life;
mod lifecycle;
mod readiness;
mod walk;

use std::{sync::Arc, time::Duration};

use api::{
    Condition, Machine, MachineStatus, Phase, Time,
    cdi::ObservedDataVolume,
    core::ObservedClaim,
    kubevirt::{ObservedInstance, ObservedVirtualMachine},
    multus::NetworkAttachmentDefinition,
};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{ClassMismatch, Resolved, StatusInput, StatusReport, report};
use crate::machine::{
    CloudInitSecret, Installed, Known, Observed, Obstacle, Refusal, Surroundings,
    build::attachment_definition, resolve,
};

fn object<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn at(time: &str) -> Time {
    Time(time.parse::<Timestamp>().unwrap())
}

/// A Machine and its observed state, at a time.
struct World {
    machine: Machine,
    surroundings: Surroundings,
    installed: Installed,
    vm: Option<ObservedVirtualMachine>,
    instance: Option<ObservedInstance>,
    claims: Vec<ObservedClaim>,
    data_volumes: Vec<ObservedDataVolume>,
    attachments: Vec<NetworkAttachmentDefinition>,
    refusal: Option<Refusal>,
    obstacles: Vec<Obstacle>,
    class_mismatch: Option<ClassMismatch>,
    restart_required: Option<&'static str>,
    vm_is_outdated: bool,
    now: Time,
    /// Every status that was written.
    written: Vec<MachineStatus>,
    /// Every event, as `reason: message`.
    events: Vec<String>,
}

impl World {
    /// A Machine that has not been reconciled.
    fn new(spec: Value) -> Self {
        let class = object(json!({
            "apiVersion": "", "kind": "", "metadata": {"name": "big", "generation": 3},
            "spec": {"cpu": {"cores": 2}, "memory": {"quantity": "4Gi"},
                     "disks": [{"name": "root", "size": "20Gi"}]},
        }));
        let network = Arc::new(object(json!({
            "apiVersion": "", "kind": "", "metadata": {"name": "prod"}, "spec": {"bridge": "br0"},
        })));
        let default = json!({"storageclass.kubernetes.io/is-default-class": "true"});
        let storage = object(json!({"metadata": {"name": "fast", "annotations": default}}));
        Self {
            machine: object(json!({
                "apiVersion": "vitistack.io/v1alpha1",
                "kind": "Machine",
                "metadata": {"name": "web", "namespace": "shop", "uid": "m1", "generation": 1},
                "spec": spec,
            })),
            attachments: attachment_definition(&network).into_iter().collect(),
            surroundings: Surroundings {
                machine_classes: Known::all([("big".to_owned(), Arc::new(class))]),
                storage_classes: Known::all([("fast".to_owned(), Arc::new(storage))]),
                networks: Known::all([("prod".to_owned(), network)]),
                secrets: Known::all([]),
                ..Surroundings::default()
            },
            installed: Installed {
                kubevirt: true,
                kubevirt_is_removed: false,
                cdi: true,
                multus: true,
            },
            vm: None,
            instance: None,
            claims: Vec::new(),
            data_volumes: Vec::new(),
            refusal: None,
            obstacles: Vec::new(),
            class_mismatch: None,
            restart_required: None,
            vm_is_outdated: false,
            now: at("2026-01-01T00:00:00Z"),
            written: Vec::new(),
            events: Vec::new(),
        }
    }

    /// A Machine whose running guest on n1 has been reported.
    fn running(spec: Value) -> Self {
        let mut world = Self::new(spec);
        world.vm(json!({"printableStatus": "Running"}));
        world.claim("Bound");
        world.up();
        world.reconcile();
        assert_eq!(world.phase(), Phase::Running);
        world.written.clear();
        world.events.clear();
        world
    }

    fn vm(&mut self, status: Value) {
        self.vm = Some(object(json!({
            "metadata": {
                "name": "web", "namespace": "shop", "uid": "v1", "resourceVersion": "77",
                "creationTimestamp": "2026-01-01T00:00:00Z",
                "ownerReferences": [owner("Machine", "m1")],
            },
            "spec": {"runStrategy": "Always"},
            "status": status,
        })));
    }

    fn instance(&mut self, status: Value) {
        self.instance = Some(object(json!({
            "metadata": {
                "name": "web", "namespace": "shop", "uid": "i1",
                "creationTimestamp": "2026-01-01T00:00:00Z",
                "ownerReferences": [owner("VirtualMachine", "v1")],
            },
            "status": status,
        })));
    }

    fn up(&mut self) {
        self.instance(json!({
            "phase": "Running",
            "nodeName": "n1",
            "interfaces": [{"name": "default", "ipAddress": "10.0.0.9"}],
        }));
    }

    fn end_instance(&mut self) {
        let now = self.now.clone();
        let instance = self.instance.as_mut().unwrap();
        instance.metadata.deletion_timestamp = Some(now);
    }

    fn claim(&mut self, phase: &str) {
        let metadata = json!({"name": "web-root", "uid": "c1"});
        let claim = json!({"metadata": metadata, "spec": {}, "status": {"phase": phase}});
        self.claims = vec![object(claim)];
    }

    fn power(&mut self, state: &str) {
        self.machine.spec.power_state = Some(object(json!(state)));
        let generation = self.machine.metadata.generation.as_mut().unwrap();
        *generation += 1;
    }

    fn later(&mut self, milliseconds: i64) {
        self.now.0 += SignedDuration::from_millis(milliseconds);
    }

    fn report(&self) -> StatusReport {
        let observed = Observed {
            machine: &self.machine,
            surroundings: self.surroundings.clone(),
            installed: self.installed,
            virtual_machine: self.vm.as_ref(),
            instance: self.instance.as_ref(),
            claims: self.claims.iter().collect(),
            data_volumes: self.data_volumes.iter().collect(),
            cloud_init_secret: CloudInitSecret::Unobserved { is_verified: true },
            digest_key: None,
            mac_address_rivals: Vec::new(),
            attachments: self.attachments.iter().collect(),
            ledger: None,
            references: None,
            lost_claims: Vec::new(),
            unconfirmed_disks: Vec::new(),
            orphaned: false,
            refusal: self.refusal.as_ref(),
        };
        let resolution = resolve(&self.machine, &self.surroundings);
        report(StatusInput {
            observed: &observed,
            resolved: match &resolution {
                Ok(resolution) => Resolved::Valid(&resolution.machine),
                Err(errors) => Resolved::Invalid(errors),
            },
            obstacles: &self.obstacles,
            class_mismatch: self.class_mismatch.as_ref(),
            restart_required: self.restart_required,
            vm_is_outdated: self.vm_is_outdated,
            keeps_observed_generation: false,
            ignored_modes: &[],
            kept_spec: None,
            now: &self.now,
        })
    }

    /// Evaluates the status and writes significant changes, as the operator does. Returns the requeue delay.
    fn reconcile(&mut self) -> Option<Duration> {
        for _ in 0..3 {
            let report = self.report();
            if self.machine.status.as_ref() == Some(&report.status) {
                assert_eq!(report.events, [], "an event without a change of status");
            } else {
                self.written.push(report.status.clone());
                self.machine.status = Some(report.status);
                let events = report.events.iter();
                self.events
                    .extend(events.map(|event| format!("{}: {}", event.reason, event.message)));
            }
            if report.requeue_after != Some(Duration::ZERO) {
                assert_eq!(self.report().status, *self.status(), "reported twice");
                return report.requeue_after;
            }
        }
        panic!("the phase does not come to rest");
    }

    fn status(&self) -> &MachineStatus {
        self.machine.status.as_ref().unwrap()
    }

    fn phase(&self) -> Phase {
        self.status().phase.unwrap()
    }

    fn condition(&self, type_: &str) -> &Condition {
        let conditions = self.status().conditions.as_deref();
        crate::conditions::find(conditions, type_).unwrap()
    }

    /// A condition as `status reason`.
    fn condition_summary(&self, type_: &str) -> String {
        let condition = self.condition(type_);
        format!("{} {}", condition.status, condition.reason)
    }

    fn message(&self, type_: &str) -> &str {
        &self.condition(type_).message
    }

    fn ready(&self) -> String {
        self.condition_summary("Ready")
    }
}

fn owner(kind: &str, uid: &str) -> Value {
    json!({"apiVersion": "x", "kind": kind, "name": "web", "uid": uid, "controller": true})
}
