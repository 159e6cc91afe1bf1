//! Size of a machine: its source, then the overrides of the spec.

use api::{AccessMode, MachineSpec, QuantityValue, VolumeMode, kubevirt::CpuTopology};

use super::{Findings, amount, class};
use crate::{
    Quantity,
    machine::{
        ErrorType, Lookup, SizingSource, SpecError, Surroundings, resolved::vcpus,
        surroundings::is_enabled,
    },
    naming,
};

/// More than any QEMU machine type supports.
pub(crate) const MAX_VCPUS: u32 = 4096;

/// Path for errors of a size that no field names.
pub(super) const UNNAMED: &str = "spec";

pub(crate) struct Sizing {
    pub(crate) source: SizingSource,
    /// The field that names the size, or [`UNNAMED`].
    pub(super) field: &'static str,
    pub(crate) cpu: CpuTopology,
    pub(crate) memory: Quantity,
    pub(crate) disks: SizedDisks,
}

pub(crate) struct SizedDisks {
    pub(super) disks: Vec<SizedDisk>,
    /// Whether a disk of the spec with `boot: true` replaces them.
    pub(super) replaced_by_boot_disk: bool,
    /// Whether the size may have other disks, because its class is not known.
    pub(super) are_guessed: bool,
}

pub(crate) struct SizedDisk {
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

#[derive(Default)]
pub(crate) struct MemoryBounds {
    pub(super) least: Option<Quantity>,
    pub(super) most: Option<Quantity>,
}

/// Resolves the size, or reports why there is none.
pub(super) fn resolve(
    spec: &MachineSpec,
    surroundings: &Surroundings,
    findings: &mut Findings,
) -> Option<Sizing> {
    let sized = source(spec, surroundings, findings);
    // Overrides are checked even without a size, so that all errors are reported.
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
    let vcpus = vcpus(sizing.cpu);
    if vcpus > MAX_VCPUS {
        findings.invalid(
            "spec",
            format!("asks for {vcpus} CPUs (cores times sockets times threads): give at most {MAX_VCPUS}"),
        );
    }
    if let Some((path, memory)) = overrides.memory {
        check_bounds(path, memory, &bounds, &sizing.source, findings);
        sizing.memory = memory;
    }
    Some(sizing)
}

#[derive(Clone, Copy)]
enum Field {
    Template,
    InstanceType,
    MachineClass,
}

impl Field {
    fn path(self) -> &'static str {
        match self {
            Self::Template => "spec.template",
            Self::InstanceType => "spec.instanceType",
            Self::MachineClass => "spec.machineClass",
        }
    }

    fn built_in(self, name: &str) -> Option<Sizing> {
        let row = |table: &'static [Row]| table.iter().find(|row| row.name == name);
        match self {
            Self::Template => row(&TEMPLATES)
                .map(|row| from_row(row, SizingSource::Template(row.name), self.path())),
            Self::InstanceType => row(&INSTANCE_TYPES)
                .map(|row| from_row(row, SizingSource::InstanceType(row.name), self.path())),
            Self::MachineClass => None,
        }
    }

    /// Prefix of the remedy for an unknown size.
    fn advice(self) -> &'static str {
        match self {
            Self::Template | Self::InstanceType => "use small, medium or large, or ",
            Self::MachineClass => "",
        }
    }
}

fn source(
    spec: &MachineSpec,
    surroundings: &Surroundings,
    findings: &mut Findings,
) -> Option<(Sizing, MemoryBounds)> {
    let given: Vec<_> = [
        (Field::Template, &spec.template),
        (Field::InstanceType, &spec.instance_type),
        (Field::MachineClass, &spec.machine_class),
    ]
    .into_iter()
    .filter_map(|(field, name)| Some((field, name.as_deref()?)))
    .collect();
    match given[..] {
        [] => default_size(surroundings, findings),
        [(field, name)] => match field.built_in(name) {
            Some(sizing) => Some((sizing, MemoryBounds::default())),
            None => class_by_name(field, name, surroundings, findings),
        },
        [_, (field, _), ..] => {
            findings.invalid(
                field.path(),
                "give at most one of template, instanceType and machineClass",
            );
            None
        }
    }
}

fn default_size(
    surroundings: &Surroundings,
    findings: &mut Findings,
) -> Option<(Sizing, MemoryBounds)> {
    let small = || from_row(&SMALL, SizingSource::Template("small"), UNNAMED);
    match surroundings
        .machine_classes
        .default_class(&surroundings.provider)
    {
        Lookup::Found(class) => class::size(UNNAMED, class, findings),
        Lookup::Missing => Some((small(), MemoryBounds::default())),
        Lookup::Unknown => {
            findings.note(
                "spec",
                "names no size: template small is assumed, unless the cluster has a MachineClass marked default",
            );
            let mut small = small();
            small.disks.are_guessed = true;
            Some((small, MemoryBounds::default()))
        }
    }
}

fn class_by_name(
    field: Field,
    name: &str,
    surroundings: &Surroundings,
    findings: &mut Findings,
) -> Option<(Sizing, MemoryBounds)> {
    let advice = field.advice();
    let provider = &surroundings.provider;
    let found = surroundings.machine_classes.get(name);
    let message = match found {
        Lookup::Found(class) if !is_enabled(class) => {
            format!("MachineClass {name:?} is disabled: {advice}choose an enabled one")
        }
        Lookup::Found(class) if !provider.offers(class) => format!(
            "MachineClass {name:?} is not offered by the provider {provider}: {advice}choose one that is"
        ),
        Lookup::Found(class) => return class::size(field.path(), class, findings),
        Lookup::Missing if advice.is_empty() => {
            format!("no MachineClass is named {name:?}: create it, or name another")
        }
        Lookup::Missing => format!("no MachineClass is named {name:?}: {advice}create it"),
        Lookup::Unknown => format!(
            "MachineClass {name:?} is not among the given documents: {advice}give its document too"
        ),
    };
    findings.error(SpecError {
        certain: !matches!(found, Lookup::Unknown),
        ..SpecError::new(ErrorType::TemplateNotFound, field.path(), message).in_reference()
    });
    None
}

fn from_row(row: &Row, source: SizingSource, field: &'static str) -> Sizing {
    let replaced_by_boot_disk = matches!(source, SizingSource::InstanceType(_));
    Sizing {
        source,
        field,
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
            are_guessed: false,
        },
    }
}

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
    let is_given = |value: &&QuantityValue| match value {
        QuantityValue::Bytes(bytes) => *bytes != 0,
        QuantityValue::Quantity(text) => text.parse::<Quantity>() != Ok(Quantity::ZERO),
    };
    if let Some(value) = spec.memory.as_ref().filter(is_given) {
        return Some((FLAT, amount::checked(FLAT, amount::of(value), findings)?));
    }
    let text = spec.resources.as_ref()?.memory.as_ref()?.size.as_deref()?;
    Some((
        NESTED,
        amount::checked(NESTED, amount::parsed(text), findings)?,
    ))
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
