//! Status fields of Machines that only the operators of other providers write.
//!
//! A cluster has one definition of Machines for all providers. These fields are in the schema, so that the API
//! server keeps what those operators write, and in no type, since this operator neither reads nor writes them.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps, JSONSchemaPropsOrArray,
};

const TEXT: &str = "string";
const INTEGER: &str = "integer";

/// Path to the schema, name, type and description. `[]` means the items of a list.
const FIELDS: [(&[&str], &str, &str, &str); 17] = [
    (&[], "message", TEXT, "Detailed status message"),
    (&[], "architecture", TEXT, "CPU architecture of the machine"),
    (&[], "kernelVersion", TEXT, "Version of the kernel"),
    (
        &[],
        "operatingSystemVersion",
        TEXT,
        "Version of the operating system",
    ),
    (
        &[],
        "providerID",
        TEXT,
        "Identifier of the machine at its provider",
    ),
    (&[], "region", TEXT, "Region of the machine"),
    (&[], "zone", TEXT, "Availability zone of the machine"),
    (&DISK, "type", TEXT, "Type of the disk, such as SSD"),
    (&DISK, "label", TEXT, "Label of the file system"),
    (&DISK, "serialNumber", TEXT, "Serial number of the disk"),
    (&DISK, "filesystemType", TEXT, "Type of the file system"),
    (
        &DISK,
        "mountPoint",
        TEXT,
        "Where the file system is mounted",
    ),
    (&DISK, "volumeMode", TEXT, "Volume mode of the claim"),
    (&DISK, "usedBytes", INTEGER, "Used bytes"),
    (&DISK, "availableBytes", INTEGER, "Available bytes"),
    (&DISK, "usagePercent", TEXT, "Used share, such as 75.5%"),
    (&INTERFACE, "mtu", INTEGER, "Maximum transmission unit"),
];
const TIMES: [(&str, &str); 2] = [
    ("bootTime", "Time when the machine booted"),
    ("creationTime", "Time when the machine was created"),
];
const DISK: [&str; 2] = ["disks", "[]"];
const INTERFACE: [&str; 2] = ["networkInterfaces", "[]"];

/// Adds the fields to the schema of Machines, and requires no field of a condition but its type, the key of
/// their list: other operators leave fields out.
pub(super) fn accept(machine: &mut JSONSchemaProps) {
    for (path, name, type_, description) in FIELDS {
        insert(machine, path, name, field(type_, description));
    }
    for (name, description) in TIMES {
        let mut time = field(TEXT, description);
        time.format = Some("date-time".to_owned());
        insert(machine, &[], name, time);
    }
    let mut modes = field("array", "Access modes of the claim");
    modes.items = Some(JSONSchemaPropsOrArray::Schema(Box::new(of_type(TEXT))));
    insert(machine, &DISK, "accessModes", modes);
    if let Some(condition) = status(machine, &["conditions", "[]"]) {
        condition.required = Some(vec!["type".to_owned()]);
    }
}

fn of_type(type_: &str) -> JSONSchemaProps {
    JSONSchemaProps {
        type_: Some(type_.to_owned()),
        ..JSONSchemaProps::default()
    }
}

fn field(type_: &str, description: &str) -> JSONSchemaProps {
    JSONSchemaProps {
        description: Some(format!("{description}. For other providers.")),
        ..of_type(type_)
    }
}

fn insert(machine: &mut JSONSchemaProps, path: &[&str], name: &str, field: JSONSchemaProps) {
    let fields = status(machine, path).and_then(|schema| schema.properties.as_mut());
    if let Some(fields) = fields {
        fields.insert(name.to_owned(), field);
    }
}

/// The schema at a path in the status.
fn status<'a>(machine: &'a mut JSONSchemaProps, path: &[&str]) -> Option<&'a mut JSONSchemaProps> {
    let mut schema = machine.properties.as_mut()?.get_mut("status")?;
    for name in path {
        schema = match (*name, &mut schema.items) {
            ("[]", Some(JSONSchemaPropsOrArray::Schema(items))) => items,
            ("[]", _) => return None,
            _ => schema.properties.as_mut()?.get_mut(*name)?,
        };
    }
    Some(schema)
}
