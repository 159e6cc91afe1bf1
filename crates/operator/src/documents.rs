//! Reader of YAML and JSON documents in files, directories and standard input.
//!
//! Any input results in documents, or in errors that name the file and the document, in bounded memory:
//! the size of a file, its number of documents, and nesting, nodes and alias expansion of YAML are
//! limited. An invalid document does not hide the others of its file.

pub mod positions;

use std::{
    fmt, fs,
    io::{self, Read as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use serde_json::Value;
use thiserror::Error;

pub const MAX_FILE_BYTES: u64 = 32 * 1024 * 1024;

pub const MAX_DOCUMENTS: usize = 100_000;

const EXTENSIONS: [&str; 3] = ["yaml", "yml", "json"];

#[derive(Clone, Debug)]
pub struct Document {
    pub origin: Origin,
    pub value: Value,
}

/// Location of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Path of the file, or `stdin`.
    pub file: Arc<str>,
    /// Number of the document in the file, from 1.
    pub document: usize,
    /// Index of the item, if the document is a list.
    pub item: Option<usize>,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.document)?;
        match self.item {
            Some(item) => write!(f, "[{item}]"),
            None => Ok(()),
        }
    }
}

#[derive(Debug, Error)]
pub enum ReadError {
    #[error("{file}: {source}")]
    Io { file: String, source: io::Error },
    #[error("{file}: is larger than {} MiB: split it into several files", MAX_FILE_BYTES >> 20)]
    FileTooLarge { file: Arc<str> },
    #[error("{file}: is not UTF-8 text: invalid byte at offset {position}")]
    NotText {
        file: Arc<str>,
        /// Offset of the first invalid byte.
        position: usize,
    },
    #[error("{directory}: contains no .yaml, .yml or .json file")]
    EmptyDirectory { directory: String },
    #[error("{file}: has more than {MAX_DOCUMENTS} documents: split it into several files")]
    TooManyDocuments { file: Arc<str> },
    #[error("{origin}: line {line}: {message}")]
    NotYaml {
        origin: Origin,
        /// Line in the file, from 1.
        line: usize,
        /// Does not quote the document, which may contain confidential data.
        message: String,
    },
}

#[derive(Debug)]
pub enum Source {
    Stdin,
    File(PathBuf),
}

/// Content of a source.
#[derive(Debug)]
pub struct Read {
    pub file: Arc<str>,
    pub text: String,
    pub documents: Vec<Result<Document, ReadError>>,
}

/// Sources at `paths`: `-` is standard input; a directory stands for the manifests in it.
pub fn sources(paths: &[PathBuf], recursive: bool) -> Vec<Result<Source, ReadError>> {
    let mut found = Vec::new();
    for path in paths {
        if path.as_os_str() == "-" {
            found.push(Ok(Source::Stdin));
        } else if path.is_dir() {
            let before = found.len();
            walk(path, recursive, &mut found);
            if found.len() == before {
                found.push(Err(ReadError::EmptyDirectory {
                    directory: path.display().to_string(),
                }));
            }
        } else {
            found.push(Ok(Source::File(path.clone())));
        }
    }
    found
}

fn walk(directory: &Path, recursive: bool, found: &mut Vec<Result<Source, ReadError>>) {
    let entries = fs::read_dir(directory).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let mut entries = match entries {
        Ok(entries) => entries,
        Err(source) => {
            found.push(Err(ReadError::Io {
                file: directory.display().to_string(),
                source,
            }));
            return;
        }
    };
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        let is_manifest = path
            .extension()
            .is_some_and(|extension| EXTENSIONS.iter().any(|known| extension == *known));
        // Symbolic links to directories are not followed: they may form cycles.
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            if recursive {
                walk(&path, recursive, found);
            }
        } else if is_manifest && !path.is_dir() {
            found.push(Ok(Source::File(path)));
        }
    }
}

impl Source {
    /// Reads the documents, one result each.
    pub fn read(&self) -> Result<Vec<Result<Document, ReadError>>, ReadError> {
        self.read_with_text().map(|read| read.documents)
    }

    /// The same with the text, in which [`positions`] finds their fields.
    pub fn read_with_text(&self) -> Result<Read, ReadError> {
        let file: Arc<str> = match self {
            Self::Stdin => "stdin".into(),
            Self::File(path) => path.display().to_string().into(),
        };
        let bytes = self.bytes().map_err(|source| ReadError::Io {
            file: file.to_string(),
            source,
        })?;
        if bytes.len() as u64 > MAX_FILE_BYTES {
            return Err(ReadError::FileTooLarge { file });
        }
        let documents = parse(&file, &bytes)?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Ok(Read {
            file,
            text,
            documents,
        })
    }

    fn bytes(&self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        match self {
            Self::Stdin => io::stdin()
                .lock()
                .take(MAX_FILE_BYTES + 1)
                .read_to_end(&mut bytes)?,
            Self::File(path) => fs::File::open(path)?
                .take(MAX_FILE_BYTES + 1)
                .read_to_end(&mut bytes)?,
        };
        Ok(bytes)
    }
}

/// Parses the documents of a file, one result each.
pub fn parse(file: &Arc<str>, bytes: &[u8]) -> Result<Vec<Result<Document, ReadError>>, ReadError> {
    let text = std::str::from_utf8(bytes).map_err(|error| ReadError::NotText {
        file: Arc::clone(file),
        position: error.valid_up_to(),
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut documents = Vec::new();
    let mut count = 0;
    for part in split(text) {
        if documents.len() >= MAX_DOCUMENTS {
            return Err(ReadError::TooManyDocuments {
                file: Arc::clone(file),
            });
        }
        let origin = |document| Origin {
            file: Arc::clone(file),
            document,
            item: None,
        };
        match parse_part(&part, &origin(count + 1)) {
            Ok(values) => {
                for mut value in values {
                    count += 1;
                    whole_numbers(&mut value);
                    documents.extend(items(value, origin(count)).into_iter().map(Ok));
                }
            }
            Err(error) => {
                count += 1;
                documents.push(Err(error));
            }
        }
    }
    Ok(documents)
}

/// Documents of a part: none, one, or several concatenated JSON objects.
fn parse_part(part: &Part<'_>, origin: &Origin) -> Result<Vec<Value>, ReadError> {
    let yaml = parse_one(part, origin);
    if yaml.is_err() && part.text.trim_start().starts_with('{') {
        let json: Result<Vec<Value>, _> = serde_json::Deserializer::from_str(part.text)
            .into_iter()
            .collect();
        if let Ok(values) = json {
            return Ok(values);
        }
    }
    yaml.map(|value| match value {
        Value::Null => Vec::new(),
        value => vec![value],
    })
}

fn parse_one(part: &Part<'_>, origin: &Origin) -> Result<Value, ReadError> {
    if part.text.lines().all(|line| {
        matches!(
            line.trim_start().as_bytes().first(),
            None | Some(b'#' | b'%')
        )
    }) {
        return Ok(Value::Null);
    }
    serde_saphyr::from_str_with_options(part.text, options()).map_err(|error| {
        let line = error
            .location()
            .and_then(|at| usize::try_from(at.line()).ok())
            .unwrap_or(1);
        ReadError::NotYaml {
            origin: origin.clone(),
            line: part.first_line + line.max(1) - 1,
            message: plain(&error),
        }
    })
}

/// Error message for the author of a document. The parser's message repeats the line, counted from the
/// start of the document.
fn plain(error: &serde_saphyr::Error) -> String {
    use serde_saphyr::Error;
    match error.without_snippet() {
        Error::DuplicateMappingKey { .. } => "a mapping contains a key twice".to_owned(),
        Error::Budget { .. } => "is nested too deeply, or has too many parts".to_owned(),
        Error::MultipleDocuments { .. } => {
            "has content after its end: separate documents with ---".to_owned()
        }
        Error::RecursiveReferencesRequireWeakTypes { .. } => "an alias refers to itself".to_owned(),
        Error::NonFiniteFloat { .. } => {
            "a number is too large: put it in quotes if it is meant as text".to_owned()
        }
        Error::NullIntoString { .. } => "a key is null".to_owned(),
        error if is_alias_limit(error) => "its aliases expand to too much data".to_owned(),
        other => {
            let message = other.to_string();
            let message = message.lines().next().unwrap_or_default();
            let end = message
                .find(" at line ")
                .or(message.find(" (line "))
                .unwrap_or(message.len());
            format!("is not YAML: {}", &message[..end])
        }
    }
}

fn is_alias_limit(error: &serde_saphyr::Error) -> bool {
    use serde_saphyr::Error;
    match error {
        Error::AliasError { error, .. } => is_alias_limit(error),
        Error::AliasReplayLimitExceeded { .. }
        | Error::AliasExpansionLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. } => true,
        _ => false,
    }
}

fn options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        // A snippet would quote the document, which may contain confidential data.
        with_snippet: false,
        // As in kubectl: 017 is fifteen, and `y` is true.
        legacy_octal_numbers: true,
        // Larger expansions are attacks, not manifests.
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: 100_000,
        },
        budget: serde_saphyr::budget! {
            max_nodes: 1_000_000,
            max_events: 4_000_000,
        },
    }
}

/// Turns whole numbers into integers, as kubectl does: `2.0` and `2e3` are integers to the API server.
pub(crate) fn whole_numbers(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            #[expect(clippy::cast_possible_truncation, reason = "the bounds are checked")]
            if let Some(whole) = number
                .as_f64()
                .filter(|n| n.fract() == 0.0 && n.abs() < 9e18)
            {
                *number = (whole as i64).into();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(whole_numbers),
        Value::Object(fields) => fields.values_mut().for_each(whole_numbers),
        _ => {}
    }
}

/// Items of a list, as `kubectl get -o yaml` prints it, or the document itself.
fn items(mut value: Value, origin: Origin) -> Vec<Document> {
    let is_list = value
        .get("kind")
        .and_then(Value::as_str)
        .is_some_and(|kind| kind.ends_with("List"));
    match value.get_mut("items").map(Value::take) {
        Some(Value::Array(items)) if is_list => items
            .into_iter()
            .enumerate()
            .map(|(index, value)| Document {
                origin: Origin {
                    item: Some(index),
                    ..origin.clone()
                },
                value,
            })
            .collect(),
        other => {
            if let (Some(items), Some(field)) = (other, value.get_mut("items")) {
                *field = items;
            }
            vec![Document { origin, value }]
        }
    }
}

/// Part of a file between two document markers.
struct Part<'a> {
    text: &'a str,
    first_line: usize,
}

/// Splits a stream into documents. YAML forbids a line that begins with `---` and white space
/// inside a document, whatever the scalar it would be part of, so lines are enough.
fn split(text: &str) -> Vec<Part<'_>> {
    let is_marker = |line: &str| {
        line.strip_prefix("---")
            .is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']))
    };
    let mut parts = Vec::new();
    let mut start = 0;
    let mut first_line = 1;
    let mut position = 0;
    for (index, line) in text.split_inclusive('\n').enumerate() {
        if is_marker(line) {
            parts.push(Part {
                text: &text[start..position],
                first_line,
            });
            // The rest of the marker's line belongs to the document.
            start = position + "---".len();
            first_line = index + 1;
        }
        position += line.len();
    }
    parts.push(Part {
        text: &text[start..],
        first_line,
    });
    parts
}

#[cfg(test)]
mod tests;
