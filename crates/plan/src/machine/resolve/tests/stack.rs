//! Fields of other programs of the Viti stack.

use super::*;

const IMAGE: &str = "https://factory.example.com/metal-amd64.iso";

/// Boot numbers of disks and interfaces.
fn boot(machine: &ResolvedMachine) -> Vec<(String, u32)> {
    let disks = machine
        .disks
        .iter()
        .map(|disk| (&disk.name, disk.boot_order));
    let interfaces = machine
        .interfaces
        .iter()
        .map(|it| (&it.name, it.boot_order));
    disks
        .chain(interfaces)
        .filter_map(|(name, number)| Some((name.clone(), number?)))
        .collect()
}

#[rstest]
#[case::of_the_specification(json!({}), &[("root", 1)])]
#[case::netboot(json!({"os": {}}), &[("root", 1), ("default", 2)])]
#[case::netboot_by_network(json!({"network": {}}), &[("root", 1), ("default", 2)])]
#[case::order_wins(json!({"os": {}, "bootOrder": ["disk"]}), &[("root", 1)])]
#[case::image(json!({"os": {"imageID": IMAGE}}), &[("root", 1), ("iso", 2)])]
#[case::image_with_order(
    json!({"os": {"imageID": IMAGE}, "bootOrder": ["cdrom", "disk"]}),
    &[("root", 2), ("iso", 1)]
)]
#[case::image_after_an_order_without_it(
    json!({"os": {"imageID": IMAGE}, "bootOrder": ["network"]}),
    &[("iso", 2), ("default", 1)]
)]
fn boot_order(#[case] spec: Value, #[case] expected: &[(&str, u32)]) {
    let expected: Vec<_> = expected
        .iter()
        .map(|(name, number)| ((*name).to_owned(), *number))
        .collect();
    assert_eq!(boot(&resolved(spec)), expected);
}

fn with_annotations(image: &str, annotations: Value) -> Machine {
    let mut machine = machine(json!({"os": {"imageID": image}}));
    machine.metadata.annotations = object(annotations);
    machine
}

#[rstest]
#[case("vitistack.io/os-installed", "true", false)]
#[case("vitistack.io/cdrom-ejected", "true", false)]
#[case("vitistack.io/os-installed", "false", true)]
fn an_image_is_ejected_once_the_system_is_installed(
    #[case] name: &str,
    #[case] value: &str,
    #[case] is_attached: bool,
) {
    let machine = with_annotations(IMAGE, json!({name: value}));
    let resolved = resolve(&machine, &cluster()).unwrap().machine;
    assert_eq!(resolved.disks.len(), 1 + usize::from(is_attached));
    assert!(resolved.interfaces[0].boot_order.is_none(), "no netboot");
    assert!(resolved.annotations.is_empty(), "it is a switch");
}

#[rstest]
#[case::registry("docker://quay.io/talos", json!({}), Ok(Some("docker://quay.io/talos")))]
#[case::scheme_is_added(
    "quay.io/talos",
    json!({"kubevirt.io/boot-source-type": "registry"}),
    Ok(Some("docker://quay.io/talos"))
)]
#[case::of_another_provider("ami-0abc", json!({}), Ok(None))]
#[case::to_be_imported(
    "ami-0abc",
    json!({"kubevirt.io/boot-source": "datavolume"}),
    Err("spec.os.imageID")
)]
#[case::unknown_type(
    IMAGE,
    json!({"kubevirt.io/boot-source-type": "s3"}),
    Err("metadata.annotations[kubevirt.io/boot-source-type]")
)]
fn images(
    #[case] image: &str,
    #[case] annotations: Value,
    #[case] expected: Result<Option<&str>, &str>,
) {
    let found = resolve(&with_annotations(image, annotations), &cluster());
    let urls = found.map(|found| {
        let installer = found.machine.disks.into_iter().nth(1);
        assert_eq!(found.notes.len(), usize::from(installer.is_none()));
        installer.map(|disk| match disk.source {
            ResolvedSource::DataVolume(DataVolumeContent::Registry(registry)) => registry.url,
            other => panic!("{other:?}"),
        })
    });
    let urls = urls.map_err(|errors| errors[0].path.clone());
    assert_eq!(
        urls,
        expected
            .map(|url| url.map(str::to_owned))
            .map_err(str::to_owned)
    );
}

#[test]
fn an_image_is_stored_like_the_boot_disk() {
    let disk = json!({"name": "disk-0", "sizeGB": 20, "boot": true, "type": "fast-ssd",
                      "accessMode": "ReadWriteMany"});
    let spec = json!({"os": {"imageID": IMAGE}, "instanceType": "small", "disks": [disk]});
    let machine = resolved(spec);
    let [root, iso] = &machine.disks[..] else {
        panic!("{:?}", machine.disks);
    };
    assert_eq!(root.storage_class.as_deref(), Some("fast-ssd"));
    assert_eq!(iso.storage_class, root.storage_class);
    assert_eq!(iso.access_mode, AccessMode::ReadWriteMany);
}

#[test]
fn a_disk_cannot_have_the_name_of_the_image() {
    let disks = json!([{"name": "iso", "size": "1Gi"}]);
    let spec = json!({"os": {"imageID": IMAGE}, "disks": disks});
    let expected = (ErrorType::InvalidSpec, "spec.disks[0].name".to_owned());
    assert_eq!(error(spec), expected);
}

#[rstest]
#[case("disk", DiskType::Disk, DiskBus::Virtio, "standard")]
#[case("", DiskType::Disk, DiskBus::Virtio, "standard")]
#[case("cdrom", DiskType::Cdrom, DiskBus::Sata, "standard")]
#[case("virtio", DiskType::Disk, DiskBus::Virtio, "standard")]
#[case("sata", DiskType::Disk, DiskBus::Sata, "standard")]
#[case("scsi", DiskType::Disk, DiskBus::Scsi, "standard")]
#[case("fast-ssd", DiskType::Disk, DiskBus::Virtio, "fast-ssd")]
fn a_disk_type_is_a_device_a_bus_or_a_storage_class(
    #[case] type_: &str,
    #[case] device: DiskType,
    #[case] bus: DiskBus,
    #[case] class: &str,
) {
    let disks = json!([{"name": "data", "sizeGB": 5, "type": type_}]);
    let machine = resolved(json!({"disks": disks}));
    let disk = &machine.disks[1];
    assert_eq!((disk.type_, disk.bus), (device, bus));
    assert_eq!(disk.storage_class.as_deref(), Some(class));
    assert_eq!(disk.size, quantity("5Gi"));
}

#[test]
fn nvme_is_on_virtio_with_a_note() {
    let disks = json!([{"name": "data", "sizeGB": 5, "type": "nvme"}]);
    let found = resolve(&machine(json!({"disks": disks})), &cluster()).unwrap();
    assert_eq!(found.machine.disks[1].bus, DiskBus::Virtio);
    assert_eq!(found.notes[0].path, "spec.disks[0].type");
}

#[rstest]
#[case(json!({"size": "1Gi", "sizeGB": 1}), "spec.disks[0].sizeGB")]
#[case(json!({"sizeGB": 1, "type": "sata", "bus": "sata"}), "spec.disks[0].bus")]
#[case(json!({"sizeGB": 1, "type": "fast-ssd", "storageClass": "x"}), "spec.disks[0].storageClass")]
fn two_ways_to_say_the_same_thing_are_an_error(#[case] mut disk: Value, #[case] path: &str) {
    disk["name"] = json!("data");
    let errors = errors_in(&cluster(), json!({"disks": [disk]}));
    assert_eq!(errors[0].path, path);
}

#[test]
fn an_unknown_word_is_a_missing_storage_class() {
    let disks = json!([{"name": "data", "sizeGB": 5, "type": "gp3"}]);
    let expected = (
        ErrorType::StorageClassNotFound,
        "spec.disks[0].storageClass".to_owned(),
    );
    assert_eq!(error(json!({"disks": disks})), expected);
}

#[test]
fn a_machine_of_the_stack_without_disks_has_a_root_disk() {
    let class = class(
        "large",
        json!({"cpu": {"cores": 4}, "memory": {"quantity": "8Gi"}}),
    );
    let cluster = Surroundings {
        machine_classes: Known::all([class]),
        ..cluster()
    };
    let spec = json!({"machineClass": "large", "os": {}, "network": {}});
    let machine = resolved_in(&cluster, spec);
    assert_eq!(disk_sizes(&machine), [("root", "10Gi".to_owned())]);
    let errors = errors_in(&cluster, json!({"machineClass": "large"}));
    assert_eq!(errors[0].path, "spec.disks");
}

#[test]
fn fields_of_other_providers_are_noted() {
    let spec = json!({
        "backup": {"enabled": true}, "machineType": "m5", "monitoring": true,
        "network": {"vpc": "v", "subnet": "s", "assignPublicIP": true, "privateIP": "10.0.0.1",
                    "publicIP": "192.0.2.1", "interfaces": [{"name": "eth0"}],
                    "networkNamespaceName": "lab"},
        "os": {"imageFamily": "f", "isoUri": "u", "family": "linux"},
        "providerConfig": {"region": "r"}, "securityGroups": ["g"],
        "userData": "x", "tags": {"a": "b"},
        "disks": [{"name": "data", "sizeGB": 1, "device": "/dev/vdb", "encrypted": true,
                   "iops": 100, "throughput": 125}],
    });
    let notes = resolve(&machine(spec), &cluster()).unwrap().notes;
    assert_eq!(notes.len(), 19, "{notes:#?}");
    let empty = json!({
        "backup": {}, "network": {}, "os": {}, "providerConfig": {}, "cpu": {}, "tags": {"a": "b"},
    });
    assert_eq!(resolve(&machine(empty), &cluster()).unwrap().notes, []);
}
