//! Labels and annotations that are copied to the virtual machine.

use super::*;
use crate::machine::{NamePatterns, PassedOn, build};

#[test]
fn are_labels_and_annotations_under_the_documented_prefixes() {
    let mut machine = machine(json!({}));
    let entries = [
        ("vitistack.io/zone", true),
        ("cluster.vitistack.io/cluster-name", true),
        ("notvitistack.io/x", false),
        ("vitistack.io.example.com/x", false),
        ("app", false),
        ("vitistack.io/managed-by", false),
        ("vitistack.io/machine", false),
        ("vitistack.io/machine-uid", false),
        ("vitistack.io/retained", false),
        ("vitistack.io/delete-when-detached", false),
        ("vitistack.io/applied", false),
        ("vitistack.io/cloud-init", false),
        ("vitistack.io/restarted-instance", false),
        ("vitistack.io/stopped-instance", false),
        ("kubectl.kubernetes.io/last-applied-configuration", false),
    ];
    let all = entries.map(|(key, _)| (key.to_owned(), "v".to_owned()));
    machine.metadata.labels = Some(all.clone().into());
    machine.metadata.annotations = Some(all.into());
    let resolved = resolve(&machine, &cluster()).unwrap().machine;
    let expected: Vec<_> = entries
        .into_iter()
        .filter(|(_, passed)| *passed)
        .map(|(key, _)| key)
        .collect();
    let mut keys: Vec<_> = resolved.labels.keys().map(String::as_str).collect();
    keys.sort_by_key(|key| expected.iter().position(|e| e == key));
    assert_eq!(keys, expected);
    assert_eq!(resolved.labels, resolved.annotations);
}

#[test]
fn are_those_that_the_settings_name() {
    let mut machine = machine(json!({}));
    let entries = [
        "team",
        "example.com/owner",
        "example.com/x",
        "vitistack.io/managed-by",
    ];
    let all = entries.map(|key| (key.to_owned(), "v".to_owned()));
    machine.metadata.labels = Some(all.clone().into());
    machine.metadata.annotations = Some(all.into());
    let surroundings = Surroundings {
        passed_on: PassedOn {
            labels: NamePatterns::parse("team,vitistack.io/*").unwrap(),
            annotations: NamePatterns::parse("example.com/*").unwrap(),
        },
        ..cluster()
    };
    let resolved = resolve(&machine, &surroundings).unwrap().machine;
    let labels: Vec<_> = resolved.labels.keys().collect();
    assert_eq!(labels, ["team"], "names of the operator are never copied");
    let annotations: Vec<_> = resolved.annotations.keys().collect();
    assert_eq!(annotations, ["example.com/owner", "example.com/x"]);
    let vm = build(&resolved).virtual_machine;
    assert_eq!(vm.metadata.labels.unwrap()["team"], "v");
    assert_eq!(vm.metadata.annotations.unwrap().len(), 2);
}
