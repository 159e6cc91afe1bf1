//! Validation of disks and volumes.

use serde_json::Value;

use super::{Cause, instance::label_problems};
use crate::object::{list, text, truth};

/// Size limit of inline cloud-init data, in bytes.
const CLOUD_INIT_LIMIT: usize = 2048;

const SOURCES: &[&str] = &[
    "persistentVolumeClaim",
    "sysprep",
    "cloudInitNoCloud",
    "cloudInitConfigDrive",
    "containerDisk",
    "ephemeral",
    "emptyDisk",
    "hostDisk",
    "dataVolume",
    "configMap",
    "secret",
    "downwardAPI",
    "serviceAccount",
    "downwardMetrics",
    "memoryDump",
    "containerPath",
];

pub(super) fn disk_causes(field: &str, spec: &Value) -> Vec<Cause> {
    let disks = list(spec, "/domain/devices/disks");
    let mut causes = Vec::new();
    for (index, disk) in disks.iter().enumerate() {
        let path = format!("{field}[{index}]");
        let name = text(disk, "/name");
        for (other, _) in disks
            .iter()
            .enumerate()
            .take(index)
            .filter(|(_, other)| text(other, "/name") == name)
        {
            let message = format!("{path} and {field}[{other}] must not have the same Name.");
            causes.push(Cause::invalid(format!("{path}.name"), message));
        }
        let targets = ["disk", "lun", "cdrom"];
        if targets
            .iter()
            .filter(|target| disk.get(**target).is_some())
            .count()
            > 1
        {
            let message = format!("{path} can only have a single target type defined");
            causes.push(Cause::invalid(path.clone(), message));
        }
        if disk
            .get("bootOrder")
            .and_then(Value::as_i64)
            .is_some_and(|order| order < 1)
        {
            let message = format!("{path} must have a boot order > 0, if supplied");
            causes.push(Cause::invalid(format!("{path}.bootOrder"), message));
        }
        causes.extend(bus_cause(&path, disk));
        for problem in label_problems(name) {
            let field = format!("{field}.domain.devices.disks[{index}].name");
            causes.push(Cause::invalid(field, problem));
        }
    }
    causes
}

fn bus_cause(path: &str, disk: &Value) -> Option<Cause> {
    let target = ["disk", "lun", "cdrom"]
        .into_iter()
        .find(|target| disk.get(target).is_some())?;
    let bus = text(disk, &format!("/{target}/bus"));
    let field = format!("{path}.{target}.bus");
    match bus {
        "ide" => Some(Cause::invalid(field, "IDE bus is not supported")),
        "virtio" if target == "cdrom" => {
            let message = format!("Bus type {bus} is invalid for CD-ROM device");
            Some(Cause::invalid(field, message))
        }
        "sata" if truth(disk, "/disk/readonly") => {
            let message = format!("{bus} hard-disks do not support read-only.");
            Some(Cause::invalid(field, message))
        }
        "" | "virtio" | "sata" | "scsi" | "usb" => None,
        _ => {
            let message = format!(
                "{path} is set with an unrecognized bus {bus}, must be one of: [virtio scsi sata \
                 usb]"
            );
            Some(Cause::invalid(field, message))
        }
    }
}

pub(super) fn volume_causes(field: &str, spec: &Value) -> Vec<Cause> {
    let volumes = list(spec, "/volumes");
    let mut causes = Vec::new();
    for (index, volume) in volumes.iter().enumerate() {
        let path = format!("{field}[{index}]");
        let name = text(volume, "/name");
        let first = volumes
            .iter()
            .position(|other| text(other, "/name") == name);
        if let Some(first) = first.filter(|first| *first < index) {
            let message = format!("{path} and {field}[{first}] must not have the same Name.");
            causes.push(Cause::invalid(format!("{path}.name"), message));
        }
        let given = |source: &str| volume.get(source).is_some_and(|source| !source.is_null());
        if given("dataVolume") && text(volume, "/dataVolume/name").is_empty() {
            causes.push(Cause::required(
                format!("{path}.name"),
                "DataVolume 'name' must be set",
            ));
        }
        if SOURCES.iter().filter(|source| given(source)).count() != 1 {
            let message = format!("{path} must have exactly one source type set");
            causes.push(Cause::invalid(path.clone(), message));
        }
        for source in ["cloudInitNoCloud", "cloudInitConfigDrive"] {
            if let Some(data) = volume.get(source).filter(|data| !data.is_null()) {
                causes.extend(cloud_init_causes(&format!("{path}.{source}"), data));
            }
        }
    }
    causes
}

fn cloud_init_causes(field: &str, data: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let mut sources = 0;
    for (secret, plain, what, single, hint) in [
        (
            "/secretRef/name",
            "userData",
            "userdata",
            "userdatasource",
            "UserDataSecretRef",
        ),
        (
            "/networkDataSecretRef/name",
            "networkData",
            "networkdata",
            "networkdata source",
            "NetworkDataSecretRef",
        ),
    ] {
        let inline = text(data, &format!("/{plain}"));
        let encoded = text(data, &format!("/{plain}Base64"));
        let given = [text(data, secret), encoded, inline]
            .iter()
            .filter(|source| !source.is_empty())
            .count();
        sources += given;
        if given > 1 {
            let message = format!("{field} must have only one {single} set.");
            causes.push(Cause::invalid(field, message));
        }
        let decoded = encoded.trim_end_matches('=').len() * 3 / 4;
        if inline.len().max(decoded) > CLOUD_INIT_LIMIT {
            let message = format!(
                "{field} {what} exceeds {CLOUD_INIT_LIMIT} byte limit. Should use {hint} for \
                 larger data."
            );
            causes.push(Cause::invalid(field, message));
        }
    }
    if sources == 0 {
        let message =
            format!("{field} must have at least one userdatasource or one networkdatasource set.");
        causes.push(Cause::invalid(field, message));
    }
    causes
}
