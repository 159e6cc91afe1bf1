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

/// Run the KubeVirt operator: install, upgrade, heal and remove KubeVirt
///
/// It acts on the KubeVirt resource of its own namespace, in the cluster that it runs in or in the
/// one that --kubeconfig names. Each setting is taken from its flag, else from its environment
/// variable, else from its default; what is empty counts as not given.
///
/// Exit status: 0 it was asked to end, 1 it could not go on, 2 a setting cannot be read.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(flatten)]
    given: settings::Given,

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
        let settings = match self.given.resolve(pod_namespace, std::env::vars_os()) {
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
