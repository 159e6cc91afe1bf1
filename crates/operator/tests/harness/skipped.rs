//! Record of skipped scenarios. The test harness counts a test that returns early as passed, so each
//! skipped scenario is printed and appended to the file of `E2E_SKIPPED`, which e2e/run counts.

use std::{fs::OpenOptions, io::Write as _};

/// Records that the scenario of this thread is skipped.
pub(crate) fn skip(reason: &str) {
    let line = format!("{}: {reason}\n", scenario_name());
    print!("SKIPPED on this cluster: {line}");
    if let Some(path) = std::env::var_os("E2E_SKIPPED") {
        let file = OpenOptions::new().create(true).append(true).open(path);
        // A single write, so that lines of parallel scenarios do not interleave.
        file.unwrap().write_all(line.as_bytes()).unwrap();
    }
}

/// Name of the test, which is the name of its thread.
pub(crate) fn scenario_name() -> String {
    let thread = std::thread::current();
    thread.name().unwrap_or("a scenario").to_owned()
}
