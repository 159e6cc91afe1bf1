//! Atomic writes of files with mode 0600.

use std::{
    ffi::{OsStr, OsString},
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

/// Replaces `path` atomically and creates missing directories.
pub(super) fn write(path: &Path, contents: &[u8]) -> io::Result<()> {
    let name = path
        .file_name()
        .ok_or_else(|| io::Error::from(io::ErrorKind::IsADirectory))?;
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(parent)?;
    let (mut file, temporary) = create_beside(parent, name)?;
    let written = file
        .write_all(contents)
        .and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written
}

/// Creates a temporary file next to the target.
fn create_beside(parent: &Path, name: &OsStr) -> io::Result<(File, PathBuf)> {
    const MAX_ATTEMPTS: u32 = 100;
    let mut attempt = 0;
    loop {
        let mut temporary = OsString::from(".");
        temporary.push(name);
        temporary.push(format!(".{}.{attempt}", std::process::id()));
        let temporary = parent.join(temporary);
        let created = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&temporary);
        match created {
            Ok(file) => return Ok((file, temporary)),
            Err(error)
                if error.kind() == io::ErrorKind::AlreadyExists && attempt < MAX_ATTEMPTS =>
            {
                attempt += 1;
            }
            Err(error) => return Err(error),
        }
    }
}
