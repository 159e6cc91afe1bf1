//! Output for programs: `validate` and `plan` as JSON, SARIF and annotations; strict validation; `version`.

use std::{fs, path::PathBuf};

use serde_json::{Value, json};

use super::{cluster::with_cluster, root, run, run_with_input, text};

const BROKEN: &str = "\
# A Machine with a mistake in a field, and one that is not YAML.
apiVersion: vitistack.io/v1alpha1
kind: Machine
metadata:
  name: web
spec:
  template: small
  memori: 4Gi
  disks:
    - name: root
    - {name: data}
---
a: [
";

struct Folder(tempfile::TempDir);

impl Folder {
    fn new(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(folder.path().join(name), text).unwrap();
        }
        Self(folder)
    }

    fn path(&self, name: &str) -> String {
        let path: PathBuf = self.0.path().join(name);
        path.to_str().unwrap().to_owned()
    }
}

/// Line, column and path of problems.
fn places(problems: &Value) -> Vec<(u64, u64, String)> {
    let problems = problems.as_array().unwrap().iter();
    problems
        .map(|problem| {
            let number = |field: &str| problem[field].as_u64().unwrap();
            let path = problem["path"].as_str().unwrap_or_default();
            (number("line"), number("column"), path.to_owned())
        })
        .collect()
}

#[test]
fn problems_have_the_line_and_column_of_their_field() {
    let folder = Folder::new(&[("web.yaml", BROKEN)]);
    let file = folder.path("web.yaml");
    let output = run(&["validate", "-o", "json", "-f", &file]);
    assert_eq!(output.status.code(), Some(2));
    let printed: Value = serde_json::from_str(text(&output.stdout)).unwrap();
    assert_eq!(printed["isValid"], false);
    let problems = places(&printed["problems"]);
    assert!(
        problems.contains(&(8, 3, "spec.memori".to_owned())),
        "{problems:?}"
    );
    assert!(
        problems.contains(&(11, 7, "spec.disks[1].size".to_owned())),
        "{problems:?}"
    );
    let last = problems.last().unwrap();
    assert!(last.0 >= 13 && last.2.is_empty(), "{problems:?}");

    let output = run(&["validate", "-o", "github", &file]);
    let annotation =
        format!("::error file={file},line=8,col=3,title=kubevirt-operator validate::spec.memori: ");
    assert!(
        text(&output.stdout).contains(&annotation),
        "{}",
        text(&output.stdout)
    );

    let output = run(&["validate", "-o", "sarif", &file]);
    let sarif: Value = serde_json::from_str(text(&output.stdout)).unwrap();
    let results = sarif["runs"][0]["results"].as_array().unwrap();
    assert_eq!(results.len(), problems.len());
    let place = &results[0]["locations"][0]["physicalLocation"];
    assert_eq!(place["artifactLocation"]["uri"], file.as_str());
    assert_eq!(place["region"]["startLine"], 8);
}

#[test]
fn valid_documents_have_an_empty_result() {
    let small = fs::read(root().join("examples/machine-small.yaml")).unwrap();
    let output = run_with_input(&["validate", "-o", "json", "-"], &small);
    assert!(output.status.success());
    let printed: Value = serde_json::from_str(text(&output.stdout)).unwrap();
    assert_eq!(printed["problems"], json!([]));
    assert_eq!(printed["checked"], 1);
    let output = run_with_input(&["validate", "-o", "sarif", "-"], &small);
    let sarif: Value = serde_json::from_str(text(&output.stdout)).unwrap();
    let results = sarif["runs"][0]["results"].as_array().unwrap();
    assert!(
        results.iter().all(|result| result["level"] == "note"),
        "{results:?}"
    );
}

#[test]
fn strict_validation_refuses_what_would_be_ignored() {
    let folder = Folder::new(&[
        (
            "group.yaml",
            "apiVersion: vitistak.io/v1alpha1\nkind: Machine\nmetadata: {name: a}\n",
        ),
        (
            "data.yaml",
            "apiVersion: vitistack.io/v1alpha1\nkind: Machine\nmetadata: {name: b}\nspec:\n  template: small\n  \
             cloudInit:\n    userData: |\n      #cloud-config\n      password: [hunter2\n",
        ),
        (
            "map.yaml",
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n",
        ),
    ]);
    let files = ["group.yaml", "data.yaml", "map.yaml"].map(|name| folder.path(name));
    let lax = [vec!["validate"], files.iter().map(String::as_str).collect()].concat();
    assert!(run(&lax).status.success());
    let strict = [
        vec!["validate", "--strict", "-o", "json"],
        files.iter().map(String::as_str).collect(),
    ]
    .concat();
    let output = run(&strict);
    assert_eq!(output.status.code(), Some(1));
    assert!(!text(&output.stdout).contains("hunter2"));
    let printed: Value = serde_json::from_str(text(&output.stdout)).unwrap();
    assert_eq!(
        places(&printed["problems"]),
        [
            (1, 1, "apiVersion".to_owned()),
            (7, 5, "spec.cloudInit.userData".to_owned())
        ]
    );
}

#[test]
fn the_examples_are_valid_strictly() {
    let output = run(&["validate", "--strict", "examples"]);
    assert!(
        output.status.success(),
        "{}{}",
        text(&output.stdout),
        text(&output.stderr)
    );
}

#[test]
fn the_pre_commit_hook_runs_the_command_with_files() {
    let hooks = fs::read_to_string(root().join(".pre-commit-hooks.yaml")).unwrap();
    let hooks: Value = serde_saphyr::from_str(&hooks).unwrap();
    let entry = hooks[0]["entry"].as_str().unwrap();
    let mut words = entry.split(' ');
    assert_eq!(words.next(), Some("kubevirt-operator"));
    let mut args: Vec<&str> = words.collect();
    args.extend([
        "examples/machine-small.yaml",
        "examples/machine-networks.yaml",
    ]);
    assert!(run(&args).status.success());
    args.push("examples/broken/machine.yaml");
    assert_eq!(run(&args).status.code(), Some(1));
}

#[test]
fn a_plan_for_programs_has_effects_and_located_errors() {
    let folder = Folder::new(&[(
        "web.yaml",
        "apiVersion: vitistack.io/v1alpha1\nkind: Machine\nmetadata: {name: web}\nspec:\n  template: small\n",
    )]);
    let good = folder.path("web.yaml");
    with_cluster(&[], |kubeconfig| {
        let kubeconfig = kubeconfig.to_str().unwrap();
        let plan = |args: &[&str]| {
            let output = run(&[&["plan", "--kubeconfig", kubeconfig], args].concat());
            (
                output.status.code().unwrap(),
                text(&output.stdout).to_owned(),
            )
        };
        let (code, printed) = plan(&["-o", "json", &good]);
        assert_eq!(code, 0, "{printed}");
        let printed: Value = serde_json::from_str(&printed).unwrap();
        assert_eq!(printed["hasChanges"], true);
        assert_eq!(printed["isComplete"], true);
        let effects = printed["forecasts"][0]["effects"].as_array().unwrap();
        let verbs: Vec<_> = effects
            .iter()
            .map(|it| (&it["verb"], &it["object"]["kind"]))
            .collect();
        assert!(
            verbs.contains(&(&json!("Create"), &json!("VirtualMachine"))),
            "{verbs:?}"
        );
        assert_eq!(plan(&["--detailed-exitcode", &good]).0, 2);

        let refused = Folder::new(&[(
            "bad.yaml",
            "apiVersion: vitistack.io/v1alpha1\nkind: Machine\nmetadata:\n  name: bad\nspec: {memori: 1Gi}\n",
        )]);
        let bad = refused.path("bad.yaml");
        let (code, printed) = plan(&["--detailed-exitcode", &bad]);
        assert_eq!(
            (code, printed.as_str()),
            (1, "The plan is incomplete: 1 error.\n")
        );
        let (code, printed) = plan(&["-o", "github", &bad]);
        assert_eq!(code, 1);
        assert!(
            printed.starts_with(&format!("::error file={bad},line=1,col=1,")),
            "{printed}"
        );
        let (_, printed) = plan(&["-o", "json", &bad]);
        let printed: Value = serde_json::from_str(&printed).unwrap();
        assert_eq!(printed["isComplete"], false);
        assert_eq!(printed["errors"][0]["line"], 1);
        let (code, printed) = plan(&[&good, "/nowhere.yaml"]);
        assert_eq!(code, 1);
        assert!(
            printed.ends_with("the plan is incomplete: 1 error.\n"),
            "{printed}"
        );
    });
}

#[test]
fn wrong_usage_has_an_exit_status_of_its_own() {
    for args in [
        &["plan"][..],
        &["validate", "--nonsense"],
        &["nonsense"],
        &["machine", "stop", "--nonsense"],
    ] {
        let output = run(args);
        assert_eq!(output.status.code(), Some(64), "{args:?}");
        assert!(
            text(&output.stderr).contains("Usage:"),
            "{}",
            text(&output.stderr)
        );
    }
    assert_eq!(run(&["plan", "--help"]).status.code(), Some(0));
}

#[test]
fn the_version_names_the_target_and_the_commit() {
    let output = run(&["version"]);
    assert!(output.status.success());
    let printed = text(&output.stdout);
    assert!(
        printed.starts_with(&format!(
            "kubevirt-operator {}\ncommit: ",
            env!("CARGO_PKG_VERSION")
        )),
        "{printed}"
    );
    let output = run(&["version", "-o", "json"]);
    let printed: Value = serde_json::from_str(text(&output.stdout)).unwrap();
    assert!(
        printed["target"]
            .as_str()
            .unwrap()
            .starts_with(std::env::consts::ARCH),
        "{printed}"
    );
    assert_eq!(printed["features"], json!(["cel", "plugin", "sandbox"]));
}
