//! Input documents of the commands.

use std::{collections::BTreeSet, fmt, path::PathBuf};

use plan::machine::Provider;

use super::Outcome;
use crate::{
    documents::{self, Document, Origin},
    manifests::{self, Kind, Resource, UnknownKind},
    report::{Report, printable},
};

/// Note on a Machine of another provider.
pub(super) const OTHER_PROVIDER: &str =
    "names another provider: this operator leaves the Machine alone";

#[derive(clap::Args)]
pub(super) struct Input {
    /// File or directory with YAML or JSON documents, or - for standard input; can be repeated
    #[arg(short, long = "filename", value_name = "FILE|DIR|-", required = true)]
    filename: Vec<PathBuf>,

    /// Process directories recursively
    #[arg(short = 'R', long)]
    recursive: bool,

    /// Namespace of documents without one
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,

    /// Provider of the operator, which ignores Machines of others [default: kubevirt]
    #[arg(
        long,
        env = "MACHINE_PROVIDER",
        hide_env_values = true,
        value_name = "NAME"
    )]
    machine_provider: Option<String>,

    /// KubevirtConfig of the cluster for virtual machines of Machines that name none [default: the cluster of
    /// the Machine]
    #[arg(
        long,
        env = "KUBEVIRT_CONFIG",
        hide_env_values = true,
        value_name = "NAME"
    )]
    kubevirt_config: Option<String>,
}

/// Loaded documents.
#[derive(Default)]
pub(super) struct Loaded {
    pub(super) entries: Vec<Entry>,
    pub(super) problems: Vec<Problem>,
    /// Number of documents of the group vitistack.io.
    pub(super) checked: usize,
    pub(super) unreadable: Option<Unreadable>,
}

/// A document could not be read, which has been reported.
pub(super) struct Unreadable;

/// Document of a known kind.
pub(super) struct Entry {
    pub(super) origin: Origin,
    pub(super) resource: Resource,
    /// Fields that violate the schema.
    pub(super) invalid_fields: BTreeSet<String>,
}

/// Problem with a document.
pub(super) struct Problem {
    pub(super) origin: Origin,
    pub(super) path: String,
    pub(super) message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            origin,
            path,
            message,
        } = self;
        let line = match path.as_str() {
            "" => format!("{origin}: {message}"),
            path => format!("{origin}: {path}: {message}"),
        };
        f.write_str(&printable(&line))
    }
}

impl Loaded {
    pub(super) fn outcome(&self) -> Outcome {
        match (&self.unreadable, &self.problems[..]) {
            (Some(Unreadable), _) => Outcome::Unreadable,
            (None, []) => Outcome::Fine,
            (None, _) => Outcome::Problems,
        }
    }
}

impl Input {
    /// The operator's provider. As in the operator, an empty value counts as not set.
    pub(super) fn provider(&self) -> Provider {
        match self.machine_provider.as_deref().unwrap_or_default() {
            "" => Provider::default(),
            name => Provider::new(name),
        }
    }

    /// KubevirtConfig of Machines that name none. As in the operator, an empty value counts as not set.
    pub(super) fn kubevirt_config(&self) -> Option<String> {
        self.kubevirt_config.clone().filter(|name| !name.is_empty())
    }

    /// Reads and decodes all documents. Unreadable ones are reported at once.
    pub(super) fn load(&self, report: &mut Report) -> Loaded {
        let (documents, unreadable) = self.read(report);
        let mut loaded = Loaded {
            unreadable,
            ..Loaded::default()
        };
        for document in documents {
            self.decode(document, &mut loaded, report);
        }
        loaded
    }

    /// Reads all documents. Unreadable ones are reported at once.
    pub(super) fn read(&self, report: &mut Report) -> (Vec<Document>, Option<Unreadable>) {
        let mut documents = Vec::new();
        let mut unreadable = None;
        let mut failed = |error: documents::ReadError, report: &mut Report| {
            report.error(error);
            unreadable = Some(Unreadable);
        };
        let mut count = 0;
        for source in documents::sources(&self.filename, self.recursive) {
            match source.and_then(|source| source.read()) {
                Ok(found) => {
                    count += found.len();
                    for document in found {
                        match document {
                            Ok(document) => documents.push(document),
                            Err(error) => failed(error, report),
                        }
                    }
                }
                Err(error) => failed(error, report),
            }
        }
        if count == 0 && unreadable.is_none() {
            report.error("no documents found in the given files");
            unreadable = Some(Unreadable);
        }
        (documents, unreadable)
    }

    /// Namespace of documents without one.
    pub(super) fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    fn decode(&self, document: Document, loaded: &mut Loaded, report: &mut Report) {
        let kind = match manifests::kind(&document.value) {
            Ok(kind) => kind,
            Err(UnknownKind::Foreign(what)) => {
                report.note(&document.origin, "kind", &format!("{what} is ignored"));
                return;
            }
            Err(UnknownKind::Invalid { path, message }) => {
                loaded.checked += 1;
                loaded.problems.push(Problem {
                    origin: document.origin,
                    path: path.to_owned(),
                    message,
                });
                return;
            }
        };
        loaded.checked += usize::from(kind.is_vitistack());
        let mut invalid_fields = BTreeSet::new();
        for problem in schema_problems(kind, &document) {
            invalid_fields.insert(problem.path.clone());
            loaded.problems.push(problem);
        }
        let resource = manifests::resource(kind, &document.value, self.namespace.as_deref());
        let origin = document.origin;
        match resource {
            Ok(resource) => loaded.entries.push(Entry {
                origin,
                resource,
                invalid_fields,
            }),
            // The schema violation is already reported.
            Err(_) if !invalid_fields.is_empty() => {}
            Err(message) if !kind.is_vitistack() => report.note(&origin, "kind", &message),
            Err(message) => loaded.problems.push(Problem {
                origin,
                path: String::new(),
                message,
            }),
        }
    }
}

#[cfg(feature = "cel")]
fn schema_problems(kind: Kind, document: &Document) -> impl Iterator<Item = Problem> {
    let violations = crate::schemas::violations(kind, &document.value);
    violations.into_iter().map(|violation| Problem {
        origin: document.origin.clone(),
        path: violation.path,
        message: violation.problem.to_string(),
    })
}

#[cfg(not(feature = "cel"))]
fn schema_problems(_: Kind, _: &Document) -> impl Iterator<Item = Problem> {
    std::iter::empty()
}
