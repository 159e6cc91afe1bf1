//! A MachineClass as the size it stands for.

use api::{MachineClass, QuantityValue, kubevirt::CpuTopology};

use super::{
    Findings, amount, disks, first_duplicate,
    sizing::{MemoryBounds, SizedDisk, SizedDisks, Sizing, UNNAMED},
};
use crate::{Quantity, machine::SizingSource};

/// The field of a class that only other providers can give.
pub(crate) const GPU_CORES: &str = "spec.gpu.cores";

/// What keeps Machines from having a class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Flaw {
    /// The field of the class.
    pub(crate) field: String,
    /// What is wrong with it.
    pub(crate) message: String,
}

impl Flaw {
    fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            message: message.into(),
        }
    }
}

/// A class is written by somebody else than the Machine, so what is wrong with it is told at the
/// field that names it.
pub(super) fn size(
    path: &'static str,
    class: &MachineClass,
    findings: &mut Findings,
) -> Option<(Sizing, MemoryBounds)> {
    let name = class.metadata.name.as_deref().unwrap_or_default();
    match read(class) {
        Ok((sizing, bounds)) => Some((
            Sizing {
                field: path,
                ..sizing
            },
            bounds,
        )),
        Err(flaws) => {
            for Flaw { field, message } in flaws {
                let advice = match field.as_str() {
                    GPU_CORES => ": choose another class",
                    _ => "",
                };
                let message = format!("MachineClass {name:?}: {field}: {message}{advice}");
                findings.invalid_reference(path, message);
            }
            None
        }
    }
}

/// The size that a class stands for, or all that is wrong with it.
pub(crate) fn read(class: &MachineClass) -> Result<(Sizing, MemoryBounds), Vec<Flaw>> {
    let mut wrong = Vec::new();
    let memory = &class.spec.memory;
    let mut told = |field: String, amount: Result<Quantity, String>| {
        amount
            .map_err(|why| wrong.push(Flaw::new(format!("spec.{field}"), why)))
            .ok()
    };
    let quantity = told("memory.quantity".to_owned(), amount::of(&memory.quantity));
    let mut bound = |field: &str, value: &Option<QuantityValue>| {
        // Zero stands for no bound, so a bound may be less than any amount.
        let bound = match value.as_ref()? {
            QuantityValue::Bytes(bytes) => Ok(Quantity::from_bytes(*bytes)),
            QuantityValue::Quantity(text) => {
                text.parse().map_err(|error| format!("{text:?} {error}"))
            }
        };
        told(field.to_owned(), bound).filter(|bound| bound.is_positive())
    };
    let bounds = MemoryBounds {
        least: bound("memory.minQuantity", &memory.min_quantity),
        most: bound("memory.maxQuantity", &memory.max_quantity),
    };
    let mut sized = Vec::new();
    for (index, disk) in class.spec.disks.iter().flatten().enumerate() {
        let size = told(format!("disks[{index}].size"), amount::parsed(&disk.size));
        sized.extend(size.map(|size| SizedDisk {
            name: disk.name.clone(),
            size,
            storage_class: disk.storage_class.clone(),
            access_mode: disk.access_mode,
            volume_mode: disk.volume_mode,
        }));
    }
    wrong.extend(wrong_disk_names(class));
    let cpu = class_cpu(class);
    if cpu.is_none() {
        wrong.push(Flaw::new("spec.cpu", "has a count below 1"));
    }
    if class
        .spec
        .gpu
        .as_ref()
        .and_then(|gpu| gpu.cores)
        .unwrap_or_default()
        > 0
    {
        let message = "asks for GPU cores, which this operator cannot give";
        wrong.push(Flaw::new(GPU_CORES, message));
    }
    let (true, Some(cpu), Some(memory)) = (wrong.is_empty(), cpu, quantity) else {
        return Err(wrong);
    };
    let sizing = Sizing {
        source: SizingSource::Class {
            name: class.metadata.name.clone().unwrap_or_default(),
            generation: class.metadata.generation,
        },
        field: UNNAMED,
        cpu,
        memory,
        disks: SizedDisks {
            disks: sized,
            replaced_by_boot_disk: false,
            are_guessed: false,
        },
    };
    Ok((sizing, bounds))
}

fn wrong_disk_names(class: &MachineClass) -> Vec<Flaw> {
    let names = || {
        class
            .spec
            .disks
            .iter()
            .flatten()
            .map(|disk| disk.name.as_str())
    };
    let invalid = names().enumerate().filter_map(|(index, name)| {
        let why = disks::check_name(name).err()?;
        Some(Flaw::new(format!("spec.disks[{index}].name"), why))
    });
    let twice = first_duplicate(names()).map(|(index, name)| {
        let message = format!("{name:?} is there twice: give each disk a name of its own");
        Flaw::new(format!("spec.disks[{index}].name"), message)
    });
    invalid.chain(twice).collect()
}

fn class_cpu(class: &MachineClass) -> Option<CpuTopology> {
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
    match counts.map(u32::try_from) {
        [Ok(cores @ 1..), Ok(sockets @ 1..), Ok(threads @ 1..)] => Some(CpuTopology {
            cores,
            sockets,
            threads,
        }),
        _ => None,
    }
}
