//! Tests of CA bundles.

use rstest::rstest;

use super::*;

fn known(name: &str, from: i64, to: i64) -> BundleCertificate {
    BundleCertificate {
        certificate: name.to_owned(),
        not_before: Time(at(from)),
        not_after: Time(at(to)),
    }
}

fn current(from: i64) -> Pair {
    Pair {
        certificate: "current".to_owned(),
        not_before: Time(at(from)),
        not_after: Time(at(1000)),
        key_matches: true,
        common_name: "kubevirt.io@1".to_owned(),
        dns_names: Vec::new(),
        usage: Some(Usage::Ca),
        signed_by: None,
        next: None,
        duration: None,
        published: None,
        signs: None,
    }
}

/// With an overlap of sixty minutes, at minute 0; CAs are published for ten minutes.
fn merged(
    current: &Pair,
    leaves: &[Pair],
    old: &[BundleCertificate],
    external: &[BundleCertificate],
) -> Bundle {
    let mut settings = DEFAULT;
    settings.ca.renew_before = SignedDuration::from_mins(60);
    bundle(current, leaves, old, external, &settings, &Time(at(0)))
}

fn names(bundle: &Bundle) -> Vec<&str> {
    bundle.text.lines().collect()
}

#[rstest]
#[case::expired(0, &[("a", -20, -10)], &["current"])]
#[case::expired_this_moment(0, &[("a", -20, 0)], &["current"])]
#[case::within_the_overlap(0, &[("a", -20, 60)], &["current", "a"])]
#[case::past_the_overlap(-61, &[("a", -90, 60)], &["current"])]
#[case::one_past_the_overlap(-10, &[("a", -200, 60), ("b", -80, 60)], &["current", "b"])]
#[case::several_past_the_overlap(-70, &[("a", -200, 60), ("b", -90, 60), ("c", -80, 60)], &["current"])]
#[case::newest_first(0, &[("a", -30, 60), ("b", -20, 60), ("c", -25, 60)], &["current", "b", "c", "a"])]
#[case::never_twice(0, &[("a", -20, 60), ("current", 0, 60), ("current\n", 0, 60), ("a", -20, 60)], &["current", "a"])]
fn old_cas_stay_for_the_overlap(
    #[case] made: i64,
    #[case] old: &[(&str, i64, i64)],
    #[case] expected: &[&str],
) {
    let old: Vec<BundleCertificate> = old
        .iter()
        .map(|(name, from, to)| known(name, *from, *to))
        .collect();
    assert_eq!(names(&merged(&current(made), &[], &old, &[])), expected);
}

#[test]
fn an_overlap_begins_when_a_ca_becomes_active() {
    let mut current = current(-500);
    let old = [known("a", -900, 600)];
    assert_eq!(names(&merged(&current, &[], &old, &[])), ["current"]);
    current.signs = Some(Time(at(-59)));
    let bundle = merged(&current, &[], &old, &[]);
    assert_eq!(names(&bundle), ["current", "a"]);
    assert_eq!(bundle.requeue_at, Some(Time(at(1))));
    current.signs = None;
    current.published = Some(Time(at(-69)));
    let bundle = merged(&current, &[], &old, &[]);
    assert_eq!(bundle.requeue_at, Some(Time(at(1))));
}

fn leaf(made: i64, signer: &str) -> Pair {
    Pair {
        not_before: Time(at(made - 5)),
        signed_by: Some(Signer {
            fingerprint: Fingerprint::of(signer),
            not_after: Time(at(600)),
        }),
        ..current(0)
    }
}

#[test]
fn a_ca_stays_while_a_certificate_of_it_is_in_use() {
    let old = [known("a", -900, 600), known("b", -950, 600)];
    let leaves = [leaf(-100, "current"), leaf(-100, "a")];
    let bundle = merged(&current(-500), &leaves, &old, &[]);
    assert_eq!(names(&bundle), ["current", "a"]);
    assert_eq!(bundle.requeue_at, Some(Time(at(600))));
}

#[test]
fn a_ca_stays_until_servers_load_certificates_of_its_successor() {
    let old = [known("a", -900, 600)];
    let bundle = merged(&current(-500), &[leaf(-9, "current")], &old, &[]);
    assert_eq!(names(&bundle), ["current", "a"]);
    assert_eq!(bundle.requeue_at, Some(Time(at(1))));
    let bundle = merged(&current(-500), &[leaf(-10, "current")], &old, &[]);
    assert_eq!(names(&bundle), ["current"]);
}

#[test]
fn the_next_ca_is_trusted_before_it_signs() {
    let mut current = current(-500);
    let mut next = current.clone();
    next.certificate = "next\n".to_owned();
    current.next = Some(Box::new(next));
    assert_eq!(names(&merged(&current, &[], &[], &[])), ["next", "current"]);
}

#[test]
fn external_cas_are_trusted_while_they_are_valid() {
    let external = [
        known("x", -900, 30),
        known("expired", -900, 0),
        known("later", 10, 900),
        known("x\n", -900, 30),
        known("current", -500, 900),
    ];
    let bundle = merged(&current(-500), &[], &[known("x", -900, 30)], &external);
    assert_eq!(names(&bundle), ["current", "x"]);
    assert_eq!(bundle.requeue_at, Some(Time(at(10))));
    let bundle = merged(&current(-500), &[], &[known("x", -900, 30)], &[]);
    assert_eq!(names(&bundle), ["current"], "the external CA was removed");
}

#[test]
fn a_bundle_is_bounded() {
    let numbers: Vec<String> = (0..60).map(|number| format!("old-{number}")).collect();
    let mut old: Vec<BundleCertificate> = numbers
        .iter()
        .zip(1..)
        .map(|(name, age)| known(name, -age, 60))
        .collect();
    old.push(known("used", -900, 60));
    let external = [known("x", -900, 60)];
    let bundle = merged(&current(0), &[leaf(-30, "used")], &old, &external);
    let names = names(&bundle);
    assert_eq!(names.len(), MAX_BUNDLE_CERTIFICATES);
    assert_eq!(names[..3], ["current", "old-0", "old-1"]);
    assert_eq!(names.last(), Some(&"used"));
}

#[test]
fn a_correct_bundle_does_not_change() {
    let old = [known("a", -20, 60), known("b", -30, 60)];
    let external = [known("x", -90, 60)];
    let once = merged(&current(0), &[], &old, &external);
    let again = [
        known("current", 0, 1000),
        known("a", -20, 60),
        known("b", -30, 60),
        known("x", -90, 60),
    ];
    assert_eq!(merged(&current(0), &[], &again, &external), once);
    assert!(bundle_contains(&once.text, "b\n"));
    assert!(!bundle_contains(&once.text, "z"));
}

#[test]
fn the_propagation_time_is_minutes_or_part_of_the_overlap() {
    let mut settings = DEFAULT;
    assert_eq!(settings.propagation(), SignedDuration::from_mins(10));
    settings.ca.renew_before = SignedDuration::from_mins(8);
    assert_eq!(settings.propagation(), SignedDuration::from_mins(2));
}
