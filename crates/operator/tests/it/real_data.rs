//! Rendered objects against the schemas of a real KubeVirt release, and the specification's own
//! manifests against this project's validation.
//!
//! The data is not part of the repository: `KUBEVIRT_OPERATOR_DATA` names the folder that contains
//! `kubevirt/` and `spec/`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use schema::Schema;
use serde_json::Value;

use super::{manifests, root, run, text};

fn data() -> PathBuf {
    let data = std::env::var_os("KUBEVIRT_OPERATOR_DATA");
    PathBuf::from(data.expect("KUBEVIRT_OPERATOR_DATA names the folder with the data of releases"))
}

/// Manifests of the specification that are Machines.
fn specified_machines(data: &Path) -> Vec<PathBuf> {
    let files = manifests(&data.join("spec/manifests"));
    let machines: Vec<_> = files
        .into_iter()
        .filter(|file| fs::read_to_string(file).unwrap().contains("kind: Machine"))
        .collect();
    assert!(machines.len() >= 10, "{machines:?}");
    machines
}

fn virtual_machine_schema(data: &Path) -> Schema {
    let path = data.join("kubevirt/v1.9.0/crds/virtualmachines.kubevirt.io.yaml");
    let crd: Value = serde_saphyr::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let versions = crd["spec"]["versions"].as_array().unwrap();
    let v1 = versions
        .iter()
        .find(|version| version["name"] == "v1")
        .unwrap();
    Schema::compile(&v1["schema"]["openAPIV3Schema"]).unwrap()
}

#[test]
#[ignore = "needs KUBEVIRT_OPERATOR_DATA"]
fn the_machines_of_the_specification_are_valid() {
    let data = data();
    for file in specified_machines(&data) {
        let output = run(&["validate", "-f", file.to_str().unwrap()]);
        assert_eq!(text(&output.stdout), "", "{}", file.display());
        assert!(output.status.success());
    }
}

#[test]
#[ignore = "needs KUBEVIRT_OPERATOR_DATA"]
fn rendered_virtual_machines_match_the_schema_of_kubevirt() {
    let data = data();
    let schema = virtual_machine_schema(&data);
    let files = manifests(&root().join("examples"))
        .into_iter()
        .chain(specified_machines(&data));
    let mut checked = 0;
    for file in files {
        let output = run(&["render", "-o", "json", "-f", file.to_str().unwrap()]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let list: Value = serde_json::from_slice(&output.stdout).unwrap();
        for object in list["items"].as_array().unwrap() {
            if object["kind"] == "VirtualMachine" {
                let violations = schema.validate(object, None);
                assert_eq!(violations, [], "{}", file.display());
                checked += 1;
            }
        }
    }
    assert!(checked >= 25, "{checked}");
}

#[test]
#[ignore = "needs KUBEVIRT_OPERATOR_DATA"]
fn a_virtual_machine_that_violates_the_schema_is_detected() {
    let data = data();
    let schema = virtual_machine_schema(&data);
    let output = run(&["render", "-o", "json", "-f", "examples/machine-small.yaml"]);
    let list: Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut vm = list["items"][1].clone();
    vm["spec"]["template"]["spec"]["domain"]["cpu"]["kerne"] = 1.into();
    vm["spec"]["template"]["spec"]["domain"]["devices"]["disks"][0]
        .as_object_mut()
        .unwrap()
        .remove("name");
    let paths: Vec<_> = schema
        .validate(&vm, None)
        .into_iter()
        .map(|violation| violation.path)
        .collect();
    assert_eq!(
        paths,
        [
            "spec.template.spec.domain.cpu.kerne",
            "spec.template.spec.domain.devices.disks[0].name"
        ]
    );
}
