//! World that executes plans: the API server, KubeVirt and the storage, as far as plans depend on them.

use std::{cell::Cell, collections::BTreeMap, sync::Arc, time::Duration};

use api::{
    Machine, ObjectMeta, OwnerReference, Time,
    cdi::ObservedDataVolume,
    core::{ClaimPhase, ObservedClaim, StorageClass},
    kubevirt::{ObservedInstance, ObservedVirtualMachine},
    labels,
};
use plan::machine::{
    Action, Age, CloudInitSecret, Installed, Kind, Known, LiveReferences, MetadataChange, Object,
    Observed, Plan, References, Surroundings, plan,
};
use serde_json::{Value, json};

use crate::state::{DiskState, InstanceState, MACHINE_UID, Origin, State, VmState};

const NAME: &str = "web";
const START: &str = "2026-01-01T00:00:00Z";

#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) machine: Machine,
    pub(crate) claims: Vec<ObservedClaim>,
    pub(crate) data_volumes: Vec<ObservedDataVolume>,
    pub(crate) vm: Option<ObservedVirtualMachine>,
    instance: Option<ObservedInstance>,
    references: Option<References>,
    lost_claims: Vec<String>,
    is_fresh: Cell<bool>,
    made: u64,
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

fn claim(disk: &str, state: DiskState) -> ObservedClaim {
    let name = format!("{NAME}-{disk}");
    serde_json::from_value(json!({
        "metadata": metadata(&name, state.origin, state.is_deleted),
        "spec": {
            "storageClassName": "fast", "accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem",
            "resources": { "requests": { "storage": format!("{}Gi", state.gibibytes) } },
        },
        "status": { "phase": if state.is_bound { "Bound" } else { "Pending" } },
    }))
    .unwrap()
}

fn virtual_machine(state: VmState) -> ObservedVirtualMachine {
    let mut disks = vec![json!({ "name": "root",
        "persistentVolumeClaim": { "claimName": format!("{NAME}-root") } })];
    if state.has_data_disk {
        disks.push(json!({ "name": "removed",
            "persistentVolumeClaim": { "claimName": format!("{NAME}-removed") } }));
    }
    serde_json::from_value(json!({
        "metadata": metadata(NAME, state.origin, state.is_deleted),
        "spec": {
            "runStrategy": if state.is_halted { "Halted" } else { "Always" },
            "template": { "spec": {
                "domain": { "memory": { "guest": state.memory } }, "volumes": disks,
            } },
        },
        "status": { "printableStatus": "Stopped" },
    }))
    .unwrap()
}

fn instance(state: InstanceState, vm: &ObservedVirtualMachine) -> ObservedInstance {
    let paused = json!([{ "type": "Paused", "status": "True", "reason": "PausedByUser" }]);
    let mut instance: ObservedInstance = serde_json::from_value(json!({
        "metadata": metadata(NAME, Origin::Foreign, state.is_deleted),
        "status": {
            "phase": state.phase, "nodeName": "node-1",
            "conditions": if state.is_paused { paused } else { json!([]) },
        },
    }))
    .unwrap();
    instance.metadata.uid = Some("instance-0".to_owned());
    own(&mut instance.metadata, vm);
    instance
}

fn own(metadata: &mut ObjectMeta, vm: &ObservedVirtualMachine) {
    metadata.owner_references = Some(vec![OwnerReference {
        api_version: "kubevirt.io/v1".to_owned(),
        kind: "VirtualMachine".to_owned(),
        name: NAME.to_owned(),
        uid: vm.metadata.uid.clone().unwrap(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }]);
}

impl World {
    pub(crate) fn of(state: &State) -> Self {
        let mut machine: Machine = serde_json::from_value(json!({
            "apiVersion": "vitistack.io/v1alpha1", "kind": "Machine",
            "metadata": { "name": NAME, "namespace": "default", "uid": MACHINE_UID,
                "generation": 1, "creationTimestamp": START },
            "spec": state.spec,
        }))
        .unwrap();
        let metadata = &mut machine.metadata;
        if state.adopts {
            let adopts = (labels::ADOPT_DISKS.to_owned(), "true".to_owned());
            metadata.annotations = Some(BTreeMap::from([adopts]));
        }
        metadata.deletion_timestamp = state.is_deleted.then(time);
        // A terminating object without finalizers is gone already.
        if state.is_held || state.is_deleted {
            metadata.finalizers = Some(vec![labels::FINALIZER.to_owned()]);
        }
        let vm = state.vm.map(virtual_machine);
        let disks = [
            ("data", state.data),
            ("removed", state.removed),
            ("root", state.root),
        ];
        Self {
            machine,
            claims: disks
                .into_iter()
                .filter_map(|(name, disk)| Some(claim(name, disk?)))
                .collect(),
            data_volumes: Vec::new(),
            instance: state
                .instance
                .and_then(|found| Some(instance(found, vm.as_ref()?))),
            vm,
            references: None,
            lost_claims: Vec::new(),
            is_fresh: Cell::new(false),
            made: 0,
        }
    }

    pub(crate) fn is_there(&self) -> bool {
        let metadata = &self.machine.metadata;
        metadata.deletion_timestamp.is_none()
            || metadata.finalizers.iter().flatten().next().is_some()
    }

    /// The plan for the current world; `None` if there is no Machine.
    pub(crate) fn plan(&self) -> Option<Plan> {
        self.is_there().then(|| plan(&self.observe(), &time()))
    }

    fn observe(&self) -> Observed<'_> {
        let class: StorageClass = serde_json::from_value(json!({
            "metadata": { "name": "fast", "annotations":
                { "storageclass.kubernetes.io/is-default-class": "true" } },
            "allowVolumeExpansion": true,
        }))
        .unwrap();
        Observed {
            machine: &self.machine,
            surroundings: Surroundings {
                machine_classes: Known::all([]),
                storage_classes: Known::all([("fast".to_owned(), Arc::new(class))]),
                networks: Known::all([]),
                secrets: Known::all([]),
                kept_classes: BTreeMap::new(),
                clone_sources: plan::machine::CloneSources::default(),
            },
            installed: Installed {
                kubevirt: true,
                kubevirt_is_removed: false,
                cdi: true,
                multus: true,
            },
            virtual_machine: self.vm.as_ref(),
            instance: self.instance.as_ref(),
            claims: self.claims.iter().collect(),
            data_volumes: self.data_volumes.iter().collect(),
            cloud_init_secret: CloudInitSecret::Unobserved { is_verified: true },
            digest_key: None,
            mac_address_rivals: Vec::new(),
            attachments: Vec::new(),
            lost_claims: self.lost_claims.iter().map(String::as_str).collect(),
            unconfirmed_disks: Vec::new(),
            references: self.references.as_ref().map(|found| LiveReferences {
                found,
                age: if self.is_fresh.take() {
                    Age::Fresh
                } else {
                    Age::Stale {
                        retry_after: Duration::from_secs(10),
                    }
                },
            }),
            orphaned: false,
            refusal: None,
        }
    }

    pub(crate) fn is_foreign(&self, uid: &str) -> bool {
        uid.starts_with("foreign") && !self.may_adopt(uid)
    }

    /// Whether disks of an earlier Machine of this name may be adopted.
    fn may_adopt(&self, uid: &str) -> bool {
        let annotations = self.machine.metadata.annotations.as_ref();
        let adopts = annotations.is_some_and(|all| all.contains_key(labels::ADOPT_DISKS));
        let claim = self
            .claims
            .iter()
            .find(|claim| claim.metadata.uid.as_deref() == Some(uid));
        let is_owned = claim.is_some_and(|claim| claim.metadata.owner_references.is_some());
        adopts && claim.is_some() && (!is_owned || self.is_own(uid))
    }

    fn is_own(&self, uid: &str) -> bool {
        let claims = self.claims.iter();
        claims
            .filter(|claim| claim.metadata.uid.as_deref() == Some(uid))
            .flat_map(|claim| claim.metadata.owner_references.iter().flatten())
            .any(|owner| owner.uid == MACHINE_UID)
    }

    /// The foreign objects.
    pub(crate) fn foreign(&self) -> Vec<Value> {
        let claims = self
            .claims
            .iter()
            .filter(|claim| self.is_foreign(claim.metadata.uid.as_deref().unwrap()))
            .filter(|claim| claim.metadata.deletion_timestamp.is_none())
            // The storage binds any claim.
            .map(|claim| json!({ "metadata": claim.metadata, "spec": claim.spec }));
        let vm = self.vm.iter();
        let vm = vm
            .filter(|vm| self.is_foreign(vm.metadata.uid.as_deref().unwrap()))
            .filter(|vm| vm.metadata.deletion_timestamp.is_none())
            .map(|vm| json!({ "metadata": vm.metadata, "spec": vm.spec }));
        claims.chain(vm).collect()
    }

    /// Names of this Machine's disks that are not terminating.
    pub(crate) fn own_disks(&self) -> Vec<String> {
        let claims = self.claims.iter().map(|claim| &claim.metadata);
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
        let vm = self
            .vm
            .as_ref()
            .map(|vm| serde_json::to_string(vm).unwrap());
        vm.is_some_and(|vm| vm.contains(&format!(r#""claimName":"{claim}""#)))
    }

    /// Whether the VirtualMachine belongs to the Machine and has lost its owner.
    pub(crate) fn has_stripped_vm(&self) -> bool {
        self.vm.as_ref().is_some_and(|vm| {
            let annotations = vm.metadata.annotations.as_ref();
            let recorded = annotations.and_then(|all| all.get(labels::MACHINE_UID));
            vm.metadata.owner_references.is_none() && recorded.is_some_and(|uid| uid == MACHINE_UID)
        })
    }

    fn read_references(&mut self) {
        let mut references = References::default();
        if let Some(vm) = &self.vm {
            let vm = serde_json::from_value(json!(vm)).unwrap();
            references.add(Kind::VirtualMachine, vm);
        }
        if let Some(instance) = &self.instance {
            let instance = serde_json::from_value(json!(instance)).unwrap();
            references.add(Kind::VirtualMachineInstance, instance);
        }
        self.references = Some(references);
        self.is_fresh.set(true);
    }

    fn change(&mut self, kind: Kind, uid: &str, change: MetadataChange) {
        let metadata = match kind {
            Kind::VirtualMachine => self.vm.as_mut().map(|vm| &mut vm.metadata),
            Kind::PersistentVolumeClaim => {
                let claims = self.claims.iter_mut().map(|claim| &mut claim.metadata);
                claims
                    .into_iter()
                    .find(|found| found.uid.as_deref() == Some(uid))
            }
            _ => panic!("no {}", kind.as_str()),
        };
        let metadata = metadata.unwrap();
        assert_eq!(metadata.uid.as_deref(), Some(uid));
        let entries = [
            (&mut metadata.labels, change.labels),
            (&mut metadata.annotations, change.annotations),
        ];
        for (found, changed) in entries {
            let found = found.get_or_insert_default();
            for (name, value) in changed {
                match value {
                    Some(value) => drop(found.insert(name, value)),
                    None => drop(found.remove(&name)),
                }
            }
        }
        if let Some((owners, _)) = change.owners {
            metadata.owner_references = Some(owners).filter(|owners| !owners.is_empty());
        }
    }

    /// The final state, without what differs between runs.
    pub(crate) fn final_state(&self) -> Value {
        let disks: Vec<_> = self
            .claims
            .iter()
            .map(|claim| json!([claim.metadata.name, claim.spec]))
            .collect();
        let status = self.machine.status.as_ref();
        json!({
            "is there": self.is_there(),
            "phase": status.and_then(|status| status.phase),
            "vm": self.vm.as_ref().map(|vm| &vm.spec),
            "disks": disks,
            "runs": self.instance.as_ref().map(|instance| instance.status.phase),
        })
    }

    /// Executes a step.
    pub(crate) fn carry_out(&mut self, action: Action) {
        match action {
            Action::AddFinalizer => {
                let finalizers = &mut self.machine.metadata.finalizers;
                let finalizer = labels::FINALIZER.to_owned();
                finalizers.get_or_insert_default().push(finalizer);
            }
            Action::RemoveFinalizer => {
                let finalizers = self.machine.metadata.finalizers.as_mut().unwrap();
                finalizers.retain(|finalizer| finalizer != labels::FINALIZER);
            }
            Action::Create(object) | Action::Recreate(object) => {
                self.made += 1;
                let uid = format!("own-{}-{}", object.name(), self.made);
                self.put(&object, &uid);
            }
            Action::Apply { object, uid, .. } | Action::RestoreOwner { object, uid, .. } => {
                self.put(&object, &uid);
            }
            Action::ChangeMetadata {
                kind, uid, change, ..
            } => self.change(kind, &uid, change),
            Action::ObserveReferences => self.read_references(),
            Action::RecoverClaim { uid, .. } => self.lost_claims.push(uid),
            Action::ObserveDisk { .. } | Action::WriteSecret(_) | Action::DeleteSecret { .. } => {}
            Action::Delete {
                kind, name, uid, ..
            } => self.delete(kind, &name, &uid),
            Action::Pause { .. } => self.set_paused(true),
            Action::Unpause { .. } => self.set_paused(false),
        }
    }

    fn put(&mut self, object: &Object, uid: &str) {
        let mut body = serde_json::to_value(object).unwrap();
        body["metadata"]["uid"] = uid.into();
        body["metadata"]["resourceVersion"] = "2".into();
        body["metadata"]["creationTimestamp"] = START.into();
        let name = object.name();
        match object {
            Object::Claim(_) => {
                let found = self
                    .claims
                    .iter()
                    .position(|claim| claim.metadata.name.as_deref() == Some(name));
                if let Some(found) = found {
                    let old = self.claims.remove(found);
                    assert_eq!(old.metadata.uid.as_deref(), Some(uid), "another {name}");
                    body["status"] = json!(old.status);
                    body["metadata"]["deletionTimestamp"] = json!(old.metadata.deletion_timestamp);
                    self.claims
                        .insert(found, serde_json::from_value(body).unwrap());
                } else {
                    self.claims.push(serde_json::from_value(body).unwrap());
                    self.claims.sort_by_key(|claim| claim.metadata.name.clone());
                }
            }
            Object::VirtualMachine(_) => {
                if let Some(old) = &self.vm {
                    assert_eq!(old.metadata.uid.as_deref(), Some(uid), "another {name}");
                }
                self.vm = Some(serde_json::from_value(body).unwrap());
            }
            Object::DataVolume(_) | Object::Attachment(_) => panic!("{name} was not requested"),
        }
    }

    fn delete(&mut self, kind: Kind, name: &str, uid: &str) {
        match kind {
            Kind::PersistentVolumeClaim => {
                let before = self.claims.len();
                self.claims
                    .retain(|claim| claim.metadata.uid.as_deref() != Some(uid));
                assert_eq!(self.claims.len() + 1, before, "no {name}");
            }
            Kind::VirtualMachine => {
                let vm = self.vm.as_mut().unwrap();
                assert_eq!(vm.metadata.uid.as_deref(), Some(uid));
                vm.metadata.deletion_timestamp = Some(time());
            }
            Kind::VirtualMachineInstance => {
                let instance = self.instance.as_mut().unwrap();
                assert_eq!(instance.metadata.uid.as_deref(), Some(uid));
                instance.metadata.deletion_timestamp = Some(time());
            }
            Kind::DataVolume | Kind::NetworkAttachmentDefinition => panic!("no {name}"),
        }
    }

    fn set_paused(&mut self, paused: bool) {
        let conditions = if paused {
            json!([{ "type": "Paused", "status": "True", "reason": "PausedByUser" }])
        } else {
            json!([])
        };
        let instance = self.instance.as_mut().unwrap();
        instance.status.conditions = serde_json::from_value(conditions).unwrap();
    }

    /// One step of KubeVirt and of the storage. False if they have nothing to do.
    pub(crate) fn go_on(&mut self) -> bool {
        let mut went_on = false;
        for claim in &mut self.claims {
            if claim.status.phase != ClaimPhase::Bound {
                claim.status.phase = ClaimPhase::Bound;
                went_on = true;
            }
        }
        let claims = self.claims.len();
        self.claims
            .retain(|claim| claim.metadata.deletion_timestamp.is_none());
        went_on |= claims != self.claims.len();
        went_on |= self.run_guest();
        if went_on {
            // Time passes: stale reads are repeated.
            self.references = None;
        }
        went_on
    }

    fn run_guest(&mut self) -> bool {
        let is_deleted = |metadata: &ObjectMeta| metadata.deletion_timestamp.is_some();
        let wanted = self.vm.as_ref().filter(|vm| !is_deleted(&vm.metadata));
        let is_on = wanted.is_some_and(|vm| vm.spec.value()["runStrategy"] == "Always");
        match &mut self.instance {
            Some(instance) if is_deleted(&instance.metadata) || !is_on => {
                self.instance = None;
                true
            }
            Some(instance) if instance.status.phase.is_final() => {
                self.instance = None;
                true
            }
            Some(instance) if instance.status.phase != api::kubevirt::InstancePhase::Running => {
                instance.status.phase = api::kubevirt::InstancePhase::Running;
                true
            }
            None if is_on => {
                let vm = self.vm.clone().unwrap();
                self.made += 1;
                let fresh = InstanceState {
                    phase: "Running",
                    is_deleted: false,
                    is_paused: false,
                };
                let mut made = instance(fresh, &vm);
                made.metadata.uid = Some(format!("instance-{}", self.made));
                let spec = vm.spec.value();
                let annotations = spec.pointer("/template/metadata/annotations");
                made.metadata.annotations =
                    annotations.and_then(|found| serde_json::from_value(found.clone()).ok());
                self.instance = Some(made);
                true
            }
            None if self.vm.as_ref().is_some_and(|vm| is_deleted(&vm.metadata)) => {
                self.vm = None;
                true
            }
            Some(_) | None => false,
        }
    }
}
