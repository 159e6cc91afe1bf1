mod process;
pub(crate) mod settings;

use super::{
    Outcome,
    process::block_on,
    settings::{pod_namespace, refused},
};
use crate::report::Report;

/// Run the operator: make VirtualMachines of Machines, and keep them in step
///
/// It acts on the cluster that it runs in, or on the one that --kubeconfig names. Each setting is
/// taken from its flag, else from its environment variable, else from its default; what is empty
/// counts as not given.
///
/// Exit status: 0 it was asked to end, 1 it could not go on, 2 a setting cannot be read.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    given: settings::Given,
}

impl Args {
    pub(crate) fn run(self, report: &mut Report) -> Outcome {
        let settings = match self.given.resolve(pod_namespace) {
            Ok(settings) => settings,
            Err(problems) => return refused(problems, report),
        };
        crate::logs::init(settings.common.log_level, settings.common.log_format);
        settings.log();
        block_on(process::run(settings))
    }
}
