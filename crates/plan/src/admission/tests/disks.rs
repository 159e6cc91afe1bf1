//! Disks that are there.

use super::*;

fn claim(disk: &str, size: &str, class: &str) -> api::core::ObservedClaim {
    object(json!({
        "metadata": {"name": format!("web-{disk}"), "namespace": "shop"},
        "spec": {"storageClassName": class, "resources": {"requests": {"storage": size}}},
    }))
}

fn having(claims: impl IntoIterator<Item = api::core::ObservedClaim>) -> Facts {
    Facts {
        claims: claims.into_iter().collect(),
        ..cluster()
    }
}

fn disk(name: &str, size: &str) -> Value {
    json!({"disks": [{"name": name, "size": size}]})
}

#[test]
fn a_size_below_what_there_is_is_refused() {
    let words = "spec.disks[0].size: disk \"root\" has 20Gi and cannot shrink to 10Gi: ask for 20Gi or more";
    let refusal = [("spec.disks[0].size", words)];
    let facts = having([claim("root", "20Gi", "standard")]);
    refuses(&update(json!({}), disk("root", "10Gi"), &facts), &refusal);
    // It is not made yet, but asked for.
    refuses(
        &update(json!({}), disk("root", "10Gi"), &cluster()),
        &refusal,
    );
}

#[test]
fn a_disk_that_was_detached_and_kept_does_not_come_back_smaller() {
    let facts = having([claim("data", "50Gi", "standard")]);
    let verdict = update(json!({}), disk("data", "5Gi"), &facts);
    assert_eq!(verdict.errors.len(), 1, "{verdict:?}");
}

#[test]
fn a_smaller_size_leaves_the_disk_as_it_is() {
    let facts = having([claim("root", "80Gi", "standard")]);
    let verdict = update(
        json!({"template": "large"}),
        json!({"template": "small"}),
        &facts,
    );
    warns(
        &verdict,
        &[
            "spec.disks: disk \"root\" keeps its 80Gi, since disks do not shrink, and does not become 20Gi",
        ],
    );
}

#[test]
fn a_disk_grows_where_its_class_lets_it() {
    let facts = having([claim("root", "20Gi", "standard")]);
    silent(&update(json!({}), disk("root", "30Gi"), &facts));
    let facts = having([claim("root", "20Gi", "fixed")]);
    let why = "disk \"root\" cannot grow from 20Gi to 30Gi: StorageClass \"fixed\" does not allow it; set allowVolumeExpansion in it";
    let refused = format!("spec.disks[0].size: {why} first");
    refuses(
        &update(json!({}), disk("root", "30Gi"), &facts),
        &[("spec.disks[0].size", &refused)],
    );
    // Where it was let in by nobody who knew, nothing but the class helps.
    let mut stopped = disk("root", "30Gi");
    stopped["powerState"] = "Stopped".into();
    let told = format!("spec.disks[0].size: {why}");
    warns(&update(disk("root", "30Gi"), stopped, &facts), &[&told]);
}

#[test]
fn a_growth_that_a_template_brings_can_be_taken_back() {
    let facts = having([claim("root", "20Gi", "fixed")]);
    let large = json!({"template": "large"});
    let verdict = update(json!({"template": "small"}), large.clone(), &facts);
    assert_eq!(verdict.errors, []);
    let [warning] = verdict.warnings.as_slice() else {
        panic!("{verdict:?}");
    };
    assert!(warning.ends_with("set allowVolumeExpansion in it, or ask for 20Gi"));
    let mut asked = large.clone();
    asked["disks"] = json!([{"name": "root", "size": "20Gi"}]);
    silent(&update(large, asked, &facts));
}

#[test]
fn a_disk_that_an_earlier_machine_left_behind_is_told() {
    let facts = having([
        claim("root", "20Gi", "standard"),
        claim("old", "1Gi", "standard"),
    ]);
    warns(
        &create(json!({}), &facts),
        &[
            "spec.disks: PersistentVolumeClaim \"web-root\" was left behind by an earlier Machine of this name: annotate this Machine with vitistack.io/adopt-disks: \"true\" to use it, or delete it",
        ],
    );
    let mut adopting = machine(json!({}));
    adopting.metadata.annotations = object(json!({"vitistack.io/adopt-disks": "true"}));
    silent(&judge(None, &adopting, &facts));
}

#[test]
fn a_disk_that_goes_with_an_earlier_machine_is_not_told() {
    let mut owned = claim("root", "20Gi", "standard");
    owned.metadata.owner_references = object(json!([
        {"apiVersion": "vitistack.io/v1alpha1", "kind": "Machine", "name": "web", "uid": "1"},
    ]));
    let mut going = claim("data", "20Gi", "standard");
    going.metadata.deletion_timestamp = object(json!("2026-01-01T00:00:00Z"));
    silent(&create(disk("data", "20Gi"), &having([owned, going])));
}

#[test]
fn the_class_of_a_disk_that_is_there_is_not_missed() {
    let facts = having([claim("root", "20Gi", "gone")]);
    let listed = json!({"disks": [{"name": "root", "size": "20Gi", "storageClass": "gone"}]});
    let mut stopped = listed.clone();
    stopped["powerState"] = "Stopped".into();
    silent(&update(listed, stopped, &facts));
}
