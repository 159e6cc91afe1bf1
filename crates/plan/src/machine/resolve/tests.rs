//! Each rule of the API's documentation as a test named after it.
#![allow(
    clippy::needless_pass_by_value,
    reason = "cases read best as plain json! values"
)]

use std::sync::Arc;

use api::{
    AccessMode, DiskBus, DiskType, Machine, MachineClass, NetworkConfiguration, NetworkModel,
    PowerState, VolumeMode,
    core::{Secret, StorageClass},
    kubevirt::CpuTopology,
};
use rstest::rstest;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{Resolution, resolve};
use crate::{
    Quantity,
    machine::{
        Attachment, Bootloader, ErrorType, Known, ResolvedMachine, SizingSource, SpecError,
        Surroundings, UserData,
    },
};

fn object<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn machine(spec: Value) -> Machine {
    object(json!({
        "apiVersion": "vitistack.io/v1alpha1",
        "kind": "Machine",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": spec,
    }))
}

fn class(name: &str, spec: Value) -> (String, Arc<MachineClass>) {
    let class = json!({"apiVersion": "", "kind": "", "metadata": {"name": name}, "spec": spec});
    (name.to_owned(), Arc::new(object(class)))
}

fn storage_class(name: &str, annotations: Value) -> (String, Arc<StorageClass>) {
    let class = json!({"metadata": {"name": name, "annotations": annotations}});
    (name.to_owned(), Arc::new(object(class)))
}

fn default_storage_class(name: &str) -> (String, Arc<StorageClass>) {
    storage_class(
        name,
        json!({"storageclass.kubernetes.io/is-default-class": "true"}),
    )
}

fn network(name: &str) -> (String, Arc<NetworkConfiguration>) {
    let network = json!({
        "apiVersion": "", "kind": "", "metadata": {"name": name}, "spec": {"bridge": "br0"},
    });
    (name.to_owned(), Arc::new(object(network)))
}

fn secret(name: &str, value: Value) -> (String, Arc<Secret>) {
    let mut secret = json!({"metadata": {"name": name}});
    secret
        .as_object_mut()
        .unwrap()
        .extend(value.as_object().unwrap().clone());
    (name.to_owned(), Arc::new(object(secret)))
}

/// A cluster of which everything is known.
fn cluster() -> Surroundings {
    Surroundings {
        machine_classes: Known::all([]),
        storage_classes: Known::all([
            default_storage_class("standard"),
            storage_class("fast-ssd", json!({})),
        ]),
        networks: Known::all([network("prod-network")]),
        secrets: Known::all([secret(
            "bootstrap",
            json!({"stringData": {"userdata": "from secret"}}),
        )]),
    }
}

fn resolved_in(surroundings: &Surroundings, spec: Value) -> ResolvedMachine {
    let Resolution { machine, notes } = resolve(&machine(spec), surroundings).unwrap();
    assert_eq!(notes, [], "everything is known");
    machine
}

fn resolved(spec: Value) -> ResolvedMachine {
    resolved_in(&cluster(), spec)
}

fn errors_in(surroundings: &Surroundings, spec: Value) -> Vec<SpecError> {
    resolve(&machine(spec), surroundings).unwrap_err()
}

fn error(spec: Value) -> (ErrorType, String) {
    match &errors_in(&cluster(), spec)[..] {
        [error] => (error.error_type, error.path.clone()),
        errors => panic!("one error was expected: {errors:?}"),
    }
}

fn quantity(text: &str) -> Quantity {
    text.parse().unwrap()
}

fn disk_sizes(machine: &ResolvedMachine) -> Vec<(&str, String)> {
    machine
        .disks
        .iter()
        .map(|disk| (disk.name.as_str(), disk.size.to_string()))
        .collect()
}

mod size {
    use super::*;

    #[rstest]
    #[case("small", [1, 1, 1], "2Gi", "20Gi")]
    #[case("medium", [2, 1, 1], "4Gi", "40Gi")]
    #[case("large", [4, 1, 1], "8Gi", "80Gi")]
    fn templates_are_the_references_table(
        #[case] name: &str,
        #[case] counts: [u32; 3],
        #[case] memory: &str,
        #[case] root: &str,
    ) {
        let [cores, sockets, threads] = counts;
        let machine = resolved(json!({"template": name}));
        assert_eq!(
            machine.cpu,
            CpuTopology {
                cores,
                sockets,
                threads
            }
        );
        assert_eq!(machine.memory.to_string(), memory);
        assert_eq!(disk_sizes(&machine), [("root", root.to_owned())]);
        assert_eq!(machine.sizing.to_string(), format!("template {name}"));
    }

    #[rstest]
    #[case("small", [1, 1, 1], "1Gi", "20Gi", 1)]
    #[case("medium", [2, 2, 1], "2Gi", "40Gi", 4)]
    #[case("large", [4, 2, 2], "4Gi", "80Gi", 16)]
    fn instance_types_are_the_overviews_table(
        #[case] name: &str,
        #[case] counts: [u32; 3],
        #[case] memory: &str,
        #[case] root: &str,
        #[case] vcpus: u32,
    ) {
        let [cores, sockets, threads] = counts;
        let machine = resolved(json!({"instanceType": name}));
        assert_eq!(
            machine.cpu,
            CpuTopology {
                cores,
                sockets,
                threads
            }
        );
        assert_eq!(machine.vcpus(), vcpus);
        assert_eq!(machine.memory.to_string(), memory);
        assert_eq!(disk_sizes(&machine), [("root", root.to_owned())]);
    }

    fn with_classes(
        classes: impl IntoIterator<Item = (String, Arc<MachineClass>)>,
    ) -> Surroundings {
        Surroundings {
            machine_classes: Known::all(classes),
            ..cluster()
        }
    }

    fn huge() -> Surroundings {
        with_classes([class(
            "huge",
            json!({
                "cpu": {"cores": 16, "sockets": 2, "threads": 0},
                "memory": {"quantity": "64Gi"},
                "disks": [{"name": "root", "size": "100Gi", "storageClass": "fast-ssd"}],
            }),
        )])
    }

    #[rstest]
    #[case("template")]
    #[case("instanceType")]
    #[case("machineClass")]
    fn any_other_name_is_a_machine_class(#[case] field: &str) {
        let machine = resolved_in(&huge(), json!({field: "huge"}));
        assert_eq!(
            machine.cpu,
            CpuTopology {
                cores: 16,
                sockets: 2,
                threads: 1
            }
        );
        assert_eq!(machine.memory, quantity("64Gi"));
        assert_eq!(machine.disks[0].storage_class.as_deref(), Some("fast-ssd"));
        assert_eq!(
            machine.sizing,
            SizingSource::Class {
                name: "huge".to_owned(),
                generation: None
            }
        );
    }

    #[rstest]
    #[case("template", "spec.template")]
    #[case("instanceType", "spec.instanceType")]
    #[case("machineClass", "spec.machineClass")]
    fn a_name_that_is_nowhere_is_template_not_found(#[case] field: &str, #[case] path: &str) {
        assert_eq!(
            error(json!({field: "gigantic"})),
            (ErrorType::TemplateNotFound, path.to_owned())
        );
    }

    #[test]
    fn a_machine_class_named_small_does_not_hide_the_template() {
        let classes = with_classes([class(
            "small",
            json!({"cpu": {"cores": 9}, "memory": {"quantity": "9Gi"}}),
        )]);
        assert_eq!(
            resolved_in(&classes, json!({"template": "small"}))
                .cpu
                .cores,
            1
        );
        let by_class = json!({"machineClass": "small", "disks": [{"name": "root", "size": "1Gi"}]});
        assert_eq!(resolved_in(&classes, by_class).cpu.cores, 9);
    }

    #[rstest]
    #[case(json!({"template": "small", "instanceType": "small"}))]
    #[case(json!({"template": "small", "machineClass": "small"}))]
    #[case(json!({"instanceType": "small", "machineClass": "small", "template": "small"}))]
    fn at_most_one_of_the_three(#[case] spec: Value) {
        assert_eq!(error(spec).0, ErrorType::InvalidSpec);
    }

    #[test]
    fn none_is_the_class_marked_default() {
        let spec = |default| {
            json!({"default": default, "cpu": {"cores": 3}, "memory": {"quantity": "3Gi"},
            "disks": [{"name": "root", "size": "30Gi"}]})
        };
        let classes = with_classes([class("a", spec(false)), class("b", spec(true))]);
        assert_eq!(
            resolved_in(&classes, json!({})).sizing.to_string(),
            "MachineClass b"
        );
    }

    #[test]
    fn of_two_default_classes_the_newer_counts() {
        let dated = |name: &str, date: &str| {
            let class = json!({"apiVersion": "", "kind": "",
                "metadata": {"name": name, "creationTimestamp": date},
                "spec": {"default": true, "cpu": {"cores": 3}, "memory": {"quantity": "3Gi"},
                    "disks": [{"name": "root", "size": "30Gi"}]}});
            (name.to_owned(), Arc::new(object(class)))
        };
        let classes = with_classes([
            dated("newer", "2026-02-01T00:00:00Z"),
            dated("older", "2026-01-01T00:00:00Z"),
        ]);
        assert_eq!(
            resolved_in(&classes, json!({})).sizing.to_string(),
            "MachineClass newer"
        );
    }

    #[test]
    fn none_and_no_default_class_is_template_small() {
        assert_eq!(resolved(json!({})).sizing, SizingSource::Template("small"));
    }

    #[test]
    fn a_disabled_class_is_not_taken() {
        let spec = json!({"enabled": false, "default": true, "cpu": {"cores": 3}, "memory": {"quantity": "3Gi"}});
        let classes = with_classes([class("off", spec)]);
        assert_eq!(
            errors_in(&classes, json!({"machineClass": "off"}))[0].error_type,
            ErrorType::TemplateNotFound
        );
        assert_eq!(
            resolved_in(&classes, json!({})).sizing,
            SizingSource::Template("small")
        );
    }

    #[test]
    fn a_class_of_other_providers_is_not_taken() {
        let spec = json!({"machineProviders": ["proxmox"], "cpu": {"cores": 3}, "memory": {"quantity": "3Gi"}});
        let classes = with_classes([class("metal", spec)]);
        assert_eq!(
            errors_in(&classes, json!({"machineClass": "metal"}))[0].error_type,
            ErrorType::TemplateNotFound
        );
    }

    #[test]
    fn a_default_class_of_other_providers_is_not_taken() {
        let spec = json!({"default": true, "machineProviders": ["proxmox"],
            "cpu": {"cores": 64}, "memory": {"quantity": "256Gi"}});
        let classes = with_classes([class("metal", spec)]);
        assert_eq!(
            resolved_in(&classes, json!({})).sizing,
            SizingSource::Template("small")
        );
    }

    #[test]
    fn a_class_with_memory_in_bytes_is_read_as_other_operators_write_it() {
        let spec = json!({"cpu": {"cores": 1}, "disks": [{"name": "root", "size": "9Gi"}],
            "memory": {"quantity": 4_294_967_296_i64, "minQuantity": 0, "maxQuantity": "0"}});
        let classes = with_classes([class("c", spec)]);
        let machine = resolved_in(&classes, json!({"machineClass": "c"}));
        assert_eq!(machine.memory.to_string(), "4Gi");
    }

    #[test]
    fn a_class_without_disks_needs_one_of_the_machine() {
        let classes = with_classes([class(
            "bare",
            json!({"cpu": {"cores": 1}, "memory": {"quantity": "1Gi"}}),
        )]);
        let errors = errors_in(&classes, json!({"machineClass": "bare"}));
        assert_eq!(
            (errors[0].error_type, errors[0].path.as_str()),
            (ErrorType::InvalidSpec, "spec.disks")
        );
        let with_disk =
            json!({"machineClass": "bare", "disks": [{"name": "system", "size": "9Gi"}]});
        assert_eq!(
            disk_sizes(&resolved_in(&classes, with_disk)),
            [("system", "9Gi".to_owned())]
        );
    }

    #[rstest]
    #[case(json!({"cpu": {"cores": 0}, "memory": {"quantity": "1Gi"}}))]
    #[case(json!({"cpu": {"cores": 1}, "memory": {"quantity": "plenty"}}))]
    #[case(json!({"cpu": {"cores": 1}, "memory": {"quantity": "-1Gi"}}))]
    #[case(json!({"cpu": {"cores": 1}, "memory": {"quantity": "1Gi"}, "disks": [{"name": "A", "size": "1Gi"}]}))]
    #[case(json!({"cpu": {"cores": 1}, "memory": {"quantity": "1Gi"}, "disks": [{"name": "a", "size": "1Gi"}, {"name": "a", "size": "1Gi"}]}))]
    #[case(json!({"cpu": {"cores": 1}, "memory": {"quantity": "1Gi"}, "gpu": {"cores": 4}}))]
    #[case(json!({"cpu": {"cores": 1}, "memory": {"quantity": "1Gi"}, "disks": [{"name": "a", "size": "b"}]}))]
    fn what_is_wrong_with_a_class_is_told_where_it_is_named(#[case] spec: Value) {
        let classes = with_classes([class("odd", spec)]);
        let errors = errors_in(&classes, json!({"machineClass": "odd"}));
        assert_eq!(errors.len(), 1, "{errors:?}");
        assert_eq!(errors[0].path, "spec.machineClass");
        assert!(
            errors[0].message.contains("\"odd\""),
            "{}",
            errors[0].message
        );
    }
}

mod overrides {
    use super::*;

    #[test]
    fn are_field_by_field_over_the_size() {
        let machine = resolved(json!({"instanceType": "large", "cpu": {"sockets": 1}}));
        assert_eq!(
            machine.cpu,
            CpuTopology {
                cores: 4,
                sockets: 1,
                threads: 2
            }
        );
        assert_eq!(machine.memory, quantity("4Gi"));
    }

    #[test]
    fn both_blocks_say_the_same_thing() {
        let nested = resolved(json!({"template": "small", "resources": {
            "cpu": {"cores": 4, "threads": 2, "sockets": 3}, "memory": {"size": "8Gi"}}}));
        let flat = resolved(json!({"template": "small",
            "cpu": {"cores": 4, "threadsPerCore": 2, "sockets": 3}, "memory": "8Gi"}));
        assert_eq!(nested, flat);
        assert_eq!(nested.vcpus(), 24);
    }

    #[test]
    fn memory_is_bytes_or_a_quantity() {
        let bytes = resolved(json!({"memory": 4_294_967_296_i64}));
        assert_eq!(bytes, resolved(json!({"memory": "4Gi"})));
        assert_eq!(bytes.memory.to_string(), "4Gi");
    }

    #[rstest]
    #[case(json!({"resources": {"cpu": {"cores": 1}}, "cpu": {"cores": 1}}))]
    #[case(json!({"resources": {"cpu": {"cores": 1}}, "memory": "1Gi"}))]
    #[case(json!({"resources": {}, "memory": "1Gi"}))]
    fn both_blocks_at_once_are_an_error(#[case] spec: Value) {
        assert_eq!(
            error(spec),
            (ErrorType::InvalidSpec, "spec.resources".to_owned())
        );
    }

    #[rstest]
    #[case(json!({"cpu": {"cores": 512, "sockets": 64}}), "spec")]
    #[case(json!({"cpu": {"cores": 0}}), "spec.cpu.cores")]
    #[case(json!({"cpu": {"threadsPerCore": -1}}), "spec.cpu.threadsPerCore")]
    #[case(json!({"resources": {"cpu": {"sockets": 0}}}), "spec.resources.cpu.sockets")]
    #[case(json!({"memory": 0}), "spec.memory")]
    #[case(json!({"memory": "512m"}), "spec.memory")]
    #[case(json!({"memory": "lots"}), "spec.memory")]
    #[case(json!({"resources": {"memory": {"size": "-2Gi"}}}), "spec.resources.memory.size")]
    fn amounts_that_no_machine_can_have_are_errors(#[case] spec: Value, #[case] path: &str) {
        assert_eq!(error(spec), (ErrorType::InvalidSpec, path.to_owned()));
    }

    #[rstest]
    #[case("1Gi", false)]
    #[case("2Gi", true)]
    #[case("8Gi", true)]
    #[case("8193Mi", false)]
    fn memory_stays_within_the_bounds_of_the_class(#[case] memory: &str, #[case] fine: bool) {
        let spec = json!({"cpu": {"cores": 1},
            "memory": {"quantity": "4Gi", "minQuantity": "2Gi", "maxQuantity": "8Gi"},
            "disks": [{"name": "root", "size": "9Gi"}]});
        let classes = Surroundings {
            machine_classes: Known::all([class("c", spec)]),
            ..cluster()
        };
        let outcome = resolve(
            &machine(json!({"machineClass": "c", "memory": memory})),
            &classes,
        );
        assert_eq!(outcome.is_ok(), fine, "{outcome:?}");
    }

    #[test]
    fn bounds_of_zero_are_no_bounds() {
        let spec = json!({"cpu": {"cores": 1}, "disks": [{"name": "root", "size": "9Gi"}],
            "memory": {"quantity": "4Gi", "minQuantity": "0", "maxQuantity": "0"}});
        let classes = Surroundings {
            machine_classes: Known::all([class("c", spec)]),
            ..cluster()
        };
        assert_eq!(
            resolved_in(&classes, json!({"machineClass": "c", "memory": "64Gi"})).memory,
            quantity("64Gi")
        );
    }
}

mod disks {
    use super::*;

    #[test]
    fn are_merged_by_name_over_those_of_the_size() {
        let machine = resolved(json!({"template": "medium", "disks": [
            {"name": "data", "size": "100Gi"},
            {"name": "root", "storageClass": "fast-ssd"},
        ]}));
        assert_eq!(
            disk_sizes(&machine),
            [("root", "40Gi".to_owned()), ("data", "100Gi".to_owned())]
        );
        assert_eq!(machine.disks[0].storage_class.as_deref(), Some("fast-ssd"));
    }

    #[test]
    fn of_an_instance_type_are_additional() {
        let machine = resolved(
            json!({"instanceType": "medium", "disks": [{"name": "data", "size": "10Gi"}]}),
        );
        assert_eq!(
            disk_sizes(&machine),
            [("root", "40Gi".to_owned()), ("data", "10Gi".to_owned())]
        );
    }

    #[test]
    fn an_instance_type_has_no_root_disk_beside_one_marked_boot() {
        let machine = resolved(json!({"instanceType": "medium", "disks": [
            {"name": "data", "size": "10Gi"}, {"name": "system", "size": "9Gi", "boot": true}]}));
        assert_eq!(
            disk_sizes(&machine),
            [("data", "10Gi".to_owned()), ("system", "9Gi".to_owned())]
        );
        assert_eq!(machine.disks[1].boot_order, Some(1));
    }

    #[test]
    fn a_template_keeps_its_root_disk_beside_one_marked_boot() {
        let machine = resolved(
            json!({"template": "medium", "disks": [{"name": "system", "size": "9Gi", "boot": true}]}),
        );
        assert_eq!(
            disk_sizes(&machine),
            [("root", "40Gi".to_owned()), ("system", "9Gi".to_owned())]
        );
        assert_eq!(
            machine
                .disks
                .iter()
                .map(|d| d.boot_order)
                .collect::<Vec<_>>(),
            [None, Some(1)]
        );
    }

    #[test]
    fn have_the_documented_defaults() {
        let disk = resolved(json!({})).disks.remove(0);
        assert_eq!(disk.access_mode, AccessMode::ReadWriteOnce);
        assert_eq!(disk.volume_mode, VolumeMode::Filesystem);
        assert_eq!((disk.type_, disk.bus), (DiskType::Disk, DiskBus::Virtio));
        let cdrom = resolved(json!({"disks": [{"name": "iso", "size": "1Gi", "type": "cdrom"}]}))
            .disks
            .remove(1);
        assert_eq!((cdrom.type_, cdrom.bus), (DiskType::Cdrom, DiskBus::Sata));
    }

    #[rstest]
    #[case(json!([{"name": "data"}]), "spec.disks[0].size")]
    #[case(json!([{"name": "data", "size": "0"}]), "spec.disks[0].size")]
    #[case(json!([{"name": "data", "size": "5m"}]), "spec.disks[0].size")]
    #[case(json!([{"name": "a", "size": "1Gi"}, {"name": "a", "size": "1Gi"}]), "spec.disks[1].name")]
    #[case(json!([{"name": "Data", "size": "1Gi"}]), "spec.disks[0].name")]
    #[case(json!([{"name": "cloudinitdisk", "size": "1Gi"}]), "spec.disks[0].name")]
    #[case(json!([{"name": "a", "size": "1Gi", "boot": true}, {"name": "b", "size": "1Gi", "boot": true}]), "spec.disks[1].boot")]
    #[case(json!([{"name": "a", "size": "1Gi", "source": {}}]), "spec.disks[0].source")]
    #[case(json!([{"name": "a", "size": "1Gi", "source": {"blank": {}, "http": {"url": "http://a"}}}]), "spec.disks[0].source")]
    #[case(json!([{"name": "a", "size": "1Gi", "type": "cdrom", "bus": "virtio"}]), "spec.disks[0].bus")]
    #[case(json!([{"name": "a", "size": "1Gi", "accessMode": "ReadOnlyMany"}]), "spec.disks[0].accessMode")]
    #[case(json!([{"name": "a", "size": "1Gi", "source": {"http": {"url": "ftp://a"}}}]), "spec.disks[0].source.http.url")]
    #[case(json!([{"name": "a", "size": "1Gi", "source": {"registry": {"url": "quay.io/a"}}}]), "spec.disks[0].source.registry.url")]
    #[case(json!([{"name": "a", "size": "1Gi", "source": {"pvc": {"name": "web-a"}}}]), "spec.disks[0].source.pvc.name")]
    #[case(json!([{"name": "a", "size": "1Gi", "source": {"pvc": {"name": "web-a", "namespace": "shop"}}}]), "spec.disks[0].source.pvc.name")]
    fn that_cannot_be_made_are_errors(#[case] disks: Value, #[case] path: &str) {
        assert_eq!(
            error(json!({"disks": disks})),
            (ErrorType::InvalidSpec, path.to_owned())
        );
    }
}

mod storage_classes {
    use super::*;

    fn of(surroundings: &Surroundings, disk: Value) -> Option<String> {
        resolved_in(surroundings, json!({"disks": [disk]}))
            .disks
            .remove(0)
            .storage_class
    }

    #[rstest]
    #[case(json!({"name": "root"}))]
    #[case(json!({"name": "root", "storageClass": "default"}))]
    fn absent_or_default_is_the_clusters_default(#[case] disk: Value) {
        assert_eq!(of(&cluster(), disk).as_deref(), Some("standard"));
    }

    #[rstest]
    #[case(json!({"name": "root"}))]
    #[case(json!({"name": "root", "storageClass": "default"}))]
    fn absent_or_default_is_a_class_of_that_name_if_there_is_one(#[case] disk: Value) {
        let classes = [
            default_storage_class("standard"),
            storage_class("default", json!({})),
        ];
        let cluster = Surroundings {
            storage_classes: Known::all(classes),
            ..cluster()
        };
        assert_eq!(of(&cluster, disk).as_deref(), Some("default"));
    }

    #[test]
    fn named_is_that_one() {
        assert_eq!(
            of(
                &cluster(),
                json!({"name": "root", "storageClass": "fast-ssd"})
            )
            .as_deref(),
            Some("fast-ssd")
        );
    }

    #[test]
    fn named_and_missing_is_not_found() {
        let spec = json!({"disks": [{"name": "root", "storageClass": "tape"}]});
        assert_eq!(
            error(spec),
            (
                ErrorType::StorageClassNotFound,
                "spec.disks[0].storageClass".to_owned()
            )
        );
    }

    #[test]
    fn none_named_and_no_default_is_not_found() {
        let cluster = Surroundings {
            storage_classes: Known::all([]),
            ..cluster()
        };
        assert_eq!(
            errors_in(&cluster, json!({}))[0].error_type,
            ErrorType::StorageClassNotFound
        );
    }
}

mod names {
    use super::*;

    #[test]
    fn the_vm_is_named_by_the_spec_else_by_the_machine() {
        assert_eq!(resolved(json!({})).vm_name, "web");
        assert_eq!(resolved(json!({"name": "front"})).vm_name, "front");
    }

    #[rstest]
    #[case("Web")]
    #[case("-web")]
    #[case("web..shop")]
    #[case("web.-shop")]
    #[case("")]
    #[case("a23456789012345678901234567890123456789012345678901234567890abcd")]
    fn that_no_vm_can_have_are_errors(#[case] name: &str) {
        assert_eq!(
            error(json!({"name": name})),
            (ErrorType::InvalidSpec, "spec.name".to_owned())
        );
    }

    #[test]
    fn a_machine_without_a_name_is_an_error() {
        let mut nameless = machine(json!({}));
        nameless.metadata.name = None;
        let errors = resolve(&nameless, &cluster()).unwrap_err();
        assert_eq!(errors[0].path, "metadata.name");
    }
}

mod power {
    use super::*;

    #[rstest]
    #[case(json!({}), PowerState::Running)]
    #[case(json!({"powerState": "Running"}), PowerState::Running)]
    #[case(json!({"powerState": "Stopped"}), PowerState::Stopped)]
    #[case(json!({"powerState": "Paused"}), PowerState::Paused)]
    fn is_running_unless_said_otherwise(#[case] spec: Value, #[case] expected: PowerState) {
        assert_eq!(resolved(spec).power_state, expected);
    }

    #[test]
    fn a_restart_does_not_change_what_the_machine_is() {
        assert_eq!(
            resolved(json!({"restartedAt": "2026-01-01T00:00:00Z"})),
            resolved(json!({}))
        );
    }
}

mod cloud_init {
    use super::*;

    fn user_data(spec: Value) -> UserData {
        resolved(json!({"cloudInit": spec}))
            .cloud_init
            .unwrap()
            .user_data
            .unwrap()
    }

    #[test]
    fn inline_user_data_wins_over_a_secret() {
        let both = json!({"userData": "inline", "secretRef": {"name": "absent", "key": "k"}});
        assert!(user_data(both) == UserData::Content(b"inline".to_vec()));
    }

    #[test]
    fn user_data_comes_from_the_key_userdata_of_a_secret() {
        assert!(
            user_data(json!({"secretRef": {"name": "bootstrap"}}))
                == UserData::Content(b"from secret".to_vec())
        );
    }

    #[test]
    fn a_secret_as_the_api_server_returns_it_is_read_too() {
        let secrets = Known::all([secret("s", json!({"data": {"k": "aGVsbG8="}}))]);
        let cluster = Surroundings {
            secrets,
            ..cluster()
        };
        let machine = resolved_in(
            &cluster,
            json!({"cloudInit": {"secretRef": {"name": "s", "key": "k"}}}),
        );
        assert!(
            machine.cloud_init.unwrap().user_data == Some(UserData::Content(b"hello".to_vec()))
        );
    }

    #[rstest]
    #[case(json!({"secretRef": {"name": "absent"}}), "spec.cloudInit.secretRef.name")]
    #[case(json!({"userData": "", "networkData": ""}), "spec.cloudInit")]
    #[case(json!({"secretRef": {"name": "bootstrap", "key": "absent"}}), "spec.cloudInit.secretRef.key")]
    #[case(json!({}), "spec.cloudInit")]
    fn without_content_is_an_error(#[case] cloud_init: Value, #[case] path: &str) {
        assert_eq!(
            error(json!({"cloudInit": cloud_init})),
            (ErrorType::InvalidSpec, path.to_owned())
        );
    }

    #[test]
    fn empty_user_data_does_not_win_over_a_secret() {
        let both = json!({"userData": "", "secretRef": {"name": "bootstrap"}});
        assert!(user_data(both) == UserData::Content(b"from secret".to_vec()));
    }

    #[test]
    fn the_users_secret_cannot_have_the_name_of_ours() {
        let secrets = Known::all([secret(
            "web-cloud-init",
            json!({"stringData": {"userdata": "x"}}),
        )]);
        let cluster = Surroundings {
            secrets,
            ..cluster()
        };
        let errors = errors_in(
            &cluster,
            json!({"cloudInit": {"secretRef": {"name": "web-cloud-init"}}}),
        );
        assert_eq!(errors[0].path, "spec.cloudInit.secretRef.name");
    }

    #[test]
    fn more_than_fits_into_a_secret_is_an_error() {
        let spec = json!({"cloudInit": {"userData": "ä".repeat(524_288), "networkData": "x"}});
        assert_eq!(
            error(spec),
            (ErrorType::InvalidSpec, "spec.cloudInit".to_owned())
        );
    }

    #[test]
    fn content_is_in_no_debug_output() {
        let written =
            machine(json!({"cloudInit": {"userData": "hunter2", "networkData": "hunter2"}}));
        assert!(!format!("{written:?}").contains("hunter2"));
        let machine =
            resolved(json!({"cloudInit": {"userData": "hunter2", "networkData": "hunter2"}}));
        assert!(!format!("{machine:?}").contains("hunter2"));
        let (_, secret) = secret(
            "s",
            json!({"stringData": {"a": "hunter2"}, "data": {"b": "aHVudGVyMg=="}}),
        );
        let shown = format!("{secret:?}");
        assert!(
            !shown.contains("hunter2") && !shown.contains("104, 117"),
            "{shown}"
        );
    }
}

mod networks {
    use super::*;

    #[test]
    fn none_is_the_pod_network() {
        let interfaces = resolved(json!({})).interfaces;
        assert_eq!(interfaces.len(), 1);
        assert_eq!(interfaces[0].attachment, Attachment::PodNetwork);
        assert_eq!(interfaces, resolved(json!({"networks": []})).interfaces);
    }

    #[test]
    fn each_is_a_network_configuration_of_the_namespace() {
        let machine = resolved(json!({"networks": [
            {"name": "eth0", "networkName": "prod-network", "macAddress": "52:54:00:12:34:56"},
            {"name": "eth1", "networkName": "prod-network", "model": "e1000"},
        ]}));
        let prod = Attachment::Network("prod-network".to_owned());
        assert!(
            machine
                .interfaces
                .iter()
                .all(|interface| interface.attachment == prod)
        );
        assert_eq!(machine.interfaces[0].model, NetworkModel::Virtio);
        assert_eq!(
            machine.interfaces[0].mac_address.as_deref(),
            Some("52:54:00:12:34:56")
        );
        assert_eq!(machine.interfaces[1].model, NetworkModel::E1000);
    }

    #[test]
    fn missing_is_not_found() {
        let spec = json!({"networks": [{"name": "eth0", "networkName": "lost"}]});
        let path = "spec.networks[0].networkName".to_owned();
        assert_eq!(error(spec), (ErrorType::NetworkConfigurationNotFound, path));
    }

    #[rstest]
    #[case("52:54:00:12:34")]
    #[case("52:54:00:12:34:56:78")]
    #[case("52-54-00-12-34-56")]
    #[case("53:54:00:12:34:56")]
    #[case("zz:54:00:12:34:56")]
    #[case("+2:54:00:12:34:56")]
    #[case("")]
    fn a_mac_address_that_no_card_has_is_an_error(#[case] mac: &str) {
        let spec =
            json!({"networks": [{"name": "a", "networkName": "prod-network", "macAddress": mac}]});
        assert_eq!(
            error(spec),
            (
                ErrorType::InvalidSpec,
                "spec.networks[0].macAddress".to_owned()
            )
        );
    }

    #[test]
    fn a_mac_address_is_used_once_however_it_is_written() {
        let spec = json!({"networks": [
            {"name": "a", "networkName": "prod-network", "macAddress": "52:54:00:12:34:aB"},
            {"name": "b", "networkName": "prod-network", "macAddress": "52:54:00:12:34:Ab"}]});
        assert_eq!(
            error(spec),
            (
                ErrorType::InvalidSpec,
                "spec.networks[1].macAddress".to_owned()
            )
        );
    }

    #[rstest]
    #[case(json!({"name": "eth 0", "networkName": "prod-network"}), "spec.networks[0].name")]
    #[case(json!({"name": "_eth0", "networkName": "prod-network"}), "spec.networks[0].name")]
    fn names_that_no_interface_can_have_are_errors(#[case] network: Value, #[case] path: &str) {
        assert_eq!(
            error(json!({"networks": [network]})),
            (ErrorType::InvalidSpec, path.to_owned())
        );
    }

    #[test]
    fn names_are_used_once() {
        let spec = json!({"networks": [
            {"name": "a", "networkName": "prod-network"}, {"name": "a", "networkName": "prod-network"}]});
        assert_eq!(
            error(spec),
            (ErrorType::InvalidSpec, "spec.networks[1].name".to_owned())
        );
    }
}

mod boot_order {
    use super::*;

    fn numbers(spec: Value) -> (Vec<Option<u32>>, Vec<Option<u32>>) {
        let machine = resolved(spec);
        (
            machine.disks.iter().map(|disk| disk.boot_order).collect(),
            machine
                .interfaces
                .iter()
                .map(|interface| interface.boot_order)
                .collect(),
        )
    }

    fn devices(order: Value) -> Value {
        json!({"template": "small", "bootOrder": order, "disks": [
            {"name": "iso", "size": "1Gi", "type": "cdrom"},
            {"name": "system", "size": "9Gi", "boot": true},
        ], "networks": [
            {"name": "a", "networkName": "prod-network"}, {"name": "b", "networkName": "prod-network"}]})
    }

    #[test]
    fn without_one_only_the_boot_disk_has_a_number() {
        assert_eq!(
            numbers(json!({"disks": [{"name": "data", "size": "1Gi"}]})).0,
            [Some(1), None]
        );
    }

    #[test]
    fn kinds_of_devices_become_numbers() {
        let order = json!(["network", "disk", "cdrom"]);
        assert_eq!(
            numbers(devices(order)),
            (vec![Some(4), Some(5), Some(3)], vec![Some(1), Some(2)])
        );
        let order = json!(["cdrom", "disk"]);
        assert_eq!(
            numbers(devices(order)),
            (vec![Some(3), Some(1), Some(2)], vec![None, None])
        );
    }

    #[rstest]
    #[case(json!([]))]
    #[case(json!(["cdrom"]))]
    fn an_order_of_nothing_that_is_there_is_the_boot_disk(#[case] order: Value) {
        assert_eq!(numbers(json!({"bootOrder": order})).0, [Some(1)]);
    }

    #[test]
    fn a_kind_that_there_is_none_of_is_passed_over() {
        assert_eq!(
            numbers(json!({"bootOrder": ["cdrom", "disk"]})).0,
            [Some(1)]
        );
    }
}

mod hardware {
    use super::*;

    fn domain(domain: Value) -> ResolvedMachine {
        resolved(json!({"domain": domain}))
    }

    #[rstest]
    #[case(json!({}), None)]
    #[case(json!({"efi": false}), Some(Bootloader::Bios))]
    #[case(json!({"efi": true}), Some(Bootloader::Efi { secure_boot: false }))]
    #[case(json!({"efi": true, "secureBoot": false}), Some(Bootloader::Efi { secure_boot: false }))]
    #[case(json!({"efi": true, "secureBoot": true}), Some(Bootloader::Efi { secure_boot: true }))]
    #[case(json!({"secureBoot": true}), Some(Bootloader::Efi { secure_boot: true }))]
    #[case(json!({"secureBoot": false}), None)]
    fn secure_boot_brings_efi(#[case] bootloader: Value, #[case] expected: Option<Bootloader>) {
        assert_eq!(
            domain(json!({"firmware": {"bootloader": bootloader}})).bootloader,
            expected
        );
    }

    #[test]
    fn secure_boot_without_efi_is_an_error() {
        let spec =
            json!({"domain": {"firmware": {"bootloader": {"efi": false, "secureBoot": true}}}});
        assert_eq!(error(spec).0, ErrorType::InvalidSpec);
    }

    #[rstest]
    #[case(json!({"features": {"acpi": false}, "firmware": {"bootloader": {"efi": true}}}), "spec.domain.features.acpi")]
    #[case(json!({"machine": {"type": "pc-i440fx"}, "firmware": {"bootloader": {"secureBoot": true}}}), "spec.domain.machine.type")]
    #[case(json!({"machine": {"type": "isapc"}}), "spec.domain.machine.type")]
    fn what_no_firmware_starts_on_is_an_error(#[case] domain: Value, #[case] path: &str) {
        assert_eq!(
            error(json!({"domain": domain})),
            (ErrorType::InvalidSpec, path.to_owned())
        );
    }

    #[rstest]
    #[case("pc-q35", "q35")]
    #[case("pc-q35-9.0", "pc-q35-9.0")]
    #[case("pc-i440fx", "pc-i440fx")]
    fn machine_types_are_named_as_qemu_does(#[case] written: &str, #[case] named: &str) {
        assert_eq!(
            domain(json!({"machine": {"type": written}}))
                .machine_type
                .as_deref(),
            Some(named)
        );
    }
}

mod passed_on {
    use super::*;

    #[test]
    fn are_labels_and_annotations_under_the_documented_prefixes() {
        let mut machine = machine(json!({}));
        let entries = [
            ("vitistack.io/zone", true),
            ("cluster.vitistack.io/cluster-name", true),
            ("notvitistack.io/x", false),
            ("vitistack.io.example.com/x", false),
            ("app", false),
            ("kubectl.kubernetes.io/last-applied-configuration", false),
        ];
        let all = entries.map(|(key, _)| (key.to_owned(), "v".to_owned()));
        machine.metadata.labels = Some(all.clone().into());
        machine.metadata.annotations = Some(all.into());
        let resolved = resolve(&machine, &cluster()).unwrap().machine;
        let expected: Vec<_> = entries
            .into_iter()
            .filter(|(_, passed)| *passed)
            .map(|(key, _)| key)
            .collect();
        let mut keys: Vec<_> = resolved.labels.keys().map(String::as_str).collect();
        keys.sort_by_key(|key| expected.iter().position(|e| e == key));
        assert_eq!(keys, expected);
        assert_eq!(resolved.labels, resolved.annotations);
    }
}

mod offline {
    use super::*;

    fn notes(spec: Value) -> Vec<String> {
        let resolution = resolve(&machine(spec), &Surroundings::default()).unwrap();
        resolution.notes.into_iter().map(|(path, _)| path).collect()
    }

    #[test]
    fn what_cannot_be_known_is_left_to_the_cluster_with_a_note() {
        let spec = json!({
            "disks": [{"name": "data", "size": "1Gi", "storageClass": "fast-ssd"}],
            "networks": [{"name": "a", "networkName": "somewhere"}],
            "cloudInit": {"secretRef": {"name": "s"}},
        });
        assert_eq!(
            notes(spec),
            [
                "spec",
                "spec.networks[0].networkName",
                "spec.disks",
                "spec.disks[0].storageClass",
                "spec.cloudInit.secretRef"
            ],
        );
    }

    #[test]
    fn the_namespace_of_a_copy_is_noted_when_it_is_not_known() {
        let mut machine =
            machine(json!({"disks": [{"name": "root", "source": {"pvc": {"name": "p"}}}]}));
        machine.metadata.namespace = None;
        let notes = resolve(&machine, &Surroundings::default()).unwrap().notes;
        assert!(
            notes
                .iter()
                .any(|(path, _)| path == "spec.disks[0].source.pvc.namespace"),
            "{notes:?}"
        );
    }

    #[test]
    fn a_class_that_is_not_at_hand_is_an_uncertain_error() {
        let errors = errors_in(
            &Surroundings::default(),
            json!({"template": "huge", "disks": [{"name": "a"}]}),
        );
        let found: Vec<_> = errors
            .iter()
            .map(|error| (error.error_type, error.certain))
            .collect();
        assert_eq!(found, [(ErrorType::TemplateNotFound, false)]);
    }
}

#[test]
fn all_errors_are_reported_at_once() {
    let errors = errors_in(
        &cluster(),
        json!({
            "name": "Nope",
            "template": "gigantic",
            "cpu": {"cores": 0},
            "memory": "none",
            "disks": [{"name": "a", "size": "b", "storageClass": "tape"}],
            "networks": [{"name": "a", "networkName": "lost", "macAddress": "x"}],
            "cloudInit": {"secretRef": {"name": "absent"}},
            "domain": {"firmware": {"bootloader": {"efi": false, "secureBoot": true}}},
        }),
    );
    let paths: Vec<_> = errors.iter().map(|error| error.path.as_str()).collect();
    assert_eq!(
        paths,
        [
            "spec.name",
            "spec.template",
            "spec.cpu.cores",
            "spec.memory",
            "spec.networks[0].macAddress",
            "spec.networks[0].networkName",
            "spec.disks[0].size",
            "spec.disks[0].storageClass",
            "spec.cloudInit.secretRef.name",
            "spec.domain.firmware.bootloader.secureBoot",
        ],
    );
}
