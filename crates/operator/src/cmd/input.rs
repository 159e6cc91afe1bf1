use std::{collections::BTreeSet, fmt, path::PathBuf};

use super::Outcome;
use crate::{
    documents::{self, Document, Origin},
    manifests::{self, Kind, NotOurs, Resource},
    report::{Report, printable},
};

/// Where the documents of a command come from.
#[derive(clap::Args)]
pub(super) struct Input {
    /// File or folder with YAML or JSON documents, or - for standard input; can be repeated
    #[arg(short, long = "filename", value_name = "FILE|DIR|-", required = true)]
    filename: Vec<PathBuf>,

    /// Look into folders below the given ones too
    #[arg(short = 'R', long)]
    recursive: bool,

    /// Namespace of documents that name none
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,
}

/// What was found in the documents.
#[derive(Default)]
pub(super) struct Loaded {
    /// Those that are resources we know.
    pub(super) entries: Vec<Entry>,
    /// What is wrong with them.
    pub(super) problems: Vec<Problem>,
    /// How many were meant for us.
    pub(super) ours: usize,
    /// Whether all could be read.
    pub(super) read: Option<Unreadable>,
}

/// Something could not be read; it was reported.
pub(super) struct Unreadable;

/// A document that is a resource we know.
pub(super) struct Entry {
    pub(super) origin: Origin,
    pub(super) resource: Resource,
    /// The fields that were found wrong.
    pub(super) broken: BTreeSet<String>,
}

/// One thing that is wrong with a document.
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
    /// How loading went.
    pub(super) fn outcome(&self) -> Outcome {
        match (&self.read, &self.problems[..]) {
            (Some(Unreadable), _) => Outcome::Unreadable,
            (None, []) => Outcome::Fine,
            (None, _) => Outcome::Problems,
        }
    }
}

impl Input {
    /// Loads everything that can be loaded. What cannot be read is reported at once.
    pub(super) fn load(&self, report: &mut Report) -> Loaded {
        let (documents, read) = self.read(report);
        let mut loaded = Loaded {
            read,
            ..Loaded::default()
        };
        for document in documents {
            self.understand(document, &mut loaded, report);
        }
        loaded
    }

    /// Reads all documents that can be read. What cannot is reported at once.
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
            report.error("there is nothing to read: the given files hold no document");
            unreadable = Some(Unreadable);
        }
        (documents, unreadable)
    }

    /// The namespace of documents that name none.
    pub(super) fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    fn understand(&self, document: Document, loaded: &mut Loaded, report: &mut Report) {
        let kind = match manifests::kind(&document.value) {
            Ok(kind) => kind,
            Err(NotOurs::Foreign(what)) => {
                report.note(&document.origin, "kind", &format!("{what} is passed over"));
                return;
            }
            Err(NotOurs::Wrong { path, message }) => {
                loaded.ours += 1;
                loaded.problems.push(Problem {
                    origin: document.origin,
                    path: path.to_owned(),
                    message,
                });
                return;
            }
        };
        loaded.ours += usize::from(kind.is_ours());
        let mut broken = BTreeSet::new();
        for problem in schema_problems(kind, &document) {
            broken.insert(problem.path.clone());
            loaded.problems.push(problem);
        }
        let resource = manifests::resource(kind, &document.value, self.namespace.as_deref());
        let origin = document.origin;
        match resource {
            Ok(resource) => loaded.entries.push(Entry {
                origin,
                resource,
                broken,
            }),
            // The schema has said so already, in better words.
            Err(_) if !broken.is_empty() => {}
            Err(message) if !kind.is_ours() => report.note(&origin, "kind", &message),
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
