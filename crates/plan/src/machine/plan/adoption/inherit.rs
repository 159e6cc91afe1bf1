//! What a VirtualMachine keeps after its adoption, because no field of a Machine decides it.

use api::{
    CloudInitSecretRef, Machine,
    kubevirt::{
        InstanceSpec, InterfaceBinding, LocalSecret, NetworkSource, VirtualMachine, VolumeSource,
    },
};
use serde_json::Value;

use crate::machine::plan::vm::ExistingVm;

/// Template of the VirtualMachine as it was found.
struct Found<'a>(&'a Value);

impl<'a> Found<'a> {
    fn value(&self, pointer: &str) -> Option<&'a Value> {
        let found = self.0.pointer(&format!("/template/spec{pointer}"));
        found.filter(|it| !it.is_null())
    }

    fn list(&self, pointer: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
        let list = self.value(pointer).and_then(Value::as_array);
        list.into_iter().flatten()
    }

    fn item(&self, pointer: &str, name: &str) -> Option<&'a Value> {
        self.list(pointer).find(|it| it["name"] == name)
    }
}

/// Takes from an adopted VirtualMachine its eviction strategy, the queues, bindings and MAC addresses of its
/// interfaces, the absence of a boot order, the kinds of its volumes, and where its cloud-init data is.
pub(in crate::machine::plan) fn inherit(
    vm: &mut VirtualMachine,
    machine: &Machine,
    existing: &ExistingVm<'_>,
) {
    let template = &mut vm.spec.template.spec;
    let found = Found(&existing.spec);
    if found
        .value("/evictionStrategy")
        .is_none_or(|it| it != "LiveMigrate")
    {
        template.eviction_strategy = None;
    }
    inherit_interfaces(template, &found);
    inherit_boot_order(template, &found);
    inherit_volumes(template, machine, &found);
}

fn inherit_interfaces(template: &mut InstanceSpec, found: &Found<'_>) {
    let devices = &mut template.domain.devices;
    let multiqueue = found.value("/domain/devices/networkInterfaceMultiqueue");
    if multiqueue.is_none_or(|it| it == false) {
        devices.network_interface_multiqueue = None;
    }
    for interface in &mut devices.interfaces {
        let Some(found) = found.item("/domain/devices/interfaces", &interface.name) else {
            continue;
        };
        let mut networks = template.networks.iter();
        let network = networks.find(|it| it.name == interface.name);
        let is_pod = network.is_some_and(|it| it.source == NetworkSource::Pod {});
        if is_pod && found["bridge"].is_object() {
            interface.binding = InterfaceBinding::Bridge {};
        }
        if interface.mac_address.is_none() {
            interface.mac_address = found["macAddress"].as_str().map(str::to_owned);
        }
    }
}

/// Without a boot order, a guest boots from its first disk.
fn inherit_boot_order(template: &mut InstanceSpec, found: &Found<'_>) {
    let lists = ["/domain/devices/disks", "/domain/devices/interfaces"];
    let mut found = lists.into_iter().flat_map(|list| found.list(list));
    if found.any(|it| !it["bootOrder"].is_null()) {
        return;
    }
    let devices = &mut template.domain.devices;
    let disks = devices.disks.iter().map(|it| it.boot_order);
    let interfaces = devices.interfaces.iter().map(|it| it.boot_order);
    let numbered = disks.chain(interfaces).flatten().count();
    if let Some(first) = devices.disks.first_mut()
        && numbered == 1
    {
        first.boot_order = None;
    }
}

fn inherit_volumes(template: &mut InstanceSpec, machine: &Machine, found: &Found<'_>) {
    let secrets = Secrets::of(machine);
    for volume in &mut template.volumes {
        let Some(found) = found.item("/volumes", &volume.name) else {
            continue;
        };
        let claim = &found["persistentVolumeClaim"]["claimName"];
        let data_volume = &found["dataVolume"]["name"];
        volume.source = match volume.source.clone() {
            VolumeSource::PersistentVolumeClaim {
                claim_name,
                read_only: None,
                hotpluggable,
            } if data_volume == claim_name.as_str() => VolumeSource::DataVolume {
                name: claim_name,
                hotpluggable,
            },
            VolumeSource::DataVolume { name, hotpluggable } if claim == name.as_str() => {
                VolumeSource::PersistentVolumeClaim {
                    claim_name: name,
                    read_only: None,
                    hotpluggable,
                }
            }
            VolumeSource::CloudInitNoCloud { .. } if secrets.are(&found["cloudInitNoCloud"]) => {
                VolumeSource::CloudInitNoCloud {
                    secret_ref: secrets.user_data.map(secret),
                    network_data_secret_ref: secrets.network_data.map(secret),
                }
            }
            VolumeSource::CloudInitConfigDrive { .. }
                if secrets.are(&found["cloudInitConfigDrive"]) =>
            {
                VolumeSource::CloudInitConfigDrive {
                    secret_ref: secrets.user_data.map(secret),
                    network_data_secret_ref: secrets.network_data.map(secret),
                }
            }
            source => source,
        };
    }
}

/// Secrets with cloud-init data that a Machine refers to.
struct Secrets<'a> {
    user_data: Option<&'a CloudInitSecretRef>,
    network_data: Option<&'a CloudInitSecretRef>,
}

impl<'a> Secrets<'a> {
    fn of(machine: &'a Machine) -> Self {
        let cloud_init = machine.spec.cloud_init.as_ref();
        let both = cloud_init.and_then(|it| it.secret_ref.as_ref());
        Self {
            user_data: cloud_init
                .and_then(|it| it.user_data_secret_ref.as_ref())
                .or(both),
            network_data: cloud_init.and_then(|it| it.network_data_secret_ref.as_ref()),
        }
    }

    /// Whether a volume has the data of these Secrets.
    fn are(&self, found: &Value) -> bool {
        let name = |secret: Option<&'a CloudInitSecretRef>| secret.map(|it| it.name.as_str());
        let wanted = [name(self.user_data), name(self.network_data)];
        let found =
            ["secretRef", "networkDataSecretRef"].map(|field| found[field]["name"].as_str());
        wanted != [None, None] && wanted == found
    }
}

fn secret(reference: &CloudInitSecretRef) -> LocalSecret {
    LocalSecret {
        name: reference.name.clone(),
    }
}
