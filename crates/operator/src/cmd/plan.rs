//! Command `plan`.

use std::io::Write;

use api::Time;
use plan::{
    Id,
    machine::preview::{Forecast, Restart},
    preview::{Change, Effect},
};
use serde_json::{Value, json};

use super::{
    Outcome,
    findings::{self, Finding, Format, Level, Texts},
    input::{Input, Read},
    preview::{Cluster, Detail, Shown},
};
use crate::{
    documents::{Document, Origin},
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
/// Exit status: 0 done, 1 an error: a document cannot be read, is refused by the API server, or is
/// invalid. With --detailed-exitcode: 0 no changes, 2 changes, 1 an error.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  kubevirt-operator plan -f machine.yaml
  kubevirt-operator plan -R -f manifests/ --kubeconfig ~/.kube/config --detailed-exitcode
  kubectl kustomize . | kubevirt-operator plan -f - -n shop")]
pub(crate) struct Args {
    #[command(flatten)]
    input: Input,

    #[command(flatten)]
    cluster: Cluster,

    #[command(flatten)]
    detail: Detail,

    /// Output format; sarif and github have errors and notes only
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

impl Args {
    pub(crate) fn run(self, report: &mut Report) -> Outcome {
        report.record_notes();
        let mut read = self.input.read(report);
        let Some(runtime) = report.ok(super::runtime()) else {
            return Outcome::Problems;
        };
        let documents = std::mem::take(&mut read.documents);
        let outcome = runtime.block_on(self.plan(documents, &read, report));
        match read.unreadable {
            Some(_) => Outcome::Problems,
            None => outcome,
        }
    }

    async fn plan(&self, documents: Vec<Document>, read: &Read, report: &mut Report) -> Outcome {
        let Some((client, default_namespace)) = report.ok(self.cluster.connect().await) else {
            return Outcome::Problems;
        };
        let namespace = self.input.namespace().unwrap_or(&default_namespace);
        let origins: Vec<Origin> = documents.iter().map(|it| it.origin.clone()).collect();
        let documents = Documents::classify(documents, namespace);
        for (origin, what) in &documents.ignored {
            report.note(origin, "kind", what);
        }
        let mut result = Preview::default();
        if !documents.given.is_empty() {
            let now = Time(jiff::Timestamp::now());
            let default = self.input.kubevirt_config();
            let provider = self.input.provider();
            let connect = connector();
            let found = preview_clusters(client, &documents, provider, default, &connect, now);
            match found.await {
                Ok(preview) => result = preview,
                Err(error) => {
                    report.error(error);
                    return Outcome::Problems;
                }
            }
        } else if self.output == Format::Text {
            for problem in &documents.errors {
                report.error(problem);
            }
            return match documents.errors.as_slice() {
                [] => Outcome::Fine,
                _ => Outcome::Problems,
            };
        }
        result.errors.splice(0..0, documents.errors);
        result.unread = read.failures.len();
        self.show(&result, &origins, read, report)
    }

    fn show(
        &self,
        preview: &Preview,
        origins: &[Origin],
        read: &Read,
        report: &mut Report,
    ) -> Outcome {
        let findings = Findings::of(preview, origins, read, &report.recorded_notes());
        let shown = Shown {
            notes: &preview.notes,
            errors: &preview.errors,
            fails: !preview.errors.is_empty(),
            is_detailed: self.detail.detailed_exitcode,
            has_changes: preview.has_changes(),
        };
        let print = |out: &mut dyn Write| match self.output {
            Format::Text => preview.print(out),
            Format::Json => writeln!(out, "{:#}", findings.json(preview)),
            Format::Sarif => writeln!(
                out,
                "{:#}",
                findings::sarif("plan", &findings.all(), findings.texts)
            ),
            Format::Github => {
                out.write_all(findings::github("plan", &findings.all(), findings.texts).as_bytes())
            }
        };
        shown.finish(|out| print(out), report)
    }
}

/// Errors and notes of a preview, by document.
struct Findings<'a> {
    errors: Vec<Finding>,
    notes: Vec<Finding>,
    texts: &'a Texts,
}

impl<'a> Findings<'a> {
    fn of(
        preview: &Preview,
        origins: &[Origin],
        read: &'a Read,
        notes: &[(Origin, String, String)],
    ) -> Self {
        let errors = preview.errors.iter();
        let errors = errors.map(|error| located(Level::Error, error, origins));
        let general = preview.notes.iter();
        let general = general.map(|note| located(Level::Note, note, origins));
        let notes = notes.iter();
        let notes = notes.map(|(origin, path, message)| Finding::note(origin, path, message));
        Self {
            errors: errors.chain(read.failures.iter().cloned()).collect(),
            notes: notes.chain(general).collect(),
            texts: &read.texts,
        }
    }

    fn all(&self) -> Vec<Finding> {
        [self.errors.as_slice(), &self.notes].concat()
    }

    fn json(&self, preview: &Preview) -> Value {
        json!({
            "hasChanges": preview.has_changes(),
            "isComplete": self.errors.is_empty(),
            "forecasts": preview.forecasts.iter().map(forecast).collect::<Vec<_>>(),
            "errors": findings::as_json(&self.errors, self.texts),
            "notes": findings::as_json(&self.notes, self.texts),
        })
    }
}

/// A message that begins with its document, as a finding of that document.
fn located(level: Level, message: &str, origins: &[Origin]) -> Finding {
    let found = origins.iter().find_map(|origin| {
        let rest = message.strip_prefix(&format!("{origin}: "))?;
        // A field at the start of the message has a position of its own.
        let field = rest.split_once(": ").filter(|(field, _)| is_path(field));
        Some(match field {
            Some((path, message)) => Finding::error(origin, path, message),
            None => Finding::error(origin, "", rest),
        })
    });
    let finding = found.unwrap_or_else(|| Finding::general(level, message));
    Finding { level, ..finding }
}

fn is_path(text: &str) -> bool {
    ["spec", "metadata", "kind", "apiVersion"]
        .iter()
        .any(|root| {
            text.strip_prefix(root)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        })
        && !text.contains(' ')
}

fn forecast(forecast: &Forecast) -> Value {
    let Forecast {
        id,
        effects,
        restart,
        notes,
    } = forecast;
    let (restart, fields) = match restart {
        Restart::None => ("None", [].as_slice()),
        Restart::Happens => ("Happens", [].as_slice()),
        Restart::Needed(fields) => ("Needed", fields.as_slice()),
    };
    json!({
        "object": object(id),
        "effects": effects.iter().map(effect).collect::<Vec<_>>(),
        "restart": restart,
        "restartFields": fields,
        "notes": notes,
    })
}

fn object(id: &Id) -> Value {
    let mut object = json!({ "group": &*id.group, "kind": &*id.kind, "name": &*id.name });
    if let Some(namespace) = id.namespace() {
        object["namespace"] = namespace.into();
    }
    object
}

fn effect(effect: &Effect) -> Value {
    let Effect {
        verb,
        id,
        reason,
        fields,
    } = effect;
    let fields = fields.iter().map(|Change { path, from, to }| {
        let mut change = json!({ "path": path });
        for (name, value) in [("from", from), ("to", to)] {
            if let Some(value) = value {
                change[name] = value.clone();
            }
        }
        change
    });
    json!({
        "verb": format!("{verb:?}"),
        "object": object(id),
        "reason": reason,
        "fields": fields.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_located_by_their_document_and_field() {
        let origin = Origin {
            file: "a.yaml".into(),
            document: 2,
            item: None,
        };
        let of = |message: &str| {
            let found = located(Level::Error, message, std::slice::from_ref(&origin));
            (found.origin.is_some(), found.path, found.message)
        };
        let expected = |is_found: bool, path: &str, message: &str| {
            (is_found, path.to_owned(), message.to_owned())
        };
        assert_eq!(
            of("a.yaml:2: spec.cpu: is bad"),
            expected(true, "spec.cpu", "is bad")
        );
        assert_eq!(
            of("a.yaml:2: refused: no"),
            expected(true, "", "refused: no")
        );
        assert_eq!(
            of("a.yaml:20: spec: no"),
            expected(false, "", "a.yaml:20: spec: no")
        );
    }
}
