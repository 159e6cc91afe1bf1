//! Commands as users run them, and files of the repository that must stay up to date.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]
#![allow(
    clippy::format_push_string,
    reason = "shorter, and tests are not hurried"
)]

mod architecture;
mod bad_input;
mod cluster;
mod commands;
mod docs;
mod examples;
mod formats;
mod generated;
mod operator_docs;
mod pipeline;
mod plan;
mod readme;
mod releases;
mod run_settings;
mod sample_metrics;
mod sandbox_docs;
#[path = "../harness/transcript.rs"]
mod transcript;
mod virt_operator_plan;
mod virt_operator_render;

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Runs the binary in the root of the repository.
fn run(args: &[&str]) -> Output {
    run_with_input(args, b"")
}

fn run_with_input(args: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_kubevirt-operator"))
        .args(args)
        .current_dir(root())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_owned();
    let writer = std::thread::spawn(move || {
        // A command may close its input early.
        let _ = stdin.write_all(&input);
    });
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    output
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// Manifests of a folder, sorted by name.
fn manifests(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries
        .filter(|path| path.extension().is_some_and(|e| e == "yaml"))
        .collect();
    files.sort();
    files
}
