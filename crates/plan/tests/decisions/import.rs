//! Machines for existing VirtualMachines.

use std::collections::BTreeMap;

use api::{Machine, labels};
use plan::machine::{ImportSource, Imported, Surroundings, VolumeObject, build, import, resolve};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::world::read;

fn imported(vm: &Value, claims: &[(&str, &str)]) -> Imported {
    let claims = claims.iter().map(|(name, size)| {
        let claim = json!({
            "metadata": { "name": name },
            "spec": {
                "storageClassName": "fast", "accessModes": ["ReadWriteMany"],
                "volumeMode": "Block", "resources": { "requests": { "storage": size } },
            },
        });
        ((*name).to_owned(), claim)
    });
    import(ImportSource {
        virtual_machine: vm,
        instance: None,
        claims: &claims.collect(),
        cloud_init: None,
    })
}

fn vm(template: &Value) -> Value {
    json!({
        "metadata": { "name": "web", "namespace": "shop", "uid": "u" },
        "spec": { "runStrategy": "Always", "template": { "spec": template } },
    })
}

fn disk(name: &str) -> Value {
    json!({ "name": name, "disk": { "bus": "virtio" } })
}

fn paths(imported: &Imported) -> Vec<&str> {
    imported
        .warnings
        .iter()
        .map(|it| it.path.as_str())
        .collect()
}

#[test]
fn a_virtual_machine_with_a_claim_is_expressed_entirely() {
    let found = imported(
        &vm(&json!({
            "architecture": "amd64", "terminationGracePeriodSeconds": 180,
            "domain": {
                "cpu": { "cores": 2 }, "resources": { "requests": { "memory": "4Gi" } },
                "machine": { "type": "q35" },
                "firmware": { "bootloader": { "efi": { "secureBoot": false } }, "uuid": "x" },
                "devices": {
                    "disks": [disk("system"), disk("data"), disk("cloudinitdisk")],
                    "interfaces": [{ "name": "default", "masquerade": {}, "model": "virtio",
                        "macAddress": "02:00:00:00:00:02" }],
                },
            },
            "networks": [{ "name": "default", "pod": {} }],
            "volumes": [
                { "name": "system", "dataVolume": { "name": "web-system" } },
                { "name": "data", "persistentVolumeClaim": { "claimName": "shared-data" } },
                { "name": "cloudinitdisk", "cloudInitNoCloud": { "userData": "#cloud-config\n" } },
            ],
        })),
        &[("web-system", "20Gi"), ("shared-data", "1Gi")],
    );
    assert_eq!(found.warnings, []);
    let of_claim = json!({
        "storageClass": "fast", "accessMode": "ReadWriteMany", "volumeMode": "Block",
        "bus": "virtio",
    });
    let disk = |fields: Value| {
        let mut disk = of_claim.clone();
        disk.as_object_mut()
            .unwrap()
            .extend(fields.as_object().unwrap().clone());
        disk
    };
    assert_eq!(
        found.machine,
        json!({
            "apiVersion": "vitistack.io/v1alpha1", "kind": "Machine",
            "metadata": {
                "name": "web", "namespace": "shop", "annotations": { labels::ADOPT: "true" },
            },
            "spec": {
                "instanceType": "small",
                "resources": {
                    "cpu": { "cores": 2, "sockets": 1, "threads": 1 }, "memory": { "size": "4Gi" },
                },
                "disks": [
                    disk(json!({ "name": "system", "size": "20Gi", "boot": true })),
                    disk(json!({ "name": "data", "size": "1Gi" })),
                ],
                "cloudInit": { "type": "noCloud", "userData": "#cloud-config\n" },
                "domain": {
                    "machine": { "type": "q35" },
                    "firmware": { "bootloader": { "efi": true, "secureBoot": false } },
                },
            },
        })
    );
}

#[test]
fn what_a_machine_cannot_express_is_named() {
    let mut found = vm(&json!({
        "nodeSelector": { "zone": "a" }, "dnsPolicy": "None",
        "domain": {
            "ioThreadsPolicy": "auto",
            "memory": { "guest": "1Gi" },
            "devices": {
                "rng": {},
                "gpus": [{ "name": "gpu", "deviceName": "nvidia.com/T4" }],
                "disks": [
                    disk("image"), disk("system"),
                    { "name": "plugged", "disk": { "bus": "scsi" }, "serial": "abc" },
                ],
                "interfaces": [
                    { "name": "default", "masquerade": {}, "model": "virtio" },
                    { "name": "lan", "bridge": {}, "model": "virtio" },
                ],
            },
        },
        "networks": [
            { "name": "default", "pod": {} }, { "name": "lan", "multus": { "networkName": "lan" } },
        ],
        "volumes": [
            { "name": "image", "containerDisk": { "image": "quay.io/containerdisks/fedora" } },
            { "name": "system", "dataVolume": { "name": "web-system" } },
            { "name": "plugged",
                "persistentVolumeClaim": { "claimName": "plugged", "hotpluggable": true } },
        ],
    }));
    found["spec"]["dataVolumeTemplates"] = json!([{ "metadata": { "name": "web-system" } }]);
    let found = imported(&found, &[("web-system", "20Gi"), ("plugged", "1Gi")]);
    let named = paths(&found);
    for path in [
        "spec.template.spec.volumes[image]",
        "spec.template.spec.networks[lan]",
        "spec.dataVolumeTemplates",
        "spec.template.spec.dnsPolicy",
        "spec.template.spec.domain.ioThreadsPolicy",
        "spec.template.spec.domain.devices.gpus",
        "spec.template.spec.domain.devices.disks[plugged].serial",
    ] {
        assert!(named.contains(&path), "{path}: {named:?}");
    }
    assert_eq!(found.machine["spec"]["disks"].as_array().unwrap().len(), 2);
    let spec = &found.machine["spec"];
    assert_eq!(
        spec["networks"],
        json!([
            { "name": "default", "pod": true, "model": "virtio" },
            { "name": "lan", "networkName": "lan", "model": "virtio" },
        ])
    );
}

#[test]
fn an_instance_type_is_replaced_by_the_size_of_the_instance() {
    let mut source = vm(&json!({
        "domain": { "devices": { "disks": [disk("system")] } },
        "volumes": [{ "name": "system", "dataVolume": { "name": "web" } }],
    }));
    source["spec"]["instancetype"] = json!({ "name": "u1.medium" });
    let instance = json!({ "spec": { "domain": {
        "cpu": { "cores": 1, "sockets": 4, "threads": 1 }, "memory": { "guest": "8Gi" },
    } } });
    let claims = BTreeMap::new();
    let of = |instance| {
        import(ImportSource {
            virtual_machine: &source,
            instance,
            claims: &claims,
            cloud_init: None,
        })
    };
    let found = of(Some(&instance));
    let resources = &found.machine["spec"]["resources"];
    assert_eq!(resources["memory"]["size"], "8Gi");
    assert_eq!(resources["cpu"]["sockets"], 4);
    assert!(paths(&found).contains(&"spec.instancetype"));
    assert!(of(None).machine["spec"]["resources"]["memory"].is_null());
}

#[test]
fn confidential_data_is_in_no_warning() {
    let found = imported(
        &vm(&json!({
            "domain": { "devices": { "disks": [disk("system"), disk("init")] } },
            "volumes": [
                { "name": "system", "persistentVolumeClaim": { "claimName": "web" } },
                { "name": "init", "cloudInitNoCloud": { "userData": "password: hunter2" } },
            ],
        })),
        &[("web", "1Gi")],
    );
    assert!(!found.warnings.is_empty());
    assert!(!format!("{:?}", found.warnings).contains("hunter2"));
}

/// The VirtualMachine, the claims and the cloud-init Secret that the operator makes of a spec.
fn built(spec: &Value) -> (Value, BTreeMap<String, Value>, Option<Value>) {
    let machine: Machine = read(&json!({
        "apiVersion": "vitistack.io/v1alpha1", "kind": "Machine",
        "metadata": { "name": "web", "namespace": "shop", "uid": "u" }, "spec": spec,
    }));
    let resolution = resolve(&machine, &Surroundings::default()).unwrap();
    let objects = build(&resolution.machine);
    let claims = objects.volumes.iter().map(|volume| match volume {
        VolumeObject::Claim(claim) => (
            claim.metadata.name.clone().unwrap(),
            json!({ "spec": claim.spec }),
        ),
        VolumeObject::DataVolume(volume) => (
            volume.metadata.name.clone().unwrap(),
            json!({ "spec": volume.spec.storage }),
        ),
    });
    let secret = objects.cloud_init.as_ref().map(|it| json!(it));
    (json!(objects.virtual_machine), claims.collect(), secret)
}

fn disks() -> impl Strategy<Value = Value> {
    let bus = prop_oneof![Just("virtio"), Just("sata"), Just("scsi")];
    let more = (1..50, bus, any::<bool>(), any::<bool>());
    (0..3_usize, prop::collection::vec(more, 1..4)).prop_map(|(boot, disks)| {
        let disks = disks.into_iter().enumerate();
        disks
            .map(|(index, (size, bus, is_shared, is_blank))| {
                let mut disk = json!({
                    "name": format!("disk-{index}"), "size": format!("{size}Gi"), "bus": bus,
                });
                if index == boot {
                    disk["boot"] = true.into();
                }
                if is_shared {
                    disk["accessMode"] = "ReadWriteMany".into();
                }
                if is_blank {
                    disk["source"] = json!({ "blank": {} });
                }
                disk
            })
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn a_virtual_machine_of_the_operator_is_imported_without_a_difference(
        disks in disks(),
        size in (1..8_u32, 1..4_u32, 1..64_u32),
        (is_stopped, has_cloud_init, has_efi) in any::<(bool, bool, bool)>(),
        order in prop_oneof![Just(json!(null)), Just(json!(["network", "disk"]))],
        hyperv in any::<bool>(),
    ) {
        let (cores, sockets, memory) = size;
        let mut spec = json!({
            "instanceType": "small", "disks": disks,
            "resources": {
                "cpu": { "cores": cores, "sockets": sockets },
                "memory": { "size": format!("{memory}Gi") },
            },
        });
        if is_stopped {
            spec["powerState"] = "Stopped".into();
        }
        if has_cloud_init {
            spec["cloudInit"] = json!({ "userData": "#cloud-config\n" });
        }
        if has_efi {
            spec["domain"]["firmware"] = json!({ "bootloader": { "efi": true } });
        }
        if hyperv {
            spec["domain"]["features"] = json!({ "hyperv": true });
        }
        if !order.is_null() {
            spec["bootOrder"] = order;
        }
        let (vm, claims, secret) = built(&spec);
        let found = import(ImportSource {
            virtual_machine: &vm, instance: None, claims: &claims, cloud_init: secret.as_ref(),
        });
        prop_assert_eq!(found.warnings, []);
    }
}
