//! The size of a machine: where it comes from, then what is written over it.

use api::{
    AccessMode, MachineClass, MachineSpec, QuantityValue, VolumeMode, kubevirt::CpuTopology,
};

use super::Findings;
use crate::{
    Quantity,
    machine::{ErrorType, Known, Lookup, SizingSource, SpecError},
    naming,
};

/// The name under which this operator appears in `spec.machineProviders`.
const PROVIDER: &str = "kubevirt";

/// A size with its overrides applied, and the disks that come with it.
pub(super) struct Sizing {
    pub(super) source: SizingSource,
    pub(super) cpu: CpuTopology,
    pub(super) memory: Quantity,
    pub(super) disks: SizedDisks,
}

/// The disks that come with a size.
pub(super) struct SizedDisks {
    pub(super) disks: Vec<SizedDisk>,
    /// Whether a disk of the Machine that is marked boot stands in for them.
    pub(super) replaced_by_boot_disk: bool,
}

/// A disk that comes with a size.
pub(super) struct SizedDisk {
    pub(super) name: String,
    pub(super) size: Quantity,
    pub(super) storage_class: Option<String>,
    pub(super) access_mode: Option<AccessMode>,
    pub(super) volume_mode: Option<VolumeMode>,
}

/// One row of a table of sizes.
struct Row {
    name: &'static str,
    cpu: CpuTopology,
    memory: i64,
    root_disk: i64,
}

const GIB: i64 = 1 << 30;

const fn row(
    name: &'static str,
    [cores, sockets, threads]: [u32; 3],
    memory: i64,
    root: i64,
) -> Row {
    Row {
        name,
        cpu: CpuTopology {
            cores,
            sockets,
            threads,
        },
        memory: memory * GIB,
        root_disk: root * GIB,
    }
}

const SMALL: Row = row("small", [1, 1, 1], 2, 20);
const TEMPLATES: [Row; 3] = [
    SMALL,
    row("medium", [2, 1, 1], 4, 40),
    row("large", [4, 1, 1], 8, 80),
];
const INSTANCE_TYPES: [Row; 3] = [
    row("small", [1, 1, 1], 1, 20),
    row("medium", [2, 2, 1], 2, 40),
    row("large", [4, 2, 2], 4, 80),
];

/// The bounds that a class puts on memory.
#[derive(Default)]
struct MemoryBounds {
    least: Option<Quantity>,
    most: Option<Quantity>,
}

/// Resolves the size, or reports why there is none.
pub(super) fn resolve(
    spec: &MachineSpec,
    classes: &Known<MachineClass>,
    findings: &mut Findings,
) -> Option<Sizing> {
    let sized = source(spec, classes, findings);
    // The overrides are looked at even when there is no size, so that their errors are told too.
    let overrides = Overrides::of(spec, findings);
    let (mut sizing, bounds) = sized?;
    let CpuTopology {
        cores,
        sockets,
        threads,
    } = &mut sizing.cpu;
    for (value, over) in [
        (cores, overrides.cores),
        (sockets, overrides.sockets),
        (threads, overrides.threads),
    ] {
        *value = over.unwrap_or(*value);
    }
    if let Some((path, memory)) = overrides.memory {
        check_bounds(path, memory, &bounds, &sizing.source, findings);
        sizing.memory = memory;
    }
    Some(sizing)
}

fn source(
    spec: &MachineSpec,
    classes: &Known<MachineClass>,
    findings: &mut Findings,
) -> Option<(Sizing, MemoryBounds)> {
    let given: Vec<_> = [
        ("spec.template", &spec.template),
        ("spec.instanceType", &spec.instance_type),
        ("spec.machineClass", &spec.machine_class),
    ]
    .into_iter()
    .filter_map(|(path, name)| Some((path, name.as_deref()?)))
    .collect();
    match given[..] {
        [] => default_size(classes, findings),
        [(path, name)] => {
            let table = match path {
                "spec.template" => Some((&TEMPLATES, SizingSource::Template as fn(_) -> _)),
                "spec.instanceType" => {
                    Some((&INSTANCE_TYPES, SizingSource::InstanceType as fn(_) -> _))
                }
                _ => None,
            };
            if let Some((rows, source)) = table
                && let Some(row) = rows.iter().find(|row| row.name == name)
            {
                return Some((from_row(row, source(row.name)), MemoryBounds::default()));
            }
            class_by_name(path, name, classes, findings)
        }
        [_, (path, _), ..] => {
            findings.invalid(
                path,
                "give at most one of template, instanceType and machineClass",
            );
            None
        }
    }
}

fn default_size(
    classes: &Known<MachineClass>,
    findings: &mut Findings,
) -> Option<(Sizing, MemoryBounds)> {
    match classes.default_class() {
        Lookup::Found(class) => from_class("spec", class, findings),
        Lookup::Missing => Some((
            from_row(&SMALL, SizingSource::Template("small")),
            MemoryBounds::default(),
        )),
        Lookup::Unknown => {
            findings.note(
                "spec",
                "names no size: taken as template small, unless the cluster has a MachineClass marked default",
            );
            Some((
                from_row(&SMALL, SizingSource::Template("small")),
                MemoryBounds::default(),
            ))
        }
    }
}

fn class_by_name(
    path: &str,
    name: &str,
    classes: &Known<MachineClass>,
    findings: &mut Findings,
) -> Option<(Sizing, MemoryBounds)> {
    let not_found = |message: String| SpecError::new(ErrorType::TemplateNotFound, path, message);
    let builtin = match path {
        "spec.machineClass" => "",
        _ => "use small, medium or large, or ",
    };
    match classes.get(name) {
        Lookup::Found(class) if class.spec.enabled == Some(false) => {
            findings.error(not_found(format!(
                "MachineClass {name:?} is disabled: {builtin}choose an enabled one"
            )));
            None
        }
        Lookup::Found(class) if !offered(class) => {
            findings.error(not_found(format!(
                "MachineClass {name:?} is not offered by the provider {PROVIDER}: {builtin}choose one that is"
            )));
            None
        }
        Lookup::Found(class) => from_class(path, class, findings),
        Lookup::Missing => {
            findings.error(not_found(format!(
                "no MachineClass is named {name:?}: {builtin}create it"
            )));
            None
        }
        Lookup::Unknown => {
            findings.error(SpecError {
                certain: false,
                ..not_found(format!(
                    "MachineClass {name:?} is not among the given documents: {builtin}give its document too"
                ))
            });
            None
        }
    }
}

fn offered(class: &MachineClass) -> bool {
    match class.spec.machine_providers.as_deref() {
        None | Some([]) => true,
        Some(providers) => providers.iter().any(|provider| provider == PROVIDER),
    }
}

fn from_row(row: &Row, source: SizingSource) -> Sizing {
    let replaced_by_boot_disk = matches!(source, SizingSource::InstanceType(_));
    Sizing {
        source,
        cpu: row.cpu,
        memory: Quantity::from_bytes(row.memory),
        disks: SizedDisks {
            disks: vec![SizedDisk {
                name: naming::ROOT_DISK.to_owned(),
                size: Quantity::from_bytes(row.root_disk),
                storage_class: None,
                access_mode: None,
                volume_mode: None,
            }],
            replaced_by_boot_disk,
        },
    }
}

/// A class is written by somebody else than the Machine, so what is wrong with it is told at the
/// field that names it.
fn from_class(
    path: &str,
    class: &MachineClass,
    findings: &mut Findings,
) -> Option<(Sizing, MemoryBounds)> {
    let name = class.metadata.name.clone().unwrap_or_default();
    let before = findings.errors.len();
    let mut quantity = |field: &str, text: &str| {
        text.parse::<Quantity>()
            .map_err(|error| {
                findings.invalid(
                    path,
                    format!("MachineClass {name:?}: spec.{field}: {text:?} {error}"),
                );
            })
            .ok()
    };
    let memory = quantity("memory.quantity", &class.spec.memory.quantity);
    let mut bound = |field, text: &Option<String>| {
        quantity(field, text.as_deref()?).filter(|bound| bound.is_positive())
    };
    let bounds = MemoryBounds {
        least: bound("memory.minQuantity", &class.spec.memory.min_quantity),
        most: bound("memory.maxQuantity", &class.spec.memory.max_quantity),
    };
    let disks: Vec<_> = class
        .spec
        .disks
        .iter()
        .flatten()
        .filter_map(|disk| {
            Some(SizedDisk {
                name: disk.name.clone(),
                size: quantity(&format!("disks[{}].size", disk.name), &disk.size)?,
                storage_class: disk.storage_class.clone(),
                access_mode: disk.access_mode,
                volume_mode: disk.volume_mode,
            })
        })
        .collect();
    let cpu = class_cpu(path, class, findings);
    if class
        .spec
        .gpu
        .as_ref()
        .and_then(|gpu| gpu.cores)
        .unwrap_or_default()
        > 0
    {
        findings.invalid(path, format!("MachineClass {name:?} has GPU cores, which this operator cannot give: choose another"));
    }
    if findings.errors.len() > before {
        return None;
    }
    let sizing = Sizing {
        source: SizingSource::Class {
            name,
            generation: class.metadata.generation,
        },
        cpu: cpu?,
        memory: memory?,
        disks: SizedDisks {
            disks,
            replaced_by_boot_disk: false,
        },
    };
    Some((sizing, bounds))
}

fn class_cpu(path: &str, class: &MachineClass, findings: &mut Findings) -> Option<CpuTopology> {
    let cpu = &class.spec.cpu;
    let not_given_is_one = |count: Option<i32>| match count {
        None | Some(0) => 1,
        Some(count) => count,
    };
    let counts = [
        cpu.cores,
        not_given_is_one(cpu.sockets),
        not_given_is_one(cpu.threads),
    ];
    let [Ok(cores @ 1..), Ok(sockets @ 1..), Ok(threads @ 1..)] = counts.map(u32::try_from) else {
        let name = class.metadata.name.as_deref().unwrap_or_default();
        findings.invalid(
            path,
            format!("MachineClass {name:?}: spec.cpu has a count below 1"),
        );
        return None;
    };
    Some(CpuTopology {
        cores,
        sockets,
        threads,
    })
}

/// What is written over a size.
#[derive(Default)]
struct Overrides {
    cores: Option<u32>,
    sockets: Option<u32>,
    threads: Option<u32>,
    memory: Option<(&'static str, Quantity)>,
}

impl Overrides {
    fn of(spec: &MachineSpec, findings: &mut Findings) -> Self {
        if spec.resources.is_some() && (spec.cpu.is_some() || spec.memory.is_some()) {
            findings.invalid(
                "spec.resources",
                "resources and cpu/memory say the same thing: give one or the other",
            );
        }
        let mut count = |path: &str, count: Option<i32>| {
            let count = count?;
            let positive = u32::try_from(count).ok().filter(|&count| count > 0);
            if positive.is_none() {
                findings.invalid(path, format!("is {count}: give at least 1"));
            }
            positive
        };
        let (cores, sockets, threads) = match (&spec.resources, &spec.cpu) {
            (_, Some(cpu)) => (
                count("spec.cpu.cores", cpu.cores),
                count("spec.cpu.sockets", cpu.sockets),
                count("spec.cpu.threadsPerCore", cpu.threads_per_core),
            ),
            (Some(resources), None) => {
                let cpu = resources.cpu.clone().unwrap_or_default();
                (
                    count("spec.resources.cpu.cores", cpu.cores),
                    count("spec.resources.cpu.sockets", cpu.sockets),
                    count("spec.resources.cpu.threads", cpu.threads),
                )
            }
            (None, None) => (None, None, None),
        };
        Self {
            cores,
            sockets,
            threads,
            memory: memory_override(spec, findings),
        }
    }
}

fn memory_override(
    spec: &MachineSpec,
    findings: &mut Findings,
) -> Option<(&'static str, Quantity)> {
    const FLAT: &str = "spec.memory";
    const NESTED: &str = "spec.resources.memory.size";
    let nested = || spec.resources.as_ref()?.memory.as_ref()?.size.as_deref();
    match &spec.memory {
        Some(QuantityValue::Bytes(bytes)) => at_least_a_mebibyte(
            FLAT,
            &bytes.to_string(),
            Ok(Quantity::from_bytes(*bytes)),
            findings,
        ),
        Some(QuantityValue::Quantity(text)) => {
            at_least_a_mebibyte(FLAT, text, text.parse(), findings)
        }
        None => nested().and_then(|text| at_least_a_mebibyte(NESTED, text, text.parse(), findings)),
    }
}

fn at_least_a_mebibyte(
    path: &'static str,
    text: &str,
    parsed: Result<Quantity, crate::quantity::ParseError>,
    findings: &mut Findings,
) -> Option<(&'static str, Quantity)> {
    super::disks::checked_amount(path, text, parsed, findings).map(|quantity| (path, quantity))
}

fn check_bounds(
    path: &str,
    memory: Quantity,
    bounds: &MemoryBounds,
    source: &SizingSource,
    findings: &mut Findings,
) {
    if let Some(least) = bounds.least.filter(|&least| memory < least) {
        findings.invalid(
            path,
            format!("{memory} is less than {source} allows: give at least {least}"),
        );
    }
    if let Some(most) = bounds.most.filter(|&most| memory > most) {
        findings.invalid(
            path,
            format!("{memory} is more than {source} allows: give at most {most}"),
        );
    }
}
