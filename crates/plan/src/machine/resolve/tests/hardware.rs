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
