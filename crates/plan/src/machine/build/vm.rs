//! VirtualMachine of a resolved Machine.

use std::collections::BTreeMap;

use api::{
    AccessMode, CloudInitType, DiskBus, NetworkModel, PowerState, WatchdogAction,
    kubevirt::{
        AccessCredential, AccessSecret, Clock, Devices, DiskDevice, DiskTarget, DomainBootloader,
        DomainCpu, DomainFeatures, DomainFirmware, DomainSpec, Empty, EvictionStrategy,
        FeatureState, HyperV, I6300Esb, InstanceNetwork, InstanceSpec, InstanceTemplate, Interface,
        InterfaceBinding, LabelSelector, LocalSecret, MachineType, Memory, MemoryPages,
        NetworkSource, PropagationMethod, RunStrategy, Spinlocks, SshPublicKey, SshPublicKeySource,
        SyntheticTimer, TemplateMetadata, Timer, TimerPolicy, TimerPresence,
        TopologySpreadConstraint, VirtualMachine, VirtualMachineSpec, Volume, VolumeSource,
        WatchdogDevice, WhenUnsatisfiable,
    },
    labels,
};

use super::{add_child_labels, labelled};
use crate::{
    machine::{
        Attachment, Bootloader, CloudInit, DiskType, Identity, Placement, ResolvedDisk,
        ResolvedInterface, ResolvedMachine, ResolvedSource, Spread, plan::compare, resolved,
    },
    naming,
};

const ON: FeatureState = FeatureState { enabled: true };

pub(super) fn virtual_machine(machine: &ResolvedMachine) -> VirtualMachine {
    let mut labels = machine.labels.clone();
    add_child_labels(&mut labels, &machine.identity);
    let source_machine = machine.identity.name.clone();
    labels.insert(labels::SOURCE_MACHINE.to_owned(), source_machine);
    let spec = VirtualMachineSpec {
        run_strategy: match machine.power_state {
            // A paused machine has an instance; a subresource call pauses it.
            PowerState::Running | PowerState::Paused => RunStrategy::Always,
            PowerState::Stopped => RunStrategy::Halted,
        },
        template: InstanceTemplate {
            metadata: TemplateMetadata {
                labels: labels.clone(),
                annotations: annotations(machine),
            },
            spec: instance(machine),
        },
    };
    let mut vm = VirtualMachine::new("", spec);
    vm.metadata = labelled(&machine.identity, machine.vm_name.clone(), labels);
    let annotations = &machine.vm_annotations;
    vm.metadata.annotations = (!annotations.is_empty()).then(|| annotations.clone());
    vm
}

/// Annotations of the instance: those of the Machine, and a digest of its placement.
fn annotations(machine: &ResolvedMachine) -> BTreeMap<String, String> {
    let mut annotations = machine.annotations.clone();
    let Placement {
        node_selector,
        tolerations,
        affinity,
        spread,
        priority_class_name,
    } = &machine.placement;
    if machine.placement != Placement::default() {
        let spread: Vec<_> = spread.iter().map(spread_constraint).collect();
        let placement = serde_json::json!([
            node_selector,
            tolerations,
            affinity,
            spread,
            priority_class_name
        ]);
        let digest = compare::digest([placement.to_string().as_bytes()]);
        annotations.insert(labels::PLACEMENT.to_owned(), digest);
    }
    annotations
}

fn instance(machine: &ResolvedMachine) -> InstanceSpec {
    let Placement {
        node_selector,
        tolerations,
        affinity,
        spread,
        priority_class_name,
    } = &machine.placement;
    InstanceSpec {
        hostname: machine.access.hostname.clone(),
        access_credentials: access_credentials(machine),
        node_selector: node_selector.clone(),
        tolerations: tolerations.clone(),
        affinity: affinity.clone(),
        topology_spread_constraints: spread.iter().map(spread_constraint).collect(),
        priority_class_name: priority_class_name.clone(),
        domain: domain(machine),
        eviction_strategy: can_migrate(machine).then_some(EvictionStrategy::LiveMigrate),
        networks: machine.interfaces.iter().map(network).collect(),
        volumes: machine
            .disks
            .iter()
            .map(|disk| volume(&machine.identity, disk))
            .chain(
                machine
                    .cloud_init
                    .as_ref()
                    .map(|data| cloud_init_volume(&machine.identity, data)),
            )
            .collect(),
    }
}

fn access_credentials(machine: &ResolvedMachine) -> Vec<AccessCredential> {
    let secrets = machine.access.key_secrets.iter();
    let type_ = machine.cloud_init.as_ref().map(|it| it.type_);
    let credentials = secrets.map(|secret| AccessCredential {
        ssh_public_key: SshPublicKey {
            source: SshPublicKeySource {
                secret: AccessSecret {
                    secret_name: secret.name.clone(),
                },
            },
            // Only one method for each Secret: a second one would be a second volume of the same name.
            propagation_method: match (secret.users.as_slice(), type_) {
                ([], Some(CloudInitType::ConfigDrive)) => PropagationMethod::ConfigDrive {},
                ([], Some(CloudInitType::NoCloud) | None) => PropagationMethod::NoCloud {},
                (users, _) => PropagationMethod::QemuGuestAgent {
                    users: users.to_vec(),
                },
            },
        },
    });
    credentials.collect()
}

fn spread_constraint(spread: &Spread) -> TopologySpreadConstraint {
    TopologySpreadConstraint {
        max_skew: 1,
        topology_key: spread.topology_key.clone(),
        when_unsatisfiable: if spread.is_required {
            WhenUnsatisfiable::DoNotSchedule
        } else {
            WhenUnsatisfiable::ScheduleAnyway
        },
        label_selector: LabelSelector {
            match_labels: [(spread.label.clone(), spread.value.clone())].into(),
        },
    }
}

/// KubeVirt live-migrates a machine only if all its claims are ReadWriteMany, among them the one with the state
/// of a TPM, and it has no devices of the node. Otherwise the eviction strategy LiveMigrate would block every
/// drain of its node.
fn can_migrate(machine: &ResolvedMachine) -> bool {
    let resolved::Devices {
        tpm,
        gpus,
        host_devices,
        ..
    } = &machine.devices;
    let keeps_state = tpm.is_some_and(|tpm| tpm.persistent == Some(true));
    let mut disks = machine.disks.iter();
    disks.all(|disk| disk.access_mode == AccessMode::ReadWriteMany)
        && !keeps_state
        && gpus.is_empty()
        && host_devices.is_empty()
}

fn domain(machine: &ResolvedMachine) -> DomainSpec {
    DomainSpec {
        cpu: DomainCpu {
            topology: machine.cpu,
            dedicated_cpu_placement: machine.devices.has_dedicated_cpus.then_some(true),
        },
        memory: Memory {
            guest: machine.memory.to_string(),
            hugepages: machine
                .devices
                .hugepages
                .map(|page_size| MemoryPages { page_size }),
        },
        machine: machine
            .machine_type
            .clone()
            .map(|type_| MachineType { type_ }),
        features: features(machine),
        clock: machine.hyperv.then(windows_clock),
        firmware: firmware(machine),
        devices: Devices {
            disks: machine
                .disks
                .iter()
                .map(disk_device)
                .chain(machine.cloud_init.as_ref().map(|_| cloud_init_device()))
                .collect(),
            interfaces: machine.interfaces.iter().map(interface).collect(),
            tpm: machine.devices.tpm,
            gpus: machine.devices.gpus.clone(),
            host_devices: machine.devices.host_devices.clone(),
            rng: machine.devices.has_rng.then_some(Empty {}),
            watchdog: machine.devices.watchdog.map(watchdog),
            log_serial_console: machine.access.serial_console_log,
            network_interface_multiqueue: machine
                .interfaces
                .iter()
                .any(|interface| interface.model == NetworkModel::Virtio)
                .then_some(true),
        },
    }
}

fn firmware(machine: &ResolvedMachine) -> Option<DomainFirmware> {
    let bootloader = machine.bootloader.map(|bootloader| match bootloader {
        Bootloader::Bios => DomainBootloader::Bios {},
        Bootloader::Efi { secure_boot } => DomainBootloader::Efi { secure_boot },
    });
    let firmware = DomainFirmware {
        bootloader,
        uuid: machine.uuid.clone(),
        serial: machine.serial.clone(),
    };
    (firmware != DomainFirmware::default()).then_some(firmware)
}

fn watchdog(action: WatchdogAction) -> WatchdogDevice {
    WatchdogDevice {
        name: "watchdog".to_owned(),
        i6300esb: I6300Esb { action },
    }
}

fn features(machine: &ResolvedMachine) -> Option<DomainFeatures> {
    let state = |enabled: Option<bool>| enabled.map(|enabled| FeatureState { enabled });
    let secure_boot = machine.bootloader == Some(Bootloader::Efi { secure_boot: true });
    let features = DomainFeatures {
        acpi: state(machine.acpi),
        apic: state(machine.apic),
        hyperv: machine.hyperv.then(enlightenments),
        smm: secure_boot.then_some(ON),
    };
    (features != DomainFeatures::default()).then_some(features)
}

/// The enlightenments of KubeVirt's own preferences for Windows.
fn enlightenments() -> HyperV {
    HyperV {
        relaxed: ON,
        vapic: ON,
        spinlocks: Spinlocks { spinlocks: 8191 },
        vpindex: ON,
        runtime: ON,
        synic: ON,
        synictimer: SyntheticTimer {
            enabled: true,
            direct: ON,
        },
        reset: ON,
        frequencies: ON,
        reenlightenment: ON,
        tlbflush: ON,
        ipi: ON,
    }
}

fn windows_clock() -> Clock {
    Clock {
        utc: Empty {},
        timer: Timer {
            hpet: TimerPresence { present: false },
            hyperv: TimerPresence { present: true },
            pit: TimerPolicy {
                tick_policy: "delay".to_owned(),
            },
            rtc: TimerPolicy {
                tick_policy: "catchup".to_owned(),
            },
        },
    }
}

fn disk_device(disk: &ResolvedDisk) -> DiskDevice {
    DiskDevice {
        name: disk.name.clone(),
        target: match disk.type_ {
            DiskType::Disk => DiskTarget::Disk {
                bus: disk.bus,
                readonly: is_read_only(disk),
            },
            DiskType::Cdrom => DiskTarget::Cdrom { bus: disk.bus },
        },
        boot_order: disk.boot_order,
    }
}

fn volume(machine: &Identity, disk: &ResolvedDisk) -> Volume {
    let claim = disk.claim(&machine.name);
    Volume {
        name: disk.name.clone(),
        source: match disk.source {
            ResolvedSource::DataVolume(_) => VolumeSource::DataVolume {
                name: claim,
                hotpluggable: None,
            },
            ResolvedSource::Empty => VolumeSource::PersistentVolumeClaim {
                claim_name: claim,
                read_only: is_read_only(disk),
                hotpluggable: None,
            },
        },
    }
}

fn is_read_only(disk: &ResolvedDisk) -> Option<bool> {
    (disk.access_mode == AccessMode::ReadOnlyMany).then_some(true)
}

fn cloud_init_device() -> DiskDevice {
    DiskDevice {
        name: naming::CLOUD_INIT_VOLUME.to_owned(),
        target: DiskTarget::Disk {
            bus: DiskBus::Virtio,
            readonly: None,
        },
        boot_order: None,
    }
}

fn cloud_init_volume(machine: &Identity, cloud_init: &CloudInit) -> Volume {
    let secret = || LocalSecret {
        name: naming::cloud_init_secret(&machine.name),
    };
    let secret_ref = cloud_init.user_data.as_ref().map(|_| secret());
    let network_data_secret_ref = cloud_init.network_data.as_ref().map(|_| secret());
    Volume {
        name: naming::CLOUD_INIT_VOLUME.to_owned(),
        source: match cloud_init.type_ {
            CloudInitType::NoCloud => VolumeSource::CloudInitNoCloud {
                secret_ref,
                network_data_secret_ref,
            },
            CloudInitType::ConfigDrive => VolumeSource::CloudInitConfigDrive {
                secret_ref,
                network_data_secret_ref,
            },
        },
    }
}

fn interface(interface: &ResolvedInterface) -> Interface {
    Interface {
        name: interface.name.clone(),
        model: interface.model,
        binding: match interface.attachment {
            Attachment::PodNetwork => InterfaceBinding::Masquerade {},
            Attachment::Network(_) | Attachment::Vlan(_) => InterfaceBinding::Bridge {},
        },
        mac_address: interface.mac_address.clone(),
        boot_order: interface.boot_order,
        state: None,
    }
}

fn network(interface: &ResolvedInterface) -> InstanceNetwork {
    InstanceNetwork {
        name: interface.name.clone(),
        source: match &interface.attachment {
            Attachment::PodNetwork => NetworkSource::Pod {},
            Attachment::Network(name) => NetworkSource::Multus {
                network_name: name.clone(),
            },
            Attachment::Vlan(id) => NetworkSource::Multus {
                network_name: naming::vlan(*id),
            },
        },
    }
}
