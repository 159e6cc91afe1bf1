//! Stories that this cluster cannot show. A test that ends early counts as passed: so each is
//! printed, and listed in the file of `E2E_SKIPPED`, which e2e/run counts.

use std::{fs::OpenOptions, io::Write as _};

/// Says of the story of this thread that it is skipped, and why.
pub(crate) fn skip(because: &str) {
    let line = format!("{}: {because}\n", story_name());
    print!("SKIPPED on this cluster: {line}");
    if let Some(path) = std::env::var_os("E2E_SKIPPED") {
        let file = OpenOptions::new().create(true).append(true).open(path);
        // One write, so that stories beside each other do not mix their lines.
        file.unwrap().write_all(line.as_bytes()).unwrap();
    }
}

/// Tests are threads, and the stories they run have their names.
pub(crate) fn story_name() -> String {
    let thread = std::thread::current();
    thread.name().unwrap_or("a story").to_owned()
}
