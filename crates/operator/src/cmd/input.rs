use std::path::PathBuf;

use super::Outcome;
use crate::{
    documents::{self, Document},
    report::Report,
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
    pub(super) namespace: Option<String>,
}

impl Input {
    /// Reads everything that can be read; what cannot is reported.
    pub(super) fn read(&self, report: &mut Report) -> (Vec<Document>, Outcome) {
        let mut outcome = Outcome::Fine;
        let mut all = Vec::new();
        for source in documents::sources(&self.filename, self.recursive) {
            let read = source.and_then(|source| source.read());
            match read {
                Ok(documents) => {
                    for document in documents {
                        match document {
                            Ok(document) => all.push(document),
                            Err(error) => {
                                report.error(error);
                                outcome = Outcome::Unreadable;
                            }
                        }
                    }
                }
                Err(error) => {
                    report.error(error);
                    outcome = Outcome::Unreadable;
                }
            }
        }
        (all, outcome)
    }
}
