//! What a Kubernetes API server answers, as cases that run on any of them.
//!
//! A case is data: a sentence, and requests in `cases/*.yaml`. What a server is to answer is
//! recorded from a real kube-apiserver, in `recordings/*.yaml`; nobody writes an expectation by
//! hand. [`run`] takes the steps of every case on any server that a [`kube::Client`] reaches, a
//! socket away or in the same process, and reports where its answers differ.
//!
//! - Each case has a namespace of its own and names everything outside of it after that namespace,
//!   so cases run side by side, and beside other users of a cluster.
//! - Each case removes what it made, also when it fails, and whether or not a namespace controller
//!   runs.
//! - Cases wait on tokio's clock, so a paused one works.
//! - What a server cannot do ([`Capability`]) is found out by asking it. The cases that need it are
//!   skipped, and the [`Report`] names them.
//!
//! To add a case, write it (see `case.rs` for what a step can be), and have a server answer it:
//! `conformance record --kubeconfig PATH --only TEXT`. Then read what was recorded: it says whether
//! the case's name is true. CONTRIBUTING.md tells how to start a server for it, and how to run the
//! cases on any cluster.

mod capability;
mod case;
mod cleanup;
mod compare;
mod exchange;
mod hide;
mod library;
mod normalise;
mod pick;
mod record;
mod recording;
mod report;
mod runner;
mod session;
mod template;
mod wait;
mod webhook;
mod yaml;

use std::path::{Path, PathBuf};

pub use capability::Capability;
pub use case::Case;
pub use compare::{Difference, Level};
pub use exchange::Error as ExchangeError;
pub use record::record;
pub use report::{Cause, Failure, Report, Skip};
pub use runner::{Options, run};

/// Every case, in the order in which they are reported.
///
/// # Errors
/// When a file of cases is not one, which the tests of this crate rule out.
pub fn cases() -> Result<Vec<Case>, Error> {
    library::cases()
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server could not be asked for its capabilities.
    #[error(transparent)]
    Server(#[from] ExchangeError),
    /// A file of cases or answers cannot be used.
    #[error("{path}: {why}")]
    File {
        /// The file, or its area.
        path: PathBuf,
        /// Why not.
        why: String,
    },
    /// The webhook server could not be started.
    #[error("webhook server: {0}")]
    Webhooks(String),
}

impl Error {
    fn file(path: &Path, why: impl std::fmt::Display) -> Self {
        Self::File {
            path: path.to_owned(),
            why: why.to_string(),
        }
    }
}
