//! Conformance cases: behaviour of a Kubernetes API server, as requests that run on any server.
//!
//! A case is a sentence and requests in `cases/*.yaml`. The expected responses are recorded from a
//! kube-apiserver, in `recordings/*.yaml`, and never written by hand. [`run`] executes every case on
//! any server that a [`kube::Client`] reaches, over a socket or in the same process, and reports
//! differences.
//!
//! - Each case has a namespace of its own and names everything outside of it after that namespace,
//!   so cases run side by side, and beside other users of a cluster.
//! - Each case removes its objects, even if it fails, and with or without a namespace controller.
//! - Cases wait on tokio's clock, so a paused one works.
//! - The capabilities of a server ([`Capability`]) are probed. Cases that need a missing one are
//!   skipped, and the [`Report`] names them.
//!
//! To add a case, write it (`case.rs` lists the steps) and record it with
//! `conformance record --kubeconfig PATH --only TEXT`. Then check in the recording that the case's
//! name is true. CONTRIBUTING.md describes how to start a server for recording, and how to run the
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
    /// A file of cases or responses cannot be used.
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
