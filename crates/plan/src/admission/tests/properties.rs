//! Properties of the review of any change.

use proptest::prelude::*;

use super::*;

/// Specs, some with errors, and some with missing references.
fn spec() -> impl Strategy<Value = Value> {
    let size = prop::option::of(prop::sample::select(vec!["small", "large", "gold"]));
    let memory = prop::option::of(prop::sample::select(vec!["1Gi", "x", "1m"]));
    let disk = (
        prop::sample::select(vec!["root", "data", "iso", "Bad"]),
        prop::option::of(prop::sample::select(vec!["1Gi", "90Gi", "y"])),
    );
    let disks = prop::collection::vec(disk, 0..4);
    let mac = prop::sample::select(vec!["52:54:00:00:00:01", "53:54:00:00:00:01", "z"]);
    let networks = prop::collection::vec((prop::sample::select(vec!["prod", "lost"]), mac), 0..3);
    (size, memory, disks, networks).prop_map(|(template, memory, disks, networks)| {
        let disks: Vec<Value> = disks
            .into_iter()
            .map(|(name, size)| json!({"name": name, "size": size}))
            .collect();
        let networks: Vec<Value> = networks
            .into_iter()
            .enumerate()
            .map(|(index, (network, mac))| {
                json!({"name": format!("n{index}"), "networkName": network, "macAddress": mac})
            })
            .collect();
        json!({"template": template, "memory": memory, "disks": disks, "networks": networks})
    })
}

/// A cluster in which many names and addresses are in use.
fn crowded() -> ReviewContext {
    let networks = json!([
        {"name": "lan", "networkName": "prod", "macAddress": "52:54:00:00:00:01"},
    ]);
    let other = machine_named("shop", "db", json!({"name": "web", "networks": networks}));
    let quota = json!({
        "metadata": {"name": "none"}, "status": {"hard": {"requests.storage": "0"}},
    });
    let claim = json!({
        "metadata": {"name": "web-data"},
        "spec": {"resources": {"requests": {"storage": "50Gi"}}},
    });
    ReviewContext {
        quotas: vec![object(quota)],
        claims: vec![object(claim)],
        ..with([other])
    }
}

proptest! {
    #[test]
    fn an_update_that_leaves_the_spec_as_it_is_passes(spec in spec()) {
        prop_assert_eq!(update(spec.clone(), spec, &crowded()), Verdict::default());
    }

    #[test]
    fn what_is_being_deleted_passes(old in spec(), new in spec()) {
        let (old, new) = (deleted(machine(old)), deleted(machine(new)));
        prop_assert_eq!(review(Some(&old), &new, &crowded()), Verdict::default());
    }

    #[test]
    fn what_is_refused_of_an_update_would_be_refused_of_a_new_machine(
        old in spec(), new in spec(),
    ) {
        let context = ReviewContext { claims: Vec::new(), ..crowded() };
        let created = create(new.clone(), &context);
        for refusal in update(old, new, &context).errors {
            let known = created.errors.iter().any(|error| error.message == refusal.message);
            prop_assert!(known, "{refusal:?} {created:?}");
        }
    }

    #[test]
    fn a_machine_with_any_problems_can_be_emptied(old in spec()) {
        // Memory may shrink, disks that are not listed keep their size.
        let verdict = update(old, json!({}), &crowded());
        prop_assert_eq!(verdict.errors, []);
    }

    #[test]
    fn every_refusal_names_its_field(spec in spec()) {
        for refusal in create(spec, &crowded()).errors {
            let begins = format!("{}: ", refusal.field);
            prop_assert!(refusal.message.starts_with(&begins), "{refusal:?}");
        }
    }
}
