use std::path::PathBuf;

use api::Time;
use plan::kubevirt::preview::End;

use super::{render, settings};
use crate::{
    cmd::{
        Outcome,
        preview::{Cluster, Shown},
        settings::pod_namespace,
    },
    kubevirt::{
        file,
        preview::{Preview, Question, preview},
    },
    report::Report,
};

/// Show what the operator would do, before anything is touched
///
/// Looks for what would go wrong (the version of Kubernetes, rights that are missing, pods that are
/// not let in, placement that no node meets, stored versions, images), and goes from stage to stage
/// to the end: objects that would be created (+), changed (~) and deleted (-), certificates that
/// would be issued (*), and components that would be rolled out (>). Nothing is written.
///
/// The resource that is given takes the place of the one in the cluster; labels and annotations come
/// to those that are there. The install strategy is that of the file, or that in the cluster; where
/// there is neither, a Job would write it first, and nothing is known of what follows.
///
/// Exit status: 0 nothing would change, 2 something would, 1 something is wrong: a file cannot be
/// read, or it would not come to its end.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  kubevirt-operator virt-operator plan
  kubevirt-operator virt-operator plan -f kubevirt.yaml --strategy v1.9.0.yaml.gz")]
pub(crate) struct Args {
    /// File with the KubeVirt resource, or - for standard input [default: that of the cluster]
    #[arg(short, long, value_name = "FILE|-")]
    filename: Option<PathBuf>,

    /// File with the install strategy of a release, as YAML, packed with gzip or not, or as a
    /// ConfigMap; can be repeated [default: that in the cluster]
    #[arg(long, value_name = "FILE")]
    strategy: Vec<PathBuf>,

    #[command(flatten)]
    cluster: Cluster,

    #[command(flatten)]
    identity: settings::Identity,
}

impl Args {
    pub(super) fn run(self, report: &mut Report) -> Outcome {
        let runtime = match crate::cmd::runtime() {
            Ok(runtime) => runtime,
            Err(error) => {
                report.error(format_args!("cannot start: {error}"));
                return Outcome::Problems;
            }
        };
        match runtime.block_on(self.plan(report)) {
            Ok(outcome) => outcome,
            Err(error) => {
                report.error(error);
                Outcome::Problems
            }
        }
    }

    async fn plan(self, report: &mut Report) -> Result<Outcome, String> {
        let operator = self.identity.resolve(pod_namespace, std::env::vars_os());
        let operator = operator.map_err(|problems| {
            let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
            problems.join("; ")
        })?;
        let mut strategies = Vec::new();
        for path in &self.strategy {
            let given = file::read(path);
            let failed = |error| format!("--strategy {}: {error}", path.display());
            strategies.push(given.map_err(failed)?);
        }
        let kubevirt = match &self.filename {
            Some(path) => {
                let kubevirt = render::kubevirt(path, &operator.namespace);
                Some(kubevirt.map_err(|(_, message)| message)?)
            }
            None => None,
        };
        let connected = self.cluster.connect().await;
        let (client, _) = connected.map_err(|error| error.to_string())?;
        let question = Question {
            operator,
            strategies,
            kubevirt,
        };
        let now = Time(jiff::Timestamp::now());
        let preview = preview(client, question, now).await;
        Ok(show(&preview.map_err(|error| error.to_string())?, report))
    }
}

fn show(preview: &Preview, report: &mut Report) -> Outcome {
    let causes = match &preview.forecast.end {
        End::Stuck { causes, .. } => causes.as_slice(),
        End::Deployed | End::Deleted | End::Strategy => &[],
    };
    let shown = Shown {
        notes: &preview.notes,
        errors: preview.errors.iter().chain(causes),
        fails: preview.fails(),
        has_changes: preview.has_changes(),
    };
    shown.end(|out| preview.print(out), report)
}
