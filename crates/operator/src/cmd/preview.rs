//! Common parts of the commands `plan` and `virt-operator plan`.

use std::{
    fmt::Display,
    io::{self, Stdout, Write as _},
    path::PathBuf,
    sync::Arc,
};

use anstream::AutoStream;
use kube::Client;
use runtime::{
    client::{CallCounter, ConnectError, Limits, connect, layered, transport},
    election::Fence,
};

use super::{Outcome, written};
use crate::report::Report;

/// Cluster that the preview is computed for.
#[derive(clap::Args)]
pub(crate) struct Cluster {
    /// Path of a kubeconfig; without it $KUBECONFIG, then the in-cluster configuration, then
    /// ~/.kube/config
    #[arg(long, value_name = "PATH")]
    kubeconfig: Option<PathBuf>,
}

/// Exit status of a preview.
#[derive(clap::Args)]
pub(crate) struct Detail {
    /// Exit with status 2 if there are changes
    #[arg(long)]
    pub(crate) detailed_exitcode: bool,
}

impl Cluster {
    /// Client, and the default namespace of the kubeconfig.
    pub(crate) async fn connect(&self) -> Result<(Client, String), ConnectError> {
        let config = connect(self.kubeconfig.as_slice()).await?;
        let client = layered(
            transport(&config)?,
            Fence::open(),
            Limits::UNLIMITED,
            Arc::new(CallCounter::default()),
        );
        Ok((client, config.default_namespace))
    }
}

/// Result of a preview to print.
pub(crate) struct Shown<N, E> {
    pub(crate) notes: N,
    pub(crate) errors: E,
    pub(crate) fails: bool,
    /// Whether changes have an exit status of their own.
    pub(crate) is_detailed: bool,
    pub(crate) has_changes: bool,
}

impl<N, E> Shown<N, E>
where
    N: IntoIterator<Item: Display>,
    E: IntoIterator<Item: Display>,
{
    /// Prints the preview, its notes and its errors, and returns the outcome of the command.
    pub(crate) fn finish(
        self,
        print: impl FnOnce(&mut AutoStream<Stdout>) -> io::Result<()>,
        report: &mut Report,
    ) -> Outcome {
        let mut out = AutoStream::auto(io::stdout());
        let printed = print(&mut out).and_then(|()| out.flush());
        let outcome = written(printed, report);
        for note in self.notes {
            report.general_note(note);
        }
        for error in self.errors {
            report.error(error);
        }
        outcome.max(match (self.fails, self.has_changes && self.is_detailed) {
            (true, _) => Outcome::Problems,
            (false, true) => Outcome::Changes,
            (false, false) => Outcome::Fine,
        })
    }
}
