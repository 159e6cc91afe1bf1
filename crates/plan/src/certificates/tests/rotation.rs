//! Tests of rotation.

use rstest::rstest;

use super::{world::*, *};

const API: &str = "kubevirt-virt-api-certs";

fn installed() -> World {
    let mut world = World::new(DEFAULT);
    world.run(usize::MAX).unwrap();
    world.writes = 0;
    world
}

fn reasons(plan: &Certificates) -> Vec<(&str, &str)> {
    let issues = plan.authorities.iter().chain(&plan.leaves);
    issues
        .map(|issue| (&*issue.secret, &*issue.reason))
        .collect()
}

#[test]
fn an_installation_writes_each_object_once() {
    let mut world = World::new(DEFAULT);
    world.run(usize::MAX).unwrap();
    assert_eq!(
        world.writes,
        SECRETS.len() + 3,
        "and two bundles, and a webhook"
    );
    for secret in &SECRETS[2..] {
        assert_eq!(world.signer(secret), world.active(CA));
    }
    assert!(reasons(&world.plan()).is_empty());
}

#[test]
fn a_certificate_is_valid_before_its_creation_but_not_before_its_ca() {
    let mut world = installed();
    let ca = world.find(world.active(CA)).unwrap().new.clone();
    assert_eq!(ca.not_before.0, at(-5));
    assert_eq!(ca.not_after.0, at(168 * 60));
    assert_eq!(ca.common_name, "kubevirt.io@1700000000");
    assert_eq!(ca.duration, "&Duration{Duration:168h0m0s,}");
    let leaf = world.find(world.active(API)).unwrap().new.clone();
    assert_eq!(leaf.not_before, ca.not_before);
    assert_eq!(leaf.not_after.0, at(24 * 60));
    world.run_until(at(30 * 60));
    let leaf = &world.find(world.active(API)).unwrap().new;
    assert_eq!(leaf.not_before.0, at(19 * 60 + 12 - 5));
}

#[test]
fn a_certificate_is_renewed_when_a_fifth_of_its_time_is_left() {
    let mut world = installed();
    let due = at(19 * 60 + 12);
    assert_eq!(world.plan().requeue_at, Some(Time(due)));
    world.now = due - SignedDuration::from_nanos(1);
    assert!(reasons(&world.plan()).is_empty());
    world.now = due;
    let plan = world.plan();
    assert_eq!(plan.leaves.len(), 3);
    assert_eq!(reasons(&plan)[0], (API, "the certificate expires soon"));
}

#[test]
fn export_and_backup_cas_have_the_lifetime_of_cas() {
    let mut world = installed();
    let due = at(168 * 60 - (33 * 60 + 36));
    world.run_until(due - SignedDuration::from_secs(1));
    assert!(
        !world.secrets["kubevirt-export-ca"]
            .data
            .contains_key(NEXT_KEY)
    );
    world.run_until(due);
    assert!(
        world.secrets["kubevirt-export-ca"]
            .data
            .contains_key(NEXT_KEY)
    );
}

#[test]
fn a_ca_is_published_before_it_signs_and_trusted_afterwards() {
    let mut world = installed();
    let due = at(168 * 60 - (33 * 60 + 36));
    let first = world.active(CA).to_owned();
    world.run_until(due);
    let next = world.secrets[CA].data[NEXT_CERTIFICATE].clone();
    assert_eq!(world.active(CA), first);
    assert_eq!(world.bundles[CA], format!("{next}\n{first}\n"));
    assert_eq!(world.webhook, world.bundles[CA]);
    assert_eq!(world.signer(API), first);

    let promoted = due + SignedDuration::from_mins(10);
    world.run_until(promoted - SignedDuration::from_secs(1));
    assert_eq!(world.active(CA), first);
    world.run_until(promoted);
    assert_eq!(world.active(CA), next);
    assert!(
        !world.secrets[CA].data.contains_key(NEXT_KEY),
        "its key is in place"
    );
    assert_eq!(world.bundles[CA], format!("{next}\n{first}\n"));
    for secret in &SECRETS[2..] {
        assert_eq!(world.signer(secret), next);
    }

    world.run_until(at(168 * 60));
    assert_eq!(world.bundles[CA], format!("{next}\n"), "it has expired");
}

#[test]
fn certificates_are_reissued_long_before_their_ca_expires() {
    let mut world = installed();
    let first = world.active(CA).to_owned();
    let middle = at(168 * 60) - hours(168) / 10;
    world.run_until(middle);
    for secret in &SECRETS[2..] {
        assert_ne!(world.signer(secret), first);
    }
}

#[test]
fn the_active_ca_signs_until_the_next_one_is_promoted() {
    let mut world = installed();
    world.run_until(at(168 * 60 - (33 * 60 + 36)));
    let first = world.active(CA).to_owned();
    world.secrets.remove(API);
    world.run(usize::MAX).unwrap();
    assert_eq!(world.signer(API), first);
}

#[rstest]
#[case::gone(|world: &mut World| { world.secrets.remove(API); }, "the certificate is missing or cannot be read")]
#[case::unreadable(|world: &mut World| { world.secrets.get_mut(API).unwrap().data.insert(CERTIFICATE.to_owned(), "?".to_owned()); }, "the certificate is missing or cannot be read")]
#[case::key_of_another(|world: &mut World| { world.secrets.get_mut(API).unwrap().data.insert(KEY.to_owned(), "?".to_owned()); }, "the key does not match the certificate")]
#[case::no_key(|world: &mut World| { world.secrets.get_mut(API).unwrap().data.remove(KEY); }, "the key does not match the certificate")]
#[case::a_clients(|world: &mut World| { copy(world, "kubevirt-virt-handler-certs"); }, "the certificate has another usage")]
#[case::another_servers(|world: &mut World| { copy(world, "kubevirt-virt-handler-server-certs"); }, "the certificate has other names")]
#[case::a_cas(|world: &mut World| { copy(world, CA); }, "the certificate has another usage")]
#[case::other_duration(|world: &mut World| { world.secrets.get_mut(API).unwrap().annotations.clear(); }, "the configured lifetime has changed")]
fn a_wrong_leaf_certificate_is_reissued_at_once(
    #[case] harm: fn(&mut World),
    #[case] reason: &str,
) {
    let mut world = installed();
    harm(&mut world);
    assert_eq!(reasons(&world.plan()), [(API, reason)]);
    world.run(usize::MAX).unwrap();
    assert_eq!(world.writes, 1);
    assert_eq!(world.signer(API), world.active(CA));
    assert!(reasons(&world.plan()).is_empty());
}

fn copy(world: &mut World, from: &str) {
    let data = world.secrets[from].data.clone();
    world.secrets.get_mut(API).unwrap().data = data;
}

#[test]
fn an_annotation_in_another_format_causes_no_renewal() {
    let mut world = installed();
    let annotations = &mut world.secrets.get_mut(API).unwrap().annotations;
    annotations.insert(DURATION.to_owned(), "1440m".to_owned());
    assert!(reasons(&world.plan()).is_empty());
}

#[test]
fn a_lost_ca_is_replaced_and_its_certificates_stay_until_the_new_one_is_published() {
    let mut world = installed();
    world.run_until(at(60));
    let (lost, leaf) = (world.active(CA).to_owned(), world.active(API).to_owned());
    world.secrets.remove(CA);
    world.run(usize::MAX).unwrap();
    let new = world.active(CA).to_owned();
    assert_ne!(new, lost);
    assert_eq!(world.bundles[CA], format!("{new}\n{lost}\n"));
    assert_eq!(world.active(API), leaf);

    world.run_until(at(70) - SignedDuration::from_secs(1));
    assert_eq!(world.active(API), leaf);
    world.run_until(at(70));
    assert_eq!(world.signer(API), new);
    assert_eq!(world.bundles[CA], format!("{new}\n{lost}\n"));
}

#[test]
fn without_a_bundle_everything_is_signed_again_at_once() {
    let mut world = installed();
    world.secrets.remove(CA);
    world.bundles.clear();
    world.run(usize::MAX).unwrap();
    let new = world.active(CA).to_owned();
    assert_eq!(world.bundles[CA], format!("{new}\n"));
    for secret in &SECRETS[2..] {
        assert_eq!(world.signer(secret), new);
    }
}

#[test]
fn an_expired_ca_is_replaced_at_once_with_its_certificates() {
    let mut world = installed();
    world.now = at(200 * 60);
    assert_eq!(
        reasons(&world.plan())[0],
        (CA, "the certificate has expired")
    );
    world.run(usize::MAX).unwrap();
    let new = world.active(CA).to_owned();
    assert_eq!(world.bundles[CA], format!("{new}\n"));
    for secret in &SECRETS[2..] {
        assert_eq!(world.signer(secret), new);
    }
    assert_eq!(world.verify(SignedDuration::ZERO), Ok(()));
}

#[test]
fn a_broken_next_ca_is_reissued_and_published_again() {
    let mut world = installed();
    let due = at(168 * 60 - (33 * 60 + 36));
    world.run_until(due + SignedDuration::from_mins(5));
    let data = &mut world.secrets.get_mut(CA).unwrap().data;
    let broken = data[NEXT_CERTIFICATE].clone();
    data.insert(NEXT_KEY.to_owned(), "?".to_owned());
    world.run_until(due + SignedDuration::from_mins(14));
    let next = world.secrets[CA].data[NEXT_CERTIFICATE].clone();
    assert_ne!(next, broken);
    world.run_until(due + SignedDuration::from_mins(15));
    assert_eq!(world.active(CA), next);
}

#[test]
fn a_next_ca_is_promoted_when_the_active_one_is_broken() {
    let mut world = installed();
    world.run_until(at(168 * 60 - (33 * 60 + 36)));
    let data = &mut world.secrets.get_mut(CA).unwrap().data;
    let next = data[NEXT_CERTIFICATE].clone();
    data.insert(KEY.to_owned(), "?".to_owned());
    world.run(usize::MAX).unwrap();
    assert_eq!(world.active(CA), next);
}

#[test]
fn a_late_operator_publishes_for_half_of_the_remaining_time() {
    let mut world = installed();
    world.now = at(168 * 60 - 8);
    let first = world.active(CA).to_owned();
    world.run(usize::MAX).unwrap();
    assert_eq!(world.signer(API), first);
    world.run_until(at(168 * 60 - 4));
    assert_ne!(world.signer(API), first);
    assert_eq!(world.verify(SignedDuration::from_mins(3)), Ok(()));
}

#[test]
fn a_bundle_that_cannot_be_written_does_not_delay_promotion_for_ever() {
    let mut world = installed();
    world.run_until(at(168 * 60 - (33 * 60 + 36)) - SignedDuration::from_secs(1));
    let mut pairs = world.pairs();
    let current = pairs[CA].clone();
    let mut next = current.clone();
    next.not_after.0 += hours(100);
    next.certificate = "next".to_owned();
    pairs.get_mut(CA).unwrap().next = Some(Box::new(next));
    let plan = |now| {
        let none = std::collections::BTreeSet::new();
        let wanted = [(CA, profile(CA, NAMESPACE))];
        plan_certificates(wanted, CA, &world.settings, &pairs, &none, &Time(now))
    };
    let early = plan(current.not_after.0 - SignedDuration::from_secs(1));
    assert!(early.authorities.is_empty());
    assert_eq!(early.requeue_at.as_ref(), Some(&current.not_after));
    let end = current.not_after.0;
    let expected = [(CA, "the certificate has expired")];
    assert_eq!(reasons(&plan(end)), expected);
    assert_eq!(
        plan(end).authorities[0].change,
        SecretChange::Promote(Time(end))
    );
}

#[test]
fn new_lifetimes_apply_without_interruption() {
    let mut world = installed();
    world.run_until(at(60));
    let first = world.active(CA).to_owned();
    world.settings.ca = Lifetime {
        duration: hours(48),
        renew_before: hours(12),
    };
    world.settings.server = Lifetime {
        duration: hours(6),
        renew_before: hours(2),
    };
    world.run(usize::MAX).unwrap();
    assert_eq!(
        world.secrets[API].annotations[DURATION],
        "&Duration{Duration:6h0m0s,}"
    );
    assert_eq!(world.signer(API), first, "by the active CA");
    assert_eq!(world.verify(SignedDuration::from_mins(10)), Ok(()));
    world.run_until(at(71));
    assert_ne!(world.active(CA), first);
    assert_eq!(
        world.secrets[CA].annotations[DURATION],
        "&Duration{Duration:48h0m0s,}"
    );
    assert_eq!(world.verify(SignedDuration::from_mins(9)), Ok(()));
    world.run_until(at(70 + 12 * 60 - 1));
    assert!(bundle_contains(&world.bundles[CA], &first));
    world.run_until(at(70 + 12 * 60));
    assert!(
        !bundle_contains(&world.bundles[CA], &first),
        "it has not been needed for long"
    );
}

#[test]
fn certificates_of_virt_operator_are_kept() {
    let mut world = installed();
    // Its certificates are as old as their CA.
    for made in world.made.values_mut() {
        made.new.not_before = Time(at(0));
    }
    for secret in world.secrets.values_mut() {
        secret.annotations.retain(|name, _| name == DURATION);
    }
    world.now = at(60);
    world.run(usize::MAX).unwrap();
    assert_eq!(world.writes, 0);
}
