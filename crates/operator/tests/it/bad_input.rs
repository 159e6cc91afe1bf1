//! Invalid and hostile input of the commands: each ends with a message and an exit status, never with a
//! panic.

use rstest::rstest;

use super::{run, run_with_input, text};

/// Runs `render` and `validate`, and returns the output of `validate`.
fn run_commands(input: &[u8], status: i32) -> String {
    let mut printed = String::new();
    for command in ["render", "validate"] {
        let output = run_with_input(&[command, "-f", "-"], input);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!stderr.contains("panicked"), "{command}: {stderr}");
        assert_eq!(output.status.code(), Some(status), "{command}: {stderr}");
        printed = format!("{}{stderr}", String::from_utf8_lossy(&output.stdout));
        assert!(!printed.is_empty(), "{command} says nothing");
    }
    printed
}

#[rstest]
#[case::not_yaml(b"{{{ not yaml".as_slice(), "error: stdin:1: line 1: ")]
#[case::tabs(b"a:\n\t- b\n".as_slice(), "error: stdin:1: line 2: ")]
#[case::invalid_utf8(b"kind: \xc3\x28".as_slice(), "error: stdin: is not UTF-8 text: invalid byte at offset 6")]
#[case::utf16(b"\xff\xfek\0i\0n\0d\0".as_slice(), "error: stdin: is not UTF-8 text: invalid byte at offset 0")]
#[case::nothing(b"".as_slice(), "error: no documents found")]
#[case::comments(b"# nothing\n---\n# here\n".as_slice(), "error: no documents found")]
#[case::unknown_alias(b"a: *b\n".as_slice(), "error: stdin:1: line 1: ")]
fn unparseable_input_is_refused(#[case] input: &[u8], #[case] expected: &str) {
    let printed = run_commands(input, 2);
    assert!(printed.contains(expected), "{printed}");
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
    "{apiVersion: vitistack.io/v1alpha1, kind: Machine, metadata: {}, spec: {}}",
    "stdin:1: metadata.name: Required value"
)]
#[case::class_without_a_name(
    "{apiVersion: vitistack.io/v1alpha1, kind: MachineClass, metadata: {name: null}, spec: {cpu: {cores: 1}, memory: {quantity: 1Gi}}}",
    "stdin:1: metadata.name: Required value"
)]
#[case::class_with_a_strange_name(
    "{apiVersion: vitistack.io/v1alpha1, kind: MachineClass, metadata: {name: A b}, spec: {cpu: {cores: 1}, memory: {quantity: 1Gi}}}",
    "stdin:1: metadata.name: Invalid value: \"A b\""
)]
#[case::unknown_metadata(
    "{apiVersion: vitistack.io/v1alpha1, kind: Machine, metadata: {name: a, lables: {}}, spec: {}}",
    "stdin:1: metadata.lables: unknown field: did you mean \"labels\"?"
)]
#[case::label_of_a_wrong_type(
    "{apiVersion: vitistack.io/v1alpha1, kind: Machine, metadata: {name: a, labels: {x: 5}}, spec: {}}",
    "stdin:1: metadata.labels.x: "
)]
#[case::strange_label(
    "{apiVersion: vitistack.io/v1alpha1, kind: Machine, metadata: {name: a, labels: {x: b c}}, spec: {}}",
    "stdin:1: metadata.labels: Invalid value: \"b c\""
)]
#[case::strange_namespace(
    "{apiVersion: vitistack.io/v1alpha1, kind: Machine, metadata: {name: a, namespace: B_c}, spec: {}}",
    "stdin:1: metadata.namespace: Invalid value"
)]
#[case::copy_of_itself(
    "{apiVersion: vitistack.io/v1alpha1, kind: Machine, metadata: {name: a}, spec: {disks: [{name: root, source: {pvc: {name: a-root}}}]}}",
    "stdin:1: spec.disks[0].source.pvc.name: "
)]
fn invalid_machines_are_reported(#[case] input: &str, #[case] expected: &str) {
    let printed = run_commands(input.as_bytes(), 1);
    assert!(printed.contains(expected), "{printed}");
}

#[rstest]
#[case("{apiVersion: apps/v1, kind: Deployment}", "Deployment (apps/v1)")]
#[case(
    "{apiVersion: vitistack.io/v1alpha1, kind: KubernetesCluster}",
    "KubernetesCluster (vitistack.io/v1alpha1)"
)]
#[case(
    "{apiVersion: vitistack.io/v1alpha1, kind: MachineProvider}",
    "MachineProvider (vitistack.io/v1alpha1)"
)]
fn foreign_kinds_are_ignored_with_a_note(#[case] input: &str, #[case] what: &str) {
    let printed = run_commands(input.as_bytes(), 0);
    assert!(
        printed.contains(&format!("note: stdin:1: kind: {what} is ignored")),
        "{printed}"
    );
    assert!(
        printed.contains("checked no documents: no problems"),
        "{printed}"
    );
}

#[test]
fn an_undecodable_secret_is_not_used_and_not_quoted() {
    let machine =
        "{apiVersion: vitistack.io/v1alpha1, kind: Machine, metadata: {name: a}, spec: {}}";
    let secret = "{apiVersion: v1, kind: Secret, metadata: {name: s}, data: {k: hunter2!}}";
    let printed = run_commands(format!("{machine}\n--- {secret}\n").as_bytes(), 0);
    assert!(
        printed.contains("note: stdin:2: kind: the Secret cannot be decoded and is ignored"),
        "{printed}"
    );
    assert!(!printed.contains("hunter2"), "{printed}");
}

#[test]
fn terminal_control_characters_are_not_printed() {
    let input = r#"{apiVersion: vitistack.io/v1alpha1, kind: Machine, metadata: {name: a}, spec: {"\e[31mRED": 1, "x\nstdin:9: spec: forged": 1}}"#;
    let printed = run_commands(input.as_bytes(), 1);
    assert!(!printed.contains('\u{1b}'), "{printed}");
    assert!(
        printed.lines().all(|line| !line.starts_with("stdin:9")),
        "{printed}"
    );
}

/// A hundred thousand elements are processed in linear time.
#[rstest]
#[case::disks("disks", "{name: aN, size: 1Gi}", 20_000)]
#[case::wrong_names("disks", "{name: N}", 20_000)]
#[case::networks("networks", "{name: aN, networkName: b, macAddress: N}", 5_000)]
fn very_long_lists_are_refused_without_delay(
    #[case] field: &str,
    #[case] item: &str,
    #[case] count: usize,
) {
    let items: Vec<_> = (0..count)
        .map(|index| item.replace('N', &index.to_string()))
        .collect();
    let input = format!(
        "{{apiVersion: vitistack.io/v1alpha1, kind: Machine, metadata: {{name: a}}, spec: {{{field}: [{}]}}}}",
        items.join(", "),
    );
    let printed = run_commands(input.as_bytes(), 1);
    assert!(
        printed.contains(&format!(
            "spec.{field}: Too many: {count}: must have at most"
        )),
        "{field}"
    );
}

/// Numbers that overflow careless arithmetic.
#[rstest]
#[case("1Ei", 0)]
#[case("1e39", 1)]
#[case("1e99", 1)]
#[case("1e1000", 1)]
#[case("1e9223372036854775807", 1)]
#[case("340282366920938463463e18", 1)]
#[case("999999999999999999999999999999Ei", 1)]
#[case("-1e39", 1)]
#[case("1e-39", 1)]
#[case("1e99999999999999999999", 1)]
fn extreme_quantities_are_validated(#[case] quantity: &str, #[case] status: i32) {
    for spec in [
        format!("{{memory: \"{quantity}\"}}"),
        format!("{{disks: [{{name: root, size: \"{quantity}\"}}]}}"),
    ] {
        run_commands(format!("{{apiVersion: vitistack.io/v1alpha1, kind: Machine, metadata: {{name: a}}, spec: {spec}}}").as_bytes(), status);
    }
}

#[test]
fn missing_files_are_named() {
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
    assert!(text(&output.stderr).contains("contains no .yaml, .yml or .json file"));
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_file_of_50_megabytes_is_refused_in_bounded_memory() {
    let printed = run_commands(
        &b"# padding padding padding padding padding padding\n".repeat(1_000_000),
        2,
    );
    assert_eq!(
        printed,
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
fn ten_thousand_documents_are_all_validated() {
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
    run_commands(bomb.as_bytes(), 2);
}

#[test]
fn deep_nesting_is_refused() {
    for open in ["[", "{a: ", "- "] {
        run_commands(open.repeat(50_000).as_bytes(), 2);
    }
}

#[test]
fn a_closed_output_pipe_is_no_error() {
    let command = format!(
        "set -o pipefail; {0} render -f examples | head -n 1; {0} completions zsh | true; {0} crds | true",
        env!("CARGO_BIN_EXE_kubevirt-operator")
    );
    let output = std::process::Command::new("bash")
        .args(["-c", &command])
        .current_dir(super::root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
}
