//! Command `run`.

mod process;
pub(crate) mod settings;

use super::{
    Outcome,
    process::block_on,
    settings::{pod_namespace, refused},
};
use crate::report::Report;

/// Run the operator, which reconciles Machines with VirtualMachines
///
/// The operator uses the cluster that it runs in, or the cluster of --kubeconfig. Each setting is read
/// from its flag, then from its environment variable; an empty value counts as not set.
///
/// Exit status: 0 terminated by a signal, 1 fatal error, 2 invalid setting.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    flags: settings::Flags,
}

impl Args {
    pub(crate) fn run(self, report: &mut Report) -> Outcome {
        let settings = match self.flags.resolve(pod_namespace) {
            Ok(settings) => settings,
            Err(problems) => return refused(problems, report),
        };
        crate::logs::init(settings.common.log_level, settings.common.log_format);
        settings.log();
        block_on(process::run(settings))
    }
}
