//! Tests of feature gates.

use rstest::rstest;
use serde_json::{Value, json};

use super::{Gates, State, TABLE};
use crate::kubevirt::releases::Source;
use api::kubevirt::install::KubeVirt;

fn kubevirt(on: &[&str], off: &[&str]) -> KubeVirt {
    let mut kubevirt = KubeVirt::default();
    kubevirt.spec.configuration =
        Some(json!({"developerConfiguration": {"featureGates": on, "disabledFeatureGates": off}}));
    kubevirt
}

#[test]
fn the_table_is_sorted() {
    assert!(TABLE.is_sorted_by(|one, other| one.0 < other.0));
}

#[rstest]
#[case::alpha_is_off("DecentralizedLiveMigration", "v1.9.0", &[], &[], false)]
#[case::alpha_asked_for("DecentralizedLiveMigration", "v1.9.0", &["DecentralizedLiveMigration"], &[], true)]
#[case::beta_is_on("Template", "v1.9.0", &[], &[], true)]
#[case::beta_refused("Template", "v1.9.0", &[], &["Template"], false)]
#[case::beta_was_off("ExternalNetResourceInjection", "v1.8.4", &[], &[], false)]
#[case::beta_of_old_asked_for("ExternalNetResourceInjection", "v1.8.4", &["ExternalNetResourceInjection"], &[], true)]
#[case::another_state_in_another_release("Template", "v1.8.4", &[], &[], false)]
#[case::not_there_yet("Template", "v1.7.4", &["Template"], &[], false)]
#[case::ga_cannot_be_refused("LiveMigration", "v1.9.0", &[], &["LiveMigration"], true)]
#[case::discontinued("Macvtap", "v1.9.0", &["Macvtap"], &[], false)]
#[case::deprecated("MultiArchitecture", "v1.9.0", &[], &[], false)]
#[case::deprecated_asked_for("MultiArchitecture", "v1.9.0", &["MultiArchitecture"], &[], true)]
#[case::unknown("Nonsense", "v1.9.0", &["Nonsense"], &[], false)]
#[case::asking_wins("Template", "v1.9.0", &["Template"], &["Template"], true)]
#[case::candidate("Template", "v1.9.0-rc.2", &[], &[], true)]
#[case::later("Template", "v1.12.3", &[], &[], true)]
#[case::much_later("Template", "v2.0.0", &[], &[], true)]
#[case::no_release("Template", "latest", &[], &[], true)]
#[case::nightly("Template", "20260101_abcdef", &[], &[], true)]
#[case::old("VMExport", "v1.1.0", &[], &[], false)]
#[case::ancient("VMExport", "v0.59.0", &["VMExport"], &[], true)]
fn a_gate_is_enabled_by_its_state_and_the_resource(
    #[case] gate: &str,
    #[case] version: &str,
    #[case] on: &[&str],
    #[case] off: &[&str],
    #[case] expected: bool,
) {
    let kubevirt = kubevirt(on, off);
    assert_eq!(Gates::of(&kubevirt, version).on(gate), expected);
}

#[rstest]
#[case(json!(null))]
#[case(json!({"developerConfiguration": []}))]
#[case(json!({"developerConfiguration": {"featureGates": "Root"}}))]
#[case(json!({"developerConfiguration": {"featureGates": [1, null]}}))]
fn a_malformed_configuration_enables_no_gate(#[case] configuration: Value) {
    let mut kubevirt = KubeVirt::default();
    kubevirt.spec.configuration = Some(configuration);
    assert!(!Gates::of(&kubevirt, "v1.9.0").on("Root"));
}

#[rstest]
#[case::fixtures(Source::Fixtures)]
#[ignore = "needs KUBEVIRT_OPERATOR_DATA"]
#[case::real_data(Source::RealData)]
fn the_table_equals_the_gates_of_the_releases(#[case] source: Source) {
    let table = source.gates();
    assert!(source == Source::Fixtures || table.len() == TABLE.len());
    let kubevirt = KubeVirt::default();
    for (gate, states) in &table {
        for version in ["v1.5.3", "v1.6.6", "v1.7.4", "v1.8.4", "v1.9.0"] {
            let expected = states.get(version).map(|state| match state.as_str() {
                "Alpha" => State::Alpha,
                "Beta" => State::Beta,
                "GA" => State::Ga,
                "Deprecated" => State::Deprecated,
                "Discontinued" => State::Discontinued,
                other => panic!("{other:?}"),
            });
            let found = Gates::of(&kubevirt, version).state(gate);
            assert_eq!(found, expected, "{gate} in {version}");
        }
    }
}
