//! Environment variables of the chart's containers: those that it sets, and additional ones.

use std::collections::BTreeSet;

use serde_json::json;

use crate::{
    chart::everything,
    helm::Helm,
    objects::pod,
    values::{at, defaults},
};

/// All variables that the chart can set, by the command that reads them and the value that adds more.
fn set_by_the_chart() -> [(&'static str, &'static str, Vec<String>); 2] {
    let mut values = everything();
    values["fullnameOverride"] = "vms".into();
    let rendered = Helm::alone().template(&values);
    [
        ("vms-controller-manager", "run", "extraEnv"),
        ("virt-operator", "virt-operator", "virtOperator.extraEnv"),
    ]
    .map(|(deployment, command, extra)| {
        let pod = pod(rendered.find("Deployment", deployment).unwrap()).unwrap();
        let variables = pod["spec"]["containers"][0]["env"].as_array().unwrap();
        let names = variables.iter().map(|variable| variable["name"].as_str());
        let names = names.map(|name| name.unwrap().to_owned()).collect();
        (command, extra, names)
    })
}

/// The operators would silently ignore an unknown variable.
#[test]
#[ignore = "needs helm on PATH: .ci/run has it"]
fn every_variable_is_a_setting() {
    for (command, _, variables) in set_by_the_chart() {
        let help = crate::process::run(&[command, "--help"]);
        let help = String::from_utf8(help.stdout).unwrap();
        for variable in variables {
            let setting = format!("[env: {variable}");
            assert!(
                help.contains(&format!("{setting}=")) || help.contains(&format!("{setting}]")),
                "{command}: {variable}"
            );
        }
    }
}

/// Refusal of these variables in the value `extra`.
fn refusal(helm: &Helm, extra: &str, names: &[&str]) -> String {
    let entries = names
        .iter()
        .map(|name| json!({ "name": name, "value": "" }));
    let mut values = json!({});
    crate::toggles::set(&mut values, extra, entries.collect());
    let file = helm.file(&values);
    helm.fails(&format!("template any-name CHART --values {file}"))
}

#[test]
#[ignore = "needs helm on PATH: .ci/run has it"]
fn a_variable_that_the_chart_sets_is_refused_with_the_value_to_use() {
    let (helm, defaults) = (Helm::alone(), defaults());
    let mut without_value = BTreeSet::new();
    for (_, extra, variables) in set_by_the_chart() {
        for variable in variables {
            let message = refusal(&helm, extra, &["RUST_BACKTRACE", &variable]);
            let begin = format!("{extra}: {variable} is set by the chart: ");
            let (_, remedy) = message
                .split_once(&begin)
                .unwrap_or_else(|| panic!("{message}"));
            let remedy = remedy.lines().next().unwrap();
            match remedy.strip_prefix("use ") {
                Some(value) => assert!(at(&defaults, value).is_some(), "{message}"),
                None => assert!(without_value.insert(format!("{extra} {variable}"))),
            }
        }
    }
    let expected = [
        "extraEnv HEALTH_PROBE_BIND_ADDRESS",
        "extraEnv NAMESPACE",
        "virtOperator.extraEnv METRICS_BIND_ADDRESS",
        "virtOperator.extraEnv STRATEGY_SERVICE_ACCOUNT",
        "virtOperator.extraEnv WEBHOOK_BIND_ADDRESS",
    ];
    assert_eq!(without_value, expected.map(str::to_owned).into());
}

#[test]
#[ignore = "needs helm on PATH: .ci/run has it"]
fn a_duplicate_variable_is_refused() {
    let helm = Helm::alone();
    for extra in ["extraEnv", "virtOperator.extraEnv"] {
        let message = refusal(&helm, extra, &["A", "B", "A"]);
        let expected = format!("{extra}: A is given twice: remove one of them");
        assert!(message.contains(&expected), "{message}");
    }
}
