//! Transcripts and manifests of the documentation.

use std::{fs, process::Output};

use super::{
    cluster::with_cluster,
    root, run, text,
    transcript::{self, transcripts},
};

/// Runs a `kubevirt-operator` command and compares its output; `...` stands for omitted lines. Commands
/// that need a cluster get an empty one.
fn check_transcript(file: &str, command: &str, shown: &str) {
    let args = command
        .strip_prefix("kubevirt-operator ")
        .unwrap_or_else(|| panic!("{file}: {command}"));
    let args: Vec<_> = args.split_whitespace().collect();
    if args[0] == "plan" {
        with_cluster(&[], |kubeconfig| {
            let mut args = args.clone();
            args.extend(["--kubeconfig", kubeconfig.to_str().unwrap()]);
            compare_output(file, command, shown, &run(&args));
        });
    } else {
        compare_output(file, command, shown, &run(&args));
    }
}

fn compare_output(file: &str, command: &str, shown: &str, output: &Output) {
    let printed = format!("{}{}", text(&output.stdout), text(&output.stderr));
    transcript::compare_output(file, (command, shown), &printed);
}

#[test]
fn documented_transcripts_match_the_output() {
    let mut count = 0;
    for file in ["README.md", "docs/machine.md", "examples/README.md"] {
        for (command, shown) in transcripts(file) {
            check_transcript(file, &command, &shown);
            count += 1;
        }
    }
    assert!(count >= 4, "{count}");
}

#[test]
fn documented_manifests_are_valid() {
    let folder = tempfile::tempdir().unwrap();
    let mut count = 0;
    for file in ["README.md", "docs/machine.md"] {
        let document = fs::read_to_string(root().join(file)).unwrap();
        for block in document.split("```yaml\n").skip(1) {
            let block = block.split("```").next().unwrap();
            let path = folder.path().join(format!("{count}.yaml"));
            fs::write(&path, block).unwrap();
            let output = run(&["validate", "-f", path.to_str().unwrap()]);
            assert!(
                output.status.success(),
                "{file}: {}{}\n{block}",
                text(&output.stdout),
                text(&output.stderr)
            );
            count += 1;
        }
    }
    assert!(count >= 2, "{count}");
}
