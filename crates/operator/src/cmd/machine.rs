//! Command `machine`: the kubectl plugin as a subcommand, and under the names of its links.

use std::{
    ffi::OsString,
    io::{self, IsTerminal as _},
    path::Path,
    process::ExitCode,
    sync::Arc,
};

use anstream::AutoStream;
use clap::{CommandFactory as _, FromArgMatches as _, Parser};
use jiff::Timestamp;
use plugin::{Connection, Session, Terminal};
use runtime::{
    client::{CallCounter, ConnectError, Limits, connect_to, layered, transport},
    election::Fence,
};

use super::Outcome;
use crate::{kubectl::previewer, report::Report};

/// List, diagnose, start, stop and create Machines: the kubectl plugin
///
/// A link to this program with the name kubectl-machine (or kubectl-vitistack) on the PATH makes it a plugin
/// of kubectl: `kubectl machine list`. A link with the name kubectl_complete-machine completes names in the
/// shell.
///
/// Exit code: 0 done, 1 an error, 2 a finding (`doctor`, `diff`), 64 wrong usage.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    connection: Connection,

    #[command(subcommand)]
    command: plugin::Command,
}

/// The plugin as kubectl calls it.
#[derive(Parser)]
#[command(version, arg_required_else_help = true)]
struct Plugin {
    #[command(flatten)]
    args: Args,
}

impl Args {
    pub(crate) fn run(self, report: &mut Report) -> Outcome {
        let Some(runtime) = report.ok(super::runtime()) else {
            return Outcome::Problems;
        };
        let Self {
            connection,
            command,
        } = self;
        let outcome = runtime.block_on(async {
            let Some(mut session) = report.ok(session(&connection).await) else {
                return Outcome::Problems;
            };
            match command.run(&mut session).await {
                plugin::ExitCode::Done => Outcome::Fine,
                plugin::ExitCode::Failed => Outcome::Problems,
                plugin::ExitCode::Found => Outcome::Changes,
            }
        });
        // A read of standard input cannot be cancelled.
        runtime.shutdown_background();
        outcome
    }
}

async fn session(connection: &Connection) -> Result<Session, ConnectError> {
    let paths: Vec<_> = connection
        .kubeconfig()
        .map(Path::to_owned)
        .into_iter()
        .collect();
    let config = connect_to(&paths, connection.context()).await?;
    let client = layered(
        transport(&config)?,
        Fence::open(),
        Limits::UNLIMITED,
        Arc::new(CallCounter::default()),
    );
    let namespace = connection.namespace().unwrap_or(&config.default_namespace);
    let is_shown = io::stderr().is_terminal();
    Ok(Session {
        client,
        namespace: namespace.to_owned(),
        out: Box::new(AutoStream::auto(io::stdout())),
        err: Box::new(AutoStream::auto(io::stderr())),
        terminal: Terminal {
            progress: is_shown,
            input: is_shown && io::stdin().is_terminal(),
        },
        clock: Arc::new(Timestamp::now),
        previewer: previewer(Timestamp::now),
        program: program(connection, namespace),
    })
}

/// Command line of the plugin with this connection.
fn program(connection: &Connection, namespace: &str) -> Vec<String> {
    let program = std::env::current_exe().ok();
    let program = program.map_or_else(
        || "kubevirt-operator".into(),
        |path| path.display().to_string(),
    );
    let mut words = vec![program, "machine".to_owned()];
    if let Some(path) = connection.kubeconfig() {
        words.extend(["--kubeconfig".to_owned(), path.display().to_string()]);
    }
    if let Some(context) = connection.context() {
        words.extend(["--context".to_owned(), context.to_owned()]);
    }
    words.extend(["--namespace".to_owned(), namespace.to_owned()]);
    words
}

/// What the name of the program asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// The plugin; with the word after `kubectl`.
    Plugin(&'static str),
    Completion,
}

impl Role {
    fn of(program: &Path) -> Option<Self> {
        match program.file_stem()?.to_str()? {
            "kubectl-machine" => Some(Self::Plugin("kubectl machine")),
            "kubectl-vitistack" => Some(Self::Plugin("kubectl vitistack")),
            "kubectl_complete-machine" | "kubectl_complete-vitistack" => Some(Self::Completion),
            _ => None,
        }
    }
}

/// Runs the plugin if the program has one of its names.
pub(crate) fn run_as_plugin() -> Option<ExitCode> {
    let mut words = std::env::args_os();
    let program = words.next()?;
    let code = match Role::of(Path::new(&program))? {
        Role::Plugin(name) => {
            let command = Plugin::command().name(name).bin_name(name);
            let words = std::iter::once(OsString::from(name)).chain(words);
            let parsed = command.try_get_matches_from(words);
            match parsed.and_then(|matches| Plugin::from_arg_matches(&matches)) {
                Ok(plugin) => plugin.args.run(&mut Report::to_stderr()).into(),
                Err(error) => super::usage(&error),
            }
        }
        Role::Completion => {
            let words: Vec<String> = words.filter_map(|word| word.into_string().ok()).collect();
            complete(&words)
        }
    };
    Some(code)
}

/// Prints candidates for the last word. Without a cluster there are none, and a message would garble the
/// command line.
fn complete(words: &[String]) -> ExitCode {
    let Ok(runtime) = super::runtime() else {
        return ExitCode::FAILURE;
    };
    let completed = runtime.block_on(async {
        let connection = Connection::of_words(words);
        let mut session = session(&connection).await.ok()?;
        plugin::complete(words, &mut session).await.ok()
    });
    match completed {
        Some(()) => ExitCode::SUCCESS,
        None => ExitCode::FAILURE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_the_program_decides_its_role() {
        for (program, expected) in [
            (
                "/usr/bin/kubectl-machine",
                Some(Role::Plugin("kubectl machine")),
            ),
            (
                "kubectl-vitistack.exe",
                Some(Role::Plugin("kubectl vitistack")),
            ),
            ("kubectl_complete-machine", Some(Role::Completion)),
            ("/usr/bin/kubevirt-operator", None),
        ] {
            assert_eq!(Role::of(Path::new(program)), expected, "{program}");
        }
    }

    #[test]
    fn the_command_line_of_the_plugin_is_valid() {
        Plugin::command().debug_assert();
    }
}
