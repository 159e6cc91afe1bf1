//! Validation of the spec of a VMI.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{
    Cause,
    credentials::credential_causes,
    devices::{disk_causes, volume_causes},
    network::network_causes,
};
use crate::{
    kubevirt::amount::units,
    object::{list, text},
};

/// All causes for a defaulted spec.
pub(super) fn instance_causes(field: &str, spec: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    causes.extend(hostname_causes(field, spec));
    causes.extend(resource_causes(field, spec));
    causes.extend(machine_cause(field, spec));
    causes.extend(strategy_causes(field, spec));
    causes.extend(network_causes(field, spec));
    causes.extend(boot_causes(field, spec));
    causes.extend(disk_causes(&format!("{field}.domain.devices.disks"), spec));
    causes.extend(firmware_causes(&format!("{field}.domain"), spec));
    causes.extend(volume_causes(&format!("{field}.volumes"), spec));
    causes.extend(credential_causes(
        &format!("{field}.accessCredentials"),
        spec,
    ));
    causes
}

fn hostname_causes(field: &str, spec: &Value) -> Option<Cause> {
    let hostname = text(spec, "/hostname");
    let problems = if hostname.is_empty() {
        Vec::new()
    } else {
        label_problems(hostname)
    };
    (!problems.is_empty()).then(|| {
        let field = format!("{field}.hostname");
        let message = format!(
            "{field} does not conform to the kubernetes DNS_LABEL rules : {}",
            problems.join(", ")
        );
        Cause::invalid(field, message)
    })
}

/// Problems of a DNS label, with the messages of the API machinery.
pub(super) fn label_problems(label: &str) -> Vec<&'static str> {
    let alphanumeric = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let mut problems = Vec::new();
    if label.len() > 63 {
        problems.push("must be no more than 63 bytes");
    }
    let bytes = label.as_bytes();
    let well_formed = bytes.first().copied().is_some_and(alphanumeric)
        && bytes.last().copied().is_some_and(alphanumeric)
        && bytes
            .iter()
            .all(|byte| alphanumeric(*byte) || *byte == b'-');
    if !well_formed {
        problems.push(
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', \
             and must start and end with an alphanumeric character (e.g. 'my-name',  or \
             '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
        );
    }
    problems
}

fn resource_causes(field: &str, spec: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    for resource in ["memory", "cpu"] {
        let amount = |kind: &str| units(spec, &format!("/domain/resources/{kind}/{resource}"));
        let shown = |kind: &str| {
            let given = spec.pointer(&format!("/domain/resources/{kind}/{resource}"));
            given.and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let path = |kind: &str| format!("{field}.domain.resources.{kind}.{resource}");
        for kind in ["limits", "requests"] {
            if amount(kind).is_some_and(|amount| amount < 0) {
                let message = format!(
                    "{} '{}': must be greater than or equal to 0.",
                    path(kind),
                    shown(kind)
                );
                causes.push(Cause::invalid(path(kind), message));
            }
        }
        if let (Some(request), Some(limit)) = (amount("requests"), amount("limits"))
            && limit > 0
            && request > limit
        {
            let message = format!(
                "{} '{}' is greater than {} '{}'",
                path("requests"),
                shown("requests"),
                path("limits"),
                shown("limits")
            );
            causes.push(Cause::invalid(path("requests"), message));
        }
    }
    let request = units(spec, "/domain/resources/requests/memory");
    if request.is_some_and(|request| (1..1_000_000).contains(&request)) {
        let field = format!("{field}.domain.resources.requests.memory");
        let shown = text(spec, "/domain/resources/requests/memory");
        let message = format!("{field} '{shown}': must be greater than or equal to 1M.");
        causes.push(Cause::invalid(field, message));
    }
    causes
}

fn machine_cause(field: &str, spec: &Value) -> Option<Cause> {
    let machine = text(spec, "/domain/machine/type");
    let allowed: &[&str] = match text(spec, "/architecture") {
        "arm64" => &["virt"],
        "s390x" => &["s390-ccw-virtio"],
        _ => &["q35", "pc-q35"],
    };
    if machine.is_empty() || allowed.iter().any(|prefix| machine.starts_with(prefix)) {
        return None;
    }
    let field = format!("{field}.domain.machine.type");
    let allowed: Vec<String> = allowed.iter().map(|prefix| format!("{prefix}*")).collect();
    let message = format!(
        "{field} is not supported: {machine} (allowed values: [{}])",
        allowed.join(" ")
    );
    Some(Cause::invalid(field, message))
}

fn strategy_causes(field: &str, spec: &Value) -> Vec<Cause> {
    let known: [(&str, &[&str]); 2] = [
        ("startStrategy", &["Paused"]),
        (
            "evictionStrategy",
            &["LiveMigrate", "LiveMigrateIfPossible", "None", "External"],
        ),
    ];
    let mut causes = Vec::new();
    for (name, options) in known {
        let given = text(spec, &format!("/{name}"));
        if !given.is_empty() && !options.contains(&given) {
            let field = format!("{field}.{name}");
            let message = format!("{field} is set with an unrecognized option: {given}");
            causes.push(Cause::invalid(field, message));
        }
    }
    causes
}

/// Disks and interfaces share one boot order.
fn boot_causes(field: &str, spec: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let mut orders = BTreeSet::new();
    let disks = list(spec, "/domain/devices/disks");
    let volumes = list(spec, "/volumes");
    for (index, disk) in disks.iter().enumerate() {
        let name = text(disk, "/name");
        let path = format!("{field}.domain.devices.disks[{index}]");
        if !volumes.iter().any(|volume| text(volume, "/name") == name) {
            if disk.get("cdrom").is_none() {
                let message = format!("{path}.Name '{name}' not found.");
                causes.push(Cause::invalid(format!("{path}.name"), message));
            } else {
                let message = "DeclarativeHotplugVolumes feature gate not enabled, cannot define \
                               an empty CD-ROM disk";
                causes.push(Cause::invalid(format!("{path}.name"), message));
            }
        }
        causes.extend(boot_order_cause(&path, disk, &mut orders));
    }
    for (index, interface) in list(spec, "/domain/devices/interfaces").iter().enumerate() {
        let path = format!("{field}.domain.devices.interfaces[{index}]");
        if let Some(order) = interface.get("bootOrder").and_then(Value::as_i64)
            && order < 1
        {
            let message = format!("{field}[{index}] must have a boot order > 0, if supplied");
            causes.push(Cause::invalid(
                format!("{field}[{index}].bootOrder"),
                message,
            ));
            continue;
        }
        causes.extend(boot_order_cause(&path, interface, &mut orders));
    }
    causes
}

fn boot_order_cause(path: &str, device: &Value, orders: &mut BTreeSet<i64>) -> Option<Cause> {
    let order = device.get("bootOrder").and_then(Value::as_i64)?;
    (!orders.insert(order)).then(|| {
        let field = format!("{path}.bootOrder");
        let message = format!("Boot order for {field} already set for a different device.");
        Cause::invalid(field, message)
    })
}

fn firmware_causes(field: &str, spec: &Value) -> Vec<Cause> {
    let bootloader = spec.pointer("/domain/firmware/bootloader");
    let loader = |name: &str| {
        bootloader
            .and_then(|loader| loader.get(name))
            .filter(|loader| !loader.is_null())
    };
    let mut causes = Vec::new();
    if loader("efi").is_some() && loader("bios").is_some() {
        let field = format!("{field}.firmware.bootloader");
        let message =
            format!("{field} has both EFI and BIOS configured, but they are mutually exclusive.");
        causes.push(Cause::invalid(field, message));
    }
    let enabled = |feature: Option<&Value>, key: &str| {
        feature.is_some_and(|feature| feature.get(key) != Some(&json!(false)))
    };
    let smm = spec
        .pointer("/domain/features/smm")
        .filter(|smm| !smm.is_null());
    let tdx = spec
        .pointer("/domain/launchSecurity/tdx")
        .is_some_and(|tdx| !tdx.is_null());
    if enabled(loader("efi"), "secureBoot") && !enabled(smm, "enabled") && !tdx {
        let message = format!(
            "{field} has EFI SecureBoot enabled. SecureBoot requires SMM, which is currently \
             disabled."
        );
        causes.push(Cause::invalid(field, message));
    }
    causes
}
