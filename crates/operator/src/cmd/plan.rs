//! Command `plan`.

use api::Time;

use super::{
    Outcome,
    input::Input,
    preview::{Cluster, Shown},
};
use crate::{
    documents::Document,
    machine::{
        connector,
        preview::{Documents, Preview, preview_clusters},
    },
    report::Report,
};

/// Preview the changes that applying documents would cause in the cluster
///
/// Applies Machines, MachineClasses and NetworkConfigurations as a dry run, and plans as the operator
/// does: lists objects to create (+), change (~) and delete (-), and whether a running guest needs a
/// restart. Nothing is written. The preview assumes that Secrets and StorageClasses among the documents
/// exist; it ignores other documents.
///
/// Exit status: 0 no changes, 2 changes, 1 an error: a document cannot be read, is refused by the API
/// server, or is invalid.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  kubevirt-operator plan -f machine.yaml
  kubevirt-operator plan -R -f manifests/ --kubeconfig ~/.kube/config
  kubectl kustomize . | kubevirt-operator plan -f - -n shop")]
pub(crate) struct Args {
    #[command(flatten)]
    input: Input,

    #[command(flatten)]
    cluster: Cluster,
}

impl Args {
    pub(crate) fn run(self, report: &mut Report) -> Outcome {
        let (documents, unreadable) = self.input.read(report);
        let Some(runtime) = report.ok(super::runtime()) else {
            return Outcome::Problems;
        };
        let outcome = runtime.block_on(self.plan(documents, report));
        match unreadable {
            Some(_) => Outcome::Problems,
            None => outcome,
        }
    }

    async fn plan(&self, documents: Vec<Document>, report: &mut Report) -> Outcome {
        let Some((client, default_namespace)) = report.ok(self.cluster.connect().await) else {
            return Outcome::Problems;
        };
        let namespace = self.input.namespace().unwrap_or(&default_namespace);
        let documents = Documents::classify(documents, namespace);
        for (origin, what) in &documents.ignored {
            report.note(origin, "kind", what);
        }
        for problem in &documents.errors {
            report.error(problem);
        }
        let outcome = if documents.errors.is_empty() {
            Outcome::Fine
        } else {
            Outcome::Problems
        };
        if documents.given.is_empty() {
            return outcome;
        }
        let now = Time(jiff::Timestamp::now());
        let default = self.input.kubevirt_config();
        let provider = self.input.provider();
        let connect = connector();
        let found = preview_clusters(client, &documents, provider, default, &connect, now);
        match found.await {
            Ok(preview) => outcome.max(show(&preview, report)),
            Err(error) => {
                report.error(error);
                Outcome::Problems
            }
        }
    }
}

fn show(preview: &Preview, report: &mut Report) -> Outcome {
    let shown = Shown {
        notes: &preview.notes,
        errors: &preview.errors,
        fails: !preview.errors.is_empty(),
        has_changes: preview.has_changes(),
    };
    shown.finish(|out| preview.print(out), report)
}
