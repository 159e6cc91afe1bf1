//! Journal: one JSON line per write, rewritten at each start.
//!
//! Only the last line can be truncated by a crash, and is then ignored. Lines are handed to the
//! operating system as they come, so killing the process loses at most the last moment.

use std::{
    fs::{self, File, OpenOptions},
    io::{BufRead, BufReader, BufWriter, Write as _},
    path::{Path, PathBuf},
    sync::{Arc, mpsc},
    thread::JoinHandle,
};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Stored, TableId};

#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    #[error("{}: {source}", path.display())]
    Io {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{} line {line}: {source}; move the file away to start with an empty cluster", path.display())]
    Broken {
        path: PathBuf,
        line: usize,
        source: serde_json::Error,
    },
}

/// One write.
#[derive(Debug)]
pub struct Line {
    pub(super) table: TableId,
    pub(super) key: Arc<str>,
    pub(super) revision: u64,
    pub(super) object: Option<Value>,
    stored: Option<Arc<Stored>>,
}

#[derive(Serialize, Deserialize)]
struct Wire<'a, Object> {
    group: std::borrow::Cow<'a, str>,
    resource: std::borrow::Cow<'a, str>,
    key: std::borrow::Cow<'a, str>,
    revision: u64,
    object: Option<Object>,
}

impl Line {
    pub(super) fn put(table: TableId, stored: Arc<Stored>) -> Self {
        Self {
            table,
            key: stored.key.clone(),
            revision: stored.revision,
            object: None,
            stored: Some(stored),
        }
    }

    /// Records the revision, which no remaining object may have.
    pub(super) fn reached(revision: u64) -> Self {
        Self {
            table: TableId::new("", ""),
            key: "".into(),
            revision,
            object: None,
            stored: None,
        }
    }

    pub(super) fn removed(table: TableId, stored: &Stored) -> Self {
        Self {
            table,
            key: stored.key.clone(),
            revision: stored.revision,
            object: None,
            stored: None,
        }
    }

    fn to_json(&self) -> serde_json::Result<Vec<u8>> {
        let mut line = serde_json::to_vec(&Wire {
            group: self.table.group.as_ref().into(),
            resource: self.table.resource.as_ref().into(),
            key: self.key.as_ref().into(),
            revision: self.revision,
            object: self.stored.as_ref().map(|stored| stored.value()),
        })?;
        line.push(b'\n');
        Ok(line)
    }
}

/// Append-only file of all writes.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    lines: mpsc::Sender<Line>,
    writer: JoinHandle<std::io::Result<()>>,
}

impl Journal {
    /// Lines in the order written; empty if the file does not exist.
    pub fn read(path: &Path) -> Result<Vec<Line>, JournalError> {
        let io = |source| JournalError::Io {
            path: path.to_owned(),
            source,
        };
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(io(error)),
        };
        let mut lines = Vec::new();
        let mut reader = BufReader::new(file);
        let mut text = Vec::new();
        for number in 1.. {
            text.clear();
            reader.read_until(b'\n', &mut text).map_err(io)?;
            if text.last() != Some(&b'\n') {
                break;
            }
            let wire: Wire<'_, Value> =
                serde_json::from_slice(&text).map_err(|source| JournalError::Broken {
                    path: path.to_owned(),
                    line: number,
                    source,
                })?;
            lines.push(Line {
                table: TableId::new(&wire.group, &wire.resource),
                key: wire.key.into(),
                revision: wire.revision,
                object: wire.object,
                stored: None,
            });
        }
        Ok(lines)
    }

    /// Replaces the file atomically with `lines`, then appends.
    pub fn begin(path: &Path, lines: &[Line]) -> Result<Self, JournalError> {
        let io = |source| JournalError::Io {
            path: path.to_owned(),
            source,
        };
        let fresh = path.with_extension("new");
        let file = open_private(&fresh).map_err(io)?;
        let mut writer = BufWriter::new(file);
        for line in lines {
            let json = line.to_json().map_err(std::io::Error::from).map_err(io)?;
            writer.write_all(&json).map_err(io)?;
        }
        let file = writer
            .into_inner()
            .map_err(std::io::IntoInnerError::into_error)
            .map_err(io)?;
        file.sync_all().map_err(io)?;
        fs::rename(&fresh, path).map_err(io)?;
        let (sender, receiver) = mpsc::channel();
        let writer = std::thread::Builder::new()
            .name("journal".to_owned())
            .spawn(move || append(file, &receiver))
            .map_err(io)?;
        Ok(Self {
            path: path.to_owned(),
            lines: sender,
            writer,
        })
    }

    pub(super) fn write(&self, line: Line) {
        // The error of the writer thread is reported when the journal is closed.
        if self.lines.send(line).is_err() {
            tracing::error!(path = %self.path.display(), "failed to write the journal: changes are no longer persisted");
        }
    }

    pub(super) fn close(self) -> Result<(), JournalError> {
        drop(self.lines);
        let path = self.path;
        self.writer
            .join()
            .unwrap_or_else(|_| Err(std::io::Error::other("the journal writer panicked")))
            .map_err(|source| JournalError::Io { path, source })
    }
}

fn append(file: File, lines: &mpsc::Receiver<Line>) -> std::io::Result<()> {
    let mut writer = BufWriter::new(file);
    while let Ok(line) = lines.recv() {
        writer.write_all(&line.to_json()?)?;
        while let Ok(line) = lines.try_recv() {
            writer.write_all(&line.to_json()?)?;
        }
        writer.flush()?;
    }
    writer.flush()?;
    writer.get_ref().sync_all()
}

/// The journal contains Secrets: only its owner may read it.
fn open_private(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}
