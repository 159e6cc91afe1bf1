//! Existing disks.

use api::{OwnerReference, core::ObservedClaim};
use rstest::rstest;

use super::*;

fn claim(disk: &str, size: &str, class: &str) -> ObservedClaim {
    object(json!({
        "metadata": {
            "name": format!("web-{disk}"), "namespace": "shop",
            "annotations": {"vitistack.io/machine-uid": "1"},
        },
        "spec": {"storageClassName": class, "resources": {"requests": {"storage": size}}},
    }))
}

fn having(claims: impl IntoIterator<Item = ObservedClaim>) -> ReviewContext {
    ReviewContext {
        claims: claims.into_iter().collect(),
        ..cluster()
    }
}

fn owned_by(api_version: &str, kind: &str, uid: &str) -> Option<Vec<OwnerReference>> {
    object(json!([
        {"apiVersion": api_version, "kind": kind, "name": "web", "uid": uid, "controller": true},
    ]))
}

/// The disk `root` as CDI created it: 6 % larger than its DataVolume states.
fn filled(stated: &str, claim_size: &str, class: &str) -> ReviewContext {
    let mut claim = claim("root", claim_size, class);
    claim.metadata.annotations = None;
    claim.metadata.owner_references = owned_by("cdi.kubevirt.io/v1beta1", "DataVolume", "2");
    let storage = json!({"resources": {"requests": {"storage": stated}}});
    ReviewContext {
        data_volumes: vec![object(json!({
            "metadata": {
                "name": "web-root", "namespace": "shop", "uid": "2",
                "ownerReferences": owned_by("vitistack.io/v1alpha1", "Machine", "1"),
            },
            "spec": {"storage": storage},
        }))],
        ..having([claim])
    }
}

/// The claim size that CDI requests for 20Gi.
const INFLATED: &str = "22763326669";

/// A Machine whose disk is filled from an image, with additional fields.
fn from_image(fields: Value) -> Value {
    let mut root = json!({"name": "root", "source": {"http": {"url": "http://images/debian"}}});
    root.as_object_mut()
        .unwrap()
        .extend(fields.as_object().unwrap().clone());
    json!({"disks": [root]})
}

fn disk(name: &str, size: &str) -> Value {
    json!({"disks": [{"name": name, "size": size}]})
}

#[test]
fn a_size_below_the_current_one_is_refused() {
    let message = "spec.disks[0].size: disk \"root\" has 20Gi and cannot shrink to 10Gi: ask for 20Gi or more";
    let refusal = [("spec.disks[0].size", message)];
    let context = having([claim("root", "20Gi", "standard")]);
    refuses(&update(json!({}), disk("root", "10Gi"), &context), &refusal);
}

#[test]
fn a_disk_that_was_never_created_can_be_smaller() {
    let large = json!({"template": "large"});
    let mut less = large.clone();
    less["disks"] = json!([{"name": "root", "size": "40Gi"}]);
    silent(&update(large, less, &cluster()));
    // CDI waits for room in a quota.
    let mut context = filled("20Gi", INFLATED, "standard");
    context.claims.clear();
    let less = update(
        from_image(json!({})),
        from_image(json!({"size": "10Gi"})),
        &context,
    );
    warns(
        &less,
        &[
            "spec.disks: disk \"root\" becomes 20Gi, as DataVolume \"web-root\" says: list it under another name to create it with 10Gi",
        ],
    );
}

#[test]
fn a_disk_that_was_detached_and_kept_does_not_come_back_smaller() {
    let context = having([claim("data", "50Gi", "standard")]);
    let verdict = update(json!({}), disk("data", "5Gi"), &context);
    assert_eq!(verdict.errors.len(), 1, "{verdict:?}");
}

#[test]
fn the_overhead_that_cdi_adds_does_not_count_as_size() {
    let context = filled("20Gi", INFLATED, "fixed");
    let mut stopped = from_image(json!({}));
    stopped["powerState"] = "Stopped".into();
    silent(&update(from_image(json!({})), stopped, &context));
    for size in ["20Gi", "21Gi"] {
        let sized = from_image(json!({"size": size}));
        silent(&update(from_image(json!({})), sized.clone(), &context));
        // It was detached meanwhile.
        silent(&update(json!({}), sized, &context));
    }
    let message = |change: &str| format!("spec.disks[0].size: disk \"root\" {change}");
    let less = from_image(json!({"size": "19Gi"}));
    let less = update(json!({}), less, &context);
    let cannot = message("has 20Gi and cannot shrink to 19Gi: ask for 20Gi or more");
    refuses(&less, &[("spec.disks[0].size", &cannot)]);
    let more = from_image(json!({"size": "30Gi"}));
    let more = update(from_image(json!({})), more, &context);
    let begins = message("cannot grow from 20Gi to 30Gi");
    assert!(more.message().starts_with(&begins), "{more:?}");
}

#[test]
fn what_a_disk_of_cdi_has_grown_to_does_not_shrink() {
    let context = filled("20Gi", "80Gi", "standard");
    let of = |template: &str| {
        let mut spec = from_image(json!({}));
        spec["template"] = template.into();
        spec
    };
    let verdict = update(of("large"), of("small"), &context);
    warns(
        &verdict,
        &[
            "spec.disks: disk \"root\" keeps its 80Gi, since disks do not shrink, and does not become 20Gi",
        ],
    );
}

#[test]
fn a_disk_of_which_cdi_keeps_no_record_is_not_measured() {
    let mut context = filled("20Gi", INFLATED, "standard");
    context.data_volumes.clear();
    context.claims[0].metadata.owner_references = owned_by("vitistack.io/v1alpha1", "Machine", "1");
    silent(&update(
        json!({}),
        from_image(json!({"size": "20Gi"})),
        &context,
    ));
}

#[test]
fn a_smaller_size_leaves_the_disk_as_it_is() {
    let context = having([claim("root", "80Gi", "standard")]);
    let verdict = update(
        json!({"template": "large"}),
        json!({"template": "small"}),
        &context,
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
    let context = having([claim("root", "20Gi", "standard")]);
    silent(&update(json!({}), disk("root", "30Gi"), &context));
    let context = having([claim("root", "20Gi", "fixed")]);
    let why = "disk \"root\" cannot grow from 20Gi to 30Gi: StorageClass \"fixed\" does not allow it; set allowVolumeExpansion in it";
    let refused = format!("spec.disks[0].size: {why}");
    refuses(
        &update(json!({}), disk("root", "30Gi"), &context),
        &[("spec.disks[0].size", &refused)],
    );
    // A size that was accepted without this check can only be fixed in the class.
    let mut stopped = disk("root", "30Gi");
    stopped["powerState"] = "Stopped".into();
    let warning = format!("spec.disks[0].size: {why}");
    warns(
        &update(disk("root", "30Gi"), stopped, &context),
        &[&warning],
    );
}

#[rstest]
#[case::class(json!({"machineClass": "gold"}))]
#[case::network(json!({"networks": [{"name": "lan", "networkName": "lost"}]}))]
#[case::secret(json!({"cloudInit": {"secretRef": {"name": "lost"}}}))]
#[case::another_disk(json!({"template": "small"}))]
fn a_growth_that_cannot_be_had_is_refused_whatever_else_is_missing(#[case] missing: Value) {
    let context = having([claim("root", "20Gi", "fixed")]);
    let mut new = missing.clone();
    new["disks"] = json!([
        {"name": "root", "size": "30Gi"},
        {"name": "data", "size": "1Gi", "storageClass": "lost"},
    ]);
    let mut old = new.clone();
    old["disks"][0]["size"] = "20Gi".into();
    for old in [json!({}), old] {
        let verdict = update(old, new.clone(), &context);
        let fields: Vec<_> = verdict.errors.iter().map(|error| &*error.field).collect();
        assert_eq!(fields, ["spec.disks[0].size"], "{verdict:?}");
        assert!(!verdict.warnings.is_empty());
    }
}

#[rstest]
#[case::gone(
    "gone",
    "StorageClass \"gone\" does not exist; create it with allowVolumeExpansion"
)]
#[case::without("", "its claim has no StorageClass; add another disk")]
fn a_disk_does_not_grow_without_its_class(#[case] class: &str, #[case] why: &str) {
    let mut context = having([claim("root", "20Gi", class)]);
    let message = format!("spec.disks[0].size: disk \"root\" cannot grow from 20Gi to 30Gi: {why}");
    refuses(
        &update(json!({}), disk("root", "30Gi"), &context),
        &[("spec.disks[0].size", &message)],
    );
    context.surroundings.storage_classes = Known::default();
    let is_known = class.is_empty();
    let verdict = update(json!({}), disk("root", "30Gi"), &context);
    assert_eq!(verdict.is_allowed(), !is_known, "{verdict:?}");
}

#[test]
fn growth_by_a_template_can_be_undone() {
    let context = having([claim("root", "20Gi", "fixed")]);
    let large = json!({"template": "large"});
    let verdict = update(json!({"template": "small"}), large.clone(), &context);
    assert_eq!(verdict.errors, []);
    let [warning] = verdict.warnings.as_slice() else {
        panic!("{verdict:?}");
    };
    assert!(warning.ends_with("set allowVolumeExpansion in it, or ask for 20Gi"));
    let mut listed = large.clone();
    listed["disks"] = json!([{"name": "root", "size": "20Gi"}]);
    silent(&update(large, listed, &context));
}

/// A claim of an earlier Machine.
fn left(mut claim: ObservedClaim) -> ObservedClaim {
    claim.metadata.annotations = object(json!({"vitistack.io/machine-uid": "0"}));
    claim
}

#[test]
fn a_disk_of_an_earlier_machine_is_a_warning() {
    let context = having([
        left(claim("root", "20Gi", "standard")),
        left(claim("old", "1Gi", "standard")),
    ]);
    warns(
        &create(json!({}), &context),
        &[
            "spec.disks: PersistentVolumeClaim \"web-root\" was left behind by an earlier Machine of this name: annotate this Machine with vitistack.io/adopt-disks: \"true\" to use it, or give this Machine another name",
        ],
    );
    // Nothing hides it.
    let verdict = create(
        json!({"cloudInit": {"secretRef": {"name": "lost"}}}),
        &context,
    );
    assert_eq!(verdict.warnings.len(), 2, "{verdict:?}");
    let mut adopting = machine(json!({}));
    adopting.metadata.annotations = object(json!({"vitistack.io/adopt-disks": "true"}));
    silent(&review(None, &adopting, &context));
}

#[test]
fn a_data_volume_of_an_earlier_machine_is_a_warning() {
    let mut context = filled("20Gi", INFLATED, "standard");
    context.data_volumes[0].metadata.owner_references = None;
    let verdict = create(from_image(json!({})), &context);
    assert_eq!(verdict.errors, []);
    let [warning] = verdict.warnings.as_slice() else {
        panic!("{verdict:?}");
    };
    assert!(warning.starts_with("spec.disks: DataVolume \"web-root\" was left behind"));
}

#[test]
fn foreign_and_terminating_disks_are_not_compared() {
    let large = || claim("root", "80Gi", "fixed");
    let mut terminating = large();
    terminating.metadata.deletion_timestamp = object(json!("2026-01-01T00:00:00Z"));
    let mut foreign = large();
    foreign.metadata.owner_references = owned_by("apps/v1", "StatefulSet", "9");
    for claim in [terminating, foreign, left(large())] {
        silent(&update(json!({}), disk("root", "10Gi"), &having([claim])));
    }
}

#[test]
fn a_terminating_disk_of_an_earlier_machine_is_not_a_warning() {
    let mut owned = left(claim("root", "20Gi", "standard"));
    owned.metadata.owner_references = owned_by("vitistack.io/v1alpha1", "Machine", "0");
    let mut terminating = left(claim("data", "20Gi", "standard"));
    terminating.metadata.deletion_timestamp = object(json!("2026-01-01T00:00:00Z"));
    silent(&create(disk("data", "20Gi"), &having([owned, terminating])));
}

#[test]
fn a_missing_class_of_an_existing_disk_is_not_an_error() {
    let context = having([claim("root", "20Gi", "gone")]);
    let listed = json!({"disks": [{"name": "root", "size": "20Gi", "storageClass": "gone"}]});
    let mut stopped = listed.clone();
    stopped["powerState"] = "Stopped".into();
    silent(&update(listed, stopped, &context));
}

fn in_modes(access: &str, volume: &str) -> ReviewContext {
    let mut claim = claim("root", "20Gi", "standard");
    claim.spec.access_modes = object(json!([access]));
    claim.spec.volume_mode = object(json!(volume));
    having([claim])
}

fn listing(fields: Value) -> Value {
    let mut root = json!({"name": "root", "size": "20Gi"});
    root.as_object_mut()
        .unwrap()
        .extend(fields.as_object().unwrap().clone());
    json!({"disks": [root]})
}

#[rstest]
#[case(json!({"accessMode": "ReadWriteMany"}), "spec.disks[0].accessMode", "ReadWriteOnce")]
#[case(json!({"volumeMode": "Block"}), "spec.disks[0].volumeMode", "Filesystem")]
fn a_mode_that_the_claim_does_not_have_is_refused(
    #[case] listed: Value,
    #[case] field: &str,
    #[case] has: &str,
) {
    let context = in_modes("ReadWriteOnce", "Filesystem");
    let message = format!(
        "{field}: disk \"root\" stays {has}, as its PersistentVolumeClaim web-root is and cannot \
         change: set {has}, or add another disk and copy the data"
    );
    let verdict = update(listing(json!({})), listing(listed.clone()), &context);
    refuses(&verdict, &[(field, &message)]);
    // What was listed before the claim's modes were compared does not block other changes.
    let mut other = listing(listed.clone());
    other["powerState"] = json!("Stopped");
    warns(&update(listing(listed), other, &context), &[&message]);
}

#[test]
fn the_mode_of_the_claim_is_allowed() {
    let listed = json!({"accessMode": "ReadWriteOnce", "volumeMode": "Filesystem"});
    let context = in_modes("ReadWriteOnce", "Filesystem");
    silent(&update(listing(json!({})), listing(listed), &context));
}
