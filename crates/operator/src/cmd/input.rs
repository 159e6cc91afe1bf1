//! Input documents of the commands.

use std::{collections::BTreeSet, fmt, path::PathBuf};

use plan::machine::Provider;

use super::{
    Outcome,
    findings::{Finding, Level, Texts},
};
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
    #[arg(
        short,
        long = "filename",
        value_name = "FILE|DIR|-",
        required_unless_present = "files"
    )]
    filename: Vec<PathBuf>,

    /// The same as --filename
    #[arg(value_name = "FILE|DIR|-")]
    files: Vec<PathBuf>,

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
    /// What could not be read, for output that programs read.
    #[cfg_attr(not(feature = "cel"), expect(dead_code, reason = "for validate"))]
    pub(super) failures: Vec<Finding>,
    /// Documents of other kinds.
    pub(super) ignored: Vec<Document>,
    #[cfg_attr(not(feature = "cel"), expect(dead_code, reason = "for validate"))]
    pub(super) texts: Texts,
}

/// Documents as they were read.
#[derive(Default)]
pub(super) struct Read {
    pub(super) documents: Vec<Document>,
    pub(super) unreadable: Option<Unreadable>,
    pub(super) failures: Vec<Finding>,
    pub(super) texts: Texts,
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

impl Read {
    fn fail(&mut self, error: &documents::ReadError, report: &mut Report) {
        report.error(error);
        self.failures.push(Finding::unread(error));
        self.unreadable = Some(Unreadable);
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
        let Read {
            documents,
            unreadable,
            failures,
            texts,
        } = self.read(report);
        let mut loaded = Loaded {
            unreadable,
            failures,
            texts,
            ..Loaded::default()
        };
        for document in documents {
            self.decode(document, &mut loaded, report);
        }
        loaded
    }

    /// Reads all documents. Unreadable ones are reported at once.
    pub(super) fn read(&self, report: &mut Report) -> Read {
        let mut read = Read::default();
        let mut count = 0;
        let paths = [self.filename.as_slice(), &self.files].concat();
        for source in documents::sources(&paths, self.recursive) {
            match source.and_then(|source| source.read_with_text()) {
                Ok(found) => {
                    count += found.documents.len();
                    read.texts.insert(&found.file, found.text);
                    for document in found.documents {
                        match document {
                            Ok(document) => read.documents.push(document),
                            Err(error) => read.fail(&error, report),
                        }
                    }
                }
                Err(error) => read.fail(&error, report),
            }
        }
        if count == 0 && read.unreadable.is_none() {
            let message = "no documents found in the given files";
            report.error(message);
            read.failures.push(Finding::general(Level::Error, message));
            read.unreadable = Some(Unreadable);
        }
        read
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
                loaded.ignored.push(document);
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
