//! Sizes.

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

fn with_classes(classes: impl IntoIterator<Item = (String, Arc<MachineClass>)>) -> Surroundings {
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
fn a_disabled_class_is_refused() {
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
fn a_class_of_other_providers_is_refused() {
    let spec = json!({"machineProviders": ["proxmox"], "cpu": {"cores": 3}, "memory": {"quantity": "3Gi"}});
    let classes = with_classes([class("metal", spec)]);
    assert_eq!(
        errors_in(&classes, json!({"machineClass": "metal"}))[0].error_type,
        ErrorType::TemplateNotFound
    );
}

#[test]
fn a_default_class_of_other_providers_is_ignored() {
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
    let with_disk = json!({"machineClass": "bare", "disks": [{"name": "system", "size": "9Gi"}]});
    assert_eq!(
        disk_sizes(&resolved_in(&classes, with_disk)),
        [("system", "9Gi".to_owned())]
    );
}

#[test]
fn a_class_with_gpu_cores_is_refused() {
    let spec = json!({"cpu": {"cores": 1}, "memory": {"quantity": "1Gi"}, "gpu": {"cores": 4}});
    let errors = errors_in(
        &with_classes([class("c3", spec)]),
        json!({"machineClass": "c3"}),
    );
    assert_eq!(
        errors[0].message,
        "MachineClass \"c3\": spec.gpu.cores: asks for GPU cores, which this operator does not support: choose another class"
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
fn errors_of_a_class_are_reported_at_the_field_that_names_it(#[case] spec: Value) {
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
