//! Admission rules, one test each.
#![allow(
    clippy::needless_pass_by_value,
    reason = "cases read best as plain json! values"
)]

mod disks;
mod machine_class;
mod names;
mod network_configuration;
mod properties;
mod quota;
mod references;

use std::sync::Arc;

use api::{Machine, NetworkConfiguration, core::StorageClass};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{
    Verdict,
    machine::{self, ReviewContext},
};
use crate::machine::{Known, Surroundings};

fn object<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn machine_named(namespace: &str, name: &str, spec: Value) -> Machine {
    object(json!({
        "apiVersion": "vitistack.io/v1alpha1", "kind": "Machine",
        "metadata": {"name": name, "namespace": namespace, "uid": "1"}, "spec": spec,
    }))
}

/// The Machine under review.
fn machine(spec: Value) -> Machine {
    machine_named("shop", "web", spec)
}

fn deleted(mut machine: Machine) -> Machine {
    machine.metadata.deletion_timestamp = object(json!("2026-01-01T00:00:00Z"));
    machine
}

fn storage_class(name: &str, more: Value) -> (String, Arc<StorageClass>) {
    let mut class = json!({"metadata": {"name": name}});
    class
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    (name.to_owned(), Arc::new(object(class)))
}

/// A cluster in which all objects are known: one default StorageClass and a network.
fn cluster() -> ReviewContext {
    let annotations = json!({"storageclass.kubernetes.io/is-default-class": "true"});
    let standard = json!({
        "metadata": {"name": "standard", "annotations": annotations},
        "allowVolumeExpansion": true,
    });
    let network: NetworkConfiguration = object(json!({
        "apiVersion": "", "kind": "", "metadata": {"name": "prod"}, "spec": {"bridge": "br0"},
    }));
    ReviewContext {
        surroundings: Surroundings {
            machine_classes: Known::all([]),
            storage_classes: Known::all([
                storage_class("standard", standard),
                storage_class("fixed", json!({})),
            ]),
            networks: Known::all([("prod".to_owned(), Arc::new(network))]),
            secrets: Known::all([]),
            ..Surroundings::default()
        },
        ..ReviewContext::default()
    }
}

fn with(others: impl IntoIterator<Item = Machine>) -> ReviewContext {
    ReviewContext {
        others: others.into_iter().map(Arc::new).collect(),
        ..cluster()
    }
}

/// Reviews a change, without the warning about empty disks that most Machines here have.
fn review(old: Option<&Machine>, new: &Machine, context: &ReviewContext) -> Verdict {
    let mut verdict = machine::review(old, new, context);
    verdict.warnings.retain(|warning| !warning.contains(EMPTY));
    verdict
}

const EMPTY: &str = "the guest finds nothing to boot";

#[test]
fn a_new_machine_with_nothing_to_boot_is_allowed_with_a_warning() {
    let verdict = machine::review(None, &machine(json!({})), &cluster());
    assert!(verdict.is_allowed());
    assert_eq!(verdict.warnings.len(), 1, "{verdict:?}");
    assert!(verdict.warnings[0].contains(EMPTY));
    let image = json!({"http": {"url": "http://images/disk"}});
    let filled = json!({"disks": [{"name": "root", "source": image}]});
    silent(&machine::review(None, &machine(filled), &cluster()));
    let (old, new) = (machine(json!({})), machine(json!({"template": "medium"})));
    silent(&machine::review(Some(&old), &new, &cluster()));
}

fn create(spec: Value, context: &ReviewContext) -> Verdict {
    review(None, &machine(spec), context)
}

fn update(old: Value, new: Value, context: &ReviewContext) -> Verdict {
    review(Some(&machine(old)), &machine(new), context)
}

#[track_caller]
fn silent(verdict: &Verdict) {
    assert_eq!(verdict, &Verdict::default());
}

/// Asserts that a change is allowed with exactly these warnings.
#[track_caller]
fn warns(verdict: &Verdict, warnings: &[&str]) {
    assert_eq!(verdict.errors, []);
    assert_eq!(verdict.warnings, warnings);
}

/// Asserts that a change is refused for these fields with these messages.
#[track_caller]
fn refuses(verdict: &Verdict, refusals: &[(&str, &str)]) {
    let refused: Vec<_> = verdict
        .errors
        .iter()
        .map(|refusal| (&*refusal.field, &*refusal.message))
        .collect();
    assert_eq!(refused, refusals);
}
