//! Desired VirtualMachine, with the annotations in which the operator records its state.

mod changes;

use std::collections::{BTreeMap, BTreeSet};

use api::{
    DiskBus, Machine, ObjectMeta, ObservedCondition, condition,
    kubevirt::{
        DiskTarget, InstanceSpec, Interface, InterfaceBinding, InterfaceState,
        ObservedVirtualMachine, RunStrategy, VirtualMachine, Volume, VolumeSource,
    },
    labels,
};
use serde_json::Value;

use super::{
    adoption,
    compare::{self, differences},
    ownership::{annotation, is_of_predecessor, is_own_vm, is_terminating, name, uid},
};
use crate::{
    Event,
    machine::{
        Action, NetworkData, Object, Observed, Obstacle, Part, ResolvedMachine, Step, UserData,
        elided,
    },
    managed::{self, ANOTHER_CLIENT, repaired},
};

/// An existing VirtualMachine with its parsed spec.
pub(super) struct ExistingVm<'a> {
    pub(super) vm: &'a ObservedVirtualMachine,
    pub(super) spec: Value,
}

impl<'a> ExistingVm<'a> {
    pub(super) fn of(vm: &'a ObservedVirtualMachine) -> Self {
        Self {
            vm,
            spec: vm.spec.value(),
        }
    }

    fn volumes(&self) -> impl Iterator<Item = &Value> {
        let volumes = self.spec.pointer("/template/spec/volumes");
        volumes.and_then(Value::as_array).into_iter().flatten()
    }

    pub(super) fn volume_names(&self) -> impl Iterator<Item = &str> {
        self.volumes().filter_map(|volume| volume["name"].as_str())
    }

    pub(super) fn has_volume(&self, disk: &str) -> bool {
        self.volumes().any(|volume| volume["name"] == disk)
    }

    /// Whether it refers to a claim or to the DataVolume of that name.
    pub(super) fn refers_to(&self, claim: &str) -> bool {
        self.volumes().any(|volume| {
            volume["persistentVolumeClaim"]["claimName"] == claim
                || volume["dataVolume"]["name"] == claim
        })
    }

    fn is_halted(&self) -> bool {
        let strategy = self.spec.get("runStrategy");
        strategy.is_some_and(|strategy| strategy == "Halted")
    }

    fn is_hotpluggable(&self, disk: &str) -> bool {
        let volume = self.volumes().find(|volume| volume["name"] == disk);
        volume.is_some_and(|volume| {
            ["persistentVolumeClaim", "dataVolume"]
                .iter()
                .any(|source| volume[source]["hotpluggable"] == true)
        })
    }

    pub(super) fn has_network_data(&self) -> bool {
        let sources = ["cloudInitNoCloud", "cloudInitConfigDrive"];
        let refers = |volume: &Value| {
            sources
                .iter()
                .any(|it| !volume[it]["networkDataSecretRef"].is_null())
        };
        self.volumes().any(refers)
    }

    /// Digest of the cloud-init data that the next instance starts with.
    pub(super) fn cloud_init(&self) -> Option<&str> {
        let annotations = self.spec.pointer("/template/metadata/annotations")?;
        annotations.get(labels::CLOUD_INIT)?.as_str()
    }
}

/// Digest of the cloud-init data, to detect changes.
pub(super) fn cloud_init_digest(machine: &ResolvedMachine) -> Option<String> {
    let cloud_init = machine.cloud_init.as_ref()?;
    let uid = machine.identity.uid.as_deref().unwrap_or_default();
    let network_data = cloud_init.network_data.as_ref();
    let given = network_data.map_or("", NetworkData::content);
    let digest = match &cloud_init.user_data {
        Some(UserData::Elided(digest)) => digest.clone(),
        Some(UserData::Content(content)) => elided::digest(uid, content, given),
        Some(UserData::Unread) | None => elided::digest(uid, &[], given),
    };
    let digest = match cloud_init.ssh_keys.as_slice() {
        [] => digest,
        keys => {
            let keys = keys.iter().map(String::as_bytes);
            compare::digest([digest.as_bytes()].into_iter().chain(keys))
        }
    };
    Some(match network_data {
        Some(NetworkData::Recorded(recorded) | NetworkData::Generated(recorded)) => {
            compare::digest([digest.as_bytes(), recorded.as_bytes()])
        }
        Some(NetworkData::Content(_) | NetworkData::Unread | NetworkData::Awaited) | None => digest,
    })
}

/// The desired VirtualMachine, given the existing one.
pub(super) fn desired(
    mut vm: VirtualMachine,
    observed: &Observed<'_>,
    existing: Option<&ExistingVm<'_>>,
    class_snapshot: Option<String>,
    cloud_init: Option<String>,
) -> VirtualMachine {
    let mut annotations = vm.metadata.annotations.take().unwrap_or_default();
    annotations
        .extend(class_snapshot.map(|snapshot| (labels::CLASS_SNAPSHOT.to_owned(), snapshot)));
    annotations.extend(restart_annotations(observed, existing));
    annotations.extend(
        stopped_instance(&vm, observed, existing)
            .map(|uid| (labels::STOPPED_INSTANCE.to_owned(), uid.to_owned())),
    );
    let halted = halted_instance(&vm, observed, existing);
    let machine = observed.machine.metadata.uid.clone();
    annotations.extend(machine.map(|uid| (labels::MACHINE_UID.to_owned(), uid)));
    let adopted = existing.filter(|existing| adoption::is_adopted(&existing.vm.metadata));
    if let Some(existing) = adopted {
        annotations.insert(labels::ADOPTED.to_owned(), "true".to_owned());
        adoption::inherit(&mut vm, observed.machine, existing);
    }
    let template = &mut vm.spec.template;
    template
        .metadata
        .annotations
        .extend(cloud_init.map(|digest| (labels::CLOUD_INIT.to_owned(), digest)));
    if let Some(existing) = existing {
        let runs = observed
            .instance
            .is_some_and(|instance| !instance.status.phase.is_final());
        let disks = &template.spec.domain.devices.disks;
        for volume in &mut template.spec.volumes {
            let plugged = existing.is_hotpluggable(&volume.name);
            let added = runs && !existing.has_volume(&volume.name);
            let fits = disks
                .iter()
                .any(|disk| disk.name == volume.name && can_be_plugged(disk.target));
            if fits && (plugged || added) {
                mark_hotpluggable(volume);
            }
        }
    }
    if let Some(existing) = existing {
        unplug_removed(&mut template.spec, observed, existing);
    }
    if let Some(existing) = existing.filter(|existing| is_of_earlier_release(existing)) {
        let unlabelled = without_copied_labels(vm.clone());
        let unlabelled = sealed(unlabelled, annotations.clone(), halted);
        if differences("", &found(existing), &body(&unlabelled)).is_empty() {
            return unlabelled;
        }
    }
    sealed(vm, annotations, halted)
}

/// Adds the annotations, with a digest of everything that the Machine asks for. The record of a stop by
/// someone else is not part of it.
fn sealed(
    mut vm: VirtualMachine,
    mut annotations: BTreeMap<String, String>,
    halted: Option<&str>,
) -> VirtualMachine {
    let body = serde_json::json!({ "annotations": annotations, "labels": vm.metadata.labels, "spec": vm.spec });
    let digest = compare::digest([body.to_string().as_bytes()]);
    annotations.insert(labels::APPLIED.to_owned(), digest);
    annotations.extend(halted.map(|uid| (labels::HALTED_INSTANCE.to_owned(), uid.to_owned())));
    vm.metadata.annotations = Some(annotations);
    vm
}

/// Whether an earlier release wrote a VirtualMachine, which did not label it for the Viti stack. Such a
/// VirtualMachine gets its labels together with the next change, so that an upgrade changes none.
fn is_of_earlier_release(existing: &ExistingVm<'_>) -> bool {
    let labels = existing.vm.metadata.labels.as_ref();
    labels.is_none_or(|labels| !labels.contains_key(labels::SOURCE_MACHINE))
}

/// The VirtualMachine with the labels of an earlier release.
fn without_copied_labels(mut vm: VirtualMachine) -> VirtualMachine {
    if let Some(labels) = &mut vm.metadata.labels {
        let kept = [
            labels::MANAGED_BY,
            labels::MACHINE,
            labels::MACHINE_UID,
            labels::WORKLOAD_CLUSTER,
            labels::MANAGED_FROM,
        ];
        labels.retain(|name, _| kept.contains(&name.as_str()));
    }
    let template = &mut vm.spec.template.metadata.labels;
    template.remove(labels::SOURCE_MACHINE);
    vm
}

/// Marks removed interfaces as absent, so that KubeVirt unplugs them from the running guest. An interface
/// that is just left out would stay until a restart.
fn unplug_removed(template: &mut InstanceSpec, observed: &Observed<'_>, existing: &ExistingVm<'_>) {
    let Some(instance) = observed.instance else {
        return;
    };
    let listed = |pointer: &str| {
        let list = existing.spec.pointer(pointer).and_then(Value::as_array);
        list.map(Vec::as_slice).unwrap_or_default().iter()
    };
    let plugged = instance.status.interfaces.iter();
    let plugged: BTreeSet<&str> = plugged.filter_map(|it| it.name.as_deref()).collect();
    // No API server accepts two networks of one name. If it happens, the first counts.
    let networks = listed("/template/spec/networks").rev();
    let networks: BTreeMap<&str, &Value> = networks
        .filter_map(|network| Some((network["name"].as_str()?, network)))
        .collect();
    let interfaces = &mut template.domain.devices.interfaces;
    let mut kept: BTreeSet<String> = interfaces.iter().map(|it| it.name.clone()).collect();
    for found in listed("/template/spec/domain/devices/interfaces") {
        let name = found["name"].as_str().unwrap_or_default();
        if kept.contains(name) || !plugged.contains(name) {
            continue;
        }
        let network = networks.get(name).copied();
        let network = network.and_then(|found| serde_json::from_value(found.clone()).ok());
        let interface = serde_json::from_value::<Interface>(found.clone()).ok();
        let interface = interface.filter(|it| it.binding == InterfaceBinding::Bridge {});
        if let (Some(network), Some(interface)) = (network, interface) {
            kept.insert(interface.name.clone());
            template.networks.push(network);
            interfaces.push(Interface {
                state: Some(InterfaceState::Absent),
                ..interface
            });
        }
    }
}

/// Buses on which KubeVirt hot-plugs disks.
fn can_be_plugged(target: DiskTarget) -> bool {
    matches!(
        target,
        DiskTarget::Disk {
            bus: DiskBus::Virtio | DiskBus::Scsi,
            ..
        }
    )
}

fn mark_hotpluggable(volume: &mut Volume) {
    match &mut volume.source {
        VolumeSource::PersistentVolumeClaim { hotpluggable, .. }
        | VolumeSource::DataVolume { hotpluggable, .. } => *hotpluggable = Some(true),
        VolumeSource::CloudInitNoCloud { .. } | VolumeSource::CloudInitConfigDrive { .. } => {}
    }
}

/// The last restart that was acted on, and the instance that it ends. The instance is recorded before it
/// is deleted, so that one restart ends one instance, whatever happens in between.
fn restart_annotations(
    observed: &Observed<'_>,
    existing: Option<&ExistingVm<'_>>,
) -> impl Iterator<Item = (String, String)> {
    let requested = observed.machine.spec.restarted_at.as_deref();
    let recorded = |label| existing.and_then(|existing| annotation(&existing.vm.metadata, label));
    let (at, instance) = if is_restart_due(observed, existing) {
        let running = observed
            .instance
            .filter(|instance| !is_terminating(&instance.metadata));
        (requested, running.and_then(|i| i.metadata.uid.as_deref()))
    } else {
        (
            recorded(labels::RESTARTED_AT).or(requested),
            recorded(labels::RESTARTED_INSTANCE),
        )
    };
    [
        (labels::RESTARTED_AT, at),
        (labels::RESTARTED_INSTANCE, instance),
    ]
    .into_iter()
    .filter_map(|(label, value)| Some((label.to_owned(), value?.to_owned())))
    .collect::<Vec<_>>()
    .into_iter()
}

/// The instance that the operator stops with this write, or stopped last. It is recorded with the stop,
/// so that a start right after it does not attribute the end of the instance to someone else.
fn stopped_instance<'a>(
    desired: &VirtualMachine,
    observed: &Observed<'a>,
    existing: Option<&ExistingVm<'a>>,
) -> Option<&'a str> {
    let existing = existing?;
    if desired.spec.run_strategy == RunStrategy::Halted && !existing.is_halted() {
        observed.instance?.metadata.uid.as_deref()
    } else {
        annotation(&existing.vm.metadata, labels::STOPPED_INSTANCE)
    }
}

/// The instance that ran when someone else last stopped the VirtualMachine. The start that the operator
/// writes then records it, since the instance may end before it is observed to be deleted.
fn halted_instance<'a>(
    desired: &VirtualMachine,
    observed: &Observed<'a>,
    existing: Option<&ExistingVm<'a>>,
) -> Option<&'a str> {
    let existing = existing?;
    let recorded = annotation(&existing.vm.metadata, labels::HALTED_INSTANCE);
    if desired.spec.run_strategy == RunStrategy::Halted || !existing.is_halted() {
        return recorded;
    }
    let running = observed.instance?.metadata.uid.as_deref();
    let stopped = annotation(&existing.vm.metadata, labels::STOPPED_INSTANCE);
    if running == stopped {
        recorded
    } else {
        running
    }
}

/// Whether the requested restart has not been recorded yet.
pub(super) fn is_restart_due(observed: &Observed<'_>, existing: Option<&ExistingVm<'_>>) -> bool {
    existing.is_some_and(|existing| is_restart_requested(observed.machine, &existing.vm.metadata))
}

/// Whether a Machine requests a restart that is not recorded on its VirtualMachine.
pub(super) fn is_restart_requested(machine: &Machine, vm: &ObjectMeta) -> bool {
    let requested = machine.spec.restarted_at.as_deref();
    requested.is_some() && annotation(vm, labels::RESTARTED_AT) != requested
}

/// The obstacle to writing the VirtualMachine, if it is terminating or foreign.
pub(super) fn obstacle(observed: &Observed<'_>) -> Option<Obstacle> {
    let vm = observed.virtual_machine?;
    let own = is_own_vm(&vm.metadata, observed.machine);
    if is_terminating(&vm.metadata) {
        return Some(Obstacle {
            part: Part::VirtualMachine,
            error_type: None,
            message: format!(
                "VirtualMachine {:?} is being deleted: the operator recreates it afterwards",
                name(&vm.metadata)
            ),
        });
    }
    if !own && is_of_predecessor(&vm.metadata, observed.machine) {
        return Some(Obstacle::of_predecessor(
            Part::VirtualMachine,
            "VirtualMachine",
            name(&vm.metadata),
        ));
    }
    (!own).then(|| Obstacle::foreign(Part::VirtualMachine, "VirtualMachine", name(&vm.metadata)))
}

pub(super) fn step(
    mut desired: VirtualMachine,
    existing: Option<&ExistingVm<'_>>,
    machine: &ResolvedMachine,
) -> Option<Step> {
    let Some(existing) = existing else {
        let disks: Vec<_> = machine
            .disks
            .iter()
            .map(|disk| format!("{} ({})", disk.name, disk.size))
            .collect();
        let message = format!(
            "Created VirtualMachine {} with {} and {} of memory, disks {}",
            machine.vm_name,
            changes::cpus(machine.vcpus()),
            machine.memory,
            disks.join(", "),
        );
        return Some(Step {
            action: Action::Create(Object::VirtualMachine(Box::new(desired))),
            reason: "it does not exist".to_owned(),
            event: Some(Event::normal("Created", message)),
        });
    };
    let found = found(existing);
    let mut changed = differences("", &found, &body(&desired));
    for difference in &mut changed {
        difference.path.remove(0);
    }
    let owner_is_missing = !has_owner(existing, &desired);
    if changed.is_empty() && !owner_is_missing {
        return None;
    }
    let is_own_change = changed
        .iter()
        .any(|difference| difference.path.ends_with(labels::APPLIED));
    keep_identity(&mut desired, existing);
    let vm_uid = uid(&existing.vm.metadata);
    // Of an adopted VirtualMachine someone else created the fields, under whatever name.
    let created_at = managed::created_at(&existing.vm.metadata)
        .filter(|_| !adoption::is_adopted(&existing.vm.metadata));
    if owner_is_missing {
        let vm = format!("VirtualMachine {}", name(&existing.vm.metadata));
        let message = repaired(ANOTHER_CLIENT, &vm, "metadata.ownerReferences");
        return Some(Step {
            action: Action::RestoreOwner {
                uid: vm_uid,
                created_at,
                object: Object::VirtualMachine(Box::new(desired)),
            },
            reason: "another client removed its owner reference".to_owned(),
            event: Some(Event::normal("DriftCorrected", message)),
        });
    }
    Some(Step {
        event: changes::event(&changed, existing, machine, is_own_change),
        reason: changes::reason(&changed, is_own_change),
        action: Action::Apply {
            uid: vm_uid,
            created_at,
            object: Object::VirtualMachine(Box::new(desired)),
        },
    })
}

/// Keeps the UUID and serial that KubeVirt generated, unless the Machine gives others. No field manager owns them, so an apply without
/// the firmware would remove them, and the guest would see other hardware.
fn keep_identity(desired: &mut VirtualMachine, existing: &ExistingVm<'_>) {
    let firmware = existing.spec.pointer("/template/spec/domain/firmware");
    let text = |field| Some(firmware?.get(field)?.as_str()?.to_owned());
    let (uuid, serial) = (text("uuid"), text("serial"));
    if uuid.is_some() || serial.is_some() {
        let firmware = &mut desired.spec.template.spec.domain.firmware;
        let firmware = firmware.get_or_insert_default();
        firmware.uuid = firmware.uuid.take().or(uuid);
        firmware.serial = firmware.serial.take().or(serial);
    }
}

fn body(desired: &VirtualMachine) -> Value {
    serde_json::json!({
        "metadata": {
            "annotations": desired.metadata.annotations,
            "labels": desired.metadata.labels,
        },
        "spec": desired.spec,
    })
}

fn found(existing: &ExistingVm<'_>) -> Value {
    serde_json::json!({
        "metadata": {
            "annotations": existing.vm.metadata.annotations,
            "labels": existing.vm.metadata.labels,
        },
        "spec": existing.spec,
    })
}

fn has_owner(existing: &ExistingVm<'_>, desired: &VirtualMachine) -> bool {
    let owners = |metadata: &ObjectMeta| metadata.owner_references.clone().unwrap_or_default();
    let found = owners(&existing.vm.metadata);
    owners(&desired.metadata)
        .iter()
        .all(|owner| found.contains(owner))
}

/// Who paused an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pause {
    None,
    ByUser,
    /// KubeVirt itself, after an I/O error or to finish a migration. It unpauses the instance as well.
    ByKubeVirt,
}

impl Pause {
    pub(super) fn of(conditions: &[ObservedCondition]) -> Self {
        match condition(conditions, "Paused").filter(|paused| paused.is_true()) {
            None => Self::None,
            Some(paused) if paused.reason == "PausedByUser" => Self::ByUser,
            Some(_) => Self::ByKubeVirt,
        }
    }
}
