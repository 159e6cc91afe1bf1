//! Positions in a source, and errors that show them.

use std::fmt::Write as _;

use crate::ast::Id;

/// Errors beyond these are only counted.
const MAX_ERRORS: usize = 100;

/// A source text and the position of each node: an offset in characters.
#[derive(Debug)]
pub(crate) struct Source<'s> {
    text: &'s str,
    positions: Vec<Option<usize>>,
    errors: Vec<Error>,
}

#[derive(Debug)]
struct Error {
    /// Line from 1 and column from 0; -1 if the position is unknown.
    line: i64,
    column: i64,
    message: String,
}

impl<'s> Source<'s> {
    pub(crate) fn new(text: &'s str) -> Self {
        Self {
            text,
            positions: Vec::new(),
            errors: Vec::new(),
        }
    }

    /// Identifier for a new node at `position`.
    pub(crate) fn new_id(&mut self, position: Option<usize>) -> Id {
        self.positions.push(position);
        self.positions.len() - 1
    }

    /// Number of identifiers.
    pub(crate) fn ids(&self) -> usize {
        self.positions.len()
    }

    pub(crate) fn position(&self, id: Id) -> Option<usize> {
        self.positions.get(id).copied().flatten()
    }

    pub(crate) fn forget_position(&mut self, id: Id) {
        if let Some(position) = self.positions.get_mut(id) {
            *position = None;
        }
    }

    pub(crate) fn has_errors(&self) -> bool {
        !self.errors.is_empty()
    }

    pub(crate) fn error(&mut self, id: Id, message: impl Into<String>) {
        self.error_at(self.position(id), message);
    }

    pub(crate) fn error_at(&mut self, position: Option<usize>, message: impl Into<String>) {
        let (line, column) = match position {
            Some(position) => self.line_and_column(position),
            None => (-1, -1),
        };
        self.errors.push(Error {
            line,
            column,
            message: message.into(),
        });
    }

    /// Adds an error at a line and a column, both from 1.
    pub(crate) fn error_in_line(&mut self, line: i64, column: i64, message: String) {
        self.errors.push(Error {
            line,
            column: column - 1,
            message,
        });
    }

    fn line_and_column(&self, position: usize) -> (i64, i64) {
        let (mut line, mut column) = (1, 0);
        for letter in self.text.chars().take(position) {
            if letter == '\n' {
                line += 1;
                column = 0;
            } else {
                column += 1;
            }
        }
        (line, column)
    }

    /// All errors, each with its line and a caret, in the order of the source.
    pub(crate) fn report(&mut self) -> String {
        self.errors.sort_by_key(|error| (error.line, error.column));
        let mut shown: Vec<String> = self
            .errors
            .iter()
            .take(MAX_ERRORS)
            .map(|error| self.shown(error))
            .collect();
        if let Some(more) = self
            .errors
            .len()
            .checked_sub(MAX_ERRORS)
            .filter(|more| *more > 0)
        {
            shown.push(format!("{more} more errors were truncated"));
        }
        shown.join("\n")
    }

    fn shown(&self, error: &Error) -> String {
        let Error {
            line,
            column,
            message,
        } = error;
        let mut shown = format!("ERROR: <input>:{line}:{}: {message}", column + 1);
        let text = usize::try_from(*line)
            .ok()
            .and_then(|line| self.text.split('\n').nth(line.checked_sub(1)?));
        let Some(text) = text else { return shown };
        let text = text.replace('\t', " ");
        let _ = write!(shown, "\n | {text}\n | ");
        let mut letters = text.chars();
        // A wide letter gets a wide mark below it.
        for _ in 0..*column {
            match letters.next() {
                Some(letter) => shown.push(if letter.is_ascii() { '.' } else { '\u{ff0e}' }),
                None => break,
            }
        }
        let is_narrow = letters.next().is_none_or(|letter| letter.is_ascii());
        shown.push(if is_narrow { '^' } else { '\u{ff3e}' });
        shown
    }
}
