use std::{
    io::{self, Write as _},
    path::PathBuf,
    sync::Arc,
};

use api::Time;
use runtime::{
    client::{Counter, Limits, connect, layered, transport},
    election::Fence,
};

use super::{Outcome, input::Input, written};
use crate::{
    documents::Document,
    machine::preview::{Documents, Preview, preview},
    report::Report,
};

/// Show what applying documents would do to the cluster
///
/// Asks the API server what the Machines, MachineClasses and NetworkConfigurations would be, and
/// plans on it as the operator does: objects that would be created (+), changed (~) and deleted
/// (-), and whether a running machine needs a restart. Nothing is written. Secrets and
/// StorageClasses among the documents are taken for applied; other documents are passed over.
///
/// Exit status: 0 nothing would change, 2 something would, 1 something is wrong: a document cannot
/// be read, is refused, or would not work.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  kubevirt-operator plan -f machine.yaml
  kubevirt-operator plan -R -f manifests/ --kubeconfig ~/.kube/config
  kubectl kustomize . | kubevirt-operator plan -f - -n shop")]
pub(crate) struct Args {
    #[command(flatten)]
    input: Input,

    /// Kubeconfig of the cluster; without it KUBECONFIG, then that of the Pod, then ~/.kube/config
    #[arg(long, value_name = "PATH")]
    kubeconfig: Option<PathBuf>,
}

impl Args {
    pub(crate) fn run(self, report: &mut Report) -> Outcome {
        let (documents, unreadable) = self.input.read(report);
        let runtime = match super::runtime() {
            Ok(runtime) => runtime,
            Err(error) => {
                report.error(format_args!("cannot start: {error}"));
                return Outcome::Problems;
            }
        };
        let outcome = runtime.block_on(self.plan(documents, report));
        match unreadable {
            Some(_) => Outcome::Problems,
            None => outcome,
        }
    }

    async fn plan(&self, documents: Vec<Document>, report: &mut Report) -> Outcome {
        let config = match connect(self.kubeconfig.as_slice()).await {
            Ok(config) => config,
            Err(error) => {
                report.error(error);
                return Outcome::Problems;
            }
        };
        let transport = match transport(&config) {
            Ok(transport) => transport,
            Err(error) => {
                report.error(error);
                return Outcome::Problems;
            }
        };
        let client = layered(
            transport,
            Fence::open(),
            Limits::UNLIMITED,
            Arc::new(Counter::default()),
        );
        let namespace = self.input.namespace().unwrap_or(&config.default_namespace);
        let documents = Documents::sort(documents, namespace);
        for (origin, what) in &documents.passed_over {
            report.note(origin, "kind", what);
        }
        for problem in &documents.wrong {
            report.error(problem);
        }
        let outcome = if documents.wrong.is_empty() {
            Outcome::Fine
        } else {
            Outcome::Problems
        };
        if documents.given.is_empty() {
            return outcome;
        }
        let now = Time(jiff::Timestamp::now());
        match preview(client, &documents, now).await {
            Ok(preview) => outcome.max(show(&preview, report)),
            Err(error) => {
                report.error(error);
                Outcome::Problems
            }
        }
    }
}

fn show(preview: &Preview, report: &mut Report) -> Outcome {
    let mut out = anstream::AutoStream::auto(io::stdout());
    let printed = preview.print(&mut out).and_then(|()| out.flush());
    let outcome = written(printed, report);
    for note in &preview.notes {
        report.remark(note);
    }
    for error in &preview.errors {
        report.error(error);
    }
    outcome.max(match (preview.errors.is_empty(), preview.has_changes()) {
        (false, _) => Outcome::Problems,
        (true, true) => Outcome::Changes,
        (true, false) => Outcome::Fine,
    })
}
