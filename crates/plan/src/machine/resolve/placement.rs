//! Placement on nodes.

use std::collections::BTreeMap;

use api::{Json, Machine, MachineSpec, SpreadBy, labels};
use k8s_openapi::api::core::v1::Affinity;
use serde_json::Value;

use super::Findings;
use crate::{
    machine::{Placement, Spread},
    naming,
};

/// `passed_on` are the labels that reach the pod, as far as the settings are known.
pub(super) fn resolve(
    machine: &Machine,
    passed_on: &BTreeMap<String, String>,
    settings_are_known: bool,
    findings: &mut Findings,
) -> Placement {
    let MachineSpec {
        node_selector,
        tolerations,
        affinity,
        spread_by,
        priority_class_name,
        ..
    } = &machine.spec;
    let node_selector = node_selector.clone().unwrap_or_default();
    check_node_selector(&node_selector, findings);
    if let Some(affinity) = affinity {
        check_affinity(affinity, findings);
    }
    if let Some(class) = priority_class_name
        && !naming::is_dns_name(class)
    {
        findings.invalid(
            "spec.priorityClassName",
            "must be the name of a PriorityClass: lower case letters, digits, '-' and '.'",
        );
    }
    let spread = spread_by.as_ref();
    Placement {
        node_selector,
        tolerations: tolerations.clone().unwrap_or_default(),
        affinity: affinity.clone().filter(|it| *it != Json::default()),
        spread: spread.and_then(|spread| {
            resolve_spread(spread, machine, passed_on, settings_are_known, findings)
        }),
        priority_class_name: priority_class_name.clone(),
    }
}

fn check_node_selector(selector: &BTreeMap<String, String>, findings: &mut Findings) {
    for (label, value) in selector {
        if !naming::is_qualified_name(label) {
            let message = format!("{label:?} is not the name of a label");
            findings.invalid("spec.nodeSelector", message);
        } else if !naming::is_label_value(value) {
            let path = format!("spec.nodeSelector[{label}]");
            findings.invalid(
                path,
                "must be the value of a label: at most 63 letters, digits, '-', '_' and '.', beginning and ending with a letter or digit",
            );
        }
    }
}

/// The API server takes any object. A misspelt field would silently have no effect.
fn check_affinity(affinity: &Json, findings: &mut Findings) {
    const PATH: &str = "spec.affinity";
    let given = affinity.value();
    let known = match decode::from_value_ref::<Affinity>(&given) {
        Ok(known) => serde_json::to_value(known).unwrap_or_default(),
        Err(error) => {
            let message = format!("is not an affinity as in Pods: {error}");
            return findings.invalid(PATH, message);
        }
    };
    let mut unknown = Vec::new();
    collect_unknown(PATH, &given, &known, &mut unknown);
    for path in unknown {
        findings.invalid(path, "is not a field of an affinity, as Pods have it");
    }
}

/// Paths of the fields of `given` that `known` lacks.
fn collect_unknown(path: &str, given: &Value, known: &Value, into: &mut Vec<String>) {
    match (given, known) {
        (Value::Object(given), Value::Object(known)) => {
            for (name, value) in given {
                let path = format!("{path}.{name}");
                match known.get(name) {
                    Some(known) => collect_unknown(&path, value, known, into),
                    None => into.push(path),
                }
            }
        }
        (Value::Array(given), Value::Array(known)) => {
            for (index, (given, known)) in given.iter().zip(known).enumerate() {
                collect_unknown(&format!("{path}[{index}]"), given, known, into);
            }
        }
        _ => {}
    }
}

fn resolve_spread(
    spread: &SpreadBy,
    machine: &Machine,
    passed_on: &BTreeMap<String, String>,
    settings_are_known: bool,
    findings: &mut Findings,
) -> Option<Spread> {
    let SpreadBy {
        topology_key,
        label,
        required,
    } = spread;
    let label = label.as_deref().unwrap_or(labels::CLUSTER_NAME);
    let mut is_valid = true;
    for (field, name) in [("topologyKey", topology_key.as_str()), ("label", label)] {
        if !naming::is_qualified_name(name) {
            let message = format!("{name:?} is not the name of a label");
            findings.invalid(format!("spec.spreadBy.{field}"), message);
            is_valid = false;
        }
    }
    if !is_valid {
        return None;
    }
    let own = machine.metadata.labels.as_ref();
    let unconfirmed = own
        .and_then(|own| own.get(label))
        .filter(|_| !settings_are_known);
    if let Some(value) = unconfirmed.filter(|_| !passed_on.contains_key(label)) {
        findings.note(
            "spec.spreadBy.label",
            format!("the label {label} has an effect only if the operator's setting PASSED_ON_LABELS names it"),
        );
        return Some(Spread {
            topology_key: topology_key.clone(),
            label: label.to_owned(),
            value: value.clone(),
            is_required: *required == Some(true),
        });
    }
    let Some(value) = passed_on.get(label) else {
        let message = if own.is_some_and(|own| own.contains_key(label)) {
            format!(
                "the label {label} does not reach the machine's pod: use one under {}, or one that the operator's setting PASSED_ON_LABELS names",
                labels::DOMAIN
            )
        } else {
            format!(
                "the Machine has no label {label}: add it to metadata.labels, or name another one here"
            )
        };
        findings.invalid("spec.spreadBy.label", message);
        return None;
    };
    Some(Spread {
        topology_key: topology_key.clone(),
        label: label.to_owned(),
        value: value.clone(),
        is_required: *required == Some(true),
    })
}
