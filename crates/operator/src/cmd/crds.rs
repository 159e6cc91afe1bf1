use std::io::{self, Write as _};

use super::{Outcome, written};
use crate::{report::Report, yaml};

/// Print the CustomResourceDefinitions of Machine, MachineClass and NetworkConfiguration
///
/// To install them: kubevirt-operator crds | kubectl apply --server-side -f -
#[derive(clap::Args)]
pub(crate) struct Args {}

impl Args {
    pub(crate) fn run(report: &mut Report) -> Outcome {
        let print = || -> io::Result<()> {
            let mut out = io::stdout().lock();
            for crd in api::crds() {
                writeln!(out, "---")?;
                out.write_all(yaml::crd(&crd)?.as_bytes())?;
            }
            out.flush()
        };
        written(print(), report)
    }
}
