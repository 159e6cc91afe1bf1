//! Sixty days of certificates, in virtual time: real keys, real certificates, real handshakes.
//!
//! Readers are slow: a server may answer with any certificate, and a client may trust any bundle,
//! that was the newest within the last [`DELAY`]. Unless a story says otherwise, all of them get on
//! with each other at every moment.

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

/// A kubelet needs up to two minutes to bring a Secret or a ConfigMap into a pod. This is more.
const DELAY: SignedDuration = SignedDuration::from_mins(9);

const API: &str = "kubevirt-virt-api-certs";

fn days(days: i64) -> SignedDuration {
    hours(24 * days)
}

#[test]
fn every_client_gets_on_with_every_server_for_sixty_days() {
    let mut cluster = Cluster::install(DEFAULT);
    cluster.live(days(10));

    cluster.secrets.remove(API);
    cluster.live(days(10));

    // Everything is made anew, twice, without a break.
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
    cluster.live(days(10));
    cluster.settings = DEFAULT;
    cluster.live(days(10));

    // The key is lost, but nobody needs it: what was signed with it is still good, and its
    // certificate still in the bundle.
    let secret = cluster.secrets.get_mut(CA).unwrap();
    secret.data.insert(KEY.to_owned(), "corrupted".to_owned());
    cluster.live(days(10));

    // In the middle of a change of CAs.
    cluster.live_until_next_ca_is_due();
    cluster.look();
    cluster.secrets.remove(CA);
    cluster.live(days(10));

    let cas = cluster.made.iter().filter(|usage| **usage == "ca").count();
    let leaves = cluster.made.len() - cas;
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
fn an_operator_that_is_away_for_three_days_is_missed_only_once_certificates_expire() {
    let mut cluster = Cluster::install(DEFAULT);
    cluster.live(days(3));
    cluster.away(hours(4)).unwrap();
    let expired = cluster.away(days(3)).unwrap_err();
    assert!(expired.contains("Expired"), "{expired}");

    // What it makes is good as soon as it is read.
    cluster.look();
    cluster.check(SignedDuration::ZERO).unwrap();
    cluster.live_after_break(days(5));
}

#[test]
fn with_certificates_of_ten_days_nobody_misses_an_operator_for_three() {
    let lasting = |duration| Lifetime {
        duration,
        renew_before: duration * 2 / 5,
    };
    let settings = Settings {
        ca: lasting(days(30)),
        server: lasting(days(10)),
    };
    let mut before = Cluster::install(settings);
    before.live_until_next_ca_is_due();
    // Away right after each of the writes of a change of CAs.
    for writes in 1..16 {
        let mut cluster = before.clone();
        cluster.look_and_die_after(writes);
        cluster.away(days(3)).unwrap();
        cluster.look_and_die_after(writes);
        cluster.away(hours(12)).unwrap();
        cluster.live(days(6));
    }
}

#[test]
fn with_the_bundle_lost_too_everything_is_good_again_as_soon_as_it_is_read() {
    let mut cluster = Cluster::install(DEFAULT);
    cluster.live(days(1));
    cluster.secrets.remove(CA);
    cluster.bundles.clear();
    cluster.look();
    let broken = cluster.check(minutes(5)).unwrap_err();
    assert!(broken.contains("UnknownIssuer"), "{broken}");
    cluster.check(SignedDuration::ZERO).unwrap();
    cluster.live_after_break(days(7));
}
