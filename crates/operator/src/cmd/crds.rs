//! Command `crds`.

use std::io::{self, Write as _};

use super::{Outcome, written};
use crate::{report::Report, yaml};

/// Print the CustomResourceDefinitions of Machine, MachineClass and NetworkConfiguration
///
/// To install them: kubevirt-operator crds | kubectl apply --server-side -f -
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Print the CustomResourceDefinition of KubeVirt instead, which virt-operator installs if missing
    #[arg(long)]
    kubevirt: bool,
}

impl Args {
    pub(crate) fn run(&self, report: &mut Report) -> Outcome {
        let definitions = if self.kubevirt {
            vec![api::kubevirt_crd()]
        } else {
            api::crds()
        };
        let print = || -> io::Result<()> {
            let mut out = io::stdout().lock();
            for crd in definitions {
                writeln!(out, "---")?;
                out.write_all(yaml::crd(&crd)?.as_bytes())?;
            }
            out.flush()
        };
        written(print(), report)
    }
}
