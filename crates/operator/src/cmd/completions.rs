//! Command `completions`.

use std::io::{self, Write as _};

use clap::CommandFactory as _;
use clap_complete::Shell;

use super::{Cli, Outcome, written};
use crate::report::Report;

/// Print a shell completion script
///
/// For bash: kubevirt-operator completions bash > /etc/bash_completion.d/kubevirt-operator
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Shell to print the script for
    shell: Shell,
}

impl Args {
    pub(crate) fn run(self, report: &mut Report) -> Outcome {
        let mut command = Cli::command();
        let name = command.get_name().to_owned();
        // The generator panics when it cannot write, so it writes to memory.
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut command, name, &mut script);
        written(io::stdout().write_all(&script), report)
    }
}
