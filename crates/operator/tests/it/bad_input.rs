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
#[case::nothing(b"".as_slice(), "error: there is nothing to read")]
#[case::comments(b"# nothing\n---\n# here\n".as_slice(), "error: there is nothing to read")]
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
fn what_is_no_machine_is_a_problem(#[case] input: &str, #[case] expected: &str) {
    let said = feed(input.as_bytes(), 1);
    assert!(said.contains(expected), "{said}");
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
fn a_foreign_kind_is_passed_over_with_a_note(#[case] input: &str, #[case] what: &str) {
    let said = feed(input.as_bytes(), 0);
    assert!(
        said.contains(&format!("note: stdin:1: kind: {what} is passed over")),
        "{said}"
    );
    assert!(said.contains("checked no documents: no problems"), "{said}");
}

#[test]
fn a_secret_that_cannot_be_read_is_not_used_and_not_quoted() {
    let machine =
        "{apiVersion: vitistack.io/v1alpha1, kind: Machine, metadata: {name: a}, spec: {}}";
    let secret = "{apiVersion: v1, kind: Secret, metadata: {name: s}, data: {k: hunter2!}}";
    let said = feed(format!("{machine}\n--- {secret}\n").as_bytes(), 0);
    assert!(
        said.contains("note: stdin:2: kind: a Secret that cannot be read is not used"),
        "{said}"
    );
    assert!(!said.contains("hunter2"), "{said}");
}

#[test]
fn what_a_terminal_would_obey_is_not_printed() {
    let input = r#"{apiVersion: vitistack.io/v1alpha1, kind: Machine, metadata: {name: a}, spec: {"\e[31mRED": 1, "x\nstdin:9: spec: forged": 1}}"#;
    let said = feed(input.as_bytes(), 1);
    assert!(!said.contains('\u{1b}'), "{said}");
    assert!(
        said.lines().all(|line| !line.starts_with("stdin:9")),
        "{said}"
    );
}

/// A hundred thousand of anything is looked through in one go, not once for each.
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
    let said = feed(input.as_bytes(), 1);
    assert!(
        said.contains(&format!(
            "spec.{field}: Too many: {count}: must have at most"
        )),
        "{field}"
    );
}

/// Numbers that overflow what careless arithmetic holds.
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
fn extreme_quantities_are_judged(#[case] quantity: &str, #[case] status: i32) {
    for spec in [
        format!("{{memory: \"{quantity}\"}}"),
        format!("{{disks: [{{name: root, size: \"{quantity}\"}}]}}"),
    ] {
        feed(format!("{{apiVersion: vitistack.io/v1alpha1, kind: Machine, metadata: {{name: a}}, spec: {spec}}}").as_bytes(), status);
    }
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
