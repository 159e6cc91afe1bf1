//! Command `virt-operator plan`.

use std::path::PathBuf;

use api::Time;
use plan::kubevirt::preview::End;

use super::{render, settings};
use crate::{
    cmd::{
        Outcome,
        preview::{Cluster, Detail, Shown},
        settings::pod_namespace,
    },
    kubevirt::{
        file,
        preview::{Preview, PreviewRequest, preview},
    },
    report::Report,
};

/// Preview the rollout or removal of KubeVirt
///
/// Runs the preflight (Kubernetes version, missing permissions, pod security, placement, stored
/// versions, images) and lists the changes of each stage: objects to create (+), change (~) and delete
/// (-), certificates to issue (*), and components to roll out (>). Nothing is written.
///
/// The given resource replaces the spec of the one in the cluster; its labels and annotations are added.
/// The install strategy is that of the file, or that in the cluster. If there is neither, a Job writes it
/// first, and the preview ends there.
///
/// Exit status: 0 done, 1 an error: a file cannot be read, or the rollout would not complete. With
/// --detailed-exitcode: 0 no changes, 2 changes, 1 an error.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  kubevirt-operator virt-operator plan
  kubevirt-operator virt-operator plan -f kubevirt.yaml --strategy v1.9.0.yaml.gz")]
pub(crate) struct Args {
    /// File with the KubeVirt resource, or - for standard input [default: that of the cluster]
    #[arg(short, long, value_name = "FILE|-")]
    filename: Option<PathBuf>,

    /// File with the install strategy of a release: YAML, optionally compressed with gzip, or a
    /// ConfigMap; can be repeated [default: that of the cluster]
    #[arg(long, value_name = "FILE")]
    strategy: Vec<PathBuf>,

    #[command(flatten)]
    cluster: Cluster,

    #[command(flatten)]
    detail: Detail,

    #[command(flatten)]
    identity: settings::Identity,
}

impl Args {
    pub(super) fn run(self, report: &mut Report) -> Outcome {
        let Some(runtime) = report.ok(crate::cmd::runtime()) else {
            return Outcome::Problems;
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
        let request = PreviewRequest {
            operator,
            strategies,
            kubevirt,
        };
        let now = Time(jiff::Timestamp::now());
        let preview = preview(client, request, now).await;
        let preview = preview.map_err(|error| error.to_string())?;
        Ok(show(&preview, self.detail.detailed_exitcode, report))
    }
}

fn show(preview: &Preview, is_detailed: bool, report: &mut Report) -> Outcome {
    let causes = match &preview.forecast.end {
        End::Stuck { causes, .. } => causes.as_slice(),
        End::Deployed | End::Deleted | End::Strategy => &[],
    };
    let shown = Shown {
        notes: &preview.notes,
        errors: preview.errors.iter().chain(causes),
        fails: preview.fails(),
        is_detailed,
        has_changes: preview.has_changes(),
    };
    shown.finish(|out| preview.print(out), report)
}
