//! Desired objects of resolved machines.
#![allow(
    clippy::needless_pass_by_value,
    reason = "cases read best as plain json! values"
)]

use api::{Machine, NetworkConfiguration};
use rstest::rstest;
use serde_json::{Value, json};

use super::{attachment_definition, build};
use crate::machine::{Surroundings, resolve};

fn machine(spec: &Value) -> Machine {
    let machine = json!({
        "apiVersion": "vitistack.io/v1alpha1",
        "kind": "Machine",
        "metadata": {
            "name": "web", "namespace": "shop", "uid": "u-1",
            "labels": {"cluster.vitistack.io/cluster-name": "prod", "vitistack.io/machine": "forged", "app": "x"},
        },
        "spec": spec,
    });
    serde_json::from_value(machine).unwrap()
}

/// All objects of a machine, as JSON: the cloud-init Secret, the disks, the virtual machine.
fn objects(spec: Value) -> Vec<Value> {
    let resolution = resolve(&machine(&spec), &Surroundings::default()).unwrap();
    let objects = build(&resolution.machine);
    let secret = objects.cloud_init.map(|secret| json!(secret));
    let volumes = objects.volumes.iter().map(|volume| json!(volume));
    secret
        .into_iter()
        .chain(volumes)
        .chain([json!(objects.virtual_machine)])
        .collect()
}

fn vm(spec: Value) -> Value {
    objects(spec).pop().unwrap()
}

fn instance(spec: Value) -> Value {
    vm(spec)["spec"]["template"]["spec"].take()
}

fn domain(spec: Value) -> Value {
    instance(json!({"domain": spec}))["domain"].take()
}

#[rstest]
#[case("Running", "Always")]
#[case("Paused", "Always")]
#[case("Stopped", "Halted")]
fn power_becomes_a_run_strategy(#[case] power: &str, #[case] strategy: &str) {
    let vm = vm(json!({"powerState": power}));
    assert_eq!(vm["spec"]["runStrategy"], strategy);
    assert_eq!(
        vm["spec"].get("running"),
        None,
        "KubeVirt has deprecated it"
    );
}

#[test]
fn every_object_is_labelled_and_all_but_disks_are_owned() {
    let spec = json!({"cloudInit": {"userData": "x"}, "disks": [
        {"name": "a", "size": "1Gi", "source": {"blank": {}}}]});
    let objects = objects(spec);
    let kinds: Vec<_> = objects
        .iter()
        .map(|object| object["kind"].as_str().unwrap())
        .collect();
    assert_eq!(
        kinds,
        [
            "Secret",
            "PersistentVolumeClaim",
            "DataVolume",
            "VirtualMachine"
        ]
    );
    for object in objects {
        let metadata = &object["metadata"];
        let mut labels =
            json!({"vitistack.io/machine": "web", "vitistack.io/managed-by": "kubevirt-operator"});
        if object["kind"] == "VirtualMachine" {
            labels["vitistack.io/source-machine"] = json!("web");
            labels["cluster.vitistack.io/cluster-name"] = json!("prod");
        }
        assert_eq!(metadata["labels"], labels);
        assert_eq!(metadata["namespace"], "shop");
        let is_disk = matches!(
            object["kind"].as_str(),
            Some("PersistentVolumeClaim" | "DataVolume")
        );
        if is_disk {
            assert_eq!(metadata.get("ownerReferences"), None);
            assert_eq!(metadata["annotations"]["vitistack.io/machine-uid"], "u-1");
        } else {
            assert_eq!(
                metadata["ownerReferences"],
                json!([{
                    "apiVersion": "vitistack.io/v1alpha1", "kind": "Machine", "name": "web",
                    "uid": "u-1", "controller": true, "blockOwnerDeletion": true,
                }]),
            );
        }
    }
}

#[test]
fn copied_labels_do_not_override_those_of_the_operator() {
    assert_eq!(
        vm(json!({}))["spec"]["template"]["metadata"]["labels"],
        json!({
            "cluster.vitistack.io/cluster-name": "prod",
            "vitistack.io/machine": "web",
            "vitistack.io/managed-by": "kubevirt-operator",
            "vitistack.io/source-machine": "web",
        }),
    );
}

#[test]
fn an_installer_image_is_a_cdrom_after_the_root_disk() {
    let spec = json!({"os": {"imageID": "https://factory.example.com/metal-amd64.iso"}});
    let objects = objects(spec.clone());
    let volume = objects
        .iter()
        .find(|object| object["kind"] == "DataVolume")
        .unwrap();
    assert_eq!(volume["metadata"]["name"], "web-iso");
    let annotations = &volume["metadata"]["annotations"];
    assert_eq!(annotations["vitistack.io/installer-image"], "true");
    assert_eq!(annotations.get("vitistack.io/listed-disk"), None);
    assert_eq!(
        volume["spec"]["source"]["http"]["url"],
        "https://factory.example.com/metal-amd64.iso"
    );
    let vm = vm(spec);
    let disks = vm.pointer("/spec/template/spec/domain/devices/disks");
    assert_eq!(
        disks,
        Some(&json!([
            {"name": "root", "bootOrder": 1, "disk": {"bus": "virtio"}},
            {"name": "iso", "bootOrder": 2, "cdrom": {"bus": "sata"}},
        ]))
    );
}

#[test]
fn config_drive_is_another_kind_of_volume() {
    let spec = json!({"cloudInit": {"type": "configDrive", "userData": "x"}});
    let vm = vm(spec);
    assert_eq!(
        vm.pointer("/spec/template/spec/volumes/1"),
        Some(&json!({
            "name": "cloudinitdisk",
            "cloudInitConfigDrive": {"secretRef": {"name": "web-cloud-init"}},
        }))
    );
}

#[test]
fn disks_have_no_owner_whatever_the_policy() {
    let owners = |policy: Value| {
        let objects = objects(json!({"deletionPolicy": policy}));
        objects
            .iter()
            .map(|object| object["metadata"].get("ownerReferences").is_some())
            .collect::<Vec<_>>()
    };
    for policy in [json!("Retain"), json!("Delete"), json!(null)] {
        assert_eq!(owners(policy), [false, true]);
    }
}

#[rstest]
#[case(&["ReadWriteMany", "ReadWriteMany"], Some("LiveMigrate"))]
#[case(&["ReadWriteMany", "ReadWriteOnce"], None)]
#[case(&["ReadWriteMany", "ReadOnlyMany"], None)]
fn a_machine_migrates_when_all_its_disks_are_shared(
    #[case] modes: &[&str; 2],
    #[case] strategy: Option<&str>,
) {
    let instance = instance(json!({"disks": [
        {"name": "root", "accessMode": modes[0]},
        {"name": "data", "accessMode": modes[1], "size": "1Gi", "source": {"pvc": {"name": "p"}}},
    ]}));
    assert_eq!(
        instance.get("evictionStrategy").and_then(Value::as_str),
        strategy
    );
}

#[test]
fn a_read_only_disk_is_read_only_to_the_guest() {
    let instance = instance(json!({"disks": [
        {"name": "iso", "size": "1Gi", "accessMode": "ReadOnlyMany", "source": {"pvc": {"name": "p"}}}]}));
    assert_eq!(
        instance["domain"]["devices"]["disks"][1]["disk"],
        json!({"bus": "virtio", "readonly": true})
    );
}

#[rstest]
#[case(json!({"efi": true}), json!({"efi": {"secureBoot": false}}), None)]
#[case(json!({"secureBoot": true}), json!({"efi": {"secureBoot": true}}), Some(true))]
#[case(json!({"efi": false}), json!({"bios": {}}), None)]
fn secure_boot_brings_smm_and_its_absence_is_spelled_out(
    #[case] written: Value,
    #[case] bootloader: Value,
    #[case] smm: Option<bool>,
) {
    let domain = domain(json!({"firmware": {"bootloader": written}}));
    assert_eq!(domain["firmware"]["bootloader"], bootloader);
    assert_eq!(domain["features"]["smm"]["enabled"].as_bool(), smm);
}

#[test]
fn hyperv_is_the_usual_set_of_enlightenments() {
    let domain = domain(json!({"features": {"hyperv": true}}));
    let on = json!({"enabled": true});
    assert_eq!(
        domain["features"]["hyperv"],
        json!({
            "relaxed": on, "vapic": on, "spinlocks": {"spinlocks": 8191}, "vpindex": on,
            "runtime": on, "synic": on, "synictimer": {"enabled": true, "direct": on}, "reset": on,
            "frequencies": on, "reenlightenment": on, "tlbflush": on, "ipi": on,
        }),
    );
    assert_eq!(domain["clock"]["timer"]["hyperv"], json!({"present": true}));
}

#[test]
fn unset_hardware_is_left_to_kubevirt() {
    let domain = domain(json!({}));
    for field in ["machine", "features", "clock", "firmware"] {
        assert_eq!(domain.get(field), None, "{field}");
    }
}

#[rstest]
#[case(json!(null), Some(true))]
#[case(json!([{"name": "a", "networkName": "n", "model": "e1000"}]), None)]
fn multiqueue_is_for_virtio(#[case] networks: Value, #[case] expected: Option<bool>) {
    let instance = instance(json!({"networks": networks}));
    assert_eq!(
        instance["domain"]["devices"]
            .get("networkInterfaceMultiqueue")
            .and_then(Value::as_bool),
        expected
    );
}

#[test]
fn cloud_init_data_of_any_length_is_in_a_secret() {
    let mut objects =
        objects(json!({"cloudInit": {"userData": "x".repeat(3000), "networkData": "y"}}));
    let vm = objects.pop().unwrap();
    let volumes = vm["spec"]["template"]["spec"]["volumes"]
        .as_array()
        .unwrap();
    let secret = json!({"name": "web-cloud-init"});
    assert_eq!(
        volumes.last().unwrap(),
        &json!({"name": "cloudinitdisk", "cloudInitNoCloud": {"secretRef": secret, "networkDataSecretRef": secret}}),
    );
    let keys: Vec<_> = objects[0]["data"].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["networkdata", "userdata"]);
}

#[rstest]
#[case(json!({"http": {"url": "https://a/b"}}), json!({"source": {"http": {"url": "https://a/b"}}}))]
#[case(json!({"registry": {"url": "docker://a", "pullMethod": "node"}}), json!({"source": {"registry": {"url": "docker://a", "pullMethod": "node"}}}))]
#[case(json!({"pvc": {"name": "p"}}), json!({"source": {"pvc": {"name": "p", "namespace": "shop"}}}))]
#[case(json!({"snapshot": {"name": "s", "namespace": "n"}}), json!({"source": {"snapshot": {"name": "s", "namespace": "n"}}}))]
#[case(json!({"ref": {"name": "d"}}), json!({"sourceRef": {"kind": "DataSource", "name": "d"}}))]
#[case(json!({"blank": {}}), json!({"source": {"blank": {}}}))]
fn a_source_becomes_a_data_volume(#[case] source: Value, #[case] expected: Value) {
    let objects = objects(json!({"disks": [{"name": "root", "source": source}]}));
    let mut spec = objects[0]["spec"].clone();
    let storage = spec.as_object_mut().unwrap().remove("storage").unwrap();
    assert_eq!(spec, expected);
    assert_eq!(
        storage,
        json!({
            "accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem",
            "resources": {"requests": {"storage": "20Gi"}},
        }),
    );
    assert_eq!(
        objects[1]["spec"]["template"]["spec"]["volumes"][0]["dataVolume"],
        json!({"name": "web-root"})
    );
}

#[rstest]
#[case(json!({"bridge": "br0"}), json!({"bridge": "br0"}))]
#[case(json!({"bridge": "br0", "vlan": 7, "mtu": 9000}), json!({"bridge": "br0", "vlan": 7, "preserveDefaultVlan": false, "mtu": 9000}))]
fn a_network_becomes_a_port_on_a_bridge(#[case] spec: Value, #[case] expected: Value) {
    let network: NetworkConfiguration = serde_json::from_value(json!({
        "apiVersion": "vitistack.io/v1alpha1", "kind": "NetworkConfiguration",
        "metadata": {"name": "front", "namespace": "shop", "uid": "u-2"}, "spec": spec,
    }))
    .unwrap();
    let definition = json!(attachment_definition(&network).unwrap());
    let mut config: Value =
        serde_json::from_str(definition["spec"]["config"].as_str().unwrap()).unwrap();
    for (field, value) in [
        ("cniVersion", json!("0.3.1")),
        ("name", json!("front")),
        ("type", json!("bridge")),
        ("ipam", json!({})),
    ] {
        assert_eq!(
            config.as_object_mut().unwrap().remove(field),
            Some(value),
            "{field}"
        );
    }
    assert_eq!(config, expected);
    let metadata = &definition["metadata"];
    assert_eq!(
        (&metadata["name"], &metadata["namespace"]),
        (&json!("front"), &json!("shop"))
    );
    assert_eq!(
        metadata["ownerReferences"][0]["kind"],
        "NetworkConfiguration"
    );
    assert_eq!(
        metadata["labels"]["vitistack.io/network-configuration"],
        "front"
    );
}
