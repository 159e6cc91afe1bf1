//! Names of VirtualMachines, and MAC addresses.

use rstest::rstest;

use super::*;

fn nic(network: &str, mac: &str) -> Value {
    json!({"networks": [{"name": "lan", "networkName": network, "macAddress": mac}]})
}

#[test]
fn a_virtual_machine_that_another_machine_wants_is_not_to_be_had() {
    let other = machine_named("shop", "db", json!({"name": "web"}));
    refuses(
        &create(json!({}), &with([other])),
        &[(
            "metadata.name",
            "metadata.name: VirtualMachine \"web\" belongs to Machine \"db\": give this one another name",
        )],
    );
    let other = machine_named("shop", "db", json!({}));
    refuses(
        &create(json!({"name": "db"}), &with([other])),
        &[(
            "spec.name",
            "spec.name: VirtualMachine \"db\" belongs to Machine \"db\": give this one another name",
        )],
    );
}

#[test]
fn the_same_name_in_another_namespace_or_of_itself_is_free() {
    let elsewhere = machine_named("bank", "db", json!({"name": "web"}));
    let itself = machine(json!({}));
    silent(&create(json!({}), &with([elsewhere, itself])));
}

#[test]
fn warns_of_the_virtual_machine_of_a_terminating_machine() {
    let other = deleted(machine_named("shop", "db", json!({"name": "web"})));
    warns(
        &create(json!({}), &with([other])),
        &[
            "metadata.name: VirtualMachine \"web\" belongs to Machine \"db\", which is being deleted: the operator waits for that",
        ],
    );
}

#[rstest]
#[case::of_somebody(json!({"name": "web"}), true)]
#[case::of_another_controller(
    json!({"name": "web", "ownerReferences": [{
        "apiVersion": "pool.kubevirt.io/v1", "kind": "VirtualMachinePool", "name": "web",
        "uid": "1", "controller": true,
    }]}),
    true
)]
#[case::of_a_machine_that_is_no_more(
    json!({"name": "web", "ownerReferences": [{
        "apiVersion": "vitistack.io/v1alpha1", "kind": "Machine", "name": "web", "uid": "1",
        "controller": true,
    }]}),
    false
)]
#[case::on_its_way_out(
    json!({"name": "web", "deletionTimestamp": "2026-01-01T00:00:00Z"}),
    false
)]
fn a_virtual_machine_of_others_is_in_the_way(#[case] metadata: Value, #[case] is_foreign: bool) {
    let context = ReviewContext {
        virtual_machine: Some(object(metadata)),
        ..cluster()
    };
    let verdict = create(json!({}), &context);
    if is_foreign {
        refuses(
            &verdict,
            &[(
                "metadata.name",
                "metadata.name: VirtualMachine \"web\" exists and does not belong to this Machine: give one of them another name, or annotate the Machine with vitistack.io/adopt: \"true\" to adopt it",
            )],
        );
    } else {
        silent(&verdict);
    }
    silent(&update(
        json!({}),
        json!({"powerState": "Stopped"}),
        &context,
    ));
}

#[rstest]
#[case(json!({}), json!({"name": "other"}))]
#[case(json!({"name": "other"}), json!({}))]
fn the_name_of_the_virtual_machine_stays(#[case] old: Value, #[case] new: Value) {
    refuses(
        &update(old, new, &cluster()),
        &[(
            "spec.name",
            "spec.name: is immutable: it names the VirtualMachine; make a new Machine for another name",
        )],
    );
}

#[test]
fn the_own_name_may_be_written_out() {
    silent(&update(json!({}), json!({"name": "web"}), &cluster()));
}

#[rstest]
#[case::the_same_letters("52:54:00:00:00:0a")]
#[case::other_letters("52:54:00:00:00:0A")]
fn a_mac_address_of_another_machine_of_the_network_is_not_to_be_had(#[case] mac: &str) {
    let other = machine_named("shop", "db", nic("prod", "52:54:00:00:00:0a"));
    refuses(
        &create(nic("prod", mac), &with([other])),
        &[(
            "spec.networks[0].macAddress",
            &*format!(
                "spec.networks[0].macAddress: {mac:?} is also that of Machine \"db\" on this network: give each its own, or leave it out to have one generated"
            ),
        )],
    );
}

#[test]
fn a_mac_address_on_another_network_is_a_warning() {
    let mac = "52:54:00:00:00:0a";
    let other = machine_named("shop", "db", nic("test", mac));
    warns(
        &create(nic("prod", mac), &with([other])),
        &[
            "spec.networks[0].macAddress: \"52:54:00:00:00:0a\" is also that of Machine \"db\" on another network: only one of them is reachable if both are on the same wire",
        ],
    );
    let elsewhere = machine_named("bank", "vault", nic("prod", mac));
    let verdict = create(nic("prod", mac), &with([elsewhere]));
    warns(
        &verdict,
        &[
            "spec.networks[0].macAddress: \"52:54:00:00:00:0a\" is also that of a Machine of another namespace: only one of them is reachable if both are on the same wire",
        ],
    );
    assert!(!format!("{verdict:?}").contains("vault"));
    let terminating = deleted(machine_named("shop", "db", nic("prod", mac)));
    warns(
        &create(nic("prod", mac), &with([terminating])),
        &[
            "spec.networks[0].macAddress: \"52:54:00:00:00:0a\" is still that of Machine \"db\", which is being deleted",
        ],
    );
}

#[test]
fn an_existing_mac_address_conflict_is_a_warning() {
    let mac = "52:54:00:00:00:0a";
    let other = machine_named("shop", "db", nic("prod", mac));
    let mut new = nic("prod", mac);
    new["powerState"] = "Stopped".into();
    let verdict = update(nic("prod", mac), new, &with([other]));
    assert_eq!(verdict.errors, []);
    assert_eq!(verdict.warnings.len(), 1, "{verdict:?}");
}
