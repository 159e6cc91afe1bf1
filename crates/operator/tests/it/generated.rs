//! Files that are generated from the Rust types or must match them.

use std::{collections::BTreeSet, fs};

use serde_json::Value;

use super::{root, run, text};

const HEADER: &str = "# Made from crates/api by `UPDATE_GENERATED=1 cargo test -p kubevirt-operator generated`.\n---\n";

#[test]
fn config_crd_is_up_to_date() {
    let folder = root().join("config/crd");
    let mut expected = BTreeSet::new();
    for crd in api::crds() {
        let name = format!("{}_{}.yaml", crd.spec.group, crd.spec.names.plural);
        let made = format!("{HEADER}{}", kubevirt_operator::yaml::crd(&crd).unwrap());
        let path = folder.join(&name);
        if std::env::var_os("UPDATE_GENERATED").is_some() {
            fs::write(&path, &made).unwrap();
            // The chart has a copy, which its tests may already have compared with the old file.
            let chart = root().join("charts/kubevirt-operator/files/crd");
            fs::write(chart.join(&name), &made).unwrap();
        }
        let kept = fs::read_to_string(&path).unwrap_or_default();
        assert!(kept == made, "config/crd/{name} is stale: {HEADER}");
        expected.insert(name);
    }
    expected.insert("Kustomization".to_owned());
    let found = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(found.collect::<BTreeSet<_>>(), expected);
}

#[test]
fn the_command_prints_the_same_definitions() {
    let output = run(&["crds"]);
    let printed = text(&output.stdout);
    for crd in api::crds() {
        assert!(printed.contains(&kubevirt_operator::yaml::crd(&crd).unwrap()));
    }
}

/// Paths of all fields of a schema, as the documentation writes them: `spec.disks[].name`.
fn fields(schema: &Value, path: &str, found: &mut Vec<String>) {
    if let Some(properties) = schema["properties"].as_object() {
        for (name, schema) in properties {
            let path = format!("{path}.{name}");
            fields(schema, &path, found);
            found.push(path);
        }
    }
    if schema["items"].is_object() {
        fields(&schema["items"], &format!("{path}[]"), found);
    }
}

#[test]
fn docs_machine_md_describes_every_field() {
    let docs = fs::read_to_string(root().join("docs/machine.md")).unwrap();
    for crd in api::crds() {
        let kind = crd.spec.names.kind.clone();
        let start = docs
            .find(&format!("\n## {kind}\n"))
            .unwrap_or_else(|| panic!("no section of {kind}"));
        let section = &docs[start + 1..];
        let end = section.find("\n## ").unwrap_or(section.len());
        let crd = serde_json::to_value(crd).unwrap();
        let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
        for part in ["spec", "status"] {
            let mut paths = Vec::new();
            fields(&schema[part], part, &mut paths);
            // Conditions are a Kubernetes type.
            for path in paths.iter().filter(|path| !path.contains(".conditions[].")) {
                assert!(
                    section[..end].contains(&format!("| `{path}` |")),
                    "docs/machine.md: {kind}: {path} is not described"
                );
            }
        }
    }
}
