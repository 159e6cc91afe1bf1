//! Output formats of objects, as kubectl prints them.

use clap::ValueEnum;
use serde_json::{Value, json};

use crate::{failure::Failure, read::name};

/// Value of `-o`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A table.
    #[default]
    #[value(hide = true)]
    Table,
    /// A table with more columns.
    Wide,
    Json,
    Yaml,
    /// Kind and name.
    Name,
}

/// Value of `-o` of commands whose result is not a list of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Data {
    Json,
    Yaml,
}

impl Data {
    pub(crate) fn print(self, value: &Value) -> Result<String, Failure> {
        match self {
            Self::Json => to_json(value),
            Self::Yaml => to_yaml(value),
        }
    }
}

/// Objects as JSON or YAML: one alone, several in a List.
pub(crate) fn objects(
    data: Data,
    mut objects: Vec<Value>,
    is_single: bool,
) -> Result<String, Failure> {
    for object in &mut objects {
        hide_managed_fields(object);
    }
    let value = match (is_single, objects.len()) {
        (true, 1) => objects.remove(0),
        _ => json!({ "apiVersion": "v1", "kind": "List", "items": objects }),
    };
    data.print(&value)
}

/// `machine.vitistack.io/web`.
pub(crate) fn reference(machine: &Value) -> String {
    format!("machine.vitistack.io/{}", name(machine))
}

/// kubectl hides them too, unless asked for.
fn hide_managed_fields(object: &mut Value) {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
}

fn to_json(value: &Value) -> Result<String, Failure> {
    let text = serde_json::to_string_pretty(value);
    let text = text.map_err(|error| Failure::Other(error.to_string()))?;
    Ok(text + "\n")
}

pub(crate) fn to_yaml(value: &Value) -> Result<String, Failure> {
    let options = serde_saphyr::ser_options! {
        prefer_block_scalars: false,
        folded_wrap_chars: usize::MAX,
        min_fold_chars: usize::MAX,
    };
    let text = serde_saphyr::to_string_with_options(value, options);
    text.map_err(|error| Failure::Other(error.to_string()))
}
