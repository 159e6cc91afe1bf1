//! Machines for existing VirtualMachines.
//!
//! The Machine asks for what the VirtualMachine is, so that its adoption changes nothing. What a Machine
//! cannot express stays on the VirtualMachine and is a warning with the field's path. Nothing is read:
//! a VirtualMachine, its instance and its claims are given.

use std::collections::BTreeMap;

use api::{Machine, kubevirt::ObservedVirtualMachine, labels};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Map, Value, json};

use super::{
    Note, Surroundings,
    plan::adoption::{desired_after_adoption, differences},
    resolve,
};
use crate::naming;

/// Objects of a VirtualMachine.
#[derive(Clone, Copy, Debug)]
pub struct ImportSource<'a> {
    pub virtual_machine: &'a Value,
    pub instance: Option<&'a Value>,
    /// Its claims, by name.
    pub claims: &'a BTreeMap<String, Value>,
    /// The Secret that the operator created for its cloud-init data: a Machine has the data instead.
    pub cloud_init: Option<&'a Value>,
}

/// Name of the Secret with cloud-init data that the operator created for a VirtualMachine, if it uses it.
pub fn cloud_init_secret_of(vm: &Value) -> Option<String> {
    let own = naming::cloud_init_secret(vm["metadata"]["name"].as_str()?);
    let volumes = vm.pointer("/spec/template/spec/volumes")?.as_array()?;
    let uses = |volume: &Value| {
        let sources = ["cloudInitNoCloud", "cloudInitConfigDrive"];
        let references = ["secretRef", "networkDataSecretRef"];
        let mut pairs = sources
            .into_iter()
            .flat_map(|source| references.map(|reference| (source, reference)));
        pairs.any(|(source, reference)| volume[source][reference]["name"] == own)
    };
    volumes.iter().any(uses).then_some(own)
}

/// A Machine for a VirtualMachine.
#[derive(Clone, Debug, PartialEq)]
pub struct Imported {
    /// Manifest of the Machine, with the annotation that adopts the VirtualMachine.
    pub machine: Value,
    /// What the Machine does not express.
    pub warnings: Vec<Note>,
}

/// Fields of the domain that a Machine expresses, or that KubeVirt sets.
const KNOWN_DOMAIN: [&str; 7] = [
    "cpu",
    "devices",
    "features",
    "firmware",
    "machine",
    "memory",
    "resources",
];
const KNOWN_DEVICES: [&str; 5] = [
    "autoattachPodInterface",
    "disks",
    "interfaces",
    "logSerialConsole",
    "networkInterfaceMultiqueue",
];
const KNOWN_TEMPLATE: [&str; 11] = [
    "affinity",
    "architecture",
    "domain",
    "evictionStrategy",
    "hostname",
    "networks",
    "nodeSelector",
    "priorityClassName",
    "terminationGracePeriodSeconds",
    "tolerations",
    "volumes",
];
const KNOWN_SPEC: [&str; 3] = ["runStrategy", "running", "template"];

/// Fields that a Machine and a VirtualMachine's template have in common.
const COMMON: [&str; 5] = [
    "affinity",
    "hostname",
    "nodeSelector",
    "priorityClassName",
    "tolerations",
];

pub fn import(source: ImportSource<'_>) -> Imported {
    let mut import = Import {
        source,
        spec: &source.virtual_machine["spec"],
        warnings: Vec::new(),
    };
    let machine = import.machine();
    import.unknown_fields();
    import.remaining_differences(&machine);
    Imported {
        machine,
        warnings: import.warnings,
    }
}

/// A network of a Machine with the model and the MAC address of an interface.
fn described(mut network: Value, interface: &Value) -> Value {
    for field in ["macAddress", "model"] {
        if let Some(text) = interface[field].as_str() {
            network[field] = text.into();
        }
    }
    network
}

struct Import<'a> {
    source: ImportSource<'a>,
    spec: &'a Value,
    warnings: Vec<Note>,
}

impl<'a> Import<'a> {
    fn warn(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.warnings.push(Note {
            path: path.into(),
            message: message.into(),
        });
    }

    fn template(&self) -> &'a Value {
        &self.spec["template"]["spec"]
    }

    fn list(&self, pointer: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
        let list = self.template().pointer(pointer).and_then(Value::as_array);
        list.into_iter().flatten()
    }

    fn machine(&mut self) -> Value {
        let metadata = &self.source.virtual_machine["metadata"];
        let mut spec = Map::new();
        // This size has no disks beside those that are listed.
        spec.insert("instanceType".to_owned(), "small".into());
        spec.insert("resources".to_owned(), self.resources());
        let disks = self.disks();
        spec.insert("disks".to_owned(), disks.into());
        if let Some(networks) = self.networks() {
            spec.insert("networks".to_owned(), networks.into());
        }
        if let Some(cloud_init) = self.cloud_init() {
            spec.insert("cloudInit".to_owned(), cloud_init);
        }
        if let Some(domain) = self.domain() {
            spec.insert("domain".to_owned(), domain);
        }
        if let Some(order) = self.boot_order() {
            spec.insert("bootOrder".to_owned(), order);
        }
        for field in COMMON {
            let found = &self.template()[field];
            if !found.is_null() && *found != json!({}) && *found != json!([]) {
                spec.insert(field.to_owned(), found.clone());
            }
        }
        let console = &self.template()["domain"]["devices"]["logSerialConsole"];
        if console.is_boolean() {
            spec.insert("serialConsoleLog".to_owned(), console.clone());
        }
        if self.is_stopped() {
            spec.insert("powerState".to_owned(), "Stopped".into());
        }
        let mut named = json!({ "name": metadata["name"] });
        if metadata["namespace"].is_string() {
            named["namespace"] = metadata["namespace"].clone();
        }
        named["annotations"] = json!({ labels::ADOPT: "true" });
        json!({
            "apiVersion": api::API_VERSION, "kind": "Machine", "metadata": named, "spec": spec,
        })
    }

    /// CPU and memory: of the VirtualMachine, or of its instance if an instance type decides them.
    fn resources(&mut self) -> Value {
        let mut domain = &self.template()["domain"];
        let uses_type = !self.spec["instancetype"].is_null();
        let instance = self.source.instance.map(|it| &it["spec"]["domain"]);
        if let Some(instance) = instance.filter(|_| uses_type) {
            domain = instance;
        } else if uses_type {
            self.warn(
                "spec.instancetype",
                "decides CPU and memory, which only a running instance shows: set spec.resources of the Machine",
            );
        }
        let count = |name: &str| domain["cpu"][name].as_u64().unwrap_or(1);
        let memory = [
            "/memory/guest",
            "/resources/requests/memory",
            "/resources/limits/memory",
        ];
        let memory = memory.iter().find_map(|it| domain.pointer(it)?.as_str());
        if memory.is_none() && !uses_type {
            self.warn(
                "spec.template.spec.domain.memory",
                "is not set: the Machine gets the memory of its instanceType",
            );
        }
        let cpu = json!({
            "cores": count("cores"), "sockets": count("sockets"), "threads": count("threads"),
        });
        match memory {
            Some(memory) => json!({ "cpu": cpu, "memory": { "size": memory } }),
            None => json!({ "cpu": cpu }),
        }
    }

    fn disks(&mut self) -> Vec<Value> {
        let devices: Vec<&Value> = self.list("/domain/devices/disks").collect();
        let volumes: Vec<&Value> = self.list("/volumes").collect();
        let boot = devices
            .iter()
            .filter_map(|device| Some((device["bootOrder"].as_u64()?, device["name"].as_str()?)))
            .min();
        let mut boot = boot.map(|(_, name)| name);
        let mut disks = Vec::new();
        for volume in &volumes {
            let name = volume["name"].as_str().unwrap_or_default();
            let path = format!("spec.template.spec.volumes[{name}]");
            let claim = volume["persistentVolumeClaim"]["claimName"].as_str();
            let claim = claim.or(volume["dataVolume"]["name"].as_str());
            let is_cloud_init = ["cloudInitNoCloud", "cloudInitConfigDrive"]
                .iter()
                .any(|source| volume[*source].is_object());
            let device = devices.iter().find(|it| it["name"] == name);
            match (claim, device) {
                (Some(_), Some(_)) => {}
                (Some(claim), None) => {
                    let what =
                        format!("PersistentVolumeClaim {claim} has no disk: it is not adopted");
                    self.warn(path, what);
                }
                (None, _) if is_cloud_init => {}
                (None, _) => {
                    let fields = volume.as_object().into_iter().flatten();
                    let source = fields.map(|(field, _)| field).find(|it| *it != "name");
                    let source = source.map_or("no source", String::as_str);
                    self.warn(path, format!("{source}: a Machine has no such volume"));
                }
            }
        }
        for device in devices {
            let name = device["name"].as_str().unwrap_or_default();
            let volume = volumes.iter().find(|it| it["name"] == name);
            let claim = volume.and_then(|volume| {
                let claim = volume["persistentVolumeClaim"]["claimName"].as_str();
                claim.or(volume["dataVolume"]["name"].as_str())
            });
            let Some(claim) = claim else {
                continue;
            };
            let is_boot = boot.is_none_or(|boot| boot == name) && !device["cdrom"].is_object();
            if is_boot {
                boot = Some(name);
            }
            disks.push(self.disk(device, name, claim, is_boot));
        }
        disks
    }

    fn disk(&mut self, device: &Value, name: &str, claim: &str, is_boot: bool) -> Value {
        let path = format!("spec.template.spec.domain.devices.disks[{name}]");
        let mut disk = json!({ "name": name });
        if let Some(found) = self.source.claims.get(claim) {
            let spec = &found["spec"];
            disk["size"] = spec["resources"]["requests"]["storage"].clone();
            let fields = [
                ("storageClass", &spec["storageClassName"]),
                ("accessMode", &spec["accessModes"][0]),
                ("volumeMode", &spec["volumeMode"]),
            ];
            for (field, value) in fields {
                if value.as_str().is_some_and(|it| !it.is_empty()) {
                    disk[field] = value.clone();
                }
            }
        } else {
            disk["size"] = "1Gi".into();
            self.warn(
                &path,
                format!("PersistentVolumeClaim {claim} does not exist: set the size of the disk"),
            );
        }
        let target = ["cdrom", "disk", "lun"]
            .into_iter()
            .find(|kind| device[*kind].is_object());
        match target {
            Some("cdrom") => disk["type"] = "cdrom".into(),
            Some("lun") => self.warn(&path, "is a LUN, which the Machine has as a disk"),
            _ => {}
        }
        let bus = target.and_then(|target| device[target]["bus"].as_str());
        match bus {
            Some(bus @ ("sata" | "scsi" | "virtio")) => disk["bus"] = bus.into(),
            Some(bus) => self.warn(&path, format!("bus {bus}: a Machine has no such bus")),
            None => {}
        }
        if is_boot {
            disk["boot"] = true.into();
        }
        disk
    }

    fn networks(&mut self) -> Option<Vec<Value>> {
        let networks: Vec<&Value> = self.list("/networks").collect();
        let interfaces: Vec<&Value> = self.list("/domain/devices/interfaces").collect();
        let mut listed = Vec::new();
        for interface in interfaces {
            let name = interface["name"].as_str().unwrap_or_default();
            let network = networks.iter().find(|it| it["name"] == name);
            let multus = network.and_then(|it| it["multus"]["networkName"].as_str());
            let Some(multus) = multus else {
                listed.push(described(json!({ "name": name, "pod": true }), interface));
                continue;
            };
            if multus.contains('/') {
                self.warn(
                    format!("spec.template.spec.networks[{name}]"),
                    format!("{multus} is in another namespace: a Machine attaches to networks of its own"),
                );
            } else {
                self.warn(
                    format!("spec.template.spec.networks[{name}]"),
                    format!("a NetworkConfiguration {multus} must describe the network: create it before the Machine"),
                );
            }
            let network = json!({ "name": name, "networkName": multus });
            listed.push(described(network, interface));
        }
        // A Machine without networks has an interface of this name on the pod network, and an adopted one
        // keeps its MAC address.
        let is_default = listed.len() == 1
            && listed
                .iter()
                .all(|it| it["pod"] == true && it["name"] == naming::POD_INTERFACE)
            && listed
                .iter()
                .all(|it| it["model"].is_null() || it["model"] == "virtio");
        (!listed.is_empty() && !is_default).then_some(listed)
    }

    fn cloud_init(&mut self) -> Option<Value> {
        let mut volumes = self.list("/volumes");
        let (volume, type_, source) = volumes.find_map(|volume| {
            let sources = [
                ("cloudInitNoCloud", "noCloud"),
                ("cloudInitConfigDrive", "configDrive"),
            ];
            let found = sources.into_iter().find(|(it, _)| volume[*it].is_object());
            found.map(|(field, type_)| (volume, type_, &volume[field]))
        })?;
        let name = volume["name"].as_str().unwrap_or_default();
        let path = format!("spec.template.spec.volumes[{name}]");
        if name != naming::CLOUD_INIT_VOLUME {
            let message = format!(
                "the volume of the cloud-init data is named {} in a Machine",
                naming::CLOUD_INIT_VOLUME
            );
            self.warn(&path, message);
        }
        let mut cloud_init = json!({ "type": type_ });
        let texts = [
            ("userData", "userDataBase64", "userData"),
            ("networkData", "networkDataBase64", "networkData"),
        ];
        for (text, encoded, field) in texts {
            if let Some(value) = source[text].as_str().filter(|it| !it.is_empty()) {
                cloud_init[field] = value.into();
            } else if source[encoded].is_string() {
                self.warn(
                    format!("{path}.{encoded}"),
                    format!("set spec.cloudInit.{field} of the Machine to its decoded text"),
                );
            }
        }
        let own = cloud_init_secret_of(self.source.virtual_machine);
        let references = [
            ("secretRef", "userDataSecretRef", naming::USER_DATA_KEY),
            (
                "networkDataSecretRef",
                "networkDataSecretRef",
                naming::NETWORK_DATA_KEY,
            ),
        ];
        for (reference, field, key) in references {
            let Some(name) = source[reference]["name"].as_str() else {
                continue;
            };
            if Some(name) != own.as_deref() {
                cloud_init[field] = json!({ "name": name, "key": key });
                continue;
            }
            let text = field.trim_end_matches("SecretRef");
            match self.secret_text(key) {
                Some(data) => cloud_init[text] = data.into(),
                None => self.warn(
                    format!("{path}.{reference}"),
                    format!(
                        "set spec.cloudInit.{text} of the Machine to the text in Secret {name}"
                    ),
                ),
            }
        }
        Some(cloud_init)
    }

    /// Text in the Secret that the operator created.
    fn secret_text(&self, key: &str) -> Option<String> {
        let encoded = self.source.cloud_init?["data"][key].as_str()?;
        String::from_utf8(STANDARD.decode(encoded).ok()?).ok()
    }

    fn domain(&mut self) -> Option<Value> {
        let found = &self.template()["domain"];
        let mut domain = Map::new();
        let families = ["q35", "pc-q35-", "pc-i440fx"];
        if let Some(type_) = found["machine"]["type"].as_str()
            && families.iter().any(|family| type_.starts_with(family))
        {
            domain.insert("machine".to_owned(), json!({ "type": type_ }));
        }
        let mut features = Map::new();
        for feature in ["acpi", "apic"] {
            if let Some(enabled) = found["features"][feature]["enabled"].as_bool() {
                features.insert(feature.to_owned(), enabled.into());
            }
        }
        if self.has_hyperv() {
            features.insert("hyperv".to_owned(), true.into());
        }
        if !features.is_empty() {
            domain.insert("features".to_owned(), features.into());
        }
        if found["firmware"]["bootloader"]["bios"].is_object() {
            let bootloader = json!({ "efi": false });
            domain.insert("firmware".to_owned(), json!({ "bootloader": bootloader }));
        }
        let efi = &found["firmware"]["bootloader"]["efi"];
        if efi.is_object() {
            let secure_boot = efi["secureBoot"].as_bool().unwrap_or(true);
            let bootloader = json!({ "efi": true, "secureBoot": secure_boot });
            domain.insert("firmware".to_owned(), json!({ "bootloader": bootloader }));
        }
        (!domain.is_empty()).then(|| domain.into())
    }

    fn has_hyperv(&self) -> bool {
        let hyperv = self.template()["domain"]["features"]["hyperv"].as_object();
        hyperv.is_some_and(|hyperv| !hyperv.is_empty())
    }

    /// Kinds of devices in the order in which the guest boots from them, if there are several devices.
    fn boot_order(&self) -> Option<Value> {
        let kind = |device: &Value| {
            if device["cdrom"].is_object() {
                "cdrom"
            } else {
                "disk"
            }
        };
        let disks = self.list("/domain/devices/disks");
        let disks = disks.map(|device| (device["bootOrder"].as_u64(), kind(device)));
        let interfaces = self.list("/domain/devices/interfaces");
        let interfaces = interfaces.map(|device| (device["bootOrder"].as_u64(), "network"));
        let numbered = disks.chain(interfaces);
        let mut order: Vec<(u64, &str)> = numbered
            .filter_map(|(number, kind)| Some((number?, kind)))
            .collect();
        order.sort_unstable();
        let mut kinds: Vec<&str> = order.iter().map(|(_, kind)| *kind).collect();
        kinds.dedup();
        (kinds != ["disk"] && !kinds.is_empty() || order.len() > 1).then(|| kinds.into())
    }

    fn is_stopped(&mut self) -> bool {
        if let Some(running) = self.spec["running"].as_bool() {
            self.warn(
                "spec.running",
                "replace it by spec.runStrategy in the VirtualMachine before the Machine's spec is applied",
            );
            return !running;
        }
        match self.spec["runStrategy"].as_str() {
            Some("Halted") => true,
            Some("Always") => false,
            strategy => {
                let strategy = strategy.unwrap_or("none");
                let message = format!("{strategy}: a Machine has Always and Halted");
                self.warn("spec.runStrategy", message);
                self.source.instance.is_none()
            }
        }
    }

    /// Fields that stay on the VirtualMachine and are not in the Machine.
    fn unknown_fields(&mut self) {
        let places = [
            ("spec", self.spec, &KNOWN_SPEC[..]),
            ("spec.template.spec", self.template(), &KNOWN_TEMPLATE),
            (
                "spec.template.spec.domain",
                &self.template()["domain"],
                &KNOWN_DOMAIN,
            ),
            (
                "spec.template.spec.domain.devices",
                &self.template()["domain"]["devices"],
                &KNOWN_DEVICES,
            ),
        ];
        for (path, found, known) in places {
            let fields = found.as_object().into_iter().flatten();
            let unknown = fields.filter(|(name, value)| {
                let is_empty = value.is_null() || **value == json!({}) || **value == json!([]);
                !is_empty && !known.contains(&name.as_str())
            });
            // The clock of Windows comes with its features.
            let unknown = unknown.filter(|(name, _)| *name != "clock" || !self.has_hyperv());
            for (name, _) in unknown.collect::<Vec<_>>() {
                self.warn(
                    format!("{path}.{name}"),
                    "is not in the Machine, and stays on the VirtualMachine",
                );
            }
        }
    }

    /// What an apply of the Machine would still change.
    fn remaining_differences(&mut self, machine: &Value) {
        let vm = self.source.virtual_machine;
        let parsed: Result<Machine, _> = decode::from_value_ref(machine);
        let found: Result<ObservedVirtualMachine, _> = decode::from_value_ref(vm);
        let (Ok(mut parsed), Ok(found)) = (parsed, found) else {
            self.warn("metadata", "the VirtualMachine cannot be read");
            return;
        };
        parsed
            .metadata
            .namespace
            .clone_from(&found.metadata.namespace);
        match resolve(&parsed, &Surroundings::default()) {
            Ok(resolution) => {
                let resolved = resolution.machine;
                let desired = desired_after_adoption(&parsed, &resolved, &found);
                for difference in differences(&found.spec.value(), &desired, &resolved) {
                    self.warn(&difference.path, format!("differs: {difference}"));
                }
            }
            Err(errors) => {
                for error in errors {
                    self.warn(error.path.clone(), error.message.clone());
                }
            }
        }
    }
}
