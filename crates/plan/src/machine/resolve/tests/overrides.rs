//! Overrides of a size.

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

#[test]
fn no_bytes_of_memory_count_as_not_set() {
    assert_eq!(resolved(json!({"memory": 0})).memory, quantity("2Gi"));
}

#[rstest]
#[case(json!({"cpu": {"cores": 512, "sockets": 64}}), "spec")]
#[case(json!({"cpu": {"cores": 0}}), "spec.cpu.cores")]
#[case(json!({"cpu": {"threadsPerCore": -1}}), "spec.cpu.threadsPerCore")]
#[case(json!({"resources": {"cpu": {"sockets": 0}}}), "spec.resources.cpu.sockets")]
#[case(json!({"memory": -1}), "spec.memory")]
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
