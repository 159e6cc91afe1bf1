use std::io;

use clap::CommandFactory as _;
use clap_complete::Shell;

use super::{Cli, Outcome};

/// Print a completion script for a shell
///
/// For bash: kubevirt-operator completions bash > /etc/bash_completion.d/kubevirt-operator
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The shell to complete in
    shell: Shell,
}

impl Args {
    pub(crate) fn run(self) -> Outcome {
        let mut command = Cli::command();
        let name = command.get_name().to_owned();
        clap_complete::generate(self.shell, &mut command, name, &mut io::stdout());
        Outcome::Fine
    }
}
