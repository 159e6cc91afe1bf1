//! Simulated cluster with a Machine: KubeVirt and the storage, as far as plans depend on them.

use std::{cell::Cell, collections::BTreeMap, sync::Arc, time::Duration};

use api::{
    Machine, MachineStatus, Time,
    core::{ClaimPhase, ObservedClaim, StorageClass},
    kubevirt::{InstancePhase, ObservedInstance, ObservedVirtualMachine},
    labels,
};
use plan::{
    Id,
    machine::{
        Action, Age, CloudInitObjects, Installed, Kind, Known, LiveReferences, Object, Observed,
        Plan, Provider, References, plan,
        simulation::{self, Simulation},
    },
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::state::{DiskState, InstanceState, MACHINE_UID, Origin, State, VmState};

const NAME: &str = "web";
const START: &str = "2026-01-01T00:00:00Z";

/// Finalizers of KubeVirt and of the storage.
const VM_FINALIZER: &str = "kubevirt.io/virtualMachineControllerFinalize";
const INSTANCE_FINALIZER: &str = "foregroundDeleteVirtualMachine";
const CLAIM_FINALIZER: &str = "kubernetes.io/pvc-protection";

#[derive(Clone, Debug)]
pub(crate) struct World {
    simulation: Simulation,
    /// The Machine before the first reconcile.
    initial: Machine,
    references: Option<References>,
    is_fresh: Cell<bool>,
    instances: u64,
}

fn machine() -> Id {
    simulation::machine("default", NAME)
}

fn child(kind: Kind, name: &str) -> Id {
    simulation::child(kind, "default", name)
}

fn time() -> Time {
    serde_json::from_value(json!(START)).unwrap()
}

fn family(origin: Origin) -> Value {
    let owner = |uid: &str, kind: &str| {
        json!([{ "apiVersion": "vitistack.io/v1alpha1", "kind": kind, "name": NAME, "uid": uid,
            "controller": true, "blockOwnerDeletion": true }])
    };
    let labels = json!({ labels::MANAGED_BY: labels::MANAGER, labels::MACHINE: NAME });
    match origin {
        Origin::Own => json!({
            "labels": labels, "ownerReferences": owner(MACHINE_UID, "Machine"),
            "annotations": { labels::MACHINE_UID: MACHINE_UID },
        }),
        Origin::Retained => json!({
            "labels": labels, "annotations": { labels::MACHINE_UID: MACHINE_UID },
        }),
        Origin::Earlier => json!({
            "labels": labels, "annotations": { labels::MACHINE_UID: "machine-0" },
        }),
        Origin::Foreign => json!({
            "labels": labels, "ownerReferences": owner("somebody", "Something"),
        }),
    }
}

fn metadata(name: &str, origin: Origin, is_deleted: bool) -> Value {
    let mut metadata = family(origin);
    let kind = if matches!(origin, Origin::Own | Origin::Retained) {
        "own"
    } else {
        "foreign"
    };
    metadata["name"] = name.into();
    metadata["namespace"] = "default".into();
    metadata["uid"] = format!("{kind}-{name}").into();
    metadata["resourceVersion"] = "1".into();
    metadata["creationTimestamp"] = START.into();
    if is_deleted {
        metadata["deletionTimestamp"] = START.into();
    }
    metadata
}

fn claim(disk: &str, state: DiskState) -> (Id, Value) {
    let name = format!("{NAME}-{disk}");
    let mut metadata = metadata(&name, state.origin, state.is_deleted);
    metadata["finalizers"] = json!([CLAIM_FINALIZER]);
    let claim = json!({
        "metadata": metadata,
        "spec": {
            "storageClassName": "fast", "accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem",
            "resources": { "requests": { "storage": format!("{}Gi", state.gibibytes) } },
        },
        "status": { "phase": if state.is_bound { "Bound" } else { "Pending" } },
    });
    (child(Kind::PersistentVolumeClaim, &name), claim)
}

fn virtual_machine(state: VmState) -> (Id, Value) {
    let mut disks = vec![json!({ "name": "root",
        "persistentVolumeClaim": { "claimName": format!("{NAME}-root") } })];
    if state.has_data_disk {
        disks.push(json!({ "name": "removed",
            "persistentVolumeClaim": { "claimName": format!("{NAME}-removed") } }));
    }
    let mut metadata = metadata(NAME, state.origin, state.is_deleted);
    metadata["finalizers"] = json!([VM_FINALIZER]);
    let vm = json!({
        "metadata": metadata,
        "spec": {
            "runStrategy": if state.is_halted { "Halted" } else { "Always" },
            "template": { "spec": {
                "domain": { "memory": { "guest": state.memory } }, "volumes": disks,
            } },
        },
        "status": { "printableStatus": "Stopped" },
    });
    (child(Kind::VirtualMachine, NAME), vm)
}

fn instance(uid: &str, state: InstanceState, vm: &Value) -> (Id, Value) {
    let paused = json!([{ "type": "Paused", "status": "True", "reason": "PausedByUser" }]);
    let mut metadata = metadata(NAME, Origin::Foreign, state.is_deleted);
    metadata["uid"] = uid.into();
    metadata["finalizers"] = json!([INSTANCE_FINALIZER]);
    metadata["ownerReferences"] = json!([{
        "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "name": NAME,
        "uid": vm["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true,
    }]);
    let instance = json!({
        "metadata": metadata,
        "status": {
            "phase": state.phase, "nodeName": "node-1",
            "conditions": if state.is_paused { paused } else { json!([]) },
        },
    });
    (child(Kind::VirtualMachineInstance, NAME), instance)
}

impl World {
    pub(crate) fn of(state: &State) -> Self {
        let mut metadata = json!({ "name": NAME, "namespace": "default", "uid": MACHINE_UID,
            "generation": 1, "creationTimestamp": START });
        if state.adopts {
            metadata["annotations"] = json!({ labels::ADOPT_DISKS: "true" });
        }
        if state.is_deleted {
            metadata["deletionTimestamp"] = START.into();
        }
        // A terminating object without finalizers is gone already.
        if state.has_finalizer || state.is_deleted {
            metadata["finalizers"] = json!([labels::FINALIZER]);
        }
        let resource = json!({
            "apiVersion": "vitistack.io/v1alpha1", "kind": "Machine",
            "metadata": metadata, "spec": state.spec,
        });
        let initial = serde_json::from_value(resource.clone()).unwrap();
        let vm = state.vm.map(virtual_machine);
        let instance = state
            .instance
            .zip(vm.as_ref())
            .map(|(found, (_, vm))| instance("instance-0", found, vm));
        let disks = [
            ("data", state.data),
            ("removed", state.removed),
            ("root", state.root),
        ];
        let claims = disks
            .into_iter()
            .filter_map(|(name, disk)| Some(claim(name, disk?)));
        let mut objects: BTreeMap<Id, Value> = claims.chain(vm).chain(instance).collect();
        objects.insert(machine(), resource);
        let class: StorageClass = serde_json::from_value(json!({
            "metadata": { "name": "fast", "annotations":
                { "storageclass.kubernetes.io/is-default-class": "true" } },
            "allowVolumeExpansion": true,
        }))
        .unwrap();
        let classes = Known::all([("fast".to_owned(), Arc::new(class))]);
        let installed = Installed {
            kubevirt: true,
            kubevirt_is_removed: false,
            cdi: true,
            multus: true,
        };
        Self {
            simulation: Simulation::new(objects, classes, installed, Provider::default()),
            initial,
            references: None,
            is_fresh: Cell::new(false),
            instances: 0,
        }
    }

    pub(crate) fn is_there(&self) -> bool {
        self.simulation.machine(&machine()).is_some()
    }

    /// The Machine, or the initial one after its deletion.
    pub(crate) fn machine(&self) -> &Machine {
        self.simulation.machine(&machine()).unwrap_or(&self.initial)
    }

    pub(crate) fn set_status(&mut self, status: &MachineStatus) {
        let status = json!(status);
        self.update(&machine(), |machine| machine["status"] = status);
    }

    fn read<T: DeserializeOwned>(&self, id: &Id) -> Option<T> {
        let value = self.simulation.get(id)?;
        Some(serde_json::from_value(value.clone()).unwrap())
    }

    fn update(&mut self, id: &Id, change: impl FnOnce(&mut Value)) {
        self.simulation.update(id, change).unwrap();
    }

    pub(crate) fn claims(&self) -> Vec<ObservedClaim> {
        let claims = self.claim_ids();
        claims.iter().filter_map(|id| self.read(id)).collect()
    }

    fn claim_ids(&self) -> Vec<Id> {
        let ids = self.simulation.objects().keys();
        ids.filter(|id| id.is("", "PersistentVolumeClaim"))
            .cloned()
            .collect()
    }

    pub(crate) fn vm(&self) -> Option<ObservedVirtualMachine> {
        self.read(&child(Kind::VirtualMachine, NAME))
    }

    fn instance(&self) -> Option<ObservedInstance> {
        self.read(&child(Kind::VirtualMachineInstance, NAME))
    }

    /// The plan for the current world; `None` if there is no Machine.
    pub(crate) fn plan(&self) -> Option<Plan> {
        self.simulation
            .observe(&machine(), CloudInitObjects::none(), |observed| {
                let references = self.references.as_ref().map(|found| LiveReferences {
                    found,
                    age: if self.is_fresh.take() {
                        Age::Fresh
                    } else {
                        Age::Stale {
                            retry_after: Duration::from_secs(10),
                        }
                    },
                });
                let observed = Observed {
                    references,
                    ..observed
                };
                plan(&observed, &time())
            })
    }

    pub(crate) fn is_foreign(&self, uid: &str) -> bool {
        uid.starts_with("foreign") && !self.may_adopt(uid)
    }

    /// Whether disks of an earlier Machine of this name may be adopted.
    fn may_adopt(&self, uid: &str) -> bool {
        let annotations = self.machine().metadata.annotations.as_ref();
        let adopts = annotations.is_some_and(|all| all.contains_key(labels::ADOPT_DISKS));
        let claims = self.claims();
        let claim = claims
            .iter()
            .find(|claim| claim.metadata.uid.as_deref() == Some(uid));
        let is_owned = claim.is_some_and(|claim| claim.metadata.owner_references.is_some());
        adopts && claim.is_some() && (!is_owned || self.is_own(uid))
    }

    fn is_own(&self, uid: &str) -> bool {
        let claims = self.claims().into_iter();
        claims
            .filter(|claim| claim.metadata.uid.as_deref() == Some(uid))
            .flat_map(|claim| claim.metadata.owner_references.into_iter().flatten())
            .any(|owner| owner.uid == MACHINE_UID)
    }

    /// The foreign objects, without what the storage and KubeVirt change.
    pub(crate) fn foreign(&self) -> Vec<Value> {
        let children = self.simulation.objects().iter().filter(|(id, object)| {
            matches!(&*id.kind, "PersistentVolumeClaim" | "VirtualMachine")
                && self.is_foreign(object["metadata"]["uid"].as_str().unwrap())
                && object["metadata"]["deletionTimestamp"].is_null()
        });
        children
            .map(|(_, object)| {
                let mut metadata = object["metadata"].clone();
                metadata.as_object_mut().unwrap().remove("resourceVersion");
                json!({ "metadata": metadata, "spec": object["spec"] })
            })
            .collect()
    }

    /// Names of this Machine's disks that are not terminating.
    pub(crate) fn own_disks(&self) -> Vec<String> {
        let claims = self.claims().into_iter().map(|claim| claim.metadata);
        claims
            .filter(|metadata| {
                let owners = metadata.owner_references.iter().flatten();
                let mut owners = owners.map(|owner| owner.uid.as_str());
                let noted = metadata
                    .annotations
                    .as_ref()
                    .and_then(|all| all.get(labels::MACHINE_UID));
                let is_owned = owners.any(|uid| uid == MACHINE_UID);
                let is_noted = metadata.owner_references.is_none()
                    && noted.is_some_and(|uid| uid == MACHINE_UID);
                (is_owned || is_noted) && metadata.deletion_timestamp.is_none()
            })
            .map(|metadata| metadata.name.clone().unwrap())
            .collect()
    }

    /// Whether any VirtualMachine refers to a claim.
    pub(crate) fn uses(&self, claim: &str) -> bool {
        let vm = self.simulation.get(&child(Kind::VirtualMachine, NAME));
        let reference = format!(r#""claimName":"{claim}""#);
        vm.is_some_and(|vm| vm.to_string().contains(&reference))
    }

    /// Whether the VirtualMachine belongs to the Machine and has lost its owner.
    pub(crate) fn has_stripped_vm(&self) -> bool {
        self.vm().is_some_and(|vm| {
            let annotations = vm.metadata.annotations.as_ref();
            let recorded = annotations.and_then(|all| all.get(labels::MACHINE_UID));
            vm.metadata.owner_references.is_none() && recorded.is_some_and(|uid| uid == MACHINE_UID)
        })
    }

    fn read_references(&mut self) {
        let mut references = References::default();
        for kind in [Kind::VirtualMachine, Kind::VirtualMachineInstance] {
            if let Some(found) = self.read(&child(kind, NAME)) {
                references.add(kind, found);
            }
        }
        self.references = Some(references);
        self.is_fresh.set(true);
    }

    /// The final state, without what differs between runs.
    pub(crate) fn final_state(&self) -> Value {
        let claims = self.claims();
        let disks: Vec<_> = claims
            .iter()
            .map(|claim| json!([claim.metadata.name, claim.spec]))
            .collect();
        let status = self.machine().status.as_ref();
        json!({
            "is there": self.is_there(),
            "phase": status.and_then(|status| status.phase),
            "vm": self.vm().map(|vm| vm.spec),
            "disks": disks,
            "runs": self.instance().map(|instance| instance.status.phase),
        })
    }

    /// Executes a step.
    pub(crate) fn carry_out(&mut self, action: &Action) {
        match action {
            Action::ObserveReferences => self.read_references(),
            // KubeVirt stops the guest before it removes its finalizer.
            Action::Delete {
                kind: kind @ (Kind::VirtualMachine | Kind::VirtualMachineInstance),
                name,
                uid,
                ..
            } => {
                let id = child(*kind, name);
                let deleted = self.simulation.delete(&id, Some(uid), &time(), |_| false);
                deleted.unwrap();
            }
            action => {
                let executed = self.simulation.execute(&machine(), action, &time());
                executed.unwrap_or_else(|error| panic!("{error:?}: {action:?}"));
            }
        }
        if let Action::Create(Object::VirtualMachine(_))
        | Action::Recreate(Object::VirtualMachine(_)) = action
        {
            self.update(&child(Kind::VirtualMachine, NAME), |vm| {
                vm["metadata"]["finalizers"] = json!([VM_FINALIZER]);
            });
        }
    }

    fn release(&mut self, id: &Id) {
        self.update(id, |object| object["metadata"]["finalizers"] = json!([]));
    }

    /// Removes an object, whoever deletes it.
    fn remove(&mut self, id: &Id) {
        let removed = self.simulation.delete(id, None, &time(), |_| true);
        removed.unwrap();
    }

    /// One step of KubeVirt and of the storage. False if they have nothing to do.
    pub(crate) fn go_on(&mut self) -> bool {
        let mut went_on = false;
        for id in self.claim_ids() {
            let claim: ObservedClaim = self.read(&id).unwrap();
            if claim.status.phase != ClaimPhase::Bound {
                self.update(&id, |claim| claim["status"]["phase"] = "Bound".into());
                went_on = true;
            }
            if claim.metadata.deletion_timestamp.is_some() {
                self.release(&id);
                went_on = true;
            }
        }
        went_on |= self.run_guest();
        if went_on {
            // Time passes: stale reads are repeated.
            self.references = None;
        }
        went_on
    }

    fn run_guest(&mut self) -> bool {
        let vm_id = child(Kind::VirtualMachine, NAME);
        let id = child(Kind::VirtualMachineInstance, NAME);
        let vm = self.simulation.get(&vm_id).cloned();
        let is_deleted = |object: &Value| !object["metadata"]["deletionTimestamp"].is_null();
        let wanted = vm.as_ref().filter(|vm| !is_deleted(vm));
        let is_on = wanted.is_some_and(|vm| vm["spec"]["runStrategy"] == "Always");
        match (self.instance(), vm) {
            (Some(instance), _)
                if !is_on
                    || instance.metadata.deletion_timestamp.is_some()
                    || instance.status.phase.is_final() =>
            {
                self.remove(&id);
                true
            }
            (Some(instance), _) if instance.status.phase != InstancePhase::Running => {
                self.update(&id, |instance| {
                    instance["status"]["phase"] = "Running".into();
                });
                true
            }
            (None, Some(vm)) if is_on => {
                self.instances += 1;
                let running = InstanceState {
                    phase: "Running",
                    is_deleted: false,
                    is_paused: false,
                };
                let uid = format!("instance-{}", self.instances);
                let (id, mut made) = instance(&uid, running, &vm);
                let annotations = vm.pointer("/spec/template/metadata/annotations");
                if let Some(annotations) = annotations {
                    made["metadata"]["annotations"] = annotations.clone();
                }
                self.simulation.put(&id, made, &time()).unwrap();
                true
            }
            (None, Some(vm)) if is_deleted(&vm) => {
                self.release(&vm_id);
                true
            }
            (Some(_) | None, _) => false,
        }
    }
}
