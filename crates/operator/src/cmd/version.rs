//! Command `version`.

use std::io::{self, Write as _};

use clap::ValueEnum;
use serde_json::{Value, json};

use super::{Outcome, written};
use crate::report::Report;

/// Print version, commit and target of this program
///
/// Exit status: 0.
#[derive(clap::Args)]
#[command(after_help = "\
Example:
  kubevirt-operator version -o json")]
pub(crate) struct Args {
    /// Output format
    #[arg(short, long, value_enum)]
    output: Option<Format>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    Json,
}

impl Args {
    pub(crate) fn run(self, report: &mut Report) -> Outcome {
        let text = match self.output {
            None => text(),
            Some(Format::Json) => format!("{:#}\n", json()),
        };
        written(io::stdout().write_all(text.as_bytes()), report)
    }
}

/// Commit that the program was built from; builds of a release set it.
fn commit() -> &'static str {
    match option_env!("KUBEVIRT_OPERATOR_COMMIT") {
        None | Some("") => "unknown",
        Some(commit) => commit,
    }
}

/// Optional parts of the program.
fn features() -> Vec<&'static str> {
    let features = [
        ("cel", cfg!(feature = "cel")),
        ("plugin", cfg!(feature = "plugin")),
        ("sandbox", cfg!(feature = "sandbox")),
    ];
    let present = features.into_iter().filter(|(_, is_present)| *is_present);
    present.map(|(name, _)| name).collect()
}

fn text() -> String {
    let features = match features().join(", ") {
        features if features.is_empty() => "none".to_owned(),
        features => features,
    };
    format!(
        "kubevirt-operator {}\ncommit: {}\ntarget: {}\nfeatures: {features}\n",
        env!("CARGO_PKG_VERSION"),
        commit(),
        env!("KUBEVIRT_OPERATOR_TARGET"),
    )
}

fn json() -> Value {
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "commit": commit(),
        "target": env!("KUBEVIRT_OPERATOR_TARGET"),
        "features": features(),
    })
}
