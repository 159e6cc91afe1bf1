mod print;

use std::{
    collections::BTreeMap,
    io::{self, Write},
    path::PathBuf,
    sync::Arc,
};

use api::Time;
use runtime::{
    client::{Counter, Limits, connect, layered, transport},
    election::Fence,
    store::Key,
};
use serde_json::Value;

use super::{Outcome, input::Input, written};
use crate::{
    documents::Document,
    machine::preview::{Given, Kind, Preview, preview},
    manifests::{self, NotOurs, Resource},
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
        let config = match connect(self.kubeconfig.as_deref()).await {
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
        let mut sorted = Sorted::default();
        for document in documents {
            sorted.take(document, namespace, report);
        }
        let mut outcome = if sorted.is_wrong {
            Outcome::Problems
        } else {
            Outcome::Fine
        };
        if sorted.ours.is_empty() {
            return outcome;
        }
        let now = Time(jiff::Timestamp::now());
        let preview = preview(client, sorted.ours, &sorted.others, now).await;
        match preview {
            Ok(preview) => outcome = outcome.max(show(&preview, report)),
            Err(error) => {
                report.error(error);
                outcome = Outcome::Problems;
            }
        }
        outcome
    }
}

fn show(preview: &Preview, report: &mut Report) -> Outcome {
    let mut out = anstream::AutoStream::auto(io::stdout());
    let printed = print::print(preview, &mut out).and_then(|()| out.flush());
    let outcome = written(printed, report);
    for note in &preview.notes {
        report.remark(note);
    }
    for error in &preview.errors {
        report.error(error);
    }
    let changes = preview.forecasts.iter().any(|it| !it.effects.is_empty());
    outcome.max(match (preview.errors.is_empty(), changes) {
        (false, _) => Outcome::Problems,
        (true, true) => Outcome::Changes,
        (true, false) => Outcome::Fine,
    })
}

/// Documents, by what is to be done with them.
#[derive(Default)]
struct Sorted {
    ours: Vec<Given>,
    others: Vec<Resource>,
    is_wrong: bool,
    seen: BTreeMap<(Kind, Key), String>,
}

impl Sorted {
    fn take(&mut self, document: Document, namespace: &str, report: &mut Report) {
        let Document { origin, mut value } = document;
        let place = origin.to_string();
        let mut wrong = |report: &mut Report, message: String| {
            report.error(format_args!("{place}: {message}"));
            self.is_wrong = true;
        };
        let kind = match manifests::kind(&value) {
            Ok(manifests::Kind::Machine) => Kind::Machine,
            Ok(manifests::Kind::MachineClass) => Kind::MachineClass,
            Ok(manifests::Kind::NetworkConfiguration) => Kind::NetworkConfiguration,
            Ok(kind @ (manifests::Kind::StorageClass | manifests::Kind::Secret)) => {
                match manifests::resource(kind, &value, Some(namespace)) {
                    Ok(resource) => self.others.push(resource),
                    Err(message) => report.note(&origin, "kind", &message),
                }
                return;
            }
            Err(NotOurs::Foreign(what)) => {
                report.note(&origin, "kind", &format!("{what} is passed over"));
                return;
            }
            Err(NotOurs::Wrong { path, message }) => {
                return wrong(report, format!("{path}: {message}"));
            }
        };
        let name = value["metadata"]["name"].as_str().unwrap_or_default();
        if name.is_empty() {
            let message = "metadata.name: is missing: give the object a name";
            return wrong(report, message.to_owned());
        }
        let name = name.to_owned();
        let key = if kind == Kind::MachineClass {
            Key::new("", &name)
        } else {
            let metadata = &mut value["metadata"];
            let given = metadata["namespace"].as_str().filter(|it| !it.is_empty());
            let namespace = given.unwrap_or(namespace).to_owned();
            metadata["namespace"] = Value::String(namespace.clone());
            Key::new(&namespace, &name)
        };
        if let Some(first) = self.seen.get(&(kind, key.clone())) {
            let kind = kind.as_str();
            let message =
                format!("{kind} {name:?} is already given by {first}: remove one of them");
            return wrong(report, message);
        }
        self.seen.insert((kind, key.clone()), place.clone());
        self.ours.push(Given {
            kind,
            key,
            value,
            place,
        });
    }
}
