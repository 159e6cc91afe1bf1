//! Command `virt-operator`.

mod plan;
mod process;
mod render;
pub(crate) mod settings;

use super::{
    Outcome,
    process::block_on,
    settings::{pod_namespace, refused},
};
use crate::report::Report;

/// Run the KubeVirt operator, which installs, upgrades, repairs and removes KubeVirt
///
/// The operator reconciles the KubeVirt resource of its namespace, in the cluster that it runs in or in
/// the cluster of --kubeconfig. Each setting is read from its flag, then from its environment variable;
/// an empty value counts as not set.
///
/// Exit status: 0 terminated by a signal, 1 fatal error, 2 invalid setting or strategy file.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(flatten)]
    flags: settings::Flags,

    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(clap::Subcommand)]
enum Command {
    Plan(plan::Args),
    Render(render::Args),
}

impl Args {
    pub(crate) fn run(self, report: &mut Report) -> Outcome {
        match self.command {
            Some(Command::Plan(args)) => return args.run(report),
            Some(Command::Render(args)) => return args.run(report),
            None => {}
        }
        let settings = match self.flags.resolve(pod_namespace, std::env::vars_os()) {
            Ok(settings) => settings,
            Err(problems) => return refused(problems, report),
        };
        let mut strategies = Vec::new();
        for path in &settings.strategies {
            match crate::kubevirt::file::read(path) {
                Ok(strategy) => strategies.push(strategy),
                Err(error) => {
                    report.error(format_args!("--strategy {}: {error}", path.display()));
                    return Outcome::Unreadable;
                }
            }
        }
        crate::logs::init(settings.common.log_level, settings.common.log_format);
        settings.log();
        block_on(process::run(settings, strategies))
    }
}
