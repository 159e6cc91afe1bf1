//! Whatever is fed to a command, it ends with a message and a status, never with a panic.

use rstest::rstest;

use super::{run, run_with_input, text};

/// Feeds both commands and returns what `validate` says.
fn feed(input: &[u8], status: i32) -> String {
    let mut said = String::new();
    for command in ["render", "validate"] {
        let output = run_with_input(&[command, "-f", "-"], input);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!stderr.contains("panicked"), "{command}: {stderr}");
        assert_eq!(output.status.code(), Some(status), "{command}: {stderr}");
        said = format!("{}{stderr}", String::from_utf8_lossy(&output.stdout));
        assert!(!said.is_empty(), "{command} says nothing");
    }
    said
}

#[rstest]
#[case::not_yaml(b"{{{ not yaml".as_slice(), "error: stdin:1: line 1: ")]
#[case::tabs(b"a:\n\t- b\n".as_slice(), "error: stdin:1: line 2: ")]
#[case::invalid_utf8(b"kind: \xc3\x28".as_slice(), "error: stdin: is not UTF-8 text: byte 6")]
#[case::utf16(b"\xff\xfek\0i\0n\0d\0".as_slice(), "error: stdin: is not UTF-8 text: byte 0")]
#[case::nothing(b"".as_slice(), "error: there is no Machine")]
#[case::comments(b"# nothing\n---\n# here\n".as_slice(), "error: there is no Machine")]
#[case::unknown_alias(b"a: *b\n".as_slice(), "error: stdin:1: line 1: ")]
fn what_cannot_be_read_is_unreadable(#[case] input: &[u8], #[case] expected: &str) {
    let said = feed(input, 2);
    assert!(said.contains(expected), "{said}");
}

#[rstest]
#[case::a_number("42", "stdin:1: is not a Kubernetes object")]
#[case::a_list("[1, 2]", "stdin:1: is not a Kubernetes object")]
#[case::a_text("hello", "stdin:1: is not a Kubernetes object")]
#[case::no_kind("apiVersion: vitistack.io/v1alpha1", "stdin:1: kind: is missing")]
#[case::no_version("kind: Machine", "stdin:1: apiVersion: is missing")]
#[case::wrong_kind(
    "{apiVersion: vitistack.io/v1alpha1, kind: Machin}",
    "stdin:1: kind: \"Machin\" is not known"
)]
#[case::wrong_version(
    "{apiVersion: vitistack.io/v1, kind: Machine}",
    "stdin:1: apiVersion: \"vitistack.io/v1\" is not served"
)]
#[case::core_version(
    "{apiVersion: v1, kind: Machine}",
    "stdin:1: apiVersion: \"v1\" has no Machine"
)]
#[case::no_spec(
    "{apiVersion: vitistack.io/v1alpha1, kind: Machine, metadata: {name: a}}",
    "stdin:1: spec: Required value"
)]
#[case::no_metadata(
    "{apiVersion: vitistack.io/v1alpha1, kind: Machine, spec: {}}",
    "stdin:1: "
)]
#[case::metadata_of_a_wrong_type(
    "{apiVersion: vitistack.io/v1alpha1, kind: Machine, metadata: 5, spec: {}}",
    "stdin:1: "
)]
#[case::name_of_a_wrong_type(
    "{apiVersion: vitistack.io/v1alpha1, kind: Machine, metadata: {name: 5}, spec: {}}",
    "stdin:1: "
)]
#[case::wrong_types(
    "{apiVersion: vitistack.io/v1alpha1, kind: Machine, metadata: {name: a}, spec: {disks: {}, networks: 1, cpu: []}}",
    "stdin:1: spec.disks: Invalid value"
)]
#[case::huge_number(
    "{apiVersion: vitistack.io/v1alpha1, kind: Machine, metadata: {name: a}, spec: {cpu: {cores: 99999999999999999999}}}",
    "stdin:1: spec.cpu.cores: "
)]
#[case::no_name(
    "{apiVersion: vitistack.io/v1alpha1, kind: Machine, metadata: {generateName: a-}, spec: {}}",
    "stdin:1: metadata.name: "
)]
fn what_is_no_machine_is_a_problem(#[case] input: &str, #[case] expected: &str) {
    let said = feed(input.as_bytes(), 1);
    assert!(said.contains(expected), "{said}");
}

#[test]
fn a_foreign_kind_is_passed_over_with_a_note() {
    let said = feed(b"{apiVersion: apps/v1, kind: Deployment}", 2);
    assert!(
        said.contains("note: stdin:1: kind: Deployment (apps/v1) is passed over"),
        "{said}"
    );
}

#[test]
fn a_secret_that_is_none_is_told_without_its_content() {
    let machine =
        "{apiVersion: vitistack.io/v1alpha1, kind: Machine, metadata: {name: a}, spec: {}}";
    let said = feed(format!("{machine}\n--- {{apiVersion: v1, kind: Secret, metadata: {{name: s}}, data: {{k: hunter2!}}}}\n").as_bytes(), 1);
    assert!(said.contains("stdin:2: is not a Secret"), "{said}");
    assert!(!said.contains("hunter2"), "{said}");
}

#[test]
fn files_that_are_not_there_are_named() {
    let output = run(&["validate", "-f", "no/such/file.yaml"]);
    assert_eq!(
        text(&output.stderr),
        "error: no/such/file.yaml: No such file or directory (os error 2)\n"
    );
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_folder_without_manifests_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let output = run(&["validate", "-f", folder.path().to_str().unwrap()]);
    assert!(text(&output.stderr).contains("holds no .yaml, .yml or .json file"));
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_file_of_50_megabytes_is_refused_in_bounded_memory() {
    let said = feed(
        &b"# padding padding padding padding padding padding\n".repeat(1_000_000),
        2,
    );
    assert_eq!(
        said,
        "error: stdin: is larger than 32 MiB: split it into several files\n"
    );
}

#[test]
fn an_endless_input_is_refused() {
    let output = run(&["validate", "-f", "/dev/zero"]);
    assert_eq!(
        text(&output.stderr),
        "error: /dev/zero: is larger than 32 MiB: split it into several files\n"
    );
}

#[test]
fn ten_thousand_documents_are_all_looked_at() {
    let mut input = String::new();
    for index in 0..10_000 {
        input.push_str(&format!(
            "---\napiVersion: vitistack.io/v1alpha1\nkind: Machine\nmetadata: {{name: m{index}}}\nspec: {{memory: none}}\n"
        ));
    }
    let output = run_with_input(&["validate", "-f", "-"], input.as_bytes());
    assert_eq!(text(&output.stdout).lines().count(), 10_000);
    assert!(text(&output.stdout).ends_with("stdin:10000: spec.memory: Invalid value: \"none\": must be a number of bytes, or a quantity such as 4Gi, of at least 1Mi\n"));
    assert_eq!(
        text(&output.stderr),
        "checked 10000 documents: 10000 problems\n"
    );
}

#[test]
fn a_yaml_bomb_is_refused() {
    let mut bomb = "a0: &a0 lol\n".to_owned();
    for level in 1..30 {
        bomb.push_str(&format!(
            "a{level}: &a{level} [*a{0}, *a{0}, *a{0}, *a{0}]\n",
            level - 1
        ));
    }
    feed(bomb.as_bytes(), 2);
}

#[test]
fn deep_nesting_is_refused() {
    for open in ["[", "{a: ", "- "] {
        feed(open.repeat(50_000).as_bytes(), 2);
    }
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let command = format!(
        "{} render -f examples | head -n 1 >/dev/null; exit ${{PIPESTATUS[0]}}",
        env!("CARGO_BIN_EXE_kubevirt-operator")
    );
    let output = std::process::Command::new("bash")
        .args(["-c", &command])
        .current_dir(super::root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
}
