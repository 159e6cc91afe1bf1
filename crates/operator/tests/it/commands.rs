//! Commands `render` and `validate` as processes.

use rstest::rstest;
use serde_json::Value;

use super::{run, run_with_input, text};

const SMALL: &str = "apiVersion: vitistack.io/v1alpha1\nkind: Machine\nmetadata: {name: a}\nspec: {template: small}\n";

#[test]
fn render_prints_json_as_one_list() {
    let output = run(&["render", "-o", "json", "-f", "examples/machine-small.yaml"]);
    let list: Value = serde_json::from_slice(&output.stdout).unwrap();
    let kinds: Vec<_> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| &item["kind"])
        .collect();
    assert_eq!(kinds, ["PersistentVolumeClaim", "VirtualMachine"]);
    assert_eq!(list["kind"], "List");
}

#[test]
fn render_reads_standard_input_and_fills_in_the_namespace() {
    let output = run_with_input(&["render", "-n", "shop", "-f", "-"], SMALL.as_bytes());
    assert_eq!(text(&output.stdout).matches("namespace: shop").count(), 2);
    assert!(output.status.success());
}

#[test]
fn render_records_the_machine_when_its_uid_is_known() {
    let live = SMALL.replace(
        "{name: a}",
        "{name: a, uid: 0c7e5f5e-0000-4000-8000-000000000001}",
    );
    let output = run_with_input(&["render", "-f", "-"], live.as_bytes());
    let rendered = text(&output.stdout);
    let count = |key: &str| {
        let entry = format!(" {key}: 0c7e5f5e-0000-4000-8000-000000000001");
        rendered.matches(&entry).count()
    };
    // The VirtualMachine has an owner reference; the disk names its Machine in labels only.
    assert_eq!(count("uid"), 1);
    assert_eq!(count("vitistack.io/machine-uid"), 1);
    assert!(!text(&output.stderr).contains("metadata.uid"));
}

#[test]
fn render_prints_valid_machines_despite_invalid_ones() {
    let both = format!("{SMALL}---\n{}", SMALL.replace("small", "gigantic"));
    let output = run_with_input(&["render", "-f", "-"], both.as_bytes());
    assert_eq!(
        text(&output.stdout).matches("kind: VirtualMachine").count(),
        1
    );
    assert!(text(&output.stderr).contains("error: stdin:2: spec.template: TemplateNotFound: "));
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn render_shares_one_attachment_among_machines() {
    let output = run(&["render", "-f", "examples/machine-networks.yaml"]);
    let rendered = text(&output.stdout);
    assert_eq!(
        rendered
            .matches("kind: NetworkAttachmentDefinition")
            .count(),
        2
    );
    assert_eq!(rendered.matches("networkName: backend").count(), 1);
}

#[test]
fn render_uses_only_objects_of_the_machines_namespace() {
    let network = "apiVersion: vitistack.io/v1alpha1\nkind: NetworkConfiguration\nmetadata: {name: n1, namespace: other}\nspec: {bridge: br0}\n---\n";
    let machine = SMALL.replace("template: small", "networks: [{name: a, networkName: n1}]");
    let output = run_with_input(
        &["render", "-f", "-"],
        format!("{network}{machine}").as_bytes(),
    );
    assert!(text(&output.stderr).contains("NetworkConfiguration \"n1\" is not checked"));
}

#[test]
fn validate_prints_one_line_for_each_problem() {
    let bad = SMALL.replace("template: small", "template: 5, disks: [{name: a, size: none}], networks: [{name: x, networkName: y1, macAddress: z}]");
    let output = run_with_input(&["validate", "-f", "-"], bad.as_bytes());
    assert_eq!(
        text(&output.stdout),
        "stdin:1: spec.template: Invalid value: \"integer\": spec.template in body must be of type string: \"integer\"\n\
         stdin:1: spec.disks[0].size: Invalid value: \"none\": must be a quantity of at least 1Mi, such as 20Gi\n\
         stdin:1: spec.networks[0].macAddress: Invalid value: \"z\": must be six pairs of hexadecimal digits joined by ':', such as 52:54:00:12:34:56\n",
    );
    assert_eq!(text(&output.stderr), "checked 1 document: 3 problems\n");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn validate_reports_problems_that_only_resolve_detects() {
    let bad = SMALL.replace("template: small", "template: small, disks: [{name: data}]");
    let output = run_with_input(&["validate", "-f", "-"], bad.as_bytes());
    assert_eq!(
        text(&output.stdout),
        "stdin:1: spec.disks[0].size: InvalidSpec: is missing: give the size of disk \"data\", such as 20Gi\n",
    );
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn validate_reports_each_problem_once() {
    let bad = SMALL.replace(
        "template: small",
        "template: small, instanceType: small, disks: [{name: UPPER, size: 1Gi}]",
    );
    let output = run_with_input(&["validate", "-f", "-"], bad.as_bytes());
    assert_eq!(
        text(&output.stdout).lines().count(),
        2,
        "{}",
        text(&output.stdout)
    );
}

#[test]
fn validate_notes_a_class_that_is_not_in_the_input() {
    let output = run_with_input(
        &["validate", "-f", "-"],
        SMALL.replace("small", "huge").as_bytes(),
    );
    assert_eq!(text(&output.stdout), "");
    assert!(text(&output.stderr).contains(
        "note: stdin:1: spec.template: MachineClass \"huge\" is not among the given documents"
    ));
    assert!(output.status.success());
}

#[test]
fn validate_detects_duplicate_objects() {
    let output = run_with_input(
        &["validate", "-f", "-"],
        format!("{SMALL}---\n{SMALL}").as_bytes(),
    );
    assert_eq!(
        text(&output.stdout),
        "stdin:2: metadata.name: Machine \"a\" is already defined in stdin:1: remove one of them\n",
    );
}

#[test]
fn validate_warns_about_an_annotation_without_effect() {
    let annotated = |value: &str| {
        let annotations =
            format!("name: a, annotations: {{vitistack.io/adopt-disks: \"{value}\"}}}}");
        let machine = SMALL.replace("name: a}", &annotations);
        assert_ne!(machine, SMALL);
        let output = run_with_input(&["validate", "-f", "-"], machine.as_bytes());
        assert!(output.status.success());
        text(&output.stderr).to_owned()
    };
    let printed = annotated("yes");
    let expected = "note: stdin:1: metadata.annotations[vitistack.io/adopt-disks]: \"yes\" is ignored: it must be \"true\" to have an effect";
    assert!(printed.contains(expected), "{printed}");
    let printed = annotated("true");
    assert!(!printed.contains("ignored"), "{printed}");
}

#[rstest]
#[case(
    "spec: {name: b}",
    "spec: {name: b}",
    "spec.name: VirtualMachine \"b\""
)]
#[case(
    "spec: {disks: [{name: b-root, size: 1Gi}]}",
    "spec: {name: c}",
    "spec.disks: PersistentVolumeClaim \"a-b-root\""
)]
fn validate_detects_two_machines_with_the_same_child(
    #[case] one: &str,
    #[case] other: &str,
    #[case] expected: &str,
) {
    let first = SMALL.replace("spec: {template: small}", one);
    let second = SMALL
        .replace("spec: {template: small}", other)
        .replace("name: a}", "name: a-b}");
    let output = run_with_input(
        &["validate", "-f", "-"],
        format!("{first}---\n{second}").as_bytes(),
    );
    assert_eq!(
        text(&output.stdout),
        format!(
            "stdin:2: {expected} already belongs to the Machine in stdin:1: choose another name\n"
        ),
    );
}

#[test]
fn validate_accepts_generate_name_and_render_refuses_it() {
    let generated = SMALL.replace("name: a", "generateName: a-");
    let validate = run_with_input(&["validate", "-f", "-"], generated.as_bytes());
    assert!(validate.status.success(), "{}", text(&validate.stdout));
    let render = run_with_input(&["render", "-f", "-"], generated.as_bytes());
    assert!(text(&render.stderr).contains("metadata.name: InvalidSpec: is missing"));
    assert_eq!(render.status.code(), Some(1));
}

#[test]
fn a_null_label_is_treated_as_empty() {
    let null = SMALL.replace(
        "{name: a}",
        "{name: a, labels: {vitistack.io/x: null}, annotations: {y: null}}",
    );
    let output = run_with_input(&["render", "-f", "-"], null.as_bytes());
    assert!(
        text(&output.stdout).contains("vitistack.io/x: \"\""),
        "{}",
        text(&output.stderr)
    );
    assert!(output.status.success());
}

#[test]
fn validate_fails_when_an_input_could_not_be_read() {
    let output = run_with_input(
        &["validate", "-f", "-"],
        format!("{SMALL}---\n[\n").as_bytes(),
    );
    let printed = text(&output.stderr);
    let summary = "checked 1 document: no problems; not all files could be read\n";
    assert!(printed.contains(summary), "{printed}");
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn render_prints_an_empty_list_as_json() {
    let class = "{apiVersion: vitistack.io/v1alpha1, kind: MachineClass, metadata: {name: a}, spec: {cpu: {cores: 1}, memory: {quantity: 1Gi}}}";
    let output = run_with_input(&["render", "-o", "json", "-f", "-"], class.as_bytes());
    let list: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(list["items"], serde_json::json!([]));
}

#[test]
fn a_secret_with_wrapped_base64_is_used() {
    let machine = SMALL.replace(
        "template: small",
        "cloudInit: {secretRef: {name: s, key: k}}",
    );
    let secret =
        "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata:\n  k: |\n    aGVs\n    bG8=\n";
    let output = run_with_input(
        &["render", "-f", "-"],
        format!("{machine}---\n{secret}").as_bytes(),
    );
    assert!(
        text(&output.stdout).contains("userdata: aGVsbG8="),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn validate_suggests_the_intended_field() {
    let output = run_with_input(
        &["validate", "-f", "-"],
        SMALL.replace("template", "templat").as_bytes(),
    );
    assert_eq!(
        text(&output.stdout),
        "stdin:1: spec.templat: unknown field: did you mean \"template\"?\n"
    );
}

#[test]
fn folders_are_searched_recursively_when_asked() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("below")).unwrap();
    std::fs::write(folder.path().join("a.yaml"), SMALL).unwrap();
    std::fs::write(folder.path().join("ignored.txt"), "not YAML: [").unwrap();
    std::fs::write(
        folder.path().join("below/b.yml"),
        SMALL.replace("name: a", "name: b"),
    )
    .unwrap();
    let path = folder.path().to_str().unwrap();
    let flat = run(&["validate", "-f", path]);
    let flat = text(&flat.stderr);
    assert!(
        flat.starts_with("checked 1 document: no problems\n"),
        "{flat}"
    );
    let deep = run(&["validate", "-R", "-f", path]);
    let deep = text(&deep.stderr);
    assert!(
        deep.starts_with("checked 2 documents: no problems\n"),
        "{deep}"
    );
}

#[rstest]
#[case("bash")]
#[case("zsh")]
#[case("fish")]
#[case("elvish")]
#[case("powershell")]
fn completions_contain_the_commands(#[case] shell: &str) {
    let output = run(&["completions", shell]);
    assert!(output.status.success());
    assert!(text(&output.stdout).contains("validate"));
}

#[rstest]
#[case(&["--help"], "")]
#[case(&["render", "--help"], "Exit status: 0")]
#[case(&["validate", "--help"], "Exit status: 0")]
#[case(&["crds", "--help"], "kubectl apply --server-side -f -")]
fn help_explains_the_commands(#[case] args: &[&str], #[case] teaches: &str) {
    let output = run(args);
    assert!(output.status.success());
    let help = text(&output.stdout);
    assert!(help.lines().count() > 8, "{help}");
    // Every command prints a usage or an exit status.
    assert!(
        args == ["--help"] || help.contains("kubevirt-operator ") && help.contains(teaches),
        "{help}"
    );
}

#[test]
fn without_a_command_the_help_is_shown() {
    let output = run(&[]);
    assert_eq!(output.status.code(), Some(64));
    assert!(text(&output.stderr).contains("Usage:"));
}

#[test]
fn output_has_no_colours_without_a_terminal() {
    let output = run_with_input(&["render", "-f", "-"], b"[");
    assert!(!text(&output.stderr).contains('\u{1b}'));
}
