//! Boot order.

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
fn an_order_without_matching_devices_is_the_boot_disk(#[case] order: Value) {
    assert_eq!(numbers(json!({"bootOrder": order})).0, [Some(1)]);
}

#[test]
fn a_device_kind_without_devices_is_skipped() {
    assert_eq!(
        numbers(json!({"bootOrder": ["cdrom", "disk"]})).0,
        [Some(1)]
    );
}
