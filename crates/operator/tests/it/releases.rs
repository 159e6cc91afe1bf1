//! Rendered objects against the schema of a KubeVirt release, and Machines against this project's
//! validation.
//!
//! The fixtures are the examples, and a schema of the fields that are rendered. The real data is not part of
//! the repository: `KUBEVIRT_OPERATOR_DATA` names the folder that contains `kubevirt/`, with the schema of
//! v1.9.0, and `spec/`, with the specification's manifests.

mod virtual_machine;

use std::{fs, path::PathBuf};

use rstest::rstest;
use schema::Schema;
use serde_json::Value;

use super::{manifests, root, run, text};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    Fixtures,
    RealData,
}

impl Source {
    fn data() -> PathBuf {
        let data = std::env::var_os("KUBEVIRT_OPERATOR_DATA");
        let data = data.expect("KUBEVIRT_OPERATOR_DATA names the folder with the data of releases");
        PathBuf::from(data)
    }

    /// Manifests that have a Machine.
    fn machines(self) -> Vec<PathBuf> {
        let folder = match self {
            Self::Fixtures => root().join("examples"),
            Self::RealData => Self::data().join("spec/manifests"),
        };
        let files = manifests(&folder).into_iter();
        let machines: Vec<_> = files
            .filter(|file| fs::read_to_string(file).unwrap().contains("kind: Machine"))
            .collect();
        assert!(machines.len() >= 10, "{machines:?}");
        machines
    }

    fn virtual_machine_schema(self) -> Schema {
        if self == Self::Fixtures {
            return Schema::compile(&virtual_machine::schema()).unwrap();
        }
        let path = Self::data().join("kubevirt/v1.9.0/crds/virtualmachines.kubevirt.io.yaml");
        let crd: Value = serde_saphyr::from_str(&fs::read_to_string(path).unwrap()).unwrap();
        let versions = crd["spec"]["versions"].as_array().unwrap();
        let v1 = versions
            .iter()
            .find(|version| version["name"] == "v1")
            .unwrap();
        Schema::compile(&v1["schema"]["openAPIV3Schema"]).unwrap()
    }
}

#[rstest]
#[case::fixtures(Source::Fixtures)]
#[ignore = "needs KUBEVIRT_OPERATOR_DATA"]
#[case::real_data(Source::RealData)]
fn machines_are_valid(#[case] source: Source) {
    for file in source.machines() {
        let output = run(&["validate", "-f", file.to_str().unwrap()]);
        assert_eq!(text(&output.stdout), "", "{}", file.display());
        assert!(output.status.success());
    }
}

#[rstest]
#[case::fixtures(Source::Fixtures, 15)]
#[ignore = "needs KUBEVIRT_OPERATOR_DATA"]
#[case::real_data(Source::RealData, 25)]
fn rendered_virtual_machines_match_the_schema_of_kubevirt(
    #[case] source: Source,
    #[case] min_checked: usize,
) {
    let schema = source.virtual_machine_schema();
    let examples = Source::Fixtures.machines().into_iter();
    let other = source.machines().into_iter();
    let files = examples.chain(other.filter(|_| source != Source::Fixtures));
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
    assert!(checked >= min_checked, "{checked}");
}

#[rstest]
#[case::fixtures(Source::Fixtures)]
#[ignore = "needs KUBEVIRT_OPERATOR_DATA"]
#[case::real_data(Source::RealData)]
fn a_virtual_machine_that_violates_the_schema_is_detected(#[case] source: Source) {
    let schema = source.virtual_machine_schema();
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
