//! Property tests from a document to its objects.

use std::{collections::BTreeSet, sync::Arc};

use kubevirt_operator::{documents, manifests::Kind, schemas, yaml};
use plan::Quantity;
use plan::machine::{ErrorType, MachineObjects, ResolvedMachine, Surroundings, build, resolve};
use proptest::{collection, option, prelude::*, sample::select};
use serde_json::{Map, Value, json};

use super::{manifests as files, root};

#[path = "../../../../fuzz/validate_and_render.rs"]
mod validate_and_render;
use validate_and_render::validate_and_render;

/// Object with a subset of fields.
fn some_of(fields: Vec<(&'static str, BoxedStrategy<Value>)>) -> BoxedStrategy<Value> {
    let (names, values): (Vec<_>, Vec<_>) = fields.into_iter().unzip();
    let values: Vec<_> = values.into_iter().map(option::of).collect();
    values
        .prop_map(move |values| {
            let fields = names.iter().zip(values);
            let given = fields.filter_map(|(name, value)| Some(((*name).to_owned(), value?)));
            Value::Object(given.collect::<Map<_, _>>())
        })
        .boxed()
}

fn one_of(words: &'static [&'static str]) -> BoxedStrategy<Value> {
    select(words).prop_map(Value::from).boxed()
}

fn with(mut object: Value, name: &str, value: impl Into<Value>) -> Value {
    object[name] = value.into();
    object
}

/// Mostly valid quantities, and some invalid ones.
fn quantity() -> BoxedStrategy<Value> {
    prop_oneof![
        12 => (1_u32..5000, select(&["Mi", "Gi", "Ti", "M", "G"][..])).prop_map(|(n, s)| format!("{n}{s}")),
        1 => (1_u32..100, 0_u32..100).prop_map(|(n, f)| format!("{n}.{f}Gi")),
        1 => select(&["0", "-1Gi", "1GB", "", "1e9"][..]).prop_map(str::to_owned),
    ]
    .prop_map(Value::from)
    .boxed()
}

fn source() -> BoxedStrategy<Value> {
    prop_oneof![
        Just(json!({"blank": {}})),
        Just(json!({"http": {"url": "https://example.com/a.qcow2"}})),
        Just(json!({"registry": {"url": "docker://example.com/a", "pullMethod": "node"}})),
        Just(json!({"pvc": {"name": "golden", "namespace": "images"}})),
        Just(json!({"snapshot": {"name": "golden"}})),
        Just(json!({"ref": {"name": "golden"}})),
    ]
    .boxed()
}

fn disk() -> BoxedStrategy<Value> {
    let fields = some_of(vec![
        ("size", quantity()),
        ("storageClass", one_of(&["default", "fast-ssd"])),
        (
            "accessMode",
            one_of(&["ReadWriteOnce", "ReadWriteMany", "ReadOnlyMany"]),
        ),
        ("volumeMode", one_of(&["Filesystem", "Block"])),
        ("type", one_of(&["disk", "disk", "disk", "cdrom"])),
        ("bus", one_of(&["sata", "scsi", "virtio"])),
        ("source", source()),
    ]);
    ("[a-z][a-z0-9]{0,3}|root|data", fields)
        .prop_map(|(name, disk)| with(disk, "name", name))
        .boxed()
}

fn network() -> BoxedStrategy<Value> {
    let fields = some_of(vec![
        ("model", one_of(&["virtio", "e1000", "rtl8139"])),
        (
            "macAddress",
            "[0-9a-f][02468ace](:[0-9a-f]{2}){5}"
                .prop_map(Value::from)
                .boxed(),
        ),
    ]);
    ("eth[0-9]", "[a-z]{1,8}net", fields)
        .prop_map(|(name, network, nic)| with(with(nic, "name", name), "networkName", network))
        .boxed()
}

fn list(item: BoxedStrategy<Value>) -> BoxedStrategy<Value> {
    collection::vec(item, 0..5).prop_map(Value::from).boxed()
}

fn spec() -> BoxedStrategy<Value> {
    let count = || (1..8_i32).prop_map(Value::from).boxed();
    let bools = || any::<bool>().prop_map(Value::from).boxed();
    let cpu = some_of(vec![
        ("cores", count()),
        ("sockets", count()),
        ("threadsPerCore", count()),
    ]);
    let nested = some_of(vec![
        (
            "cpu",
            some_of(vec![
                ("cores", count()),
                ("sockets", count()),
                ("threads", count()),
            ]),
        ),
        ("memory", some_of(vec![("size", quantity())])),
    ]);
    let bytes = (1_i64 << 20..1 << 45).prop_map(Value::from).boxed();
    let overrides = prop_oneof![
        4 => Just(json!({})),
        2 => nested.prop_map(|resources| json!({"resources": resources})),
        2 => some_of(vec![("cpu", cpu), ("memory", prop_oneof![quantity(), bytes].boxed())]),
    ];
    let sizing = prop_oneof![
        Just(json!({})),
        select(&["small", "medium", "large"][..]).prop_map(|name| json!({"template": name})),
        select(&["small", "medium", "large"][..]).prop_map(|name| json!({"instanceType": name})),
    ];
    let domain = some_of(vec![
        (
            "machine",
            some_of(vec![("type", one_of(&["pc-q35", "pc-i440fx", "q35"]))]),
        ),
        (
            "features",
            some_of(vec![
                ("acpi", bools()),
                ("apic", bools()),
                ("hyperv", bools()),
            ]),
        ),
        (
            "firmware",
            some_of(vec![(
                "bootloader",
                some_of(vec![("efi", bools()), ("secureBoot", bools())]),
            )]),
        ),
    ]);
    let text = || "[ -~\n]{0,40}".prop_map(Value::from).boxed();
    let cloud_init = some_of(vec![
        ("userData", text()),
        ("networkData", text()),
        ("secretRef", Just(json!({"name": "bootstrap"})).boxed()),
    ]);
    let rest = some_of(vec![
        (
            "name",
            "[a-z]([-a-z0-9]{0,10}[a-z0-9])?"
                .prop_map(Value::from)
                .boxed(),
        ),
        ("disks", list(disk())),
        ("networks", list(network())),
        ("bootOrder", list(one_of(&["disk", "network", "cdrom"]))),
        ("cloudInit", cloud_init),
        ("domain", domain),
        ("powerState", one_of(&["Running", "Stopped", "Paused"])),
        ("deletionPolicy", one_of(&["Delete", "Retain"])),
    ]);
    (sizing, overrides, rest)
        .prop_map(|parts| {
            let parts = <[Value; 3]>::from(parts);
            let fields = parts.into_iter().flat_map(|part| match part {
                Value::Object(fields) => fields,
                _ => Map::new(),
            });
            Value::Object(fields.collect())
        })
        .boxed()
}

fn document(spec: &Value) -> Value {
    json!({
        "apiVersion": "vitistack.io/v1alpha1",
        "kind": "Machine",
        "metadata": {"name": "m", "namespace": "default", "uid": "u"},
        "spec": spec,
    })
}

fn machine(spec: &Value) -> api::Machine {
    serde_json::from_value(document(spec)).unwrap()
}

fn resolved(spec: &Value) -> Option<ResolvedMachine> {
    Some(
        resolve(&machine(spec), &Surroundings::default())
            .ok()?
            .machine,
    )
}

/// Panics at a VirtualMachine that KubeVirt's admission would refuse.
fn is_well_formed(
    machine: &ResolvedMachine,
    objects: &MachineObjects,
) -> Result<(), TestCaseError> {
    let instance = &objects.virtual_machine.spec.template.spec;
    let devices = &instance.domain.devices;
    let disks: Vec<_> = devices.disks.iter().map(|disk| &disk.name).collect();
    let volumes: Vec<_> = instance.volumes.iter().map(|volume| &volume.name).collect();
    prop_assert_eq!(&disks, &volumes);
    prop_assert_eq!(disks.iter().collect::<BTreeSet<_>>().len(), disks.len());
    let interfaces: Vec<_> = devices
        .interfaces
        .iter()
        .map(|interface| &interface.name)
        .collect();
    let networks: Vec<_> = instance
        .networks
        .iter()
        .map(|network| &network.name)
        .collect();
    prop_assert_eq!(interfaces, networks);
    let numbers = devices.disks.iter().map(|disk| disk.boot_order);
    let numbers = numbers.chain(
        devices
            .interfaces
            .iter()
            .map(|interface| interface.boot_order),
    );
    let mut numbers: Vec<_> = numbers.flatten().collect();
    numbers.sort_unstable();
    let expected: Vec<_> = (1..).take(numbers.len()).collect();
    prop_assert_eq!(numbers, expected);
    prop_assert_eq!(objects.volumes.len(), machine.disks.len());
    prop_assert_eq!(objects.cloud_init.is_some(), machine.cloud_init.is_some());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_machine_that_validates_resolves_and_builds(spec in spec()) {
        let violations = schemas::violations(Kind::Machine, &document(&spec));
        prop_assume!(violations.is_empty());
        match resolve(&machine(&spec), &Surroundings::default()) {
            Ok(resolution) => is_well_formed(&resolution.machine, &build(&resolution.machine))?,
            // No schema can validate whether the size has a disk of that name, that a disk is empty and
            // read-only, and whether anything is left to boot from.
            Err(errors) => for error in errors {
                let known = error.path.ends_with("].size")
                    || error.path.ends_with("].accessMode")
                    || error.path == "spec.disks";
                prop_assert!(error.error_type == ErrorType::InvalidSpec && known, "{error}");
            }
        }
    }

    #[test]
    fn a_machine_that_resolves_has_no_violation_that_resolve_missed(spec in spec()) {
        prop_assume!(resolved(&spec).is_some());
        for violation in schemas::violations(Kind::Machine, &document(&spec)) {
            // Only the schema validates bounds and that bootOrder is a set. Empty data counts as absent
            // if other data is given.
            let only_schema = ["spec.bootOrder", "spec.cpu", "spec.resources", "spec.cloudInit"];
            prop_assert!(only_schema.iter().any(|path| violation.path.starts_with(path)), "{violation}");
        }
    }

    #[test]
    fn building_is_deterministic(spec in spec()) {
        if let Some(machine) = resolved(&spec) {
            let print = || yaml::to_string(&build(&machine).virtual_machine).unwrap();
            prop_assert_eq!(print(), print());
            prop_assert_eq!(resolved(&spec), Some(machine));
        }
    }

    #[test]
    fn disks_merge_by_name_without_loss(spec in spec()) {
        if let Some(machine) = resolved(&spec) {
            let names: Vec<_> = machine.disks.iter().map(|disk| disk.name.as_str()).collect();
            let own: Vec<_> = spec["disks"].as_array().into_iter().flatten().map(|disk| disk["name"].as_str().unwrap()).collect();
            prop_assert!(own.iter().all(|name| names.contains(name)));
            let added: Vec<_> = names.iter().filter(|name| **name != "root").collect();
            let expected: Vec<_> = own.iter().filter(|name| **name != "root").collect();
            prop_assert_eq!(added, expected, "the user's order is kept");
            for (disk, wanted) in machine.disks.iter().filter_map(|disk| {
                let wanted = spec["disks"].as_array().into_iter().flatten().find(|own| own["name"] == disk.name.as_str());
                wanted.map(|wanted| (disk, wanted))
            }) {
                if let Some(size) = wanted["size"].as_str() {
                    prop_assert_eq!(disk.size, size.parse::<Quantity>().unwrap().rounded_up());
                }
            }
        }
    }

    #[test]
    fn overriding_with_the_templates_own_values_changes_nothing(spec in spec(), template in select(&["small", "medium", "large"][..])) {
        let mut spec = spec;
        for field in ["instanceType", "cpu", "memory", "resources"] {
            spec.as_object_mut().unwrap().remove(field);
        }
        spec["template"] = template.into();
        let (cores, memory) = match template {
            "small" => (1, "2Gi"),
            "medium" => (2, "4Gi"),
            _ => (4, "8Gi"),
        };
        let plain = resolved(&spec);
        let nested = with(spec.clone(), "resources", json!({"cpu": {"cores": cores, "threads": 1, "sockets": 1}, "memory": {"size": memory}}));
        prop_assert_eq!(&resolved(&nested), &plain);
        let flat = with(with(spec, "cpu", json!({"cores": cores})), "memory", memory);
        prop_assert_eq!(&resolved(&flat), &plain);
    }

    #[test]
    fn printed_objects_parse_back_unchanged(spec in spec()) {
        if let Some(machine) = resolved(&spec) {
            let vm = build(&machine).virtual_machine;
            let printed = yaml::to_string(&vm).unwrap();
            let read = documents::parse(&Arc::from("printed"), printed.as_bytes()).unwrap();
            prop_assert_eq!(&read[0].as_ref().unwrap().value, &serde_json::to_value(&vm).unwrap());
        }
    }
}

/// Mutation of a document's bytes.
#[derive(Clone, Debug)]
enum Mutation {
    Replace(usize, u8),
    Insert(usize, Vec<u8>),
    Remove(usize, usize),
    Repeat(usize, usize),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let token = select(
        &[
            "null",
            "-",
            "---\n",
            "{",
            "[",
            ": ",
            "\n  ",
            "&a ",
            "*a",
            "0",
            "1e99",
            "\"",
            "|",
            "\u{0}",
            "~",
            "true",
            "9999999999999999999999",
            "<<: ",
        ][..],
    );
    let bytes = prop_oneof![
        token.prop_map(|token| token.as_bytes().to_vec()),
        collection::vec(any::<u8>(), 1..8)
    ];
    prop_oneof![
        (any::<usize>(), any::<u8>()).prop_map(|(at, byte)| Mutation::Replace(at, byte)),
        (any::<usize>(), bytes).prop_map(|(at, bytes)| Mutation::Insert(at, bytes)),
        (any::<usize>(), 1_usize..40).prop_map(|(at, count)| Mutation::Remove(at, count)),
        (any::<usize>(), 1_usize..200).prop_map(|(at, count)| Mutation::Repeat(at, count)),
    ]
}

fn mutate(mut bytes: Vec<u8>, mutations: Vec<Mutation>) -> Vec<u8> {
    for mutation in mutations {
        let length = bytes.len().max(1);
        match mutation {
            Mutation::Replace(at, byte) => {
                if let Some(place) = bytes.get_mut(at % length) {
                    *place = byte;
                }
            }
            Mutation::Insert(at, new) => {
                let at = at % (bytes.len() + 1);
                bytes.splice(at..at, new);
            }
            Mutation::Remove(at, count) => {
                let at = at % length;
                bytes.drain(at.min(bytes.len())..(at + count).min(bytes.len()));
            }
            Mutation::Repeat(at, count) => {
                let at = (at % length).min(bytes.len());
                let part = bytes[at..(at + count).min(bytes.len())].to_vec();
                bytes.splice(at..at, part);
            }
        }
    }
    bytes
}

fn example() -> impl Strategy<Value = Vec<u8>> {
    let files: Vec<_> = files(&root().join("examples"))
        .iter()
        .map(|path| std::fs::read(path).unwrap())
        .collect();
    select(files)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2048, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn mutated_documents_cause_no_panic(
        bytes in example(),
        mutations in collection::vec(mutation(), 1..6),
    ) {
        validate_and_render(&mutate(bytes, mutations));
    }

    #[test]
    fn arbitrary_bytes_cause_no_panic(bytes in collection::vec(any::<u8>(), 0..200)) {
        validate_and_render(&bytes);
    }
}
