//! CustomResourceDefinitions of KubeVirt.
//!
//! Names, versions, columns and subresources are those of KubeVirt v1.9.0. The schemas are our own:
//! they contain the required fields and the types of fields that the actors read, and preserve
//! unknown fields. The `KubeVirt` kind is installed by its operator.

mod schema;

use serde_json::{Value, json};

/// A kind and how `kubectl` shows it.
struct Definition {
    group: &'static str,
    kind: &'static str,
    plural: &'static str,
    short: &'static [&'static str],
    cluster: bool,
    /// The stored version first.
    versions: &'static [&'static str],
    columns: &'static [Column],
    status: bool,
    scale: bool,
    schema: fn() -> Value,
}

/// Name, type, JSON path, priority and description of a column.
type Column = (&'static str, &'static str, &'static str, u8, &'static str);

const AGE: Column = ("Age", "date", ".metadata.creationTimestamp", 0, "");
const READY: Column = (
    "Ready",
    "string",
    ".status.conditions[?(@.type=='Ready')].status",
    0,
    "",
);
const CORE_VERSIONS: &[&str] = &["v1", "v1alpha3"];
const SNAPSHOT_VERSIONS: &[&str] = &["v1beta1", "v1alpha1"];
const INSTANCETYPE_VERSIONS: &[&str] = &["v1beta1"];

const VM_COLUMNS: &[Column] = &[
    AGE,
    (
        "Status",
        "string",
        ".status.printableStatus",
        0,
        "Human Readable Status",
    ),
    READY,
];
const VMI_COLUMNS: &[Column] = &[
    AGE,
    ("Phase", "string", ".status.phase", 0, ""),
    ("IP", "string", ".status.interfaces[0].ipAddress", 0, ""),
    ("NodeName", "string", ".status.nodeName", 0, ""),
    READY,
    (
        "Live-Migratable",
        "string",
        ".status.conditions[?(@.type=='LiveMigratable')].status",
        1,
        "",
    ),
    (
        "Paused",
        "string",
        ".status.conditions[?(@.type=='Paused')].status",
        1,
        "",
    ),
];
const MIGRATION_COLUMNS: &[Column] = &[
    (
        "Phase",
        "string",
        ".status.phase",
        0,
        "The current phase of VM instance migration",
    ),
    (
        "VMI",
        "string",
        ".spec.vmiName",
        0,
        "The name of the VMI to perform the migration on",
    ),
];
const REPLICA_SET_COLUMNS: &[Column] = &[
    (
        "Desired",
        "integer",
        ".spec.replicas",
        0,
        "Number of desired VirtualMachineInstances",
    ),
    (
        "Current",
        "integer",
        ".status.replicas",
        0,
        "Number of managed and not final or deleted VirtualMachineInstances",
    ),
    (
        "Ready",
        "integer",
        ".status.readyReplicas",
        0,
        "Number of managed VirtualMachineInstances which are ready to receive traffic",
    ),
    AGE,
];
const CREATION: Column = ("CreationTime", "date", ".status.creationTime", 0, "");
const ERROR: Column = ("Error", "string", ".status.error.message", 0, "");
const USABLE: Column = ("ReadyToUse", "boolean", ".status.readyToUse", 0, "");
const SNAPSHOT_COLUMNS: &[Column] = &[
    ("SourceKind", "string", ".spec.source.kind", 0, ""),
    ("SourceName", "string", ".spec.source.name", 0, ""),
    ("Phase", "string", ".status.phase", 0, ""),
    USABLE,
    CREATION,
    ERROR,
];
const RESTORE_COLUMNS: &[Column] = &[
    ("TargetKind", "string", ".spec.target.kind", 0, ""),
    ("TargetName", "string", ".spec.target.name", 0, ""),
    ("Complete", "boolean", ".status.complete", 0, ""),
    ("RestoreTime", "date", ".status.restoreTime", 0, ""),
];

const CORE: Definition = Definition {
    group: "kubevirt.io",
    kind: "",
    plural: "",
    short: &[],
    cluster: false,
    versions: CORE_VERSIONS,
    columns: &[],
    status: true,
    scale: false,
    schema: schema::anything,
};
const SNAPSHOT: Definition = Definition {
    group: "snapshot.kubevirt.io",
    versions: SNAPSHOT_VERSIONS,
    ..CORE
};
const INSTANCETYPE: Definition = Definition {
    group: "instancetype.kubevirt.io",
    versions: INSTANCETYPE_VERSIONS,
    status: false,
    ..CORE
};

const DEFINITIONS: &[Definition] = &[
    Definition {
        kind: "VirtualMachine",
        plural: "virtualmachines",
        short: &["vm", "vms"],
        columns: VM_COLUMNS,
        schema: schema::vm,
        ..CORE
    },
    Definition {
        kind: "VirtualMachineInstance",
        plural: "virtualmachineinstances",
        short: &["vmi", "vmis"],
        columns: VMI_COLUMNS,
        // No status subresource: KubeVirt writes status and labels of a VMI together.
        status: false,
        schema: schema::vmi,
        ..CORE
    },
    Definition {
        kind: "VirtualMachineInstanceMigration",
        plural: "virtualmachineinstancemigrations",
        short: &["vmim", "vmims"],
        columns: MIGRATION_COLUMNS,
        schema: schema::migration,
        ..CORE
    },
    Definition {
        kind: "VirtualMachineInstanceReplicaSet",
        plural: "virtualmachineinstancereplicasets",
        short: &["vmirs", "vmirss"],
        columns: REPLICA_SET_COLUMNS,
        scale: true,
        schema: schema::replica_set,
        ..CORE
    },
    Definition {
        kind: "VirtualMachineSnapshot",
        plural: "virtualmachinesnapshots",
        short: &["vmsnapshot", "vmsnapshots"],
        columns: SNAPSHOT_COLUMNS,
        schema: schema::snapshot,
        ..SNAPSHOT
    },
    Definition {
        kind: "VirtualMachineSnapshotContent",
        plural: "virtualmachinesnapshotcontents",
        short: &["vmsnapshotcontent", "vmsnapshotcontents"],
        columns: &[USABLE, CREATION, ERROR],
        schema: schema::snapshot_content,
        ..SNAPSHOT
    },
    Definition {
        kind: "VirtualMachineRestore",
        plural: "virtualmachinerestores",
        short: &["vmrestore", "vmrestores"],
        columns: RESTORE_COLUMNS,
        schema: schema::restore,
        ..SNAPSHOT
    },
    Definition {
        kind: "VirtualMachineInstancetype",
        plural: "virtualmachineinstancetypes",
        short: &["vminstancetype", "vminstancetypes", "vmf", "vmfs"],
        schema: schema::instancetype,
        ..INSTANCETYPE
    },
    Definition {
        kind: "VirtualMachineClusterInstancetype",
        plural: "virtualmachineclusterinstancetypes",
        short: &[
            "vmclusterinstancetype",
            "vmclusterinstancetypes",
            "vmcf",
            "vmcfs",
        ],
        cluster: true,
        schema: schema::instancetype,
        ..INSTANCETYPE
    },
    Definition {
        kind: "VirtualMachinePreference",
        plural: "virtualmachinepreferences",
        short: &["vmpref", "vmprefs", "vmp", "vmps"],
        ..INSTANCETYPE
    },
    Definition {
        kind: "VirtualMachineClusterPreference",
        plural: "virtualmachineclusterpreferences",
        short: &["vmcp", "vmcps"],
        cluster: true,
        ..INSTANCETYPE
    },
];

pub fn crds() -> Vec<Value> {
    DEFINITIONS.iter().map(Definition::render).collect()
}

impl Definition {
    fn render(&self) -> Value {
        let mut names = json!({
            "kind": self.kind,
            "listKind": format!("{}List", self.kind),
            "plural": self.plural,
            "singular": self.kind.to_lowercase(),
            "shortNames": self.short,
        });
        // `kubectl get all` lists namespaced kinds.
        if let (false, Some(names)) = (self.cluster, names.as_object_mut()) {
            names.insert("categories".to_owned(), json!(["all"]));
        }
        let versions: Vec<Value> = self
            .versions
            .iter()
            .enumerate()
            .map(|(index, version)| self.version(version, index == 0))
            .collect();
        json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": { "name": format!("{}.{}", self.plural, self.group) },
            "spec": {
                "group": self.group,
                "names": names,
                "scope": if self.cluster { "Cluster" } else { "Namespaced" },
                "versions": versions,
            },
        })
    }

    fn version(&self, name: &str, storage: bool) -> Value {
        let columns: Vec<Value> = self.columns.iter().map(column).collect();
        let mut subresources = serde_json::Map::new();
        if self.status {
            subresources.insert("status".to_owned(), json!({}));
        }
        if self.scale {
            let scale = json!({
                "labelSelectorPath": ".status.labelSelector",
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas",
            });
            subresources.insert("scale".to_owned(), scale);
        }
        let mut version = json!({
            "name": name,
            "served": true,
            "storage": storage,
            "schema": { "openAPIV3Schema": (self.schema)() },
        });
        let Some(fields) = version.as_object_mut() else {
            return version;
        };
        if !columns.is_empty() {
            fields.insert("additionalPrinterColumns".to_owned(), columns.into());
        }
        if !subresources.is_empty() {
            fields.insert("subresources".to_owned(), subresources.into());
        }
        if name == "v1alpha3" {
            let warning = "kubevirt.io/v1alpha3 is now deprecated and will be removed in a future \
                           release.";
            fields.insert("deprecated".to_owned(), true.into());
            fields.insert("deprecationWarning".to_owned(), warning.into());
        }
        version
    }
}

fn column((name, of_type, path, priority, description): &Column) -> Value {
    let mut column = json!({ "name": name, "type": of_type, "jsonPath": path });
    if let Some(fields) = column.as_object_mut() {
        if *priority > 0 {
            fields.insert("priority".to_owned(), (*priority).into());
        }
        if !description.is_empty() {
            fields.insert("description".to_owned(), (*description).into());
        }
    }
    column
}
