//! Surroundings of a command: client, namespace, output, clock.

use std::{
    io::{self, Write},
    sync::{Arc, Mutex, PoisonError},
};

use anstyle::{AnsiColor, Style};
use futures::future::LocalBoxFuture;
use jiff::Timestamp;
use kube::Client;
use serde_json::Value;

const ERROR: Style = AnsiColor::Red.on_default().bold();
const NOTE: Style = AnsiColor::Cyan.on_default().bold();

/// Changes that a preview found.
#[derive(Debug, Default)]
pub struct Changes {
    /// Text to print.
    pub text: String,
    pub has_changes: bool,
    pub errors: Vec<String>,
    pub notes: Vec<String>,
}

/// Preview of what the operator would change: objects to what reconciling them would lead to.
pub type Previewer = Box<
    dyn Fn(Client, Vec<Value>) -> LocalBoxFuture<'static, Result<Changes, String>> + Send + Sync,
>;

/// What the streams of a command are connected to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Terminal {
    /// Whether progress may overwrite its line.
    pub progress: bool,
    /// Whether a person can answer questions.
    pub input: bool,
}

/// Surroundings of a command.
pub struct Session {
    pub client: Client,
    /// Namespace of names without one.
    pub namespace: String,
    pub out: Box<dyn Write + Send>,
    /// Errors, notes and progress.
    pub err: Box<dyn Write + Send>,
    pub terminal: Terminal,
    pub clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    pub previewer: Previewer,
    /// Command line of this plugin with the same cluster and namespace, for programs that call it.
    pub program: Vec<String>,
}

impl Session {
    pub(crate) fn now(&self) -> Timestamp {
        (self.clock)()
    }

    // Nothing can be reported when standard error is closed, so failed writes are ignored.

    pub(crate) fn error(&mut self, message: &str) {
        let _ = writeln!(self.err, "{ERROR}error:{ERROR:#} {}", printable(message));
    }

    pub(crate) fn note(&mut self, message: &str) {
        let _ = writeln!(self.err, "{NOTE}note:{NOTE:#} {}", printable(message));
    }

    /// Shows progress: over the last one on a terminal, as a line elsewhere.
    pub(crate) fn progress(&mut self, message: &str) {
        let message = printable(message);
        let _ = if self.terminal.progress {
            write!(self.err, "\r\x1b[K{message}")
        } else {
            writeln!(self.err, "{message}")
        };
        let _ = self.err.flush();
    }

    /// Removes the progress from a terminal.
    pub(crate) fn end_progress(&mut self) {
        if self.terminal.progress {
            let _ = write!(self.err, "\r\x1b[K");
            let _ = self.err.flush();
        }
    }
}

/// Text on one line, with control characters escaped: messages come from the cluster.
pub(crate) fn printable(text: &str) -> String {
    let mut printable = String::new();
    for character in text.chars() {
        if character.is_control() {
            printable.extend(character.escape_default());
        } else {
            printable.push(character);
        }
    }
    printable
}

/// Writer to memory that keeps what was written readable for others.
#[derive(Clone, Debug, Default)]
pub struct SharedWriter(Arc<Mutex<Vec<u8>>>);

impl SharedWriter {
    /// What was written since the last call.
    pub fn take(&self) -> String {
        let mut bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&std::mem::take(&mut *bytes)).into_owned()
    }
}

impl Write for SharedWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
