//! Size that a MachineClass stands for.

use api::{MachineClass, QuantityValue, kubevirt::CpuTopology};

use super::{
    Findings, amount, disks, first_duplicate,
    sizing::{MemoryBounds, SizedDisk, SizedDisks, Sizing, UNNAMED},
};
use crate::{Quantity, machine::SizingSource};

/// A field that only other providers support.
pub(crate) const GPU_CORES: &str = "spec.gpu.cores";

/// An error in a MachineClass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClassError {
    pub(crate) field: String,
    pub(crate) message: String,
}

impl ClassError {
    fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            message: message.into(),
        }
    }
}

/// Sizes a Machine by a class. Errors of the class are reported at the Machine's field that names it.
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
        Err(errors) => {
            for ClassError { field, message } in errors {
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

/// The size that a class stands for, or all its errors.
pub(crate) fn read(class: &MachineClass) -> Result<(Sizing, MemoryBounds), Vec<ClassError>> {
    let mut errors = Vec::new();
    let memory = &class.spec.memory;
    let mut checked = |field: String, amount: Result<Quantity, String>| {
        amount
            .map_err(|why| errors.push(ClassError::new(format!("spec.{field}"), why)))
            .ok()
    };
    let quantity = checked("memory.quantity".to_owned(), amount::of(&memory.quantity));
    let mut bound = |field: &str, value: &Option<QuantityValue>| {
        // Zero means no bound, so a bound may be smaller than any size.
        let bound = match value.as_ref()? {
            QuantityValue::Bytes(bytes) => Ok(Quantity::from_bytes(*bytes)),
            QuantityValue::Quantity(text) => {
                text.parse().map_err(|error| format!("{text:?} {error}"))
            }
        };
        checked(field.to_owned(), bound).filter(|bound| bound.is_positive())
    };
    let bounds = MemoryBounds {
        least: bound("memory.minQuantity", &memory.min_quantity),
        most: bound("memory.maxQuantity", &memory.max_quantity),
    };
    let mut sized = Vec::new();
    for (index, disk) in class.spec.disks.iter().flatten().enumerate() {
        let size = checked(format!("disks[{index}].size"), amount::parsed(&disk.size));
        sized.extend(size.map(|size| SizedDisk {
            name: disk.name.clone(),
            size,
            storage_class: disk.storage_class.clone(),
            access_mode: disk.access_mode,
            volume_mode: disk.volume_mode,
        }));
    }
    errors.extend(disk_name_errors(class));
    let cpu = class_cpu(class);
    if cpu.is_none() {
        errors.push(ClassError::new("spec.cpu", "has a count below 1"));
    }
    if class
        .spec
        .gpu
        .as_ref()
        .and_then(|gpu| gpu.cores)
        .unwrap_or_default()
        > 0
    {
        let message = "asks for GPU cores, which this operator does not support";
        errors.push(ClassError::new(GPU_CORES, message));
    }
    let (true, Some(cpu), Some(memory)) = (errors.is_empty(), cpu, quantity) else {
        return Err(errors);
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

fn disk_name_errors(class: &MachineClass) -> Vec<ClassError> {
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
        Some(ClassError::new(format!("spec.disks[{index}].name"), why))
    });
    let twice = first_duplicate(names()).map(|(index, name)| {
        let message = format!("{name:?} is a duplicate: give each disk a unique name");
        ClassError::new(format!("spec.disks[{index}].name"), message)
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
