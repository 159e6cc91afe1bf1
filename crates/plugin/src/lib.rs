//! kubectl plugin: the life of a Machine on the command line.
//!
//! [`Command`] has one variant per command; each is a file. A command reads and writes the cluster through
//! a [`Session`], which also has its output and clock, so tests run commands in a process, on virtual time.
//!
//! Exit codes: 0 done, 1 an error, 2 a finding (`doctor` found a problem, `diff` found changes). Wrong
//! usage is 64, which the binary decides.

mod age;
mod complete;
mod console;
mod create;
mod diff;
mod doctor;
mod events;
mod failure;
mod family;
mod kinds;
mod list;
mod output;
mod port_forward;
mod power;
mod read;
mod select;
mod session;
mod ssh;
mod table;
mod tree;
mod tunnel;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};

pub use complete::complete;
pub use failure::{ExitCode, Failure};
pub use session::{Changes, Previewer, Session, SharedWriter, Terminal};

/// Cluster that a command works on, as kubectl's flags name it.
#[derive(Args, Clone, Debug, Default)]
pub struct Connection {
    /// Path of a kubeconfig; without it $KUBECONFIG, then ~/.kube/config
    #[arg(long, global = true, value_name = "PATH")]
    kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig [default: the current context]
    #[arg(long, global = true, value_name = "NAME")]
    context: Option<String>,

    /// Namespace [default: the context's]
    #[arg(short, long, global = true, value_name = "NAMESPACE")]
    namespace: Option<String>,
}

impl Connection {
    /// The connection that incomplete words name.
    pub fn of_words(words: &[String]) -> Self {
        let value = |names: &[&str]| complete::value(words, names).map(str::to_owned);
        Self {
            kubeconfig: value(&["--kubeconfig"]).map(PathBuf::from),
            context: value(&["--context"]),
            namespace: value(&["--namespace", "-n"]),
        }
    }

    pub fn kubeconfig(&self) -> Option<&Path> {
        self.kubeconfig.as_deref()
    }

    pub fn context(&self) -> Option<&str> {
        self.context.as_deref()
    }

    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }
}

/// A command of the plugin.
#[derive(Subcommand, Debug)]
pub enum Command {
    #[command(visible_alias = "ls")]
    List(list::List),
    Doctor(doctor::Doctor),
    Events(events::Events),
    Tree(tree::Tree),
    Diff(diff::Diff),
    Create(create::Create),
    Start(power::Start),
    Stop(power::Stop),
    Restart(power::Restart),
    Pause(power::Pause),
    Resume(power::Resume),
    Console(console::Console),
    PortForward(port_forward::PortForward),
    Ssh(ssh::Ssh),
    Scp(ssh::Scp),
}

impl Command {
    pub async fn run(self, session: &mut Session) -> ExitCode {
        let result = match self {
            Self::List(command) => command.run(session).await,
            Self::Doctor(command) => command.run(session).await,
            Self::Events(command) => command.run(session).await,
            Self::Tree(command) => command.run(session).await,
            Self::Diff(command) => command.run(session).await,
            Self::Create(command) => command.run(session).await,
            Self::Start(command) => command.run(session).await,
            Self::Stop(command) => command.run(session).await,
            Self::Restart(command) => command.run(session).await,
            Self::Pause(command) => command.run(session).await,
            Self::Resume(command) => command.run(session).await,
            Self::Console(command) => command.run(session).await,
            Self::PortForward(command) => command.run(session).await,
            Self::Ssh(command) => command.run(session).await,
            Self::Scp(command) => command.run(session).await,
        };
        match result {
            Ok(code) => code,
            // The reader of the output has gone, as in `| head`.
            Err(Failure::Output(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => {
                ExitCode::Done
            }
            Err(failure) => {
                session.error(&failure.to_string());
                ExitCode::Failed
            }
        }
    }
}
