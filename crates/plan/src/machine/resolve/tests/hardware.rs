//! Virtual hardware.

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
    let spec = json!({"domain": {"firmware": {"bootloader": {"efi": false, "secureBoot": true}}}});
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

fn vm(spec: Value) -> Value {
    let vm = crate::machine::build(&resolved(spec)).virtual_machine;
    serde_json::to_value(vm.spec.template.spec).unwrap()
}

#[test]
fn devices_are_those_of_kubevirt() {
    let gpu = json!([{"name": "gpu", "deviceName": "nvidia.com/A10"}]);
    let nic = json!([{"name": "nic", "deviceName": "intel.com/qat"}]);
    let instance = vm(json!({"domain": {
        "tpm": {"persistent": true}, "gpus": gpu, "hostDevices": nic, "rng": true,
        "watchdog": {}, "hugepages": "2Mi", "dedicatedCpus": true,
        "firmware": {"uuid": "6A1F0B4E-3d0e-4d51-9d8f-0c4d2c4a8f5b", "serial": "SN-1"},
    }}));
    let domain = &instance["domain"];
    let devices = &domain["devices"];
    assert_eq!(devices["tpm"], json!({"persistent": true}));
    assert_eq!((&devices["gpus"], &devices["hostDevices"]), (&gpu, &nic));
    assert_eq!(devices["rng"], json!({}));
    let watchdog = json!({"name": "watchdog", "i6300esb": {"action": "reset"}});
    assert_eq!(devices["watchdog"], watchdog);
    assert_eq!(domain["memory"]["hugepages"], json!({"pageSize": "2Mi"}));
    assert_eq!(domain["cpu"]["dedicatedCpuPlacement"], true);
    let firmware = json!({"uuid": "6a1f0b4e-3d0e-4d51-9d8f-0c4d2c4a8f5b", "serial": "SN-1"});
    assert_eq!(domain["firmware"], firmware);
}

#[rstest]
#[case(json!({}), true)]
#[case(json!({"tpm": {}}), true)]
#[case(json!({"tpm": {"persistent": true}}), false)]
#[case(json!({"gpus": [{"name": "a", "deviceName": "b"}]}), false)]
#[case(json!({"hostDevices": [{"name": "a", "deviceName": "b"}]}), false)]
fn devices_of_a_node_and_kept_state_do_not_migrate(#[case] domain: Value, #[case] migrates: bool) {
    let disk = json!({"name": "root", "accessMode": "ReadWriteMany"});
    let instance = vm(json!({"domain": domain, "disks": [disk]}));
    assert_eq!(instance["evictionStrategy"] == "LiveMigrate", migrates);
}

#[rstest]
#[case(json!({"gpus": [{"name": "A", "deviceName": "x"}]}), "spec.domain.gpus[0].name")]
#[case(json!({"gpus": [{"name": "a", "deviceName": "x y"}]}), "spec.domain.gpus[0].deviceName")]
#[case(
    json!({"gpus": [{"name": "a", "deviceName": "x"}], "hostDevices": [{"name": "a", "deviceName": "y"}]}),
    "spec.domain.hostDevices[0].name"
)]
#[case(json!({"firmware": {"uuid": "6a1f0b4e"}}), "spec.domain.firmware.uuid")]
fn devices_that_kubevirt_would_refuse_are_errors(#[case] domain: Value, #[case] path: &str) {
    assert_eq!(error(json!({"domain": domain})).1, path);
}

#[rstest]
#[case("1Gi", "2Gi", true)]
#[case("1Gi", "1536Mi", false)]
#[case("2Mi", "1536Mi", true)]
#[case("2Mi", "1025Mi", false)]
fn memory_is_a_multiple_of_its_pages(
    #[case] pages: &str,
    #[case] memory: &str,
    #[case] fits: bool,
) {
    let spec = json!({"domain": {"hugepages": pages}, "memory": memory});
    let resolved = resolve(&machine(spec), &cluster());
    assert_eq!(resolved.is_ok(), fits);
    if let Err(errors) = resolved {
        assert_eq!(errors[0].path, "spec.domain.hugepages");
    }
}
