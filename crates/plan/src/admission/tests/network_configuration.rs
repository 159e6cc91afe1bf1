//! NetworkConfigurations.

use super::{super::network_configuration as networks, *};

fn network(spec: Value) -> NetworkConfiguration {
    object(json!({
        "apiVersion": "", "kind": "", "metadata": {"name": "prod", "namespace": "shop"},
        "spec": spec,
    }))
}

fn users(names: &[&str]) -> Vec<Arc<Machine>> {
    let users = names.iter();
    users
        .map(|name| Arc::new(machine_named("shop", name, json!({}))))
        .collect()
}

const SOMEBODY: &str = "jane";

#[test]
fn a_network_in_use_is_not_deleted() {
    let network = network(json!({"bridge": "br0"}));
    let users = users(&["a", "b", "c", "d", "e", "f", "g"]);
    let verdict = networks::delete(&network, &users, SOMEBODY);
    assert!(!verdict.is_allowed());
    // The change itself is valid.
    assert_eq!(verdict.errors, []);
    assert_eq!(
        verdict.message(),
        "NetworkConfiguration \"prod\" is in use by 7 Machines (a, b, c, d, e and 2 more): remove it from their spec.networks, or delete them first",
    );
    silent(&networks::delete(&network, &[], SOMEBODY));
}

#[test]
fn a_network_of_terminating_machines_may_be_deleted() {
    let network = network(json!({"bridge": "br0"}));
    let terminating = Arc::new(deleted(machine_named("shop", "a", json!({}))));
    let mut all = vec![terminating];
    silent(&networks::delete(&network, &all, SOMEBODY));
    all.extend(users(&["b"]));
    let verdict = networks::delete(&network, &all, SOMEBODY);
    assert!(verdict.message().contains("1 Machine (b)"), "{verdict:?}");
}

#[test]
fn those_who_clear_away_are_let_through() {
    let network = network(json!({"bridge": "br0"}));
    for cleaner in [
        "system:serviceaccount:kube-system:namespace-controller",
        "system:serviceaccount:kube-system:generic-garbage-collector",
        "system:kube-controller-manager",
    ] {
        silent(&networks::delete(&network, &users(&["a"]), cleaner));
    }
}

#[test]
fn a_terminating_network_may_be_deleted_again() {
    let mut network = network(json!({"bridge": "br0"}));
    network.metadata.deletion_timestamp = object(json!("2026-01-01T00:00:00Z"));
    silent(&networks::delete(&network, &users(&["a"]), SOMEBODY));
}

#[test]
fn a_change_of_a_used_network_is_a_warning() {
    let old = network(json!({"bridge": "br0", "vlan": 7}));
    let new = network(json!({"bridge": "br1", "vlan": 8}));
    warns(
        &networks::review(Some(&old), &new, &users(&["a", "b"])),
        &[
            "spec.bridge, spec.vlan: 2 Machines are on this network (a, b): each gets the change at its next start, and may not reach the others meanwhile",
        ],
    );
    silent(&networks::review(Some(&old), &new, &[]));
    let described = network(json!({"bridge": "br0", "vlan": 7, "description": "a"}));
    silent(&networks::review(Some(&old), &described, &users(&["a"])));
    silent(&networks::review(None, &new, &users(&["a"])));
}
