//! Record of skipped scenarios, and of checks that a scenario skips. The test harness counts a test that
//! returns early as passed, so each of them is printed and appended to the file of `E2E_SKIPPED`, which
//! e2e/run counts.

use std::{fs::OpenOptions, io::Write as _};

/// Records that the scenario of this thread is skipped.
pub(crate) fn skip(reason: &str) {
    record(&format!("{}: {reason}\n", scenario_name()));
}

/// Records that the scenario of this thread skips some of its checks.
pub(crate) fn skip_checks(reason: &str) {
    record(&format!("checks of {}: {reason}\n", scenario_name()));
}

fn record(line: &str) {
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
