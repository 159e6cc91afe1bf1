//! Snapshots of every example.

use super::{manifests, root, run, text};

/// To accept a change: `INSTA_UPDATE=always cargo test -p kubevirt-operator examples`.
#[test]
fn every_example_renders_to_its_snapshot() {
    let files = manifests(&root().join("examples"));
    assert!(files.len() >= 15, "{files:?}");
    for file in files {
        let name = file.file_stem().unwrap().to_str().unwrap();
        let output = run(&["render", "-f", &format!("examples/{name}.yaml")]);
        assert!(output.status.success(), "{name}: {}", text(&output.stderr));
        let both = format!(
            "{}\n# on standard error:\n{}",
            text(&output.stdout),
            text(&output.stderr)
        );
        insta::with_settings!({ prepend_module_to_snapshot => false, omit_expression => true }, {
            insta::assert_snapshot!(name, both);
        });
    }
}

#[test]
fn every_example_is_valid() {
    let output = run(&["validate", "-f", "examples"]);
    assert_eq!(text(&output.stdout), "");
    assert!(output.status.success());
}

#[test]
fn the_readme_of_the_examples_names_every_example() {
    let readme = std::fs::read_to_string(root().join("examples/README.md")).unwrap();
    for file in manifests(&root().join("examples")) {
        let name = file.file_name().unwrap().to_str().unwrap();
        assert!(
            readme.contains(&format!("[{name}]({name})")),
            "{name} is not described"
        );
    }
}

#[test]
fn rendering_is_deterministic() {
    let render = || run(&["render", "-f", "examples"]).stdout;
    assert_eq!(render(), render());
}
