//! Errors and notes on standard error, colored on a terminal.

use std::{
    collections::BTreeMap,
    fmt::Display,
    io::{self, Write},
};

use anstyle::{AnsiColor, Style};

use crate::documents::Origin;

const ERROR: Style = AnsiColor::Red.on_default().bold();
const NOTE: Style = AnsiColor::Cyan.on_default().bold();

/// Prints errors at once, and notes when it is dropped, each note once.
pub(crate) struct Report {
    out: Box<dyn Write>,
    notes: BTreeMap<String, (String, usize)>,
    /// All notes in order: document, path and message. None if they are not recorded.
    recorded: Option<Vec<(Origin, String, String)>>,
}

impl Report {
    pub(crate) fn to_stderr() -> Self {
        Self {
            out: Box::new(anstream::AutoStream::auto(io::stderr())),
            notes: BTreeMap::new(),
            recorded: None,
        }
    }

    /// Records notes from now on, for output that programs read.
    pub(crate) fn record_notes(&mut self) {
        self.recorded.get_or_insert_default();
    }

    pub(crate) fn recorded_notes(&mut self) -> Vec<(Origin, String, String)> {
        self.recorded
            .as_mut()
            .map(std::mem::take)
            .unwrap_or_default()
    }

    pub(crate) fn error(&mut self, message: impl Display) {
        let message = printable(&message);
        // Nothing can be reported when standard error is closed.
        let _ = writeln!(self.out, "{ERROR}error:{ERROR:#} {message}");
    }

    /// The value of `result`; an error is reported.
    pub(crate) fn ok<T>(&mut self, result: Result<T, impl Display>) -> Option<T> {
        result.map_err(|error| self.error(error)).ok()
    }

    pub(crate) fn note(&mut self, origin: &Origin, path: &str, message: &str) {
        if let Some(recorded) = &mut self.recorded {
            recorded.push((origin.clone(), path.to_owned(), message.to_owned()));
        }
        let first = || (format!("{origin}: {path}"), 0);
        self.notes.entry(message.to_owned()).or_insert_with(first).1 += 1;
    }

    /// Note that does not refer to a document.
    pub(crate) fn general_note(&mut self, message: impl Display) {
        let message = printable(&message);
        let _ = writeln!(self.out, "{NOTE}note:{NOTE:#} {message}");
    }

    #[cfg(feature = "cel")]
    pub(crate) fn summary(&mut self, message: impl Display) {
        let _ = writeln!(self.out, "{message}");
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        for (message, (place, count)) in &self.notes {
            let more = match count - 1 {
                0 => String::new(),
                more => format!(" (and {more} more like it)"),
            };
            let note = format!("{place}: {message}{more}");
            let _ = writeln!(self.out, "{NOTE}note:{NOTE:#} {}", printable(&note));
        }
    }
}

/// Message on one line, with control characters escaped: field names come from documents.
pub(crate) fn printable(message: &impl Display) -> String {
    let mut printable = String::new();
    for character in message.to_string().chars() {
        if character.is_control() {
            printable.extend(character.escape_default());
        } else {
            printable.push(character);
        }
    }
    printable
}
