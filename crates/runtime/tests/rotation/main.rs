//! Certificate rotation over sixty days of virtual time, with real keys and handshakes.
//!
//! Readers are slow: a server may answer with any certificate, and a client may trust any bundle,
//! that was the newest within the last [`DELAY`]. Unless a test says otherwise, all of them trust each
//! other at all times.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod cluster;
mod handshake;
mod webhook;

use cluster::{Cluster, hours, minutes};
use jiff::SignedDuration;
use plan::{
    certificates::{KEY, Lifetime, Settings},
    kubevirt::certificates::{CA, DEFAULT},
};

/// Above the two minutes that a kubelet needs to update a Secret or ConfigMap in a pod.
const DELAY: SignedDuration = SignedDuration::from_mins(9);

const API: &str = "kubevirt-virt-api-certs";

fn days(days: i64) -> SignedDuration {
    hours(24 * days)
}

#[test]
fn every_client_trusts_every_server_for_sixty_days() {
    let mut cluster = Cluster::install(DEFAULT);
    cluster.run(days(10));

    cluster.secrets.remove(API);
    cluster.run(days(10));

    // All certificates are reissued twice.
    cluster.settings = Settings {
        ca: Lifetime {
            duration: hours(96),
            renew_before: hours(24),
        },
        server: Lifetime {
            duration: hours(12),
            renew_before: hours(3),
        },
    };
    cluster.run(days(10));
    cluster.settings = DEFAULT;
    cluster.run(days(10));

    // The lost key is not needed: its certificates are still valid, and the CA is still in the
    // bundle.
    let secret = cluster.secrets.get_mut(CA).unwrap();
    secret.data.insert(KEY.to_owned(), "corrupted".to_owned());
    cluster.run(days(10));

    // During a CA rotation.
    cluster.run_until_next_ca_is_due();
    cluster.reconcile();
    cluster.secrets.remove(CA);
    cluster.run(days(10));

    let cas = cluster
        .issued
        .iter()
        .filter(|usage| **usage == "ca")
        .count();
    let leaves = cluster.issued.len() - cas;
    println!(
        "{cas} CAs and {leaves} certificates, {} handshakes",
        cluster.handshakes
    );
    assert!(cas >= 30, "three CAs, every five and a half days");
    assert!(
        leaves >= 14 * 75,
        "fourteen certificates, every nineteen hours"
    );
}

#[test]
fn an_operator_may_be_down_until_certificates_expire() {
    let mut cluster = Cluster::install(DEFAULT);
    cluster.run(days(3));
    cluster.run_without_operator(hours(4)).unwrap();
    let expired = cluster.run_without_operator(days(3)).unwrap_err();
    assert!(expired.contains("Expired"), "{expired}");

    // New certificates are trusted as soon as clients read them.
    cluster.reconcile();
    cluster.check(SignedDuration::ZERO).unwrap();
    cluster.run_after_outage(days(5));
}

#[test]
fn with_certificates_of_ten_days_an_operator_may_be_down_for_three() {
    let lasting = |duration| Lifetime {
        duration,
        renew_before: duration * 2 / 5,
    };
    let settings = Settings {
        ca: lasting(days(30)),
        server: lasting(days(10)),
    };
    let mut before = Cluster::install(settings);
    before.run_until_next_ca_is_due();
    // The operator is down after each write of a CA rotation.
    for writes in 1..16 {
        let mut cluster = before.clone();
        cluster.reconcile_and_crash_after(writes);
        cluster.run_without_operator(days(3)).unwrap();
        cluster.reconcile_and_crash_after(writes);
        cluster.run_without_operator(hours(12)).unwrap();
        cluster.run(days(6));
    }
}

#[test]
fn a_lost_bundle_is_repaired_as_soon_as_clients_read_it() {
    let mut cluster = Cluster::install(DEFAULT);
    cluster.run(days(1));
    cluster.secrets.remove(CA);
    cluster.bundles.clear();
    cluster.reconcile();
    let broken = cluster.check(minutes(5)).unwrap_err();
    assert!(broken.contains("UnknownIssuer"), "{broken}");
    cluster.check(SignedDuration::ZERO).unwrap();
    cluster.run_after_outage(days(7));
}
