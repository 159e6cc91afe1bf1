//! What is common to the commands that show what would be done to a cluster.

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

/// The cluster that is looked at.
#[derive(clap::Args)]
pub(crate) struct Cluster {
    /// Kubeconfig of the cluster; without it KUBECONFIG, then that of the Pod, then ~/.kube/config
    #[arg(long, value_name = "PATH")]
    kubeconfig: Option<PathBuf>,
}

impl Cluster {
    /// A client for it, and the namespace that its kubeconfig names.
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

/// What is shown of a preview.
pub(crate) struct Shown<N, E> {
    /// What was not known.
    pub(crate) notes: N,
    /// What is wrong.
    pub(crate) errors: E,
    /// Whether it would go wrong.
    pub(crate) fails: bool,
    /// Whether anything would change.
    pub(crate) has_changes: bool,
}

impl<N, E> Shown<N, E>
where
    N: IntoIterator<Item: Display>,
    E: IntoIterator<Item: Display>,
{
    /// Prints a preview, tells the rest, and ends the command as all of it says.
    pub(crate) fn end(
        self,
        print: impl FnOnce(&mut AutoStream<Stdout>) -> io::Result<()>,
        report: &mut Report,
    ) -> Outcome {
        let mut out = AutoStream::auto(io::stdout());
        let printed = print(&mut out).and_then(|()| out.flush());
        let outcome = written(printed, report);
        for note in self.notes {
            report.remark(note);
        }
        for error in self.errors {
            report.error(error);
        }
        outcome.max(match (self.fails, self.has_changes) {
            (true, _) => Outcome::Problems,
            (false, true) => Outcome::Changes,
            (false, false) => Outcome::Fine,
        })
    }
}
