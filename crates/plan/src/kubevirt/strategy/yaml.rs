//! Streaming conversion of YAML documents to JSON text.
//!
//! A strategy is megabytes of YAML, mostly schemas that the operator never reads. So no tree is built:
//! the parser's events are written as JSON, one document at a time.
//!
//! Scalars are parsed as by kubectl: `017` is fifteen, `y` is true, `2.0` is two. Duplicate keys are
//! errors. So are aliases, which no release uses: without them the size of the JSON is bounded by that
//! of the YAML.

use std::{borrow::Cow, collections::BTreeSet, io::Write as _, ops::Range};

use granit_parser::{Event, Parser, ScalarStyle, Tag};
use serde_json::Number;

/// Maximum nesting, which JSON parsers must support.
const MAX_DEPTH: usize = 100;

/// A syntax error.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Problem {
    /// From 1.
    pub line: usize,
    /// Does not quote the document.
    pub message: String,
}

/// Calls `each` with the JSON and the first line of every non-empty document.
pub(super) fn documents<E: From<Problem>>(
    text: &str,
    mut each: impl FnMut(&str, usize) -> Result<(), E>,
) -> Result<(), E> {
    let options = granit_parser::options! { emit_comments: false };
    let mut document = Document::default();
    for event in Parser::new_from_str_with_options(text, options) {
        let (event, span) = event.map_err(|error| Problem {
            line: error.marker().line(),
            message: error.kind().to_string(),
        })?;
        let line = span.start.line();
        if let Event::DocumentEnd = event {
            if document.json != b"null" {
                // The JSON is made of text.
                let json = String::from_utf8_lossy(&document.json);
                each(&json, document.line)?;
            }
            document.clear();
        } else {
            let written = document.on_event(event, line);
            written.map_err(|message| Problem {
                line,
                message: message.to_owned(),
            })?;
        }
    }
    Ok(())
}

#[derive(Default)]
struct Document {
    json: Vec<u8>,
    line: usize,
    levels: Vec<Level>,
    /// Ranges of the keys of all open mappings, those of the innermost mapping last.
    keys: Vec<Range<usize>>,
}

/// An open collection.
enum Level {
    Sequence {
        first: bool,
    },
    Mapping {
        /// Whether a key comes next.
        key: bool,
        /// Index of its first key in [`Document::keys`].
        keys: usize,
        /// Its keys, if they are not sorted.
        unsorted: Option<BTreeSet<Vec<u8>>>,
    },
}

impl Document {
    fn clear(&mut self) {
        self.json.clear();
        self.levels.clear();
        self.keys.clear();
    }

    fn on_event(&mut self, event: Event<'_>, line: usize) -> Result<(), &'static str> {
        match event {
            Event::DocumentStart(..) => self.line = line,
            Event::Scalar(text, style, _, tag) => {
                let scalar = Scalar::read(&text, style, tag.as_deref())?;
                if self.key_is_next() {
                    self.key(scalar)?;
                } else {
                    self.begin_value();
                    scalar.write(&mut self.json);
                    self.end_value();
                }
            }
            Event::SequenceStart(_, _, tag) => {
                self.open(b'[', Level::Sequence { first: true }, "seq", tag.as_deref())?;
            }
            Event::MappingStart(_, _, tag) => {
                let level = Level::Mapping {
                    key: true,
                    keys: self.keys.len(),
                    unsorted: None,
                };
                self.open(b'{', level, "map", tag.as_deref())?;
            }
            Event::SequenceEnd => self.close(b']'),
            Event::MappingEnd => self.close(b'}'),
            Event::Alias(_) => return Err("an alias: write out the value that it refers to"),
            _ => {}
        }
        Ok(())
    }

    fn key_is_next(&self) -> bool {
        matches!(self.levels.last(), Some(Level::Mapping { key: true, .. }))
    }

    fn open(
        &mut self,
        bracket: u8,
        level: Level,
        type_: &str,
        tag: Option<&Tag>,
    ) -> Result<(), &'static str> {
        if tag.is_some_and(|tag| !tag.is_yaml_core_schema_tag(type_)) {
            return Err(UNKNOWN_TAG);
        }
        if self.key_is_next() {
            return Err("a key is not text: only text can be a key");
        }
        if self.levels.len() >= MAX_DEPTH {
            return Err("is nested too deeply");
        }
        self.begin_value();
        self.json.push(bracket);
        self.levels.push(level);
        Ok(())
    }

    fn close(&mut self, bracket: u8) {
        if let Some(Level::Mapping { keys, .. }) = self.levels.pop() {
            self.keys.truncate(keys);
        }
        self.json.push(bracket);
        self.end_value();
    }

    fn begin_value(&mut self) {
        if let Some(Level::Sequence { first }) = self.levels.last_mut()
            && !std::mem::take(first)
        {
            self.json.push(b',');
        }
    }

    fn end_value(&mut self) {
        if let Some(Level::Mapping { key, .. }) = self.levels.last_mut() {
            *key = true;
        }
    }

    fn key(&mut self, scalar: Scalar<'_>) -> Result<(), &'static str> {
        let Some(Level::Mapping {
            key,
            keys,
            unsorted,
        }) = self.levels.last_mut()
        else {
            return Ok(());
        };
        *key = false;
        if self.keys.len() > *keys {
            self.json.push(b',');
        }
        let start = self.json.len();
        match scalar {
            Scalar::Null => return Err("a key is null"),
            Scalar::Text(text) if text == "<<" => {
                return Err("a merge key (<<): write out what it merges");
            }
            text @ Scalar::Text(_) => text.write(&mut self.json),
            other => {
                self.json.push(b'"');
                other.write(&mut self.json);
                self.json.push(b'"');
            }
        }
        let end = self.json.len();
        let written = |range: &Range<usize>| self.json.get(range.clone()).unwrap_or_default();
        let new = written(&(start..end));
        let before = self.keys.get(*keys..).unwrap_or_default();
        let twice = if let Some(unsorted) = unsorted {
            !unsorted.insert(new.to_owned())
        } else if before.last().is_none_or(|last| written(last) < new) {
            // Sorted keys, as in every release, have no duplicates.
            false
        } else {
            let mut all: BTreeSet<_> = before.iter().map(|range| written(range).to_vec()).collect();
            let twice = !all.insert(new.to_owned());
            *unsorted = Some(all);
            twice
        };
        if twice {
            return Err("a mapping has a duplicate key");
        }
        self.keys.push(start..end);
        self.json.push(b':');
        Ok(())
    }
}

const UNKNOWN_TAG: &str = "a tag that does not fit, or that Kubernetes does not know: leave it out";

/// A scalar of JSON.
enum Scalar<'a> {
    Null,
    Bool(bool),
    Number(Number),
    Text(Cow<'a, str>),
}

impl<'a> Scalar<'a> {
    fn read(text: &'a str, style: ScalarStyle, tag: Option<&Tag>) -> Result<Self, &'static str> {
        let as_text = Self::Text(text.into());
        let Some(tag) = tag else {
            return match style {
                ScalarStyle::Plain => Self::plain(text),
                _ => Ok(as_text),
            };
        };
        let read = match tag.core_suffix() {
            Some("str") => return Ok(as_text),
            Some(_) => Self::plain(text)?,
            // The tag `!` makes a scalar a string.
            None if tag.parts() == ("", "!") || tag.parts() == ("!", "") => return Ok(as_text),
            None => return Err(UNKNOWN_TAG),
        };
        let fits = match &read {
            Self::Null => tag.is_yaml_core_schema_tag("null"),
            Self::Bool(_) => tag.is_yaml_core_schema_tag("bool"),
            Self::Number(_) => {
                tag.is_yaml_core_schema_tag("int") || tag.is_yaml_core_schema_tag("float")
            }
            Self::Text(_) => false,
        };
        if fits { Ok(read) } else { Err(UNKNOWN_TAG) }
    }

    fn plain(text: &'a str) -> Result<Self, &'static str> {
        Ok(match text.as_bytes().first() {
            None | Some(b'~') if text.len() < 2 => Self::Null,
            Some(b'0'..=b'9' | b'+' | b'-' | b'.') => match number(text)? {
                Some(number) => Self::Number(number),
                None => Self::Text(text.into()),
            },
            Some(b'n' | b'N' | b'y' | b'Y' | b't' | b'T' | b'f' | b'F' | b'o' | b'O') => word(text),
            _ => Self::Text(text.into()),
        })
    }

    fn write(&self, json: &mut Vec<u8>) {
        // Writing to memory does not fail.
        let _ = match self {
            Self::Null => json.write_all(b"null"),
            Self::Bool(true) => json.write_all(b"true"),
            Self::Bool(false) => json.write_all(b"false"),
            Self::Number(number) => write!(json, "{number}"),
            Self::Text(text) => serde_json::to_writer(json, text).map_err(Into::into),
        };
    }
}

fn word(text: &str) -> Scalar<'_> {
    match text {
        "null" | "Null" | "NULL" => Scalar::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            Scalar::Bool(true)
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            Scalar::Bool(false)
        }
        _ => Scalar::Text(text.into()),
    }
}

/// Parses a plain scalar as a number; None if it is not one.
fn number(text: &str) -> Result<Option<Number>, &'static str> {
    let (negative, digits) = match text.as_bytes().first() {
        Some(b'-') => (true, text.get(1..).unwrap_or_default()),
        Some(b'+') => (false, text.get(1..).unwrap_or_default()),
        _ => (false, text),
    };
    if matches!(digits, ".inf" | ".Inf" | ".INF" | ".nan" | ".NaN" | ".NAN") {
        return Err(TOO_LARGE);
    }
    // Rust would accept a second sign.
    if !matches!(digits.as_bytes().first(), Some(b'0'..=b'9' | b'.')) {
        return Ok(None);
    }
    let digits: Cow<'_, str> = if digits.contains('_') {
        digits.replace('_', "").into()
    } else {
        digits.into()
    };
    let whole = |digits: &str, radix| u64::from_str_radix(digits, radix).ok();
    let after = |prefix| digits.strip_prefix(prefix);
    let whole = if let Some(hex) = after("0x") {
        whole(hex, 16)
    } else if let Some(octal) = after("0o") {
        whole(octal, 8)
    } else if let Some(binary) = after("0b") {
        whole(binary, 2)
    } else {
        let octal = after("0").filter(|rest| !rest.is_empty());
        octal
            .and_then(|octal| whole(octal, 8))
            .or_else(|| whole(&digits, 10).filter(|_| octal.is_none()))
    };
    if let Some(whole) = whole {
        if !negative {
            return Ok(Some(whole.into()));
        }
        if let Some(whole) = 0_i64.checked_sub_unsigned(whole) {
            return Ok(Some(whole.into()));
        }
    }
    if !digits
        .bytes()
        .all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-'))
    {
        return Ok(None);
    }
    let Ok(float) = digits.parse::<f64>() else {
        return Ok(None);
    };
    let float = if negative { -float } else { float };
    #[expect(clippy::cast_possible_truncation, reason = "the bounds were checked")]
    if float.fract() == 0.0 && float.abs() < 9e15 {
        return Ok(Some((float as i64).into()));
    }
    Number::from_f64(float).map(Some).ok_or(TOO_LARGE)
}

const TOO_LARGE: &str = "a number is too large: put it in quotes if it is meant as text";

#[cfg(test)]
mod tests;
